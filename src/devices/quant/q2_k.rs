//! Q2_K: 256 values of 2 bits in 16 sub-blocks. Block of 84 bytes: 16 bytes with a sub-block's scale (low nibble) and
//! minimum (high nibble), 64 bytes of codes, `d`, `dmin` (F16). Value = `d * scale * code - dmin * minimum`.
//!
//! Codes: byte `32 n + l` holds those of values `128 n + 32 s + l` at bit `2 s`.

use super::{f16, field};

/// The codes of a block, in order of its values.
#[inline(always)]
pub fn codes(block: &[u8; 84], out: &mut [u8; 256]) {
    two_bits(field(block, 16), out);
}

/// 64 bytes of 2-bit codes in the order described above.
#[inline(always)]
pub(super) fn two_bits(bytes: &[u8; 64], out: &mut [u8; 256]) {
    for n in 0..2 {
        for s in 0..4 {
            for l in 0..32 {
                out[128 * n + 32 * s + l] = bytes[32 * n + l] >> (2 * s) & 3;
            }
        }
    }
}

/// Scales and minima of the sub-blocks: low and high nibbles.
#[inline(always)]
pub fn scales(block: &[u8; 84]) -> &[u8; 16] {
    field(block, 0)
}

/// Decodes one block.
#[inline(always)]
pub fn dequantise(block: &[u8; 84], out: &mut [f32; 256]) {
    let (d, dmin) = (f16::read(block, 80), f16::read(block, 82));
    let mut q = [0; 256];
    codes(block, &mut q);
    for (j, packed) in scales(block).iter().enumerate() {
        let (scale, minimum) = (d * f32::from(packed & 0xf), dmin * f32::from(packed >> 4));
        for i in 16 * j..16 * (j + 1) {
            out[i] = scale * f32::from(q[i]) - minimum;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{DType, golden};

    #[test]
    fn decodes_like_the_reference() {
        golden::check_blocks(DType::Q2_K);
    }
}
