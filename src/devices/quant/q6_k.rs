//! Q6_K: 256 values of 6 bits in 16 sub-blocks. Block of 210 bytes: 128 bytes of low nibbles, 64 bytes of upper 2 bits,
//! 16 signed scales, `d` (F16). Value = `d * scale * (code - 32)`.
//!
//! Of value `128 n + 32 s + l`: the low bits are in byte `64 n + 32 (s % 2) + l`, low nibble for `s < 2`; the upper
//! bits are in byte `32 n + l` at bit `2 s`.

use super::{f16, field};

/// Subtracted from each code.
pub const OFFSET: i32 = 32;

/// The codes of a block, in order of its values.
#[inline(always)]
pub fn codes(block: &[u8; 210], out: &mut [u8; 256]) {
    let (low, high): (&[u8; 128], &[u8; 64]) = (field(block, 0), field(block, 128));
    for n in 0..2 {
        for s in 0..4 {
            for l in 0..32 {
                let low = low[64 * n + 32 * (s % 2) + l] >> (4 * (s / 2)) & 0xf;
                out[128 * n + 32 * s + l] = low | (high[32 * n + l] >> (2 * s) & 3) << 4;
            }
        }
    }
}

/// Scales of the sub-blocks, signed bytes.
#[inline(always)]
pub fn scales(block: &[u8; 210]) -> &[u8; 16] {
    field(block, 192)
}

/// Decodes one block.
#[inline(always)]
pub fn dequantise(block: &[u8; 210], out: &mut [f32; 256]) {
    let d = f16::read(block, 208);
    let mut q = [0; 256];
    codes(block, &mut q);
    for (j, scale) in scales(block).iter().enumerate() {
        let scale = d * f32::from(*scale as i8);
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
        golden::check_blocks(DType::Q6_K);
    }
}
