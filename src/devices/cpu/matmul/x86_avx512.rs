//! Products with AVX-512: in int8 one VNNI instruction for 16 rows x 4 values.
//!
//! The same operations in the same order as in [`super::portable`]. In int8 that gives the same bits; with F32 activations the
//! portable code may round products before it adds them.
//!
//! Helpers are `inline(always)` without `target_feature` (the two do not go together): they may only be used in functions
//! that enable the features, where they and the intrinsics are inlined.

// Registers, rows and halves are numbered: an index says which one is meant.
#![allow(clippy::needless_range_loop)]

use std::arch::x86_64::*;

use super::ActivationFormat;
use super::format::{Format, ROWS, STEP};
use super::input::{self, Record};
use super::planes::{REGISTER, split};
use super::portable::Float;
use crate::devices::quant::DType;

/// # Safety
/// The machine has these features.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
pub unsafe fn prepare(format: ActivationFormat, x: &[f32], out: &mut [u8]) {
    input::prepare(format, x, out);
}

/// Sums of 16 outputs of each row; see [`super::portable::int8`].
///
/// # Safety
/// As there; and the machine has these features.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
pub unsafe fn int8<F: Format>(packed: &[u8], n_blocks: usize, rows: &[*const u8], acc: &mut [[f32; ROWS]]) {
    assert!(packed.len() >= n_blocks * F::PACKED_BYTES && acc.len() >= rows.len());
    let mut from = 0;
    // SAFETY: `packed` has the blocks, as checked; the rest is the caller's promise.
    unsafe {
        while from < rows.len() {
            let (rows, acc) = (&rows[from..], &mut acc[from..]);
            from += match rows.len() {
                16.. => tile::<F, 16>(packed, n_blocks, rows, acc),
                8.. => tile::<F, 8>(packed, n_blocks, rows, acc),
                4.. => tile::<F, 4>(packed, n_blocks, rows, acc),
                2.. => tile::<F, 2>(packed, n_blocks, rows, acc),
                _ => tile::<F, 1>(packed, n_blocks, rows, acc),
            };
        }
    }
}

/// The first `R` rows; returns `R`. Weights are expanded once for all of them and stay in registers.
///
/// # Safety
/// As [`int8`]; there are `R` rows and sums.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn tile<F: Format, const R: usize>(
    packed: &[u8],
    n_blocks: usize,
    rows: &[*const u8],
    acc: &mut [[f32; ROWS]],
) -> usize {
    // SAFETY: the callers of this function keep to its promises; all offsets lie in a packed block or in a record.
    unsafe {
        let rows: [*const u8; R] = std::array::from_fn(|r| rows[r]);
        let mut sums: [__m512; R] = std::array::from_fn(|r| _mm512_loadu_ps(acc[r].as_ptr()));
        let mut offset = 0;
        for block in 0..n_blocks {
            let header = packed.as_ptr().add(block * F::PACKED_BYTES);
            let d = BlockScales::load::<F>(header);
            for step in 0..F::STEPS {
                let at = header.add(F::HEADER_BYTES + step * F::CODES_BYTES);
                if R <= 2 {
                    prefetch(at.wrapping_add(PREFETCH_BYTES), F::PACKED_BYTES / F::STEPS);
                }
                let codes = expand::<F>(at);
                let (scales, minima) = d.of_step::<F>(header, step);
                if R == TOGETHER * 2 {
                    // The row pointers of half a tile fit in registers.
                    for half in 0..2 {
                        let from = half * TOGETHER;
                        let rows: &[*const u8; TOGETHER] = &*rows.as_ptr().add(from).cast();
                        let sums: &mut [__m512; TOGETHER] = &mut *sums.as_mut_ptr().add(from).cast();
                        add_step::<F, TOGETHER>(&codes, scales, minima, rows, offset, sums);
                    }
                } else {
                    add_step::<F, R>(&codes, scales, minima, &rows, offset, &mut sums);
                }
                offset += size_of::<Record>();
            }
        }
        for r in 0..R {
            _mm512_storeu_ps(acc[r].as_mut_ptr(), sums[r]);
        }
    }
    R
}

/// How far ahead weights are fetched when they come from memory: with few rows, each is used only once or twice.
const PREFETCH_BYTES: usize = 2048;

/// Fetches cache lines that need not exist.
#[inline(always)]
unsafe fn prefetch(at: *const u8, n_bytes: usize) {
    for line in 0..n_bytes.div_ceil(64) {
        // SAFETY: a prefetch touches no memory as far as the program can tell.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.wrapping_add(64 * line).cast()) };
    }
}

/// Rows whose dot products are computed at the same time: each waits for its last instruction, not for the others'.
const TOGETHER: usize = 8;

/// Adds the products of 32 values of each row, whose records are `offset` bytes from the rows' starts.
#[inline(always)]
unsafe fn add_step<F: Format, const R: usize>(
    codes: &[__m512i; 8],
    scales: [__m512; 2],
    minima: [__m512; 2],
    rows: &[*const u8; R],
    offset: usize,
    sums: &mut [__m512; R],
) {
    // SAFETY: see the module; the records are there, as `int8`'s caller promises.
    unsafe {
        let n_parts = if F::HALVES { 2 } else { 1 };
        let registers = 8 / n_parts;
        for part in 0..n_parts {
            let mut dots = [_mm512_setzero_si512(); R];
            if F::OFFSET != 0 {
                for r in 0..R {
                    let x = rows[r].add(offset).cast::<Record>();
                    let sum = if F::HALVES { (*x).negative_half_sums[part] } else { (*x).negative_sum };
                    // Offsets are powers of two; a shift of the broadcast costs less than a product.
                    let shift = _mm_cvtsi32_si128(F::OFFSET.trailing_zeros() as i32);
                    dots[r] = _mm512_sll_epi32(_mm512_set1_epi32(sum), shift);
                }
            }
            for i in part * registers..(part + 1) * registers {
                for r in 0..R {
                    let words = rows[r].add(offset).cast::<i32>();
                    dots[r] = _mm512_dpbusd_epi32(dots[r], codes[i], _mm512_set1_epi32(*words.add(i)));
                }
            }
            for r in 0..R {
                let x = rows[r].add(offset).cast::<Record>();
                let scale = _mm512_mul_ps(scales[part], _mm512_set1_ps((*x).scale));
                sums[r] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dots[r]), scale, sums[r]);
                if F::HAS_MINIMUM {
                    let sum = if F::HALVES { (*x).scaled_half_sums[part] } else { (*x).scaled_sum };
                    sums[r] = _mm512_fnmadd_ps(minima[part], _mm512_set1_ps(sum), sums[r]);
                }
            }
        }
    }
}

/// Sums with exact weights; see [`super::portable::exact`].
///
/// # Safety
/// As there; and the machine has these features.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
pub unsafe fn exact<F: Format>(packed: &[u8], n_blocks: usize, rows: &[*const u8], acc: &mut [[f32; ROWS]]) {
    assert!(packed.len() >= n_blocks * F::PACKED_BYTES && acc.len() >= rows.len());
    let mut from = 0;
    // SAFETY: `packed` has the blocks, as checked; the rest is the caller's promise.
    unsafe {
        while from < rows.len() {
            let (rows, acc) = (&rows[from..], &mut acc[from..]);
            from += match rows.len() {
                8.. => exact_tile::<F, 8>(packed, n_blocks, rows, acc),
                4.. => exact_tile::<F, 4>(packed, n_blocks, rows, acc),
                _ => exact_tile::<F, 1>(packed, n_blocks, rows, acc),
            };
        }
    }
}

/// The first `R` rows; returns `R`.
///
/// # Safety
/// As [`exact`]; there are `R` rows and sums.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn exact_tile<F: Format, const R: usize>(
    packed: &[u8],
    n_blocks: usize,
    rows: &[*const u8],
    acc: &mut [[f32; ROWS]],
) -> usize {
    // SAFETY: as in `tile`.
    unsafe {
        let mut x: [*const f32; R] = std::array::from_fn(|r| rows[r].cast());
        let mut sums: [__m512; R] = std::array::from_fn(|r| _mm512_loadu_ps(acc[r].as_ptr()));
        for block in 0..n_blocks {
            let header = packed.as_ptr().add(block * F::PACKED_BYTES);
            let d = BlockScales::load::<F>(header);
            for step in 0..F::STEPS {
                let codes = expand::<F>(header.add(F::HEADER_BYTES + step * F::CODES_BYTES));
                let (scales, minima) = d.of_step::<F>(header, step);
                for i in 0..8 {
                    for t in 0..4 {
                        let code = _mm512_srl_epi32(codes[i], _mm_cvtsi32_si128(8 * t));
                        let code = _mm512_and_si512(code, _mm512_set1_epi32(0xff));
                        let code = _mm512_sub_epi32(code, _mm512_set1_epi32(F::OFFSET));
                        let mut weight = _mm512_mul_ps(scales[i / 4], _mm512_cvtepi32_ps(code));
                        if F::HAS_MINIMUM {
                            weight = _mm512_sub_ps(weight, minima[i / 4]);
                        }
                        for r in 0..R {
                            let x = _mm512_set1_ps(*x[r].add(4 * i + t as usize));
                            sums[r] = _mm512_fmadd_ps(weight, x, sums[r]);
                        }
                    }
                }
                x = x.map(|x| x.add(STEP));
            }
        }
        for r in 0..R {
            _mm512_storeu_ps(acc[r].as_mut_ptr(), sums[r]);
        }
    }
    R
}

/// Sums of plain numbers; see [`super::portable::float`].
///
/// # Safety
/// As there; and the machine has these features.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
pub unsafe fn float<F: Float>(packed: &[u8], n_in: usize, rows: &[*const u8], acc: &mut [[f32; ROWS]]) {
    assert!(packed.len() >= n_in * ROWS * F::BYTES && acc.len() >= rows.len());
    let mut from = 0;
    // SAFETY: `packed` has the values, as checked; the rest is the caller's promise.
    unsafe {
        while from < rows.len() {
            let (rows, acc) = (&rows[from..], &mut acc[from..]);
            from += match rows.len() {
                16.. => float_tile::<F, 16>(packed, n_in, rows, acc),
                8.. => float_tile::<F, 8>(packed, n_in, rows, acc),
                4.. => float_tile::<F, 4>(packed, n_in, rows, acc),
                _ => float_tile::<F, 1>(packed, n_in, rows, acc),
            };
        }
    }
}

/// The first `R` rows; returns `R`.
///
/// # Safety
/// As [`float`]; there are `R` rows and sums.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn float_tile<F: Float, const R: usize>(
    packed: &[u8],
    n_in: usize,
    rows: &[*const u8],
    acc: &mut [[f32; ROWS]],
) -> usize {
    // SAFETY: the callers of this function keep to its promises; all offsets lie in `packed` or in a row.
    unsafe {
        let rows: [*const f32; R] = std::array::from_fn(|r| rows[r].cast());
        let mut sums: [__m512; R] = std::array::from_fn(|r| _mm512_loadu_ps(acc[r].as_ptr()));
        for k in 0..n_in {
            let at = packed.as_ptr().add(k * ROWS * F::BYTES);
            if R == 1 {
                prefetch(at.wrapping_add(PREFETCH_BYTES), ROWS * F::BYTES);
            }
            let weight = match F::KIND {
                DType::F16 => _mm512_cvtph_ps(_mm256_loadu_si256(at.cast())),
                DType::BF16 => {
                    let bits = _mm512_cvtepu16_epi32(_mm256_loadu_si256(at.cast()));
                    _mm512_castsi512_ps(_mm512_slli_epi32::<16>(bits))
                }
                _ => _mm512_loadu_ps(at.cast()),
            };
            for r in 0..R {
                sums[r] = _mm512_fmadd_ps(weight, _mm512_set1_ps(*rows[r].add(k)), sums[r]);
            }
        }
        for r in 0..R {
            _mm512_storeu_ps(acc[r].as_mut_ptr(), sums[r]);
        }
    }
    R
}

/// Shifts bits at `from` to `to`, in each byte; bits of neighbours come along.
#[inline(always)]
unsafe fn move_bits(v: __m512i, from: usize, to: usize) -> __m512i {
    // SAFETY: see the module.
    unsafe {
        match from.checked_sub(to) {
            Some(0) => v,
            Some(n) => _mm512_srl_epi16(v, _mm_cvtsi32_si128(n as i32)),
            None => _mm512_sll_epi16(v, _mm_cvtsi32_si128((to - from) as i32)),
        }
    }
}

/// Codes of 16 rows x 32 values; see [`super::planes`].
#[inline(always)]
unsafe fn expand<F: Format>(packed: *const u8) -> [__m512i; 8] {
    // SAFETY: see the module; `packed` has `F::CODES_BYTES`.
    unsafe {
        let load = |register: usize| _mm512_loadu_si512(packed.add(register * REGISTER).cast());
        let masked = |v: __m512i, mask: u8| _mm512_and_si512(v, _mm512_set1_epi8(mask as i8));
        let (low, high) = const { split(F::BITS) };
        let mut codes = [_mm512_setzero_si512(); 8];
        for i in 0..8 {
            codes[i] = match low {
                2 => masked(move_bits(load(i / 4), 2 * (i % 4), 0), 3),
                4 => masked(move_bits(load(i % 4), 4 * (i / 4), 0), 15),
                _ => load(i),
            };
            let upper = match high {
                0 => continue,
                1 => masked(move_bits(load(low), i, low), 1 << low),
                _ => masked(move_bits(load(low + i / 4), 2 * (i % 4), low), 3 << low),
            };
            codes[i] = _mm512_or_si512(codes[i], upper);
        }
        codes
    }
}

/// The halves in front of a packed block.
struct BlockScales {
    d: __m512,
    /// The scale of minima; zero where there are none.
    dmin: __m512,
}

impl BlockScales {
    #[inline(always)]
    unsafe fn load<F: Format>(header: *const u8) -> BlockScales {
        // SAFETY: see the module; headers start with 16 halves, or 32 where there are minima.
        unsafe {
            let d = _mm512_cvtph_ps(_mm256_loadu_si256(header.cast()));
            let dmin = match F::HAS_MINIMUM {
                true => _mm512_cvtph_ps(_mm256_loadu_si256(header.add(2 * ROWS).cast())),
                false => _mm512_setzero_ps(),
            };
            BlockScales { d, dmin }
        }
    }

    /// Scales and minima of 32 values: of the first and last 16 where `F::HALVES`.
    #[inline(always)]
    unsafe fn of_step<F: Format>(&self, header: *const u8, step: usize) -> ([__m512; 2], [__m512; 2]) {
        // SAFETY: see the module; the numbers lie in the header as `format` says.
        unsafe {
            let load = |at: usize| _mm_loadu_si128(header.add(at).cast());
            let times = |d: __m512, bytes: __m128i| _mm512_mul_ps(d, _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(bytes)));
            match F::BLOCK_LEN {
                32 => {
                    // The file adds the minimum.
                    let minimum = _mm512_xor_ps(self.dmin, _mm512_set1_ps(-0.0));
                    ([self.d; 2], [minimum; 2])
                }
                _ => match (F::BITS, F::HAS_MINIMUM) {
                    // Q2_K: a nibble each, for 16 values.
                    (2, _) => {
                        let nibble = _mm_set1_epi8(15);
                        let bytes = [load(4 * ROWS + 32 * step), load(4 * ROWS + 32 * step + 16)];
                        let scales = bytes.map(|b| times(self.d, _mm_and_si128(b, nibble)));
                        let minima = bytes.map(|b| times(self.dmin, _mm_and_si128(_mm_srli_epi16::<4>(b), nibble)));
                        (scales, minima)
                    }
                    // Q3_K: 6 bits less 32, for 16 values.
                    (3, _) => {
                        let scales = six_bits(header.add(2 * ROWS), step).map(|b| {
                            let scale = _mm512_sub_epi32(_mm512_cvtepu8_epi32(b), _mm512_set1_epi32(32));
                            _mm512_mul_ps(self.d, _mm512_cvtepi32_ps(scale))
                        });
                        (scales, [self.dmin; 2])
                    }
                    // Q6_K: a signed byte, for 16 values.
                    (_, false) => {
                        let bytes = [load(2 * ROWS + 32 * step), load(2 * ROWS + 32 * step + 16)];
                        let scales = bytes.map(|b| _mm512_mul_ps(self.d, _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(b))));
                        (scales, [self.dmin; 2])
                    }
                    // Q4_K, Q5_K: 6 bits each, for 32 values.
                    (_, true) => {
                        let [scale, minimum] = six_bits(header.add(4 * ROWS), step);
                        ([times(self.d, scale); 2], [times(self.dmin, minimum); 2])
                    }
                },
            }
        }
    }
}

/// Numbers `2 j` and `2 j + 1` of 16 rows, of 6 bits each.
#[inline(always)]
unsafe fn six_bits(packed: *const u8, j: usize) -> [__m128i; 2] {
    // SAFETY: see the module.
    unsafe {
        let low = _mm_loadu_si128(packed.add(16 * j).cast());
        let high = _mm_loadu_si128(packed.add(128 + 16 * (j / 2)).cast());
        let high = _mm_srl_epi16(high, _mm_cvtsi32_si128(4 * (j % 2) as i32));
        let (nibble, upper) = (_mm_set1_epi8(0x0f), _mm_set1_epi8(0x30));
        [
            _mm_or_si128(_mm_and_si128(low, nibble), _mm_and_si128(_mm_slli_epi16::<4>(high), upper)),
            _mm_or_si128(
                _mm_and_si128(_mm_srli_epi16::<4>(low), nibble),
                _mm_and_si128(_mm_slli_epi16::<2>(high), upper),
            ),
        ]
    }
}
