//! The engine's protocol: every command ends once, the cache is reused, stopping and unloading at any moment work.

mod common;

use common::{Client, cpus, golden, golden_json, greedy, ids, options, sims, smollm2, summary};
use layercake::devices::DeviceKind;
use layercake::devices::cpu::matmul::ActivationFormat;
use layercake::engine::budget::plan_memory;
use layercake::engine::kv::KvType;
use layercake::engine::model::{Devices, Model};
use layercake::engine::protocol::{
    ChatMessage, Command, Event, GenerateRequest, LoadOptions, Prompt, RequestId, StopReason,
};
use layercake::engine::sampler::SamplerSettings;

fn tiny() -> LoadOptions {
    options(golden("models/llama.gguf"), KvType::F32, None)
}

fn prompt() -> Vec<u32> {
    ids(&golden_json("models/llama.json")["golden"]["prompt"])
}

fn n_cached(events: &[Event]) -> usize {
    let started = events.iter().find_map(|e| match e {
        Event::PrefillStarted { n_cached, .. } => Some(*n_cached),
        _ => None,
    });
    started.unwrap()
}

fn generate(client: &mut Client, request: GenerateRequest) -> Vec<Event> {
    let id = client.new_id();
    client.call(Command::Generate { id, request: Box::new(request) }, |_, _| {})
}

#[test]
fn only_what_differs_is_prefilled_again() {
    let mut client = Client::loaded(cpus(1, ActivationFormat::Int8), tiny());
    let first = generate(&mut client, greedy(prompt(), 8));
    assert_eq!(n_cached(&first), 0);
    let answer = summary(first).ids;

    let longer: Vec<u32> = prompt().into_iter().chain(answer.clone()).chain([5, 6]).collect();
    let second = generate(&mut client, greedy(longer.clone(), 8));
    // The last answered token was never computed: nothing followed it.
    assert_eq!(n_cached(&second), prompt().len() + answer.len() - 1);
    let again = generate(&mut client, greedy(longer.clone(), 8));
    assert_eq!(n_cached(&again), longer.len() - 1, "the last token's logits are wanted");
    let (second, again) = (summary(second), summary(again));
    assert_eq!(second.ids, again.ids);
    assert_eq!((second.timings.prefill_tokens, again.timings.prefill_tokens), (3, 1));

    let fresh = GenerateRequest { reuse_cache: false, ..greedy(longer.clone(), 8) };
    let fresh = generate(&mut client, fresh);
    assert_eq!(n_cached(&fresh), 0);
    assert_eq!(summary(fresh).ids, second.ids, "the cache changes no token");
}

#[test]
fn long_prompts_in_micro_batches_give_the_same_answer_on_any_number_of_devices() {
    let long = ids(&golden_json("models/llama.json")["golden"]["long"]["prompt"]);
    let answers: Vec<_> =
        [(1, "cpu0=all"), (2, "cpu0=embed,0; cpu1=1,head"), (3, "cpu2=attn:0,head; cpu0=all; cpu1=ffn:0-1")]
            .into_iter()
            .map(|(n, placement)| {
                let options = LoadOptions { placement: Some(placement.into()), ..tiny() };
                let mut client = Client::loaded(cpus(n, ActivationFormat::Int8), options);
                summary(generate(&mut client, greedy(long.clone(), 24))).ids
            })
            .collect();
    assert_eq!(answers[0], answers[1]);
    assert_eq!(answers[0], answers[2]);
}

#[test]
fn stop_ends_an_answer_and_the_engine_goes_on() {
    let mut client = Client::loaded(cpus(1, ActivationFormat::Int8), tiny());
    let expected = summary(generate(&mut client, greedy(prompt(), 200))).ids;
    let id = client.new_id();
    let (mut n_tokens, mut n_done) = (0, 0);
    let request = Box::new(greedy(prompt(), 200));
    let events = client.call(Command::Generate { id, request }, |engine, event| match event {
        Event::Token { .. } => {
            n_tokens += 1;
            if n_tokens == 5 {
                engine.send(Command::Stop { id: RequestId(900) });
            }
        }
        Event::Done { id: RequestId(900) } => n_done += 1,
        _ => {}
    });
    let stopped = summary(events);
    assert_eq!(stopped.stop, StopReason::Stopped);
    assert!(stopped.ids.len() >= 5 && stopped.ids.len() < 200);
    assert_eq!(stopped.ids[..], expected[..stopped.ids.len()]);
    if n_done == 0 {
        assert!(matches!(client.next_event(), Event::Done { id: RequestId(900) }));
    }
    assert_eq!(summary(generate(&mut client, greedy(prompt(), 200))).ids, expected);
    // With nothing to stop it is still answered.
    let id = client.new_id();
    assert!(matches!(client.call(Command::Stop { id }, |_, _| {})[..], [Event::Done { .. }]));
}

#[test]
fn a_second_request_while_one_runs_is_refused() {
    let mut client = Client::loaded(cpus(1, ActivationFormat::Int8), tiny());
    let id = client.new_id();
    let mut refused = None;
    let mut asked = false;
    let request = Box::new(greedy(prompt(), 100));
    client.call(Command::Generate { id, request }, |engine, event| match event {
        Event::Token { .. } if !asked => {
            asked = true;
            let request = Box::new(greedy(vec![1, 2], 1));
            engine.send(Command::Generate { id: RequestId(77), request });
        }
        Event::Failed { id: RequestId(77), message } => refused = Some(message.clone()),
        _ => {}
    });
    assert!(refused.unwrap().contains("busy"));
}

#[test]
fn unload_and_load_in_the_middle_of_an_answer() {
    let devices = cpus(2, ActivationFormat::Int8);
    let kept = devices.clone();
    let split = LoadOptions { placement: Some("cpu0=embed,0; cpu1=1,head".into()), ..tiny() };
    let mut client = Client::loaded(devices, split.clone());
    for _ in 0..3 {
        let generation = client.new_id();
        client.engine.send(Command::Generate { id: generation, request: Box::new(greedy(prompt(), 400)) });
        let id = client.new_id();
        let events = client.call(Command::Unload { id }, |_, _| {});
        let ends = events.iter().filter(|e| e.id() == generation && e.is_terminal()).count();
        assert_eq!(ends, 1, "{events:?}");
        assert_eq!(kept[0].memory().ours_bytes, kept[1].memory().ours_bytes);
        let id = client.new_id();
        let events = client.call(Command::Generate { id, request: Box::new(greedy(prompt(), 1)) }, |_, _| {});
        assert!(matches!(events.last(), Some(Event::Failed { .. })), "nothing is loaded");
        assert!(matches!(client.load(split.clone()).last(), Some(Event::Loaded { .. })));
    }
}

#[test]
fn dropping_the_engine_in_mid_answer_ends_it() {
    let client = Client::loaded(cpus(1, ActivationFormat::Int8), tiny());
    client.engine.send(Command::Generate { id: RequestId(5), request: Box::new(greedy(prompt(), 400)) });
    drop(client);
}

#[test]
fn a_model_that_does_not_fit_is_refused_with_device_and_size() {
    let devices = sims(&[(DeviceKind::Cuda, 0, 600 << 10)]);
    let kept = devices.clone();
    let mut client = Client::new(devices);
    let events = client.load(tiny());
    let Some(Event::Failed { message, .. }) = events.last() else { panic!("{events:?}") };
    assert!(message.contains("short") && message.contains("MiB"), "{message}");
    assert_eq!(kept[0].memory().ours_bytes, 0);
}

#[test]
fn a_plan_is_what_loading_then_takes() {
    let model = smollm2();
    for (kv, placement) in [
        (KvType::F16, "cpu0=all"),
        (KvType::Q8_0, "cpu0=embed,0-9; cpu1=10-29,head"),
        (KvType::F32, "cpu0=attn:0-29; cpu1=ffn:0-29,embed,head"),
    ] {
        let devices = cpus(2, ActivationFormat::Int8);
        let opened = Model::open(&model, Some(2048), 8192, kv).unwrap();
        let plan = plan_memory(&opened, &Devices(devices.clone()), Some(placement)).unwrap();
        let options = LoadOptions { path: model.clone(), n_ctx: Some(2048), kv, placement: Some(placement.into()) };
        let mut client = Client::loaded(devices.clone(), options);
        let prompt: Vec<u32> = (0..300).map(|i| 100 + i).collect();
        client.generate(greedy(prompt, 2));
        for (device, planned) in devices.iter().zip(&plan.fit.devices) {
            let (taken, planned_bytes) = (device.memory().ours_bytes, planned.taken_bytes());
            assert!(taken.abs_diff(planned_bytes) * 50 <= planned_bytes, "{}: {taken} of {planned_bytes}", planned.id);
        }
    }
}

#[test]
fn chat_stops_at_the_end_of_the_turn_and_at_stop_texts() {
    let options = LoadOptions { n_ctx: Some(1024), ..options(smollm2(), KvType::F16, None) };
    let mut client = Client::loaded(cpus(1, ActivationFormat::Int8), options);
    let request = |stop: &[&str]| GenerateRequest {
        prompt: Prompt::Chat(vec![ChatMessage {
            role: "user".into(),
            content: "What is gravity? Answer in one sentence.".into(),
        }]),
        sampling: SamplerSettings::greedy(),
        stop: stop.iter().map(|s| s.to_string()).collect(),
        max_tokens: Some(200),
        ignore_eog: false,
        reuse_cache: true,
    };
    let whole = client.generate(request(&[]));
    assert_eq!(whole.stop, StopReason::Eog);
    assert!(whole.text.contains("gravity") || whole.text.contains("Gravity"), "{}", whole.text);
    assert!(!whole.text.contains("<|im_end|>"));
    let word = whole.text.split(' ').nth(3).unwrap();
    let cut = client.generate(request(&[word]));
    assert_eq!(cut.stop, StopReason::StopText);
    assert_eq!(cut.text, whole.text[..whole.text.find(word).unwrap()]);
}
