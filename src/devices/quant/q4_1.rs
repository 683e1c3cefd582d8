//! Q4_1: 32 values of 4 bits with a minimum. Block of 20 bytes: `d`, `m` (F16), then nibbles as in Q4_0.
//! Value = `d * code + m`.

use super::{f16, field, q4_0};

/// The codes of a block, in order of its values.
#[inline(always)]
pub fn codes(block: &[u8; 20], out: &mut [u8; 32]) {
    q4_0::nibbles(field(block, 4), out);
}

/// Decodes one block.
#[inline(always)]
pub fn dequantise(block: &[u8; 20], out: &mut [f32; 32]) {
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
        golden::check_blocks(DType::Q4_1);
    }
}
