//! The element types of GGUF tensors: their names, ids and block layouts.
//!
//! Source: the type table of the GGUF/ggml format; ids that are missing here were removed from the format.

pub mod bf16;
pub mod f16;
pub mod f32;
pub mod k_scales;
pub mod q2_k;
pub mod q3_k;
pub mod q4_0;
pub mod q4_1;
pub mod q4_k;
pub mod q5_0;
pub mod q5_1;
pub mod q5_k;
pub mod q6_k;
pub mod q8_0;

#[cfg(test)]
pub(crate) mod golden;

use std::fmt;

macro_rules! dtypes {
    ($($variant:ident = $id:literal, $name:literal, $block:literal, $bytes:literal;)*) => {
        /// Every tensor element type that a GGUF file can name. Being named does not mean being computable:
        /// see [`DType::is_supported`].
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[allow(non_camel_case_types)]
        pub enum DType { $($variant),* }

        impl DType {
            /// All types in order of their ids.
            pub const ALL: &[DType] = &[$(DType::$variant),*];

            /// The type with this id in a GGUF tensor record.
            pub fn from_id(id: u32) -> Option<DType> {
                match id { $($id => Some(DType::$variant),)* _ => None }
            }

            /// Its id in a GGUF tensor record.
            pub const fn id(self) -> u32 {
                match self { $(DType::$variant => $id),* }
            }

            /// The format's own name, e.g. `Q4_K`.
            pub const fn name(self) -> &'static str {
                match self { $(DType::$variant => $name),* }
            }

            /// Elements in one block.
            pub const fn block_len(self) -> usize {
                match self { $(DType::$variant => $block),* }
            }

            /// Bytes of one block.
            pub const fn block_bytes(self) -> usize {
                match self { $(DType::$variant => $bytes),* }
            }
        }
    };
}

dtypes! {
    F32 = 0, "F32", 1, 4;
    F16 = 1, "F16", 1, 2;
    Q4_0 = 2, "Q4_0", 32, 18;
    Q4_1 = 3, "Q4_1", 32, 20;
    Q5_0 = 6, "Q5_0", 32, 22;
    Q5_1 = 7, "Q5_1", 32, 24;
    Q8_0 = 8, "Q8_0", 32, 34;
    Q8_1 = 9, "Q8_1", 32, 36;
    Q2_K = 10, "Q2_K", 256, 84;
    Q3_K = 11, "Q3_K", 256, 110;
    Q4_K = 12, "Q4_K", 256, 144;
    Q5_K = 13, "Q5_K", 256, 176;
    Q6_K = 14, "Q6_K", 256, 210;
    Q8_K = 15, "Q8_K", 256, 292;
    IQ2_XXS = 16, "IQ2_XXS", 256, 66;
    IQ2_XS = 17, "IQ2_XS", 256, 74;
    IQ3_XXS = 18, "IQ3_XXS", 256, 98;
    IQ1_S = 19, "IQ1_S", 256, 50;
    IQ4_NL = 20, "IQ4_NL", 32, 18;
    IQ3_S = 21, "IQ3_S", 256, 110;
    IQ2_S = 22, "IQ2_S", 256, 82;
    IQ4_XS = 23, "IQ4_XS", 256, 136;
    I8 = 24, "I8", 1, 1;
    I16 = 25, "I16", 1, 2;
    I32 = 26, "I32", 1, 4;
    I64 = 27, "I64", 1, 8;
    F64 = 28, "F64", 1, 8;
    IQ1_M = 29, "IQ1_M", 256, 56;
    BF16 = 30, "BF16", 1, 2;
    TQ1_0 = 34, "TQ1_0", 256, 54;
    TQ2_0 = 35, "TQ2_0", 256, 66;
    MXFP4 = 39, "MXFP4", 32, 17;
    NVFP4 = 40, "NVFP4", 64, 36;
    Q1_0 = 41, "Q1_0", 128, 18;
    Q2_0 = 42, "Q2_0", 64, 18;
}

impl DType {
    /// The type with this name, whatever the case of its letters.
    pub fn from_name(name: &str) -> Option<DType> {
        DType::ALL.iter().copied().find(|t| t.name().eq_ignore_ascii_case(name))
    }

    /// Bytes of `n_elements` in this type; `None` where they do not fill whole blocks or the size overflows.
    pub fn bytes_of(self, n_elements: u64) -> Option<u64> {
        let block_len = self.block_len() as u64;
        if !n_elements.is_multiple_of(block_len) {
            return None;
        }
        (n_elements / block_len).checked_mul(self.block_bytes() as u64)
    }

    /// Whether weights of this type can be computed with.
    pub fn is_supported(self) -> bool {
        use DType::*;
        matches!(self, F32 | F16 | BF16 | Q4_0 | Q4_1 | Q5_0 | Q5_1 | Q8_0 | Q2_K | Q3_K | Q4_K | Q5_K | Q6_K)
    }
}

/// Why values could not be decoded or encoded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QuantError {
    #[error("tensor type {dtype} cannot be decoded (supported: {})", supported_names())]
    Unsupported { dtype: DType },
    #[error("{n_bytes} bytes of {dtype} do not hold {n_values} values (whole blocks of {} values in {} bytes)",
        .dtype.block_len(), .dtype.block_bytes())]
    Length { dtype: DType, n_bytes: usize, n_values: usize },
}

fn supported_names() -> String {
    let names: Vec<_> = DType::ALL.iter().filter(|t| t.is_supported()).map(|t| t.name()).collect();
    names.join(", ")
}

impl DType {
    /// Decodes whole blocks: `bytes` in the file's layout to `out`, as many values as they hold.
    pub fn dequantise(self, bytes: &[u8], out: &mut [f32]) -> Result<(), QuantError> {
        if self.bytes_of(out.len() as u64) != Some(bytes.len() as u64) {
            return Err(QuantError::Length { dtype: self, n_bytes: bytes.len(), n_values: out.len() });
        }
        match self {
            DType::F32 => each_block(bytes, out, f32::dequantise),
            DType::F16 => each_block(bytes, out, f16::dequantise),
            DType::BF16 => each_block(bytes, out, bf16::dequantise),
            DType::Q4_0 => each_block(bytes, out, q4_0::dequantise),
            DType::Q4_1 => each_block(bytes, out, q4_1::dequantise),
            DType::Q5_0 => each_block(bytes, out, q5_0::dequantise),
            DType::Q5_1 => each_block(bytes, out, q5_1::dequantise),
            DType::Q8_0 => each_block(bytes, out, q8_0::dequantise),
            DType::Q2_K => each_block(bytes, out, q2_k::dequantise),
            DType::Q3_K => each_block(bytes, out, q3_k::dequantise),
            DType::Q4_K => each_block(bytes, out, q4_k::dequantise),
            DType::Q5_K => each_block(bytes, out, q5_k::dequantise),
            DType::Q6_K => each_block(bytes, out, q6_k::dequantise),
            _ => return Err(QuantError::Unsupported { dtype: self }),
        }
        Ok(())
    }
}

#[inline(always)]
fn each_block<const BYTES: usize, const LEN: usize>(
    bytes: &[u8],
    out: &mut [f32],
    dequantise: impl Fn(&[u8; BYTES], &mut [f32; LEN]),
) {
    let (blocks, _) = bytes.as_chunks::<BYTES>();
    let (values, _) = out.as_chunks_mut::<LEN>();
    blocks.iter().zip(values).for_each(|(block, values)| dequantise(block, values));
}

/// `[BYTES]` of `block` from `at`: for fields at constant places of a block.
#[inline(always)]
fn field<const BYTES: usize>(block: &[u8], at: usize) -> &[u8; BYTES] {
    block[at..].first_chunk().expect("a field lies inside its block")
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Debug for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_supported_type_decodes_and_others_say_so() {
        for &dtype in DType::ALL {
            let bytes = vec![0; dtype.block_bytes()];
            let mut out = vec![1.0; dtype.block_len()];
            let result = dtype.dequantise(&bytes, &mut out);
            assert_eq!(result.is_ok(), dtype.is_supported(), "{dtype}");
            if let Err(error) = result {
                let text = error.to_string();
                assert!(text.contains(dtype.name()) && text.contains("Q4_K"), "{text}");
            }
        }
    }

    #[test]
    fn lengths_are_checked() {
        let mut out = [0.0; 31];
        let error = DType::Q8_0.dequantise(&[0; 34], &mut out).unwrap_err();
        assert_eq!(error.to_string(), "34 bytes of Q8_0 do not hold 31 values (whole blocks of 32 values in 34 bytes)");
        assert!(DType::Q4_K.dequantise(&[0; 144], &mut [0.0; 512]).is_err());
    }
}
