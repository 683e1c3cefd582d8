//! Repetition, frequency and presence penalties over the last tokens.

use std::collections::HashMap;

/// Makes tokens of the recent history less likely.
///
/// Repetition: Keskar et al. 2019, "CTRL" (<https://arxiv.org/abs/1909.05858>), where a negative logit is multiplied.
/// Frequency and presence: subtracted, as in OpenAI's API.
#[derive(Debug, Clone, PartialEq)]
pub struct Penalties {
    /// Tokens of the history looked at; 0 is off.
    pub last_n: usize,
    /// Divides a positive logit and multiplies a negative one; 1 is off.
    pub repeat: f32,
    /// Subtracted once for each time the token occurred; 0 is off.
    pub frequency: f32,
    /// Subtracted when the token occurred at all; 0 is off.
    pub presence: f32,
}

impl Penalties {
    /// Changes the logits (by id) of the tokens in the window; `counts` is scratch space.
    pub fn apply(&self, logits: &mut [f32], history: &[u32], counts: &mut HashMap<u32, u32>) {
        if self.last_n == 0 || (self.repeat == 1.0 && self.frequency == 0.0 && self.presence == 0.0) {
            return;
        }
        counts.clear();
        for &id in &history[history.len().saturating_sub(self.last_n)..] {
            *counts.entry(id).or_insert(0) += 1;
        }
        for (&id, &count) in counts.iter() {
            let Some(logit) = logits.get_mut(id as usize) else { continue };
            *logit = if *logit <= 0.0 { *logit * self.repeat } else { *logit / self.repeat };
            *logit -= count as f32 * self.frequency + self.presence;
        }
    }
}
