//! Q4_0: 32 values of 4 bits. Block of 18 bytes: `d` (F16), then 16 bytes of nibbles; byte `j` holds codes `j` (low)
//! and `j + 16` (high). Value = `d * (code - 8)`.

use super::{f16, field};

/// Subtracted from each code.
pub const OFFSET: i32 = 8;

/// The codes of a block, in order of its values.
#[inline(always)]
pub fn codes(block: &[u8; 18], out: &mut [u8; 32]) {
    nibbles(field(block, 2), out);
}

/// 16 bytes that hold code `j` in the low and `j + 16` in the high nibble.
#[inline(always)]
pub(super) fn nibbles(bytes: &[u8; 16], out: &mut [u8; 32]) {
    for (j, byte) in bytes.iter().enumerate() {
        out[j] = byte & 0xf;
        out[j + 16] = byte >> 4;
    }
}

/// Decodes one block.
#[inline(always)]
pub fn dequantise(block: &[u8; 18], out: &mut [f32; 32]) {
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
        golden::check_blocks(DType::Q4_0);
    }
}
