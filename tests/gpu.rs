//! Models on GPUs and over GPUs and the CPU together, against the golden logits; live moves between kinds of devices.

mod common;
#[path = "common/gpu.rs"]
mod gpu;

use std::sync::Arc;

use common::{Client, cpus, golden, golden_f32, golden_json, greedy, ids, max_abs, nmse, options};
use layercake::devices::cpu::matmul::ActivationFormat;
use layercake::devices::{Device, DeviceKind};
use layercake::engine::kv::KvType;
use layercake::engine::protocol::{ChangeState, Command, Event, RequestId, When};

/// Weights of the golden models are F32 and F16: nothing is rounded to 8 bits.
const NMSE: f64 = 1e-9;
const MAX_ABS: f32 = 1e-3;
const MODELS: [&str; 7] = ["llama", "llama3-ropefreqs", "llama-moe", "qwen2", "qwen3", "qwen3moe", "minimax-m2"];

/// A CPU device beside the first GPU of each kind.
fn mixed() -> Vec<Arc<dyn Device>> {
    gpu::one_of_each().into_iter().chain(cpus(1, ActivationFormat::F32)).collect()
}

fn check(name: &str, what: &str, devices: Vec<Arc<dyn Device>>, placement: &str) {
    let expected = &golden_json(&format!("models/{name}.json"))["golden"];
    let prompt = ids(&expected["prompt"]);
    let path = golden(&format!("models/{name}.gguf"));
    let mut client = Client::loaded(devices, options(&path, KvType::F32, Some(placement)));
    let logits = client.logits(&prompt);
    let golden_logits = golden_f32(&format!("models/{name}.logits.f32"));
    let (error, worst) = (nmse(&logits, &golden_logits), max_abs(&logits, &golden_logits));
    assert!(error < NMSE && worst < MAX_ABS, "{name} on {what}: NMSE {error}, worst {worst}");
    assert_eq!(client.generate(greedy(prompt, 16)).ids, ids(&expected["greedy_ids"]), "{name} on {what}");
    if let Some(long) = expected.get("long") {
        let logits = client.logits(&ids(&long["prompt"]));
        let golden_logits = golden_f32(&format!("models/{name}.long.logits.f32"));
        let error = nmse(&logits[logits.len() - golden_logits.len()..], &golden_logits);
        assert!(error < NMSE, "{name} long on {what}: NMSE {error}");
    }
}

#[test]
fn golden_logits_on_each_gpu() {
    for gpu in gpu::one_of_each() {
        let id = gpu.facts().id;
        for name in MODELS {
            check(name, &id.to_string(), vec![gpu.clone()], &format!("{id}=all"));
        }
    }
}

#[test]
fn golden_logits_split_between_attention_and_ffn() {
    for gpu in gpu::one_of_each() {
        let id = gpu.facts().id;
        for name in MODELS {
            let devices = [vec![gpu.clone()], cpus(1, ActivationFormat::F32)].concat();
            let placement = format!("cpu0=embed,ffn:0; {id}=attn:0-1; cpu0=ffn:1; {id}=head");
            let n_layer = n_layer(name);
            let placement = if n_layer == 2 { placement } else { format!("{placement}; {id}=2-{}", n_layer - 1) };
            check(name, &format!("cpu0 and {id}"), devices, &placement);
        }
    }
}

/// With both vendors' GPUs: one model over all three kinds of devices.
#[test]
fn golden_logits_over_all_kinds() {
    let devices = mixed();
    let all: Vec<_> = devices.iter().map(|d| d.facts().id.to_string()).collect();
    let of = |i: usize| &all[i % all.len()];
    for name in MODELS {
        let layers: Vec<_> = (0..n_layer(name)).map(|l| format!("{}={l}", of(1 + l as usize))).collect();
        let placement = format!("{}=embed,head; {}", of(0), layers.join("; "));
        check(name, &placement, devices.clone(), &placement);
    }
}

fn n_layer(name: &str) -> u64 {
    let manifest = golden_json(&format!("models/{name}.json"));
    let metadata = manifest["metadata"].as_object().unwrap();
    metadata.iter().find(|(key, _)| key.ends_with("block_count")).unwrap().1.as_u64().unwrap()
}

#[test]
fn kv_types() {
    let prompt = ids(&golden_json("models/llama.json")["golden"]["prompt"]);
    let expected = golden_f32("models/llama.logits.f32");
    for gpu in gpu::one_of_each() {
        for (kv, bound) in [(KvType::F16, 1e-5), (KvType::Q8_0, 5e-4)] {
            let options = options(golden("models/llama.gguf"), kv, None);
            let logits = Client::loaded(vec![gpu.clone()], options).logits(&prompt);
            let error = nmse(&logits, &expected);
            assert!(error < bound && error > 0.0, "{kv} on {}: {error}", gpu.facts().id);
        }
    }
}

/// What is planned is what is taken, within 2 % and the driver's own rounding.
#[test]
fn memory_is_what_was_planned() {
    for gpu in gpu::one_of_each() {
        let mut client = Client::new(vec![gpu.clone()]);
        let events = client.load(options(golden("models/llama.gguf"), KvType::F16, None));
        assert!(matches!(events.last(), Some(Event::Loaded { .. })), "{events:?}");
        let stats = client.engine.stats.borrow().devices[0];
        let planned = stats.weight_bytes + stats.kv_bytes + stats.scratch_bytes;
        let off = planned.abs_diff(stats.ours_bytes);
        assert!(off <= planned / 50 + (2 << 20), "planned {planned}, taken {}", stats.ours_bytes);
    }
}

/// Every pair of kinds, in the middle of an answer, there and back: the tokens are those of the golden answer.
#[test]
fn layers_move_between_kinds_while_an_answer_streams() {
    let devices = mixed();
    let all: Vec<_> = devices.iter().map(|d| d.facts().id).collect();
    let expected = &golden_json("models/llama.json")["golden"];
    let (prompt, expected) = (ids(&expected["prompt"]), ids(&expected["greedy_ids"]));
    for from in &all {
        for to in all.iter().filter(|to| *to != from) {
            let path = golden("models/llama.gguf");
            let mut client = Client::loaded(devices.clone(), options(path, KvType::F32, Some(&format!("{from}=all"))));
            let id = client.new_id();
            let change = RequestId(900);
            let (mut n_tokens, mut states) = (0, vec![]);
            let request = Box::new(greedy(prompt.clone(), 16));
            let events = client.call(Command::Generate { id, request }, |engine, event| match event {
                Event::Token { .. } => {
                    n_tokens += 1;
                    if n_tokens == 3 {
                        let placement = format!("{to}=1,head");
                        engine.send(Command::Repartition { id: change, placement, when: When::Now });
                    }
                }
                Event::Repartition { state, .. } => states.push(state.clone()),
                _ => {}
            });
            assert_eq!(common::summary(events).ids, expected, "{from} to {to}");
            if !states.iter().any(ChangeState::is_terminal) {
                states.push(client.wait_for_change(change));
            }
            assert!(matches!(states.last(), Some(ChangeState::Switched { .. })), "{from} to {to}: {states:?}");
            assert_eq!(client.generate(greedy(prompt.clone(), 16)).ids, expected, "{from} to {to}, afterwards");
            let back = client.repartition(&format!("{from}=all"), When::Now);
            assert!(matches!(client.wait_for_change(back), ChangeState::Switched { .. }), "{to} back to {from}");
            assert_eq!(client.generate(greedy(prompt.clone(), 16)).ids, expected, "{to} back to {from}");
            if to.kind != DeviceKind::Cpu {
                let held = devices.iter().find(|d| d.facts().id == *to).unwrap().memory().ours_bytes;
                assert_eq!(held, 0, "{to} holds nothing any more");
            }
        }
    }
}
