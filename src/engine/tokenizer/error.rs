//! What can be wrong with a vocabulary, or with ids given to it.

/// Why a tokenizer cannot be made, or cannot decode.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TokenizerError {
    #[error("tokenizer.ggml.model is `{model}`, which is not supported; known: {known}")]
    UnknownModel { model: String, known: String },
    #[error("tokenizer.ggml.pre is `{pre}`, which is not supported; known: {known}")]
    UnknownPre { pre: String, known: String },
    #[error("{key} is missing, but tokenizer.ggml.model `{model}` needs it; the model file is incomplete")]
    Missing { key: &'static str, model: String },
    #[error(
        "{key} has {found} entries where tokenizer.ggml.tokens has {expected}; the model file is damaged, get it again"
    )]
    Length { key: &'static str, found: usize, expected: usize },
    #[error("tokenizer.ggml.merges[{index}] is `{merge}`, not two parts with a space between")]
    Merge { index: usize, merge: String },
    #[error("tokenizer.ggml.{key} has {count} entries; at most {limit} are supported")]
    TooMany { key: &'static str, count: usize, limit: usize },
    #[error("tokenizer.ggml.tokens cannot be searched for special tokens: {reason}")]
    Specials { reason: String },
    #[error("token id {id} is outside the vocabulary of {n_vocab} tokens")]
    IdOutOfRange { id: u32, n_vocab: usize },
}
