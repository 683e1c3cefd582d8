//! What a header says of its model.

use serde::Serialize;

use super::one_line;
use crate::engine::gguf::Gguf;
use crate::engine::quant_name::quant_name;

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
        ModelFacts {
            name: text("general.name").unwrap_or_else(|| one_line(&file_name())),
            arch: one_line(arch),
            quant: quant_name(gguf),
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
