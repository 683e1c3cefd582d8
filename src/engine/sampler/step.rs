//! One step of the chain, as data.

use std::collections::HashMap;

use super::candidates::Candidates;
use super::dry::{Dry, DryScratch};
use super::penalties::Penalties;
use super::rng::Random;
use super::{temperature, truncate};

/// What a step does to the candidates. The field names are those of [`super::SamplerSettings`].
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    Penalties(Penalties),
    Dry(Dry),
    TopNSigma { n: f32 },
    TopK { k: usize },
    Typical { p: f32, min_keep: usize },
    TopP { p: f32, min_keep: usize },
    MinP { p: f32, min_keep: usize },
    Xtc { probability: f32, threshold: f32, min_keep: usize },
    Temperature { temperature: f32, range: f32, exponent: f32 },
}

/// Reused space of the steps that look at the history.
#[derive(Debug, Clone, Default)]
pub struct Scratch {
    counts: HashMap<u32, u32>,
    dry: DryScratch,
}

impl Step {
    /// Whether the step works on logits by id, and so before candidates are chosen.
    pub fn is_on_logits(&self) -> bool {
        matches!(self, Self::Penalties(_) | Self::Dry(_))
    }

    /// The steps of [`Step::is_on_logits`]; the others leave `logits` as they are.
    pub fn apply_to_logits(&self, logits: &mut [f32], history: &[u32], scratch: &mut Scratch) {
        match self {
            Self::Penalties(penalties) => penalties.apply(logits, history, &mut scratch.counts),
            Self::Dry(dry) => dry.apply(logits, history, &mut scratch.dry),
            _ => {}
        }
    }

    /// The steps that choose among candidates; those on logits leave them as they are.
    pub fn apply(&self, candidates: &mut Candidates, random: &mut Random) {
        match *self {
            Self::Penalties(_) | Self::Dry(_) => {}
            Self::TopNSigma { n } => truncate::top_n_sigma(candidates, n),
            Self::TopK { k } => candidates.top_k(k),
            Self::Typical { p, min_keep } => truncate::typical(candidates, p, min_keep),
            Self::TopP { p, min_keep } => truncate::top_p(candidates, p, min_keep),
            Self::MinP { p, min_keep } => truncate::min_p(candidates, p, min_keep),
            Self::Xtc { probability, threshold, min_keep } => {
                // Without a chance no number is drawn, so that adding the step changes nothing.
                if probability > 0.0 && random.unit() < f64::from(probability) {
                    truncate::exclude_top_choices(candidates, threshold, min_keep);
                }
            }
            Self::Temperature { temperature, range, exponent } => {
                temperature::dynamic_temperature(candidates, temperature, range, exponent);
            }
        }
    }
}
