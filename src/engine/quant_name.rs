//! The name of a file's quantisation, as its maker gives it.

use std::collections::BTreeMap;

use crate::devices::quant::DType;
use crate::engine::gguf::Gguf;

/// Values of `general.file_type`: llama.cpp's mixtures, by their numbers there (`llama_ftype` in `llama.h`).
/// Numbers that are missing were removed from the format.
const FILE_TYPES: [(u32, &str); 35] = [
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

/// Of `general.file_type`, else the type that most of the file's bytes have.
pub fn quant_name(gguf: &Gguf) -> String {
    let number = gguf.metadata().opt_u32("general.file_type").ok().flatten();
    let types = gguf.tensors().iter().map(|t| (t.dtype, t.n_bytes));
    name_of(number, types).to_owned()
}

fn name_of(file_type: Option<u32>, tensors: impl Iterator<Item = (DType, u64)>) -> &'static str {
    if let Some((_, name)) = FILE_TYPES.iter().find(|(number, _)| Some(*number) == file_type) {
        return name;
    }
    let mut n_bytes = BTreeMap::<u32, (DType, u64)>::new();
    for (dtype, n) in tensors {
        let sum = &mut n_bytes.entry(dtype.id()).or_insert((dtype, 0)).1;
        *sum = sum.saturating_add(n);
    }
    n_bytes.values().max_by_key(|(_, n)| *n).map_or("no tensors", |(dtype, _)| dtype.name())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_word_counts_and_else_its_bytes() {
        let tensors = [(DType::F32, 10), (DType::Q4_0, 60), (DType::F16, 50), (DType::F32, 45)];
        assert_eq!(name_of(Some(15), tensors.into_iter()), "Q4_K_M");
        assert_eq!(name_of(Some(999), tensors.into_iter()), "Q4_0");
        assert_eq!(name_of(None, tensors.into_iter()), "Q4_0");
        assert_eq!(name_of(None, [].into_iter()), "no tensors");
        assert!(FILE_TYPES.is_sorted_by_key(|(number, _)| number));
    }
}
