//! Rows of the KV cache: written from F32, read back into the working memory of the attention.

use half::slice::HalfFloatSliceExt;

use super::bind::{Binder, KvView, View};
use super::plan::{Kernel, Plan, Scope};
use super::vector::Vector;
use crate::devices::quant::{DType, q8_0};
use crate::devices::{DeviceError, KvSpec, Slot};

/// Rows that are read back are padded to a multiple of this many elements.
pub const ROW_PAD: usize = 32;

/// Elements that a row of `n` takes when it is read back.
pub const fn padded(n: usize) -> usize {
    n.next_multiple_of(ROW_PAD)
}

/// K or V of a cache.
#[derive(Clone, Copy)]
pub struct Heads {
    pub dtype: DType,
    pub head_dim: usize,
    row_bytes: usize,
    n_ctx: usize,
    start: *mut u8,
}

// SAFETY: a pointer into memory that the run has borrowed.
unsafe impl Send for Heads {}
// SAFETY: as above.
unsafe impl Sync for Heads {}

impl Heads {
    pub fn k(kv: KvView) -> Heads {
        let KvSpec { dtype, head_dim_k, n_ctx, .. } = kv.spec;
        let row_bytes = kv.spec.k_row_bytes() as usize;
        Heads { dtype, head_dim: head_dim_k as usize, row_bytes, n_ctx: n_ctx as usize, start: kv.k }
    }

    pub fn v(kv: KvView) -> Heads {
        let KvSpec { dtype, head_dim_v, n_ctx, .. } = kv.spec;
        let row_bytes = kv.spec.v_row_bytes() as usize;
        Heads { dtype, head_dim: head_dim_v as usize, row_bytes, n_ctx: n_ctx as usize, start: kv.v }
    }

    /// # Safety
    /// `head < n_kv_head`, `position < n_ctx`.
    #[inline(always)]
    unsafe fn row(&self, head: usize, position: usize) -> *mut u8 {
        debug_assert!(position < self.n_ctx);
        // SAFETY: the binder checked the buffer's size for all heads and positions.
        unsafe { self.start.add((head * self.n_ctx + position) * self.row_bytes) }
    }

    /// # Safety
    /// As [`Heads::row`], and nobody else touches that row.
    unsafe fn write(&self, head: usize, position: usize, x: &[f32]) {
        // SAFETY: the caller's contract; `row_bytes` is the size of `head_dim` elements of `dtype`.
        unsafe {
            let row = self.row(head, position);
            match self.dtype {
                DType::F16 => {
                    // A cache's rows start at even offsets of an aligned buffer.
                    let out = std::slice::from_raw_parts_mut(row.cast::<half::f16>(), x.len());
                    out.convert_from_f32_slice(x);
                }
                DType::Q8_0 => {
                    let out = std::slice::from_raw_parts_mut(row, self.row_bytes);
                    let whole = x.len() - x.len() % q8_0::BLOCK_LEN;
                    q8_0::quantise_row(&x[..whole], out);
                    if whole < x.len() {
                        let mut last = [0.0; q8_0::BLOCK_LEN];
                        last[..x.len() - whole].copy_from_slice(&x[whole..]);
                        q8_0::quantise_row(&last, &mut out[self.row_bytes - q8_0::BLOCK_BYTES..]);
                    }
                }
                _ => std::ptr::copy_nonoverlapping(x.as_ptr().cast(), row, self.row_bytes),
            }
        }
    }

    /// Asks for rows that will be read soon. They need not exist.
    #[inline(always)]
    pub fn prefetch(&self, head: usize, from: usize, n: usize) {
        let start = self.start.wrapping_add((head * self.n_ctx + from) * self.row_bytes);
        for offset in (0..n * self.row_bytes).step_by(CACHE_LINE_BYTES) {
            prefetch(start.wrapping_add(offset));
        }
    }

    /// Rows of positions `from..from + n` of one head as F32, `[padded(head_dim), n]`. What pads a row is left alone
    /// or finite.
    ///
    /// # Safety
    /// As [`Heads::row`]; nobody writes those rows; `out` has room; instructions of `V`.
    #[inline(always)]
    pub unsafe fn read<V: Vector>(&self, head: usize, from: usize, n: usize, out: *mut f32) {
        let stride = padded(self.head_dim);
        // SAFETY: the caller's contract.
        unsafe {
            for i in 0..n {
                let (row, out) = (self.row(head, from + i).cast_const(), out.add(i * stride));
                match self.dtype {
                    DType::F16 => read_f16::<V>(row.cast(), self.head_dim, out),
                    DType::Q8_0 => read_q8_0::<V>(row, self.head_dim, out),
                    _ => std::ptr::copy_nonoverlapping(row.cast(), out, self.head_dim),
                }
            }
        }
    }
}

const CACHE_LINE_BYTES: usize = 64;

#[inline(always)]
fn prefetch(at: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint, which reads nothing and cannot fault.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(at.cast())
    };
    #[cfg(target_arch = "aarch64")]
    super::arm_asm::prefetch(at);
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = at;
}

#[inline(always)]
unsafe fn read_f16<V: Vector>(row: *const u16, n: usize, out: *mut f32) {
    let whole = n - n % V::LANES;
    // SAFETY: vectors and the tail stay below `n`.
    unsafe {
        for i in (0..whole).step_by(V::LANES) {
            V::load_f16(row.add(i)).store(out.add(i));
        }
        for i in whole..n {
            *out.add(i) = half::f16::from_bits(*row.add(i)).to_f32();
        }
    }
}

#[inline(always)]
unsafe fn read_q8_0<V: Vector>(row: *const u8, n: usize, out: *mut f32) {
    // SAFETY: a row has whole blocks, of which `out` has room for all values.
    unsafe {
        for block in 0..n.div_ceil(q8_0::BLOCK_LEN) {
            let (row, out) = (row.add(block * q8_0::BLOCK_BYTES), out.add(block * q8_0::BLOCK_LEN));
            let d = V::splat(half::f16::from_bits(row.cast::<u16>().read_unaligned()).to_f32());
            for i in (0..q8_0::BLOCK_LEN).step_by(V::LANES) {
                V::load_i8(row.add(2 + i).cast()).mul(d).store(out.add(i));
            }
        }
    }
}

/// Writes the step's K and V at their positions.
pub struct KvAppend {
    k: View,
    v: View,
    k_heads: Heads,
    v_heads: Heads,
    first_position: usize,
}

impl KvAppend {
    pub fn bind<'a>(binder: &Binder<'a>, plan: &mut Plan<'a>, k: Slot, v: Slot) -> Result<(), DeviceError> {
        let kv = binder.kv()?;
        let n_kv_head = kv.spec.n_kv_head as usize;
        let (k_heads, v_heads) = (Heads::k(kv), Heads::v(kv));
        let k = binder.slot(k, k_heads.head_dim * n_kv_head)?;
        let v = binder.slot(v, v_heads.head_dim * n_kv_head)?;
        let op = KvAppend { k, v, k_heads, v_heads, first_position: binder.first_position() };
        plan.push(Kernel::KvAppend(op), Scope::Rows(binder.n_rows), &[k, v]);
        Ok(())
    }

    /// # Safety
    /// Each row by one thread; nobody reads its positions meanwhile.
    pub unsafe fn row(&self, row: usize) {
        for (slot, heads) in [(self.k, &self.k_heads), (self.v, &self.v_heads)] {
            // SAFETY: the caller's contract; the binder checked that the step's positions are inside the cache.
            unsafe {
                for (head, x) in slot.row(row).chunks_exact(heads.head_dim).enumerate() {
                    heads.write(head, self.first_position + row, x);
                }
            }
        }
    }
}
