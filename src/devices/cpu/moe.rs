//! Mixtures of experts: the choice, the products with the chosen experts' matrices, the weighted sum.

use super::bind::{Binder, View};
use super::matmul::{self, ActivationFormat, MatrixLayout, Output, RowPair};
use super::plan::{Context, Kernel, Needs, Plan, Scope};
use super::pool::Worker;
use super::product::{self, InputFormats, Prepare, piece_groups};
use super::simd::Simd;
use super::vector::{ExpAbove, Sigmoid, Vector, map_slice, multiversion};
use crate::devices::op::{Gating, Projection};
use crate::devices::{DeviceError, Op, Slot};

/// Chooses `n_used` experts for each row.
pub struct Route<'a> {
    logits: View,
    bias: Option<&'a [f32]>,
    gating: Gating,
    n_used: usize,
    normalise: bool,
    scale: f32,
    /// u32
    ids: View,
    weights: View,
}

impl<'a> Route<'a> {
    /// # Errors
    /// Also when `op` is another op.
    pub fn bind(binder: &Binder<'a>, plan: &mut Plan<'a>, op: &Op) -> Result<(), DeviceError> {
        let &Op::Route { logits, bias, gating, n_expert, n_used, normalise, scale, ids, weights } = op else {
            return Err(binder.error("not a choice of experts"));
        };
        let (n_expert, n_used) = (n_expert as usize, n_used as usize);
        if n_used == 0 || n_used > n_expert {
            return Err(binder.error(format!("{n_used} of {n_expert} experts cannot be chosen")));
        }
        let logits = binder.slot(logits, n_expert)?;
        let bias = bias.map(|bias| binder.vector(bias, n_expert)).transpose()?;
        let (ids, weights) = (binder.slot(ids, n_used)?, binder.slot(weights, n_used)?);
        binder.check_apart(ids, &[], &[logits, weights])?;
        binder.check_apart(weights, &[], &[logits])?;
        plan.needs.grow(route_needs(n_expert));
        let op = Route { logits, bias, gating, n_used, normalise, scale, ids, weights };
        plan.push(Kernel::Route(op), Scope::Rows(binder.n_rows), &[logits, ids, weights]);
        Ok(())
    }

    /// # Safety
    /// Each row by one thread; working memory as [`route_needs`] says.
    pub unsafe fn row(&self, context: &Context<'_>, worker: &Worker<'_>, row: usize) {
        // SAFETY: the caller's contract.
        unsafe {
            let logits = self.logits.row(row);
            let n = logits.len();
            let own = std::slice::from_raw_parts_mut(context.of_thread(worker).cast::<f32>(), 2 * n);
            let (probabilities, merits) = own.split_at_mut(n);
            probabilities.copy_from_slice(logits);
            match self.gating {
                Gating::Softmax => softmax(context.simd, probabilities),
                Gating::Sigmoid => sigmoid(context.simd, probabilities),
            }
            for (i, (merit, p)) in merits.iter_mut().zip(&*probabilities).enumerate() {
                let merit_with_nan = p + self.bias.map_or(0.0, |bias| bias[i]);
                *merit = if merit_with_nan.is_nan() { f32::NEG_INFINITY } else { merit_with_nan };
            }
            let ids = self.ids.row_mut(row);
            let weights = self.weights.row_mut(row);
            let mut sum = 0.0;
            for u in 0..self.n_used {
                let best = best_untaken(merits);
                // What is taken is NaN, which is above nothing.
                merits[best] = f32::NAN;
                ids[u] = f32::from_bits(best as u32);
                weights[u] = probabilities[best];
                sum += weights[u];
            }
            // All probabilities may be 0.
            let factor = if self.normalise && sum > 0.0 { self.scale / sum } else { self.scale };
            weights.iter_mut().for_each(|w| *w *= factor);
        }
    }
}

/// The first of the largest, of which at least one is not NaN.
fn best_untaken(merits: &[f32]) -> usize {
    let mut best = None::<(usize, f32)>;
    for (i, &merit) in merits.iter().enumerate() {
        if !merit.is_nan() && best.is_none_or(|(_, b)| merit > b) {
            best = Some((i, merit));
        }
    }
    best.map_or(0, |(i, _)| i)
}

/// Working memory of a choice among `n_expert`.
pub fn route_needs(n_expert: usize) -> Needs {
    Needs { thread_bytes: 2 * n_expert * 4, ..Needs::default() }
}

multiversion! {
    /// # Safety
    /// `simd` is available.
    unsafe fn softmax(x: &mut [f32]) = softmax_body;

    /// # Safety
    /// `simd` is available.
    unsafe fn sigmoid(x: &mut [f32]) = sigmoid_body;

    /// `out += weight * x`
    ///
    /// # Safety
    /// One length; `simd` is available.
    unsafe fn add_scaled(out: &mut [f32], x: &[f32], weight: f32) = add_scaled_body;
}

#[inline(always)]
unsafe fn softmax_body<V: Vector>(x: &mut [f32]) {
    let max = x.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    // SAFETY: the caller has the instructions.
    unsafe { map_slice::<V>(x, ExpAbove(max)) }
    let sum: f32 = x.iter().sum();
    x.iter_mut().for_each(|x| *x /= sum);
}

#[inline(always)]
unsafe fn sigmoid_body<V: Vector>(x: &mut [f32]) {
    // SAFETY: the caller has the instructions.
    unsafe { map_slice::<V>(x, Sigmoid) }
}

#[inline(always)]
unsafe fn add_scaled_body<V: Vector>(out: &mut [f32], x: &[f32], weight: f32) {
    debug_assert_eq!(out.len(), x.len());
    let n = out.len();
    let whole = n - n % V::LANES;
    // SAFETY: vectors stay below `whole`, which both slices have.
    unsafe {
        for i in (0..whole).step_by(V::LANES) {
            let p = out.as_mut_ptr().add(i);
            V::load(x.as_ptr().add(i)).mul_add(V::splat(weight), V::load(p)).store(p);
        }
    }
    for i in whole..n {
        out[i] += x[i] * weight;
    }
}

struct ExpertProjection<'a> {
    layout: &'a MatrixLayout,
    packed: &'a [u8],
    format: ActivationFormat,
    /// `[n_out, n_used * n_rows]`
    out: View,
}

/// `out_p[:, u, r] = x · weight_p[ids[u, r]]`
pub struct ExpertMatMul<'a> {
    n_in: usize,
    n_expert: usize,
    n_used: usize,
    n_rows: usize,
    x_per_expert: bool,
    ids: View,
    formats: InputFormats,
    projections: Vec<ExpertProjection<'a>>,
}

/// Rows of the step by expert, in a thread's own memory.
struct RowsByExpert<'a> {
    pairs: &'a [RowPair],
    /// Where each expert's pairs start, `[n_expert + 1]`.
    starts: &'a [u32],
    /// Experts that have rows.
    active: &'a [u32],
}

/// Working memory of the products of `n_rows` with experts; `formats` are those of the matrices.
pub fn expert_needs(
    formats: impl Iterator<Item = ActivationFormat>,
    n_in: usize,
    n_expert: usize,
    n_used: usize,
    x_per_expert: bool,
    n_rows: usize,
) -> Needs {
    let needs = product::needs(formats, n_in, n_rows * if x_per_expert { n_used } else { 1 });
    let thread_bytes = n_rows * n_used * size_of::<RowPair>() + (2 * n_expert + 1) * 4;
    Needs { n_rows, thread_bytes, ..needs }
}

impl<'a> ExpertMatMul<'a> {
    /// # Errors
    /// Also when `op` is another op.
    pub fn bind(
        binder: &Binder<'a>,
        plan: &mut Plan<'a>,
        op: &Op,
        wanted: ActivationFormat,
    ) -> Result<(), DeviceError> {
        let Op::ExpertMatMul { x, x_per_expert, ids, n_in, n_expert, n_used, projections } = op else {
            return Err(binder.error("not a product with experts"));
        };
        let (n_in, n_expert, n_used) = (*n_in as usize, *n_expert as usize, *n_used as usize);
        let (n_rows, x_per_expert) = (binder.n_rows, *x_per_expert);
        let rows_per_row = if x_per_expert { n_used } else { 1 };
        if n_used == 0 || n_expert == 0 {
            return Err(binder.error("products with no experts"));
        }
        let x = binder.slot(*x, n_in.saturating_mul(rows_per_row))?;
        let ids = binder.slot(*ids, n_used)?;
        let mut bound: Vec<ExpertProjection<'a>> = Vec::with_capacity(projections.len());
        let mut formats = InputFormats::default();
        for Projection { weight, bias, n_out, out, add } in projections {
            if bias.is_some() || add.is_some() {
                return Err(binder.error("products with experts take no bias and no sum"));
            }
            let n_out = *n_out as usize;
            let (layout, packed) = binder.matrix(*weight, n_in, n_out, n_expert)?;
            let format = layout.input_format(wanted);
            formats.add(format, n_in, n_rows * rows_per_row);
            let out = binder.slot(*out, n_out.saturating_mul(n_used))?;
            binder.check_apart(out, &[], &[x, ids])?;
            bound.iter().try_for_each(|other| binder.check_apart(out, &[], &[other.out]))?;
            bound.push(ExpertProjection { layout, packed, format, out });
        }
        bound.iter_mut().for_each(|p| p.out = p.out.split(n_used));
        plan.needs.grow(expert_needs(bound.iter().map(|p| p.format), n_in, n_expert, n_used, x_per_expert, n_rows));
        let prepare = Prepare::new(x.split(rows_per_row), formats, rows_per_row);
        plan.push(Kernel::Prepare(prepare), Scope::Rows(n_rows), &[x]);
        let op = ExpertMatMul { n_in, n_expert, n_used, n_rows, x_per_expert, ids, formats, projections: bound };
        plan.push(Kernel::ExpertMatMul(op), Scope::All, &[]);
        Ok(())
    }

    /// # Safety
    /// By all threads between barriers, after the input has been prepared.
    pub unsafe fn run(&self, context: &Context<'_>, worker: &Worker<'_>) {
        // SAFETY: the caller's contract. Each thread lists the rows for itself: cheaper than a barrier.
        let Some(by_expert) = (unsafe { self.rows_by_expert(context, worker) }) else { return };
        let n_input_rows = self.n_rows * if self.x_per_expert { self.n_used } else { 1 };
        let n_groups: usize = self.projections.iter().map(|p| p.layout.n_groups()).sum();
        let piece = piece_groups(n_groups * by_expert.active.len(), worker.n_threads()).min(n_groups.max(1));
        let pieces_of_expert: usize = self.projections.iter().map(|p| p.layout.n_groups().div_ceil(piece)).sum();
        worker.chunks(pieces_of_expert * by_expert.active.len(), |index| {
            let expert = by_expert.active[index / pieces_of_expert] as usize;
            let mut index = index % pieces_of_expert;
            let rows = by_expert.starts[expert] as usize..by_expert.starts[expert + 1] as usize;
            for p in &self.projections {
                let n = p.layout.n_groups().div_ceil(piece);
                if index >= n {
                    index -= n;
                    continue;
                }
                let groups = index * piece..((index + 1) * piece).min(p.layout.n_groups());
                let output = Output { out: p.out.pointer(), stride: p.out.width, bias: None, add: None };
                // SAFETY: sizes were checked when the op was bound, ids when the rows were listed.
                unsafe {
                    let input = self.formats.input(context, p.format, self.n_in, n_input_rows);
                    let pairs = &by_expert.pairs[rows];
                    matmul::matmul(context.simd, p.layout, p.packed, expert, &input, pairs, groups, &output);
                }
                return;
            }
        });
    }

    /// # Safety
    /// Nobody writes the ids; the thread's memory has what [`expert_needs`] says.
    unsafe fn rows_by_expert<'m>(&self, context: &'m Context<'_>, worker: &Worker<'_>) -> Option<RowsByExpert<'m>> {
        let n = self.n_rows * self.n_used;
        // SAFETY: the caller's contract; all bit patterns are u32.
        let (ids, pairs, starts, active) = unsafe {
            let pairs = context.of_thread(worker).cast::<RowPair>();
            let starts = pairs.add(n).cast::<u32>();
            let active = starts.add(self.n_expert + 1);
            (
                std::slice::from_raw_parts(self.ids.pointer().cast::<u32>(), n),
                std::slice::from_raw_parts_mut(pairs, n),
                std::slice::from_raw_parts_mut(starts, self.n_expert + 1),
                std::slice::from_raw_parts_mut(active, self.n_expert),
            )
        };
        starts.fill(0);
        for &id in ids {
            // Every thread sees the same ids, so all give up together.
            let Some(count) = starts.get_mut(id as usize + 1).filter(|_| (id as usize) < self.n_expert) else {
                context.fail(|| format!("expert {id} was chosen of {}", self.n_expert));
                return None;
            };
            *count += 1;
        }
        let mut n_active = 0;
        for expert in 0..self.n_expert {
            if starts[expert + 1] > 0 {
                active[n_active] = expert as u32;
                n_active += 1;
            }
            starts[expert + 1] += starts[expert];
        }
        for (output, &id) in ids.iter().enumerate() {
            let input = if self.x_per_expert { output } else { output / self.n_used };
            let next = &mut starts[id as usize];
            pairs[*next as usize] = RowPair { input: input as u32, output: output as u32 };
            *next += 1;
        }
        // Each start has moved to its end, which is the next one's start.
        starts.copy_within(0..self.n_expert, 1);
        starts[0] = 0;
        Some(RowsByExpert { pairs, starts, active: &active[..n_active] })
    }
}

/// `out = add + sum of weights[u] * x[u]`
pub struct ExpertCombine {
    x: View,
    weights: View,
    add: View,
    out: View,
}

impl ExpertCombine {
    pub fn bind<'a>(
        binder: &Binder<'a>,
        plan: &mut Plan<'a>,
        (x, weights): (Slot, Slot),
        (width, n_used): (u32, u32),
        (add, out): (Slot, Slot),
    ) -> Result<(), DeviceError> {
        let (width, n_used) = (width as usize, n_used as usize);
        if width == 0 {
            return Err(binder.error("a sum of experts of width 0"));
        }
        let x = binder.slot(x, width.saturating_mul(n_used))?;
        let weights = binder.slot(weights, n_used)?;
        let (add, out) = (binder.slot(add, width)?, binder.slot(out, width)?);
        binder.check_apart(out, &[add], &[x, weights])?;
        let op = ExpertCombine { x, weights, add, out };
        plan.push(Kernel::ExpertCombine(op), Scope::Rows(binder.n_rows), &[x, weights, add, out]);
        Ok(())
    }

    /// # Safety
    /// Each row by one thread; `simd` is available.
    pub unsafe fn row(&self, simd: Simd, row: usize) {
        // SAFETY: the caller's contract; slots that are not the same do not overlap.
        unsafe {
            let out = self.out.row_mut(row);
            if self.out != self.add {
                out.copy_from_slice(self.add.row(row));
            }
            for (x, weight) in self.x.row(row).chunks_exact(out.len()).zip(self.weights.row(row)) {
                add_scaled(simd, out, x, *weight);
            }
        }
    }
}
