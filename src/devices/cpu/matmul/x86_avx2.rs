//! Kernels for AVX2: the portable ones compiled for it, and int8 products.
//!
//! The latter are the same sums as [`super::portable::int8`] in the same order, so the same bits. Products of bytes are added in pairs
//! to 16 bits, which must not overflow: codes of activations are at most 127, so 16 bits hold 8 pairs of 4-bit codes, 4 of
//! 5 bits, 2 of 6 bits, and none of 8 bits, which are therefore split.

// Registers, rows and halves are numbered: an index says which one is meant.
#![allow(clippy::needless_range_loop)]

use std::arch::x86_64::*;

use super::ActivationFormat;
use super::format::{Format, ROWS};
use super::input::{self, Record};
use super::portable::{self, Float};

/// # Safety
/// The machine has these features.
#[target_feature(enable = "avx2,fma,f16c")]
pub unsafe fn prepare(format: ActivationFormat, x: &[f32], out: &mut [u8]) {
    input::prepare(format, x, out);
}

/// # Safety
/// See [`portable::float`]; the machine has these features.
#[target_feature(enable = "avx2,fma,f16c")]
pub unsafe fn float<F: Float>(packed: &[u8], n_in: usize, rows: &[*const u8], acc: &mut [[f32; ROWS]]) {
    // SAFETY: the caller's promise.
    unsafe { portable::float::<F, true>(packed, n_in, rows, acc) }
}

/// # Safety
/// See [`portable::exact`]; the machine has these features.
#[target_feature(enable = "avx2,fma,f16c")]
pub unsafe fn exact<F: Format>(packed: &[u8], n_blocks: usize, rows: &[*const u8], acc: &mut [[f32; ROWS]]) {
    // SAFETY: the caller's promise.
    unsafe { portable::exact::<F, true>(packed, n_blocks, rows, acc) }
}

/// Sums of 16 outputs of each row; see [`super::portable::int8`].
///
/// # Safety
/// As there; and the machine has these features.
#[target_feature(enable = "avx2,fma,f16c")]
pub unsafe fn int8<F: Format>(packed: &[u8], n_blocks: usize, rows: &[*const u8], acc: &mut [[f32; ROWS]]) {
    let mut codes = [0; 512];
    for block in 0..n_blocks {
        let packed = &packed[block * F::PACKED_BYTES..][..F::PACKED_BYTES];
        for step in 0..F::STEPS {
            F::unpack(packed, step, &mut codes);
            let scales = F::scales(packed, step);
            for (row, acc) in rows.iter().zip(&mut *acc) {
                // SAFETY: the caller's promise; vectors are loaded from arrays of their size.
                unsafe {
                    let x = &*row.cast::<Record>().add(block * F::STEPS + step);
                    let n_parts = if F::HALVES { 2 } else { 1 };
                    for part in 0..n_parts {
                        let (negative_sum, scaled_sum) = match F::HALVES {
                            true => (x.negative_half_sums[part], x.scaled_half_sums[part]),
                            false => (x.negative_sum, x.scaled_sum),
                        };
                        let registers = 8 / n_parts;
                        let start = _mm256_set1_epi32(F::OFFSET * negative_sum);
                        let dots = dot::<F>(&codes, x, part * registers..(part + 1) * registers, start);
                        for half in 0..2 {
                            let at = acc.as_mut_ptr().add(8 * half);
                            let scale = _mm256_loadu_ps(scales.scale[part].as_ptr().add(8 * half));
                            let scale = _mm256_mul_ps(scale, _mm256_set1_ps(x.scale));
                            let mut sum = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dots[half]), scale, _mm256_loadu_ps(at));
                            if F::HAS_MINIMUM {
                                let minimum = _mm256_loadu_ps(scales.minimum[part].as_ptr().add(8 * half));
                                sum = _mm256_fnmadd_ps(minimum, _mm256_set1_ps(scaled_sum), sum);
                            }
                            _mm256_storeu_ps(at, sum);
                        }
                    }
                }
            }
        }
    }
}

/// `start` + products of some registers of codes with their values, for rows 0..8 and 8..16.
#[inline(always)]
unsafe fn dot<F: Format>(
    codes: &[u8; 512],
    x: &Record,
    registers: std::ops::Range<usize>,
    start: __m256i,
) -> [__m256i; 2] {
    // SAFETY: `int8` enables the features and is the only caller; registers are 0..8.
    unsafe {
        let ones = _mm256_set1_epi16(1);
        let codes = codes.as_ptr().cast::<__m256i>();
        let words = x.codes.as_ptr().cast::<i32>();
        let mut sums = [start; 2];
        // Registers whose pairs 16 bits hold.
        let together = match F::BITS {
            ..=4 => 8,
            5 => 4,
            6 => 2,
            _ => 1,
        };
        for first in registers.clone().step_by(together) {
            let mut pairs = [_mm256_setzero_si256(); 2];
            for i in first..registers.end.min(first + together) {
                let x = _mm256_set1_epi32(words.add(i).read_unaligned());
                for half in 0..2 {
                    let code = _mm256_loadu_si256(codes.add(2 * i + half));
                    if F::BITS <= 6 {
                        pairs[half] = _mm256_add_epi16(pairs[half], _mm256_maddubs_epi16(code, x));
                    } else {
                        // The upper 7 bits count twice; the lowest one is added by itself.
                        let upper = _mm256_and_si256(_mm256_srli_epi16::<1>(code), _mm256_set1_epi8(0x7f));
                        let lowest = _mm256_and_si256(code, _mm256_set1_epi8(1));
                        let upper = _mm256_madd_epi16(_mm256_maddubs_epi16(upper, x), _mm256_set1_epi16(2));
                        sums[half] = _mm256_add_epi32(sums[half], upper);
                        pairs[half] = _mm256_maddubs_epi16(lowest, x);
                    }
                }
            }
            for half in 0..2 {
                sums[half] = _mm256_add_epi32(sums[half], _mm256_madd_epi16(pairs[half], ones));
            }
        }
        sums
    }
}
