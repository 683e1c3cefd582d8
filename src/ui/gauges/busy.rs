//! A device's utilisation from the growth of its computing time, where nobody measures it for us.

use std::collections::VecDeque;
use std::time::Duration;

/// The share is that of the last second.
const WINDOW: Duration = Duration::from_secs(1);
/// While an answer streams, no news for this long means a slow token, not an idle device.
const PATIENCE: Duration = Duration::from_secs(2);

/// When the engine said how much the device had computed, since a bit longer than [`WINDOW`].
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Busy {
    marks: VecDeque<(Duration, Duration)>,
}

impl Busy {
    pub fn note(&mut self, at: Duration, busy_total: Duration) {
        // An engine that started anew counts from nothing again.
        if self.marks.back().is_some_and(|&(last, total)| busy_total < total || at < last) {
            self.marks.clear();
        }
        self.marks.push_back((at, busy_total));
        // One mark before the window stays: the line to the next one crosses the window's start.
        while self.marks.get(1).is_some_and(|&(second, _)| second + WINDOW <= at) {
            self.marks.pop_front();
        }
    }

    /// 0 to 1; `None` before there are two marks.
    pub fn share(&self, now: Duration, streaming: bool) -> Option<f32> {
        let (&(first, first_total), &(last, last_total)) = (self.marks.front()?, self.marks.back()?);
        let end = if streaming && now < last + PATIENCE { last } else { now.max(last) };
        let start = end.saturating_sub(WINDOW).max(first);
        let length = end.saturating_sub(start);
        if length.is_zero() {
            return None;
        }
        let total_at_start = if start == first { first_total } else { self.total_at(start) };
        let grown = last_total.saturating_sub(total_at_start);
        Some((grown.as_secs_f32() / length.as_secs_f32()).clamp(0.0, 1.0))
    }

    /// The computing time at a moment, on the line between the marks around it.
    fn total_at(&self, at: Duration) -> Duration {
        let after = self.marks.partition_point(|&(mark, _)| mark <= at);
        let before = after.checked_sub(1).and_then(|i| self.marks.get(i));
        match (before, self.marks.get(after)) {
            (Some(&(t0, b0)), Some(&(t1, b1))) if t1 > t0 => {
                b0 + b1.saturating_sub(b0).mul_f64((at - t0).as_secs_f64() / (t1 - t0).as_secs_f64())
            }
            (Some(&(_, total)), _) | (None, Some(&(_, total))) => total,
            (None, None) => Duration::ZERO,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn the_share_is_that_of_the_last_second() {
        let mut busy = Busy::default();
        assert_eq!(busy.share(ms(0), true), None);
        busy.note(ms(0), ms(0));
        assert_eq!(busy.share(ms(0), true), None);
        busy.note(ms(200), ms(50));
        assert_eq!(busy.share(ms(300), true), Some(0.25));
        busy.note(ms(1200), ms(50));
        assert_eq!(busy.share(ms(1200), true), Some(0.0));
        busy.note(ms(1700), ms(550));
        assert_eq!(busy.share(ms(1700), true), Some(0.5));
    }

    #[test]
    fn a_slow_token_is_no_idleness_but_silence_is() {
        let mut busy = Busy::default();
        busy.note(ms(0), ms(0));
        busy.note(ms(1500), ms(1200));
        assert_eq!(busy.share(ms(2500), true), Some(0.8));
        assert_eq!(busy.share(ms(2500), false), Some(0.0));
        assert_eq!(busy.share(ms(3600), true), Some(0.0));
    }

    #[test]
    fn the_line_between_marks_counts() {
        let mut busy = Busy::default();
        busy.note(ms(0), ms(0));
        busy.note(ms(2000), ms(2000));
        busy.note(ms(2500), ms(2000));
        // Half of the last second was computed through.
        assert_eq!(busy.share(ms(2500), true), Some(0.5));
    }

    #[test]
    fn a_count_that_falls_starts_anew() {
        let mut busy = Busy::default();
        busy.note(ms(0), ms(900));
        busy.note(ms(500), ms(100));
        assert_eq!(busy.share(ms(500), true), None);
        busy.note(ms(700), ms(200));
        assert_eq!(busy.share(ms(700), true), Some(0.5));
    }
}
