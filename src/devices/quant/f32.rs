//! F32: IEEE binary32, little-endian.

/// Decodes one value.
#[inline(always)]
pub fn dequantise(block: &[u8; 4], out: &mut [f32; 1]) {
    out[0] = f32::from_le_bytes(*block);
}

#[cfg(test)]
mod tests {
    use super::super::DType;

    #[test]
    fn values_keep_their_bits() {
        let values = [0.0, -0.0, 1.5e-42, -3.25e38, f32::INFINITY];
        let bytes: Vec<u8> = values.iter().flat_map(|x: &f32| x.to_le_bytes()).collect();
        let mut out = [1.0; 5];
        DType::F32.dequantise(&bytes, &mut out).unwrap();
        assert_eq!(out.map(f32::to_bits), values.map(f32::to_bits));
    }
}
