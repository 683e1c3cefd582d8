//! The 6-bit scales that K formats pack into 12 bytes.

/// 8 scales and 8 minima of Q4_K and Q5_K, in order of the 32-value sub-blocks that they belong to.
///
/// Bytes 0..4 and 4..8 hold the first four scales and minima in their low 6 bits; the last four have their low
/// nibbles in bytes 8..12 (scale low, minimum high) and their upper 2 bits in the upper bits of bytes 0..8.
#[inline(always)]
pub fn scales_and_minima(packed: &[u8; 12]) -> ([u8; 8], [u8; 8]) {
    let (mut scales, mut minima) = ([0; 8], [0; 8]);
    for j in 0..4 {
        scales[j] = packed[j] & 63;
        minima[j] = packed[j + 4] & 63;
        scales[j + 4] = packed[j + 8] & 0xf | packed[j] >> 6 << 4;
        minima[j + 4] = packed[j + 8] >> 4 | packed[j + 4] >> 6 << 4;
    }
    (scales, minima)
}

/// 16 scales of Q3_K, in order of the 16-value sub-blocks that they belong to.
///
/// Bytes 0..8 hold the low nibbles of scales `j` (low) and `j + 8` (high); byte `8 + j % 4` holds the upper 2 bits of
/// scale `j` at bit `2 * (j / 4)`.
#[inline(always)]
pub fn scales_16(packed: &[u8; 12]) -> [u8; 16] {
    std::array::from_fn(|j| {
        let low = if j < 8 { packed[j] & 0xf } else { packed[j - 8] >> 4 };
        low | (packed[8 + j % 4] >> (2 * (j / 4)) & 3) << 4
    })
}
