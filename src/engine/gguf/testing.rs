//! What the tests of this folder share.

use super::{Array, GgufBuilder, StrArray, Value};
use crate::devices::quant::DType;
use std::path::{Path, PathBuf};

/// A path in the golden data.
pub(crate) fn golden(path: &str) -> PathBuf {
    let root = std::env::var_os("LAYERCAKE_GOLDEN")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/golden"), PathBuf::from);
    root.join(path)
}

/// A small valid file with every kind of value and several tensors.
pub(crate) fn sample() -> Vec<u8> {
    let words: StrArray = ["a", "bc", ""].iter().collect();
    let mut builder = GgufBuilder::new();
    builder
        .set("general.architecture", "llama")
        .set("u8", 1u8)
        .set("i8", -1i8)
        .set("u16", 2u16)
        .set("i16", -2i16)
        .set("u32", 3u32)
        .set("i32", -3i32)
        .set("f32", 0.5f32)
        .set("bool", true)
        .set("u64", 4u64)
        .set("i64", -4i64)
        .set("f64", 0.25f64)
        .set("words", words)
        .set("numbers", vec![1i32, 2, 3])
        .set("nested", Value::Array(Array::Array(vec![Array::U8(vec![1, 2]), Array::Array(vec![])])));
    let mut data = Vec::new();
    for (name, dims, dtype) in [
        ("token_embd.weight", &[32, 4][..], DType::Q8_0),
        ("blk.0.attn_norm.weight", &[32], DType::F32),
        ("blk.0.ffn_gate_exps.weight", &[32, 2, 3], DType::Q4_0),
    ] {
        builder.tensor(name, dims, dtype).unwrap();
        data.push(vec![7; dtype.bytes_of(dims.iter().product()).unwrap() as usize]);
    }
    let mut writer = builder.start(Vec::new()).unwrap();
    for data in data {
        writer.write(&data).unwrap();
    }
    writer.finish().unwrap()
}
