//! Matrix products: prepares the input rows once, then shares the output rows of all projections among the threads.

use super::bind::{Binder, View};
use super::matmul::{self, ActivationFormat, GROUP_ROWS, Input, MatrixLayout, Output};
use super::memory::ALIGN;
use super::plan::{Context, Kernel, Needs, Plan, Scope};
use super::pool::Worker;
use crate::devices::op::Projection;
use crate::devices::{DeviceError, Slot};

/// Rows of input that are multiplied with a piece of a matrix at a time: they stay in a core's cache.
const ROW_BLOCK: usize = 256;

/// Pieces of the work for each thread: enough that one that starts late does not hold up the others.
const PIECES_PER_THREAD: usize = 8;

/// The formats that a product's input is needed in, and where they lie in the shared working memory.
#[derive(Clone, Copy, Default, Debug)]
pub struct InputFormats {
    f32_start: Option<usize>,
    int8_start: Option<usize>,
    pub n_bytes: usize,
}

impl InputFormats {
    pub fn add(&mut self, format: ActivationFormat, n_in: usize, n_rows: usize) {
        let start = match format {
            ActivationFormat::F32 => &mut self.f32_start,
            ActivationFormat::Int8 => &mut self.int8_start,
        };
        if start.is_none() {
            *start = Some(self.n_bytes);
            self.n_bytes += (matmul::input_row_bytes(n_in, format) * n_rows).next_multiple_of(ALIGN);
        }
    }

    fn each(&self) -> impl Iterator<Item = (ActivationFormat, usize)> {
        let f32_rows = self.f32_start.map(|start| (ActivationFormat::F32, start));
        let int8_rows = self.int8_start.map(|start| (ActivationFormat::Int8, start));
        f32_rows.into_iter().chain(int8_rows)
    }

    /// The prepared rows.
    ///
    /// # Safety
    /// They have been prepared, and nobody writes them meanwhile.
    pub unsafe fn input<'a>(
        &self,
        context: &'a Context<'_>,
        format: ActivationFormat,
        n_in: usize,
        n_rows: usize,
    ) -> Input<'a> {
        let start = self.each().find(|(f, _)| *f == format).map_or(0, |(_, start)| start);
        // SAFETY: the caller's contract; `add` made room for them.
        let rows = unsafe {
            std::slice::from_raw_parts(context.shared().add(start), matmul::input_row_bytes(n_in, format) * n_rows)
        };
        Input { format, n_in, rows }
    }
}

/// Brings a product's input rows into the formats of its matrices.
pub struct Prepare {
    x: View,
    formats: InputFormats,
    /// Rows of `x` for each row of the step.
    rows_per_row: usize,
}

impl Prepare {
    /// `x` `[n_in, n_rows * rows_per_row]`
    pub fn new(x: View, formats: InputFormats, rows_per_row: usize) -> Prepare {
        Prepare { x, formats, rows_per_row }
    }

    /// # Safety
    /// Each row by one thread; nobody writes `x`; the shared memory has room for the formats.
    pub unsafe fn row(&self, context: &Context<'_>, row: usize) {
        for row in row * self.rows_per_row..(row + 1) * self.rows_per_row {
            for (format, start) in self.formats.each() {
                let row_bytes = matmul::input_row_bytes(self.x.width, format);
                // SAFETY: the caller's contract.
                unsafe {
                    let out = context.shared().add(start + row * row_bytes);
                    let out = std::slice::from_raw_parts_mut(out, row_bytes);
                    matmul::prepare_input(context.simd, format, self.x.row(row), out);
                }
            }
        }
    }
}

struct BoundProjection<'a> {
    layout: &'a MatrixLayout,
    packed: &'a [u8],
    format: ActivationFormat,
    bias: Option<&'a [f32]>,
    add: Option<View>,
    out: View,
}

/// `out_p = x · weight_p (+ bias_p) (+ add_p)`
pub struct MatMul<'a> {
    n_in: usize,
    n_rows: usize,
    formats: InputFormats,
    projections: Vec<BoundProjection<'a>>,
}

/// Working memory of a product of `n_rows`; `formats` are those of its matrices.
pub fn needs(formats: impl Iterator<Item = ActivationFormat>, n_in: usize, n_rows: usize) -> Needs {
    let mut all = InputFormats::default();
    formats.for_each(|format| all.add(format, n_in, n_rows));
    Needs { n_rows, shared_bytes: all.n_bytes, ..Needs::default() }
}

impl<'a> MatMul<'a> {
    pub fn bind(
        binder: &Binder<'a>,
        plan: &mut Plan<'a>,
        x: Slot,
        n_in: u32,
        projections: &[Projection],
        wanted: ActivationFormat,
    ) -> Result<(), DeviceError> {
        let (n_in, n_rows) = (n_in as usize, binder.n_rows);
        let x = binder.slot(x, n_in)?;
        let mut bound: Vec<BoundProjection<'a>> = Vec::with_capacity(projections.len());
        let mut formats = InputFormats::default();
        for p in projections {
            let n_out = p.n_out as usize;
            let (layout, packed) = binder.matrix(p.weight, n_in, n_out, 1)?;
            let format = layout.input_format(wanted);
            formats.add(format, n_in, n_rows);
            let out = binder.slot(p.out, n_out)?;
            let add = p.add.map(|add| binder.slot(add, n_out)).transpose()?;
            binder.check_apart(out, add.as_slice(), &[x])?;
            for other in &bound {
                binder.check_apart(out, &[], &[other.out])?;
                binder.check_apart(out, &[], other.add.as_slice())?;
                binder.check_apart(other.out, &[], add.as_slice())?;
            }
            let bias = p.bias.map(|bias| binder.vector(bias, n_out)).transpose()?;
            bound.push(BoundProjection { layout, packed, format, bias, add, out });
        }
        plan.needs.grow(needs(bound.iter().map(|p| p.format), n_in, n_rows));
        plan.push(Kernel::Prepare(Prepare::new(x, formats, 1)), Scope::Rows(n_rows), &[x]);
        plan.push(Kernel::MatMul(MatMul { n_in, n_rows, formats, projections: bound }), Scope::All, &[]);
        Ok(())
    }

    /// # Safety
    /// By all threads between barriers, after the input has been prepared.
    pub unsafe fn run(&self, context: &Context<'_>, worker: &Worker<'_>) {
        let n_groups: usize = self.projections.iter().map(|p| p.layout.n_groups()).sum();
        let piece = piece_groups(n_groups, worker.n_threads());
        let n_blocks = self.n_rows.div_ceil(ROW_BLOCK);
        let n_pieces: usize = self.projections.iter().map(|p| p.layout.n_groups().div_ceil(piece)).sum();
        worker.chunks(n_pieces * n_blocks, |index| {
            let (mut index, block) = (index / n_blocks, index % n_blocks);
            for p in &self.projections {
                let n = p.layout.n_groups().div_ceil(piece);
                if index >= n {
                    index -= n;
                    continue;
                }
                let groups = index * piece..((index + 1) * piece).min(p.layout.n_groups());
                let rows = &context.rows(self.n_rows)[block * ROW_BLOCK..((block + 1) * ROW_BLOCK).min(self.n_rows)];
                let output = Output {
                    out: p.out.pointer(),
                    stride: p.out.width,
                    bias: p.bias,
                    add: p.add.map(|add| add.pointer().cast_const()),
                };
                // SAFETY: sizes were checked when the op was bound; a group's outputs are one thread's.
                unsafe {
                    let input = self.formats.input(context, p.format, self.n_in, self.n_rows);
                    matmul::matmul(context.simd, p.layout, p.packed, 0, &input, rows, groups, &output);
                }
                return;
            }
        });
    }
}

/// Groups of output rows in one piece of work, when `n_groups` are shared by `n_threads`.
pub fn piece_groups(n_groups: usize, n_threads: usize) -> usize {
    const _: () = assert!(GROUP_ROWS >= 8, "a piece of one group must be worth its counter");
    if n_threads == 1 {
        return n_groups.max(1);
    }
    n_groups.div_ceil(n_threads * PIECES_PER_THREAD).max(1)
}
