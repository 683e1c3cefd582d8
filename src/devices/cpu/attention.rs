//! Causal attention with an online softmax.
//!
//! Query vectors of one KV head (some rows of the step, all query heads of the group) form a tile. For each block of 64
//! keys, K and V are converted to F32 once for the whole tile. Every 512 keys the running result is closed and merged
//! into the total, whoever computed it: so the history may be divided among threads, and a row's bits depend neither on
//! the tile it is in, nor on the number of threads. Blocks and ranges lie at fixed positions of the history.
//!
//! Source: Milakov and Gimelshein 2018; Dao et al. 2022.

// Kernels over small arrays of registers read best by index.
#![allow(clippy::needless_range_loop)]

use super::bind::{Binder, View};
use super::kv::{Heads, padded};
use super::plan::{Context, Kernel, Needs, Plan, Scope};
use super::pool::Worker;
use super::vector::{Vector, exp, multiversion};
use crate::devices::{DeviceError, Slot};

/// Keys that are scored together.
const BLOCK: usize = 64;

/// Keys after which a partial result is merged into the total.
const RANGE: usize = 512;

/// Ranges whose partial results are held at a time when threads divide the history.
const RANGES_AT_ONCE: usize = 16;

/// Query vectors in a tile, about: more of them use a converted block better, and take more cache.
const TILE_VECTORS: usize = 128;

/// Assumed where a program does not say its heads' size.
pub const USUAL_HEAD_DIM: usize = 128;

/// Steps of up to so many rows divide the history among the threads.
const MAX_DIVIDED_ROWS: usize = 4;

/// Softmax over K·q, applied to V.
pub struct Attention {
    q: View,
    out: View,
    k: Heads,
    v: Heads,
    n_kv_head: usize,
    /// Query heads of a KV head.
    group: usize,
    scale: f32,
    first_position: usize,
    n_rows: usize,
    shape: Shape,
}

/// Sizes of a tile's working memory.
#[derive(Clone, Copy)]
struct Shape {
    /// Padded.
    dim_k: usize,
    /// Padded.
    dim_v: usize,
    /// At most so many query vectors.
    n_vectors: usize,
}

impl Shape {
    fn new(dim_k: usize, dim_v: usize, group: usize, n_rows: usize) -> Shape {
        let n_vectors = (most_rows(group).min(n_rows.max(1))) * group;
        Shape { dim_k: padded(dim_k), dim_v: padded(dim_v), n_vectors }
    }

    /// Elements of a partial result: `o [dim_v, n_vectors]`, `max [n_vectors]`, `sum [n_vectors]`.
    fn partial_len(&self, n_vectors: usize) -> usize {
        (n_vectors * (self.dim_v + 2)).next_multiple_of(16)
    }

    fn thread_len(&self) -> usize {
        let q = self.n_vectors * self.dim_k;
        let scores = (self.n_vectors + self.dim_k + self.dim_v) * BLOCK;
        q + scores + 8 * self.dim_k + 2 * self.partial_len(self.n_vectors)
    }
}

/// Most rows of a tile.
fn most_rows(group: usize) -> usize {
    (TILE_VECTORS / group).clamp(MAX_DIVIDED_ROWS, 64)
}

/// Working memory of attention with `n_head` heads of which each group shares one of `n_kv_head`.
pub fn needs(
    (dim_k, dim_v): (usize, usize),
    (n_head, n_kv_head): (usize, usize),
    n_rows: usize,
    n_threads: usize,
) -> Needs {
    let group = (n_head / n_kv_head.max(1)).max(1);
    let shape = Shape::new(dim_k, dim_v, group, n_rows);
    let divided = shape.partial_len(n_rows.min(MAX_DIVIDED_ROWS) * group) * n_kv_head * (RANGES_AT_ONCE + 1);
    let shared_bytes = if n_threads > 1 { divided * 4 } else { 0 };
    Needs { shared_bytes, thread_bytes: shape.thread_len() * 4, ..Needs::default() }
}

/// Query vectors of one KV head: of consecutive rows, all heads of the group.
#[derive(Clone, Copy)]
struct Tile {
    kv_head: usize,
    first_row: usize,
    n_rows: usize,
}

/// A partial result in working memory.
#[derive(Clone, Copy)]
struct Partial {
    o: *mut f32,
    max: *mut f32,
    sum: *mut f32,
}

impl Partial {
    /// # Safety
    /// `start` is good for `Shape::partial_len(n_vectors)`.
    unsafe fn at(start: *mut f32, n_vectors: usize, dim_v: usize) -> Partial {
        // SAFETY: the caller's contract.
        unsafe {
            let max = start.add(n_vectors * dim_v);
            Partial { o: start, max, sum: max.add(n_vectors) }
        }
    }
}

/// A thread's working memory.
#[derive(Clone, Copy)]
struct TileMemory {
    /// `[dim_k, n_vectors]`, scaled.
    q: *mut f32,
    /// `[BLOCK, n_vectors]`
    scores: *mut f32,
    /// `[BLOCK, dim_k]`: the block's keys are the fastest dimension.
    k: *mut f32,
    /// `[dim_v, BLOCK]`
    v: *mut f32,
    /// `[dim_k, 8]`
    k_rows: *mut f32,
    partial: *mut f32,
    total: *mut f32,
}

impl TileMemory {
    /// # Safety
    /// `start` is good for `shape.thread_len()`.
    unsafe fn at(start: *mut f32, shape: Shape) -> TileMemory {
        // SAFETY: the caller's contract.
        unsafe {
            let q = start;
            let scores = q.add(shape.n_vectors * shape.dim_k);
            let k = scores.add(shape.n_vectors * BLOCK);
            let v = k.add(shape.dim_k * BLOCK);
            let k_rows = v.add(shape.dim_v * BLOCK);
            let partial = k_rows.add(8 * shape.dim_k);
            let total = partial.add(shape.partial_len(shape.n_vectors));
            TileMemory { q, scores, k, v, k_rows, partial, total }
        }
    }
}

impl Attention {
    pub fn bind<'a>(
        binder: &Binder<'a>,
        plan: &mut Plan<'a>,
        q: Slot,
        n_head: u32,
        scale: f32,
        out: Slot,
        n_threads: usize,
    ) -> Result<(), DeviceError> {
        let kv = binder.kv()?;
        let (k, v) = (Heads::k(kv), Heads::v(kv));
        let (n_head, n_kv_head) = (n_head as usize, kv.spec.n_kv_head as usize);
        if n_head == 0 || n_head % n_kv_head != 0 {
            return Err(binder.error(format!("{n_head} heads cannot share {n_kv_head} KV heads evenly")));
        }
        let q = binder.slot(q, k.head_dim.saturating_mul(n_head))?;
        let out = binder.slot(out, v.head_dim.saturating_mul(n_head))?;
        binder.check_apart(out, &[], &[q])?;
        let (group, n_rows) = (n_head / n_kv_head, binder.n_rows);
        let shape = Shape::new(k.head_dim, v.head_dim, group, n_rows);
        plan.needs.grow(needs((k.head_dim, v.head_dim), (n_head, n_kv_head), n_rows, n_threads));
        let first_position = binder.first_position();
        let op = Attention { q, out, k, v, n_kv_head, group, scale, first_position, n_rows, shape };
        plan.push(Kernel::Attention(op), Scope::All, &[]);
        Ok(())
    }

    /// # Safety
    /// By all threads between barriers; the working memory has what [`needs`] says.
    pub unsafe fn run(&self, context: &Context<'_>, worker: &Worker<'_>) {
        let n_threads = worker.n_threads();
        let n_ranges = (self.first_position + self.n_rows).div_ceil(RANGE);
        // SAFETY: the caller's contract.
        unsafe {
            if n_threads > 1 && n_ranges > 1 && self.n_rows <= MAX_DIVIDED_ROWS && self.n_kv_head < 4 * n_threads {
                return self.run_divided(context, worker, n_ranges);
            }
            let memory = TileMemory::at(context.of_thread(worker).cast(), self.shape);
            let for_balance = (self.n_rows * self.n_kv_head / (4 * n_threads)).max(MAX_DIVIDED_ROWS);
            let tile_rows = most_rows(self.group).min(for_balance);
            let n_tiles = self.n_rows.div_ceil(tile_rows);
            worker.chunks(n_tiles * self.n_kv_head, |index| {
                // The last rows see the most keys: they go first.
                let first_row = (n_tiles - 1 - index / self.n_kv_head) * tile_rows;
                let n_rows = tile_rows.min(self.n_rows - first_row);
                self.run_tile(context, Tile { kv_head: index % self.n_kv_head, first_row, n_rows }, memory);
            });
        }
    }

    /// A tile with its whole history.
    ///
    /// # Safety
    /// As [`Attention::run`].
    unsafe fn run_tile(&self, context: &Context<'_>, tile: Tile, memory: TileMemory) {
        let n_vectors = tile.n_rows * self.group;
        let end = self.first_position + tile.first_row + tile.n_rows;
        // SAFETY: the caller's contract.
        unsafe {
            let partial = Partial::at(memory.partial, n_vectors, self.shape.dim_v);
            let total = Partial::at(memory.total, n_vectors, self.shape.dim_v);
            load_queries(self, tile, memory.q);
            for start in (0..end).step_by(RANGE) {
                let into = if start == 0 { total } else { partial };
                attend(context.simd, self, tile, start..(start + RANGE).min(end), memory, into);
                if start > 0 {
                    merge(context.simd, self, tile, start, total, partial);
                }
            }
            self.write_out(tile, total);
        }
    }

    /// One tile for each KV head, its history divided among the threads.
    ///
    /// # Safety
    /// As [`Attention::run`].
    unsafe fn run_divided(&self, context: &Context<'_>, worker: &Worker<'_>, n_ranges: usize) {
        let n_vectors = self.n_rows * self.group;
        let end = self.first_position + self.n_rows;
        let len = self.shape.partial_len(n_vectors);
        let tile = |kv_head| Tile { kv_head, first_row: 0, n_rows: self.n_rows };
        // SAFETY: the caller's contract: the shared memory has room for all partial results; each is one thread's
        // until the next barrier.
        unsafe {
            let memory = TileMemory::at(context.of_thread(worker).cast(), self.shape);
            let partial = |kv_head: usize, i: usize| {
                let start = context.shared().cast::<f32>().add((kv_head * (RANGES_AT_ONCE + 1) + i) * len);
                Partial::at(start, n_vectors, self.shape.dim_v)
            };
            for first in (0..n_ranges).step_by(RANGES_AT_ONCE) {
                let n = RANGES_AT_ONCE.min(n_ranges - first);
                if first > 0 {
                    worker.barrier();
                }
                worker.chunks(n * self.n_kv_head, |index| {
                    let (kv_head, i) = (index / n, index % n);
                    let start = (first + i) * RANGE;
                    load_queries(self, tile(kv_head), memory.q);
                    // The first range of all is the total to which the others are added.
                    let into = partial(kv_head, if start == 0 { RANGES_AT_ONCE } else { i });
                    attend(context.simd, self, tile(kv_head), start..(start + RANGE).min(end), memory, into);
                });
                worker.barrier();
                worker.chunks(self.n_kv_head, |kv_head| {
                    let total = partial(kv_head, RANGES_AT_ONCE);
                    for i in usize::from(first == 0)..n {
                        let start = (first + i) * RANGE;
                        merge(context.simd, self, tile(kv_head), start, total, partial(kv_head, i));
                    }
                    if first + n == n_ranges {
                        self.write_out(tile(kv_head), total);
                    }
                });
            }
        }
    }

    /// Keys that a vector of the tile sees.
    #[inline(always)]
    fn n_visible(&self, tile: Tile, vector: usize) -> usize {
        self.first_position + tile.first_row + vector / self.group + 1
    }

    /// # Safety
    /// The rows are this tile's alone; `total` is complete.
    unsafe fn write_out(&self, tile: Tile, total: Partial) {
        let dim = self.v.head_dim;
        for vector in 0..tile.n_rows * self.group {
            let (row, head) = (tile.first_row + vector / self.group, tile.kv_head * self.group + vector % self.group);
            // SAFETY: row and head are those of the slot; tiles do not share heads of a row.
            unsafe {
                let factor = 1.0 / *total.sum.add(vector);
                let o = std::slice::from_raw_parts(total.o.add(vector * self.shape.dim_v), dim);
                let start = self.out.pointer().add(row * self.out.width + head * dim);
                let out = std::slice::from_raw_parts_mut(start, dim);
                out.iter_mut().zip(o).for_each(|(out, o)| *out = o * factor);
            }
        }
    }
}

/// The tile's query vectors, scaled.
///
/// # Safety
/// `q` is good for `[dim_k, n_vectors]`.
unsafe fn load_queries(op: &Attention, tile: Tile, q: *mut f32) {
    let dim = op.k.head_dim;
    for vector in 0..tile.n_rows * op.group {
        let (row, head) = (tile.first_row + vector / op.group, tile.kv_head * op.group + vector % op.group);
        // SAFETY: row and head are those of the slot; the caller's room.
        unsafe {
            let x = &op.q.row(row)[head * dim..(head + 1) * dim];
            let q = std::slice::from_raw_parts_mut(q.add(vector * op.shape.dim_k), dim);
            q.iter_mut().zip(x).for_each(|(q, x)| *q = x * op.scale);
        }
    }
}

multiversion! {
    /// The tile over one range of keys, from nothing.
    ///
    /// # Safety
    /// The memory is as `TileMemory` and `Partial` say; keys are in the cache; `simd` is available.
    unsafe fn attend(
        op: &Attention, tile: Tile, keys: std::ops::Range<usize>, memory: TileMemory, into: Partial,
    ) = attend_body;

    /// Adds the result of the range from key `start` to the total.
    ///
    /// # Safety
    /// As `attend`.
    unsafe fn merge(op: &Attention, tile: Tile, start: usize, total: Partial, partial: Partial) = merge_body;
}

#[inline(always)]
unsafe fn attend_body<V: Vector>(
    op: &Attention,
    tile: Tile,
    keys: std::ops::Range<usize>,
    memory: TileMemory,
    into: Partial,
) {
    let Shape { dim_k, dim_v, .. } = op.shape;
    let n_vectors = tile.n_rows * op.group;
    // SAFETY: the caller's contract.
    unsafe {
        for i in 0..n_vectors {
            into.max.add(i).write(f32::NEG_INFINITY);
            into.sum.add(i).write(0.0);
        }
        into.o.write_bytes(0, n_vectors * dim_v);
        for start in keys.clone().step_by(BLOCK) {
            let n_keys = BLOCK.min(keys.end - start);
            // Rows before this one see nothing of the block.
            let first = start.saturating_sub(op.first_position + tile.first_row) * op.group;
            load_keys::<V>(op, tile.kv_head, start, n_keys, memory);
            score::<V>(op.k.head_dim, dim_k, first..n_vectors, memory);
            for i in first..n_vectors {
                let n = (op.n_visible(tile, i) - start).min(BLOCK);
                let o = into.o.add(i * dim_v);
                softmax::<V>(memory.scores.add(i * BLOCK), n, &mut *into.max.add(i), &mut *into.sum.add(i), o, dim_v);
            }
            for key in (0..n_keys).step_by(8) {
                let v = memory.v.add(key * dim_v);
                op.v.read::<V>(tile.kv_head, start + key, 8.min(n_keys - key), v);
                op.k.prefetch(tile.kv_head, start + BLOCK + key, 8);
            }
            // Rows that see the block in part one by one: what they do not see must not reach them, not even as 0.
            let mut i = first;
            while i < n_vectors {
                let n = (op.n_visible(tile, i) - start).min(BLOCK);
                let end = if n == BLOCK { n_vectors } else { i + op.group };
                weigh::<V>(n, dim_v, i..end, memory, into.o);
                i = end;
            }
        }
    }
}

/// Converts a block of K and turns it so that keys are the fastest dimension.
#[inline(always)]
unsafe fn load_keys<V: Vector>(op: &Attention, kv_head: usize, start: usize, n_keys: usize, memory: TileMemory) {
    let dim_k = op.shape.dim_k;
    // SAFETY: the caller's contract; `k` has room for whole groups of 8 keys.
    unsafe {
        for key in (0..n_keys).step_by(8) {
            op.k.read::<V>(kv_head, start + key, 8.min(n_keys - key), memory.k_rows);
            // Conversions come in bursts that leave the hardware's own prefetching behind.
            op.v.prefetch(kv_head, start + key, 8);
            for d in (0..op.k.head_dim).step_by(8) {
                V::transpose8(memory.k_rows.add(d), dim_k, memory.k.add(d * BLOCK + key), BLOCK);
            }
        }
    }
}

/// Calls `f::<N>(first)` for groups of `N` of the vectors.
macro_rules! in_groups {
    ($vectors:expr, |$first:ident| { $($n:pat => $f:expr, $by:literal;)* }) => {
        let std::ops::Range { start: mut $first, end } = $vectors;
        while $first < end {
            match end - $first {
                $($n => { $f; $first += $by; })*
            }
        }
    };
}

/// `scores = K · q` for a block of keys. Each score is one chain of additions over the dimensions.
#[inline(always)]
unsafe fn score<V: Vector>(dim: usize, dim_k: usize, vectors: std::ops::Range<usize>, memory: TileMemory) {
    // SAFETY: the caller's contract.
    unsafe {
        in_groups!(vectors, |i| {
            1 => score_group::<V, 1, 4>(dim, dim_k, i, memory), 1;
            2 => score_group::<V, 2, 4>(dim, dim_k, i, memory), 2;
            3 | 5 => score_group::<V, 3, 4>(dim, dim_k, i, memory), 3;
            4 | 7 | 8 => score_group::<V, 4, 2>(dim, dim_k, i, memory), 4;
            _ => score_group::<V, 6, 2>(dim, dim_k, i, memory), 6;
        });
    }
}

#[inline(always)]
unsafe fn score_group<V: Vector, const N: usize, const WIDE: usize>(
    dim: usize,
    dim_k: usize,
    first: usize,
    memory: TileMemory,
) {
    const { assert!(BLOCK.is_multiple_of(WIDE * V::LANES)) };
    // SAFETY: the caller's contract.
    unsafe {
        let q: [*const f32; N] = std::array::from_fn(|i| memory.q.add((first + i) * dim_k).cast_const());
        for key in (0..BLOCK).step_by(WIDE * V::LANES) {
            let mut sums = [[V::splat(0.0); WIDE]; N];
            for d in 0..dim {
                let row = memory.k.add(d * BLOCK + key);
                let mut k = [V::splat(0.0); WIDE];
                for j in 0..WIDE {
                    k[j] = V::load(row.add(j * V::LANES));
                }
                for i in 0..N {
                    let x = V::splat(*q[i].add(d));
                    for j in 0..WIDE {
                        sums[i][j] = x.mul_add(k[j], sums[i][j]);
                    }
                }
            }
            for i in 0..N {
                for j in 0..WIDE {
                    sums[i][j].store(memory.scores.add((first + i) * BLOCK + key + j * V::LANES));
                }
            }
        }
    }
}

/// Turns `n` scores into weights against the new maximum; `sum` and `o` are brought to it.
#[inline(always)]
unsafe fn softmax<V: Vector>(scores: *mut f32, n: usize, max: &mut f32, sum: &mut f32, o: *mut f32, dim_v: usize) {
    // SAFETY: `scores` is good for a block, `o` for `dim_v`, a multiple of any vector.
    unsafe {
        for i in n..BLOCK {
            scores.add(i).write(f32::NEG_INFINITY);
        }
        let mut highest = V::load(scores);
        for i in (V::LANES..BLOCK).step_by(V::LANES) {
            highest = highest.max(V::load(scores.add(i)));
        }
        let old = *max;
        let new = {
            let highest = highest.max_lane();
            if highest > old { highest } else { old }
        };
        // All scores may be -inf: then every weight is 0.
        let base = V::splat(if new == f32::NEG_INFINITY { 0.0 } else { new });
        let mut total = V::splat(0.0);
        for i in (0..BLOCK).step_by(V::LANES) {
            let weight = exp(V::load(scores.add(i)).sub(base));
            weight.store(scores.add(i));
            total = total.add(weight);
        }
        if new != old {
            let factor = exp(V::splat(old).sub(base));
            *sum *= factor.max_lane();
            for c in (0..dim_v).step_by(V::LANES) {
                V::load(o.add(c)).mul(factor).store(o.add(c));
            }
            *max = new;
        }
        *sum += total.sum();
    }
}

/// `o += weights · V` over the first `n` keys of a block, key by key.
#[inline(always)]
unsafe fn weigh<V: Vector>(n: usize, dim_v: usize, vectors: std::ops::Range<usize>, memory: TileMemory, o: *mut f32) {
    // SAFETY: the caller's contract.
    unsafe {
        in_groups!(vectors, |i| {
            1 => weigh_group::<V, 1, 4>(n, dim_v, i, memory, o), 1;
            2 => weigh_group::<V, 2, 4>(n, dim_v, i, memory, o), 2;
            3 | 5 => weigh_group::<V, 3, 4>(n, dim_v, i, memory, o), 3;
            4 | 7 | 8 => weigh_group::<V, 4, 2>(n, dim_v, i, memory, o), 4;
            _ => weigh_group::<V, 6, 2>(n, dim_v, i, memory, o), 6;
        });
    }
}

#[inline(always)]
unsafe fn weigh_group<V: Vector, const N: usize, const WIDE: usize>(
    n: usize,
    dim_v: usize,
    first: usize,
    memory: TileMemory,
    o: *mut f32,
) {
    // SAFETY: the caller's contract; `dim_v` is a multiple of two of the widest vectors.
    unsafe {
        let weights = memory.scores.add(first * BLOCK).cast_const();
        let o = o.add(first * dim_v);
        let mut c = 0;
        while c + WIDE * V::LANES <= dim_v {
            weigh_columns::<V, N, WIDE>(n, dim_v, weights, memory.v.add(c), o.add(c));
            c += WIDE * V::LANES;
        }
        while c < dim_v {
            weigh_columns::<V, N, 1>(n, dim_v, weights, memory.v.add(c), o.add(c));
            c += V::LANES;
        }
    }
}

#[inline(always)]
unsafe fn weigh_columns<V: Vector, const N: usize, const WIDE: usize>(
    n: usize,
    dim_v: usize,
    weights: *const f32,
    v: *const f32,
    o: *mut f32,
) {
    // SAFETY: the caller's contract.
    unsafe {
        let mut sums = [[V::splat(0.0); WIDE]; N];
        for i in 0..N {
            for j in 0..WIDE {
                sums[i][j] = V::load(o.add(i * dim_v + j * V::LANES));
            }
        }
        for key in 0..n {
            let mut x = [V::splat(0.0); WIDE];
            for j in 0..WIDE {
                x[j] = V::load(v.add(key * dim_v + j * V::LANES));
            }
            for i in 0..N {
                let weight = V::splat(*weights.add(i * BLOCK + key));
                for j in 0..WIDE {
                    sums[i][j] = weight.mul_add(x[j], sums[i][j]);
                }
            }
        }
        for i in 0..N {
            for j in 0..WIDE {
                sums[i][j].store(o.add(i * dim_v + j * V::LANES));
            }
        }
    }
}

#[inline(always)]
unsafe fn merge_body<V: Vector>(op: &Attention, tile: Tile, start: usize, total: Partial, partial: Partial) {
    let dim_v = op.shape.dim_v;
    // SAFETY: the caller's contract.
    unsafe {
        for i in 0..tile.n_rows * op.group {
            if op.n_visible(tile, i) <= start {
                continue;
            }
            let (a, b) = (*total.max.add(i), *partial.max.add(i));
            let max = if b > a { b } else { a };
            let base = V::splat(if max == f32::NEG_INFINITY { 0.0 } else { max });
            let (a, b) = (exp(V::splat(a).sub(base)), exp(V::splat(b).sub(base)));
            *total.max.add(i) = max;
            *total.sum.add(i) = *total.sum.add(i) * a.max_lane() + *partial.sum.add(i) * b.max_lane();
            for c in (i * dim_v..(i + 1) * dim_v).step_by(V::LANES) {
                let (o, p) = (V::load(total.o.add(c)), V::load(partial.o.add(c)));
                o.mul_add(a, p.mul(b)).store(total.o.add(c));
            }
        }
    }
}
