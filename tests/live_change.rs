//! The live change: whatever is moved, whenever, however it ends, the tokens are those of a run that never moved.

mod common;

use common::{Client, cpus, golden, golden_json, greedy, ids, options, sims, summary};
use layercake::devices::cpu::matmul::ActivationFormat;
use layercake::devices::{DeviceId, DeviceKind};
use layercake::engine::kv::KvType;
use layercake::engine::part::Part;
use layercake::engine::placement::Placement;
use layercake::engine::protocol::{ChangeState, Command, Event, RequestId, When};
use proptest::prelude::*;

const N_LAYER: u32 = 3;
const N_DEVICES: u16 = 3;
const N_TOKENS: u32 = 40;

fn prompt() -> Vec<u32> {
    ids(&golden_json("models/qwen3moe.json")["golden"]["prompt"])
}

fn client(placement: &str) -> Client {
    let devices = cpus(N_DEVICES, ActivationFormat::Int8);
    Client::loaded(devices, options(golden("models/qwen3moe.gguf"), KvType::F16, Some(placement)))
}

#[derive(Debug, Clone)]
struct Move {
    at: u32,
    to: Vec<u16>,
    now: bool,
    cancel: bool,
}

impl Move {
    fn placement(&self) -> String {
        let mut placement = Placement::uniform(N_LAYER, DeviceId::cpu(0));
        for (part, device) in Part::all(N_LAYER).zip(&self.to) {
            placement.set(part, DeviceId::cpu(*device));
        }
        placement.to_string()
    }
}

fn any_move() -> impl Strategy<Value = Move> {
    let to = prop::collection::vec(0..N_DEVICES, Part::count(N_LAYER));
    (1..N_TOKENS, to, any::<bool>(), prop::bool::weighted(0.3)).prop_map(|(at, to, now, cancel)| Move {
        at,
        to,
        now,
        cancel,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn tokens_are_those_of_a_run_that_never_moved(moves in prop::collection::vec(any_move(), 1..4)) {
        let first = prompt();
        // A second turn: the first answer and more, so that "before the next prefill" has its moment.
        let expected_first = client("cpu0=all").generate(greedy(first.clone(), N_TOKENS)).ids;
        let second: Vec<u32> = first.iter().chain(&expected_first).chain(&[7, 11, 13]).copied().collect();
        let expected_second = client("cpu0=all").generate(greedy(second.clone(), N_TOKENS)).ids;

        let mut client = client("cpu0=embed,0-1; cpu1=2,head");
        let mut n_ended = 0;
        for (prompt, expected) in [(first, expected_first), (second, expected_second)] {
            let id = client.new_id();
            let request = Box::new(greedy(prompt, N_TOKENS));
            let mut n_tokens = 0;
            let events = client.call(Command::Generate { id, request }, |engine, event| match event {
                Event::Token { .. } => {
                    n_tokens += 1;
                    for (i, m) in moves.iter().enumerate().filter(|(_, m)| m.at == n_tokens) {
                        let id = RequestId(1_000_000 + 100 * id.0 + i as u64);
                        let when = if m.now { When::Now } else { When::NextPrefill };
                        engine.send(Command::Repartition { id, placement: m.placement(), when });
                        if m.cancel {
                            engine.send(Command::CancelRepartition { id: RequestId(2_000_000 + i as u64) });
                        }
                    }
                }
                Event::Repartition { state, .. } => {
                    n_ended += usize::from(state.is_terminal());
                    assert!(!matches!(state, ChangeState::Failed { .. } | ChangeState::Refused { .. }), "{state:?}");
                }
                _ => {}
            });
            prop_assert_eq!(summary(events).ids, expected);
        }
        // Every change ends exactly once: those still staged end with the model.
        let id = client.new_id();
        let events = client.call(Command::Unload { id }, |_, _| {});
        n_ended += events.iter().filter(|e| matches!(e, Event::Repartition { state, .. } if state.is_terminal())).count();
        prop_assert_eq!(n_ended, 2 * moves.len());
    }
}

#[test]
fn states_come_in_order_and_old_memory_is_freed() {
    let devices = cpus(2, ActivationFormat::Int8);
    let kept = devices.clone();
    let mut client = Client::loaded(devices, options(golden("models/qwen3moe.gguf"), KvType::F16, Some("cpu0=all")));
    let before = (kept[0].memory().ours_bytes, kept[1].memory().ours_bytes);
    assert!(before.0 > 0 && before.1 == 0);
    client.generate(greedy(prompt(), 4));
    let id = client.new_id();
    let events = client.call(Command::Repartition { id, placement: "cpu1=all".into(), when: When::Now }, |_, _| {});
    let names: Vec<_> = events
        .iter()
        .filter_map(|e| match e {
            Event::Repartition { state, .. } => {
                Some(serde_json::to_value(state).unwrap()["state"].as_str().unwrap().to_owned())
            }
            _ => None,
        })
        .collect();
    let mut order = names.clone();
    order.dedup();
    assert_eq!(order, ["checked", "reserved", "staging", "ready", "switched"]);
    let Some(Event::Repartition { state: ChangeState::Switched { kv_bytes, placement, .. }, .. }) = events.last()
    else {
        panic!("{events:?}")
    };
    assert_eq!(placement, "cpu1=embed,0-2,head");
    // 43 positions of 3 layers, K and V of 2 heads of 32 in F16.
    assert_eq!(*kv_bytes, 43 * 3 * 2 * 2 * 32 * 2);
    client.generate(greedy(prompt(), 4));
    assert_eq!(kept[0].memory().ours_bytes, 0, "the old place is empty");
    assert!(kept[1].memory().ours_bytes > 0);
}

#[test]
fn a_destination_that_is_too_small_is_refused_before_anything_moves() {
    let devices = sims(&[(DeviceKind::Cuda, 0, 64 << 20), (DeviceKind::Rocm, 0, 1 << 20)]);
    let kept = devices.clone();
    let mut client = Client::loaded(devices, options(golden("models/qwen3moe.gguf"), KvType::F16, Some("cuda0=all")));
    let expected = client.generate(greedy(prompt(), 8)).ids;
    let id = client.new_id();
    let events = client.call(Command::Repartition { id, placement: "rocm0=0-2".into(), when: When::Now }, |_, _| {});
    let [Event::Repartition { state: ChangeState::Refused { message }, .. }] = &events[..] else {
        panic!("{events:?}")
    };
    assert!(message.contains("rocm0") && message.contains("MiB") && message.contains("short"), "{message}");
    assert_eq!(kept[1].memory().ours_bytes, 0);
    assert_eq!(client.generate(greedy(prompt(), 8)).ids, expected);
}

#[test]
fn nonsense_is_refused_with_its_place() {
    let mut client = client("cpu0=all");
    for (text, word) in [("cpu9=0", "cpu9"), ("cpu0=0-99", "99"), ("what", "character"), ("", "")] {
        let id = client.new_id();
        let events = client.call(Command::Repartition { id, placement: text.into(), when: When::Now }, |_, _| {});
        match events.last() {
            Some(Event::Repartition { state: ChangeState::Refused { message }, .. }) => {
                assert!(message.contains(word), "{text}: {message}");
            }
            other => panic!("{text}: {other:?}"),
        }
    }
}
