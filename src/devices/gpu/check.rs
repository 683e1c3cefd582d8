//! From names to checked memory: what a program's launches will touch lies inside buffers of this device.

use super::driver::DeviceAddress;
use super::memory::Piece;
use crate::devices::op::{Projection, WeightRole};
use crate::devices::quant::DType;
use crate::devices::{
    BoundProgram, Buffer, DeviceError, DeviceId, KvCache, KvSpec, Op, Rows, Slot, Step, WeightRef, WeightSpec,
};

/// What a buffer of a GPU is.
pub struct Stored {
    pub piece: Piece,
    pub content: Content,
}

/// How the bytes of a buffer are to be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Content {
    /// Scratch, KV cache: as its user says.
    Plain,
    /// F32.
    Vector { n: u64 },
    /// Rows in the file's layout: `[n_in, n_out, n_expert]`.
    Rows { dtype: DType, n_in: u64, n_out: u64, n_expert: u64 },
}

impl Content {
    /// Of a weight whose shape was checked.
    pub fn of(weight: &WeightSpec) -> Content {
        let dim = |i: usize| weight.shape.get(i).copied().unwrap_or(1);
        match weight.role {
            WeightRole::Vector => Content::Vector { n: weight.n_elements() },
            WeightRole::Table | WeightRole::Matrix => Content::Rows {
                dtype: weight.dtype,
                n_in: dim(0),
                n_out: dim(1),
                n_expert: weight.shape.iter().skip(2).product(),
            },
        }
    }
}

/// A bound program's memory, checked.
pub struct ProgramMemory<'a> {
    device: DeviceId,
    name: &'a str,
    weights: Vec<(DeviceAddress, Content)>,
    kv: Option<(KvSpec, DeviceAddress, DeviceAddress)>,
    scratch: &'a Piece,
    slot_offsets: &'a [Option<u64>],
}

/// Bytes of scratch.
#[derive(Clone, Copy, PartialEq)]
struct Span {
    start: u64,
    end: u64,
}

impl Span {
    fn overlaps(self, other: Span) -> bool {
        self.start < other.end && other.start < self.end
    }
}

impl<'a> ProgramMemory<'a> {
    /// Checks the bindings, and every op against them.
    pub fn new(device: DeviceId, bound: &BoundProgram<'a>, step: &Step) -> Result<ProgramMemory<'a>, DeviceError> {
        let BoundProgram { program, bindings } = *bound;
        let scratch = plain(device, &bindings.scratch.buffer)?;
        let slot_offsets = &*bindings.scratch.slot_offsets;
        let name = program.name.as_str();
        let mut memory = ProgramMemory { device, name, weights: vec![], kv: None, scratch, slot_offsets };
        if program.weights.len() != bindings.weights.len() {
            let (needed, given) = (program.weights.len(), bindings.weights.len());
            return Err(memory.error(format!("it has {needed} weights, {given} are bound")));
        }
        let outputs = &step.outputs;
        if outputs.start > outputs.end || outputs.end as usize > step.tokens.len() {
            let n_tokens = step.tokens.len();
            return Err(memory.error(format!("output rows {outputs:?} of a step of {n_tokens} tokens")));
        }
        for (spec, buffer) in program.weights.iter().zip(&bindings.weights) {
            let stored: &Stored = buffer.storage(device)?;
            if stored.content != Content::of(spec) {
                return Err(memory.error(format!("weight {} is bound to memory of another one", spec.name)));
            }
            memory.weights.push((stored.piece.address(), stored.content));
        }
        memory.kv = bindings.kv.as_ref().map(|kv| memory.bind_kv(kv, step)).transpose()?;
        let n_rows = step.n_rows(program.rows);
        if n_rows > 0 {
            program.ops.iter().try_for_each(|op| memory.check_op(op, n_rows as u64, program.rows, step))?;
        }
        Ok(memory)
    }

    fn bind_kv(&self, kv: &KvCache, step: &Step) -> Result<(KvSpec, DeviceAddress, DeviceAddress), DeviceError> {
        let spec = kv.spec;
        if !matches!(spec.dtype, DType::F32 | DType::F16 | DType::Q8_0) {
            return Err(DeviceError::UnsupportedType { device: self.device, dtype: spec.dtype });
        }
        if spec.head_dim_k == 0 || spec.head_dim_v == 0 || spec.n_kv_head == 0 {
            return Err(self.error("its KV cache has a dimension of 0"));
        }
        let (k, v) = (plain(self.device, &kv.k)?, plain(self.device, &kv.v)?);
        if k.address() == v.address() || [k.address(), v.address()].contains(&self.scratch.address()) {
            return Err(self.error("K, V and scratch must be different buffers"));
        }
        for (name, piece, row_bytes) in [("K", k, spec.k_row_bytes()), ("V", v, spec.v_row_bytes())] {
            let n_rows = u64::from(spec.n_ctx) * u64::from(spec.n_kv_head);
            if row_bytes.checked_mul(n_rows).is_none_or(|needed| needed > piece.n_bytes()) {
                let (given, n_ctx) = (piece.n_bytes(), spec.n_ctx);
                return Err(self.error(format!("a {name} cache of {given} bytes is too small for {n_ctx} positions")));
            }
        }
        let end = u64::from(step.first_position) + step.tokens.len() as u64;
        if end > u64::from(spec.n_ctx) {
            return Err(self.error(format!("position {end} is past the KV cache's {} positions", spec.n_ctx)));
        }
        Ok((spec, k.address(), v.address()))
    }

    pub fn error(&self, message: impl std::fmt::Display) -> DeviceError {
        DeviceError::Unsupported { device: self.device, message: format!("{}: {message}", self.name) }
    }

    pub fn kv(&self) -> Result<(KvSpec, DeviceAddress, DeviceAddress), DeviceError> {
        self.kv.ok_or_else(|| self.error("it has no KV cache"))
    }

    pub fn weight(&self, weight: WeightRef) -> Result<DeviceAddress, DeviceError> {
        Ok(self.content(weight)?.0)
    }

    /// Start of a slot.
    pub fn slot(&self, slot: Slot) -> Result<DeviceAddress, DeviceError> {
        Ok(DeviceAddress(self.scratch.address().0 + self.offset(slot)?))
    }

    fn offset(&self, slot: Slot) -> Result<u64, DeviceError> {
        let offset = self.slot_offsets.get(usize::from(slot.0)).copied().flatten();
        let offset = offset.ok_or_else(|| self.error(format!("slot {} has no memory", slot.0)))?;
        if !offset.is_multiple_of(4) {
            return Err(self.error(format!("slot {} starts at {offset}, not a multiple of 4", slot.0)));
        }
        Ok(offset)
    }

    fn content(&self, weight: WeightRef) -> Result<(DeviceAddress, Content), DeviceError> {
        let found = self.weights.get(usize::from(weight.0)).copied();
        found.ok_or_else(|| self.error(format!("it has no weight {}", weight.0)))
    }

    /// `[width, n_rows]` of a slot.
    fn span(&self, slot: Slot, width: u64, n_rows: u64) -> Result<Span, DeviceError> {
        let offset = self.offset(slot)?;
        let n_bytes = width.checked_mul(n_rows).and_then(|n| n.checked_mul(4)).unwrap_or(u64::MAX);
        self.scratch.range("a slot", offset, n_bytes)?;
        Ok(Span { start: offset, end: offset + n_bytes })
    }

    fn check_vector(&self, weight: WeightRef, n: u64) -> Result<(), DeviceError> {
        match self.content(weight)?.1 {
            Content::Vector { n: bound } if bound == n => Ok(()),
            Content::Vector { .. } | Content::Rows { .. } | Content::Plain => {
                Err(self.error(format!("weight {} is not a vector of {n}", weight.0)))
            }
        }
    }

    fn check_matrix(&self, weight: WeightRef, n_in: u64, n_out: u64, n_expert: u64) -> Result<(), DeviceError> {
        match self.content(weight)?.1 {
            Content::Rows { dtype: _, n_in: i, n_out: o, n_expert: e } if (i, o, e) == (n_in, n_out, n_expert) => {
                Ok(())
            }
            Content::Vector { .. } | Content::Rows { .. } | Content::Plain => {
                Err(self.error(format!("weight {} is not a matrix [{n_in}, {n_out}, {n_expert}]", weight.0)))
            }
        }
    }

    /// Every token has a row of `[n_embd, n_vocab]`.
    fn check_table(&self, table: WeightRef, n_embd: u64, tokens: &[u32]) -> Result<(), DeviceError> {
        let Content::Rows { dtype: _, n_in, n_out, n_expert: 1 } = self.content(table)?.1 else {
            return Err(self.error(format!("weight {} is not a table", table.0)));
        };
        if n_in != n_embd {
            return Err(self.error(format!("weight {} has rows of {n_in}, not of {n_embd}", table.0)));
        }
        match tokens.iter().find(|token| u64::from(**token) >= n_out) {
            Some(token) => Err(self.error(format!("token {token} is not one of the {n_out} of the embedding table"))),
            None => Ok(()),
        }
    }

    /// What is written touches nothing else that the op uses; `same` may be the very memory of `written`.
    fn check_apart(&self, written: Span, same: &[Span], others: &[Span]) -> Result<(), DeviceError> {
        let meets = same.iter().any(|s| *s != written && s.overlaps(written));
        if meets || others.iter().any(|o| o.overlaps(written)) {
            return Err(self.error("an output slot overlaps another slot of the op"));
        }
        Ok(())
    }

    fn check_op(&self, op: &Op, n_rows: u64, rows: Rows, step: &Step) -> Result<(), DeviceError> {
        let span = |slot: Slot, width: u64| self.span(slot, width, n_rows);
        match op {
            Op::Embed { table, n_embd, out } => {
                let first = match rows {
                    Rows::Batch => 0,
                    Rows::Outputs => step.outputs.start as usize,
                };
                span(*out, u64::from(*n_embd))?;
                self.check_table(*table, u64::from(*n_embd), &step.tokens[first..][..n_rows as usize])
            }
            Op::TakeOutputs { x, width, out } => {
                let Rows::Outputs = rows else {
                    return Err(self.error("take_outputs in a program over all rows"));
                };
                let x = self.span(*x, u64::from(*width), step.tokens.len() as u64)?;
                self.check_apart(span(*out, u64::from(*width))?, &[], &[x])
            }
            Op::RmsNorm { x, weight, width, n_groups, eps: _, out } => {
                let all = u64::from(*width) * u64::from(*n_groups);
                self.check_vector(*weight, u64::from(*width))?;
                self.check_apart(span(*out, all)?, &[span(*x, all)?], &[])
            }
            Op::MatMul { x, n_in, projections } => {
                let x = span(*x, u64::from(*n_in))?;
                self.check_projections(projections, x, u64::from(*n_in), 1, n_rows)
            }
            Op::Rope { x, n_head, head_dim, n_rot, pairing: _, frequencies, factors } => {
                span(*x, u64::from(*n_head) * u64::from(*head_dim))?;
                if n_rot > head_dim || !n_rot.is_multiple_of(2) || frequencies.inv_freq.len() != *n_rot as usize / 2 {
                    let n = frequencies.inv_freq.len();
                    return Err(self.error(format!("rope of {n_rot} of {head_dim} elements with {n} frequencies")));
                }
                factors.map_or(Ok(()), |factors| self.check_vector(factors, u64::from(n_rot / 2)))
            }
            Op::KvAppend { k, v } => {
                let (spec, ..) = self.kv()?;
                span(*k, u64::from(spec.head_dim_k) * u64::from(spec.n_kv_head))?;
                span(*v, u64::from(spec.head_dim_v) * u64::from(spec.n_kv_head))?;
                Ok(())
            }
            Op::Attention { q, n_head, scale: _, out } => {
                let (spec, ..) = self.kv()?;
                if *n_head == 0 || !n_head.is_multiple_of(spec.n_kv_head) {
                    return Err(self.error(format!("{n_head} heads over {} KV heads", spec.n_kv_head)));
                }
                let q = span(*q, u64::from(spec.head_dim_k) * u64::from(*n_head))?;
                self.check_apart(span(*out, u64::from(spec.head_dim_v) * u64::from(*n_head))?, &[], &[q])
            }
            Op::GatedActivation { gate, up, activation: _, width, out } => {
                let width = u64::from(*width);
                self.check_apart(span(*out, width)?, &[span(*gate, width)?, span(*up, width)?], &[])
            }
            Op::Route { logits, bias, gating: _, n_expert, n_used, normalise: _, scale: _, ids, weights } => {
                if *n_used == 0 || n_used > n_expert {
                    return Err(self.error(format!("{n_used} of {n_expert} experts")));
                }
                bias.map_or(Ok(()), |bias| self.check_vector(bias, u64::from(*n_expert)))?;
                let logits = span(*logits, u64::from(*n_expert))?;
                let (ids, weights) = (span(*ids, u64::from(*n_used))?, span(*weights, u64::from(*n_used))?);
                self.check_apart(ids, &[], &[logits, weights])?;
                self.check_apart(weights, &[], &[logits])
            }
            Op::ExpertMatMul { x, x_per_expert, ids, n_in, n_expert, n_used, projections } => {
                let (n_in, n_used) = (u64::from(*n_in), u64::from(*n_used));
                let x = span(*x, if *x_per_expert { n_in * n_used } else { n_in })?;
                let ids = span(*ids, n_used)?;
                if projections.iter().any(|p| p.bias.is_some() || p.add.is_some()) {
                    return Err(self.error("experts with a bias or an addition"));
                }
                self.check_projections(projections, x, n_in, u64::from(*n_expert), n_rows * n_used)?;
                let out = |p: &Projection| self.span(p.out, u64::from(p.n_out), n_rows * n_used);
                projections.iter().try_for_each(|p| self.check_apart(out(p)?, &[], &[ids]))
            }
            Op::ExpertCombine { x, weights, width, n_used, add, out } => {
                let width = u64::from(*width);
                let x = span(*x, width * u64::from(*n_used))?;
                let weights = span(*weights, u64::from(*n_used))?;
                self.check_apart(span(*out, width)?, &[span(*add, width)?], &[x, weights])
            }
        }
    }

    fn check_projections(
        &self,
        projections: &[Projection],
        x: Span,
        n_in: u64,
        n_expert: u64,
        n_rows: u64,
    ) -> Result<(), DeviceError> {
        for (index, p) in projections.iter().enumerate() {
            let n_out = u64::from(p.n_out);
            self.check_matrix(p.weight, n_in, n_out, n_expert)?;
            p.bias.map_or(Ok(()), |bias| self.check_vector(bias, n_out))?;
            let out = self.span(p.out, n_out, n_rows)?;
            let add = p.add.map(|add| self.span(add, n_out, n_rows)).transpose()?;
            self.check_apart(out, add.as_slice(), &[x])?;
            for other in &projections[index + 1..] {
                let others_out = self.span(other.out, u64::from(other.n_out), n_rows)?;
                let others_add = other.add.map(|add| self.span(add, u64::from(other.n_out), n_rows)).transpose()?;
                self.check_apart(out, &[], &[others_out])?;
                self.check_apart(out, &[], others_add.as_slice())?;
                self.check_apart(others_out, &[], add.as_slice())?;
            }
        }
        Ok(())
    }
}

/// Memory that is no weight's.
pub fn plain(device: DeviceId, buffer: &Buffer) -> Result<&Piece, DeviceError> {
    let stored: &Stored = buffer.storage(device)?;
    match stored.content {
        Content::Plain => Ok(&stored.piece),
        Content::Vector { .. } | Content::Rows { .. } => Err(DeviceError::Unsupported {
            device,
            message: "a weight is bound where scratch or a KV cache belongs".into(),
        }),
    }
}
