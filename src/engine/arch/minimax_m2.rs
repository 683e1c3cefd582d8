//! minimax-m2: MiniMax M2; the QK norm spans all heads, experts are gated by a sigmoid and chosen with a bias.
//!
//! Source: MiniMax 2025 (M2 model card).

use crate::devices::op::{Gating, RopePairing};
use crate::engine::arch::{Arch, ArchError, ExpertSpec, Spec, blocks};

pub const ARCH: Arch = Arch {
    name: "minimax-m2",
    spec: |source| {
        let mut spec = Spec::read(source, RopePairing::Halves)?;
        spec.experts = ExpertSpec::read(source, Gating::Sigmoid, spec.layers[0].n_ff)?;
        match spec.experts {
            Some(_) => Ok(spec),
            None => Err(source.error("expert_count", "is missing or zero")),
        }
    },
    attn: |spec, layer, b| blocks::attention(spec, layer, blocks::QkNorm::FullWidth, b),
    ffn: |spec, layer, b| match &spec.experts {
        Some(experts) => blocks::moe_ffn(spec, experts, layer, b),
        None => Err(ArchError::MissingTensor { name: format!("blk.{layer}.ffn_gate_exps.weight") }),
    },
};
