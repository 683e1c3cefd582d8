//! A program without a terminal: messages go in, pictures are drawn, effects are kept for the test to look at.

use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::config::Config;
use crate::engine::protocol::*;
use crate::sessions::{SessionId, SessionState};
use crate::ui::Start;
use crate::ui::dialog::default_settings;
use crate::ui::gauges::testing::{CPU0, CUDA0, ROCM0, facts};
use crate::ui::hits::{Hits, Target};
use crate::ui::keymap::Keymap;
use crate::ui::layers::LayerTarget;
use crate::ui::msg::{Effect, Msg};
use crate::ui::picker::Picker;
use crate::ui::state::{Beginning, State};
use crate::ui::theme::ColourDepth;
use crate::ui::update::{start, update};
use crate::ui::view::{Caches, draw};

pub use super::talk::*;

pub struct Script {
    pub state: State,
    caches: Caches,
    pub hits: Hits,
    conversation_version: u64,
    /// Since they were taken.
    effects: Vec<Effect>,
}

impl Script {
    /// With three devices, at the choice of a model.
    pub fn picker() -> Script {
        Script::begin(Start::Picker)
    }

    pub fn begin(begin: Start) -> Script {
        let clock = "2026-12-01T12:00:00Z".parse().expect("a time");
        let devices =
            [facts(CUDA0, "RTX 4090", true), facts(ROCM0, "RX 7900 XTX", true), facts(CPU0, "Ryzen 9 5950X", true)];
        let mut state = State::new(Beginning {
            config: Config::default(),
            keymap: Keymap::default(),
            depth: ColourDepth::True,
            ascii: false,
            settings: default_settings(),
            devices: &devices,
            session: SessionState::new(SessionId::new(clock), clock),
            picker: Picker::new(Some("/models/demo.gguf".into())),
            history: vec!["an older prompt".into(), "the newest prompt".into()],
            seed: 1,
            clock,
        });
        state.size = (120, 40);
        let effects = start(&mut state, begin);
        let mut script =
            Script { state, caches: Caches::default(), hits: Hits::default(), conversation_version: 0, effects };
        script.draw();
        script
    }

    /// In a chat with a model whose layers lie on all three devices.
    pub fn loaded() -> Script {
        let mut script = Script::begin(Start::Load(Box::new(options("/models/a.gguf"))));
        let effects = script.take();
        script.engine(Event::Loaded { id: load_id(&effects), info: Box::new(model("/models/a.gguf")) });
        script.draw();
        script.take();
        script
    }

    pub fn send(&mut self, msg: Msg) {
        let effects = update(&mut self.state, msg);
        self.effects.extend(effects);
    }

    pub fn engine(&mut self, event: Event) {
        self.send(Msg::Engine(event));
    }

    pub fn take(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    pub fn draw(&mut self) -> String {
        if self.conversation_version != self.state.conversation_version {
            self.conversation_version = self.state.conversation_version;
            self.caches.chat.clear();
        }
        let (columns, rows) = self.state.size;
        let area = Rect::new(0, 0, columns, rows);
        let mut buf = Buffer::empty(area);
        let drawn = draw(&self.state, &mut self.caches, area, &mut buf);
        self.hits = drawn.hits;
        self.send(Msg::Drawn(Box::new(drawn.metrics)));
        let row = |y| (0..columns).map(|x| buf[(x, y)].symbol()).collect::<String>().trim_end().to_owned() + "\n";
        (0..rows).map(row).collect()
    }

    pub fn wait(&mut self, ms: u64) {
        let now = self.state.now + Duration::from_millis(ms);
        let clock = self.state.clock + chrono::Duration::milliseconds(ms as i64);
        self.send(Msg::Time { now, clock });
    }

    /// Keys one after the other, parted by spaces.
    pub fn keys(&mut self, keys: &str) {
        for key in keys.split_whitespace() {
            self.wait(10);
            self.send(Msg::Key(key_event(key)));
            self.draw();
        }
    }

    pub fn type_text(&mut self, text: &str) {
        for c in text.chars() {
            self.send(Msg::Key(KeyEvent::new(KeyCode::Char(c), KeyModifiers::NONE)));
        }
        self.draw();
    }

    pub fn mouse(&mut self, kind: MouseEventKind, at: (u16, u16)) {
        self.mouse_unseen(kind, at);
        self.draw();
    }

    /// Before another picture is drawn.
    pub fn mouse_unseen(&mut self, kind: MouseEventKind, (column, row): (u16, u16)) {
        let event = MouseEvent { kind, column, row, modifiers: KeyModifiers::NONE };
        let under = self.hits.at(column, row);
        self.send(Msg::Mouse { event, under });
    }

    /// The middle of the first place that means this, and that nothing else lies on.
    pub fn place(&self, wanted: impl Fn(&Target) -> bool) -> (u16, u16) {
        let middles = self.hits.areas_of(&wanted).into_iter().map(|a| (a.x + a.width / 2, a.y + a.height / 2));
        let is_on_top = |&(x, y): &(u16, u16)| self.hits.at(x, y).first().is_some_and(|(_, target)| wanted(target));
        middles.into_iter().find(is_on_top).expect("it is on the screen")
    }

    /// Of a layer's cell in the draft.
    pub fn layer(&self, layer: u32) -> (u16, u16) {
        let part = Part::Attn(layer).index(N_LAYER);
        self.place(|target| match target {
            Target::Layers(LayerTarget::Cell { row, first, last }) => {
                row.is_draft() && (first.index(N_LAYER)..=last.index(N_LAYER)).contains(&part)
            }
            _ => false,
        })
    }

    pub fn click(&mut self, at: (u16, u16)) {
        self.mouse(MouseEventKind::Down(MouseButton::Left), at);
        self.mouse(MouseEventKind::Up(MouseButton::Left), at);
    }

    /// With a stop half-way, as a hand does.
    pub fn drag(&mut self, from: (u16, u16), to: (u16, u16)) {
        self.mouse(MouseEventKind::Down(MouseButton::Left), from);
        self.mouse(MouseEventKind::Drag(MouseButton::Left), ((from.0 + to.0) / 2, (from.1 + to.1) / 2));
        self.mouse(MouseEventKind::Drag(MouseButton::Left), to);
        self.mouse(MouseEventKind::Up(MouseButton::Left), to);
    }

    /// Sends a question; its `Generate`.
    pub fn ask(&mut self, question: &str) -> (RequestId, GenerateRequest) {
        self.type_text(question);
        self.keys("enter");
        let effects = self.take();
        generate(&effects)
    }

    pub fn token(&mut self, id: RequestId, text: &str) {
        self.engine(Event::Token { id, token: 7, text: text.into() });
    }

    pub fn finish(&mut self, id: RequestId, stop: StopReason) {
        let summary = Summary { ids: vec![7; 4], text: String::new(), stop, timings: Timings::default() };
        self.engine(Event::Finished { id, summary: Box::new(summary) });
        self.draw();
    }

    /// A question with a whole answer.
    pub fn turn(&mut self, question: &str, answer: &str) {
        let (id, _) = self.ask(question);
        self.token(id, answer);
        self.finish(id, StopReason::Eog);
        self.take();
    }

    /// The texts that are shown.
    pub fn texts(&self) -> Vec<String> {
        self.state.chat.session.conversation.path().iter().map(|m| m.text.clone()).collect()
    }

    pub fn input(&self) -> &str {
        self.state.chat.editor.text()
    }

    /// All notices, the newest last.
    pub fn notices(&self) -> Vec<&str> {
        self.state.notices.iter().map(|n| n.text.as_str()).collect()
    }

    pub fn draft(&self) -> String {
        self.state.layers.as_ref().map(|l| l.map.next().to_string()).expect("a map")
    }

    pub fn now(&self) -> String {
        self.state.layers.as_ref().map(|l| l.map.now().to_string()).expect("a map")
    }
}

pub fn key_event(text: &str) -> KeyEvent {
    let mut rest = text;
    let mut modifiers = KeyModifiers::NONE;
    for (name, modifier) in
        [("ctrl+", KeyModifiers::CONTROL), ("alt+", KeyModifiers::ALT), ("shift+", KeyModifiers::SHIFT)]
    {
        if let Some(after) = rest.strip_prefix(name).filter(|after| !after.is_empty()) {
            modifiers |= modifier;
            rest = after;
        }
    }
    let code = match rest {
        "enter" => KeyCode::Enter,
        "esc" => KeyCode::Esc,
        "tab" if modifiers.contains(KeyModifiers::SHIFT) => KeyCode::BackTab,
        "tab" => KeyCode::Tab,
        "space" => KeyCode::Char(' '),
        "backspace" => KeyCode::Backspace,
        "delete" => KeyCode::Delete,
        "up" => KeyCode::Up,
        "down" => KeyCode::Down,
        "left" => KeyCode::Left,
        "right" => KeyCode::Right,
        "home" => KeyCode::Home,
        "end" => KeyCode::End,
        "pageup" => KeyCode::PageUp,
        "pagedown" => KeyCode::PageDown,
        "f2" => KeyCode::F(2),
        "f9" => KeyCode::F(9),
        letter => KeyCode::Char(letter.chars().next().filter(|_| letter.chars().count() == 1).expect("a known key")),
    };
    KeyEvent::new(code, modifiers)
}
