//! qwen2: Qwen 2 and 2.5, dense; biases on Q, K and V.
//!
//! Source: Yang et al. 2024.

use crate::devices::op::RopePairing;
use crate::engine::arch::{Arch, Spec, blocks};

pub const ARCH: Arch = Arch {
    name: "qwen2",
    spec: |source| Spec::read(source, RopePairing::Halves),
    attn: |spec, layer, b| blocks::attention(spec, layer, blocks::QkNorm::None, b),
    ffn: blocks::gated_ffn,
};
