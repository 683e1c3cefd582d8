//! F16: IEEE binary16, little-endian. Also the type of most formats' scales.

/// The exact value of a half-precision number. Without branches or lookups, so that loops over it vectorise.
#[inline(always)]
pub fn to_f32(bits: u16) -> f32 {
    let sign = u32::from(bits & 0x8000) << 16;
    let magnitude = u32::from(bits & 0x7fff);
    let exponent = magnitude & 0x7c00;
    // Exponents are rebased from 15 to 127; infinities and NaNs a second time, to the top of the range.
    let rebase = if exponent == 0x7c00 { 2 * (112 << 23) } else { 112 << 23 };
    let normal = (magnitude << 13) + rebase;
    // Subnormals count units of 2^-24.
    let subnormal = (magnitude as f32 * f32::from_bits((127 - 24) << 23)).to_bits();
    f32::from_bits(sign | if exponent == 0 { subnormal } else { normal })
}

/// The half at `at` of a block.
#[inline(always)]
pub fn read(block: &[u8], at: usize) -> f32 {
    to_f32(u16::from_le_bytes(*super::field(block, at)))
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
        golden::check_blocks(DType::F16);
    }

    #[test]
    fn every_half_is_exact() {
        for bits in 0..=u16::MAX {
            let (actual, expected) = (super::to_f32(bits), half::f16::from_bits(bits).to_f32());
            assert!(actual.to_bits() == expected.to_bits() || actual.is_nan() && expected.is_nan(), "{bits:#x}");
        }
    }
}
