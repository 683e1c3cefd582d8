//! Q5_K: 256 values of 5 bits in 8 sub-blocks. Block of 176 bytes: `d`, `dmin` (F16), 12 bytes of scales and minima,
//! 32 bytes of fifth bits, 128 bytes of nibbles (as in Q4_K). Value = `d * scale * code - dmin * minimum`.
//!
//! Fifth bits: byte `l` holds that of value `32 s + l` at bit `s`.

use super::{f16, field, k_scales, q4_k};

/// The codes of a block, in order of its values.
#[inline(always)]
pub fn codes(block: &[u8; 176], out: &mut [u8; 256]) {
    q4_k::nibbles(field(block, 48), out);
    let fifth: &[u8; 32] = field(block, 16);
    for s in 0..8 {
        for l in 0..32 {
            out[32 * s + l] |= (fifth[l] >> s & 1) << 4;
        }
    }
}

/// Scales and minima of the sub-blocks.
#[inline(always)]
pub fn scales(block: &[u8; 176]) -> ([u8; 8], [u8; 8]) {
    k_scales::scales_and_minima(field(block, 4))
}

/// Decodes one block.
#[inline(always)]
pub fn dequantise(block: &[u8; 176], out: &mut [f32; 256]) {
    let mut q = [0; 256];
    codes(block, &mut q);
    q4_k::decode(f16::read(block, 0), f16::read(block, 2), scales(block), &q, out);
}

#[cfg(test)]
mod tests {
    use super::super::{DType, golden};

    #[test]
    fn decodes_like_the_reference() {
        golden::check_blocks(DType::Q5_K);
    }
}
