//! Made models are what they claim to be: loadable, of the scale promised, the same for the same seed.

use super::*;
use crate::engine::gguf::testing::golden;
use crate::engine::gguf::{Gguf, Shape};
use half::{bf16, f16};
use std::collections::BTreeSet;

const MADE: [DType; 13] = [
    DType::F32,
    DType::F16,
    DType::BF16,
    DType::Q4_0,
    DType::Q4_1,
    DType::Q5_0,
    DType::Q5_1,
    DType::Q8_0,
    DType::Q2_K,
    DType::Q3_K,
    DType::Q4_K,
    DType::Q5_K,
    DType::Q6_K,
];

fn half_at(block: &[u8], at: usize) -> f32 {
    f16::from_le_bytes([block[at], block[at + 1]]).to_f32()
}

/// Scale and minimum `j` of Q4_K and Q5_K.
fn k_scale(s: &[u8], j: usize) -> (f32, f32) {
    let (scale, min) = match j {
        0..4 => (s[j] & 63, s[j + 4] & 63),
        _ => ((s[j + 4] & 15) | (s[j - 4] >> 6) << 4, (s[j + 4] >> 4) | (s[j] >> 6) << 4),
    };
    (scale.into(), min.into())
}

/// Element `i` of a block, one at a time and plainly.
fn element(dtype: DType, b: &[u8], i: usize) -> f32 {
    let nibble = |at: usize| f32::from(if i < 16 { b[at + i] & 15 } else { b[at + i - 16] >> 4 });
    let fifth = |at: usize| f32::from((b[at + i / 8] >> (i % 8)) & 1) * 16.0;
    match dtype {
        DType::F32 => f32::from_le_bytes([b[0], b[1], b[2], b[3]]),
        DType::F16 => half_at(b, 0),
        DType::BF16 => bf16::from_le_bytes([b[0], b[1]]).to_f32(),
        DType::Q4_0 => half_at(b, 0) * (nibble(2) - 8.0),
        DType::Q4_1 => half_at(b, 0) * nibble(4) + half_at(b, 2),
        DType::Q5_0 => half_at(b, 0) * (nibble(6) + fifth(2) - 16.0),
        DType::Q5_1 => half_at(b, 0) * (nibble(8) + fifth(4)) + half_at(b, 2),
        DType::Q8_0 => half_at(b, 0) * f32::from(b[2 + i] as i8),
        DType::Q2_K => {
            let scale = b[i / 16];
            let q = (b[16 + i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2)) & 3;
            half_at(b, 80) * f32::from(scale & 15) * f32::from(q) - half_at(b, 82) * f32::from(scale >> 4)
        }
        DType::Q3_K => {
            let j = i / 16;
            let low = if j < 8 { b[96 + j] & 15 } else { b[96 + j - 8] >> 4 };
            let scale = low | ((b[104 + j % 4] >> (j / 4 * 2)) & 3) << 4;
            let q = (b[32 + i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2)) & 3;
            let high = (b[i % 32] >> (i / 32)) & 1;
            half_at(b, 108) * (f32::from(scale) - 32.0) * (f32::from(q) - if high == 1 { 0.0 } else { 4.0 })
        }
        DType::Q4_K | DType::Q5_K => {
            let (scale, min) = k_scale(&b[4..16], i / 32);
            let n_high_bytes = if dtype == DType::Q5_K { 32 } else { 0 };
            let byte = b[16 + n_high_bytes + i / 64 * 32 + i % 32];
            let mut q = f32::from(if i % 64 < 32 { byte & 15 } else { byte >> 4 });
            if dtype == DType::Q5_K {
                q += f32::from((b[16 + i % 32] >> (i / 32)) & 1) * 16.0;
            }
            half_at(b, 0) * scale * q - half_at(b, 2) * min
        }
        DType::Q6_K => {
            let (part, j) = (i / 128, i % 128);
            let low = b[part * 64 + j % 64] >> (j / 64 * 4) & 15;
            let high = b[128 + part * 32 + j % 32] >> (j / 32 * 2) & 3;
            let q = f32::from(low | high << 4) - 32.0;
            half_at(b, 208) * f32::from(b[192 + i / 16] as i8) * q
        }
        _ => panic!("{dtype} is not made"),
    }
}

fn dequantise(dtype: DType, bytes: &[u8]) -> Vec<f32> {
    let blocks = bytes.chunks_exact(dtype.block_bytes());
    blocks.flat_map(|block| (0..dtype.block_len()).map(move |i| element(dtype, block, i))).collect()
}

fn tensor(dtype: DType, dims: &[u64]) -> SynthTensor {
    SynthTensor { name: "blk.0.ffn_up.weight".into(), shape: Shape::new(dims).unwrap(), dtype, fill: Fill::Weight }
}

fn filled(tensor: &SynthTensor, seed: u64) -> Vec<u8> {
    let mut bytes = vec![0; tensor.n_bytes() as usize];
    fill_tensor(tensor, seed, 0, &mut bytes).unwrap();
    bytes
}

fn mean_and_std(x: &[f32]) -> (f64, f64) {
    let n = x.len() as f64;
    let mean = x.iter().map(|&x| f64::from(x)).sum::<f64>() / n;
    let variance = x.iter().map(|&x| (f64::from(x) - mean).powi(2)).sum::<f64>() / n;
    (mean, variance.sqrt())
}

/// The scale tests below stand on `element`, so that it is tested too.
#[test]
fn elements_are_those_of_the_golden_blocks() {
    for dtype in MADE.into_iter().filter(|&dtype| dtype != DType::F32) {
        let blocks = std::fs::read(golden(&format!("blocks/{dtype}.blocks.bin"))).unwrap();
        let wanted = std::fs::read(golden(&format!("blocks/{dtype}.f32"))).unwrap();
        let wanted: Vec<f32> = wanted.as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect();
        let found = dequantise(dtype, &blocks);
        assert_eq!(found.len(), wanted.len(), "{dtype}");
        for (i, (found, wanted)) in found.iter().zip(&wanted).enumerate() {
            assert!((found - wanted).abs() <= wanted.abs() * 1e-5 + 1e-6, "{dtype}[{i}]: {found} {wanted}");
        }
    }
}

#[test]
fn weights_have_mean_zero_and_the_scale_of_their_row() {
    for dtype in MADE {
        for n_in in [256u64, 4096] {
            let weights = dequantise(dtype, &filled(&tensor(dtype, &[n_in, 524_288 / n_in]), 7));
            let wanted = 1.0 / (n_in as f64).sqrt();
            let (mean, std) = mean_and_std(&weights);
            assert!((std / wanted - 1.0).abs() < 0.02, "{dtype}, {n_in}: {std} is not {wanted}");
            assert!(mean.abs() < 0.01 * wanted, "{dtype}, {n_in}: mean {mean} of std {std}");
            // Rows differ, and each has that scale: no block is far off.
            for row in weights.chunks(256) {
                let (_, std) = mean_and_std(row);
                assert!((0.4..2.0).contains(&(std / wanted)), "{dtype}, {n_in}: a row of std {std}, not {wanted}");
            }
        }
    }
}

#[test]
fn any_piece_is_a_piece_of_the_whole() {
    for dtype in MADE {
        let tensor = tensor(dtype, &[256, 24]);
        let whole = filled(&tensor, 3);
        let block_bytes = dtype.block_bytes();
        let n_blocks = tensor.n_blocks() as usize;
        for (first, n) in [(0, 1), (1, 1), (5, 7), (n_blocks - 1, 1), (n_blocks / 2 + 1, n_blocks / 3)] {
            let mut piece = vec![0; n * block_bytes];
            fill_tensor(&tensor, 3, first as u64, &mut piece).unwrap();
            assert!(piece == whole[first * block_bytes..][..n * block_bytes], "{dtype}: {n} blocks from {first}");
        }
    }
}

#[test]
fn the_seed_and_the_name_decide() {
    let weights = tensor(DType::Q4_K, &[256, 2]);
    let other_name = SynthTensor { name: "blk.1.ffn_up.weight".into(), ..weights.clone() };
    assert_eq!(filled(&weights, 1), filled(&weights, 1));
    assert_ne!(filled(&weights, 1), filled(&weights, 2));
    assert_ne!(filled(&weights, 1), filled(&other_name, 1));
}

#[test]
fn wrong_requests_are_errors() {
    let weights = tensor(DType::Q4_K, &[256, 2]);
    let error = fill_tensor(&weights, 1, 0, &mut [0; 145]).unwrap_err();
    assert_eq!(error.to_string(), "145 bytes are no whole number of Q4_K blocks of 144 bytes");
    let error = fill_tensor(&tensor(DType::IQ1_S, &[256]), 1, 0, &mut [0; 50]).unwrap_err();
    assert_eq!(error.to_string(), "random weights cannot be made as IQ1_S");
    let error = SynthShape::from_name("gpt-5").unwrap_err().to_string();
    assert!(error.starts_with("no model shape is named \"gpt-5\"; known are llama-3-8b, llama-3-1b, "), "{error}");
    let error = SynthQuant::from_name("Q9").unwrap_err().to_string();
    assert!(error.contains("known are F32, F16, Q4_0,") && error.ends_with("Q4_K_S, Q4_K_M, Q5_K_M, Q6_K"), "{error}");
    assert_eq!(SynthQuant::from_name("q4_k_m").unwrap(), SynthQuant::Mix(Mix::Q4_K_M));
}

#[test]
fn every_tiny_model_loads_in_every_quantisation() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tiny.gguf");
    for shape in shapes().iter().filter(|shape| shape.name.starts_with("tiny")) {
        for name in SynthQuant::names() {
            let quant = SynthQuant::from_name(name).unwrap();
            let mut last = (0, 0);
            let report = write(shape, quant, 1, &path, &mut |done, total| {
                assert!(done > last.0 && done <= total);
                last = (done, total);
                ControlFlow::Continue(())
            });
            let report = report.unwrap_or_else(|error| panic!("{} {name}: {error}", shape.name));
            let gguf = Gguf::open(&path).unwrap_or_else(|error| panic!("{} {name}: {error}", shape.name));
            assert_eq!(last, (report.file_bytes, report.file_bytes));
            assert_eq!((gguf.file_bytes(), gguf.tensors().len()), (report.file_bytes, report.n_tensors));
            for (tensor, made) in gguf.tensors().iter().zip(tensors(shape, quant)) {
                assert_eq!((&tensor.name, tensor.dtype), (&made.name, made.dtype));
                let compared = matches!(quant, SynthQuant::Mix(_)) || quant == SynthQuant::Pure(DType::F16);
                assert!(!compared || gguf.data(tensor) == filled(&made, 1), "{} {name}: {}", shape.name, tensor.name);
            }
        }
    }
}

/// Tensor names with the number of the layer left out.
fn kinds<'a>(names: impl Iterator<Item = &'a str>) -> BTreeSet<String> {
    names
        .map(|name| match name.strip_prefix("blk.").and_then(|rest| rest.split_once('.')) {
            Some((_, part)) => format!("blk.*.{part}"),
            None => name.to_string(),
        })
        .collect()
}

#[test]
fn names_and_keys_are_those_of_the_golden_models() {
    for (ours, golden_name) in [
        ("tiny-llama", "llama"),
        ("tiny-llama3", "llama3-ropefreqs"),
        ("tiny-llama-moe", "llama-moe"),
        ("tiny-qwen2", "qwen2"),
        ("tiny-qwen3", "qwen3"),
        ("tiny-qwen3moe", "qwen3moe"),
        ("tiny-minimax-m2", "minimax-m2"),
    ] {
        let gguf = Gguf::open(&golden(&format!("models/{golden_name}.gguf"))).unwrap();
        let shape = SynthShape::from_name(ours).unwrap();
        let quant = SynthQuant::Pure(DType::F32);
        let mut made = kinds(tensors(shape, quant).iter().map(|tensor| tensor.name.as_str()));
        let wanted = kinds(gguf.tensors().iter().map(|tensor| tensor.name.as_str()));
        if gguf.tensor("output.weight").is_none() {
            // Some golden models tie their head where the shape of ours does not.
            made.remove("output.weight");
        }
        assert_eq!(made, wanted, "{ours}");
        let keys: BTreeSet<String> = metadata(shape, quant).into_iter().map(|(key, _)| key).collect();
        for (key, value) in gguf.metadata().iter() {
            assert!(keys.contains(key), "{ours} lacks {key}");
            let (_, made) = metadata(shape, quant).into_iter().find(|(made, _)| made == key).unwrap();
            assert_eq!(made.value_type(), value.value_type(), "{ours} {key}");
        }
    }
}

#[test]
fn mixtures_are_those_of_llama_cpp() {
    let tiny = |name| SynthShape { n_layer: 1, ..*SynthShape::from_name(name).unwrap() };
    let moe = tiny("tiny-qwen3moe");
    let moe = SynthShape { tied_head: true, experts: moe.experts.map(|e| Experts { n_expert: 4, ..e }), ..moe };
    for (base, shape) in [("llama256", tiny("tiny-llama")), ("qwen3moe256", moe)] {
        let manifest = std::fs::read(golden(&format!("quant/{base}.json"))).unwrap();
        let manifest: serde_json::Value = serde_json::from_slice(&manifest).unwrap();
        for name in ["Q4_K_S", "Q4_K_M", "Q5_K_M", "Q6_K"] {
            let Some(wanted) = manifest["types"][name]["tensor_types"].as_object() else {
                assert_eq!((base, name), ("qwen3moe256", "Q4_K_S"), "no golden types");
                continue;
            };
            let made = tensors(&shape, SynthQuant::from_name(name).unwrap());
            assert_eq!(made.len(), wanted.len());
            for tensor in made {
                assert_eq!(wanted[&tensor.name], tensor.dtype.name(), "{base} {name} {}", tensor.name);
            }
        }
    }
}

#[test]
fn rows_that_fill_no_large_blocks_get_small_ones() {
    let shape = SynthShape::from_name("smollm2-135m").unwrap();
    let dtype = |name: &str, quant: &str| {
        let tensors = tensors(shape, SynthQuant::from_name(quant).unwrap());
        tensors.into_iter().find(|tensor| tensor.name == name).unwrap().dtype
    };
    // 576 wide, except for ffn_down, which is 1536.
    assert_eq!(dtype("token_embd.weight", "Q4_K_M"), DType::Q8_0);
    assert_eq!(dtype("blk.3.attn_q.weight", "Q4_K_M"), DType::Q5_0);
    assert_eq!(dtype("blk.3.ffn_down.weight", "Q4_K_S"), DType::Q4_K);
    assert_eq!(dtype("blk.3.attn_q.weight", "Q4_0"), DType::Q4_0);
}

#[test]
fn real_shapes_have_the_parameters_their_names_say() {
    for (name, billions) in [
        ("llama-3-8b", 8.03),
        ("llama-3-1b", 1.236),
        ("llama-3-70b", 70.55),
        ("smollm2-135m", 0.1345),
        ("mixtral-8x7b", 46.7),
        ("qwen2.5-0.5b", 0.494),
        ("qwen3-0.6b", 0.596),
        ("qwen3-8b", 8.19),
        ("qwen3-30b-a3b", 30.53),
        ("minimax-m2", 228.7),
    ] {
        let tensors = tensors(SynthShape::from_name(name).unwrap(), SynthQuant::Pure(DType::F16));
        let n: u64 = tensors.iter().map(|tensor| tensor.shape.n_elements()).sum();
        assert!((n as f64 / 1e9 / billions - 1.0).abs() < 0.003, "{name} has {n} parameters, not {billions} billion");
    }
}

#[test]
fn a_stopped_model_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.gguf");
    let shape = SynthShape::from_name("tiny-llama").unwrap();
    let quant = SynthQuant::Pure(DType::F32);
    let stopped = write(shape, quant, 1, &path, &mut |_, _| ControlFlow::Break(()));
    assert!(matches!(stopped, Err(SynthError::Stopped)));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);

    let nowhere = folder.path().join("absent/m.gguf");
    let error = write(shape, quant, 1, &nowhere, &mut |_, _| ControlFlow::Continue(())).unwrap_err();
    assert!(error.to_string().ends_with("absent/m.gguf.part: No such file or directory (os error 2)"), "{error}");
}
