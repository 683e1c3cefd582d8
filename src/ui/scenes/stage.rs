//! The screen without a terminal: messages go in, pictures come out, and an engine's answers are at hand.

use std::time::Duration;

use chrono::{DateTime, Local, TimeZone, Utc};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};

use super::rig::Rig;
use crate::config::Config;
use crate::engine::protocol::{
    ChangeState, Command, Event, LoadOptions, Placement, RequestId, Stats, StopReason, Summary, Timings,
};
use crate::sessions::{SessionId, SessionState};
use crate::ui::dialog::default_settings;
use crate::ui::hits::{Hits, Target};
use crate::ui::keymap::Keymap;
use crate::ui::msg::{Effect, Msg};
use crate::ui::picker::Picker;
use crate::ui::state::{Beginning, State};
use crate::ui::theme::ColourDepth;
use crate::ui::update::{start, update};
use crate::ui::view::{Caches, draw};
use crate::ui::{Start, keymap::Chord};

/// What others wrote: as it should be, or with all that must not reach a terminal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Words {
    Plain,
    Hostile,
}

/// OSC 52, CSI, DCS, BEL, C0 and C1, overrides and isolates of direction, tags, line ends.
const HOSTILE: &str = "\x1b]52;c;cHduZWQ=\x07\x1b[2J\x1b[31m\x1bPq#0\x1b\\\u{9b}5n\u{9d}0;t\u{9c}\u{90}x\u{85}\u{202e}drow\
                       \u{2066}\u{2067}\u{200f}\u{61c}\u{2028}\0\u{8}\u{7f}\t\u{feff}\u{e0041}\r\x0b";

impl Words {
    /// A name, with hostile characters in its middle where it is to have some.
    pub fn of(self, text: &str) -> String {
        match self {
            Words::Plain => text.to_owned(),
            Words::Hostile => {
                let middle = text.char_indices().nth(2).map_or(text.len(), |(at, _)| at);
                let (before, after) = text.split_at(middle);
                format!("{before}{HOSTILE}{after}")
            }
        }
    }

    /// Longer text: each line has some, so that whatever part is shown has.
    pub fn lines(self, text: &str) -> String {
        match self {
            Words::Plain => text.to_owned(),
            Words::Hostile => text.split('\n').map(|line| self.of(line)).collect::<Vec<_>>().join("\n"),
        }
    }
}

/// How a scene is to look.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    pub theme: &'static str,
    pub depth: ColourDepth,
    pub ascii: bool,
    pub size: (u16, u16),
    pub words: Words,
}

impl Setup {
    /// In true colour, with plain words.
    pub fn new(theme: &'static str, size: (u16, u16)) -> Setup {
        Setup { theme, depth: ColourDepth::True, ascii: false, size, words: Words::Plain }
    }
}

/// A state with its picture.
pub struct Stage {
    pub state: State,
    pub setup: Setup,
    pub rig: Rig,
    pub buf: Buffer,
    pub hits: Hits,
    pub cursor: Option<Position>,
    caches: Caches,
    conversation_version: u64,
    /// Of the engine that is not there.
    pub placement: Placement,
    pub n_past: u32,
    pub generation: Option<RequestId>,
    pub change: Option<(RequestId, Placement)>,
    loading: Option<RequestId>,
}

/// The clock at the start: the same words in every time zone.
fn morning() -> DateTime<Utc> {
    Local.with_ymd_and_hms(2026, 12, 1, 14, 30, 0).earliest().map_or(DateTime::UNIX_EPOCH, |at| at.to_utc())
}

fn session_id() -> SessionId {
    "2026-12-01T14-30-00-5eed".parse().unwrap_or_else(|_| SessionId::new(DateTime::UNIX_EPOCH))
}

impl Stage {
    /// Before anything happened.
    pub fn new(setup: Setup, rig: Rig) -> Stage {
        let clock = morning();
        let state = State::new(Beginning {
            config: Config { theme: setup.theme.to_owned(), ..Config::default() },
            keymap: Keymap::default(),
            depth: setup.depth,
            ascii: setup.ascii,
            settings: default_settings(),
            devices: &rig.facts(),
            session: SessionState::new(session_id(), clock),
            picker: Picker::new(Some(
                "/home/ada/.local/share/layercake/models/SmolLM2-135M-Instruct-Q4_K_M.gguf".into(),
            )),
            history: vec![setup.words.of("What is a GGUF file?")],
            seed: 7,
            clock,
        });
        let mut stage = Stage {
            state,
            setup,
            placement: rig.placement(),
            rig,
            buf: Buffer::default(),
            hits: Hits::default(),
            cursor: None,
            caches: Caches::default(),
            conversation_version: 0,
            n_past: 0,
            generation: None,
            change: None,
            loading: None,
        };
        stage.resize(setup.size);
        stage
    }

    /// After loading, with nothing said yet.
    pub fn loaded(setup: Setup, rig: Rig) -> Stage {
        let mut stage = Stage::new(setup, rig);
        stage.load();
        let event = Event::Loaded { id: stage.loading_id(), info: Box::new(stage.rig.info().clone()) };
        stage.send(Msg::Engine(event));
        // A look around before the first question.
        for _ in 0..12 {
            stage.after_ms(500);
            stage.tell(false);
        }
        stage.draw();
        stage
    }

    /// Begins with the model of the rig.
    pub fn load(&mut self) {
        let info = self.rig.info();
        let options = LoadOptions { path: info.path.clone(), n_ctx: None, kv: info.kv, placement: None };
        self.begin(Start::Load(Box::new(options)));
    }

    pub fn begin(&mut self, at: Start) {
        let effects = start(&mut self.state, at);
        self.perform(effects);
    }

    pub fn loading_id(&self) -> RequestId {
        self.loading.unwrap_or(RequestId(0))
    }

    pub fn send(&mut self, msg: Msg) {
        let effects = update(&mut self.state, msg);
        self.perform(effects);
    }

    /// What the program's hands and the engine would do at once.
    fn perform(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Engine(Command::Load { id, .. }) => self.loading = Some(id),
                Effect::Engine(Command::Generate { id, .. }) => self.generation = Some(id),
                Effect::Engine(Command::Repartition { id, placement, .. }) => {
                    self.change = Some((id, self.rig.parse(&placement, &self.placement)));
                }
                Effect::Engine(Command::Preview { id, placement }) => {
                    let preview = self.rig.preview(self.setup.words, &placement, &self.placement, self.n_past);
                    self.send(Msg::Engine(Event::Previewed { id, preview: Box::new(preview) }));
                }
                Effect::Record(record) if record.matters() && self.state.chat.id.is_none() => {
                    self.send(Msg::SessionFile(session_id()));
                }
                _ => {}
            }
        }
    }

    pub fn after_ms(&mut self, ms: u64) {
        self.after(Duration::from_millis(ms));
    }

    fn after(&mut self, time: Duration) {
        let (now, clock) = (self.state.now + time, self.state.clock + time);
        self.send(Msg::Time { now, clock });
    }

    /// A picture of the state. Twice, as the state learns from the first what there is room for.
    pub fn draw(&mut self) -> &Buffer {
        self.draw_once();
        self.draw_once();
        &self.buf
    }

    /// One frame as the loop draws it.
    pub fn draw_once(&mut self) {
        if self.conversation_version != self.state.conversation_version {
            self.conversation_version = self.state.conversation_version;
            self.caches.chat.clear();
        }
        self.buf.reset();
        let drawn = draw(&self.state, &mut self.caches, self.buf.area, &mut self.buf);
        (self.hits, self.cursor) = (drawn.hits, drawn.cursor);
        self.send(Msg::Drawn(Box::new(drawn.metrics)));
    }

    pub fn resize(&mut self, (width, height): (u16, u16)) {
        self.buf = Buffer::empty(Rect::new(0, 0, width, height));
        self.send(Msg::Resize(width, height));
        self.draw();
    }

    /// Forgets what is laid out.
    pub fn forget_layout(&mut self) {
        self.caches.chat.clear();
    }

    /// Keys as the configuration writes them, with blanks between.
    pub fn keys(&mut self, keys: &str) {
        for key in keys.split(' ') {
            self.send(Msg::Key(key_event(key)));
        }
        self.draw();
    }

    pub fn type_text(&mut self, text: &str) {
        for c in text.chars() {
            self.send(Msg::Key(KeyEvent::new(KeyCode::Char(c), KeyModifiers::NONE)));
        }
    }

    fn mouse(&mut self, kind: MouseEventKind, (column, row): (u16, u16)) {
        let under = self.hits.at(column, row);
        let event = MouseEvent { kind, column, row, modifiers: KeyModifiers::NONE };
        self.send(Msg::Mouse { event, under });
        self.draw();
    }

    /// Presses the button at one place and moves over some steps to the other, where the button stays down.
    /// Nothing happens where one of them is not on the screen.
    pub fn drag(&mut self, from: impl Fn(&Target) -> bool, to: impl Fn(&Target) -> bool) {
        self.draw();
        let (Some(from), Some(to)) = (self.place_of(from), self.place_of(to)) else { return };
        self.mouse(MouseEventKind::Down(MouseButton::Left), from);
        for step in 1..=4 {
            let between = |a: u16, b: u16| (u32::from(a) * (4 - step) + u32::from(b) * step) / 4;
            let at = (between(from.0, to.0) as u16, between(from.1, to.1) as u16);
            self.mouse(MouseEventKind::Drag(MouseButton::Left), at);
        }
    }

    pub fn drop_at(&mut self, to: impl Fn(&Target) -> bool) {
        if let Some(to) = self.place_of(to) {
            self.mouse(MouseEventKind::Up(MouseButton::Left), to);
        }
    }

    fn place_of(&self, wanted: impl Fn(&Target) -> bool) -> Option<(u16, u16)> {
        self.hits.areas_of(wanted).first().map(|area| (area.x + area.width / 3, area.y))
    }

    /// Stats and telemetry of this moment.
    pub fn tell(&mut self, streaming: bool) {
        let stats = self.stats(streaming);
        let readings = self.rig.readings(self.setup.words, &stats, self.state.now.as_millis() as u32 / 500);
        self.send(Msg::Stats(Box::new(stats)));
        self.send(Msg::Telemetry(readings));
    }

    pub fn stats(&self, streaming: bool) -> Stats {
        self.rig.stats(&self.placement, self.state.now, self.n_past, streaming)
    }

    /// A question, typed and sent.
    pub fn ask(&mut self, question: &str) {
        let question = self.setup.words.lines(question);
        self.send(Msg::Paste(question));
        self.keys("enter");
    }

    /// The engine takes the prompt in.
    pub fn prefill(&mut self, n_tokens: usize) {
        let Some(id) = self.generation else { return };
        let prompt_ids = vec![0; n_tokens];
        self.send(Msg::Engine(Event::PrefillStarted {
            id,
            prompt_ids,
            n_cached: self.n_past as usize,
            thinks_first: false,
        }));
        self.after_ms(300);
        self.n_past += n_tokens as u32;
    }

    /// Tokens of an answer, at the rate that the rig has.
    pub fn stream(&mut self, text: &str) {
        let text = self.setup.words.lines(text);
        let token_time = Duration::from_secs_f64(1.0 / self.rig.tokens_per_s(&self.placement));
        let mut told_at = self.state.now;
        for token in text.split_inclusive([' ', '\n']) {
            self.after(token_time);
            self.token(token);
            if self.state.now - told_at >= Duration::from_millis(250) {
                told_at = self.state.now;
                self.tell(true);
            }
        }
        self.tell(true);
    }

    pub fn token(&mut self, text: &str) {
        let Some(id) = self.generation else { return };
        self.n_past += 1;
        self.send(Msg::Engine(Event::Token { id, token: 0, text: text.to_owned() }));
    }

    pub fn finish(&mut self, stop: StopReason) {
        let Some(id) = self.generation.take() else { return };
        let streaming = self.state.chat.streaming.as_ref();
        let n_tokens = streaming.map_or(0, |s| s.n_tokens);
        let rate = self.rig.tokens_per_s(&self.placement);
        let timings = Timings {
            prefill_tokens: 212,
            prefill: Duration::from_millis(302),
            decode_tokens: n_tokens,
            decode: Duration::from_secs_f64(n_tokens as f64 / rate),
            ..Timings::default()
        };
        let summary = Summary { ids: vec![0; n_tokens], text: String::new(), stop, timings };
        self.tell(false);
        self.send(Msg::Engine(Event::Finished { id, summary: Box::new(summary) }));
    }

    /// A whole exchange.
    pub fn exchange(&mut self, question: &str, answer: &str) {
        self.ask(question);
        self.prefill(24);
        self.stream(answer);
        self.finish(StopReason::Eog);
    }

    pub fn change_state(&mut self, state: ChangeState) {
        if let Some((id, _)) = &self.change {
            let id = *id;
            self.send(Msg::Engine(Event::Repartition { id, state }));
        }
    }

    /// The change under way, done to so much.
    pub fn stage_weights(&mut self, share: f64) {
        let Some((_, next)) = self.change.clone() else { return };
        let preview = self.rig.preview(Words::Plain, &next.to_string(), &self.placement, self.n_past);
        let total_bytes = preview.weight_bytes;
        if share == 0.0 {
            self.change_state(ChangeState::Checked { n_moves: preview.n_moves, move_bytes: total_bytes });
            self.change_state(ChangeState::Reserved { reserved_bytes: total_bytes + preview.kv_bytes });
        }
        let done_bytes = (total_bytes as f64 * share) as u64;
        self.change_state(ChangeState::Staging { done_bytes, total_bytes });
    }

    /// The staged change takes effect.
    pub fn switch(&mut self) {
        let Some((_, next)) = self.change.clone() else { return };
        let preview = self.rig.preview(Words::Plain, &next.to_string(), &self.placement, self.n_past);
        self.change_state(ChangeState::Switched {
            placement: next.to_string(),
            weight_bytes: preview.weight_bytes,
            kv_bytes: preview.kv_bytes,
            staging_ms: preview.staging_s * 1e3,
            stall_ms: preview.stall_s * 1e3,
        });
        self.change = None;
        self.placement = next;
    }
}

fn key_event(text: &str) -> KeyEvent {
    let (mut rest, mut modifiers) = (text, KeyModifiers::NONE);
    for (prefix, modifier) in
        [("ctrl+", KeyModifiers::CONTROL), ("alt+", KeyModifiers::ALT), ("shift+", KeyModifiers::SHIFT)]
    {
        if let Some(key) = rest.strip_prefix(prefix) {
            (rest, modifiers) = (key, modifiers | modifier);
        }
    }
    let code = match rest {
        "enter" => KeyCode::Enter,
        "esc" => KeyCode::Esc,
        "tab" => KeyCode::Tab,
        "up" => KeyCode::Up,
        "down" => KeyCode::Down,
        "left" => KeyCode::Left,
        "right" => KeyCode::Right,
        "home" => KeyCode::Home,
        "end" => KeyCode::End,
        "pageup" => KeyCode::PageUp,
        "pagedown" => KeyCode::PageDown,
        "space" => KeyCode::Char(' '),
        other => match other.strip_prefix('f').and_then(|n| n.parse().ok()) {
            Some(n) => KeyCode::F(n),
            None => KeyCode::Char(other.chars().next().unwrap_or(' ')),
        },
    };
    let event = KeyEvent::new(code, modifiers);
    debug_assert_eq!(text.parse(), Ok(Chord::of(&event)), "{text}");
    event
}
