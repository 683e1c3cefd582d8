//! What the user asks of the sampler.

use serde::{Deserialize, Serialize};

use super::dry::Dry;
use super::error::SamplerError;
use super::penalties::Penalties;
use super::step::Step;

/// How the next token is chosen. Names and defaults are llama.cpp's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SamplerSettings {
    /// Same seed, same model and same prompt give the same text.
    pub seed: u64,
    /// 0 always takes the most likely token. At least 0.
    pub temperature: f32,
    /// Temperature moves by up to this much with the model's doubt; 0 is off.
    pub dynatemp_range: f32,
    /// How the doubt is shaped, for `dynatemp_range`.
    pub dynatemp_exponent: f32,
    /// Keep this many of the most likely tokens; 0 is off.
    pub top_k: u32,
    /// Keep the most likely tokens up to this total probability; 1 is off.
    pub top_p: f32,
    /// Keep tokens at least this many times as likely as the best; 0 is off.
    pub min_p: f32,
    /// Keep tokens of typical surprise up to this total probability; 1 is off.
    pub typical_p: f32,
    /// Keep tokens within this many standard deviations of the best logit; 0 is off.
    pub top_n_sigma: f32,
    /// Chance that all but the last of several likely tokens are left out; 0 is off.
    pub xtc_probability: f32,
    /// From which probability a token is likely, for `xtc_probability`; above 0.5 is off.
    pub xtc_threshold: f32,
    /// Fewest tokens that each of the cuts leaves.
    pub min_keep: u32,
    /// Divides the logits of recent tokens; 1 is off.
    pub repeat_penalty: f32,
    /// Subtracted for each occurrence of a recent token; 0 is off.
    pub frequency_penalty: f32,
    /// Subtracted when a token is recent at all; 0 is off.
    pub presence_penalty: f32,
    /// Recent tokens, for the three penalties: -1 is the whole history, 0 is off.
    pub repeat_last_n: i32,
    /// Penalty for continuing a repeated sequence; 0 is off.
    pub dry_multiplier: f32,
    /// Growth of that penalty with each repeated token. At least 1.
    pub dry_base: f32,
    /// Repeats shorter than this are free.
    pub dry_allowed_length: u32,
    /// Tokens looked at for repeats: -1 is the whole history, 0 is off.
    pub dry_penalty_last_n: i32,
    /// Texts that end a repeat.
    pub dry_sequence_breakers: Vec<String>,
    /// When given, it replaces all the cuts (top-n-sigma to XTC).
    pub mirostat: Option<Mirostat>,
}

/// Mirostat 2: steers the surprise of the text to a target.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Mirostat {
    /// Target surprise in bits. Above 0.
    pub tau: f32,
    /// Learning rate, 0 to 1.
    pub eta: f32,
}

impl Default for Mirostat {
    fn default() -> Self {
        Self { tau: 5.0, eta: 0.1 }
    }
}

impl Default for SamplerSettings {
    fn default() -> Self {
        Self {
            seed: 0,
            temperature: 0.8,
            dynatemp_range: 0.0,
            dynatemp_exponent: 1.0,
            top_k: 40,
            top_p: 0.95,
            min_p: 0.05,
            typical_p: 1.0,
            top_n_sigma: 0.0,
            xtc_probability: 0.0,
            xtc_threshold: 0.1,
            min_keep: 1,
            repeat_penalty: 1.0,
            frequency_penalty: 0.0,
            presence_penalty: 0.0,
            repeat_last_n: 64,
            dry_multiplier: 0.0,
            dry_base: 1.75,
            dry_allowed_length: 2,
            dry_penalty_last_n: -1,
            dry_sequence_breakers: ["\n", ":", "\"", "*"].map(str::to_string).to_vec(),
            mirostat: None,
        }
    }
}

impl SamplerSettings {
    /// The most likely token, always.
    pub fn greedy() -> Self {
        Self { temperature: 0.0, ..Self::default() }
    }

    /// Whether the most likely token is taken without a draw.
    pub fn is_greedy(&self) -> bool {
        self.temperature <= 0.0 && self.dynatemp_range <= 0.0
    }

    /// # Errors
    /// [`SamplerError::OutOfRange`] for the first value that makes no sense.
    pub fn validate(&self) -> Result<(), SamplerError> {
        type Check = (&'static str, f32, f32, f32, &'static str);
        let most = f32::MAX;
        let checks: [Check; 13] = [
            ("temperature", self.temperature, 0.0, most, "0 or more"),
            ("dynatemp_range", self.dynatemp_range, 0.0, most, "0 or more"),
            ("dynatemp_exponent", self.dynatemp_exponent, 0.0, most, "0 or more"),
            ("top_p", self.top_p, 0.0, 1.0, "between 0 and 1"),
            ("min_p", self.min_p, 0.0, 1.0, "between 0 and 1"),
            ("typical_p", self.typical_p, 0.0, 1.0, "between 0 and 1"),
            ("top_n_sigma", self.top_n_sigma, -1.0, most, "-1 (off) or more"),
            ("xtc_probability", self.xtc_probability, 0.0, 1.0, "between 0 and 1"),
            ("xtc_threshold", self.xtc_threshold, 0.0, 1.0, "between 0 and 1"),
            ("repeat_penalty", self.repeat_penalty, f32::MIN_POSITIVE, most, "more than 0"),
            ("frequency_penalty", self.frequency_penalty, -most, most, "a finite number"),
            ("presence_penalty", self.presence_penalty, -most, most, "a finite number"),
            ("dry_multiplier", self.dry_multiplier, 0.0, most, "0 or more"),
        ];
        let mut checks = checks.to_vec();
        checks.push(("dry_base", self.dry_base, 1.0, most, "1 or more"));
        checks.push(("repeat_last_n", self.repeat_last_n as f32, -1.0, most, "-1 (whole history) or more"));
        checks.push(("dry_penalty_last_n", self.dry_penalty_last_n as f32, -1.0, most, "-1 (whole history) or more"));
        if let Some(mirostat) = &self.mirostat {
            checks.push(("mirostat.tau", mirostat.tau, f32::MIN_POSITIVE, most, "more than 0"));
            checks.push(("mirostat.eta", mirostat.eta, 0.0, 1.0, "between 0 and 1"));
        }
        for (name, value, lowest, highest, range) in checks {
            // A NaN is in no range.
            if !(lowest..=highest).contains(&value) {
                return Err(SamplerError::OutOfRange { name, value: value.to_string(), range });
            }
        }
        Ok(())
    }

    /// The chain for these settings; `breakers` are [`Self::dry_sequence_breakers`] as token ids.
    pub fn steps(&self, breakers: &[Vec<u32>]) -> Vec<Step> {
        let min_keep = self.min_keep.max(1) as usize;
        let window = |n: i32| usize::try_from(n).unwrap_or(usize::MAX);
        let mut steps = vec![
            Step::Penalties(Penalties {
                last_n: window(self.repeat_last_n),
                repeat: self.repeat_penalty,
                frequency: self.frequency_penalty,
                presence: self.presence_penalty,
            }),
            Step::Dry(Dry::new(
                self.dry_multiplier,
                self.dry_base,
                self.dry_allowed_length as usize,
                window(self.dry_penalty_last_n),
                breakers,
            )),
        ];
        if self.mirostat.is_none() {
            steps.extend([
                Step::TopNSigma { n: self.top_n_sigma },
                Step::TopK { k: self.top_k as usize },
                Step::Typical { p: self.typical_p, min_keep },
                Step::TopP { p: self.top_p, min_keep },
                Step::MinP { p: self.min_p, min_keep },
                Step::Xtc { probability: self.xtc_probability, threshold: self.xtc_threshold, min_keep },
            ]);
        }
        steps.push(Step::Temperature {
            temperature: self.temperature,
            range: self.dynatemp_range,
            exponent: self.dynatemp_exponent,
        });
        steps.retain(|step| !is_off(step));
        steps
    }
}

/// Whether a step changes nothing whatever the logits are.
fn is_off(step: &Step) -> bool {
    match step {
        Step::Penalties(p) => p.last_n == 0 || (p.repeat == 1.0 && p.frequency == 0.0 && p.presence == 0.0),
        Step::Dry(dry) => dry.multiplier == 0.0 || dry.base < 1.0 || dry.last_n == 0,
        Step::TopNSigma { n } => *n <= 0.0,
        Step::TopK { k } => *k == 0,
        Step::Typical { p, .. } | Step::TopP { p, .. } => *p >= 1.0,
        Step::MinP { p, .. } => *p <= 0.0,
        Step::Xtc { probability, threshold, .. } => *probability <= 0.0 || *threshold > 0.5,
        Step::Temperature { temperature, range, .. } => *temperature == 1.0 && *range <= 0.0,
    }
}
