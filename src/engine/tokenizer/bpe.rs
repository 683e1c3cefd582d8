//! Byte-level byte-pair encoding (`tokenizer.ggml.model` = `gpt2`).
//!
//! Sennrich et al., Neural Machine Translation of Rare Words with Subword Units (2016), over bytes as in GPT-2.

use foldhash::{HashMap, HashMapExt};

use super::error::TokenizerError;
use super::merge::{MAX_WORD_BYTES, Merge, MergeTable, NONE, Scratch, Symbol};
use super::pre::Pre;
use super::rules::split;
use super::vocab::{Vocab, byte_of_char, char_of_byte};
use super::words::Output;

pub(super) struct Bpe {
    pre: &'static Pre,
    n_tokens: u32,
    /// The symbol of each byte.
    byte_symbols: [u32; 256],
    /// The token of each byte, [`NONE`] if there is none.
    byte_tokens: [u32; 256],
    n_merges: usize,
    /// By left and right symbol.
    merges: HashMap<u64, Merge>,
    /// Bytes of the symbols that merges name but the vocabulary lacks; their ids follow those of the tokens.
    extra: Vec<Box<[u8]>>,
    /// Words that are taken whole, when the pre-tokenizer says so.
    whole_words: HashMap<Box<[u8]>, u32>,
}

fn pair(left: u32, right: u32) -> u64 {
    u64::from(left) << 32 | u64::from(right)
}

impl MergeTable for Bpe {
    fn n_priorities(&self) -> usize {
        self.n_merges
    }

    fn merge(&self, _word: &[u8], left: Symbol, right: Symbol) -> Option<Merge> {
        self.merges.get(&pair(left.id, right.id)).copied()
    }
}

impl Bpe {
    pub(super) fn new(vocab: &Vocab, pre: &'static Pre, merges: &[String]) -> Result<Bpe, TokenizerError> {
        // Every merge may name three new symbols; ids must stay below NONE.
        let limit = (NONE as usize - vocab.len() - 257) / 3;
        if merges.len() > limit {
            return Err(TokenizerError::TooMany { key: "merges", count: merges.len(), limit });
        }
        let ordinary: HashMap<&str, u32> = vocab.ordinary().map(|(id, text)| (text, id)).collect();
        let mut symbols = Symbols { ordinary: &ordinary, named: HashMap::new(), next: vocab.len() as u32 };
        let mut texts = [[0; 4]; 256];
        let bytes: Vec<&str> =
            (0..=255u8).zip(&mut texts).map(|(byte, text)| &*char_of_byte(byte).encode_utf8(text)).collect();
        let byte_symbols = std::array::from_fn(|byte| symbols.id(bytes[byte]));
        let byte_tokens = std::array::from_fn(|byte| ordinary.get(bytes[byte]).copied().unwrap_or(NONE));
        let mut table = HashMap::with_capacity(merges.len());
        for (index, merge) in merges.iter().enumerate() {
            // A part may begin with a space itself, so the separator is looked for after the first character.
            let separator = merge.char_indices().skip(1).find(|&(_, c)| c == ' ').map(|(at, _)| at);
            let parts = separator.map(|at| (&merge[..at], &merge[at + 1..])).filter(|(_, right)| !right.is_empty());
            let Some((left, right)) = parts else {
                return Err(TokenizerError::Merge { index, merge: merge.chars().take(80).collect() });
            };
            let joined = [left, right].concat();
            let key = pair(symbols.id(left), symbols.id(right));
            let id = symbols.id(&joined);
            // The first of equals is the more frequent one.
            table.entry(key).or_insert(Merge { priority: index as u32, id });
        }
        let mut named: Vec<(u32, String)> = symbols.named.into_iter().map(|(text, id)| (id, text)).collect();
        named.sort_unstable();
        let extra = named.iter().map(|(_, text)| text.chars().filter_map(byte_of_char).collect()).collect();
        let whole_words = if pre.ignore_merges {
            vocab.ordinary().filter_map(|(id, _)| Some((vocab.bytes(id)?.into(), id))).collect()
        } else {
            HashMap::new()
        };
        let n_tokens = vocab.len() as u32;
        Ok(Bpe { pre, n_tokens, byte_symbols, byte_tokens, n_merges: merges.len(), merges: table, extra, whole_words })
    }

    pub(super) fn encode<'t>(&self, text: &'t str, out: &mut Output<'t>) {
        for range in split(text, self.pre.passes) {
            for word in text.as_bytes()[range].chunks(MAX_WORD_BYTES) {
                out.word(word, |ids, scratch| self.encode_word(word, ids, scratch));
            }
        }
    }

    fn encode_word(&self, word: &[u8], ids: &mut Vec<u32>, scratch: &mut Scratch) {
        if let Some(&id) = self.whole_words.get(word) {
            return ids.push(id);
        }
        scratch.symbols.clear();
        let symbols = (0u32..).zip(word).map(|(start, &b)| Symbol { start, len: 1, id: self.byte_symbols[b as usize] });
        scratch.symbols.extend(symbols);
        scratch.merge(word, self);
        for symbol in scratch.symbols.iter().filter(|s| s.len > 0) {
            if symbol.id < self.n_tokens {
                ids.push(symbol.id);
                continue;
            }
            // Not a token: its bytes are, each for itself. A byte without a token cannot be said at all.
            if let Some(bytes) = self.extra.get((symbol.id - self.n_tokens) as usize) {
                ids.extend(bytes.iter().map(|&b| self.byte_tokens[b as usize]).filter(|&id| id != NONE));
            }
        }
    }
}

/// Names symbols: a token's id where there is one, else a new id.
struct Symbols<'v> {
    ordinary: &'v HashMap<&'v str, u32>,
    named: HashMap<String, u32>,
    next: u32,
}

impl Symbols<'_> {
    fn id(&mut self, text: &str) -> u32 {
        if let Some(&id) = self.ordinary.get(text).or_else(|| self.named.get(text)) {
            return id;
        }
        let id = self.next;
        self.next += 1;
        self.named.insert(text.to_owned(), id);
        id
    }
}
