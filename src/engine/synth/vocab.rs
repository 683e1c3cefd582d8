//! A byte-level BPE vocabulary of any size, made from a rule.
//!
//! 256 byte tokens, then one token for each merge, then 16 special tokens. The merges: two letters ("ab"), a space
//! before two letters (" ab"), and two letters more (" abcd"). So every token can come out of text and be said as
//! text, and each merge joins two tokens that are there.

use crate::engine::gguf::StrArray;

/// The values of `tokenizer.ggml.token_type`.
const NORMAL: i32 = 1;
const CONTROL: i32 = 3;

const N_BYTES: usize = 256;
const N_SPECIAL: usize = 16;

/// How a space is written in byte-level BPE.
const SPACE: char = '\u{120}';

pub(super) struct Vocab {
    pub(super) tokens: StrArray,
    pub(super) token_types: Vec<i32>,
    pub(super) merges: StrArray,
    pub(super) bos: u32,
    pub(super) eos: u32,
    pub(super) padding: u32,
}

/// A vocabulary of `n` tokens, from 272 to 458,600.
pub(super) fn vocab(n: usize) -> Vocab {
    let mut tokens = StrArray::default();
    let mut merges = StrArray::default();
    for byte in 0..=255 {
        tokens.push(byte_char(byte).encode_utf8(&mut [0; 4]));
    }
    for (left, right) in pairs().take(n.saturating_sub(N_BYTES + N_SPECIAL)) {
        merges.push(&format!("{left} {right}"));
        tokens.push(&(left + &right));
    }
    let mut token_types = vec![NORMAL; tokens.len()];
    let first_special = tokens.len() as u32;
    for name in ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|pad|>"] {
        tokens.push(name);
    }
    for i in 4..N_SPECIAL {
        tokens.push(&format!("<|reserved_{i}|>"));
    }
    token_types.resize(tokens.len(), CONTROL);
    Vocab { tokens, token_types, merges, bos: first_special, eos: first_special + 2, padding: first_special + 3 }
}

fn pairs() -> impl Iterator<Item = (String, String)> {
    let two_letters = || ('a'..='z').flat_map(|a| ('a'..='z').map(move |b| format!("{a}{b}")));
    let letters = ('a'..='z').flat_map(|a| ('a'..='z').map(move |b| (a.to_string(), b.to_string())));
    let words = two_letters().map(|word| (SPACE.to_string(), word));
    let longer =
        two_letters().flat_map(move |end| two_letters().map(move |start| (format!("{SPACE}{start}"), end.clone())));
    letters.chain(words).chain(longer)
}

/// The character that stands for a byte: itself where it is printable, else one from U+0100 on, in order.
/// Source: `bytes_to_unicode` of GPT-2.
fn byte_char(byte: u8) -> char {
    let printable = |byte: u8| matches!(byte, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff);
    if printable(byte) {
        return byte.into();
    }
    let n_before = (0..byte).filter(|&other| !printable(other)).count() as u32;
    char::from_u32(0x100 + n_before).unwrap_or(char::REPLACEMENT_CHARACTER)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn has_the_size_asked_for_and_no_token_twice() {
        for n in [272, 273, 512, 5000, 200_064] {
            let vocab = vocab(n);
            assert_eq!((vocab.tokens.len(), vocab.token_types.len(), vocab.merges.len()), (n, n, n - 272));
            assert_eq!(vocab.tokens.iter().collect::<HashSet<_>>().len(), n);
            assert_eq!(vocab.tokens.get(vocab.eos as usize), Some("<|im_end|>"));
        }
    }

    #[test]
    fn merges_join_tokens_that_are_there() {
        let vocab = vocab(3000);
        let mut known: HashSet<&str> = vocab.tokens.iter().take(N_BYTES).collect();
        for (merge, token) in vocab.merges.iter().zip(vocab.tokens.iter().skip(N_BYTES)) {
            let (left, right) = merge.split_once(' ').unwrap();
            assert!(known.contains(left) && known.contains(right), "{merge}");
            assert_eq!([left, right].concat(), token);
            known.insert(token);
        }
    }

    #[test]
    fn bytes_are_those_of_the_golden_vocabulary() {
        use crate::engine::gguf::{Gguf, testing::golden};
        let gguf = Gguf::open(&golden("models/llama.gguf")).unwrap();
        let golden = gguf.metadata().str_array("tokenizer.ggml.tokens").unwrap();
        assert!(vocab(512).tokens.iter().zip(golden.iter()).take(N_BYTES).all(|(ours, theirs)| ours == theirs));
    }
}
