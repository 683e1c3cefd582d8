//! The blocks that architectures are put together from, and the slots they use.

use std::collections::HashMap;

use crate::devices::op::{Activation, Projection, WeightRole};
use crate::devices::quant::DType;
use crate::devices::{Op, Program, Rows, Slot, SlotRows, SlotSpec, WeightRef, WeightSpec};
use crate::engine::arch::{ArchError, ExpertSpec, LayerSpec, Spec};
use crate::engine::gguf::TensorInfo;

/// The residual stream `[n_embd, rows]`.
pub const HIDDEN: Slot = Slot(0);
/// `[n_embd, rows]`
pub const NORMED: Slot = Slot(1);
/// `[head_dim_k * n_head, rows]`
pub const Q: Slot = Slot(2);
/// `[head_dim_k * n_kv_head, rows]`
pub const K: Slot = Slot(3);
/// `[head_dim_v * n_kv_head, rows]`
pub const V: Slot = Slot(4);
/// `[head_dim_v * n_head, rows]`
pub const ATTN_OUT: Slot = Slot(5);
/// `[n_ff, rows]`, or `[n_ff_expert, n_used, rows]`
pub const GATE: Slot = Slot(6);
/// As `GATE`.
pub const UP: Slot = Slot(7);
/// `[n_expert, rows]`
pub const ROUTER: Slot = Slot(8);
/// `[n_used, rows]` (u32)
pub const EXPERT_IDS: Slot = Slot(9);
/// `[n_used, rows]`
pub const EXPERT_WEIGHTS: Slot = Slot(10);
/// `[n_embd, n_used, rows]`
pub const EXPERT_OUT: Slot = Slot(11);
/// `[n_embd, outputs]`
pub const OUTPUT_HIDDEN: Slot = Slot(12);
/// `[n_vocab, outputs]`
pub const LOGITS: Slot = Slot(13);

/// The slots of a model, wide enough for its widest layer; in the order of the constants above.
pub fn slot_table(spec: &Spec) -> Vec<SlotSpec> {
    let widest = |width: fn(&Spec, &LayerSpec) -> u32| spec.layers.iter().map(|l| width(spec, l)).max().unwrap_or(0);
    let experts = spec.experts.as_ref();
    let of_experts = |width: fn(&ExpertSpec) -> u32| experts.map_or(0, width);
    let n_ff = widest(|_, l| l.n_ff).max(of_experts(|e| e.n_ff * e.n_used));
    let batch = |name, width| SlotSpec { name, width, rows: SlotRows::Batch };
    vec![
        batch("hidden", spec.n_embd),
        batch("normed", spec.n_embd),
        batch("q", widest(|s, l| s.head_dim_k * l.n_head)),
        batch("k", widest(|s, l| s.head_dim_k * l.n_kv_head)),
        batch("v", widest(|s, l| s.head_dim_v * l.n_kv_head)),
        batch("attn_out", widest(|s, l| s.head_dim_v * l.n_head)),
        batch("gate", n_ff),
        batch("up", n_ff),
        batch("router", of_experts(|e| e.n_expert)),
        batch("expert_ids", of_experts(|e| e.n_used)),
        batch("expert_weights", of_experts(|e| e.n_used)),
        batch("expert_out", experts.map_or(0, |e| e.n_used * spec.n_embd)),
        SlotSpec { name: "output_hidden", width: spec.n_embd, rows: SlotRows::Outputs },
        SlotSpec { name: "logits", width: spec.n_vocab, rows: SlotRows::Outputs },
    ]
}

/// Collects the ops and the weights of one part. Every weight is looked up by its name in the file and its shape is
/// checked, so that a program that was built can run.
pub struct Builder<'a> {
    tensors: &'a HashMap<&'a str, &'a TensorInfo>,
    program: Program,
}

impl<'a> Builder<'a> {
    pub fn new(name: String, tensors: &'a HashMap<&'a str, &'a TensorInfo>) -> Builder<'a> {
        Builder { tensors, program: Program { name, rows: Rows::Batch, weights: vec![], ops: vec![] } }
    }

    pub fn finish(self) -> Program {
        self.program
    }

    pub fn push(&mut self, op: Op) {
        self.program.ops.push(op);
    }

    pub fn has(&self, name: &str) -> bool {
        self.tensors.contains_key(name)
    }

    /// A matrix `[n_in, n_out]`.
    pub fn matrix(&mut self, name: &str, n_in: u32, n_out: u32) -> Result<WeightRef, ArchError> {
        self.weight(name, WeightRole::Matrix, &[n_in.into(), n_out.into()])
    }

    /// A vector `[n]`.
    pub fn vector(&mut self, name: &str, n: u32) -> Result<WeightRef, ArchError> {
        self.weight(name, WeightRole::Vector, &[n.into()])
    }

    pub fn opt_vector(&mut self, name: &str, n: u32) -> Result<Option<WeightRef>, ArchError> {
        if self.has(name) { self.vector(name, n).map(Some) } else { Ok(None) }
    }

    /// The tensor of this name, which must have this shape and a type that can be computed with.
    pub fn weight(&mut self, name: &str, role: WeightRole, shape: &[u64]) -> Result<WeightRef, ArchError> {
        let Some(tensor) = self.tensors.get(name) else {
            return Err(ArchError::MissingTensor { name: name.to_owned() });
        };
        let mut found = tensor.shape.dims().to_vec();
        // GGUF keeps trailing dimensions of size 1 or not, as the writer likes.
        while found.len() > shape.len() && found.last() == Some(&1) {
            found.pop();
        }
        if found != shape {
            let text = |dims: &[u64]| dims.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
            return Err(ArchError::Shape { name: name.to_owned(), found: text(&found), expected: text(shape) });
        }
        if !tensor.dtype.is_supported() {
            let names: Vec<_> = DType::ALL.iter().filter(|t| t.is_supported()).map(|t| t.name()).collect();
            let (name, dtype) = (name.to_owned(), tensor.dtype);
            return Err(ArchError::Type { name, dtype, supported: names.join(", ") });
        }
        let index = self.program.weights.len() as u16;
        self.program.weights.push(WeightSpec {
            name: name.to_owned(),
            dtype: tensor.dtype,
            shape: shape.to_vec(),
            role,
        });
        Ok(WeightRef(index))
    }

    /// `out = x · <stem>.weight (+ <stem>.bias where the file has it) (+ add)`
    pub fn projection(
        &mut self,
        stem: &str,
        n_in: u32,
        n_out: u32,
        out: Slot,
        add: Option<Slot>,
    ) -> Result<Projection, ArchError> {
        let weight = self.matrix(&format!("{stem}.weight"), n_in, n_out)?;
        let bias = self.opt_vector(&format!("{stem}.bias"), n_out)?;
        Ok(Projection { weight, bias, n_out, out, add })
    }

    /// Norm of whole rows of `n_embd`.
    pub fn norm(&mut self, spec: &Spec, name: &str, x: Slot, out: Slot) -> Result<(), ArchError> {
        let weight = self.vector(name, spec.n_embd)?;
        self.push(Op::RmsNorm { x, weight, width: spec.n_embd, n_groups: 1, eps: spec.norm_eps, out });
        Ok(())
    }
}

/// Token ids to HIDDEN.
pub fn embed(spec: &Spec, b: &mut Builder<'_>) -> Result<(), ArchError> {
    let shape = [spec.n_embd.into(), spec.n_vocab.into()];
    // A tied head multiplies with the same tensor: in one role, both can share its memory.
    let role = if is_tied(b) { WeightRole::Matrix } else { WeightRole::Table };
    let table = b.weight("token_embd.weight", role, &shape)?;
    b.push(Op::Embed { table, n_embd: spec.n_embd, out: HIDDEN });
    Ok(())
}

/// Without `output.weight` the head is tied to the embedding table.
fn is_tied(b: &Builder<'_>) -> bool {
    !b.has("output.weight")
}

/// HIDDEN to LOGITS for the step's output rows.
pub fn head(spec: &Spec, b: &mut Builder<'_>) -> Result<(), ArchError> {
    b.program.rows = Rows::Outputs;
    b.push(Op::TakeOutputs { x: HIDDEN, width: spec.n_embd, out: OUTPUT_HIDDEN });
    b.norm(spec, "output_norm.weight", OUTPUT_HIDDEN, OUTPUT_HIDDEN)?;
    let stem = if is_tied(b) { "token_embd" } else { "output" };
    let projection = b.projection(stem, spec.n_embd, spec.n_vocab, LOGITS, None)?;
    b.push(Op::MatMul { x: OUTPUT_HIDDEN, n_in: spec.n_embd, projections: vec![projection] });
    Ok(())
}

/// How Q and K are normalised before RoPE.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum QkNorm {
    None,
    /// Each head by itself, with one weight `[head_dim]` for all.
    PerHead,
    /// All heads of a row together, with a weight as wide as they are.
    FullWidth,
}

/// Norm, Q/K/V, RoPE, cache, attention, output projection, residual.
pub fn attention(spec: &Spec, layer: u32, qk_norm: QkNorm, b: &mut Builder<'_>) -> Result<(), ArchError> {
    let LayerSpec { n_head, n_kv_head, .. } = spec.layers[layer as usize];
    let (n_q, n_k, n_v) = (spec.head_dim_k * n_head, spec.head_dim_k * n_kv_head, spec.head_dim_v * n_kv_head);
    let name = |tensor: &str| format!("blk.{layer}.{tensor}");

    b.norm(spec, &name("attn_norm.weight"), HIDDEN, NORMED)?;
    let projections = vec![
        b.projection(&name("attn_q"), spec.n_embd, n_q, Q, None)?,
        b.projection(&name("attn_k"), spec.n_embd, n_k, K, None)?,
        b.projection(&name("attn_v"), spec.n_embd, n_v, V, None)?,
    ];
    b.push(Op::MatMul { x: NORMED, n_in: spec.n_embd, projections });

    let groups = |n_heads: u32| match qk_norm {
        QkNorm::None => None,
        QkNorm::PerHead => Some((spec.head_dim_k, n_heads)),
        QkNorm::FullWidth => Some((spec.head_dim_k * n_heads, 1)),
    };
    for (tensor, slot, n_heads) in [("attn_q_norm.weight", Q, n_head), ("attn_k_norm.weight", K, n_kv_head)] {
        if let Some((width, n_groups)) = groups(n_heads) {
            let weight = b.vector(&name(tensor), width)?;
            b.push(Op::RmsNorm { x: slot, weight, width, n_groups, eps: spec.norm_eps, out: slot });
        }
    }

    let factors = b.opt_vector("rope_freqs.weight", spec.rope.n_rot / 2)?;
    for (x, n_heads) in [(Q, n_head), (K, n_kv_head)] {
        b.push(Op::Rope {
            x,
            n_head: n_heads,
            head_dim: spec.head_dim_k,
            n_rot: spec.rope.n_rot,
            pairing: spec.rope.pairing,
            frequencies: spec.rope.frequencies.clone(),
            factors,
        });
    }

    b.push(Op::KvAppend { k: K, v: V });
    let scale = 1.0 / (spec.head_dim_k as f32).sqrt();
    b.push(Op::Attention { q: Q, n_head, scale, out: ATTN_OUT });
    let n_out = spec.head_dim_v * n_head;
    let projection = b.projection(&name("attn_output"), n_out, spec.n_embd, HIDDEN, Some(HIDDEN))?;
    b.push(Op::MatMul { x: ATTN_OUT, n_in: n_out, projections: vec![projection] });
    Ok(())
}

/// Norm, gate and up, activation, down, residual. Source: Shazeer 2020 (SwiGLU).
pub fn gated_ffn(spec: &Spec, layer: u32, b: &mut Builder<'_>) -> Result<(), ArchError> {
    let n_ff = spec.layers[layer as usize].n_ff;
    let name = |tensor: &str| format!("blk.{layer}.{tensor}");
    b.norm(spec, &name("ffn_norm.weight"), HIDDEN, NORMED)?;
    let projections = vec![
        b.projection(&name("ffn_gate"), spec.n_embd, n_ff, GATE, None)?,
        b.projection(&name("ffn_up"), spec.n_embd, n_ff, UP, None)?,
    ];
    b.push(Op::MatMul { x: NORMED, n_in: spec.n_embd, projections });
    b.push(Op::GatedActivation { gate: GATE, up: UP, activation: Activation::Silu, width: n_ff, out: GATE });
    let projection = b.projection(&name("ffn_down"), n_ff, spec.n_embd, HIDDEN, Some(HIDDEN))?;
    b.push(Op::MatMul { x: GATE, n_in: n_ff, projections: vec![projection] });
    Ok(())
}

/// Norm, router, the chosen experts' gated networks, their weighted sum, residual. Source: Shazeer et al. 2017.
pub fn moe_ffn(spec: &Spec, experts: &ExpertSpec, layer: u32, b: &mut Builder<'_>) -> Result<(), ArchError> {
    let ExpertSpec { n_expert, n_used, n_ff, gating, normalise, scale } = *experts;
    let name = |tensor: &str| format!("blk.{layer}.{tensor}");
    b.norm(spec, &name("ffn_norm.weight"), HIDDEN, NORMED)?;
    let router = b.projection(&name("ffn_gate_inp"), spec.n_embd, n_expert, ROUTER, None)?;
    b.push(Op::MatMul { x: NORMED, n_in: spec.n_embd, projections: vec![router] });
    let bias = b.opt_vector(&name("exp_probs_b.bias"), n_expert)?;
    let (ids, weights) = (EXPERT_IDS, EXPERT_WEIGHTS);
    b.push(Op::Route { logits: ROUTER, bias, gating, n_expert, n_used, normalise, scale, ids, weights });

    let mut stack = |tensor: &str, n_in: u32, n_out: u32, out: Slot| {
        let shape = [n_in.into(), n_out.into(), n_expert.into()];
        let weight = b.weight(&name(tensor), WeightRole::Matrix, &shape)?;
        Ok::<_, ArchError>(Projection { weight, bias: None, n_out, out, add: None })
    };
    let gate = stack("ffn_gate_exps.weight", spec.n_embd, n_ff, GATE)?;
    let up = stack("ffn_up_exps.weight", spec.n_embd, n_ff, UP)?;
    let down = stack("ffn_down_exps.weight", n_ff, spec.n_embd, EXPERT_OUT)?;
    b.push(Op::ExpertMatMul {
        x: NORMED,
        x_per_expert: false,
        ids,
        n_in: spec.n_embd,
        n_expert,
        n_used,
        projections: vec![gate, up],
    });
    let width = n_ff * n_used;
    b.push(Op::GatedActivation { gate: GATE, up: UP, activation: Activation::Silu, width, out: GATE });
    b.push(Op::ExpertMatMul {
        x: GATE,
        x_per_expert: true,
        ids,
        n_in: n_ff,
        n_expert,
        n_used,
        projections: vec![down],
    });
    b.push(Op::ExpertCombine { x: EXPERT_OUT, weights, width: spec.n_embd, n_used, add: HIDDEN, out: HIDDEN });
    Ok(())
}

impl ExpertSpec {
    /// The mixture-of-experts keys; `None` where the file has no experts.
    pub fn read(
        source: &super::Source<'_>,
        default_gating: crate::devices::op::Gating,
        n_ff_dense: u32,
    ) -> Result<Option<ExpertSpec>, ArchError> {
        use crate::devices::op::Gating;
        let n_expert = source.opt_u32("expert_count")?.unwrap_or(0);
        if n_expert == 0 {
            return Ok(None);
        }
        let n_used = source.u32("expert_used_count")?;
        if n_used == 0 || n_used > n_expert || n_expert > 4096 {
            let message = format!("{n_used} experts of {n_expert} cannot be used");
            return Err(source.error("expert_used_count", message));
        }
        let gating = match source.opt_u32("expert_gating_func")? {
            None | Some(0) => default_gating,
            Some(1) => Gating::Softmax,
            Some(2) => Gating::Sigmoid,
            Some(other) => return Err(source.error("expert_gating_func", format!("{other} is not supported yet"))),
        };
        let n_ff = source.opt_u32("expert_feed_forward_length")?.unwrap_or(n_ff_dense);
        if n_ff == 0 || n_ff > 1 << 20 || u64::from(n_ff) * u64::from(n_used) > 1 << 24 {
            return Err(source.error("expert_feed_forward_length", format!("{n_ff} is not a sensible size")));
        }
        let scale = source.opt_f32("expert_weights_scale")?.filter(|s| *s != 0.0).unwrap_or(1.0);
        Ok(Some(ExpertSpec { n_expert, n_used, n_ff, gating, normalise: true, scale }))
    }
}
