//! Kernels in plain code: right everywhere, and what the others are tested against. The compiler vectorises them for
//! whatever instruction set the calling function enables.
//!
//! Every output is summed in the order of its input values, whatever is computed beside it: a row has the same bits
//! alone and in a batch.

use super::format::{Format, ROWS, STEP, Scales};
use super::input::Record;
use crate::devices::quant::DType;

/// `a * b + acc`, with one rounding where `FMA` (slow on machines that lack the instruction).
#[inline(always)]
fn multiply_add<const FMA: bool>(a: f32, b: f32, acc: f32) -> f32 {
    if FMA { a.mul_add(b, acc) } else { a * b + acc }
}

/// Sums of 16 outputs of each row: `acc[r] += packed · rows[r]`, with activations in int8.
///
/// # Safety
/// Each of `rows` points to `n_blocks * F::STEPS` [`Record`]s.
#[inline(always)]
pub unsafe fn int8<F: Format>(packed: &[u8], n_blocks: usize, rows: &[*const u8], acc: &mut [[f32; ROWS]]) {
    let mut codes = [0; 512];
    for block in 0..n_blocks {
        let packed = &packed[block * F::PACKED_BYTES..][..F::PACKED_BYTES];
        for step in 0..F::STEPS {
            F::unpack(packed, step, &mut codes);
            let scales = F::scales(packed, step);
            for (row, acc) in rows.iter().zip(&mut *acc) {
                // SAFETY: the caller's promise.
                let x = unsafe { &*row.cast::<Record>().add(block * F::STEPS + step) };
                int8_step::<F>(&codes, &scales, x, acc);
            }
        }
    }
}

#[inline(always)]
fn int8_step<F: Format>(codes: &[u8; 512], scales: &Scales, x: &Record, acc: &mut [f32; ROWS]) {
    let n_parts = if F::HALVES { 2 } else { 1 };
    let registers = 8 / n_parts;
    for part in 0..n_parts {
        let (negative_sum, scaled_sum) = match F::HALVES {
            true => (x.negative_half_sums[part], x.scaled_half_sums[part]),
            false => (x.negative_sum, x.scaled_sum),
        };
        let mut sums = [F::OFFSET * negative_sum; ROWS];
        for register in part * registers..(part + 1) * registers {
            let (words, _) = codes[64 * register..64 * (register + 1)].as_chunks::<4>();
            for t in 0..4 {
                let x = i32::from(x.codes[4 * register + t]);
                for r in 0..ROWS {
                    sums[r] += (u32::from_le_bytes(words[r]) >> (8 * t) & 0xff) as i32 * x;
                }
            }
        }
        for r in 0..ROWS {
            acc[r] = (sums[r] as f32).mul_add(scales.scale[part][r] * x.scale, acc[r]);
            if F::HAS_MINIMUM {
                acc[r] = (-scales.minimum[part][r]).mul_add(scaled_sum, acc[r]);
            }
        }
    }
}

/// Values of 16 rows x 32 values: `[16, 32]`.
pub type Weights = [[f32; ROWS]; STEP];

/// Exact values of one step of a packed block, the same bits as the file's.
#[inline(always)]
pub fn dequantise<F: Format>(packed: &[u8], step: usize, out: &mut Weights) {
    let mut codes = [0; 512];
    F::unpack(packed, step, &mut codes);
    let scales = F::scales(packed, step);
    for register in 0..8 {
        let half = register / 4;
        let (words, _) = codes[64 * register..64 * (register + 1)].as_chunks::<4>();
        for t in 0..4 {
            for r in 0..ROWS {
                let code = (u32::from_le_bytes(words[r]) >> (8 * t) & 0xff) as i32 - F::OFFSET;
                let value = scales.scale[half][r] * code as f32;
                out[4 * register + t][r] = if F::HAS_MINIMUM { value - scales.minimum[half][r] } else { value };
            }
        }
    }
}

/// Like [`int8`], with F32 activations and exact weights.
///
/// # Safety
/// Each of `rows` points to `n_blocks * F::BLOCK_LEN` F32s.
#[inline(always)]
pub unsafe fn exact<F: Format, const FMA: bool>(
    packed: &[u8],
    n_blocks: usize,
    rows: &[*const u8],
    acc: &mut [[f32; ROWS]],
) {
    let mut weights = [[0.0; ROWS]; STEP];
    for block in 0..n_blocks {
        let packed = &packed[block * F::PACKED_BYTES..][..F::PACKED_BYTES];
        for step in 0..F::STEPS {
            dequantise::<F>(packed, step, &mut weights);
            // SAFETY: the caller's promise.
            unsafe { multiply_rows::<FMA>(&weights, rows, F::BLOCK_LEN * block + STEP * step, acc) };
        }
    }
}

/// A type of plain numbers. Packed: `[16, n_in]`, the rows' values beside each other.
pub trait Float {
    const KIND: DType;
    const BYTES: usize = Self::KIND.block_bytes();
    fn decode(bytes: &[u8]) -> f32;
}

/// Like [`exact`], for weights that are plain numbers.
///
/// # Safety
/// Each of `rows` points to `n_in` F32s.
#[inline(always)]
pub unsafe fn float<F: Float, const FMA: bool>(
    packed: &[u8],
    n_in: usize,
    rows: &[*const u8],
    acc: &mut [[f32; ROWS]],
) {
    let mut weights = [[0.0; ROWS]; STEP];
    let chunk_bytes = STEP * ROWS * F::BYTES;
    for (i, chunk) in packed[..n_in * ROWS * F::BYTES].chunks(chunk_bytes).enumerate() {
        let n = chunk.len() / (ROWS * F::BYTES);
        weights.as_flattened_mut().iter_mut().zip(chunk.chunks_exact(F::BYTES)).for_each(|(w, b)| *w = F::decode(b));
        // SAFETY: the caller's promise.
        unsafe { multiply_rows::<FMA>(&weights[..n], rows, STEP * i, acc) };
    }
}

/// `acc[r] += weights · rows[r][from..]`, several rows at once, so that their sums do not wait for each other.
///
/// # Safety
/// Each of `rows` points to `from + weights.len()` F32s.
#[inline(always)]
unsafe fn multiply_rows<const FMA: bool>(
    weights: &[[f32; ROWS]],
    rows: &[*const u8],
    from: usize,
    acc: &mut [[f32; ROWS]],
) {
    let (fours, _) = rows.as_chunks::<4>();
    let (acc_fours, _) = acc.as_chunks_mut::<4>();
    for (rows, acc) in fours.iter().zip(acc_fours) {
        // SAFETY: the caller's promise.
        unsafe { multiply::<4, FMA>(weights, rows, from, acc) };
    }
    for r in 4 * fours.len()..rows.len() {
        // SAFETY: the caller's promise.
        unsafe { multiply::<1, FMA>(weights, &[rows[r]], from, std::array::from_mut(&mut acc[r])) };
    }
}

#[inline(always)]
unsafe fn multiply<const R: usize, const FMA: bool>(
    weights: &[[f32; ROWS]],
    rows: &[*const u8; R],
    from: usize,
    acc: &mut [[f32; ROWS]; R],
) {
    let mut sums = *acc;
    // SAFETY: the caller's promise; prepared rows are aligned.
    for (k, weights) in weights.iter().enumerate() {
        for r in 0..R {
            // SAFETY: the caller's promise.
            let x = unsafe { *rows[r].cast::<f32>().add(from + k) };
            for lane in 0..ROWS {
                sums[r][lane] = multiply_add::<FMA>(weights[lane], x, sums[r][lane]);
            }
        }
    }
    *acc = sums;
}
