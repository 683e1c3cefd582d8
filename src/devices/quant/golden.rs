//! Reads the block vectors of the golden data, for tests.

use std::path::PathBuf;

use super::DType;

/// The folder of the golden data: `LAYERCAKE_GOLDEN` where it is set.
pub fn dir() -> PathBuf {
    std::env::var_os("LAYERCAKE_GOLDEN")
        .map(PathBuf::from)
        .unwrap_or_else(|| std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/golden"))
}

/// Blocks of this type in the file's layout.
pub fn blocks(dtype: DType) -> Vec<u8> {
    let path = dir().join("blocks").join(format!("{dtype}.blocks.bin"));
    std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn values(file: String) -> Vec<f32> {
    let path = dir().join("blocks").join(file);
    let bytes = std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    bytes.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect()
}

/// The values of [`blocks`].
pub fn decoded(dtype: DType) -> Vec<f32> {
    values(format!("{dtype}.f32"))
}

/// The values that the first blocks were encoded from.
pub fn source(dtype: DType) -> Vec<f32> {
    values(format!("{dtype}.src.f32"))
}

/// Decodes the golden blocks and compares every bit.
pub fn check_blocks(dtype: DType) {
    let (bytes, expected) = (blocks(dtype), decoded(dtype));
    assert!(!expected.is_empty());
    let mut actual = vec![0.0; expected.len()];
    dtype.dequantise(&bytes, &mut actual).unwrap();
    for (i, (a, e)) in actual.iter().zip(&expected).enumerate() {
        assert_eq!(a.to_bits(), e.to_bits(), "{dtype} value {i}: {a} instead of {e}");
    }
}
