//! qwen3: Qwen 3, dense; a norm on each head of Q and K.
//!
//! Source: Yang et al. 2025.

use crate::devices::op::RopePairing;
use crate::engine::arch::{Arch, Spec, blocks};

pub const ARCH: Arch = Arch {
    name: "qwen3",
    spec: |source| Spec::read(source, RopePairing::Halves),
    attn: |spec, layer, b| blocks::attention(spec, layer, blocks::QkNorm::PerHead, b),
    ffn: blocks::gated_ffn,
};
