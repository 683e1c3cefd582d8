//! llama: Llama 1 to 3, SmolLM2, Mistral 7B, Mixtral and the many models converted as "llama".
//!
//! Sources: Touvron et al. 2023; Jiang et al. 2024 (Mixtral).

use crate::devices::op::{Gating, RopePairing};
use crate::engine::arch::{Arch, ExpertSpec, Spec, blocks};

pub const ARCH: Arch = Arch {
    name: "llama",
    spec: |source| {
        let mut spec = Spec::read(source, RopePairing::Adjacent)?;
        spec.experts = ExpertSpec::read(source, Gating::Softmax, spec.layers[0].n_ff)?;
        Ok(spec)
    },
    attn: |spec, layer, b| blocks::attention(spec, layer, blocks::QkNorm::None, b),
    ffn: |spec, layer, b| match &spec.experts {
        Some(experts) => blocks::moe_ffn(spec, experts, layer, b),
        None => blocks::gated_ffn(spec, layer, b),
    },
};
