//! Finding special tokens in text: leftmost first, of those the longest, in linear time.

use std::ops::Range;

use aho_corasick::{AhoCorasick, Input, MatchKind};

use super::error::TokenizerError;
use super::vocab::{TokenType, Vocab};

/// A part of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fragment {
    Text(Range<usize>),
    Token(u32),
}

pub(super) struct Specials {
    /// User-defined tokens only.
    always: Finder,
    /// Control and unknown tokens too.
    all: Finder,
}

struct Finder {
    /// `None` when there is nothing to find.
    searcher: Option<AhoCorasick>,
    /// By pattern: the token, and whether white space after it belongs to it.
    found: Vec<(u32, bool)>,
}

impl Specials {
    pub(super) fn new(vocab: &Vocab) -> Result<Specials, TokenizerError> {
        let strips = strips_right(vocab);
        let finder = |wanted: fn(TokenType) -> bool| {
            let ids = (0u32..).zip(&vocab.types).filter(|&(_, &kind)| wanted(kind)).map(|(id, _)| id);
            // An empty text would match everywhere.
            let ids: Vec<u32> = ids.filter(|&id| !vocab.texts[id as usize].is_empty()).collect();
            Finder::new(vocab, &ids, strips)
        };
        Ok(Specials {
            always: finder(|kind| kind == TokenType::UserDefined)?,
            all: finder(|kind| kind == TokenType::UserDefined || kind.is_special())?,
        })
    }

    /// Cuts `text` into special tokens and what is between; no text fragment is empty.
    pub(super) fn split(&self, text: &str, parse_special: bool) -> Vec<Fragment> {
        if parse_special { self.all.split(text) } else { self.always.split(text) }
    }
}

impl Finder {
    fn new(vocab: &Vocab, ids: &[u32], strips: fn(&str) -> bool) -> Result<Finder, TokenizerError> {
        let texts = || ids.iter().map(|&id| vocab.texts[id as usize].as_str());
        let searcher = if ids.is_empty() {
            None
        } else {
            let built = AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(texts());
            Some(built.map_err(|e| TokenizerError::Specials { reason: e.to_string() })?)
        };
        Ok(Finder { searcher, found: ids.iter().copied().zip(texts().map(strips)).collect() })
    }

    fn split(&self, text: &str) -> Vec<Fragment> {
        let mut fragments = Vec::new();
        let mut at = 0;
        if let Some(searcher) = &self.searcher {
            while let Some(found) = searcher.find(Input::new(text).span(at..text.len())) {
                if at < found.start() {
                    fragments.push(Fragment::Text(at..found.start()));
                }
                let (id, strips) = self.found[found.pattern().as_usize()];
                fragments.push(Fragment::Token(id));
                at = found.end();
                if strips {
                    at = text.len() - text[at..].trim_start().len();
                }
            }
        }
        if at < text.len() {
            fragments.push(Fragment::Text(at..text.len()));
        }
        fragments
    }
}

/// Which special tokens take the white space after them. GGUF has no field for it; of the supported models only those
/// of the Phi-3 family do it (`rstrip` in their `tokenizer.json`), and their placeholder tokens give them away.
fn strips_right(vocab: &Vocab) -> fn(&str) -> bool {
    let is_phi3 = ["<|placeholder1|>", "<|assistant|>", "<|end|>", "</s>"].iter().all(|name| vocab.id(name).is_some());
    if is_phi3 { |text| !matches!(text, "<unk>" | "<s>" | "<|endoftext|>") } else { |_| false }
}
