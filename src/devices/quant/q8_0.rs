//! Q8_0: 32 values of 8 bits. Block of 34 bytes: `d` (F16), then 32 signed bytes. Value = `d * code`.
//!
//! Also a type of the KV cache, so there is an encoder.

use super::{f16, field};

/// Values in a block.
pub const BLOCK_LEN: usize = 32;
/// Bytes of a block.
pub const BLOCK_BYTES: usize = 34;

/// Decodes one block.
#[inline(always)]
pub fn dequantise(block: &[u8; BLOCK_BYTES], out: &mut [f32; BLOCK_LEN]) {
    let d = f16::read(block, 0);
    let q: &[u8; BLOCK_LEN] = field(block, 2);
    out.iter_mut().zip(q).for_each(|(x, q)| *x = f32::from(*q as i8) * d);
}

/// Encodes a row of whole blocks: `d` is the largest magnitude / 127, codes are rounded to the nearest.
///
/// `out` has [`BLOCK_BYTES`] for each [`BLOCK_LEN`] values of `x`; what does not fill a block is left alone.
pub fn quantise_row(x: &[f32], out: &mut [u8]) {
    let (values, _) = x.as_chunks::<BLOCK_LEN>();
    let (blocks, _) = out.as_chunks_mut::<BLOCK_BYTES>();
    values.iter().zip(blocks).for_each(|(values, block)| quantise(values, block));
}

#[inline(always)]
fn quantise(x: &[f32; BLOCK_LEN], block: &mut [u8; BLOCK_BYTES]) {
    // As integers, magnitudes compare as they do as floats, and a NaN wins: it must not vanish here.
    let amax = x.iter().fold(0, |max: u32, x| max.max(x.to_bits() & 0x7fff_ffff));
    let d = f32::from_bits(amax) / 127.0;
    let inverse = if d == 0.0 { 0.0 } else { 1.0 / d };
    block[..2].copy_from_slice(&half::f16::from_f32(d).to_le_bytes());
    block[2..].iter_mut().zip(x).for_each(|(q, x)| *q = (x * inverse).round() as i8 as u8);
}

#[cfg(test)]
mod tests {
    use super::super::{DType, golden};

    #[test]
    fn decodes_like_the_reference() {
        golden::check_blocks(DType::Q8_0);
    }

    #[test]
    fn encodes_like_the_reference() {
        let (source, expected) = (golden::source(DType::Q8_0), golden::blocks(DType::Q8_0));
        let mut actual = vec![0; source.len() / 32 * 34];
        super::quantise_row(&source, &mut actual);
        assert_eq!(actual, expected[..actual.len()]);
    }

    #[test]
    fn zeros_and_nans_survive() {
        let mut x = [0.0; 64];
        x[40] = f32::NAN;
        let (mut bytes, mut out) = ([0; 68], [1.0; 64]);
        super::quantise_row(&x, &mut bytes);
        DType::Q8_0.dequantise(&bytes, &mut out).unwrap();
        assert_eq!(out[..32], [0.0; 32]);
        assert!(out[32..].iter().all(|x| x.is_nan()));
    }
}
