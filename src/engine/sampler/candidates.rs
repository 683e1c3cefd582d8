//! The tokens still in the race.

use std::cmp::Ordering;

/// A token with its logit and, once a step has computed it, its probability.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Candidate {
    pub id: u32,
    /// Never NaN and never plus infinity; minus infinity means impossible.
    pub logit: f32,
    /// Probability among the candidates at the time it was computed. A later cut does not scale it up.
    pub p: f32,
}

impl Candidate {
    /// Higher logits first; of equal ones the lower id, so that the order is always the same.
    fn order(&self, other: &Self) -> Ordering {
        other.logit.total_cmp(&self.logit).then(self.id.cmp(&other.id))
    }
}

/// The candidates of one token. The buffer is kept from token to token.
#[derive(Debug, Clone, Default)]
pub struct Candidates {
    pub(super) data: Vec<Candidate>,
    pub(super) is_sorted: bool,
}

impl Candidates {
    /// All tokens, by id. Logits that are not finite become minus infinity.
    pub fn fill(&mut self, logits: &[f32]) {
        self.reset();
        self.data.extend(logits.iter().enumerate().map(|(i, &logit)| candidate(i, logit)));
    }

    /// The same as [`Candidates::fill`] and then the top-k step, in one pass over the logits that holds only a few
    /// candidates at a time.
    pub fn fill_top_k(&mut self, logits: &[f32], k: usize) {
        if k == 0 || k >= logits.len() / 4 {
            self.fill(logits);
            self.top_k(k);
            return;
        }
        self.reset();
        let room = (2 * k).max(256);
        let mut floor: Option<f32> = None;
        for (i, &logit) in logits.iter().enumerate() {
            // A later token of equal logit has a higher id, so it loses.
            if floor.is_some_and(|floor| logit <= floor) {
                continue;
            }
            self.data.push(candidate(i, logit));
            if self.data.len() == room {
                self.keep_best(k);
                floor = self.data.iter().map(|c| c.logit).reduce(f32::min);
            }
        }
        self.top_k(k);
    }

    fn reset(&mut self) {
        self.data.clear();
        self.is_sorted = false;
    }

    /// The candidates, best first when [`Candidates::is_sorted`].
    pub fn as_slice(&self) -> &[Candidate] {
        &self.data
    }

    pub fn is_sorted(&self) -> bool {
        self.is_sorted
    }

    /// Keeps the `k` best, sorted; 0 keeps all as they are.
    pub fn top_k(&mut self, k: usize) {
        if k == 0 {
            return;
        }
        if !self.is_sorted {
            self.keep_best(k);
            self.sort();
        }
        self.data.truncate(k);
    }

    fn keep_best(&mut self, k: usize) {
        if k < self.data.len() {
            self.data.select_nth_unstable_by(k, Candidate::order);
            self.data.truncate(k);
        }
    }

    pub(super) fn sort(&mut self) {
        if !self.is_sorted {
            self.data.sort_unstable_by(Candidate::order);
            self.is_sorted = true;
        }
    }

    /// Puts the best `n` in front, sorted, and says how many of them there are.
    pub(super) fn sort_front(&mut self, n: usize) -> usize {
        if self.is_sorted || n >= self.data.len() {
            self.sort();
            return self.data.len();
        }
        self.data.select_nth_unstable_by(n, Candidate::order);
        self.data[..n].sort_unstable_by(Candidate::order);
        n
    }

    /// The highest logit; minus infinity when there are no candidates.
    pub(super) fn max_logit(&self) -> f32 {
        match self.data.first() {
            Some(first) if self.is_sorted => first.logit,
            _ => self.data.iter().fold(f32::NEG_INFINITY, |max, c| max.max(c.logit)),
        }
    }

    /// Fills in `p` as the softmax of the logits. Without a finite logit every `p` is 0.
    pub fn softmax(&mut self) {
        let max = self.max_logit();
        let mut sum = 0.0f64;
        for c in &mut self.data {
            c.p = if c.logit == f32::NEG_INFINITY { 0.0 } else { (c.logit - max).exp() };
            sum += f64::from(c.p);
        }
        if sum > 0.0 {
            let scale = 1.0 / sum;
            for c in &mut self.data {
                c.p = (f64::from(c.p) * scale) as f32;
            }
        }
    }

    /// Entropy of the probabilities, in nats. Impossible tokens add nothing.
    pub(super) fn entropy(&self) -> f32 {
        self.data.iter().filter(|c| c.p > 0.0).map(|c| -c.p * c.p.ln()).sum()
    }
}

fn candidate(index: usize, logit: f32) -> Candidate {
    let logit = if logit.is_finite() { logit } else { f32::NEG_INFINITY };
    Candidate { id: index as u32, logit, p: 0.0 }
}
