//! The shapes of known models. Source: the `config.json` that each model is published with.

use super::SynthError;

/// The architectures that models are made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SynthArch {
    Llama,
    Qwen2,
    Qwen3,
    Qwen3Moe,
    MinimaxM2,
}

impl SynthArch {
    /// As in `general.architecture`.
    pub fn name(self) -> &'static str {
        match self {
            SynthArch::Llama => "llama",
            SynthArch::Qwen2 => "qwen2",
            SynthArch::Qwen3 => "qwen3",
            SynthArch::Qwen3Moe => "qwen3moe",
            SynthArch::MinimaxM2 => "minimax-m2",
        }
    }
}

/// The size of a model.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SynthShape {
    pub name: &'static str,
    pub arch: SynthArch,
    pub n_layer: u64,
    pub n_embd: u64,
    pub n_head: u64,
    pub n_head_kv: u64,
    pub head_dim: u64,
    /// Dimensions of each head that are rotated.
    pub n_rot: u64,
    /// Of the dense feed-forward network; experts have their own width.
    pub n_ff: u64,
    pub experts: Option<Experts>,
    pub n_vocab: u64,
    /// The tokenizer's `tokenizer.ggml.pre`.
    pub pre: &'static str,
    pub n_ctx_train: u64,
    pub norm_eps: f32,
    pub rope_freq_base: f32,
    pub rope_scaling: Option<RopeScaling>,
    /// Whether the head is the token embedding.
    pub tied_head: bool,
}

/// The experts of each layer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Experts {
    pub n_expert: u64,
    pub n_used: u64,
    /// Width of one expert.
    pub n_ff: u64,
}

/// How Llama 3 stretches its rotation to a longer context; becomes the tensor `rope_freqs.weight`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RopeScaling {
    pub factor: f32,
    pub low_freq_factor: f32,
    pub high_freq_factor: f32,
    pub n_ctx_orig: f32,
}

impl SynthShape {
    /// # Errors
    /// A name that is not known; the message lists those that are.
    pub fn from_name(name: &str) -> Result<&'static SynthShape, SynthError> {
        let name = if name.eq_ignore_ascii_case("tiny") { "tiny-llama" } else { name };
        shapes()
            .iter()
            .find(|shape| shape.name.eq_ignore_ascii_case(name))
            .ok_or_else(|| SynthError::UnknownShape { name: name.to_string() })
    }
}

/// All known shapes, real ones first, then tiny ones for tests: one for each architecture.
pub fn shapes() -> &'static [SynthShape] {
    SHAPES
}

const fn llama3_scaling(factor: f32) -> Option<RopeScaling> {
    Some(RopeScaling { factor, low_freq_factor: 1.0, high_freq_factor: 4.0, n_ctx_orig: 8192.0 })
}

const LLAMA_3_8B: SynthShape = SynthShape {
    name: "llama-3-8b",
    arch: SynthArch::Llama,
    n_layer: 32,
    n_embd: 4096,
    n_head: 32,
    n_head_kv: 8,
    head_dim: 128,
    n_rot: 128,
    n_ff: 14336,
    experts: None,
    n_vocab: 128_256,
    pre: "llama-bpe",
    n_ctx_train: 131_072,
    norm_eps: 1e-5,
    rope_freq_base: 500_000.0,
    rope_scaling: llama3_scaling(8.0),
    tied_head: false,
};

const QWEN3_8B: SynthShape = SynthShape {
    name: "qwen3-8b",
    arch: SynthArch::Qwen3,
    n_layer: 36,
    n_ff: 12288,
    n_vocab: 151_936,
    pre: "qwen2",
    n_ctx_train: 40_960,
    norm_eps: 1e-6,
    rope_freq_base: 1_000_000.0,
    rope_scaling: None,
    ..LLAMA_3_8B
};

const TINY: SynthShape = SynthShape {
    name: "tiny-llama",
    arch: SynthArch::Llama,
    n_layer: 4,
    n_embd: 256,
    n_head: 4,
    n_head_kv: 2,
    head_dim: 64,
    n_rot: 64,
    n_ff: 512,
    experts: None,
    n_vocab: 512,
    pre: "gpt-2",
    n_ctx_train: 4096,
    norm_eps: 1e-5,
    rope_freq_base: 10_000.0,
    rope_scaling: None,
    tied_head: false,
};

const SHAPES: &[SynthShape] = &[
    LLAMA_3_8B,
    SynthShape {
        name: "llama-3-1b",
        n_layer: 16,
        n_embd: 2048,
        head_dim: 64,
        n_rot: 64,
        n_ff: 8192,
        rope_scaling: llama3_scaling(32.0),
        tied_head: true,
        ..LLAMA_3_8B
    },
    SynthShape { name: "llama-3-70b", n_layer: 80, n_embd: 8192, n_head: 64, n_ff: 28672, ..LLAMA_3_8B },
    SynthShape {
        name: "smollm2-135m",
        n_layer: 30,
        n_embd: 576,
        n_head: 9,
        n_head_kv: 3,
        head_dim: 64,
        n_rot: 64,
        n_ff: 1536,
        n_vocab: 49_152,
        pre: "smollm",
        n_ctx_train: 8192,
        rope_freq_base: 100_000.0,
        rope_scaling: None,
        tied_head: true,
        ..LLAMA_3_8B
    },
    SynthShape {
        name: "mixtral-8x7b",
        experts: Some(Experts { n_expert: 8, n_used: 2, n_ff: 14336 }),
        n_vocab: 32_000,
        pre: "gpt-2",
        n_ctx_train: 32_768,
        rope_freq_base: 1_000_000.0,
        rope_scaling: None,
        ..LLAMA_3_8B
    },
    SynthShape {
        name: "qwen2.5-0.5b",
        arch: SynthArch::Qwen2,
        n_layer: 24,
        n_embd: 896,
        n_head: 14,
        n_head_kv: 2,
        head_dim: 64,
        n_rot: 64,
        n_ff: 4864,
        n_ctx_train: 32_768,
        tied_head: true,
        ..QWEN3_8B
    },
    SynthShape { name: "qwen3-0.6b", n_layer: 28, n_embd: 1024, n_head: 16, n_ff: 3072, tied_head: true, ..QWEN3_8B },
    QWEN3_8B,
    SynthShape {
        name: "qwen3-30b-a3b",
        arch: SynthArch::Qwen3Moe,
        n_layer: 48,
        n_embd: 2048,
        n_head_kv: 4,
        n_ff: 6144,
        experts: Some(Experts { n_expert: 128, n_used: 8, n_ff: 768 }),
        ..QWEN3_8B
    },
    SynthShape {
        name: "minimax-m2",
        arch: SynthArch::MinimaxM2,
        n_layer: 62,
        n_embd: 3072,
        n_head: 48,
        n_rot: 64,
        n_ff: 1536,
        experts: Some(Experts { n_expert: 256, n_used: 8, n_ff: 1536 }),
        n_vocab: 200_064,
        pre: "gpt-2",
        n_ctx_train: 196_608,
        rope_freq_base: 5_000_000.0,
        ..QWEN3_8B
    },
    TINY,
    SynthShape { name: "tiny-llama3", rope_scaling: llama3_scaling(8.0), tied_head: true, ..TINY },
    SynthShape {
        name: "tiny-llama-moe",
        experts: Some(Experts { n_expert: 8, n_used: 2, n_ff: 256 }),
        n_ff: 256,
        ..TINY
    },
    SynthShape { name: "tiny-qwen2", arch: SynthArch::Qwen2, norm_eps: 1e-6, tied_head: true, ..TINY },
    SynthShape { name: "tiny-qwen3", arch: SynthArch::Qwen3, norm_eps: 1e-6, head_dim: 128, n_rot: 128, ..TINY },
    SynthShape {
        name: "tiny-qwen3moe",
        arch: SynthArch::Qwen3Moe,
        norm_eps: 1e-6,
        head_dim: 128,
        n_rot: 128,
        experts: Some(Experts { n_expert: 8, n_used: 2, n_ff: 256 }),
        ..TINY
    },
    SynthShape {
        name: "tiny-minimax-m2",
        arch: SynthArch::MinimaxM2,
        norm_eps: 1e-6,
        head_dim: 128,
        n_rot: 64,
        n_ff: 256,
        experts: Some(Experts { n_expert: 16, n_used: 4, n_ff: 256 }),
        ..TINY
    },
];
