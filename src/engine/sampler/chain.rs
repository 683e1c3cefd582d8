//! The sampler of one generation.

use super::candidates::Candidates;
use super::error::SamplerError;
use super::rng::Random;
use super::settings::SamplerSettings;
use super::step::{Scratch, Step};
use super::truncate;

/// Chooses tokens by its settings. It holds the state of the random numbers, so each generation has its own.
#[derive(Debug, Clone)]
pub struct Sampler {
    settings: SamplerSettings,
    steps: Vec<Step>,
    random: Random,
    /// Mirostat's bound on the surprise, in bits.
    mu: f32,
    candidates: Candidates,
    logits: Vec<f32>,
    scratch: Scratch,
}

impl Sampler {
    /// `breakers` are the token id sequences of [`SamplerSettings::dry_sequence_breakers`], made by
    /// [`super::breaker_sequences`]; they may be empty when DRY is off.
    ///
    /// # Errors
    /// [`SamplerError::OutOfRange`], from [`SamplerSettings::validate`].
    pub fn new(settings: &SamplerSettings, breakers: &[Vec<u32>]) -> Result<Self, SamplerError> {
        settings.validate()?;
        Ok(Self {
            steps: settings.steps(breakers),
            random: Random::new(settings.seed),
            mu: settings.mirostat.map_or(0.0, |m| 2.0 * m.tau),
            candidates: Candidates::default(),
            logits: Vec::new(),
            scratch: Scratch::default(),
            settings: settings.clone(),
        })
    }

    pub fn settings(&self) -> &SamplerSettings {
        &self.settings
    }

    /// The next token.
    ///
    /// * `logits`: [n_vocab], by token id
    /// * `history`: prompt and answer so far, oldest first
    ///
    /// # Errors
    /// [`SamplerError::NoFiniteLogit`] when no token is possible.
    pub fn sample(&mut self, logits: &[f32], history: &[u32]) -> Result<u32, SamplerError> {
        let unchanged = logits;
        let best = || argmax(unchanged).ok_or(SamplerError::NoFiniteLogit { n_logits: unchanged.len() });
        let changes_logits = self.steps.iter().any(Step::is_on_logits);
        if self.settings.is_greedy() && !changes_logits {
            return best();
        }
        let logits = if changes_logits {
            self.logits.clear();
            self.logits.extend(logits.iter().map(|l| if l.is_finite() { *l } else { f32::NEG_INFINITY }));
            for step in &self.steps {
                step.apply_to_logits(&mut self.logits, history, &mut self.scratch);
            }
            &self.logits[..]
        } else {
            logits
        };
        if self.settings.is_greedy() {
            // Penalties of absurd size can leave nothing; then the best token without them stands.
            return argmax(logits).map_or_else(best, Ok);
        }
        let mut rest = self.steps.iter().skip_while(|step| step.is_on_logits()).peekable();
        match rest.peek() {
            Some(Step::TopK { k }) => {
                self.candidates.fill_top_k(logits, *k);
                rest.next();
            }
            _ => self.candidates.fill(logits),
        }
        for step in rest {
            step.apply(&mut self.candidates, &mut self.random);
        }
        match self.settings.mirostat {
            None => self.candidates.softmax(),
            Some(_) => truncate::max_surprise(&mut self.candidates, self.mu),
        }
        let unit = self.random.unit();
        let chosen = pick(&self.candidates, unit);
        if let (Some(mirostat), Some(index)) = (self.settings.mirostat, chosen) {
            let surprise = -self.candidates.data[index].p.log2();
            self.mu -= mirostat.eta * (surprise - mirostat.tau);
        }
        chosen.map_or_else(best, |index| Ok(self.candidates.data[index].id))
    }
}

/// The id of the highest finite logit, the lowest id of equal ones.
fn argmax(logits: &[f32]) -> Option<u32> {
    let (mut at, mut max) = (None, f32::NEG_INFINITY);
    for (i, &logit) in logits.iter().enumerate() {
        // No NaN passes a comparison, and nothing finite is below the first maximum.
        if logit > max && logit < f32::INFINITY {
            (at, max) = (Some(i as u32), logit);
        }
    }
    at
}

/// The index where the running sum of probabilities passes `unit` (0 to 1) of their total; `None` when all are 0.
fn pick(candidates: &Candidates, unit: f64) -> Option<usize> {
    let total: f64 = candidates.data.iter().map(|c| f64::from(c.p)).sum();
    let target = unit * total;
    let mut sum = 0.0f64;
    let mut last = None;
    for (i, c) in candidates.data.iter().enumerate() {
        if c.p > 0.0 {
            sum += f64::from(c.p);
            last = Some(i);
            if sum > target {
                break;
            }
        }
    }
    last
}
