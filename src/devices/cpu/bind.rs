//! From names to checked memory: after this, kernels may trust their pointers and sizes.
//!
//! A run first borrows every buffer ([`Borrows`]), then resolves each op against its program's bindings ([`Binder`]).

use super::matmul::{MatrixLayout, unpack_row};
use super::memory::{Memory, ReadGuard, WriteGuard};
use crate::devices::quant::{DType, QuantError};
use crate::devices::{BoundProgram, Buffer, DeviceError, DeviceId, KvSpec, Op, Program, Rows, Slot, Step, WeightRef};

/// What a buffer of this device is.
pub struct Stored {
    pub memory: Memory,
    pub content: Content,
}

/// How the bytes of a buffer are to be read.
pub enum Content {
    /// Scratch, KV cache: as its user says.
    Plain,
    /// F32.
    Vector { n: usize },
    /// Rows in the file's layout.
    Table { dtype: DType, n_embd: usize, n_vocab: usize },
    /// As the matmul kernels want it.
    Matrix(MatrixLayout),
}

/// A slot's memory for the rows of a step: `[width, n_rows]`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct View {
    start: *mut f32,
    pub width: usize,
    pub n_rows: usize,
}

// SAFETY: a pointer into memory that the run has borrowed; who touches which row when is what the kernels agree on.
unsafe impl Send for View {}
// SAFETY: as above.
unsafe impl Sync for View {}

impl View {
    /// # Safety
    /// `row < n_rows`, and nobody writes the row meanwhile.
    #[inline]
    pub unsafe fn row<'a>(self, row: usize) -> &'a [f32] {
        debug_assert!(row < self.n_rows);
        // SAFETY: the binder checked `width * n_rows` elements; the caller keeps writers away.
        unsafe { std::slice::from_raw_parts(self.start.add(row * self.width), self.width) }
    }

    /// # Safety
    /// `row < n_rows`, and nobody else touches the row meanwhile.
    #[inline]
    #[allow(clippy::mut_from_ref)]
    pub unsafe fn row_mut<'a>(self, row: usize) -> &'a mut [f32] {
        debug_assert!(row < self.n_rows);
        // SAFETY: as above; the caller keeps others away.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(row * self.width), self.width) }
    }

    pub fn pointer(self) -> *mut f32 {
        self.start
    }

    /// The same memory as rows of another width.
    pub fn split(self, n: usize) -> View {
        View { start: self.start, width: self.width / n, n_rows: self.n_rows * n }
    }

    pub fn overlaps(self, other: View) -> bool {
        let (a, b) = (self.range(), other.range());
        a.start < b.end && b.start < a.end
    }

    /// Whether threads that keep to their rows of both never meet.
    pub fn keeps_rows_apart(self, other: View) -> bool {
        self == other || !self.overlaps(other)
    }

    fn range(self) -> std::ops::Range<usize> {
        let start = self.start as usize;
        start..start + self.width * self.n_rows * 4
    }
}

/// The KV cache of a bound program: checked to hold `spec`.
#[derive(Clone, Copy)]
pub struct KvView {
    pub spec: KvSpec,
    pub k: *mut u8,
    pub v: *mut u8,
}

// SAFETY: as for `View`.
unsafe impl Send for KvView {}
// SAFETY: as above.
unsafe impl Sync for KvView {}

/// Everything that a run has borrowed, until it ends.
pub struct Borrows<'a> {
    programs: Vec<ProgramBorrows<'a>>,
    writes: Vec<WriteGuard<'a>>,
}

struct ProgramBorrows<'a> {
    weights: Vec<(ReadGuard<'a>, &'a Content)>,
    scratch: MemoryRef,
    kv: Option<(KvSpec, MemoryRef, MemoryRef)>,
}

#[derive(Clone, Copy, PartialEq)]
struct MemoryRef {
    start: *mut u8,
    n_bytes: usize,
}

impl<'a> Borrows<'a> {
    /// # Errors
    /// A buffer of another device, or one that another call is using.
    pub fn take(device: DeviceId, work: &[BoundProgram<'a>]) -> Result<Borrows<'a>, DeviceError> {
        let mut borrows = Borrows { programs: Vec::with_capacity(work.len()), writes: vec![] };
        for bound in work {
            let read = |buffer: &'a Buffer| {
                let stored: &'a Stored = buffer.storage(device)?;
                Ok((stored.memory.read()?, &stored.content))
            };
            let weights = bound.bindings.weights.iter().map(read).collect::<Result<_, DeviceError>>()?;
            let scratch = borrows.write(device, &bound.bindings.scratch.buffer)?;
            let kv = match &bound.bindings.kv {
                None => None,
                Some(kv) => Some((kv.spec, borrows.write(device, &kv.k)?, borrows.write(device, &kv.v)?)),
            };
            borrows.programs.push(ProgramBorrows { weights, scratch, kv });
        }
        Ok(borrows)
    }

    fn write(&mut self, device: DeviceId, buffer: &'a Buffer) -> Result<MemoryRef, DeviceError> {
        let stored: &'a Stored = buffer.storage(device)?;
        let Content::Plain = stored.content else {
            return Err(unsupported(device, "a weight is bound where scratch or a KV cache belongs"));
        };
        let n_bytes = stored.memory.n_bytes();
        // Programs of one run share their scratch.
        if let Some(guard) = self.writes.iter().find(|guard| guard.is_of(&stored.memory)) {
            return Ok(MemoryRef { start: guard.pointer(), n_bytes });
        }
        let guard = stored.memory.write()?;
        let start = guard.pointer();
        self.writes.push(guard);
        Ok(MemoryRef { start, n_bytes })
    }
}

fn unsupported(device: DeviceId, message: impl Into<String>) -> DeviceError {
    DeviceError::Unsupported { device, message: message.into() }
}

/// Resolves the ops of one program.
pub struct Binder<'a> {
    device: DeviceId,
    program: &'a Program,
    borrows: &'a ProgramBorrows<'a>,
    slot_offsets: &'a [Option<u64>],
    kv: Option<KvView>,
    pub step: &'a Step,
    /// Rows that the program computes.
    pub n_rows: usize,
}

impl<'a> Binder<'a> {
    /// # Errors
    /// Bindings that do not fit the program or the step.
    pub fn new(
        device: DeviceId,
        bound: &BoundProgram<'a>,
        borrows: &'a Borrows<'a>,
        index: usize,
        step: &'a Step,
    ) -> Result<Binder<'a>, DeviceError> {
        let program = bound.program;
        let borrows = &borrows.programs[index];
        let n_rows = step.n_rows(program.rows);
        let mut binder = Binder {
            device,
            program,
            borrows,
            slot_offsets: &bound.bindings.scratch.slot_offsets,
            kv: None,
            step,
            n_rows,
        };
        if program.weights.len() != borrows.weights.len() {
            let (needed, given) = (program.weights.len(), borrows.weights.len());
            return Err(binder.error(format!("it has {needed} weights, {given} are bound")));
        }
        let outputs = &step.outputs;
        if outputs.start > outputs.end || outputs.end as usize > step.tokens.len() {
            let n_tokens = step.tokens.len();
            return Err(binder.error(format!("output rows {outputs:?} of a step of {n_tokens} tokens")));
        }
        binder.kv = binder.bind_kv()?;
        Ok(binder)
    }

    fn bind_kv(&self) -> Result<Option<KvView>, DeviceError> {
        let Some((spec, k, v)) = self.borrows.kv else { return Ok(None) };
        if !matches!(spec.dtype, DType::F32 | DType::F16 | DType::Q8_0) {
            return Err(DeviceError::UnsupportedType { device: self.device, dtype: spec.dtype });
        }
        if spec.head_dim_k == 0 || spec.head_dim_v == 0 || spec.n_kv_head == 0 {
            return Err(self.error("its KV cache has a dimension of 0"));
        }
        if k.start == v.start || k.start == self.borrows.scratch.start || v.start == self.borrows.scratch.start {
            return Err(self.error("K, V and scratch must be different buffers"));
        }
        for (name, memory, row_bytes) in [("K", k, spec.k_row_bytes()), ("V", v, spec.v_row_bytes())] {
            let n_rows = u64::from(spec.n_ctx) * u64::from(spec.n_kv_head);
            let needed = row_bytes.checked_mul(n_rows);
            if needed.is_none_or(|needed| needed > memory.n_bytes as u64) {
                let (given, n_ctx) = (memory.n_bytes, spec.n_ctx);
                return Err(self.error(format!("a {name} cache of {given} bytes is too small for {n_ctx} positions")));
            }
        }
        let end = u64::from(self.step.first_position) + self.step.tokens.len() as u64;
        if end > u64::from(spec.n_ctx) {
            return Err(self.error(format!("position {end} is past the KV cache's {} positions", spec.n_ctx)));
        }
        Ok(Some(KvView { spec, k: k.start, v: v.start }))
    }

    /// Position of the program's first row.
    pub fn first_position(&self) -> usize {
        self.step.first_position as usize + self.first_row()
    }

    /// The step's row that is the program's first.
    pub fn first_row(&self) -> usize {
        match self.program.rows {
            Rows::Batch => 0,
            Rows::Outputs => self.step.outputs.start as usize,
        }
    }

    pub fn error(&self, message: impl std::fmt::Display) -> DeviceError {
        unsupported(self.device, format!("{}: {message}", self.program.name))
    }

    /// `[width, n_rows]` of a slot.
    pub fn slot(&self, slot: Slot, width: usize) -> Result<View, DeviceError> {
        self.slot_of_rows(slot, width, self.n_rows)
    }

    /// `[width, n_rows]` of a slot, for ops that see other rows than the program's.
    pub fn slot_of_rows(&self, slot: Slot, width: usize, n_rows: usize) -> Result<View, DeviceError> {
        let index = slot.0;
        let offset = self.slot_offsets.get(usize::from(index)).copied().flatten();
        let offset = offset.ok_or_else(|| self.error(format!("slot {index} has no memory")))?;
        let scratch = self.borrows.scratch;
        let n_bytes = (width as u64).checked_mul(n_rows as u64).and_then(|n| n.checked_mul(4));
        let end = n_bytes.and_then(|n| n.checked_add(offset));
        if end.is_none_or(|end| end > scratch.n_bytes as u64) {
            return Err(DeviceError::OutOfRange {
                device: self.device,
                what: "a slot",
                offset,
                n_bytes: n_bytes.unwrap_or(u64::MAX),
                buffer_bytes: scratch.n_bytes as u64,
            });
        }
        if !offset.is_multiple_of(4) {
            return Err(self.error(format!("slot {index} starts at {offset}, not a multiple of 4")));
        }
        // SAFETY: `offset` is inside the scratch buffer, whose start is aligned to more than 4.
        let start = unsafe { scratch.start.add(offset as usize) }.cast::<f32>();
        Ok(View { start, width, n_rows })
    }

    /// The views of one op: what is written touches nothing else. `same` may be the very memory of `written`.
    pub fn check_apart(&self, written: View, same: &[View], others: &[View]) -> Result<(), DeviceError> {
        let met = same.iter().any(|s| !s.keeps_rows_apart(written)) || others.iter().any(|o| o.overlaps(written));
        if met { Err(self.error("an output slot overlaps another slot of the op")) } else { Ok(()) }
    }

    fn weight(&self, weight: WeightRef) -> Result<(&'a [u8], &'a Content), DeviceError> {
        let found = self.borrows.weights.get(usize::from(weight.0));
        let (guard, content) = found.ok_or_else(|| self.error(format!("it has no weight {}", weight.0)))?;
        Ok((guard.bytes(), content))
    }

    fn weight_error(&self, weight: WeightRef, needed: &str) -> DeviceError {
        let name = self.program.weights.get(usize::from(weight.0)).map_or("?", |spec| &spec.name);
        self.error(format!("weight {name} is bound to something that is not {needed}"))
    }

    /// `[n]`
    pub fn vector(&self, weight: WeightRef, n: usize) -> Result<&'a [f32], DeviceError> {
        match self.weight(weight)? {
            (bytes, Content::Vector { n: bound }) if *bound == n => {
                debug_assert_eq!(bytes.len(), n * 4);
                // SAFETY: `load_weight` stored `n` F32 there; allocations are aligned to more than 4.
                Ok(unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast(), n) })
            }
            _ => Err(self.weight_error(weight, &format!("a vector of {n}"))),
        }
    }

    /// `[n_in, n_out, n_expert]`
    pub fn matrix(
        &self,
        weight: WeightRef,
        n_in: usize,
        n_out: usize,
        n_expert: usize,
    ) -> Result<(&'a MatrixLayout, &'a [u8]), DeviceError> {
        match self.weight(weight)? {
            (bytes, Content::Matrix(layout))
                if (layout.n_in, layout.n_out, layout.n_expert) == (n_in, n_out, n_expert) =>
            {
                Ok((layout, bytes))
            }
            _ => Err(self.weight_error(weight, &format!("a matrix [{n_in}, {n_out}, {n_expert}]"))),
        }
    }

    /// Rows of `n_embd`: a table, or a matrix that is a tied head's as well.
    pub fn table(&self, weight: WeightRef, n_embd: usize) -> Result<TableRows<'a>, DeviceError> {
        match self.weight(weight)? {
            (bytes, Content::Table { dtype, n_embd: bound, n_vocab }) if *bound == n_embd => {
                Ok(TableRows::File { bytes, dtype: *dtype, n_embd, n_vocab: *n_vocab })
            }
            (packed, Content::Matrix(layout)) if layout.n_in == n_embd && layout.n_expert == 1 => {
                Ok(TableRows::Packed { layout, packed })
            }
            _ => Err(self.weight_error(weight, &format!("a table of rows of {n_embd}"))),
        }
    }

    pub fn kv(&self) -> Result<KvView, DeviceError> {
        self.kv.ok_or_else(|| self.error("it has no KV cache"))
    }
}

/// A table's rows, in one of the layouts that a weight can have.
#[derive(Clone, Copy)]
pub enum TableRows<'a> {
    File { bytes: &'a [u8], dtype: DType, n_embd: usize, n_vocab: usize },
    Packed { layout: &'a MatrixLayout, packed: &'a [u8] },
}

impl TableRows<'_> {
    pub fn n_rows(&self) -> usize {
        match self {
            TableRows::File { n_vocab, .. } => *n_vocab,
            TableRows::Packed { layout, .. } => layout.n_out,
        }
    }

    /// The exact values of a row: `out [n_embd]`. `row` is below [`TableRows::n_rows`].
    pub fn read(&self, row: usize, out: &mut [f32]) -> Result<(), QuantError> {
        match *self {
            TableRows::File { bytes, dtype, n_embd, .. } => {
                let row_bytes = dtype.bytes_of(n_embd as u64).unwrap_or(0) as usize;
                dtype.dequantise(&bytes[row * row_bytes..][..row_bytes], out)
            }
            TableRows::Packed { layout, packed } => {
                unpack_row(layout, packed, 0, row, out);
                Ok(())
            }
        }
    }
}

/// Elements in a row of `slot`, as far as the program's ops say.
pub fn slot_width(program: &Program, slot: Slot) -> Option<usize> {
    let widths = program.ops.iter().filter_map(|op| match op {
        Op::Embed { n_embd, out, .. } if *out == slot => Some(*n_embd as usize),
        Op::RmsNorm { x, out, width, n_groups, .. } if *x == slot || *out == slot => {
            Some(*width as usize * *n_groups as usize)
        }
        Op::MatMul { x, n_in, .. } if *x == slot => Some(*n_in as usize),
        Op::MatMul { projections, .. } => projections.iter().find(|p| p.out == slot).map(|p| p.n_out as usize),
        Op::Rope { x, n_head, head_dim, .. } if *x == slot => Some(*n_head as usize * *head_dim as usize),
        _ => None,
    });
    widths.max()
}
