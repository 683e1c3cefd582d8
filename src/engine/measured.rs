//! Decode times of parts on the devices where they ran: what forecasts rest on once a model has answered.

use std::collections::HashMap;
use std::time::Duration;

use crate::devices::DeviceId;
use crate::engine::part::Part;
use crate::engine::placement::Placement;

/// Fewer decoded tokens than this are no measurement: the first ones find cold caches.
const MIN_TOKENS: usize = 8;

/// Computing of each segment of a placement, while tokens were decoded.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SegmentTimes {
    pub n_tokens: usize,
    /// In the order of [`Placement::segments`].
    pub busy: Vec<Duration>,
}

/// The last good measurement of every part on every device, of one model.
#[derive(Clone, Debug, Default)]
pub struct Measured(HashMap<(Part, DeviceId), Sample>);

#[derive(Clone, Copy, Debug)]
struct Sample {
    ms: f64,
    /// What was read for a token then: the KV cache grows.
    read_bytes: u64,
}

impl Measured {
    /// Takes a measurement. Parts of one segment are not timed apart: its time is shared out by what they read.
    pub fn note(&mut self, placement: &Placement, times: &SegmentTimes, read_bytes: &dyn Fn(Part) -> u64) {
        let segments = placement.segments();
        if times.n_tokens < MIN_TOKENS || times.busy.len() != segments.len() {
            return;
        }
        for (segment, busy) in segments.iter().zip(&times.busy) {
            let ms = busy.as_secs_f64() * 1e3 / times.n_tokens as f64;
            let total_bytes: u64 = segment.parts.iter().map(|p| read_bytes(*p)).sum();
            for &part in &segment.parts {
                let read_bytes = read_bytes(part);
                let share = match total_bytes {
                    0 => 1.0 / segment.parts.len() as f64,
                    total => read_bytes as f64 / total as f64,
                };
                self.0.insert((part, segment.device), Sample { ms: ms * share, read_bytes });
            }
        }
    }

    /// Milliseconds of one decoded token for which the part reads `read_bytes`; `None`: not measured on this device.
    pub fn decode_ms(&self, part: Part, id: DeviceId, read_bytes: u64) -> Option<f64> {
        let sample = self.0.get(&(part, id))?;
        Some(match sample.read_bytes {
            0 => sample.ms,
            then => sample.ms * read_bytes as f64 / then as f64,
        })
    }

    /// Forgets everything: the parts are another model's.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::placement::testing::*;

    fn times(n_tokens: usize, ms: &[u64]) -> SegmentTimes {
        SegmentTimes { n_tokens, busy: ms.iter().map(|ms| Duration::from_millis(*ms)).collect() }
    }

    /// 1 for embed, 10 for attention, 30 for FFN, 20 for the head.
    fn read_bytes(part: Part) -> u64 {
        match part {
            Part::Embed => 1,
            Part::Attn(_) => 10,
            Part::Ffn(_) => 30,
            Part::Head => 20,
        }
    }

    #[test]
    fn a_segments_time_is_shared_out_by_bytes() {
        let placement = Placement::uniform(3, CUDA0).with_layers(1..2, CPU0);
        let mut measured = Measured::default();
        measured.note(&placement, &times(10, &[41, 400, 60]), &read_bytes);
        let ms = |part: Part, id| measured.decode_ms(part, id, read_bytes(part));
        let near =
            |ms: Option<f64>, expected: f64| assert!(ms.is_some_and(|ms| (ms - expected).abs() < 1e-9), "{ms:?}");
        near(ms(Part::Attn(0), CUDA0), 1.0);
        near(ms(Part::Ffn(0), CUDA0), 3.0);
        near(ms(Part::Ffn(1), CPU0), 30.0);
        near(ms(Part::Head, CUDA0), 2.0);
        assert_eq!(ms(Part::Ffn(1), CUDA0), None);
        let total: f64 = placement.iter().filter_map(|(part, id)| ms(part, id)).sum();
        near(Some(total), 50.1);
        // A longer cache takes longer to read.
        near(measured.decode_ms(Part::Attn(0), CUDA0, 25), 2.5);
    }

    #[test]
    fn what_is_no_measurement_changes_nothing() {
        let placement = Placement::uniform(1, CPU0);
        let mut measured = Measured::default();
        measured.note(&placement, &times(7, &[70]), &read_bytes);
        measured.note(&placement, &times(8, &[70, 70]), &read_bytes);
        assert_eq!(measured.decode_ms(Part::Head, CPU0, 20), None);
        measured.note(&placement, &times(8, &[80]), &|_| 0);
        assert_eq!(measured.decode_ms(Part::Head, CPU0, 0), Some(2.5));
        measured.clear();
        assert_eq!(measured.decode_ms(Part::Head, CPU0, 0), None);
    }
}
