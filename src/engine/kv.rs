//! The KV cache's element type and sizes.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::devices::KvSpec;
use crate::devices::quant::DType;
use crate::engine::arch::Spec;

/// Element type of the KV cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KvType {
    F32,
    #[default]
    F16,
    #[serde(rename = "q8_0")]
    Q8_0,
}

impl KvType {
    pub const ALL: [KvType; 3] = [KvType::F32, KvType::F16, KvType::Q8_0];

    pub const fn dtype(self) -> DType {
        match self {
            KvType::F32 => DType::F32,
            KvType::F16 => DType::F16,
            KvType::Q8_0 => DType::Q8_0,
        }
    }

    pub const fn name(self) -> &'static str {
        match self {
            KvType::F32 => "f32",
            KvType::F16 => "f16",
            KvType::Q8_0 => "q8_0",
        }
    }

    /// Whether heads of this size can be stored: quantised blocks must not straddle heads.
    pub fn fits_head(self, head_dim: u32) -> bool {
        (head_dim as usize).is_multiple_of(self.dtype().block_len())
    }
}

impl fmt::Display for KvType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for KvType {
    type Err = String;

    fn from_str(text: &str) -> Result<KvType, String> {
        let known = KvType::ALL.into_iter().find(|k| k.name().eq_ignore_ascii_case(text));
        known.ok_or_else(|| format!("'{text}' is not a KV cache type (f16, q8_0 or f32)"))
    }
}

/// Shape of one layer's cache.
pub fn kv_spec(spec: &Spec, layer: u32, kv: KvType, n_ctx: u32) -> KvSpec {
    KvSpec {
        dtype: kv.dtype(),
        head_dim_k: spec.head_dim_k,
        head_dim_v: spec.head_dim_v,
        n_kv_head: spec.layers[layer as usize].n_kv_head,
        n_ctx,
    }
}
