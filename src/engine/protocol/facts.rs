//! What a command gave: the loaded model, the finished answer.

use std::path::PathBuf;

use serde::Serialize;

use super::{DeviceId, KvType, Part, StopReason, Timings};

/// What was loaded.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ModelInfo {
    pub path: PathBuf,
    pub name: String,
    pub arch: String,
    /// How most of it is quantised, as its maker names it: `Q4_K_M`.
    pub quant: String,
    pub n_layer: u32,
    pub n_vocab: u32,
    pub n_ctx: u32,
    pub n_ctx_train: u32,
    pub n_params: u64,
    pub file_bytes: u64,
    pub kv: KvType,
    /// Its layers have experts, of which a token uses a few.
    pub is_moe: bool,
    /// The file says how messages are written for it.
    pub has_chat_template: bool,
    pub placement: String,
    /// In the model's order, by [`Part::index`].
    pub parts: Vec<PartInfo>,
    /// What the buffers on each device take, by the devices' own count.
    pub device_bytes: Vec<(DeviceId, u64)>,
    pub load_ms: f64,
}

/// What a part takes on the device that held it after loading. A tied head counts the table that it shares, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct PartInfo {
    pub part: Part,
    pub weight_bytes: u64,
    /// For the whole context.
    pub kv_bytes: u64,
}

/// What a generation gave.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    pub ids: Vec<u32>,
    pub text: String,
    pub stop: StopReason,
    pub timings: Timings,
}
