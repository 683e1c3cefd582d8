//! The closed set of operations, as plain data over slots.
//!
//! Shapes are written fastest dimension first, `rows` last: a slot of width `n` holds `[n, rows]`, F32 unless said
//! otherwise. `rows` is the number of tokens of the step, or of its outputs in a program over [`Rows::Outputs`].
//! Weights keep their GGUF shape: a matrix is `[n_in, n_out]`, a stack of experts `[n_in, n_out, n_expert]`.
//!
//! An `out` slot may be the same as an input where the op says "in place".

use std::fmt;
use std::sync::Arc;

use super::quant::DType;
use super::{DeviceError, DeviceId};

/// An activation of the model's slot table, by index.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Slot(pub u8);

/// A weight of a program, by index into [`Program::weights`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct WeightRef(pub u16);

/// How many rows a slot must be able to hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SlotRows {
    /// One for each token of a step.
    Batch,
    /// One for each output row of a step.
    Outputs,
}

/// One activation: `[width, rows]` of 4-byte elements.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SlotSpec {
    pub name: &'static str,
    pub width: u32,
    pub rows: SlotRows,
}

/// A tensor that a program reads.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct WeightSpec {
    /// Its name in the file.
    pub name: String,
    pub dtype: DType,
    /// Fastest dimension first.
    pub shape: Vec<u64>,
    /// How it is read: decides the layout a device may give it.
    pub role: WeightRole,
}

impl WeightSpec {
    pub fn n_elements(&self) -> u64 {
        self.shape.iter().product()
    }

    /// Bytes in the file's layout.
    pub fn file_bytes(&self) -> u64 {
        self.dtype.bytes_of(self.n_elements()).unwrap_or(0)
    }

    /// Number of elements of a weight that a device can hold; `device` is named in errors.
    ///
    /// # Errors
    /// A type that nothing computes with, or a shape that does not suit it.
    pub fn check_shape(&self, device: DeviceId) -> Result<u64, DeviceError> {
        let WeightSpec { name, dtype, shape, .. } = self;
        if !dtype.is_supported() {
            return Err(DeviceError::UnsupportedType { device, dtype: *dtype });
        }
        let n_elements = shape.iter().try_fold(1u64, |n, &d| n.checked_mul(d));
        let whole_rows = shape.first().is_some_and(|&n| n > 0 && n.is_multiple_of(dtype.block_len() as u64));
        n_elements.filter(|n| whole_rows && dtype.bytes_of(*n).is_some()).ok_or_else(|| DeviceError::Unsupported {
            device,
            message: format!("weight {name}: a shape of {shape:?} does not suit {dtype}"),
        })
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum WeightRole {
    /// Only read row by row: an embedding table `[n_embd, n_vocab]`.
    Table,
    /// Multiplied with, and maybe read row by row too: `[n_in, n_out]` or `[n_in, n_out, n_expert]`.
    Matrix,
    /// Added or multiplied element by element: norms, biases, rope factors. F32 on the device.
    Vector,
}

/// Which rows of a step a program computes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rows {
    Batch,
    Outputs,
}

/// The work of one part of a model.
#[derive(Clone, PartialEq, Debug)]
pub struct Program {
    /// For people: "attn 3".
    pub name: String,
    pub rows: Rows,
    pub weights: Vec<WeightSpec>,
    pub ops: Vec<Op>,
}

/// Which elements of a head are rotated together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RopePairing {
    /// Elements `2i` and `2i + 1`.
    Adjacent,
    /// Elements `i` and `i + n_rot / 2`.
    Halves,
}

/// Angles of the rotation: at position `p`, pair `i` turns by `p * inv_freq[i]`, further divided by the model's own
/// factor `i` where [`Op::Rope`] has `factors`. Cosine and sine are scaled by `magnitude`.
#[derive(Clone, PartialEq, Debug)]
pub struct RopeFrequencies {
    /// `[n_rot / 2]`
    pub inv_freq: Arc<[f32]>,
    pub magnitude: f32,
}

/// Source: Elfwing et al. 2017 (SiLU).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Activation {
    /// `x * sigmoid(x)`
    Silu,
}

/// How router logits become probabilities.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Gating {
    /// Over all experts, before the choice.
    Softmax,
    Sigmoid,
}

/// One of several matrices that multiply the same input.
#[derive(Clone, PartialEq, Debug)]
pub struct Projection {
    /// Matrix `[n_in, n_out]`.
    pub weight: WeightRef,
    /// Vector `[n_out]`, added.
    pub bias: Option<WeightRef>,
    pub n_out: u32,
    /// `[n_out, rows]`
    pub out: Slot,
    /// `[n_out, rows]`, added to the product; may be `out` itself (in place).
    pub add: Option<Slot>,
}

/// Everything a device can be asked to compute.
#[derive(Clone, PartialEq, Debug)]
pub enum Op {
    /// `out[:, r] = table[:, token r]`. `out [n_embd, rows]`.
    Embed { table: WeightRef, n_embd: u32, out: Slot },
    /// Copies the step's output rows: `out[:, r] = x[:, outputs.start + r]`. Only in programs over [`Rows::Outputs`],
    /// where `x [width, n_tokens]`, `out [width, rows]`.
    TakeOutputs { x: Slot, width: u32, out: Slot },
    /// Root-mean-square norm over groups of `width`: `out = x / sqrt(mean(x^2) + eps) * weight`.
    /// `x`, `out` `[width * n_groups, rows]`, in place allowed; `weight [width]`, shared by the groups.
    /// Source: Zhang and Sennrich 2019.
    RmsNorm { x: Slot, weight: WeightRef, width: u32, n_groups: u32, eps: f32, out: Slot },
    /// Several products of one input: `out_p = x · weight_p (+ bias_p) (+ add_p)`. `x [n_in, rows]`.
    MatMul { x: Slot, n_in: u32, projections: Vec<Projection> },
    /// Rotary position embedding of the first `n_rot` elements of each head, in place. `x [head_dim * n_head, rows]`;
    /// `factors [n_rot / 2]`. Source: Su et al. 2021.
    Rope {
        x: Slot,
        n_head: u32,
        head_dim: u32,
        n_rot: u32,
        pairing: RopePairing,
        frequencies: RopeFrequencies,
        factors: Option<WeightRef>,
    },
    /// Writes K and V of the step's rows into the bound KV cache at their positions.
    /// `k [head_dim_k * n_kv_head, rows]`, `v [head_dim_v * n_kv_head, rows]`.
    KvAppend { k: Slot, v: Slot },
    /// Causal attention of the step's rows over the bound KV cache up to their own position, with an online softmax.
    /// Head `h` reads KV head `h / (n_head / n_kv_head)`. `q [head_dim_k * n_head, rows]`,
    /// `out [head_dim_v * n_head, rows]`. Source: Milakov and Gimelshein 2018; Dao et al. 2022.
    Attention { q: Slot, n_head: u32, scale: f32, out: Slot },
    /// `out = act(gate) * up`, all `[width, rows]`, in place allowed.
    GatedActivation { gate: Slot, up: Slot, activation: Activation, width: u32, out: Slot },
    /// Chooses `n_used` of `n_expert` experts for each row: the largest of probability + `bias` (ties: the lower
    /// index), in falling order; their weights are the probabilities without bias, divided by their sum where
    /// `normalise`, times `scale`. `logits [n_expert, rows]`, `bias [n_expert]`, `ids [n_used, rows]` (u32),
    /// `weights [n_used, rows]`.
    Route {
        logits: Slot,
        bias: Option<WeightRef>,
        gating: Gating,
        n_expert: u32,
        n_used: u32,
        normalise: bool,
        scale: f32,
        ids: Slot,
        weights: Slot,
    },
    /// Products with the chosen experts' matrices `[n_in, n_out, n_expert]`: `out_p[:, u, r] = x · weight_p[ids[u, r]]`.
    /// `x [n_in, rows]`, or `[n_in, n_used, rows]` where `x_per_expert`; `out_p [n_out, n_used, rows]`.
    /// No bias, no add.
    ExpertMatMul {
        x: Slot,
        x_per_expert: bool,
        ids: Slot,
        n_in: u32,
        n_expert: u32,
        n_used: u32,
        projections: Vec<Projection>,
    },
    /// `out[:, r] = add[:, r] + sum over u of weights[u, r] * x[:, u, r]`. `x [width, n_used, rows]`,
    /// `out`, `add` `[width, rows]`, in place allowed.
    ExpertCombine { x: Slot, weights: Slot, width: u32, n_used: u32, add: Slot, out: Slot },
}

impl Op {
    /// Slots that are read. In-place slots are in both lists.
    pub fn reads(&self) -> Vec<Slot> {
        match self {
            Op::Embed { .. } => vec![],
            Op::TakeOutputs { x, .. } | Op::RmsNorm { x, .. } | Op::Rope { x, .. } => vec![*x],
            Op::MatMul { x, projections, .. } => {
                std::iter::once(*x).chain(projections.iter().filter_map(|p| p.add)).collect()
            }
            Op::KvAppend { k, v } => vec![*k, *v],
            Op::Attention { q, .. } => vec![*q],
            Op::GatedActivation { gate, up, .. } => vec![*gate, *up],
            Op::Route { logits, .. } => vec![*logits],
            Op::ExpertMatMul { x, ids, .. } => vec![*x, *ids],
            Op::ExpertCombine { x, weights, add, .. } => vec![*x, *weights, *add],
        }
    }

    /// Slots that are written.
    pub fn writes(&self) -> Vec<Slot> {
        match self {
            Op::Embed { out, .. }
            | Op::TakeOutputs { out, .. }
            | Op::RmsNorm { out, .. }
            | Op::Attention { out, .. }
            | Op::GatedActivation { out, .. }
            | Op::ExpertCombine { out, .. } => vec![*out],
            Op::Rope { x, .. } => vec![*x],
            Op::MatMul { projections, .. } | Op::ExpertMatMul { projections, .. } => {
                projections.iter().map(|p| p.out).collect()
            }
            Op::KvAppend { .. } => vec![],
            Op::Route { ids, weights, .. } => vec![*ids, *weights],
        }
    }
}

impl Program {
    /// Slots that are read before they are written: what must be there when the program starts.
    pub fn live_in(&self) -> Vec<Slot> {
        let mut written: Vec<Slot> = vec![];
        let mut live = vec![];
        for op in &self.ops {
            live.extend(op.reads().into_iter().filter(|s| !written.contains(s)));
            written.extend(op.writes());
        }
        live.sort();
        live.dedup();
        live
    }

    /// All slots that the program touches, sorted.
    pub fn slots(&self) -> Vec<Slot> {
        let mut slots: Vec<_> = self.ops.iter().flat_map(|op| op.reads().into_iter().chain(op.writes())).collect();
        slots.sort();
        slots.dedup();
        slots
    }

    /// The program in words, one op a line, for people and snapshots.
    pub fn display<'a>(&'a self, slots: &'a [SlotSpec]) -> impl fmt::Display + 'a {
        ProgramText { program: self, slots }
    }
}

struct ProgramText<'a> {
    program: &'a Program,
    slots: &'a [SlotSpec],
}

impl ProgramText<'_> {
    fn slot(&self, slot: Slot) -> &'static str {
        self.slots.get(usize::from(slot.0)).map_or("?", |s| s.name)
    }

    fn weight(&self, weight: WeightRef) -> String {
        let Some(spec) = self.program.weights.get(usize::from(weight.0)) else { return "?".into() };
        let shape: Vec<_> = spec.shape.iter().map(u64::to_string).collect();
        format!("{}:{}[{}]", spec.name, spec.dtype, shape.join(","))
    }

    fn projections(&self, projections: &[Projection]) -> String {
        let texts = projections.iter().map(|p| {
            let bias = p.bias.map(|b| format!(" + {}", self.weight(b))).unwrap_or_default();
            let add = p.add.map(|a| format!(" + {}", self.slot(a))).unwrap_or_default();
            format!("{} = {}{bias}{add}", self.slot(p.out), self.weight(p.weight))
        });
        texts.collect::<Vec<_>>().join("; ")
    }

    fn op(&self, op: &Op) -> String {
        match op {
            Op::Embed { table, out, .. } => format!("{} = embed {}", self.slot(*out), self.weight(*table)),
            Op::TakeOutputs { x, out, .. } => format!("{} = take_outputs {}", self.slot(*out), self.slot(*x)),
            Op::RmsNorm { x, weight, width, n_groups, eps, out } => {
                let (out, x, weight) = (self.slot(*out), self.slot(*x), self.weight(*weight));
                format!("{out} = rms_norm {x} * {weight} width {width} x {n_groups} eps {eps:e}")
            }
            Op::MatMul { x, projections, .. } => format!("matmul {}: {}", self.slot(*x), self.projections(projections)),
            Op::Rope { x, n_head, head_dim, n_rot, pairing, frequencies, factors } => {
                let factors = factors.map(|f| format!(" factors {}", self.weight(f))).unwrap_or_default();
                let last = frequencies.inv_freq.last().copied().unwrap_or(0.0);
                format!(
                    "rope {} {head_dim} x {n_head} n_rot {n_rot} {pairing:?} inv_freq ..{last:e} magnitude {}{factors}",
                    self.slot(*x),
                    frequencies.magnitude,
                )
            }
            Op::KvAppend { k, v } => format!("kv_append {} {}", self.slot(*k), self.slot(*v)),
            Op::Attention { q, n_head, scale, out } => {
                format!("{} = attention {} heads {n_head} scale {scale}", self.slot(*out), self.slot(*q))
            }
            Op::GatedActivation { gate, up, activation, out, .. } => {
                format!("{} = {activation:?}({}) * {}", self.slot(*out), self.slot(*gate), self.slot(*up))
            }
            Op::Route { logits, bias, gating, n_expert, n_used, normalise, scale, ids, weights } => {
                let bias = bias.map(|b| format!(" + {}", self.weight(b))).unwrap_or_default();
                format!(
                    "{}, {} = route {gating:?}({}){bias} {n_used} of {n_expert} normalise {normalise} scale {scale}",
                    self.slot(*ids),
                    self.slot(*weights),
                    self.slot(*logits),
                )
            }
            Op::ExpertMatMul { x, x_per_expert, ids, projections, .. } => {
                let per = if *x_per_expert { " per expert" } else { "" };
                format!(
                    "expert_matmul {}{per} by {}: {}",
                    self.slot(*x),
                    self.slot(*ids),
                    self.projections(projections)
                )
            }
            Op::ExpertCombine { x, weights, add, out, .. } => {
                let (out, add) = (self.slot(*out), self.slot(*add));
                format!("{out} = {add} + expert_combine {} * {}", self.slot(*x), self.slot(*weights))
            }
        }
    }
}

impl fmt::Display for ProgramText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}:", self.program.name)?;
        self.program.ops.iter().try_for_each(|op| writeln!(f, "  {}", self.op(op)))
    }
}
