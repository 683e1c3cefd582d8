//! DRY ("don't repeat yourself"): makes the token less likely that would continue a repeated sequence.
//!
//! Source: <https://github.com/oobabooga/text-generation-webui/pull/5677>. If the last `n` tokens occurred before, the
//! token that followed them then loses `multiplier * base^(n - allowed_length)`. A breaker ends the stretch that is
//! looked at, so that formatting such as line ends may repeat.

use std::collections::HashMap;

/// Longest tail of a breaker, in tokens.
const MAX_TAIL_TOKENS: usize = 20;
/// The natural logarithm of the largest `f32`: above it the power is infinite.
const MAX_LN: f32 = 88.722_84;

/// The settings of DRY and its breakers.
#[derive(Debug, Clone, PartialEq)]
pub struct Dry {
    /// Size of the penalty; 0 is off.
    pub multiplier: f32,
    /// Growth with each further repeated token; below 1 is off.
    pub base: f32,
    /// Repeats shorter than this are free.
    pub allowed_length: usize,
    /// Tokens of the history looked at; 0 is off.
    pub last_n: usize,
    /// First token of a breaker -> the tokens that must follow it; an empty tail breaks alone.
    breakers: HashMap<u32, Vec<Vec<u32>>>,
}

impl Dry {
    /// `breakers` are token id sequences; see [`breaker_sequences`] for texts. Empty sequences are ignored.
    pub fn new(multiplier: f32, base: f32, allowed_length: usize, last_n: usize, breakers: &[Vec<u32>]) -> Self {
        let mut by_head: HashMap<u32, Vec<Vec<u32>>> = HashMap::new();
        for sequence in breakers {
            if let Some((&head, tail)) = sequence.split_first() {
                by_head.entry(head).or_default().push(tail[..tail.len().min(MAX_TAIL_TOKENS)].to_vec());
            }
        }
        Self { multiplier, base, allowed_length, last_n, breakers: by_head }
    }

    /// Changes the logits (by id) of the tokens that would continue a repeat; `scratch` is reused space.
    pub fn apply(&self, logits: &mut [f32], history: &[u32], scratch: &mut DryScratch) {
        if self.multiplier == 0.0 || self.base < 1.0 || self.last_n == 0 {
            return;
        }
        let window = &history[history.len().saturating_sub(self.last_n)..];
        if window.len() <= self.allowed_length {
            return;
        }
        let longest = self.unbroken_length(window);
        if longest < self.allowed_length {
            return;
        }
        self.find_repeats(window, longest, scratch);
        let max_exponent = if self.base > 1.000_001 { (MAX_LN / self.base.ln()) as usize } else { 0 };
        for (&id, &length) in &scratch.longest_by_token {
            let breaks_alone = self.breakers.get(&id).is_some_and(|tails| tails.iter().any(Vec::is_empty));
            let Some(logit) = logits.get_mut(id as usize) else { continue };
            if !breaks_alone {
                let mut exponent = length - self.allowed_length;
                if max_exponent > 0 {
                    exponent = exponent.min(max_exponent);
                }
                *logit -= self.multiplier * self.base.powi(exponent as i32);
            }
        }
    }

    /// How many of the last tokens lie after the last breaker.
    fn unbroken_length(&self, window: &[u32]) -> usize {
        for (from_end, id) in window.iter().rev().enumerate() {
            let Some(tails) = self.breakers.get(id) else { continue };
            let after = &window[window.len() - from_end..];
            if let Some(tail) = tails.iter().filter(|tail| after.starts_with(tail)).map(Vec::len).max() {
                return from_end - tail;
            }
        }
        window.len()
    }

    /// For each token that once followed a copy of the window's end: the length of the longest such copy.
    ///
    /// The lengths are the Z function (Gusfield 1997) of the reversed window, so the work is linear.
    fn find_repeats(&self, window: &[u32], longest: usize, scratch: &mut DryScratch) {
        let n = window.len();
        let reversed = |i: usize| window[n - 1 - i];
        let DryScratch { z, longest_by_token } = scratch;
        z.clear();
        z.resize(n, 0);
        longest_by_token.clear();
        let (mut left, mut right) = (0, 0);
        for i in 1..n {
            let mut length = if i < right { z[i - left].min(right - i) } else { 0 };
            while i + length < n && reversed(length) == reversed(i + length) {
                length += 1;
            }
            z[i] = length;
            if i + length > right {
                (left, right) = (i, i + length);
            }
            let length = length.min(longest);
            if length >= self.allowed_length && length > 0 {
                let best = longest_by_token.entry(reversed(i - 1)).or_insert(0);
                *best = length.max(*best);
            }
        }
    }
}

/// Space that [`Dry::apply`] reuses from token to token.
#[derive(Debug, Clone, Default)]
pub struct DryScratch {
    z: Vec<usize>,
    longest_by_token: HashMap<u32, usize>,
}

/// The token sequences that stand for breaker texts.
///
/// A token that holds the whole text breaks alone. A token that ends with the text's beginning is the head of a
/// sequence whose tail is the rest of the text, as `tokenize` splits it.
///
/// `tokens` gives every id with its bytes.
pub fn breaker_sequences<'a>(
    texts: &[String],
    tokens: impl Iterator<Item = (u32, &'a [u8])> + Clone,
    mut tokenize: impl FnMut(&str) -> Vec<u32>,
) -> Vec<Vec<u32>> {
    let mut sequences = Vec::new();
    for text in texts.iter().filter(|text| !text.is_empty()) {
        let bytes = text.as_bytes();
        for (id, token) in tokens.clone() {
            if token.windows(bytes.len()).any(|part| part == bytes) {
                sequences.push(vec![id]);
                continue;
            }
            for (at, _) in text.char_indices().skip(1) {
                if token.ends_with(&bytes[..at]) {
                    let mut sequence = vec![id];
                    sequence.extend(tokenize(&text[at..]));
                    sequences.push(sequence);
                }
            }
        }
    }
    sequences
}
