//! Prepared input rows.
//!
//! F32: the values, padded with zeros. Int8: a record of 64 bytes for each 32 values, see [`Record`].

use super::ActivationFormat;
use super::format::STEP;

/// 32 values as signed bytes with one scale, in the manner of Q8_0 and Q8_1, and the sums that kernels need.
///
/// The scale stays F32: the sums and it are never stored, and rounding it to F16 would only lose accuracy and range.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub struct Record {
    pub codes: [i8; STEP],
    /// Value = `scale * code`.
    pub scale: f32,
    /// `scale * sum(codes)`, and of the first and last 16.
    pub scaled_sum: f32,
    pub scaled_half_sums: [f32; 2],
    /// `-sum(codes)`, and of the first and last 16.
    pub negative_sum: i32,
    pub negative_half_sums: [i32; 2],
    _unused: u32,
}

/// Alignment of prepared rows.
pub const ALIGN: usize = 64;

/// Bytes of one prepared row of `n_in` values. A multiple of 64.
pub fn input_row_bytes(n_in: usize, format: ActivationFormat) -> usize {
    match format {
        ActivationFormat::F32 => (n_in * 4).next_multiple_of(ALIGN),
        ActivationFormat::Int8 => n_in.div_ceil(STEP) * size_of::<Record>(),
    }
}

#[inline(always)]
pub(super) fn prepare(format: ActivationFormat, x: &[f32], out: &mut [u8]) {
    assert!(out.len() >= input_row_bytes(x.len(), format), "{} bytes for {} values", out.len(), x.len());
    match format {
        ActivationFormat::F32 => {
            let (words, _) = out.as_chunks_mut::<4>();
            let (used, unused) = words.split_at_mut(x.len());
            used.iter_mut().zip(x).for_each(|(w, x)| *w = x.to_ne_bytes());
            unused.fill([0; 4]);
        }
        ActivationFormat::Int8 => {
            assert!(out.as_ptr().addr().is_multiple_of(ALIGN), "prepared rows are aligned to {ALIGN} bytes");
            // SAFETY: `Record` is valid for any bytes and has no padding; `align_to_mut` keeps within `out`.
            let (_, records, _) = unsafe { out.align_to_mut::<Record>() };
            let (whole, rest) = x.as_chunks::<STEP>();
            whole.iter().zip(&mut *records).for_each(|(x, record)| *record = quantise(x));
            if !rest.is_empty() {
                let mut padded = [0.0; STEP];
                padded[..rest.len()].copy_from_slice(rest);
                records[whole.len()] = quantise(&padded);
            }
        }
    }
}

#[inline(always)]
fn quantise(x: &[f32; STEP]) -> Record {
    // As integers, magnitudes compare as they do as floats, and a NaN wins: it must reach the output.
    let amax = f32::from_bits(x.iter().fold(0, |max: u32, x| max.max(x.to_bits() & 0x7fff_ffff)));
    // Below this, 1 / scale would overflow.
    const TINY: f32 = 1e-30;
    let (scale, inverse) = if amax < TINY { (0.0, 0.0) } else { (amax / 127.0, 127.0 / amax) };
    let codes = x.map(|x| (x * inverse).round_ties_even() as i8);
    let sum = |half: &[i8]| half.iter().map(|q| i32::from(*q)).sum::<i32>();
    let halves = [sum(&codes[..STEP / 2]), sum(&codes[STEP / 2..])];
    let total = halves[0] + halves[1];
    Record {
        codes,
        scale,
        scaled_sum: scale * total as f32,
        scaled_half_sums: halves.map(|s| scale * s as f32),
        negative_sum: -total,
        negative_half_sums: halves.map(|s| -s),
        _unused: 0,
    }
}
