//! Tiny models of each architecture against the golden logits, on one device and split over three.

mod common;

use common::{Client, cpus, golden, golden_f32, golden_json, greedy, ids, max_abs, nmse, options};
use layercake::devices::cpu::matmul::ActivationFormat;
use layercake::engine::kv::KvType;

const NMSE: f64 = 1e-9;
const MAX_ABS: f32 = 1e-3;

fn check(name: &str) {
    let manifest = golden_json(&format!("models/{name}.json"));
    let expected = &manifest["golden"];
    let prompt = ids(&expected["prompt"]);
    let path = golden(&format!("models/{name}.gguf"));
    let mut one = Client::loaded(cpus(1, ActivationFormat::Int8), options(&path, KvType::F32, None));

    let logits = one.logits(&prompt);
    let golden_logits = golden_f32(&format!("models/{name}.logits.f32"));
    assert!(nmse(&logits, &golden_logits) < NMSE, "{name}: NMSE {}", nmse(&logits, &golden_logits));
    assert!(max_abs(&logits, &golden_logits) < MAX_ABS, "{name}: {}", max_abs(&logits, &golden_logits));

    let answer = one.generate(greedy(prompt.clone(), 16));
    assert_eq!(answer.ids, ids(&expected["greedy_ids"]), "{name}");

    if let Some(long) = expected.get("long") {
        let logits = one.logits(&ids(&long["prompt"]));
        let golden_logits = golden_f32(&format!("models/{name}.long.logits.f32"));
        let tail = &logits[logits.len() - golden_logits.len()..];
        assert!(nmse(tail, &golden_logits) < NMSE, "{name} long: NMSE {}", nmse(tail, &golden_logits));
    }

    // Embedding, attention, FFN and head in three places, hopping within a layer.
    let placement = "cpu0=embed,ffn:0; cpu1=attn:0-1; cpu2=ffn:1,head";
    let n_layer = manifest["metadata"].as_object().unwrap().iter().find(|(k, _)| k.ends_with("block_count")).unwrap();
    let placement = match n_layer.1.as_u64().unwrap() {
        2 => placement.to_owned(),
        _ => format!("{placement}; cpu1=2"),
    };
    let mut three = Client::loaded(cpus(3, ActivationFormat::Int8), options(&path, KvType::F32, Some(&placement)));
    let split = three.logits(&prompt);
    let same = split.iter().zip(&logits).all(|(a, b)| a.to_bits() == b.to_bits());
    assert!(same && split.len() == logits.len(), "{name}: a split changes the logits");
}

#[test]
fn llama() {
    check("llama");
}

#[test]
fn llama3_ropefreqs() {
    check("llama3-ropefreqs");
}

#[test]
fn llama_moe() {
    check("llama-moe");
}

#[test]
fn qwen2() {
    check("qwen2");
}

#[test]
fn qwen3() {
    check("qwen3");
}

#[test]
fn qwen3moe() {
    check("qwen3moe");
}

#[test]
fn minimax_m2() {
    check("minimax-m2");
}

#[test]
fn shards_are_one_model() {
    let prompt = ids(&golden_json("models/llama.json")["golden"]["prompt"]);
    let path = golden("shards/llama-shard-00002-of-00003.gguf");
    let logits = Client::loaded(cpus(1, ActivationFormat::Int8), options(path, KvType::F32, None)).logits(&prompt);
    assert!(nmse(&logits, &golden_f32("models/llama.logits.f32")) < NMSE);
}

/// Rounding of the cache to F16 and Q8_0 must stay rounding.
#[test]
fn kv_types() {
    let prompt = ids(&golden_json("models/llama.json")["golden"]["prompt"]);
    let expected = golden_f32("models/llama.logits.f32");
    for (kv, bound) in [(KvType::F16, 1e-5), (KvType::Q8_0, 5e-4)] {
        let options = options(golden("models/llama.gguf"), kv, None);
        let logits = Client::loaded(cpus(1, ActivationFormat::Int8), options).logits(&prompt);
        let error = nmse(&logits, &expected);
        assert!(error < bound && error > 0.0, "{kv}: {error}");
    }
}
