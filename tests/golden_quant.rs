//! Every supported quant format in whole models: exact with F32 activations, near the peer with quantised ones.

mod common;

use common::{Client, cpus, golden, golden_f32, golden_json, ids, nmse, options};
use layercake::devices::cpu::matmul::ActivationFormat;
use layercake::engine::kv::KvType;

const EXACT_NMSE: f64 = 1e-9;
const PEER_NMSE: f64 = 3e-3;
const PEER_MOE_MEDIAN_NMSE: f64 = 5e-3;
const N_VOCAB: usize = 320;
/// Positions at the end of the prompt that the peer's logits cover.
const N_PEER: usize = 8;

/// File types all of whose tensors are of supported types.
const TYPES: &[&str] = &[
    "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K_S", "Q3_K_M", "Q3_K_L", "Q4_K_S", "Q4_K_M",
    "Q5_K_S", "Q5_K_M", "Q6_K",
];
const MOE_TYPES: &[&str] = &["Q2_K", "Q3_K_M", "Q4_0", "Q4_K_M", "Q5_K_M", "Q6_K"];

fn logits(base: &str, quant: &str, activations: ActivationFormat, prompt: &[u32]) -> Vec<f32> {
    let path = golden(&format!("quant/{base}-{quant}.gguf"));
    Client::loaded(cpus(1, activations), options(path, KvType::F32, None)).logits(prompt)
}

#[test]
fn exact_with_f32_activations() {
    for (base, types) in [("llama256", TYPES), ("qwen3moe256", MOE_TYPES)] {
        let prompt = ids(&golden_json(&format!("quant/{base}.json"))["prompt"]);
        for quant in types {
            let actual = logits(base, quant, ActivationFormat::F32, &prompt);
            let error = nmse(&actual, &golden_f32(&format!("quant/{base}-{quant}.exact.f32")));
            assert!(error < EXACT_NMSE, "{base} {quant}: NMSE {error}");
        }
    }
}

#[test]
fn dense_near_the_peer_with_quantised_activations() {
    let prompt = ids(&golden_json("quant/llama256.json")["prompt"]);
    for quant in TYPES {
        let actual = logits("llama256", quant, ActivationFormat::Int8, &prompt);
        let peer = golden_f32(&format!("quant/llama256-{quant}.peer8.f32"));
        let error = nmse(&actual[actual.len() - N_PEER * N_VOCAB..], &peer);
        assert!(error < PEER_NMSE, "{quant}: NMSE {error}");
    }
}

#[test]
fn moe_near_the_peer_with_quantised_activations() {
    let manifest = golden_json("quant/qwen3moe256.json");
    let prompt = ids(&manifest["prompt"]);
    for quant in MOE_TYPES {
        let actual = logits("qwen3moe256", quant, ActivationFormat::Int8, &prompt);
        let peer = golden_f32(&format!("quant/qwen3moe256-{quant}.peer8.f32"));
        let flipped = ids(&manifest["types"][quant]["router_flip_positions"]);
        let first = prompt.len() - N_PEER;
        let rows = actual[first * N_VOCAB..].chunks(N_VOCAB).zip(peer.chunks(N_VOCAB)).enumerate();
        let mut errors: Vec<_> = rows
            .filter(|(row, _)| !flipped.contains(&((first + row) as u32)))
            .map(|(_, (actual, peer))| nmse(actual, peer))
            .collect();
        errors.sort_by(f64::total_cmp);
        let median = errors[errors.len() / 2];
        assert!(median < PEER_MOE_MEDIAN_NMSE, "{quant}: {errors:?}");
    }
}
