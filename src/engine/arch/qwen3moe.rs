//! qwen3moe: Qwen 3 with a mixture of experts in every layer.
//!
//! Source: Yang et al. 2025.

use crate::devices::op::{Gating, RopePairing};
use crate::engine::arch::{Arch, ExpertSpec, Spec, blocks};

pub const ARCH: Arch = Arch {
    name: "qwen3moe",
    spec: |source| {
        let mut spec = Spec::read(source, RopePairing::Halves)?;
        spec.experts = ExpertSpec::read(source, Gating::Softmax, spec.layers[0].n_ff)?;
        Ok(spec)
    },
    attn: |spec, layer, b| blocks::attention(spec, layer, blocks::QkNorm::PerHead, b),
    ffn: |spec, layer, b| match &spec.experts {
        Some(experts) => blocks::moe_ffn(spec, experts, layer, b),
        None => blocks::gated_ffn(spec, layer, b),
    },
};
