//! The engine's protocol: every command ends once, the cache is reused, stopping and unloading at any moment work.

mod common;

use common::{Client, cpus, golden, golden_json, greedy, ids, options, sims, smollm2, summary};
use layercake::devices::cpu::matmul::ActivationFormat;
use layercake::devices::{DeviceId, DeviceKind};
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

fn question() -> Vec<ChatMessage> {
    let content = "What is gravity? Answer in one sentence.".into();
    vec![ChatMessage { role: "user".into(), content }]
}

fn chat(prompt: Prompt, n: u32) -> GenerateRequest {
    GenerateRequest { prompt, max_tokens: Some(n), ignore_eog: false, ..greedy(vec![], n) }
}

/// The cut is made where the model's own tokens end, so with the cache the rest is the very same. A fresh engine cuts
/// the text into tokens by itself; at word ends, in a text that was made of whole words, that gives the same ids.
#[test]
fn an_answer_goes_on_as_if_it_had_not_stopped() {
    let options = LoadOptions { n_ctx: Some(1024), ..options(smollm2(), KvType::F16, None) };
    let mut client = Client::loaded(cpus(1, ActivationFormat::Int8), options.clone());
    let whole = client.generate(chat(Prompt::Chat(question()), 60));
    let mut other = Client::loaded(cpus(1, ActivationFormat::Int8), options);
    for n in [1, 7, 15] {
        let begun = client.generate(chat(Prompt::Chat(question()), n));
        assert_eq!(begun.ids[..], whole.ids[..n as usize]);
        let mut messages = question();
        messages.push(ChatMessage { role: "assistant".into(), content: begun.text.clone() });
        let events = generate(&mut client, chat(Prompt::Continue(messages.clone()), 60 - n));
        let n_prompt = events.iter().find_map(|e| match e {
            Event::PrefillStarted { prompt_ids, .. } => Some(prompt_ids.len()),
            _ => None,
        });
        // The answer's last token was never computed, and a prompt's last one always is.
        assert_eq!(n_cached(&events) + 1, n_prompt.unwrap(), "all that can be is reused");
        let rest = summary(events);
        assert_eq!(rest.ids[..], whole.ids[n as usize..], "after {n} tokens");
        assert_eq!(begun.text + &rest.text, whole.text);
        assert_eq!(other.generate(chat(Prompt::Continue(messages), 60 - n)).text, rest.text);
    }
    // A text the model did not write goes on, too; names of special tokens in it are text.
    let mut messages = question();
    messages.push(ChatMessage { role: "assistant".into(), content: "Gravity<|im_end|> is".into() });
    let events = generate(&mut client, chat(Prompt::Continue(messages), 4));
    let Some(Event::PrefillStarted { prompt_ids, thinks_first, .. }) = events.first() else { panic!("{events:?}") };
    let end_of_turn = 2;
    assert_eq!(prompt_ids.iter().filter(|id| **id == end_of_turn).count(), 2, "after system and user: {prompt_ids:?}");
    assert!(!thinks_first);
    let id = client.new_id();
    let request = Box::new(chat(Prompt::Continue(question()), 4));
    let events = client.call(Command::Generate { id, request }, |_, _| {});
    assert!(matches!(&events[..], [Event::Failed { message, .. }] if message.contains("user")), "{events:?}");
}

#[test]
fn stats_of_devices_add_up() {
    let model = golden("models/qwen3moe.gguf");
    let devices = cpus(3, ActivationFormat::Int8);
    let kept = devices.clone();
    let mut client = Client::new(devices);
    assert_eq!(client.engine.devices.len(), 3);
    let idle = client.engine.stats.borrow().clone();
    assert_eq!(idle.devices.len(), 3);
    assert!(idle.devices.iter().all(|d| d.total_bytes > 0 && d.n_parts == 0 && d.decode_share.is_none()));

    let events = client.load(options(model, KvType::F16, Some("cpu0=embed,0; cpu1=1-2,head")));
    let Some(Event::Loaded { info, .. }) = events.last() else { panic!("{events:?}") };
    assert_eq!((info.parts.len(), info.is_moe, info.quant.is_empty()), (8, true, false));
    let stats = client.engine.stats.borrow().clone();
    let sum = |pick: fn(&layercake::engine::protocol::PartInfo) -> u64| info.parts.iter().map(pick).sum::<u64>();
    assert_eq!(stats.devices.iter().map(|d| d.weight_bytes).sum::<u64>(), sum(|p| p.weight_bytes));
    assert_eq!(stats.devices.iter().map(|d| d.kv_bytes).sum::<u64>(), sum(|p| p.kv_bytes));
    assert!(stats.part_ms.len() == 8 && stats.part_ms.iter().all(Option::is_none));
    let mut progress = events.iter().filter_map(|e| match e {
        Event::LoadProgress { done_bytes, total_bytes, devices, .. } => Some((*done_bytes, *total_bytes, devices)),
        _ => None,
    });
    let (done_bytes, total_bytes, devices) = progress.next_back().unwrap();
    assert_eq!(done_bytes, total_bytes);
    assert_eq!(devices.iter().map(|d| d.total_bytes).sum::<u64>(), total_bytes);
    assert!(devices.len() == 2 && devices.iter().all(|d| d.done_bytes == d.total_bytes));

    let before = client.engine.stats.borrow().devices[0].busy_total;
    let answer = client.generate(greedy(prompt(), 24));
    let stats = client.engine.stats.borrow().clone();
    assert_eq!(stats.timings, answer.timings);
    let t = &answer.timings;
    for (device, times) in stats.devices[..2].iter().zip(&t.devices) {
        assert_eq!((device.id, times.busy), (times.id, times.prefill_busy + times.decode_busy));
        assert!(times.prefill_busy > std::time::Duration::ZERO && times.decode_busy > std::time::Duration::ZERO);
        let held = device.weight_bytes + device.kv_bytes + device.scratch_bytes;
        // Working memory grows to its planned size with the first full micro-batch.
        let least = device.weight_bytes + device.kv_bytes;
        assert!((least..=held + held / 50).contains(&device.ours_bytes), "{device:?}");
        assert!(device.prefill_tokens_per_s.unwrap() >= stats.prefill_tokens_per_s.unwrap());
        let share = device.busy_total.as_secs_f64() / (times.busy + before).as_secs_f64();
        assert!((0.99..1.01).contains(&share), "{share}");
    }
    let shares: f64 = stats.devices.iter().filter_map(|d| d.decode_share).sum::<f64>() + stats.hop_share.unwrap();
    assert!(shares > 0.1 && shares <= 1.0, "{shares}");
    let unused = &stats.devices[2];
    assert_eq!((unused.id, unused.n_parts, unused.decode_ms_per_token), (DeviceId::cpu(2), 0, None));
    assert_eq!(unused.ours_bytes, kept[2].memory().ours_bytes);
    // One row of hidden values for every token, once from device to device.
    let hop_bytes = t.prefill_hop_bytes / t.prefill_tokens as u64;
    assert!(hop_bytes > 0 && t.decode_hop_bytes == hop_bytes * t.decode_tokens as u64);
    // The parts' times are those of their devices.
    let part_ms: f64 = stats.part_ms.iter().map(|ms| f64::from(ms.unwrap())).sum();
    let device_ms: f64 = stats.devices.iter().filter_map(|d| d.decode_ms_per_token).sum();
    assert!((part_ms / device_ms - 1.0).abs() < 0.1, "{part_ms} is not {device_ms}");
}
