//! The vocabulary: texts, bytes and kinds of tokens, and the tokens with a meaning of their own.
//!
//! Keys and token types: <https://github.com/ggml-org/ggml/blob/master/docs/gguf.md#tokenizer>.

use std::collections::BTreeSet;

use foldhash::{HashMap, HashMapExt};

use super::error::TokenizerError;
use crate::engine::gguf::{GgufError, Metadata};

/// What a GGUF file says about its vocabulary: the values of its keys `tokenizer.ggml.*`, as they are.
#[derive(Debug, Clone, Default)]
pub struct VocabSource {
    /// `gpt2` (byte-level BPE) or `llama` (SentencePiece BPE).
    pub model: String,
    /// The pre-tokenizer of a `gpt2` vocabulary.
    pub pre: Option<String>,
    /// Texts by id; at `gpt2` in the printable form of GPT-2, at `llama` with `▁` for a space.
    pub tokens: Vec<String>,
    pub scores: Option<Vec<f32>>,
    /// `tokenizer.ggml.token_type`.
    pub token_types: Option<Vec<i32>>,
    pub merges: Option<Vec<String>>,
    /// `tokenizer.ggml.bos_token_id`.
    pub bos: Option<u32>,
    /// `tokenizer.ggml.eos_token_id`.
    pub eos: Option<u32>,
    /// `tokenizer.ggml.eot_token_id`.
    pub eot: Option<u32>,
    /// `tokenizer.ggml.eom_token_id`.
    pub eom: Option<u32>,
    /// `tokenizer.ggml.unknown_token_id`.
    pub unk: Option<u32>,
    /// `tokenizer.ggml.seperator_token_id` (spelt so).
    pub sep: Option<u32>,
    /// `tokenizer.ggml.padding_token_id`.
    pub pad: Option<u32>,
    /// `tokenizer.ggml.fim_pre_token_id`.
    pub fim_pre: Option<u32>,
    /// `tokenizer.ggml.fim_suf_token_id`.
    pub fim_suf: Option<u32>,
    /// `tokenizer.ggml.fim_mid_token_id`.
    pub fim_mid: Option<u32>,
    /// `tokenizer.ggml.fim_pad_token_id`.
    pub fim_pad: Option<u32>,
    /// `tokenizer.ggml.fim_rep_token_id`.
    pub fim_rep: Option<u32>,
    /// `tokenizer.ggml.fim_sep_token_id`.
    pub fim_sep: Option<u32>,
    /// `tokenizer.ggml.add_bos_token`.
    pub add_bos: Option<bool>,
    /// `tokenizer.ggml.add_eos_token`.
    pub add_eos: Option<bool>,
    pub add_space_prefix: Option<bool>,
}

impl VocabSource {
    /// Reads the keys of a file.
    ///
    /// # Errors
    /// A key that must be there and is not, or has another type.
    pub fn from_metadata(metadata: &Metadata) -> Result<VocabSource, GgufError> {
        let key = |suffix: &str| format!("tokenizer.ggml.{suffix}");
        let strings = |suffix: &str| -> Result<Option<Vec<String>>, GgufError> {
            let array = metadata.opt_str_array(&key(suffix))?;
            Ok(array.map(|a| a.iter().map(str::to_owned).collect()))
        };
        let id = |suffix: &str| metadata.opt_u32(&key(suffix));
        let flag = |suffix: &str| metadata.opt_bool(&key(suffix));
        Ok(VocabSource {
            model: metadata.str(&key("model"))?.to_owned(),
            pre: metadata.opt_str(&key("pre"))?.map(str::to_owned),
            tokens: metadata.str_array(&key("tokens"))?.iter().map(str::to_owned).collect(),
            scores: metadata.opt_f32_array(&key("scores"))?.map(|a| a.into_owned()),
            token_types: metadata.opt_i32_array(&key("token_type"))?.map(|a| a.into_owned()),
            merges: strings("merges")?,
            bos: id("bos_token_id")?,
            eos: id("eos_token_id")?,
            eot: id("eot_token_id")?,
            eom: id("eom_token_id")?,
            unk: id("unknown_token_id")?,
            // The format spells it so.
            sep: id("seperator_token_id")?,
            pad: id("padding_token_id")?,
            fim_pre: id("fim_pre_token_id")?,
            fim_suf: id("fim_suf_token_id")?,
            fim_mid: id("fim_mid_token_id")?,
            fim_pad: id("fim_pad_token_id")?,
            fim_rep: id("fim_rep_token_id")?,
            fim_sep: id("fim_sep_token_id")?,
            add_bos: flag("add_bos_token")?,
            add_eos: flag("add_eos_token")?,
            add_space_prefix: flag("add_space_prefix")?,
        })
    }
}

/// The kind of a token, `tokenizer.ggml.token_type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenType {
    Normal,
    Unknown,
    /// Steers the model (`<|im_end|>`); found in text only when special tokens are parsed.
    Control,
    /// Always found in text as a whole.
    UserDefined,
    Unused,
    /// One byte, `<0x0A>`.
    Byte,
}

impl TokenType {
    fn from_gguf(value: i32) -> TokenType {
        match value {
            2 => TokenType::Unknown,
            3 => TokenType::Control,
            4 => TokenType::UserDefined,
            5 => TokenType::Unused,
            6 => TokenType::Byte,
            _ => TokenType::Normal,
        }
    }

    /// Whether the token is hidden in decoded text unless special tokens are asked for.
    pub fn is_special(self) -> bool {
        matches!(self, TokenType::Control | TokenType::Unknown)
    }
}

/// How token texts stand for bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TextForm {
    /// Each character is one byte (GPT-2's table).
    ByteLevel,
    /// UTF-8 with `▁` for a space.
    SentencePiece,
}

/// Ids of the tokens with a meaning of their own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SpecialIds {
    pub bos: Option<u32>,
    pub eos: Option<u32>,
    /// End of turn.
    pub eot: Option<u32>,
    /// End of message.
    pub eom: Option<u32>,
    pub unk: Option<u32>,
    pub sep: Option<u32>,
    pub pad: Option<u32>,
    /// Fill-in-the-middle: prefix, suffix, middle, padding, repository, file separator.
    pub fim_pre: Option<u32>,
    pub fim_suf: Option<u32>,
    pub fim_mid: Option<u32>,
    pub fim_pad: Option<u32>,
    pub fim_rep: Option<u32>,
    pub fim_sep: Option<u32>,
}

#[derive(Debug)]
pub(super) struct Vocab {
    pub(super) texts: Vec<String>,
    pub(super) types: Vec<TokenType>,
    pub(super) special: SpecialIds,
    ids: HashMap<String, u32>,
    /// The bytes of all tokens, one after the other; token `i` ends at `ends[i]`.
    bytes: Vec<u8>,
    ends: Vec<usize>,
    eog: BTreeSet<u32>,
}

// Names that models gave to tokens of the same meaning, the most telling first. Files seldom say which ids these are.
const EOT: &[&str] = &[
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<end_of_turn>",
    "<end_of_utterance>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "< EOT >",
    "<|end_of_text|>",
    "<｜end▁of▁sentence｜>",
    "<|endoftext|>",
];
const EOM: &[&str] = &["<|eom_id|>"];
const FIM_PRE: &[&str] =
    &["<|fim_prefix|>", "<fim-prefix>", "<fim_prefix>", "<｜fim▁begin｜>", "<PRE>", "▁<PRE>", "<|code_prefix|>"];
const FIM_SUF: &[&str] =
    &["<|fim_suffix|>", "<fim-suffix>", "<fim_suffix>", "<｜fim▁hole｜>", "<SUF>", "▁<SUF>", "<|code_suffix|>"];
const FIM_MID: &[&str] =
    &["<|fim_middle|>", "<fim-middle>", "<fim_middle>", "<｜fim▁end｜>", "<MID>", "▁<MID>", "<|code_middle|>"];
const FIM_PAD: &[&str] = &["<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>"];
const FIM_REP: &[&str] = &["<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"];
const FIM_SEP: &[&str] = &["<|file_sep|>"];
/// Tokens at which an answer ends, whatever the file says.
const EOG: &[&str] = &[
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<|flush|>",
    "<|calls|>",
    "<end_of_turn>",
    "<end_of_utterance>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<|eom_id|>",
    "</s>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "[EOS]",
    "< EOT >",
];

impl Vocab {
    pub(super) fn new(source: &mut VocabSource, form: TextForm) -> Result<Vocab, TokenizerError> {
        let texts = std::mem::take(&mut source.tokens);
        let n = texts.len();
        if n >= u32::MAX as usize {
            return Err(TokenizerError::TooMany { key: "tokens", count: n, limit: u32::MAX as usize - 1 });
        }
        let types = match &source.token_types {
            None => vec![TokenType::Normal; n],
            Some(types) if types.len() == n => types.iter().map(|&t| TokenType::from_gguf(t)).collect(),
            Some(types) => {
                let key = "tokenizer.ggml.token_type";
                return Err(TokenizerError::Length { key, found: types.len(), expected: n });
            }
        };
        let mut ids = HashMap::with_capacity(n);
        for (id, text) in (0u32..).zip(&texts) {
            // A text that stands twice means the first id: the later one is padding.
            ids.entry(text.clone()).or_insert(id);
        }
        let mut vocab = Vocab {
            texts,
            types,
            special: SpecialIds::default(),
            ids,
            bytes: Vec::new(),
            ends: Vec::new(),
            eog: BTreeSet::new(),
        };
        vocab.find_special(source);
        vocab.decode_texts(form);
        Ok(vocab)
    }

    fn find_special(&mut self, source: &VocabSource) {
        let n = self.texts.len();
        // Files write -1 for "none", which reads as a huge id.
        let given = |id: Option<u32>| id.filter(|&id| (id as usize) < n);
        // A token that is recognised by its text is of type control, even where a converter forgot to say so.
        let mut named = |given: Option<u32>, names: &[&str]| {
            given.or_else(|| {
                let id = names.iter().find_map(|&name| self.ids.get(name).copied())?;
                self.types[id as usize] = TokenType::Control;
                Some(id)
            })
        };
        self.special = SpecialIds {
            bos: given(source.bos),
            eos: given(source.eos),
            eot: named(given(source.eot), EOT),
            eom: named(given(source.eom), EOM),
            unk: given(source.unk),
            sep: given(source.sep),
            pad: given(source.pad),
            fim_pre: named(given(source.fim_pre), FIM_PRE),
            fim_suf: named(given(source.fim_suf), FIM_SUF),
            fim_mid: named(given(source.fim_mid), FIM_MID),
            fim_pad: named(given(source.fim_pad), FIM_PAD),
            fim_rep: named(given(source.fim_rep), FIM_REP),
            fim_sep: named(given(source.fim_sep), FIM_SEP),
        };
        let by_name: Vec<u32> = EOG.iter().filter_map(|&name| self.ids.get(name).copied()).collect();
        for &id in &by_name {
            self.types[id as usize] = TokenType::Control;
        }
        let s = &self.special;
        self.eog.extend(by_name);
        self.eog.extend([s.eos, s.eot, s.eom, s.fim_pad, s.fim_rep, s.fim_sep].into_iter().flatten());
        // In the harmony format of gpt-oss an answer has several messages: `<|end|>` ends one of them, not the answer.
        if let (Some(_), Some(_), Some(end)) = (self.id("<|return|>"), self.id("<|call|>"), self.id("<|end|>")) {
            self.eog.remove(&end);
        }
    }

    fn decode_texts(&mut self, form: TextForm) {
        self.ends.reserve_exact(self.texts.len());
        for (text, kind) in self.texts.iter().zip(&self.types) {
            match (kind, form) {
                (TokenType::Control | TokenType::Unknown | TokenType::UserDefined, _) => {
                    self.bytes.extend_from_slice(text.as_bytes());
                }
                (TokenType::Byte, _) if byte_of_text(text).is_some() => self.bytes.extend(byte_of_text(text)),
                (TokenType::Byte | TokenType::Normal | TokenType::Unused, TextForm::ByteLevel) => {
                    for c in text.chars() {
                        match byte_of_char(c) {
                            Some(byte) => self.bytes.push(byte),
                            None => self.bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
                        }
                    }
                }
                (TokenType::Byte | TokenType::Normal | TokenType::Unused, TextForm::SentencePiece) => {
                    self.bytes.extend_from_slice(text.replace(SPACE_MARK, " ").as_bytes());
                }
            }
            self.ends.push(self.bytes.len());
        }
    }

    pub(super) fn len(&self) -> usize {
        self.texts.len()
    }

    pub(super) fn id(&self, text: &str) -> Option<u32> {
        self.ids.get(text).copied()
    }

    pub(super) fn kind(&self, id: u32) -> Option<TokenType> {
        self.types.get(id as usize).copied()
    }

    pub(super) fn bytes(&self, id: u32) -> Option<&[u8]> {
        let id = id as usize;
        let end = *self.ends.get(id)?;
        let start = if id == 0 { 0 } else { self.ends[id - 1] };
        Some(&self.bytes[start..end])
    }

    pub(super) fn is_eog(&self, id: u32) -> bool {
        self.eog.contains(&id)
    }

    pub(super) fn eog(&self) -> impl Iterator<Item = u32> + '_ {
        self.eog.iter().copied()
    }

    /// Tokens that ordinary text is made of, as id and text.
    pub(super) fn ordinary(&self) -> impl Iterator<Item = (u32, &str)> {
        (0u32..).zip(&self.texts).zip(&self.types).filter_map(|((id, text), kind)| match kind {
            TokenType::Normal | TokenType::UserDefined | TokenType::Unused => Some((id, text.as_str())),
            TokenType::Unknown | TokenType::Control | TokenType::Byte => None,
        })
    }
}

/// Stands for a space in SentencePiece texts, U+2581.
pub(super) const SPACE_MARK: char = '▁';

/// The byte that a text like `<0x0A>` names.
fn byte_of_text(text: &str) -> Option<u8> {
    let digits = text.strip_prefix("<0x")?.strip_suffix('>')?;
    let hex = digits.len() == 2 && digits.bytes().all(|b| b.is_ascii_hexdigit());
    if hex { u8::from_str_radix(digits, 16).ok() } else { None }
}

/// GPT-2 writes each byte as one printable character: itself where it is printable Latin-1, else the next one from U+0100.
pub(super) fn char_of_byte(byte: u8) -> char {
    let shifted = match byte {
        0..=0x20 => u32::from(byte),
        0x7F..=0xA0 => u32::from(byte) - 0x7F + 0x21,
        0xAD => 0x43,
        _ => return char::from(byte),
    };
    char::from_u32(0x100 + shifted).unwrap_or(char::REPLACEMENT_CHARACTER)
}

/// The inverse of [`char_of_byte`].
pub(super) fn byte_of_char(c: char) -> Option<u8> {
    match u32::from(c) {
        x @ (0x21..=0x7E | 0xA1..=0xAC | 0xAE..=0xFF) => Some(x as u8),
        x @ 0x100..=0x120 => Some((x - 0x100) as u8),
        x @ 0x121..=0x142 => Some((x - 0x121 + 0x7F) as u8),
        0x143 => Some(0xAD),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_and_characters_are_inverse() {
        let chars: BTreeSet<char> = (0..=255).map(char_of_byte).collect();
        assert_eq!(chars.len(), 256);
        for byte in 0..=255u8 {
            assert_eq!(byte_of_char(char_of_byte(byte)), Some(byte));
        }
        assert_eq!((char_of_byte(b' '), char_of_byte(b'\n'), char_of_byte(b'a')), ('Ġ', 'Ċ', 'a'));
        assert_eq!((byte_of_char(' '), byte_of_char('中'), byte_of_char('\u{144}')), (None, None, None));
    }

    #[test]
    fn byte_texts() {
        assert_eq!(byte_of_text("<0x0A>"), Some(10));
        for text in ["<0x0>", "<0x00A>", "<0xZZ>", "0x0A", "<0x+A>", ""] {
            assert_eq!(byte_of_text(text), None, "{text}");
        }
    }
}
