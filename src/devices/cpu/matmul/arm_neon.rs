//! Kernels for 64-bit ARM: NEON, which all such machines have, and its dot product instructions.
//!
//! The same operations in the same order as in [`super::portable`], so the same bits, in F32 too: plain code for this target
//! rounds sums of products once as well.
//!
//! A register holds 4 rows: 4 values of each as codes, 1 as F32. The 16 rows of a group are 4 quads. Codes are signed here,
//! as dot products of unsigned by signed bytes are rare: those of 8 bits lose their offset, the others are below 64.
//!
//! Helpers are `inline(always)` without `target_feature`, as in the kernels for x86.

// Registers, rows and quads are numbered: an index says which one is meant.
#![allow(clippy::needless_range_loop)]

use std::arch::aarch64::*;

use super::format::{Format, ROWS, STEP};
use super::input::Record;
use super::planes::{REGISTER, place, split};
use super::portable::Float;
use crate::devices::cpu::arm_asm;
use crate::devices::quant::DType;

/// Registers of one F32 for each of 16 rows.
const QUADS: usize = ROWS / 4;

/// Splits rows in tiles of 8, of 4 and of 1.
macro_rules! tiles {
    ($tile:ident::<$($generic:ident),+>($packed:ident, $n:ident, $rows:ident, $acc:ident)) => {{
        let mut from = 0;
        while from < $rows.len() {
            let (rows, acc) = ($rows.as_ptr().add(from), $acc.as_mut_ptr().add(from));
            from += match $rows.len() - from {
                8.. => $tile::<$($generic),+, 8>($packed, $n, &*rows.cast(), &mut *acc.cast()),
                4.. => $tile::<$($generic),+, 4>($packed, $n, &*rows.cast(), &mut *acc.cast()),
                _ => $tile::<$($generic),+, 1>($packed, $n, &*rows.cast(), &mut *acc.cast()),
            };
        }
    }};
}

/// Sums of 16 outputs of each row; see [`super::portable::int8`].
///
/// # Safety
/// As there.
#[target_feature(enable = "neon")]
pub unsafe fn int8<F: Format>(packed: &[u8], n_blocks: usize, rows: &[*const u8], acc: &mut [[f32; ROWS]]) {
    assert!(packed.len() >= n_blocks * F::PACKED_BYTES && acc.len() >= rows.len());
    // SAFETY: `packed` has the blocks, as checked; the rest is the caller's promise.
    unsafe { tiles!(int8_tile::<F, Widening>(packed, n_blocks, rows, acc)) }
}

/// [`int8`] with dot product instructions.
///
/// # Safety
/// As there; and the machine has `dotprod`.
#[target_feature(enable = "neon,dotprod")]
pub unsafe fn int8_dot<F: Format>(packed: &[u8], n_blocks: usize, rows: &[*const u8], acc: &mut [[f32; ROWS]]) {
    assert!(packed.len() >= n_blocks * F::PACKED_BYTES && acc.len() >= rows.len());
    // SAFETY: as above.
    unsafe { tiles!(int8_tile::<F, DotInstruction>(packed, n_blocks, rows, acc)) }
}

/// How products of bytes are summed.
trait Dot {
    /// `dots[r] += codes · x[r]`: 4 registers of codes of 4 rows with 16 values of each of `R` inputs.
    ///
    /// # Safety
    /// The machine has the instructions.
    unsafe fn add<F: Format, const R: usize>(dots: &mut [int32x4_t; R], codes: &[int8x16_t; 4], x: &[int8x16_t; R]);
}

/// `sdot`: one instruction for 4 rows x 4 values.
struct DotInstruction;

impl Dot for DotInstruction {
    #[inline(always)]
    unsafe fn add<F: Format, const R: usize>(dots: &mut [int32x4_t; R], codes: &[int8x16_t; 4], x: &[int8x16_t; R]) {
        // Each waits for the one before it, so inputs take turns.
        // SAFETY: the caller's promise.
        unsafe {
            for r in 0..R {
                dots[r] = arm_asm::sdot::<0>(dots[r], codes[0], x[r]);
            }
            for r in 0..R {
                dots[r] = arm_asm::sdot::<1>(dots[r], codes[1], x[r]);
            }
            for r in 0..R {
                dots[r] = arm_asm::sdot::<2>(dots[r], codes[2], x[r]);
            }
            for r in 0..R {
                dots[r] = arm_asm::sdot::<3>(dots[r], codes[3], x[r]);
            }
        }
    }
}

/// Products of 16 bits, added in pairs.
struct Widening;

impl Widening {
    /// Registers whose products are added before they get 32 bits. A lane and its neighbour must not overflow together: codes of
    /// activations are at most 127, so 16 bits hold 8 products of 5-bit codes, 4 of 6 bits and 2 of 8 signed bits.
    const fn together(bits: usize) -> usize {
        match bits {
            ..=5 => 4,
            6 => 2,
            _ => 1,
        }
    }
}

impl Dot for Widening {
    #[inline(always)]
    unsafe fn add<F: Format, const R: usize>(dots: &mut [int32x4_t; R], codes: &[int8x16_t; 4], x: &[int8x16_t; R]) {
        let together = const { Widening::together(F::BITS) };
        // SAFETY: every machine has NEON.
        unsafe {
            for r in 0..R {
                let words = vreinterpretq_s32_s8(x[r]);
                let x = [
                    vreinterpret_s8_s32(vdup_laneq_s32::<0>(words)),
                    vreinterpret_s8_s32(vdup_laneq_s32::<1>(words)),
                    vreinterpret_s8_s32(vdup_laneq_s32::<2>(words)),
                    vreinterpret_s8_s32(vdup_laneq_s32::<3>(words)),
                ];
                for first in (0..4).step_by(together) {
                    // Products with the codes of rows 0 and 1, and of rows 2 and 3.
                    let mut low = vmull_s8(vget_low_s8(codes[first]), x[first]);
                    let mut high = vmull_s8(vget_high_s8(codes[first]), x[first]);
                    for i in first + 1..first + together {
                        low = vmlal_s8(low, vget_low_s8(codes[i]), x[i]);
                        high = vmlal_s8(high, vget_high_s8(codes[i]), x[i]);
                    }
                    dots[r] = vpadalq_s16(dots[r], vpaddq_s16(low, high));
                }
            }
        }
    }
}

/// # Safety
/// As [`int8`]; it is inlined into a function that enables what `D` needs. Returns `R`.
#[inline(always)]
unsafe fn int8_tile<F: Format, D: Dot, const R: usize>(
    packed: &[u8],
    n_blocks: usize,
    rows: &[*const u8; R],
    acc: &mut [[f32; ROWS]; R],
) -> usize {
    // Offsets of 8-bit codes are gone.
    let offset = if F::BITS == 8 { 0 } else { F::OFFSET };
    let n_parts = if F::HALVES { 2 } else { 1 };
    // SAFETY: the callers of this function keep to its promises; all offsets lie in a packed block or in a record.
    unsafe {
        let mut at_record = 0;
        for block in 0..n_blocks {
            let header = packed.as_ptr().add(block * F::PACKED_BYTES);
            let d = BlockScales::load::<F>(header);
            for step in 0..F::STEPS {
                let at = header.add(F::HEADER_BYTES + step * F::CODES_BYTES);
                if R == 1 {
                    prefetch(at.wrapping_add(PREFETCH_BYTES), F::PACKED_BYTES / F::STEPS);
                }
                let (scales, minima) = d.of_step::<F>(header, step);
                for quad in 0..QUADS {
                    let codes = expand::<F>(at.add(16 * quad));
                    for part in 0..n_parts {
                        let mut dots = [vdupq_n_s32(0); R];
                        // Values 0..16 and 16..32 of each input.
                        let mut x = [[vdupq_n_s8(0); R]; 2];
                        for r in 0..R {
                            let record = &*rows[r].add(at_record).cast::<Record>();
                            if offset != 0 {
                                let sum = if F::HALVES { record.negative_half_sums[part] } else { record.negative_sum };
                                dots[r] = vdupq_n_s32(offset * sum);
                            }
                            let values = record.codes.as_ptr();
                            x[0][r] = vld1q_s8(values);
                            x[1][r] = vld1q_s8(values.add(16));
                        }
                        for half in 0..2 {
                            if !F::HALVES || half == part {
                                let codes: &[int8x16_t; 4] =
                                    &[codes[4 * half], codes[4 * half + 1], codes[4 * half + 2], codes[4 * half + 3]];
                                D::add::<F, R>(&mut dots, codes, &x[half]);
                            }
                        }
                        for r in 0..R {
                            let record = &*rows[r].add(at_record).cast::<Record>();
                            let at = acc[r].as_mut_ptr().add(4 * quad);
                            let scale = vmulq_n_f32(scales[part][quad], record.scale);
                            let mut sum = vfmaq_f32(vld1q_f32(at), vcvtq_f32_s32(dots[r]), scale);
                            if F::HAS_MINIMUM {
                                let of_codes =
                                    if F::HALVES { record.scaled_half_sums[part] } else { record.scaled_sum };
                                sum = vfmsq_f32(sum, minima[part][quad], vdupq_n_f32(of_codes));
                            }
                            vst1q_f32(at, sum);
                        }
                    }
                }
                at_record += size_of::<Record>();
            }
        }
    }
    R
}

/// How far ahead weights are fetched when they come from memory: with one row, each is used only once.
const PREFETCH_BYTES: usize = 2048;

#[inline(always)]
fn prefetch(at: *const u8, n_bytes: usize) {
    for line in 0..n_bytes.div_ceil(64) {
        arm_asm::prefetch(at.wrapping_add(64 * line));
    }
}

/// Sums with exact weights; see [`super::portable::exact`].
///
/// # Safety
/// As there.
#[target_feature(enable = "neon")]
pub unsafe fn exact<F: Format>(packed: &[u8], n_blocks: usize, rows: &[*const u8], acc: &mut [[f32; ROWS]]) {
    assert!(packed.len() >= n_blocks * F::PACKED_BYTES && acc.len() >= rows.len());
    // SAFETY: `packed` has the blocks, as checked; the rest is the caller's promise.
    unsafe { tiles!(exact_tile::<F>(packed, n_blocks, rows, acc)) }
}

/// # Safety
/// As [`exact`]. Returns `R`.
#[inline(always)]
unsafe fn exact_tile<F: Format, const R: usize>(
    packed: &[u8],
    n_blocks: usize,
    rows: &[*const u8; R],
    acc: &mut [[f32; ROWS]; R],
) -> usize {
    // SAFETY: the callers of this function keep to its promises; all offsets lie in a packed block or in a row.
    unsafe {
        let mut from = 0;
        for block in 0..n_blocks {
            let header = packed.as_ptr().add(block * F::PACKED_BYTES);
            let d = BlockScales::load::<F>(header);
            for step in 0..F::STEPS {
                let at = header.add(F::HEADER_BYTES + step * F::CODES_BYTES);
                let (scales, minima) = d.of_step::<F>(header, step);
                for quad in 0..QUADS {
                    let codes = expand::<F>(at.add(16 * quad));
                    let mut sums = [vdupq_n_f32(0.0); R];
                    for r in 0..R {
                        sums[r] = vld1q_f32(acc[r].as_ptr().add(4 * quad));
                    }
                    for i in 0..8 {
                        let mut code = codes[i];
                        if F::BITS < 8 {
                            code = vsubq_s8(code, vdupq_n_s8(F::OFFSET as i8));
                        }
                        for t in 0..4 {
                            // Byte `t` of each word, with its sign.
                            let word = vshlq_s32(vreinterpretq_s32_s8(code), vdupq_n_s32(24 - 8 * t));
                            let value = vcvtq_f32_s32(vshrq_n_s32::<24>(word));
                            let mut weight = vmulq_f32(scales[i / 4][quad], value);
                            if F::HAS_MINIMUM {
                                weight = vsubq_f32(weight, minima[i / 4][quad]);
                            }
                            for r in 0..R {
                                let x = *rows[r].cast::<f32>().add(from + 4 * i + t as usize);
                                sums[r] = vfmaq_n_f32(sums[r], weight, x);
                            }
                        }
                    }
                    for r in 0..R {
                        vst1q_f32(acc[r].as_mut_ptr().add(4 * quad), sums[r]);
                    }
                }
                from += STEP;
            }
        }
    }
    R
}

/// Sums of plain numbers; see [`super::portable::float`].
///
/// # Safety
/// As there.
#[target_feature(enable = "neon")]
pub unsafe fn float<F: Float>(packed: &[u8], n_in: usize, rows: &[*const u8], acc: &mut [[f32; ROWS]]) {
    assert!(packed.len() >= n_in * ROWS * F::BYTES && acc.len() >= rows.len());
    // SAFETY: `packed` has the values, as checked; the rest is the caller's promise.
    unsafe {
        let (fours, _) = rows.as_chunks::<4>();
        for (rows, acc) in fours.iter().zip(acc.as_chunks_mut::<4>().0) {
            float_tile::<F, 4>(packed, n_in, rows, acc);
        }
        for r in 4 * fours.len()..rows.len() {
            float_tile::<F, 1>(packed, n_in, &[rows[r]], std::array::from_mut(&mut acc[r]));
        }
    }
}

/// 4 rows need 16 registers for their sums: no more fit.
///
/// # Safety
/// As [`float`].
#[inline(always)]
unsafe fn float_tile<F: Float, const R: usize>(
    packed: &[u8],
    n_in: usize,
    rows: &[*const u8; R],
    acc: &mut [[f32; ROWS]; R],
) {
    // SAFETY: the callers of this function keep to its promises; all offsets lie in `packed` or in a row.
    unsafe {
        let mut sums = [[vdupq_n_f32(0.0); QUADS]; R];
        for r in 0..R {
            for quad in 0..QUADS {
                sums[r][quad] = vld1q_f32(acc[r].as_ptr().add(4 * quad));
            }
        }
        for k in 0..n_in {
            let at = packed.as_ptr().add(k * ROWS * F::BYTES);
            if R == 1 {
                prefetch(at.wrapping_add(PREFETCH_BYTES), ROWS * F::BYTES);
            }
            for quad in 0..QUADS {
                let at = at.add(4 * quad * F::BYTES);
                let weight = match F::KIND {
                    DType::F16 => arm_asm::load_f16(at.cast()),
                    DType::BF16 => vreinterpretq_f32_u32(vshll_n_u16::<16>(vld1_u16(at.cast()))),
                    _ => vld1q_f32(at.cast()),
                };
                for r in 0..R {
                    sums[r][quad] = vfmaq_n_f32(sums[r][quad], weight, *rows[r].cast::<f32>().add(k));
                }
            }
        }
        for r in 0..R {
            for quad in 0..QUADS {
                vst1q_f32(acc[r].as_mut_ptr().add(4 * quad), sums[r][quad]);
            }
        }
    }
}

/// Codes of 4 rows x 32 values, less their offset where they have 8 bits; see [`super::planes`]. `packed` is the first byte of the
/// rows in the planes' first register.
#[inline(always)]
unsafe fn expand<F: Format>(packed: *const u8) -> [int8x16_t; 8] {
    let (low, high) = const { split(F::BITS) };
    // SAFETY: `packed` has `F::CODES_BYTES` less those of the rows before.
    unsafe {
        let mut codes = [vdupq_n_s8(0); 8];
        for i in 0..8 {
            let (register, shift) = place(low, i);
            let mut code = bits(packed.add(register * REGISTER), shift, low);
            if high > 0 {
                let (register, shift) = place(high, i);
                let upper = bits(packed.add((low + register) * REGISTER), shift, high);
                code = vorrq_u8(code, vshlq_u8(upper, vdupq_n_s8(low as i8)));
            }
            if F::BITS == 8 {
                code = veorq_u8(code, vdupq_n_u8(0x80));
            }
            codes[i] = vreinterpretq_s8_u8(code);
        }
        codes
    }
}

/// `n` bits of each of 16 bytes, from bit `shift`.
#[inline(always)]
unsafe fn bits(at: *const u8, shift: usize, n: usize) -> uint8x16_t {
    // SAFETY: the caller has 16 bytes there. A negative shift goes to the right.
    unsafe {
        let moved = vshlq_u8(vld1q_u8(at), vdupq_n_s8(-(shift as i8)));
        if shift + n == 8 { moved } else { vandq_u8(moved, vdupq_n_u8((1 << n) - 1)) }
    }
}

/// One number for each of 16 rows.
type Lanes = [float32x4_t; QUADS];

/// The halves in front of a packed block.
struct BlockScales {
    d: Lanes,
    /// The scale of minima; zero where there are none.
    dmin: Lanes,
}

impl BlockScales {
    #[inline(always)]
    unsafe fn load<F: Format>(header: *const u8) -> BlockScales {
        // SAFETY: headers start with 16 halves, or 32 where there are minima.
        unsafe {
            let mut scales = BlockScales { d: [vdupq_n_f32(0.0); QUADS], dmin: [vdupq_n_f32(0.0); QUADS] };
            for quad in 0..QUADS {
                scales.d[quad] = arm_asm::load_f16(header.add(8 * quad).cast());
                if F::HAS_MINIMUM {
                    scales.dmin[quad] = arm_asm::load_f16(header.add(2 * ROWS + 8 * quad).cast());
                }
            }
            scales
        }
    }

    /// Scales and minima of 32 values: of the first and last 16 where `F::HALVES`.
    #[inline(always)]
    unsafe fn of_step<F: Format>(&self, header: *const u8, step: usize) -> ([Lanes; 2], [Lanes; 2]) {
        // SAFETY: the numbers lie in the header as `format` says.
        unsafe {
            let signed = |bytes: uint8x16_t| vreinterpretq_s8_u8(bytes);
            match F::BLOCK_LEN {
                32 => {
                    // The file adds the minimum.
                    let mut minimum = self.dmin;
                    for quad in 0..QUADS {
                        minimum[quad] = vnegq_f32(minimum[quad]);
                    }
                    ([self.d; 2], [minimum; 2])
                }
                _ => match (F::BITS, F::HAS_MINIMUM) {
                    // Q2_K: a nibble each, for 16 values.
                    (2, _) => {
                        let (mut scales, mut minima) = ([self.d; 2], [self.dmin; 2]);
                        for half in 0..2 {
                            let bytes = vld1q_u8(header.add(4 * ROWS + 32 * step + 16 * half));
                            scales[half] = times(&self.d, signed(vandq_u8(bytes, vdupq_n_u8(15))));
                            minima[half] = times(&self.dmin, signed(vshrq_n_u8::<4>(bytes)));
                        }
                        (scales, minima)
                    }
                    // Q3_K: 6 bits less 32, for 16 values.
                    (3, _) => {
                        let [first, last] = six_bits(header.add(2 * ROWS), step);
                        let first = times(&self.d, vsubq_s8(signed(first), vdupq_n_s8(32)));
                        let last = times(&self.d, vsubq_s8(signed(last), vdupq_n_s8(32)));
                        ([first, last], [self.dmin; 2])
                    }
                    // Q6_K: a signed byte, for 16 values.
                    (_, false) => {
                        let mut scales = [self.d; 2];
                        for half in 0..2 {
                            let bytes = vld1q_u8(header.add(2 * ROWS + 32 * step + 16 * half));
                            scales[half] = times(&self.d, signed(bytes));
                        }
                        (scales, [self.dmin; 2])
                    }
                    // Q4_K, Q5_K: 6 bits each, for 32 values.
                    (_, true) => {
                        let [scale, minimum] = six_bits(header.add(4 * ROWS), step);
                        ([times(&self.d, signed(scale)); 2], [times(&self.dmin, signed(minimum)); 2])
                    }
                },
            }
        }
    }
}

/// `d` times a whole number, for each of 16 rows.
#[inline(always)]
unsafe fn times(d: &Lanes, by: int8x16_t) -> Lanes {
    // SAFETY: every machine has NEON.
    unsafe {
        let (low, high) = (vmovl_s8(vget_low_s8(by)), vmovl_high_s8(by));
        [
            vmulq_f32(d[0], vcvtq_f32_s32(vmovl_s16(vget_low_s16(low)))),
            vmulq_f32(d[1], vcvtq_f32_s32(vmovl_high_s16(low))),
            vmulq_f32(d[2], vcvtq_f32_s32(vmovl_s16(vget_low_s16(high)))),
            vmulq_f32(d[3], vcvtq_f32_s32(vmovl_high_s16(high))),
        ]
    }
}

/// Numbers `2 j` and `2 j + 1` of 16 rows, of 6 bits each.
#[inline(always)]
unsafe fn six_bits(packed: *const u8, j: usize) -> [uint8x16_t; 2] {
    // SAFETY: the caller has 192 bytes there, and `j` is below 8.
    unsafe {
        let low = vld1q_u8(packed.add(16 * j));
        let high = vld1q_u8(packed.add(128 + 16 * (j / 2)));
        let high = vshlq_u8(high, vdupq_n_s8(-(4 * (j % 2) as i8)));
        let upper = vdupq_n_u8(0x30);
        [
            vorrq_u8(vandq_u8(low, vdupq_n_u8(15)), vandq_u8(vshlq_n_u8::<4>(high), upper)),
            vorrq_u8(vshrq_n_u8::<4>(low), vandq_u8(vshlq_n_u8::<2>(high), upper)),
        ]
    }
}
