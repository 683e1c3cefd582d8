//! The live change: whatever is moved, whenever, however it ends, the tokens are those of a run that never moved.

mod common;

use common::{Client, cpus, golden, golden_json, greedy, ids, options, sims, smollm2, summary};
use layercake::devices::cpu::matmul::ActivationFormat;
use layercake::devices::{DeviceId, DeviceKind};
use layercake::engine::kv::KvType;
use layercake::engine::part::Part;
use layercake::engine::placement::Placement;
use layercake::engine::protocol::{Basis, ChangeState, Command, Event, LoadOptions, Preview, RequestId, When};
use layercake::engine::synth::{self, SynthQuant, SynthShape};
use proptest::prelude::*;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

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

fn preview(client: &mut Client, placement: &str) -> Preview {
    let id = client.new_id();
    let events = client.call(Command::Preview { id, placement: placement.into() }, |_, _| {});
    match events.into_iter().next_back() {
        Some(Event::Previewed { preview, .. }) => *preview,
        other => panic!("{placement}: {other:?}"),
    }
}

/// Asks for a change and waits for its end.
fn change(client: &mut Client, placement: &str) -> (Vec<ChangeState>, ChangeState) {
    let id = client.new_id();
    let command = Command::Repartition { id, placement: placement.into(), when: When::Now };
    let events = client.call(command, |_, _| {});
    let mut states: Vec<_> = events
        .into_iter()
        .filter_map(|e| match e {
            Event::Repartition { state, .. } => Some(state),
            _ => None,
        })
        .collect();
    let end = states.pop().unwrap();
    (states, end)
}

#[test]
fn a_preview_is_what_then_happens() {
    let devices =
        sims(&[(DeviceKind::Cuda, 0, 64 << 20), (DeviceKind::Rocm, 0, 16 << 20), (DeviceKind::Cpu, 0, 1 << 20)]);
    let kept = devices.clone();
    let mut client = Client::loaded(devices, options(golden("models/qwen3moe.gguf"), KvType::F16, Some("cuda0=all")));
    client.generate(greedy(prompt(), 8));
    let mut n_fit = 0;
    for text in ["rocm0=1-2", "cpu0=all", "cuda0=all", "cpu0=head", "auto", "rocm0=attn:0,embed", "x=1", "cpu0=9"] {
        let before: Vec<_> = kept.iter().map(|d| d.memory()).collect();
        let seen = preview(&mut client, text);
        assert_eq!(kept.iter().map(|d| d.memory()).collect::<Vec<_>>(), before, "a preview touches nothing");
        match change(&mut client, text) {
            (_, ChangeState::Refused { message }) => {
                assert_eq!(seen.refused, Some(message), "{text}");
            }
            (states, ChangeState::Switched { placement, kv_bytes, .. }) => {
                n_fit += 1;
                assert_eq!(seen.refused, None, "{text}");
                assert_eq!(seen.placement, placement, "{text}");
                assert_eq!(states[0], ChangeState::Checked { n_moves: seen.n_moves, move_bytes: seen.weight_bytes });
                assert!(seen.kv_bytes.abs_diff(kv_bytes) <= N_LAYER.into(), "{} is not {kv_bytes}", seen.kv_bytes);
                for (device, after) in kept.iter().zip(&seen.devices) {
                    let ours_bytes = device.memory().ours_bytes;
                    assert!(ours_bytes <= after.held_bytes_after + (64 << 10), "{text}: {after:?} {ours_bytes}");
                    assert_eq!(after.n_parts == 0, after.held_bytes_after == 0);
                }
            }
            (_, end) => panic!("{text}: {end:?}"),
        }
    }
    assert!((3..=6).contains(&n_fit), "{n_fit} fit: some must, some must not");
    let short = preview(&mut client, "cpu0=all");
    let cpu = short.devices.iter().find(|d| d.id == DeviceId::cpu(0)).unwrap();
    assert!(cpu.short_bytes > 0 && cpu.total_bytes == 1 << 20);
    assert!(short.refused.is_some_and(|why| why.contains("cpu0") && why.contains("MiB short")));
}

#[test]
fn previews_while_tokens_come_change_no_token() {
    let mut client = client("cpu0=all");
    let expected = client.generate(greedy(prompt(), N_TOKENS)).ids;
    let id = client.new_id();
    let (mut n_sent, mut n_seen) = (0, 0);
    let request = Box::new(greedy(prompt(), N_TOKENS));
    let events = client.call(Command::Generate { id, request }, |engine, event| match event {
        Event::Token { .. } => {
            for placement in ["cpu1=0-1", "auto"] {
                n_sent += 1;
                engine.send(Command::Preview { id: RequestId(9000 + n_sent), placement: placement.into() });
            }
        }
        Event::Previewed { preview, .. } => {
            n_seen += 1;
            assert_eq!(preview.refused, None);
        }
        _ => {}
    });
    assert_eq!(summary(events).ids, expected);
    assert!(n_seen > 0, "answered between tokens");
    while n_seen < n_sent {
        assert!(matches!(client.next_event(), Event::Previewed { .. }));
        n_seen += 1;
    }
}

#[test]
fn without_a_model_there_is_nothing_to_preview() {
    let mut client = Client::new(cpus(1, ActivationFormat::Int8));
    let id = client.new_id();
    let events = client.call(Command::Preview { id, placement: "cpu0=all".into() }, |_, _| {});
    assert!(matches!(&events[..], [Event::Failed { message, .. }] if message.contains("no model")), "{events:?}");
}

/// A change asked for while another is being staged: what that one has taken is given back first.
#[test]
fn a_change_that_replaces_another_finds_its_memory_free() {
    // The second device holds the model once and not twice.
    let devices = sims(&[(DeviceKind::Cuda, 0, 64 << 20), (DeviceKind::Rocm, 0, 0)]);
    let model = golden("models/qwen3moe.gguf");
    let whole = {
        let mut client = Client::loaded(devices, options(model.clone(), KvType::F16, Some("cuda0=all")));
        preview(&mut client, "cuda0=all").devices[0].held_bytes_after
    };
    let room = whole + whole / 2 + (1 << 20);
    let devices = sims(&[(DeviceKind::Cuda, 0, 64 << 20), (DeviceKind::Rocm, 0, room)]);
    let mut client = Client::loaded(devices, options(model, KvType::F16, Some("cuda0=all")));
    let mut last = RequestId(0);
    for i in 0..6 {
        let text = if i % 2 == 0 { "rocm0=all" } else { "rocm0=embed,0-2,head" };
        last = client.repartition(text, When::Now);
    }
    let end = client.wait_for_change(last);
    assert!(matches!(end, ChangeState::Switched { .. }), "{end:?}");
    // The same with the first one staged and waiting for its moment.
    client.repartition("cuda0=0-1", When::NextPrefill);
    while !matches!(client.next_event(), Event::Repartition { state: ChangeState::Ready { .. }, .. }) {}
    let seen = preview(&mut client, "cuda0=all");
    let asked = client.repartition("cuda0=all", When::Now);
    let end = client.wait_for_change(asked);
    assert!(seen.refused.is_none() && matches!(end, ChangeState::Switched { .. }), "{seen:?} {end:?}");
}

#[test]
fn after_an_answer_the_forecast_is_near_what_was_measured() {
    let placement = Some("cpu0=embed,0-14; cpu1=15-29,head");
    let options = LoadOptions { n_ctx: Some(512), ..options(smollm2(), KvType::F16, placement) };
    let mut client = Client::loaded(cpus(3, ActivationFormat::Int8), options);
    assert!(preview(&mut client, "cpu2=3").basis > Basis::PartlyMeasured, "nothing has run yet");
    let answer = client.generate(greedy((0..20).map(|i| 500 + i).collect(), 32));
    let rate = answer.timings.decode_tokens_per_s().unwrap();
    let here = preview(&mut client, "cpu0=0");
    assert_eq!((here.n_moves, here.basis), (0, Basis::Measured));
    let ratio = here.to_tokens_per_s / rate;
    assert!((0.5..2.0).contains(&ratio), "{} tokens/s forecast, {rate} measured", here.to_tokens_per_s);
    // Nothing has run on cpu2, and it is the same processor.
    let there = preview(&mut client, "cpu2=all");
    let ratio = there.to_tokens_per_s / rate;
    assert!(there.basis == Basis::Measured && (0.5..2.0).contains(&ratio), "{ratio}");
}

/// The rates of a rig file are those of other hardware: once the simulated devices have shown theirs, these count.
#[test]
fn a_simulated_device_is_forecast_by_what_another_one_has_shown() {
    let devices = sims(&[(DeviceKind::Cuda, 0, 1 << 30), (DeviceKind::Rocm, 0, 1 << 30)]);
    let options = LoadOptions { n_ctx: Some(512), ..options(smollm2(), KvType::F16, Some("cuda0=all")) };
    let mut client = Client::loaded(devices, options);
    assert_eq!(preview(&mut client, "rocm0=all").basis, Basis::Assumed);
    let answer = client.generate(greedy((0..20).map(|i| 500 + i).collect(), 32));
    let there = preview(&mut client, "rocm0=all");
    assert_eq!(there.basis, Basis::Measured);
    let ratio = there.to_tokens_per_s / answer.timings.decode_tokens_per_s().unwrap();
    assert!((0.5..2.0).contains(&ratio), "{ratio}");
}

/// As many layers as a large model has, on as many devices as a large machine: the answer must not be felt in a drag.
#[test]
fn a_preview_of_sixty_layers_on_four_devices_is_quick() {
    let small = SynthShape { n_layer: 60, ..*SynthShape::from_name("tiny").unwrap() };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("deep.gguf");
    let quant = SynthQuant::from_name("Q8_0").unwrap();
    synth::write(&small, quant, 0, &path, &mut |_, _| ControlFlow::Continue(())).unwrap();
    let room = 1 << 30;
    let devices = sims(&[
        (DeviceKind::Cuda, 0, room),
        (DeviceKind::Cuda, 1, room),
        (DeviceKind::Rocm, 0, room),
        (DeviceKind::Cpu, 0, room),
    ]);
    let start = "cuda0=embed,0-19; cuda1=20-39; rocm0=40-49; cpu0=50-59,head";
    let mut client = Client::loaded(devices, options(path, KvType::F16, Some(start)));
    client.generate(greedy(vec![1, 2, 3], 12));
    for (text, limit_ms) in [("rocm0=30-49", 100), ("cpu0=ffn:0-59", 100), ("auto", 2000)] {
        // The best of several: other tests run at the same time.
        let times = (0..10).map(|_| {
            let started = Instant::now();
            assert_eq!(preview(&mut client, text).refused, None);
            started.elapsed()
        });
        let best = times.min().unwrap();
        eprintln!("{text}: {best:?}");
        assert!(best < Duration::from_millis(limit_ms), "{text}: {best:?}");
    }
}
