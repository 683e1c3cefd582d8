//! Q5_1: 32 values of 5 bits with a minimum. Block of 24 bytes: `d`, `m` (F16), fifth bits and nibbles as in Q5_0.
//! Value = `d * code + m`.

use super::{f16, field, q4_0, q5_0};

/// The codes of a block, in order of its values.
#[inline(always)]
pub fn codes(block: &[u8; 24], out: &mut [u8; 32]) {
    q4_0::nibbles(field(block, 8), out);
    q5_0::fifth_bits(u32::from_le_bytes(*field(block, 4)), out);
}

/// Decodes one block.
#[inline(always)]
pub fn dequantise(block: &[u8; 24], out: &mut [f32; 32]) {
    let (d, m) = (f16::read(block, 0), f16::read(block, 2));
    let mut q = [0; 32];
    codes(block, &mut q);
    out.iter_mut().zip(q).for_each(|(x, q)| *x = f32::from(q) * d + m);
}

#[cfg(test)]
mod tests {
    use super::super::{DType, golden};

    #[test]
    fn decodes_like_the_reference() {
        golden::check_blocks(DType::Q5_1);
    }
}
