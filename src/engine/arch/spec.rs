//! What a model is, as plain numbers.

use std::sync::Arc;

use crate::devices::op::{Gating, RopeFrequencies, RopePairing};
use crate::engine::arch::{ArchError, Source};

/// A model's facts, frozen once read. Sizes in elements.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    pub arch: &'static str,
    pub n_embd: u32,
    pub n_vocab: u32,
    /// The context length the model was trained for.
    pub n_ctx_train: u32,
    pub head_dim_k: u32,
    pub head_dim_v: u32,
    pub norm_eps: f32,
    pub rope: RopeSpec,
    pub layers: Vec<LayerSpec>,
    pub experts: Option<ExpertSpec>,
}

/// What may differ from layer to layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayerSpec {
    pub n_head: u32,
    pub n_kv_head: u32,
    /// Width of the dense feed-forward network.
    pub n_ff: u32,
}

#[derive(Clone, Debug, PartialEq)]
pub struct RopeSpec {
    pub n_rot: u32,
    pub pairing: RopePairing,
    pub frequencies: RopeFrequencies,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ExpertSpec {
    pub n_expert: u32,
    pub n_used: u32,
    /// Width of one expert.
    pub n_ff: u32,
    pub gating: Gating,
    /// The chosen experts' weights are divided by their sum.
    pub normalise: bool,
    pub scale: f32,
}

/// Upper bounds against absurd metadata: far above any model, far below what would overflow.
const MAX_WIDTH: u32 = 1 << 20;
const MAX_LAYERS: u32 = 4096;

impl Spec {
    pub fn n_layer(&self) -> u32 {
        self.layers.len() as u32
    }

    /// The keys that decoder-only transformers share. `experts` stays `None`.
    pub fn read(source: &Source<'_>, pairing: RopePairing) -> Result<Spec, ArchError> {
        let metadata = source.gguf.metadata();
        let n_layer = source.u32("block_count")?;
        let n_embd = source.u32("embedding_length")?;
        if n_layer == 0 || n_layer > MAX_LAYERS {
            return Err(source.error("block_count", format!("{n_layer} is not a sensible number of layers")));
        }
        let sane = |suffix: &str, value: u32| {
            let valid = value > 0 && value <= MAX_WIDTH;
            valid.then_some(value).ok_or_else(|| source.error(suffix, format!("{value} is not a sensible size")))
        };
        sane("embedding_length", n_embd)?;
        let per_layer = |suffix: &str| -> Result<Option<Vec<u32>>, ArchError> {
            let key = source.key(suffix);
            if metadata.get(&key).is_none() {
                return Ok(None);
            }
            let values = metadata.u32_or_array(&key, n_layer as usize)?;
            values.iter().try_for_each(|v| sane(suffix, *v).map(drop))?;
            Ok(Some(values))
        };
        let n_head =
            per_layer("attention.head_count")?.ok_or_else(|| source.error("attention.head_count", "is missing"))?;
        let n_kv_head = per_layer("attention.head_count_kv")?.unwrap_or_else(|| n_head.clone());
        let n_ff = per_layer("feed_forward_length")?.unwrap_or_else(|| vec![0; n_layer as usize]);
        let layers: Vec<_> = (0..n_layer as usize)
            .map(|l| LayerSpec { n_head: n_head[l], n_kv_head: n_kv_head[l], n_ff: n_ff[l] })
            .collect();
        if let Some(l) = layers.iter().position(|l| l.n_head % l.n_kv_head != 0) {
            let (n_head, n_kv) = (layers[l].n_head, layers[l].n_kv_head);
            let message = format!("layer {l}: {n_head} heads cannot share {n_kv} KV heads evenly");
            return Err(source.error("attention.head_count_kv", message));
        }
        let head_dim = |suffix: &str| {
            let found = source.opt_u32(suffix)?;
            sane(suffix, found.unwrap_or(n_embd / layers[0].n_head))
        };
        let (head_dim_k, head_dim_v) = (head_dim("attention.key_length")?, head_dim("attention.value_length")?);
        let n_vocab = match source.gguf.tensor("token_embd.weight").map(|t| t.shape.dims().to_vec()) {
            Some(shape) if shape.len() == 2 => {
                u32::try_from(shape[1]).map_err(|_| source.error("vocab_size", "is too large"))?
            }
            _ => return Err(ArchError::MissingTensor { name: "token_embd.weight".into() }),
        };
        Ok(Spec {
            arch: source.arch,
            n_embd,
            n_vocab: sane("vocab_size", n_vocab)?,
            n_ctx_train: source.u32("context_length")?.max(1),
            head_dim_k,
            head_dim_v,
            norm_eps: source.opt_f32("attention.layer_norm_rms_epsilon")?.unwrap_or(1e-5),
            rope: RopeSpec::read(source, pairing, head_dim_k)?,
            layers,
            experts: None,
        })
    }
}

impl RopeSpec {
    /// Angles `base^(-2i / n_rot)`, with linear or YaRN scaling where the file asks for it.
    ///
    /// Sources: Su et al. 2021; Peng et al. 2023 (YaRN).
    fn read(source: &Source<'_>, pairing: RopePairing, head_dim: u32) -> Result<RopeSpec, ArchError> {
        let n_rot = source.opt_u32("rope.dimension_count")?.unwrap_or(head_dim);
        if n_rot == 0 || n_rot > head_dim || n_rot % 2 != 0 {
            let message = format!("{n_rot} is not an even number up to the head size {head_dim}");
            return Err(source.error("rope.dimension_count", message));
        }
        let base = f64::from(source.opt_f32("rope.freq_base")?.unwrap_or(10_000.0));
        if !base.is_finite() || base <= 0.0 {
            return Err(source.error("rope.freq_base", format!("{base} is not a positive number")));
        }
        let plain: Vec<f64> = (0..n_rot / 2).map(|i| base.powf(-2.0 * f64::from(i) / f64::from(n_rot))).collect();
        let metadata = source.gguf.metadata();
        let scaling = metadata.opt_str(&source.key("rope.scaling.type"))?.unwrap_or("none");
        let factor = match source.opt_f32("rope.scaling.factor")? {
            Some(factor) if factor > 0.0 && factor.is_finite() => f64::from(factor),
            Some(0.0) | None => 1.0,
            Some(factor) => return Err(source.error("rope.scaling.factor", format!("{factor} is not positive"))),
        };
        let (inv_freq, magnitude) = match scaling {
            "none" => (plain, 1.0),
            "linear" => (plain.iter().map(|f| f / factor).collect(), 1.0),
            "yarn" => {
                let n_ctx_original = source.opt_u32("rope.scaling.original_context_length")?;
                let n_ctx_original = match n_ctx_original {
                    Some(n) => n,
                    None => source.u32("context_length")?,
                };
                let magnitude = source.opt_f32("rope.scaling.attn_factor")?.unwrap_or(1.0);
                (yarn(&plain, base, n_rot, n_ctx_original, factor), f64::from(magnitude) * (1.0 + 0.1 * factor.ln()))
            }
            other => return Err(source.error("rope.scaling.type", format!("'{other}' is not supported yet"))),
        };
        let inv_freq: Arc<[f32]> = inv_freq.iter().map(|f| *f as f32).collect();
        Ok(RopeSpec { n_rot, pairing, frequencies: RopeFrequencies { inv_freq, magnitude: magnitude as f32 } })
    }
}

/// Turns in the original context above which a dimension is left alone, and below which it is fully interpolated:
/// the paper's beta and alpha.
const YARN_FAST_TURNS: f64 = 32.0;
const YARN_SLOW_TURNS: f64 = 1.0;

fn yarn(plain: &[f64], base: f64, n_rot: u32, n_ctx_original: u32, factor: f64) -> Vec<f64> {
    let dimension_of = |turns: f64| {
        let wavelength = f64::from(n_ctx_original) / (turns * 2.0 * std::f64::consts::PI);
        f64::from(n_rot) * wavelength.ln() / (2.0 * base.ln())
    };
    let last = f64::from(n_rot) - 1.0;
    let low = dimension_of(YARN_FAST_TURNS).floor().clamp(0.0, last);
    let high = dimension_of(YARN_SLOW_TURNS).ceil().clamp(0.0, last);
    let blend = |i: usize, f: f64| {
        let keep = 1.0 - ((i as f64 - low) / (high - low).max(0.001)).clamp(0.0, 1.0);
        f * keep + f / factor * (1.0 - keep)
    };
    plain.iter().enumerate().map(|(i, f)| blend(i, *f)).collect()
}
