//! The last minute of a device.

use std::collections::VecDeque;
use std::time::Duration;

/// One moment of one device. `None` is "not available", never 0.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sample {
    pub at: Duration,
    /// 0 to 1.
    pub utilisation: Option<f32>,
    pub memory_used_bytes: Option<u64>,
    /// Decoded tokens that passed through the device; 0 between answers.
    pub tokens_per_s: Option<f32>,
    pub power_w: Option<f32>,
    pub temperature_c: Option<f32>,
}

/// Samples in the order of their times.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History {
    samples: VecDeque<Sample>,
}

/// A value is taken to last this long when no newer one comes.
const HOLD: Duration = Duration::from_secs(2);

impl History {
    pub const SPAN: Duration = Duration::from_secs(60);

    /// Takes a sample and forgets those that are older than [`History::SPAN`]. One from the past is not taken.
    pub fn push(&mut self, sample: Sample) {
        if self.samples.back().is_some_and(|last| last.at > sample.at) {
            return;
        }
        while self.samples.front().is_some_and(|first| first.at + Self::SPAN < sample.at) {
            self.samples.pop_front();
        }
        self.samples.push_back(sample);
    }

    pub fn samples(&self) -> impl DoubleEndedIterator<Item = &Sample> {
        self.samples.iter()
    }

    /// The mean of each of `n` equal pieces of the time before `now`, oldest first. A piece without samples has the
    /// value before it, when that is not too old. Pieces lie fast in time, so that a picture of them moves in whole
    /// steps instead of trembling.
    pub fn bins(
        &self,
        now: Duration,
        span: Duration,
        n: usize,
        value: impl Fn(&Sample) -> Option<f32>,
    ) -> Vec<Option<f32>> {
        let width = span.as_secs_f64() / n.max(1) as f64;
        if width <= 0.0 {
            return vec![None; n];
        }
        let place = |at: Duration| (at.as_secs_f64() / width).floor() as i64;
        let newest = place(now);
        let mut bins: Vec<Bin> = vec![Bin::default(); n];
        for sample in &self.samples {
            let index = n as i64 - 1 - (newest - place(sample.at));
            let bin = usize::try_from(index).ok().and_then(|i| bins.get_mut(i));
            if let Some(bin) = bin {
                bin.n_samples += 1;
                if let Some(value) = value(sample).filter(|v| v.is_finite()) {
                    bin.sum += f64::from(value);
                    bin.n_values += 1;
                }
            }
        }
        let n_held = (HOLD.as_secs_f64() / width) as usize;
        let mut held = (None, 0);
        let filled = bins.iter().map(|bin| {
            held = match bin {
                Bin { n_samples: 0, .. } if held.1 > 0 => (held.0, held.1 - 1),
                Bin { n_samples: 0, .. } => (None, 0),
                Bin { n_values: 0, .. } => (None, 0),
                Bin { sum, n_values, .. } => (Some((sum / *n_values as f64) as f32), n_held),
            };
            held.0
        });
        filled.collect()
    }
}

#[derive(Clone, Copy, Default)]
struct Bin {
    n_samples: usize,
    n_values: usize,
    sum: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(at_ms: u64, utilisation: Option<f32>) -> Sample {
        Sample { at: Duration::from_millis(at_ms), utilisation, ..Sample::default() }
    }

    fn history(samples: &[(u64, Option<f32>)]) -> History {
        let mut history = History::default();
        samples.iter().for_each(|&(at, u)| history.push(sample(at, u)));
        history
    }

    fn seconds(history: &History, now_ms: u64, n: usize) -> Vec<Option<f32>> {
        let span = Duration::from_secs(n as u64);
        history.bins(Duration::from_millis(now_ms), span, n, |s| s.utilisation)
    }

    #[test]
    fn a_minute_is_kept() {
        let mut history = History::default();
        for at in 0..200 {
            history.push(sample(at * 500, Some(0.5)));
        }
        let times: Vec<_> = history.samples().map(|s| s.at.as_millis()).collect();
        assert_eq!((times.len(), times[0], times[120]), (121, 39_500, 99_500));
        history.push(sample(1, Some(0.9)));
        assert_eq!(history.samples().count(), 121);
    }

    #[test]
    fn pieces_are_means_and_lie_fast() {
        let history = history(&[(0, Some(0.2)), (500, Some(0.4)), (1100, Some(1.0)), (2000, Some(0.0))]);
        let want = [Some(0.3), Some(1.0), Some(0.0)];
        for now in [2000, 2400, 2999] {
            let bins = seconds(&history, now, 3);
            for (bin, want) in bins.iter().zip(&want) {
                assert!((bin.unwrap() - want.unwrap()).abs() < 1e-6, "{bins:?}");
            }
        }
        assert_eq!(seconds(&history, 3000, 3)[0], Some(1.0));
    }

    #[test]
    fn gaps_are_held_for_a_while_and_absence_is_absence() {
        let history = history(&[(0, Some(0.5)), (5000, Some(0.7)), (6000, None)]);
        let half = Some(0.5);
        assert_eq!(seconds(&history, 7000, 8), [half, half, half, None, None, Some(0.7), None, None]);
        assert_eq!(seconds(&history, 900_000, 3), [None; 3]);
        assert_eq!(seconds(&history, 0, 0), []);
    }
}
