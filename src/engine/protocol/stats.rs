//! Facts at a high rate: times and memory.

use std::sync::Arc;
use std::time::Duration;

use super::DeviceId;

/// Of one generation. What belongs to decoding is counted apart from what belongs to the prompt.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Timings {
    /// Tokens that were computed, without those that the cache held.
    pub prefill_tokens: usize,
    pub prefill: Duration,
    pub decode_tokens: usize,
    pub decode: Duration,
    /// Computing and waiting of each device that held parts.
    pub devices: Vec<DeviceTimes>,
    /// Moving of activations between devices, both sides of it.
    pub prefill_hops: Duration,
    pub decode_hops: Duration,
    /// Activations that crossed from device to device.
    pub prefill_hop_bytes: u64,
    pub decode_hop_bytes: u64,
}

impl Timings {
    pub fn hops(&self) -> Duration {
        self.prefill_hops + self.decode_hops
    }

    pub fn hop_bytes(&self) -> u64 {
        self.prefill_hop_bytes + self.decode_hop_bytes
    }

    /// `None`: nothing was computed.
    pub fn prefill_tokens_per_s(&self) -> Option<f64> {
        rate(self.prefill_tokens, self.prefill)
    }

    /// `None`: nothing was computed.
    pub fn decode_tokens_per_s(&self) -> Option<f64> {
        rate(self.decode_tokens, self.decode)
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DeviceTimes {
    pub id: DeviceId,
    /// Computing: that of the prompt and that of decoding together.
    pub busy: Duration,
    pub prefill_busy: Duration,
    pub decode_busy: Duration,
    /// The model ran, and this device did not compute.
    pub wait: Duration,
}

/// High-rate facts; the latest value wins. Published when something happens in the engine, never by the clock: while
/// it is idle, `free_bytes` is as old as the last load, change or answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stats {
    pub placement: String,
    pub n_ctx: u32,
    /// Positions that the KV cache holds.
    pub n_past: u32,
    pub streaming: bool,
    /// Of the running or last generation.
    pub timings: Timings,
    /// Of the running or last generation: its last tokens while it runs, all of it afterwards.
    pub decode_tokens_per_s: Option<f64>,
    pub prefill_tokens_per_s: Option<f64>,
    /// Of a decoded token's time, what hops took: 0 to 1.
    pub hop_share: Option<f64>,
    /// Activations that crossed from device to device per second of the generation.
    pub hop_bytes_per_s: Option<f64>,
    /// Every device of the engine in its order, those without parts too.
    pub devices: Vec<DeviceStats>,
    /// Milliseconds of one decoded token in each part where it lies now, by [`super::Part::index`]. A device's time is
    /// shared out over its consecutive parts by what they read. `None`: not yet measured there.
    pub part_ms: Arc<[Option<f32>]>,
}

/// One device. Rates are those of the running or last generation, `None` where it took no part in it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DeviceStats {
    pub id: DeviceId,
    pub total_bytes: u64,
    pub free_bytes: u64,
    /// What the buffers of this program hold: weights, KV cache, scratch, and what a change has staged.
    pub ours_bytes: u64,
    /// Of the placement in use.
    pub weight_bytes: u64,
    pub kv_bytes: u64,
    /// Activations and working memory.
    pub scratch_bytes: u64,
    pub n_parts: usize,
    /// Computing since the engine's start. Two samples give the utilisation between them.
    pub busy_total: Duration,
    pub decode_ms_per_token: Option<f64>,
    /// Of a decoded token's time, 0 to 1.
    pub decode_share: Option<f64>,
    /// Of the time in which the model ran, 0 to 1: this device did not compute.
    pub wait_share: Option<f64>,
    /// Tokens of the prompt per second of this device's own computing.
    pub prefill_tokens_per_s: Option<f64>,
}

fn rate(n_tokens: usize, time: Duration) -> Option<f64> {
    (n_tokens > 0 && !time.is_zero()).then(|| n_tokens as f64 / time.as_secs_f64())
}
