//! From logits to the next token.
//!
//! [`SamplerSettings`] says what is wanted, as plain data; [`Sampler`] turns it into a chain of [`Step`]s in the order
//! penalties, DRY, top-n-sigma, top-k, typical, top-p, min-p, XTC, temperature, and then picks. The order and the
//! meaning of each value are llama.cpp's.
//!
//! Logits that are NaN or infinite count as minus infinity: such a token is never chosen, and when no token is left
//! the answer is [`SamplerError::NoFiniteLogit`].

mod candidates;
mod dry;
mod error;
mod penalties;
mod rng;
mod settings;
mod step;
mod temperature;
mod truncate;

mod chain;
#[cfg(test)]
mod tests;

pub use candidates::{Candidate, Candidates};
pub use chain::Sampler;
pub use dry::{Dry, breaker_sequences};
pub use error::SamplerError;
pub use penalties::Penalties;
pub use settings::{Mirostat, SamplerSettings};
pub use step::Step;
