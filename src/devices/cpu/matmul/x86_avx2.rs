//! Kernels for AVX2.
//!
//! In int8 they are the same sums as [`super::portable::int8`] in the same order, so the same bits. Products of bytes are added in pairs
//! to 16 bits, which must not overflow: codes of activations are at most 127, so 16 bits hold 8 pairs of 4-bit codes, 4 of
//! 5 bits, 2 of 6 bits, and none of 8 bits, which are therefore split.

// Registers, rows and halves are numbered: an index says which one is meant.
#![allow(clippy::needless_range_loop)]

use std::arch::x86_64::*;

use super::ActivationFormat;
use super::format::{Format, ROWS, STEP};
use super::input::{self, Record};
use super::portable::Float;
use crate::devices::quant::DType;

/// # Safety
/// The machine has these features.
#[target_feature(enable = "avx2,fma,f16c")]
pub unsafe fn prepare(format: ActivationFormat, x: &[f32], out: &mut [u8]) {
    input::prepare(format, x, out);
}

/// Splits rows in tiles of 4 and of 1.
macro_rules! tiles {
    ($tile:ident::<$format:ident>($packed:ident, $n:ident, $rows:ident, $acc:ident)) => {{
        let (fours, _) = $rows.as_chunks::<4>();
        for (rows, acc) in fours.iter().zip($acc.as_chunks_mut::<4>().0) {
            $tile::<$format, 4>($packed, $n, rows, acc);
        }
        for r in 4 * fours.len()..$rows.len() {
            $tile::<$format, 1>($packed, $n, &[$rows[r]], std::array::from_mut(&mut $acc[r]));
        }
    }};
}

/// Sums of plain numbers; see [`super::portable::float`].
///
/// # Safety
/// As there; and the machine has these features.
#[target_feature(enable = "avx2,fma,f16c")]
pub unsafe fn float<F: Float>(packed: &[u8], n_in: usize, rows: &[*const u8], acc: &mut [[f32; ROWS]]) {
    assert!(packed.len() >= n_in * ROWS * F::BYTES && acc.len() >= rows.len());
    // SAFETY: `packed` has the values, as checked; the rest is the caller's promise.
    unsafe { tiles!(float_tile::<F>(packed, n_in, rows, acc)) }
}

/// # Safety
/// As [`float`].
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn float_tile<F: Float, const R: usize>(
    packed: &[u8],
    n_in: usize,
    rows: &[*const u8; R],
    acc: &mut [[f32; ROWS]; R],
) {
    // SAFETY: the callers of this function keep to its promises; all offsets lie in `packed` or in a row.
    unsafe {
        let mut sums = load_sums(acc);
        for k in 0..n_in {
            for half in 0..2 {
                let at = packed.as_ptr().add((k * ROWS + 8 * half) * F::BYTES);
                let weight = match F::KIND {
                    DType::F16 => _mm256_cvtph_ps(_mm_loadu_si128(at.cast())),
                    DType::BF16 => {
                        let bits = _mm256_cvtepu16_epi32(_mm_loadu_si128(at.cast()));
                        _mm256_castsi256_ps(_mm256_slli_epi32::<16>(bits))
                    }
                    _ => _mm256_loadu_ps(at.cast()),
                };
                for r in 0..R {
                    let x = _mm256_set1_ps(*rows[r].cast::<f32>().add(k));
                    sums[r][half] = _mm256_fmadd_ps(weight, x, sums[r][half]);
                }
            }
        }
        store_sums(&sums, acc);
    }
}

/// Sums with exact weights; see [`super::portable::exact`].
///
/// # Safety
/// As there; and the machine has these features.
#[target_feature(enable = "avx2,fma,f16c")]
pub unsafe fn exact<F: Format>(packed: &[u8], n_blocks: usize, rows: &[*const u8], acc: &mut [[f32; ROWS]]) {
    assert!(packed.len() >= n_blocks * F::PACKED_BYTES && acc.len() >= rows.len());
    // SAFETY: `packed` has the blocks, as checked; the rest is the caller's promise.
    unsafe { tiles!(exact_tile::<F>(packed, n_blocks, rows, acc)) }
}

/// # Safety
/// As [`exact`].
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn exact_tile<F: Format, const R: usize>(
    packed: &[u8],
    n_blocks: usize,
    rows: &[*const u8; R],
    acc: &mut [[f32; ROWS]; R],
) {
    // SAFETY: the callers of this function keep to its promises; vectors are loaded from arrays of their size.
    unsafe {
        let mut x: [*const f32; R] = [std::ptr::null(); R];
        for r in 0..R {
            x[r] = rows[r].cast();
        }
        let mut sums = load_sums(acc);
        let mut codes = [0; 512];
        for block in 0..n_blocks {
            let packed = &packed[block * F::PACKED_BYTES..][..F::PACKED_BYTES];
            for step in 0..F::STEPS {
                F::unpack(packed, step, &mut codes);
                let scales = F::scales(packed, step);
                for i in 0..8 {
                    for half in 0..2 {
                        let words = _mm256_loadu_si256(codes.as_ptr().cast::<__m256i>().add(2 * i + half));
                        let scale = _mm256_loadu_ps(scales.scale[i / 4].as_ptr().add(8 * half));
                        let minimum = _mm256_loadu_ps(scales.minimum[i / 4].as_ptr().add(8 * half));
                        for t in 0..4 {
                            let code = _mm256_srl_epi32(words, _mm_cvtsi32_si128(8 * t));
                            let code = _mm256_and_si256(code, _mm256_set1_epi32(0xff));
                            let code = _mm256_sub_epi32(code, _mm256_set1_epi32(F::OFFSET));
                            let mut weight = _mm256_mul_ps(scale, _mm256_cvtepi32_ps(code));
                            if F::HAS_MINIMUM {
                                weight = _mm256_sub_ps(weight, minimum);
                            }
                            for r in 0..R {
                                let x = _mm256_set1_ps(*x[r].add(4 * i + t as usize));
                                sums[r][half] = _mm256_fmadd_ps(weight, x, sums[r][half]);
                            }
                        }
                    }
                }
                for x in &mut x {
                    *x = x.add(STEP);
                }
            }
        }
        store_sums(&sums, acc);
    }
}

#[inline(always)]
unsafe fn load_sums<const R: usize>(acc: &[[f32; ROWS]; R]) -> [[__m256; 2]; R] {
    // SAFETY: callers enable the features.
    unsafe {
        let mut sums = [[_mm256_setzero_ps(); 2]; R];
        for r in 0..R {
            sums[r] = [_mm256_loadu_ps(acc[r].as_ptr()), _mm256_loadu_ps(acc[r].as_ptr().add(8))];
        }
        sums
    }
}

#[inline(always)]
unsafe fn store_sums<const R: usize>(sums: &[[__m256; 2]; R], acc: &mut [[f32; ROWS]; R]) {
    // SAFETY: callers enable the features.
    unsafe {
        for r in 0..R {
            _mm256_storeu_ps(acc[r].as_mut_ptr(), sums[r][0]);
            _mm256_storeu_ps(acc[r].as_mut_ptr().add(8), sums[r][1]);
        }
    }
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
