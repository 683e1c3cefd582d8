//! What a header says of its model.

use std::collections::HashMap;

use serde::Serialize;

use super::one_line;
use crate::devices::quant::DType;
use crate::engine::gguf::Gguf;

/// Of a model, as its file says. What the file does not say, or says in a wrong type, is `None`.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ModelFacts {
    /// `general.name`, else the file's name.
    pub name: String,
    /// `general.architecture`, whether it can be run or not; empty where the file has none.
    pub arch: String,
    /// The mixture of tensor types that `general.file_type` stands for, such as `Q4_K_M`; else the tensor type that
    /// takes most bytes.
    pub quant: String,
    /// `general.size_label`, such as `8x7B`.
    pub size_label: Option<String>,
    /// Elements of all tensors.
    pub n_params: u64,
    /// `<arch>.block_count`
    pub n_layer: Option<u32>,
    /// `<arch>.context_length`
    pub n_ctx_train: Option<u32>,
    /// `<arch>.expert_count`, where it has experts.
    pub n_expert: Option<u32>,
    /// `<arch>.expert_used_count`, where it has experts.
    pub n_expert_used: Option<u32>,
    pub file_bytes: u64,
}

impl ModelFacts {
    pub fn from_gguf(gguf: &Gguf) -> ModelFacts {
        let metadata = gguf.metadata();
        let text =
            |key: &str| metadata.opt_str(key).ok().flatten().map(one_line).filter(|text| !text.trim().is_empty());
        let number = |key: &str| metadata.opt_u32(key).ok().flatten();
        let arch = metadata.opt_str("general.architecture").ok().flatten().unwrap_or_default();
        let of_arch = |suffix: &str| number(&format!("{arch}.{suffix}"));
        let file_name = || gguf.paths().first().and_then(|p| p.file_stem()).unwrap_or_default().to_string_lossy();
        let file_type = number("general.file_type").and_then(file_type_name);
        ModelFacts {
            name: text("general.name").unwrap_or_else(|| one_line(&file_name())),
            arch: one_line(arch),
            quant: file_type.or_else(|| commonest_type(gguf).map(DType::name)).unwrap_or("no tensors").to_owned(),
            size_label: text("general.size_label"),
            n_params: gguf.tensors().iter().fold(0, |sum: u64, t| sum.saturating_add(t.shape.n_elements())),
            n_layer: of_arch("block_count"),
            n_ctx_train: of_arch("context_length"),
            n_expert: of_arch("expert_count").filter(|&n| n > 0),
            n_expert_used: of_arch("expert_used_count").filter(|&n| n > 0),
            file_bytes: gguf.file_bytes(),
        }
    }
}

/// The tensor type that takes most bytes.
fn commonest_type(gguf: &Gguf) -> Option<DType> {
    let mut bytes_of: HashMap<DType, u64> = HashMap::new();
    for tensor in gguf.tensors() {
        let sum = bytes_of.entry(tensor.dtype).or_default();
        *sum = sum.saturating_add(tensor.n_bytes);
    }
    bytes_of.into_iter().max_by_key(|&(dtype, n_bytes)| (n_bytes, dtype)).map(|(dtype, _)| dtype)
}

/// The names of the values of `general.file_type`; numbers that are missing were removed from the format.
/// Source: `enum llama_ftype` in llama.cpp's `include/llama.h`.
const FILE_TYPES: &[(u32, &str)] = &[
    (0, "F32"),
    (1, "F16"),
    (2, "Q4_0"),
    (3, "Q4_1"),
    (7, "Q8_0"),
    (8, "Q5_0"),
    (9, "Q5_1"),
    (10, "Q2_K"),
    (11, "Q3_K_S"),
    (12, "Q3_K_M"),
    (13, "Q3_K_L"),
    (14, "Q4_K_S"),
    (15, "Q4_K_M"),
    (16, "Q5_K_S"),
    (17, "Q5_K_M"),
    (18, "Q6_K"),
    (19, "IQ2_XXS"),
    (20, "IQ2_XS"),
    (21, "Q2_K_S"),
    (22, "IQ3_XS"),
    (23, "IQ3_XXS"),
    (24, "IQ1_S"),
    (25, "IQ4_NL"),
    (26, "IQ3_S"),
    (27, "IQ3_M"),
    (28, "IQ2_S"),
    (29, "IQ2_M"),
    (30, "IQ4_XS"),
    (31, "IQ1_M"),
    (32, "BF16"),
    (36, "TQ1_0"),
    (37, "TQ2_0"),
    (38, "MXFP4"),
    (39, "NVFP4"),
    (40, "Q1_0"),
];

fn file_type_name(file_type: u32) -> Option<&'static str> {
    FILE_TYPES.iter().find(|(number, _)| *number == file_type).map(|(_, name)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_types_are_named_and_unknown_ones_are_not_guessed() {
        assert_eq!(file_type_name(15), Some("Q4_K_M"));
        assert_eq!(file_type_name(5), None);
        assert_eq!(file_type_name(1024), None);
        assert!(FILE_TYPES.is_sorted_by_key(|(number, _)| number));
    }
}
