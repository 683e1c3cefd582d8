//! BF16: the upper half of an IEEE binary32, little-endian.

/// The exact value.
#[inline(always)]
pub fn to_f32(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// Decodes one value.
#[inline(always)]
pub fn dequantise(block: &[u8; 2], out: &mut [f32; 1]) {
    out[0] = to_f32(u16::from_le_bytes(*block));
}

#[cfg(test)]
mod tests {
    use super::super::{DType, golden};

    #[test]
    fn decodes_like_the_reference() {
        golden::check_blocks(DType::BF16);
    }
}
