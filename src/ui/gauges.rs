//! What is known of every device at this moment, and for the last minute. Pure: messages in, values out.
//!
//! Two sources meet here. The engine tells what this program holds and computes ([`Stats`]); telemetry tells what the
//! driver or the system sees ([`Reading`]). What neither knows stays `None`.

mod busy;
mod history;
mod holds;
mod memory;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

use std::time::Duration;

pub use history::{History, Sample};
pub use holds::{Holds, holds};
pub use memory::MemorySplit;

use self::busy::Busy;
use super::text::printable;
use crate::devices::telemetry::{PowerState, Reading};
use crate::engine::protocol::{DeviceFacts, DeviceId, DeviceKind, DeviceStats, Placement, Stats};

/// Samples are taken with telemetry; where none has come for this long, with the engine's stats.
const TELEMETRY_IS_LATE: Duration = Duration::from_millis(1500);
/// Time between two samples that are taken with the engine's stats.
const STATS_PERIOD: Duration = Duration::from_millis(250);

/// All devices: the engine's first, in its order, then the GPUs that only telemetry knows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Gauges {
    pub devices: Vec<DeviceRow>,
    /// Of a decoded token's time, what hops took: 0 to 1.
    pub hop_share: Option<f64>,
    pub hop_bytes_per_s: Option<f64>,
    /// Of the last message.
    pub now: Duration,
    streaming: bool,
    decode_tokens_per_s: Option<f64>,
    sampled_at: Option<Duration>,
    telemetry_at: Option<Duration>,
}

/// One device.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceRow {
    pub id: DeviceId,
    /// Fit to be shown.
    pub name: String,
    pub simulated: bool,
    /// False: telemetry sees it, and this program does not compute on it.
    pub in_engine: bool,
    /// `None` where it is not in the engine.
    pub facts: Option<DeviceFacts>,
    pub stats: Option<DeviceStats>,
    pub reading: Option<Reading>,
    /// What it holds of the model.
    pub holds: Holds,
    pub load: Option<Load>,
    pub history: History,
    /// One of several devices that share the host's processor: the host's load is not its own.
    shares_host: bool,
    busy: Busy,
}

/// How much of the time a device works.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// 0 to 1.
    pub share: f32,
    /// True: the driver's or the system's figure, for all programs. False: this program's own computing.
    pub is_measured_outside: bool,
}

impl Gauges {
    pub fn new(facts: &[DeviceFacts]) -> Gauges {
        let n_host = facts.iter().filter(|f| f.id.kind == DeviceKind::Cpu && !f.simulated).count();
        let devices = facts.iter().map(|f| DeviceRow {
            in_engine: true,
            simulated: f.simulated,
            facts: Some(f.clone()),
            shares_host: n_host > 1 && f.id.kind == DeviceKind::Cpu,
            ..DeviceRow::new(f.id, &f.name)
        });
        Gauges { devices: devices.collect(), ..Gauges::default() }
    }

    /// What the engine says. Rows without an entry lose what they had.
    pub fn on_stats(&mut self, now: Duration, stats: &Stats) {
        self.now = self.now.max(now);
        self.streaming = stats.streaming;
        self.hop_share = stats.hop_share;
        self.hop_bytes_per_s = stats.hop_bytes_per_s;
        self.decode_tokens_per_s = stats.decode_tokens_per_s;
        for row in self.devices.iter_mut().filter(|row| row.in_engine) {
            row.stats = stats.devices.iter().find(|s| s.id == row.id).copied();
            if let Some(stats) = row.stats {
                row.busy.note(now, stats.busy_total);
            }
        }
        let since = |at: Option<Duration>| at.map_or(Duration::MAX, |at| now.saturating_sub(at));
        if since(self.telemetry_at) >= TELEMETRY_IS_LATE && since(self.sampled_at) >= STATS_PERIOD {
            self.sample(now);
        }
    }

    /// What telemetry sees: always all devices that it knows.
    pub fn on_telemetry(&mut self, now: Duration, readings: &[Reading]) {
        self.now = self.now.max(now);
        self.telemetry_at = Some(now);
        for row in &mut self.devices {
            row.reading = readings.iter().find(|r| r.id == row.id && !row.simulated).cloned();
        }
        self.devices.retain(|row| row.in_engine || row.reading.is_some());
        for reading in readings.iter().filter(|r| r.id.kind != DeviceKind::Cpu) {
            if !self.devices.iter().any(|row| row.id == reading.id && !row.simulated) {
                let row = DeviceRow::new(reading.id, &reading.name);
                self.devices.push(DeviceRow { reading: Some(reading.clone()), ..row });
            }
        }
        self.sample(now);
    }

    /// Where the model's parts lie now; `None`: there is no model.
    pub fn set_placement(&mut self, placement: Option<&Placement>) {
        for row in &mut self.devices {
            row.holds = match placement {
                Some(placement) if row.in_engine => holds(placement, row.id),
                _ => Holds::default(),
            };
        }
    }

    /// The engine's device of this id, else the one that telemetry knows, with its place in the list.
    pub fn find(&self, id: DeviceId) -> Option<(usize, &DeviceRow)> {
        self.devices.iter().enumerate().find(|(_, row)| row.id == id)
    }

    fn sample(&mut self, now: Duration) {
        self.sampled_at = Some(now);
        for row in &mut self.devices {
            row.load = row.load_at(now, self.streaming);
            let n_parts = row.stats.map_or(0, |s| s.n_parts);
            let tokens_per_s = match (n_parts, self.streaming) {
                (0, _) => None,
                (_, true) => self.decode_tokens_per_s,
                (_, false) => Some(0.0),
            };
            row.history.push(Sample {
                at: now,
                utilisation: row.load.map(|l| l.share),
                memory_used_bytes: row.memory().map(|m| m.used_bytes()),
                tokens_per_s: tokens_per_s.map(|t| t as f32),
                power_w: row.reading.as_ref().and_then(|r| r.power_w),
                temperature_c: row.reading.as_ref().and_then(|r| r.temperature_c),
            });
        }
    }
}

impl DeviceRow {
    fn new(id: DeviceId, name: &str) -> DeviceRow {
        DeviceRow {
            id,
            name: printable(name).into_owned(),
            simulated: false,
            in_engine: false,
            facts: None,
            stats: None,
            reading: None,
            holds: Holds::default(),
            load: None,
            history: History::default(),
            shares_host: false,
            busy: Busy::default(),
        }
    }

    /// Awake where nobody says otherwise.
    pub fn state(&self) -> PowerState {
        self.reading.as_ref().map_or(PowerState::Awake, |r| r.state)
    }

    /// `None` where the total or what is used of it is not known.
    pub fn memory(&self) -> Option<MemorySplit> {
        MemorySplit::new(self.stats.as_ref(), self.reading.as_ref())
    }

    pub fn memory_total_bytes(&self) -> Option<u64> {
        let seen = self.reading.as_ref().and_then(|r| r.memory_total_bytes);
        seen.or(self.stats.map(|s| s.total_bytes)).filter(|total| *total > 0)
    }

    fn load_at(&self, now: Duration, streaming: bool) -> Option<Load> {
        let seen = self.reading.as_ref().filter(|_| !self.shares_host).and_then(|r| r.utilisation);
        if let Some(share) = seen.filter(|share| share.is_finite()) {
            return Some(Load { share: share.clamp(0.0, 1.0), is_measured_outside: true });
        }
        let is_here = self.in_engine && self.state() != PowerState::Gone;
        let share = self.busy.share(now, streaming).filter(|_| is_here)?;
        Some(Load { share, is_measured_outside: false })
    }
}
