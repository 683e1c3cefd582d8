//! Rotary position embedding. Cosines and sines are computed once for each row of a run and each set of frequencies:
//! all layers share them.

use super::bind::{Binder, View};
use super::plan::{Context, Kernel, Plan, Scope};
use super::vector::{Vector, multiversion};
use crate::devices::op::{RopeFrequencies, RopePairing};
use crate::devices::{DeviceError, Op, Program, Slot, WeightRef};

/// What a table of cosines and sines depends on.
#[derive(Clone, Copy, PartialEq)]
pub struct TableKey<'a> {
    inv_freq: &'a [f32],
    factors: Option<&'a [f32]>,
    magnitude: f32,
    first_position: usize,
    n_rows: usize,
}

impl TableKey<'_> {
    /// Elements of a row: cosines, then sines.
    fn width(&self) -> usize {
        self.inv_freq.len() * 2
    }
}

/// Fills a table, `[n_rot / 2, 2, n_rows]`.
pub struct RopeTable<'a> {
    key: TableKey<'a>,
    /// First element in the run's tables.
    start: usize,
}

impl RopeTable<'_> {
    /// # Safety
    /// Each row by one thread; the run's tables hold this one.
    pub unsafe fn row(&self, context: &Context<'_>, row: usize) {
        let (key, n) = (&self.key, self.key.inv_freq.len());
        let position = (key.first_position + row) as f64;
        // SAFETY: the caller's contract.
        let table = unsafe {
            std::slice::from_raw_parts_mut(context.tables().add(self.start + row * key.width()), key.width())
        };
        let (cosines, sines) = table.split_at_mut(n);
        for i in 0..n {
            // In F64: at far positions an F32 product has no digits left for the angle.
            let angle = position * f64::from(key.inv_freq[i]) / key.factors.map_or(1.0, |f| f64::from(f[i]));
            let (sine, cosine) = angle.sin_cos();
            (cosines[i], sines[i]) = (cosine as f32 * key.magnitude, sine as f32 * key.magnitude);
        }
    }
}

/// Turns the first `n_rot` elements of each head.
pub struct Rope {
    x: View,
    head_dim: usize,
    n_rot: usize,
    pairing: RopePairing,
    table_start: usize,
}

impl Rope {
    pub fn bind<'a>(
        binder: &Binder<'a>,
        plan: &mut Plan<'a>,
        x: Slot,
        (n_head, head_dim, n_rot): (u32, u32, u32),
        pairing: RopePairing,
        frequencies: &'a RopeFrequencies,
        factors: Option<WeightRef>,
    ) -> Result<(), DeviceError> {
        let (head_dim, n_rot, n_pairs) = (head_dim as usize, n_rot as usize, n_rot as usize / 2);
        if head_dim == 0 || n_rot > head_dim || n_rot % 2 != 0 || frequencies.inv_freq.len() != n_pairs {
            let n = frequencies.inv_freq.len();
            return Err(binder.error(format!("rope of {n_rot} of {head_dim} elements with {n} frequencies")));
        }
        let x = binder.slot(x, head_dim.saturating_mul(n_head as usize))?;
        let key = TableKey {
            inv_freq: &frequencies.inv_freq,
            factors: factors.map(|f| binder.vector(f, n_pairs)).transpose()?,
            magnitude: frequencies.magnitude,
            first_position: binder.first_position(),
            n_rows: binder.n_rows,
        };
        let table_start = table_start(plan, key);
        let op = Rope { x, head_dim, n_rot, pairing, table_start };
        plan.push(Kernel::Rope(op), Scope::Rows(binder.n_rows), &[x]);
        Ok(())
    }

    /// # Safety
    /// Each row by one thread, after the table's row by the same; `context` has the table and the instructions.
    pub unsafe fn row(&self, context: &Context<'_>, row: usize) {
        if self.n_rot == 0 {
            return;
        }
        // SAFETY: the caller's contract.
        unsafe {
            let table = context.tables().add(self.table_start + row * self.n_rot);
            let table = std::slice::from_raw_parts(table, self.n_rot);
            let (cosines, sines) = table.split_at(self.n_rot / 2);
            for head in self.x.row_mut(row).chunks_exact_mut(self.head_dim) {
                let turned = &mut head[..self.n_rot];
                match self.pairing {
                    RopePairing::Adjacent => turn_adjacent(turned, cosines, sines),
                    RopePairing::Halves => turn_halves(context.simd, turned, cosines, sines),
                }
            }
        }
    }
}

/// Where the run's table for `key` starts; a new one is added to the plan.
fn table_start<'a>(plan: &mut Plan<'a>, key: TableKey<'a>) -> usize {
    let mut start = 0;
    for known in &plan.tables {
        if *known == key {
            return start;
        }
        start += known.width() * known.n_rows;
    }
    plan.tables.push(key);
    plan.needs.table_bytes = (start + key.width() * key.n_rows) * 4;
    plan.push(Kernel::RopeTable(RopeTable { key, start }), Scope::Rows(key.n_rows), &[]);
    start
}

/// Bytes of the tables that running `programs` together takes. Factors count as the same where their names are.
pub fn table_bytes(programs: &[&Program], n_rows: usize) -> usize {
    let mut known = vec![];
    for program in programs {
        for op in &program.ops {
            let Op::Rope { frequencies, factors, .. } = op else { continue };
            let factors = factors.and_then(|f| program.weights.get(usize::from(f.0))).map(|spec| &spec.name);
            let key = (frequencies, factors, program.rows);
            if !known.contains(&key) {
                known.push(key);
            }
        }
    }
    known.iter().map(|(frequencies, ..)| frequencies.inv_freq.len() * 2 * n_rows * 4).sum()
}

fn turn_adjacent(x: &mut [f32], cosines: &[f32], sines: &[f32]) {
    let (pairs, _) = x.as_chunks_mut::<2>();
    for ((pair, c), s) in pairs.iter_mut().zip(cosines).zip(sines) {
        let [a, b] = *pair;
        *pair = [a * c - b * s, a * s + b * c];
    }
}

multiversion! {
    /// # Safety
    /// `x` is as long as `cosines` and `sines` together; `simd` is available.
    unsafe fn turn_halves(x: &mut [f32], cosines: &[f32], sines: &[f32]) = turn_halves_body;
}

#[inline(always)]
unsafe fn turn_halves_body<V: Vector>(x: &mut [f32], cosines: &[f32], sines: &[f32]) {
    let n = cosines.len();
    let (low, high) = x.split_at_mut(n);
    let whole = n - n % V::LANES;
    // SAFETY: vectors stay below `whole`, which all four slices have.
    unsafe {
        for i in (0..whole).step_by(V::LANES) {
            let (a, b) = (V::load(low.as_ptr().add(i)), V::load(high.as_ptr().add(i)));
            let (c, s) = (V::load(cosines.as_ptr().add(i)), V::load(sines.as_ptr().add(i)));
            a.mul(c).sub(b.mul(s)).store(low.as_mut_ptr().add(i));
            a.mul(s).add(b.mul(c)).store(high.as_mut_ptr().add(i));
        }
    }
    for i in whole..n {
        let (a, b, c, s) = (low[i], high[i], cosines[i], sines[i]);
        (low[i], high[i]) = (a * c - b * s, a * s + b * c);
    }
}
