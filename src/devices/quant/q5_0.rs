//! Q5_0: 32 values of 5 bits. Block of 22 bytes: `d` (F16), the codes' fifth bits (u32, bit `j` for value `j`), then
//! nibbles as in Q4_0. Value = `d * (code - 16)`.

use super::{f16, field, q4_0};

/// Subtracted from each code.
pub const OFFSET: i32 = 16;

/// The codes of a block, in order of its values.
#[inline(always)]
pub fn codes(block: &[u8; 22], out: &mut [u8; 32]) {
    q4_0::nibbles(field(block, 6), out);
    fifth_bits(u32::from_le_bytes(*field(block, 2)), out);
}

/// Adds bit `j` of `bits` to code `j` as its fifth bit.
#[inline(always)]
pub(super) fn fifth_bits(bits: u32, out: &mut [u8; 32]) {
    out.iter_mut().enumerate().for_each(|(j, q)| *q |= ((bits >> j) as u8 & 1) << 4);
}

/// Decodes one block.
#[inline(always)]
pub fn dequantise(block: &[u8; 22], out: &mut [f32; 32]) {
    let d = f16::read(block, 0);
    let mut q = [0; 32];
    codes(block, &mut q);
    out.iter_mut().zip(q).for_each(|(x, q)| *x = (i32::from(q) - OFFSET) as f32 * d);
}

#[cfg(test)]
mod tests {
    use super::super::{DType, golden};

    #[test]
    fn decodes_like_the_reference() {
        golden::check_blocks(DType::Q5_0);
    }
}
