//! What a change would do, before it is asked for.

use super::{Basis, Bottleneck, DeviceId};

/// A change that was looked at and not made. A text that cannot be read gives the present placement, with the reason.
#[derive(Clone, Debug, PartialEq)]
pub struct Preview {
    /// Where every part would lie, in the text form.
    pub placement: String,
    /// Why it cannot be, in the words that `Refused` would have. `None`: it can.
    pub refused: Option<String>,
    /// Every device of the engine in its order.
    pub devices: Vec<DevicePreview>,
    /// Parts that would move.
    pub n_moves: usize,
    /// From the file to their new devices, while tokens go on.
    pub weight_bytes: u64,
    pub staging_s: f64,
    /// From device to device at the switch, when nothing is computed.
    pub kv_bytes: u64,
    pub stall_s: f64,
    /// Forecast for decoding with what the cache holds now.
    pub from_tokens_per_s: f64,
    pub to_tokens_per_s: f64,
    pub prefill_tokens_per_s: f64,
    pub n_hops: usize,
    /// All hops of one decoded token.
    pub hop_ms: f64,
    pub bottleneck: Bottleneck,
    /// What the forecast rests on: of all devices used, the least certain.
    pub basis: Basis,
    /// Why `auto` chose so, a sentence each.
    pub notes: Vec<String>,
}

/// One device after the change.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DevicePreview {
    pub id: DeviceId,
    pub n_parts: usize,
    /// Weights, KV cache and scratch together.
    pub held_bytes_after: u64,
    pub weight_bytes: u64,
    pub kv_bytes: u64,
    pub scratch_bytes: u64,
    pub total_bytes: u64,
    /// What is missing here while both placements are held. 0: it fits.
    pub short_bytes: u64,
    /// Its time in one decoded token; 0 without parts.
    pub decode_ms: f64,
    /// Of a token's time, 0 to 1.
    pub decode_share: f64,
    /// Read from its memory for one decoded token.
    pub read_bytes: u64,
    /// `None` without parts.
    pub basis: Option<Basis>,
}
