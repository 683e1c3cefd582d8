//! The ARM instructions that the standard library has no stable function for.
//!
//! All are written for little-endian machines, as [`super::simd`] asks for.

use std::arch::aarch64::{float32x4_t, int8x16_t, int32x4_t};
use std::arch::asm;

/// `acc[r] + codes[4 r..4 r + 4] · x[4 LANE..4 LANE + 4]` for `r` below 4.
///
/// # Safety
/// The machine has `dotprod`; it is inlined into a function that enables it. `LANE` is below 4.
#[inline(always)]
pub unsafe fn sdot<const LANE: usize>(mut acc: int32x4_t, codes: int8x16_t, x: int8x16_t) -> int32x4_t {
    // SAFETY: the instruction is there, as the caller promises; it touches nothing but registers.
    unsafe {
        asm!(
            "sdot {acc:v}.4s, {codes:v}.16b, {x:v}.4b[{lane}]",
            acc = inout(vreg) acc,
            codes = in(vreg) codes,
            x = in(vreg) x,
            lane = const LANE,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    acc
}

/// 4 F16 as F32.
///
/// # Safety
/// `from` is good for 4 halves; it need not be aligned.
#[inline(always)]
pub unsafe fn load_f16(from: *const u16) -> float32x4_t {
    // SAFETY: the caller's promise.
    let bits = unsafe { from.cast::<u64>().read_unaligned() };
    let out: float32x4_t;
    // SAFETY: every 64-bit ARM machine converts halves; nothing but registers is touched.
    unsafe {
        asm!(
            "fmov {out:d}, {bits}",
            "fcvtl {out:v}.4s, {out:v}.4h",
            bits = in(reg) bits,
            out = out(vreg) out,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    out
}

/// Asks for the cache line at `at`, which need not exist.
#[inline(always)]
pub fn prefetch(at: *const u8) {
    // SAFETY: a hint, which cannot fault and changes nothing that the program can see.
    unsafe { asm!("prfm pldl1keep, [{at}]", at = in(reg) at, options(readonly, nostack, preserves_flags)) };
}
