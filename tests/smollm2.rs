//! The demo model against its golden answers: exact with F32 activations, near the peer with quantised ones; on one,
//! two and three CPU devices and with moves in mid-answer.

mod common;

use common::{Client, cpus, f32s, golden_json, greedy, ids, options, smollm2, summary};
use layercake::devices::cpu::matmul::ActivationFormat;
use layercake::engine::kv::KvType;
use layercake::engine::protocol::{ChangeState, Command, Event, LoadOptions, RequestId, When};

/// Steps whose two best tokens are nearer than this may go either way, and what follows them with them.
const MIN_MARGIN: f32 = 0.2;
const EXACT_MAX_ABS: f32 = 5e-3;
const PEER_NMSE: f64 = 2e-2;

fn load_options(kv: KvType, placement: Option<&str>) -> LoadOptions {
    LoadOptions { n_ctx: Some(2048), ..options(smollm2(), kv, placement) }
}

/// How many greedy ids must agree: up to the first near tie.
fn n_certain(expected: &serde_json::Value) -> usize {
    let margins = f32s(&expected["margins"]);
    margins.iter().position(|m| *m < MIN_MARGIN).unwrap_or(margins.len())
}

fn top20(expected: &serde_json::Value, row: &[f32]) -> (Vec<f32>, Vec<f32>) {
    let at = ids(&expected["top20_last"]["ids"]);
    (at.iter().map(|id| row[*id as usize]).collect(), f32s(&expected["top20_last"]["logits"]))
}

fn check_prompts(client: &mut Client, which: &str, mut check_top: impl FnMut(&[f32], &[f32])) {
    let golden = golden_json("smollm2/smollm2.json");
    let mut n_compared = 0;
    for prompt in golden["prompts"].as_array().unwrap() {
        let prompt_ids = ids(&prompt["ids"]);
        let expected = &prompt[which];
        let logits = client.logits(&prompt_ids);
        let row = &logits[logits.len() - logits.len() / prompt_ids.len()..];
        let (actual, golden) = top20(expected, row);
        check_top(&actual, &golden);
        let n = n_certain(expected);
        let answer = client.generate(greedy(prompt_ids, 48));
        assert_eq!(answer.ids[..n], ids(&expected["greedy_ids"])[..n]);
        n_compared += n;
    }
    assert!(n_compared > 20, "only {n_compared} tokens were certain");
}

#[test]
fn exact_with_f32_activations() {
    let mut client = Client::loaded(cpus(1, ActivationFormat::F32), load_options(KvType::F32, None));
    check_prompts(&mut client, "exact", |actual, expected| {
        let error = common::max_abs(actual, expected);
        assert!(error < EXACT_MAX_ABS, "max abs {error}");
    });
}

#[test]
fn near_the_peer_with_quantised_activations() {
    let mut client = Client::loaded(cpus(1, ActivationFormat::Int8), load_options(KvType::F32, None));
    check_prompts(&mut client, "peer", |actual, expected| {
        let error = common::nmse(actual, expected);
        assert!(error < PEER_NMSE, "NMSE {error}");
    });
}

#[test]
fn perplexity() {
    let golden = golden_json("smollm2/smollm2.json");
    let text = &ids(&golden["ppl"]["ids"])[..512];
    for (activations, key, bound) in [
        (ActivationFormat::Int8, "first512_mean_nll_peer", 0.01),
        (ActivationFormat::F32, "first512_mean_nll_exact", 0.001),
    ] {
        let logits = Client::loaded(cpus(1, activations), load_options(KvType::F32, None)).logits(text);
        let n_vocab = logits.len() / text.len();
        let nll = |row: &[f32], next: u32| {
            let max = row.iter().fold(f32::MIN, |m, x| m.max(*x));
            let sum: f64 = row.iter().map(|x| f64::from(x - max).exp()).sum();
            sum.ln() - f64::from(row[next as usize] - max)
        };
        let rows = logits.chunks(n_vocab).zip(&text[1..]);
        let mean = rows.map(|(row, next)| nll(row, *next)).sum::<f64>() / (text.len() - 1) as f64;
        let expected = golden["ppl"][key].as_f64().unwrap();
        assert!((mean / expected - 1.0).abs() < bound, "{activations:?}: {mean} against {expected}");
    }
}

/// One, two and three devices and moves in mid-answer give the very same tokens.
#[test]
fn placements_and_moves_do_not_change_a_token() {
    let golden = golden_json("smollm2/smollm2.json");
    let prompts: Vec<_> = golden["prompts"].as_array().unwrap().iter().map(|p| ids(&p["ids"])).collect();
    let answers = |n_devices: u16, placement: &str| -> Vec<Vec<u32>> {
        let devices = cpus(n_devices, ActivationFormat::Int8);
        let mut client = Client::loaded(devices, load_options(KvType::F16, Some(placement)));
        prompts.iter().map(|p| client.generate(greedy(p.clone(), 48)).ids).collect()
    };
    let one = answers(1, "cpu0=embed,0-29,head");
    assert_eq!(one, answers(2, "cpu0=embed,0-13; cpu1=14-29,head"));
    assert_eq!(one, answers(3, "cpu0=0-9,head; cpu1=embed,10-19,ffn:20-29; cpu2=attn:20-29"));

    let start = "cpu0=embed,0-29,head";
    let mut client = Client::loaded(cpus(3, ActivationFormat::Int8), load_options(KvType::F16, Some(start)));
    let moves =
        ["cpu1=10-29,head", "cpu2=ffn:0-15,embed", "cpu0=0-29", "cpu2=attn:3-27", "cpu1=5-8", "cpu0=embed,0-29,head"];
    for ((prompt, expected), to) in prompts.iter().zip(&one).zip(moves) {
        let id = client.new_id();
        let change = RequestId(1_000_000 + id.0);
        let mut n_tokens = 0;
        let request = Box::new(greedy(prompt.clone(), 48));
        let mut switched = false;
        let events = client.call(Command::Generate { id, request }, |engine, event| match event {
            Event::Token { .. } => {
                n_tokens += 1;
                if n_tokens == 5 {
                    engine.send(Command::Repartition { id: change, placement: to.into(), when: When::Now });
                }
            }
            Event::Repartition { state: ChangeState::Switched { .. }, .. } => switched = true,
            _ => {}
        });
        assert_eq!(&summary(events).ids, expected, "after moving to {to}");
        if !switched {
            let state = client.wait_for_change(change);
            assert!(matches!(state, ChangeState::Switched { .. }), "{state:?}");
        }
    }
}
