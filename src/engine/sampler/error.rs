//! What can go wrong while sampling.

/// Why there is no sampler, or no token.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SamplerError {
    /// A setting is outside its range.
    #[error("{name} is {value}, but it must be {range}")]
    OutOfRange { name: &'static str, value: String, range: &'static str },
    /// The model gave no usable number for any token.
    #[error("none of the {n_logits} logits is a finite number: the model file may be damaged")]
    NoFiniteLogit { n_logits: usize },
}
