//! Text to token ids and back, from the vocabulary in a GGUF file.
//!
//! - [`VocabSource`] holds what the file says; [`Tokenizer`] is made from it once and shared between threads.
//! - `gpt2` vocabularies: `specials` finds special tokens, `pre` and `rules` cut the rest into words, `bpe` merges bytes.
//! - `llama` vocabularies: `specials`, then `spm` merges characters by score.
//! - `merge` holds the merging, `words` the memory of words seen in one text, `stream` the way back to text.
//!
//! Time and memory are linear in the length of the text, times the logarithm of the longest word.

mod bpe;
mod classes;
mod error;
mod merge;
mod pre;
mod rules;
mod specials;
mod spm;
mod stream;
mod vocab;
mod words;

#[cfg(test)]
mod test_gguf;
#[cfg(test)]
mod tests;

pub use error::TokenizerError;
pub use stream::{DecodeOptions, StreamDecoder};
pub use vocab::{SpecialIds, TokenType, VocabSource};

use bpe::Bpe;
use specials::{Fragment, Specials};
use spm::Spm;
use stream::ByteDecoder;
use vocab::{TextForm, Vocab};
use words::Output;

/// What to make of special tokens when encoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EncodeOptions {
    /// Add BOS and EOS where the vocabulary wants them.
    pub add_special: bool,
    /// Names of control tokens in the text become these tokens. False for text that is not to be trusted.
    pub parse_special: bool,
}

/// Encodes and decodes the text of one model.
pub struct Tokenizer {
    vocab: Vocab,
    specials: Specials,
    model: Model,
    add_bos: bool,
    add_eos: bool,
    clean_spaces: bool,
    space_prefix: bool,
}

enum Model {
    Bpe(Box<Bpe>),
    Spm(Box<Spm>),
}

impl std::fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let model = match self.model {
            Model::Bpe(_) => "gpt2",
            Model::Spm(_) => "llama",
        };
        f.debug_struct("Tokenizer").field("model", &model).field("n_vocab", &self.vocab.len()).finish_non_exhaustive()
    }
}

impl Tokenizer {
    /// Errors: a model or pre-tokenizer that is not known, lists that are missing or of the wrong length, a merge that
    /// is not two parts. Ids of BOS, EOS and the like outside the vocabulary count as absent.
    pub fn new(mut source: VocabSource) -> Result<Tokenizer, TokenizerError> {
        match source.model.as_str() {
            "gpt2" => Tokenizer::new_bpe(&mut source),
            "llama" => Tokenizer::new_spm(&mut source),
            _ => Err(TokenizerError::UnknownModel { model: source.model, known: "gpt2, llama".to_owned() }),
        }
    }

    fn new_bpe(source: &mut VocabSource) -> Result<Tokenizer, TokenizerError> {
        let name = source.pre.as_deref().unwrap_or_else(|| {
            tracing::warn!("tokenizer.ggml.pre is missing; text is cut by the rules of `default`, which may be wrong");
            "default"
        });
        let Some(pre) = pre::lookup(name) else {
            return Err(TokenizerError::UnknownPre { pre: name.to_owned(), known: pre::known() });
        };
        let Some(merges) = source.merges.take() else {
            return Err(TokenizerError::Missing { key: "tokenizer.ggml.merges", model: source.model.clone() });
        };
        let vocab = Vocab::new(source, TextForm::ByteLevel)?;
        let model = Model::Bpe(Box::new(Bpe::new(&vocab, pre, &merges)?));
        Ok(Tokenizer {
            specials: Specials::new(&vocab)?,
            vocab,
            model,
            add_bos: source.add_bos.unwrap_or(pre.add_bos),
            add_eos: source.add_eos.unwrap_or(false),
            clean_spaces: pre.clean_spaces,
            space_prefix: false,
        })
    }

    fn new_spm(source: &mut VocabSource) -> Result<Tokenizer, TokenizerError> {
        let Some(scores) = source.scores.take() else {
            return Err(TokenizerError::Missing { key: "tokenizer.ggml.scores", model: source.model.clone() });
        };
        if scores.len() != source.tokens.len() {
            let (found, expected) = (scores.len(), source.tokens.len());
            return Err(TokenizerError::Length { key: "tokenizer.ggml.scores", found, expected });
        }
        // SentencePiece's own ids, for files that leave them out.
        source.unk = source.unk.or(Some(0));
        source.bos = source.bos.or(Some(1));
        source.eos = source.eos.or(Some(2));
        let vocab = Vocab::new(source, TextForm::SentencePiece)?;
        let space_prefix = source.add_space_prefix.unwrap_or(true);
        let model = Model::Spm(Box::new(Spm::new(&vocab, &scores, space_prefix)));
        Ok(Tokenizer {
            specials: Specials::new(&vocab)?,
            vocab,
            model,
            add_bos: source.add_bos.unwrap_or(true),
            add_eos: source.add_eos.unwrap_or(false),
            clean_spaces: false,
            space_prefix,
        })
    }

    /// The ids of `text`.
    pub fn encode(&self, text: &str, options: EncodeOptions) -> Vec<u32> {
        let mut ids = Vec::new();
        if options.add_special && self.add_bos {
            ids.extend(self.vocab.special.bos);
        }
        let fragments = self.specials.split(text, options.parse_special);
        let mut ids = match &self.model {
            Model::Spm(spm) => spm.encode(text, &fragments, ids),
            Model::Bpe(bpe) => {
                let mut out = Output::after(ids);
                for fragment in fragments {
                    match fragment {
                        Fragment::Token(id) => out.ids.push(id),
                        Fragment::Text(range) => bpe.encode(&text[range], &mut out),
                    }
                }
                out.ids
            }
        };
        if options.add_special && self.add_eos {
            ids.extend(self.vocab.special.eos);
        }
        ids
    }

    /// The bytes of the text of `ids`; they need not be UTF-8. Error: an id outside the vocabulary.
    pub fn decode_bytes(&self, ids: &[u32], options: DecodeOptions) -> Result<Vec<u8>, TokenizerError> {
        let n_vocab = self.vocab.len();
        if let Some(&id) = ids.iter().find(|&&id| id as usize >= n_vocab) {
            return Err(TokenizerError::IdOutOfRange { id, n_vocab });
        }
        let mut decoder = ByteDecoder::new(self, options);
        let mut bytes = Vec::new();
        for &id in ids {
            decoder.push(self, id, &mut bytes);
        }
        decoder.flush(&mut bytes);
        Ok(bytes)
    }

    /// The text of `ids`; bytes that are not UTF-8 become U+FFFD. Error: an id outside the vocabulary.
    pub fn decode(&self, ids: &[u32], options: DecodeOptions) -> Result<String, TokenizerError> {
        let bytes = self.decode_bytes(ids, options)?;
        Ok(String::from_utf8(bytes).unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned()))
    }

    /// A decoder for ids that come one by one.
    pub fn stream(&self, options: DecodeOptions) -> StreamDecoder<&Tokenizer> {
        StreamDecoder::new(self, options)
    }

    /// The bytes that a token writes, a control token its name; `None` outside the vocabulary.
    pub fn token_bytes(&self, id: u32) -> Option<&[u8]> {
        self.vocab.bytes(id)
    }

    /// The text of a token as the file has it (`Ġthe`, `▁the`, `<|im_end|>`), as templates want it for `bos_token`.
    pub fn token_text(&self, id: u32) -> Option<&str> {
        self.vocab.texts.get(id as usize).map(String::as_str)
    }

    /// The token with exactly this text in the file.
    pub fn token_id(&self, text: &str) -> Option<u32> {
        self.vocab.id(text)
    }

    pub fn token_type(&self, id: u32) -> Option<TokenType> {
        self.vocab.kind(id)
    }

    /// Whether an answer ends with this token.
    pub fn is_eog(&self, id: u32) -> bool {
        self.vocab.is_eog(id)
    }

    /// All tokens that end an answer, ascending.
    pub fn eog_ids(&self) -> impl Iterator<Item = u32> + '_ {
        self.vocab.eog()
    }

    pub fn n_vocab(&self) -> usize {
        self.vocab.len()
    }

    pub fn special_ids(&self) -> SpecialIds {
        self.vocab.special
    }

    pub fn bos(&self) -> Option<u32> {
        self.vocab.special.bos
    }

    pub fn eos(&self) -> Option<u32> {
        self.vocab.special.eos
    }

    /// Whether `add_special` puts BOS in front.
    pub fn add_bos(&self) -> bool {
        self.add_bos
    }

    /// Whether encoding puts a space before a text, which decoding takes away.
    pub fn adds_space_prefix(&self) -> bool {
        self.space_prefix
    }

    /// Whether `add_special` puts EOS at the end.
    pub fn add_eos(&self) -> bool {
        self.add_eos
    }

    /// What a token adds to decoded text.
    fn piece(&self, id: u32, show_special: bool) -> &[u8] {
        let hidden = !show_special && self.vocab.kind(id).is_some_and(TokenType::is_special);
        if hidden { &[] } else { self.vocab.bytes(id).unwrap_or_default() }
    }
}
