//! Q4_K: 256 values of 4 bits in 8 sub-blocks. Block of 144 bytes: `d`, `dmin` (F16), 12 bytes of scales and minima,
//! 128 bytes of nibbles. Value = `d * scale * code - dmin * minimum`.
//!
//! Nibbles: byte `32 c + l` holds the codes of values `64 c + l` (low) and `64 c + 32 + l` (high).

use super::{f16, field, k_scales};

/// The codes of a block, in order of its values.
#[inline(always)]
pub fn codes(block: &[u8; 144], out: &mut [u8; 256]) {
    nibbles(field(block, 16), out);
}

/// 128 bytes of nibbles in the order described above.
#[inline(always)]
pub(super) fn nibbles(bytes: &[u8; 128], out: &mut [u8; 256]) {
    for c in 0..4 {
        for l in 0..32 {
            out[64 * c + l] = bytes[32 * c + l] & 0xf;
            out[64 * c + 32 + l] = bytes[32 * c + l] >> 4;
        }
    }
}

/// Scales and minima of the sub-blocks.
#[inline(always)]
pub fn scales(block: &[u8; 144]) -> ([u8; 8], [u8; 8]) {
    k_scales::scales_and_minima(field(block, 4))
}

/// Decodes one block.
#[inline(always)]
pub fn dequantise(block: &[u8; 144], out: &mut [f32; 256]) {
    let mut q = [0; 256];
    codes(block, &mut q);
    decode(f16::read(block, 0), f16::read(block, 2), scales(block), &q, out);
}

/// Values of 8 sub-blocks with scales and minima.
#[inline(always)]
pub(super) fn decode(d: f32, dmin: f32, scales: ([u8; 8], [u8; 8]), q: &[u8; 256], out: &mut [f32; 256]) {
    for j in 0..8 {
        let (scale, minimum) = (d * f32::from(scales.0[j]), dmin * f32::from(scales.1[j]));
        for i in 32 * j..32 * (j + 1) {
            out[i] = scale * f32::from(q[i]) - minimum;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{DType, golden};

    #[test]
    fn decodes_like_the_reference() {
        golden::check_blocks(DType::Q4_K);
    }
}
