//! Q3_K: 256 values of 3 bits in 16 sub-blocks. Block of 110 bytes: 32 bytes of third bits, 64 bytes of lower bits (as
//! in Q2_K), 12 bytes of scales, `d` (F16). Value = `d * (scale - 32) * (code - 4)`.
//!
//! Third bits: byte `l` holds that of value `32 s + l` at bit `s`.

use super::{f16, field, k_scales, q2_k};

/// Subtracted from each code.
pub const OFFSET: i32 = 4;
/// Subtracted from each scale.
pub const SCALE_OFFSET: i32 = 32;

/// The codes of a block, in order of its values.
#[inline(always)]
pub fn codes(block: &[u8; 110], out: &mut [u8; 256]) {
    q2_k::two_bits(field(block, 32), out);
    let third: &[u8; 32] = field(block, 0);
    for s in 0..8 {
        for l in 0..32 {
            out[32 * s + l] |= (third[l] >> s & 1) << 2;
        }
    }
}

/// Scales of the sub-blocks, before [`SCALE_OFFSET`].
#[inline(always)]
pub fn scales(block: &[u8; 110]) -> [u8; 16] {
    k_scales::scales_16(field(block, 96))
}

/// Decodes one block.
#[inline(always)]
pub fn dequantise(block: &[u8; 110], out: &mut [f32; 256]) {
    let d = f16::read(block, 108);
    let mut q = [0; 256];
    codes(block, &mut q);
    for (j, scale) in scales(block).into_iter().enumerate() {
        let scale = d * (i32::from(scale) - SCALE_OFFSET) as f32;
        for i in 16 * j..16 * (j + 1) {
            out[i] = scale * (i32::from(q[i]) - OFFSET) as f32;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{DType, golden};

    #[test]
    fn decodes_like_the_reference() {
        golden::check_blocks(DType::Q3_K);
    }
}
