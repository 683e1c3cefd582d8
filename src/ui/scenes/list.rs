//! The scenes by name.

use super::models::{findings, sessions, tell_library};
use super::rig::{CUDA0, ROCM0, Rig};
use super::stage::{Setup, Stage};
use super::texts::{AFTER_SWITCH, ANSWER, PARAGRAPH, QUESTION, SECOND_QUESTION, STREAMED, SYSTEM, THOUGHT};
use crate::engine::protocol::{ChangeState, DeviceId, DeviceProgress, Event, StopReason};
use crate::sessions::{Message, MessageId, Role};
use crate::ui::Start;
use crate::ui::hits::Target;
use crate::ui::layers::{LayerTarget, Row};
use crate::ui::msg::{DemoProgress, Msg, OpenedSession};

pub struct Scene {
    pub name: &'static str,
    pub build: fn(Setup) -> Stage,
}

const fn scene(name: &'static str, build: fn(Setup) -> Stage) -> Scene {
    Scene { name, build }
}

pub const SCENES: &[Scene] = &[
    scene("empty", empty),
    scene("answered", answered),
    scene("scrolled", scrolled),
    scene("staging", staging),
    scene("drag", drag),
    scene("drag-short", drag_short),
    scene("drag-edge", drag_edge),
    scene("switched", switched),
    scene("details", details),
    scene("details-host", details_host),
    scene("picker", picker),
    scene("picker-filter", picker_filter),
    scene("picker-empty", picker_empty),
    scene("demo-failed", demo_failed),
    scene("loading", loading),
    scene("load-failed", load_failed),
    scene("help", |setup| with_keys(setup, "alt+c ?")),
    scene("palette", |setup| with_keys(setup, "ctrl+p c o")),
    scene("doctor", doctor),
    scene("settings", |setup| with_keys(setup, "ctrl+s down down")),
    scene("system", system),
    scene("sessions", sessions_dialog),
    scene("rename", rename),
    scene("confirm", confirm),
    scene("experts", experts),
    scene("branches", branches),
    scene("nearly-full", nearly_full),
];

fn workstation(setup: Setup) -> Stage {
    Stage::loaded(setup, Rig::workstation(setup.words))
}

fn empty(setup: Setup) -> Stage {
    workstation(setup)
}

fn answered(setup: Setup) -> Stage {
    let mut stage = workstation(setup);
    stage.exchange(QUESTION, ANSWER);
    stage.draw();
    stage
}

/// To the first message.
fn scrolled(setup: Setup) -> Stage {
    let mut stage = answered(setup);
    stage.keys("alt+c home");
    stage
}

/// An answer has come, and the next one streams.
fn streaming(setup: Setup) -> Stage {
    let mut stage = answered(setup);
    stage.ask(SECOND_QUESTION);
    stage.prefill(24);
    stage.stream(STREAMED);
    stage.draw();
    stage
}

/// A cell of a device's first block of layers.
fn layer(layer: u32) -> impl Fn(&Target) -> bool {
    move |target| match target {
        Target::Layers(LayerTarget::Cell { row: Row::Next, first, last }) => {
            first.layer() <= Some(layer) && Some(layer) <= last.layer() && first.layer().is_some()
        }
        _ => false,
    }
}

fn card(id: DeviceId) -> impl Fn(&Target) -> bool {
    move |target| *target == Target::Device(id)
}

fn drag(setup: Setup) -> Stage {
    let mut stage = streaming(setup);
    stage.drag(layer(60), card(ROCM0));
    stage
}

fn drag_short(setup: Setup) -> Stage {
    let mut stage = streaming(setup);
    stage.drag(layer(40), card(CUDA0));
    stage
}

fn drag_edge(setup: Setup) -> Stage {
    let mut stage = streaming(setup);
    let edge = |target: &Target| matches!(target, Target::Layers(LayerTarget::Edge { row: Row::Next, index: 57 }));
    stage.drag(edge, layer(61));
    stage
}

/// The CPU's block goes to the second card, and is on its way.
fn staging(setup: Setup) -> Stage {
    let mut stage = streaming(setup);
    stage.keys("alt+l");
    stage.drag(layer(60), card(ROCM0));
    stage.drop_at(card(ROCM0));
    stage.keys("enter");
    stage.stage_weights(0.0);
    for share in [0.3, 0.62] {
        stage.stream(" the caches of");
        stage.stream(" these layers move");
        stage.stage_weights(share);
    }
    stage.draw();
    stage
}

fn switched(setup: Setup) -> Stage {
    let mut stage = staging(setup);
    stage.change_state(ChangeState::Ready { staging_ms: 430.0 });
    stage.finish(StopReason::Eog);
    stage.ask("Is it faster now?");
    stage.switch();
    stage.prefill(31);
    stage.stream(AFTER_SWITCH);
    stage.draw();
    stage
}

fn a_minute(setup: Setup) -> Stage {
    let mut stage = workstation(setup);
    for step in 0..130 {
        stage.after_ms(500);
        match step {
            24 => {
                stage.ask(QUESTION);
                stage.prefill(300);
            }
            96 => stage.finish(StopReason::Eog),
            _ => {}
        }
        stage.tell((24..96).contains(&step));
    }
    stage
}

fn details(setup: Setup) -> Stage {
    let mut stage = a_minute(setup);
    stage.keys("alt+d enter");
    stage
}

fn details_host(setup: Setup) -> Stage {
    let mut stage = a_minute(setup);
    stage.keys("alt+d down down enter");
    stage
}

fn at_picker(setup: Setup) -> Stage {
    let mut stage = Stage::new(setup, Rig::workstation(setup.words));
    stage.begin(Start::Picker);
    stage
}

fn picker(setup: Setup) -> Stage {
    let mut stage = at_picker(setup);
    tell_library(&mut stage);
    stage.keys("down down down");
    stage
}

fn picker_filter(setup: Setup) -> Stage {
    let mut stage = picker(setup);
    stage.keys("q w e n");
    stage
}

fn picker_empty(setup: Setup) -> Stage {
    let mut stage = at_picker(setup);
    stage.send(Msg::Library(vec![]));
    stage.keys("enter");
    stage.send(Msg::Demo(DemoProgress::Words(setup.words.of("asking pip where the package lies"))));
    stage.send(Msg::Demo(DemoProgress::Bytes { done_bytes: 61_000_000, total_bytes: Some(98_000_000) }));
    stage.draw();
    stage
}

fn demo_failed(setup: Setup) -> Stage {
    let mut stage = picker_empty(setup);
    let words = setup.words.of("pip could not fetch the package: no network (python3 -m pip said: connection refused)");
    stage.send(Msg::Demo(DemoProgress::Failed(words)));
    stage.draw();
    stage
}

fn loading(setup: Setup) -> Stage {
    let mut stage = Stage::new(setup, Rig::workstation(setup.words));
    stage.load();
    stage.after_ms(2100);
    let devices: Vec<_> = stage
        .stats(false)
        .devices
        .iter()
        .zip([0.9, 0.55, 0.2])
        .map(|(d, share)| {
            let done_bytes = (d.weight_bytes as f64 * share) as u64;
            DeviceProgress { id: d.id, done_bytes, total_bytes: d.weight_bytes }
        })
        .collect();
    let done_bytes = devices.iter().map(|d| d.done_bytes).sum();
    let total_bytes = devices.iter().map(|d| d.total_bytes).sum();
    let id = stage.loading_id();
    stage.send(Msg::Engine(Event::LoadProgress { id, done_bytes, total_bytes, devices }));
    stage.draw();
    stage
}

fn load_failed(setup: Setup) -> Stage {
    let mut stage = Stage::new(setup, Rig::workstation(setup.words));
    stage.load();
    let message = setup.words.of("tensor blk.17.ffn_down.weight lies behind the end of the file: download it again");
    let id = stage.loading_id();
    stage.send(Msg::Engine(Event::Failed { id, message }));
    stage.draw();
    stage
}

fn with_keys(setup: Setup, keys: &str) -> Stage {
    let mut stage = answered(setup);
    stage.keys(keys);
    stage
}

fn doctor(setup: Setup) -> Stage {
    let mut stage = with_keys(setup, "f9");
    stage.send(Msg::Findings(findings(setup.words)));
    stage.draw();
    stage
}

fn system(setup: Setup) -> Stage {
    let mut stage = with_keys(setup, "ctrl+p s y s t e m enter");
    stage.send(Msg::Paste(setup.words.lines(SYSTEM)));
    stage.draw();
    stage
}

fn sessions_dialog(setup: Setup) -> Stage {
    let mut stage = with_keys(setup, "ctrl+r");
    let rows = sessions(setup.words, stage.state.clock);
    stage.send(Msg::Sessions { query: String::new(), rows: Ok(rows) });
    stage.keys("down");
    stage
}

fn rename(setup: Setup) -> Stage {
    with_keys(setup, "ctrl+p t i t l e enter")
}

fn confirm(setup: Setup) -> Stage {
    let mut stage = sessions_dialog(setup);
    stage.keys("ctrl+d");
    stage
}

fn experts(setup: Setup) -> Stage {
    let mut stage = Stage::loaded(setup, Rig::experts(setup.words));
    stage.exchange("Which layers keep their experts in host memory?", "Those from **40** on: 22 of 62.");
    stage.keys("alt+l");
    stage
}

/// Thoughts folded and unfolded, a stopped answer, and a question that was asked in two ways.
fn branches(setup: Setup) -> Stage {
    let mut stage = workstation(setup);
    stage.exchange("How much of the time is the CPU's?", THOUGHT);
    stage.exchange("And the first card's?", "<think>\n11.1 of 26.5 ms.\n</think>\n\nAbout 42 %.");
    stage.keys("alt+c up up e");
    stage.keys("ctrl+a ctrl+k");
    stage.ask("And the share of *both* cards?");
    stage.prefill(20);
    stage.stream("<think>\nThe rest: 100 - 28.\n</think>\n\nTogether they take about 72 %, and");
    stage.finish(StopReason::Stopped);
    stage.draw();
    stage.keys("alt+c up up up up t");
    stage.keys("home");
    stage
}

fn nearly_full(setup: Setup) -> Stage {
    let mut stage = workstation(setup);
    stage.n_past = 29_800;
    stage.exchange(QUESTION, &PARAGRAPH.repeat(4));
    stage.draw();
    stage
}

/// A loaded model of 60 layers over 4 devices with a conversation of so many tokens in so many messages, taken up from
/// its file. A word counts as 1.3 tokens.
pub fn conversation_of(setup: Setup, n_tokens: usize, n_messages: usize) -> Stage {
    let mut stage = Stage::loaded(setup, Rig::sixty_layers());
    let words_of = PARAGRAPH.split_whitespace().count();
    let n_paragraphs = (n_tokens as f64 / 1.3 / words_of as f64).ceil() as usize;
    let mut session = stage.state.chat.session.clone();
    let mut parent: Option<MessageId> = None;
    for index in 0..n_messages {
        let n = n_paragraphs * (index + 1) / n_messages - n_paragraphs * index / n_messages;
        let role = if index % 2 == 0 { Role::User } else { Role::Assistant };
        let mut text = PARAGRAPH.repeat(n);
        if index % 4 == 1 {
            text.push_str("```rust\nfn main() {\n    println!(\"{}\", 1 + 1);\n}\n```\n");
        }
        let message = Message { parent, at: stage.state.clock, ..Message::new(role, text) };
        parent = Some(session.conversation.add(message));
    }
    session.placement = Some(stage.placement.to_string());
    let id = session.id.clone();
    let opened = OpenedSession { id, session, model_is_there: true };
    stage.send(Msg::SessionOpened(Ok(Box::new(opened))));
    stage.n_past = n_tokens as u32;
    stage.tell(false);
    stage
}
