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
    let mut amax = 0;
    for x in x {
        amax = amax.max(x.to_bits() & 0x7fff_ffff);
    }
    let amax = f32::from_bits(amax);
    // Below this, 1 / scale would overflow.
    const TINY: f32 = 1e-30;
    let (scale, inverse) = if amax < TINY { (0.0, 0.0) } else { (amax / 127.0, 127.0 / amax) };
    // Adding 1.5 * 2^23 rounds to the nearest integer (ties to even) and leaves it in the lowest bits.
    const ROUND: f32 = 12_582_912.0;
    let (mut codes, mut halves) = ([0; STEP], [0; 2]);
    for i in 0..STEP {
        codes[i] = (x[i] * inverse + ROUND).to_bits() as i8;
    }
    for i in 0..STEP / 2 {
        halves[0] += i32::from(codes[i]);
        halves[1] += i32::from(codes[STEP / 2 + i]);
    }
    let total = halves[0] + halves[1];
    Record {
        codes,
        scale,
        scaled_sum: scale * total as f32,
        scaled_half_sums: [scale * halves[0] as f32, scale * halves[1] as f32],
        negative_sum: -total,
        negative_half_sums: [-halves[0], -halves[1]],
        _unused: 0,
    }
}
