//! Whatever is pressed, clicked and told, in whatever order, at whatever size.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEventKind};
use proptest::prelude::*;

use super::script::*;
use crate::engine::protocol::*;
use crate::ui::gauges::testing::{CUDA1, mib, reading};
use crate::ui::msg::{DemoProgress, Msg};

#[derive(Clone, Debug)]
enum Step {
    Key(KeyEvent),
    Mouse(MouseEventKind, u16, u16),
    Paste(String),
    Size(u16, u16),
    Wait(u64),
    /// What the engine says of a command that was sent, or of one that never was.
    Engine(Said, u64),
    Stats(u32),
    Telemetry(bool),
    Demo(bool),
    Resolved,
    Opened,
}

#[derive(Clone, Copy, Debug)]
enum Said {
    Loaded,
    Failed,
    Done,
    Prefill,
    Token,
    Finished,
    Previewed,
    Checked,
    Staging,
    Ready,
    Switched,
    Cancelled,
    Refused,
}

const SAID: [Said; 13] = [
    Said::Loaded,
    Said::Failed,
    Said::Done,
    Said::Prefill,
    Said::Token,
    Said::Finished,
    Said::Previewed,
    Said::Checked,
    Said::Staging,
    Said::Ready,
    Said::Switched,
    Said::Cancelled,
    Said::Refused,
];

const PLACEMENTS: [&str; 4] = [PLACEMENT, "cpu0=embed,0-11,head", "rocm9=embed", "\u{1b}["];

fn event(said: Said, id: RequestId, n: u64) -> Event {
    let placement = PLACEMENTS[n as usize % PLACEMENTS.len()];
    let change = |state| Event::Repartition { id, state };
    match said {
        Said::Loaded => {
            let n_layer = if n.is_multiple_of(3) { 1 } else { N_LAYER };
            let placement = if n_layer == 1 { "cpu0=embed,0; rocm0=head" } else { placement };
            let info = ModelInfo {
                n_layer,
                is_moe: n.is_multiple_of(2),
                placement: placement.into(),
                ..model("/models/a.gguf")
            };
            Event::Loaded { id, info: Box::new(info) }
        }
        Said::Failed => Event::Failed { id, message: "no\u{1b}[2J".into() },
        Said::Done => Event::Done { id },
        Said::Prefill => {
            Event::PrefillStarted { id, prompt_ids: vec![], n_cached: n as usize, thinks_first: n.is_multiple_of(2) }
        }
        Said::Token => {
            Event::Token {
                id, token: 1, text: ["a ", "\n```\n", "</think>", "👩\u{200d}💻|"][n as usize % 4].into()
            }
        }
        Said::Finished => {
            let stop = [StopReason::Eog, StopReason::Stopped, StopReason::Context][n as usize % 3];
            let summary = Summary { ids: vec![], text: String::new(), stop, timings: Timings::default() };
            Event::Finished { id, summary: Box::new(summary) }
        }
        Said::Previewed => Event::Previewed { id, preview: Box::new(preview(placement)) },
        Said::Checked => change(ChangeState::Checked { n_moves: 1, move_bytes: 0 }),
        Said::Staging => change(ChangeState::Staging { done_bytes: n, total_bytes: 0 }),
        Said::Ready => change(ChangeState::Ready { staging_ms: 0.0 }),
        Said::Switched => change(switched(placement)),
        Said::Cancelled => change(ChangeState::Cancelled),
        Said::Refused => change(ChangeState::Refused { message: "short".into() }),
    }
}

fn any_key() -> impl Strategy<Value = KeyEvent> {
    let named = prop::sample::select(vec![
        KeyCode::Enter,
        KeyCode::Esc,
        KeyCode::Tab,
        KeyCode::BackTab,
        KeyCode::Backspace,
        KeyCode::Delete,
        KeyCode::Up,
        KeyCode::Down,
        KeyCode::Left,
        KeyCode::Right,
        KeyCode::Home,
        KeyCode::End,
        KeyCode::PageUp,
        KeyCode::PageDown,
        KeyCode::F(2),
        KeyCode::F(9),
    ]);
    let letter = prop::sample::select("abcdefghijklmnopqrstuvwxyzGHLU0123456789?! []/é日".chars().collect::<Vec<_>>());
    let code = prop_oneof![named, letter.prop_map(KeyCode::Char)];
    let modifiers = prop_oneof![
        6 => Just(KeyModifiers::NONE),
        2 => Just(KeyModifiers::CONTROL),
        2 => Just(KeyModifiers::ALT),
        1 => Just(KeyModifiers::SHIFT),
    ];
    (code, modifiers).prop_map(|(code, modifiers)| KeyEvent::new(code, modifiers))
}

fn any_step() -> impl Strategy<Value = Step> {
    let left = MouseButton::Left;
    let mouse = prop::sample::select(vec![
        MouseEventKind::Down(left),
        MouseEventKind::Down(left),
        MouseEventKind::Drag(left),
        MouseEventKind::Up(left),
        MouseEventKind::Moved,
        MouseEventKind::ScrollUp,
        MouseEventKind::ScrollDown,
    ]);
    prop_oneof![
        20 => any_key().prop_map(Step::Key),
        10 => (mouse, 0..130u16, 0..45u16).prop_map(|(kind, x, y)| Step::Mouse(kind, x, y)),
        1 => "[a\n\u{1b}日]{0,6}".prop_map(Step::Paste),
        2 => (0..130u16, 0..45u16).prop_map(|(columns, rows)| Step::Size(columns, rows)),
        2 => (0..3000u64).prop_map(Step::Wait),
        12 => (prop::sample::select(SAID.to_vec()), any::<u64>()).prop_map(|(said, n)| Step::Engine(said, n)),
        1 => (0..2000u32).prop_map(Step::Stats),
        1 => any::<bool>().prop_map(Step::Telemetry),
        1 => any::<bool>().prop_map(Step::Demo),
        1 => Just(Step::Resolved),
        1 => Just(Step::Opened),
    ]
}

fn take(s: &mut Script, step: Step, newest: &mut u64) {
    match step {
        Step::Key(key) => s.send(Msg::Key(key)),
        Step::Mouse(kind, x, y) => s.mouse_unseen(kind, (x, y)),
        Step::Paste(text) => s.send(Msg::Paste(text)),
        Step::Size(columns, rows) => {
            s.state.size = (columns, rows);
            s.send(Msg::Resize(columns, rows));
        }
        Step::Wait(ms) => s.wait(ms),
        Step::Engine(said, n) => {
            // As a rule of one of the newest commands.
            let id = RequestId(newest.saturating_sub(n % 5).max(1));
            s.engine(event(said, id, n));
        }
        Step::Stats(n_past) => {
            let part_ms = vec![Some(1.0); n_past as usize % 30].into();
            s.send(Msg::Stats(Box::new(Stats { n_past, part_ms, ..Stats::default() })));
        }
        Step::Telemetry(there) => {
            let cards = [reading(CUDA1, "Quadro\u{7}P400", 2048, 300)];
            s.send(Msg::Telemetry(cards.into_iter().filter(|_| there).collect()));
        }
        Step::Demo(ready) => s.send(Msg::Demo(if ready {
            DemoProgress::Ready("/models/demo.gguf".into())
        } else {
            DemoProgress::Bytes { done_bytes: mib(1), total_bytes: None }
        })),
        Step::Resolved => s.send(Msg::Resolved(Ok("/models/b.gguf".into()))),
        Step::Opened => {
            let session = s.state.chat.session.clone();
            let id = session.id.clone();
            let opened = crate::ui::msg::OpenedSession { id, session, model_is_there: true };
            s.send(Msg::SessionOpened(Ok(Box::new(opened))));
        }
    }
    let effects = s.take();
    for command in commands(&effects) {
        *newest = command.id().0;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn nothing_that_happens_is_a_fault(
        size in (0..130u16, 0..45u16),
        steps in prop::collection::vec((any_step(), any::<bool>()), 1..120),
    ) {
        let mut s = Script::loaded();
        s.state.size = size;
        s.draw();
        let mut newest = 1;
        for (step, seen) in steps {
            take(&mut s, step, &mut newest);
            // Several things may happen before the next picture, and the mouse is where it was in the last one.
            if seen {
                s.draw();
            }
            // One command, one end: whatever is waited for was asked and not answered.
            if let Some(streaming) = &s.state.chat.streaming {
                prop_assert!(s.state.chat.session.conversation.get(streaming.message).is_some());
            }
            if let Some(layers) = &s.state.layers {
                let known = |id: &DeviceId| layers.map.devices().contains(id);
                prop_assert!(layers.map.next().devices().iter().all(known));
            }
        }
    }
}
