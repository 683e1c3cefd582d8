//! What each message does to the state, and what it asks to be done. Pure.

mod actions;
mod answer;
mod chat;
mod dialogs;
mod engine;
mod keys;
mod layers;
mod mouse;
mod picker;
mod session;

#[cfg(test)]
mod tests;

use std::time::Duration;

use super::dialog::{Dialog, System};
use super::hits::PanelId;
use super::msg::{Effect, Msg};
use super::state::{Level, Notice, Screen, State};
use crate::engine::protocol::Command;

pub use session::start_settings;

/// Words that are no error go after this.
const NOTICE_TIME: Duration = Duration::from_secs(6);
/// Ctrl-C twice within this quits.
const INTERRUPT_TIME: Duration = Duration::from_secs(2);

type Effects = Vec<Effect>;

/// Takes a message in.
pub fn update(state: &mut State, msg: Msg) -> Vec<Effect> {
    let mut effects = vec![];
    let fx = &mut effects;
    match msg {
        Msg::Time { now, clock } => {
            state.now = now;
            state.clock = clock;
            expire_notices(state);
            // Also what came before a pause.
            answer::save_when_due(state, fx);
        }
        Msg::Key(key) => keys::key(state, key, fx),
        Msg::Mouse { event, under } => mouse::mouse(state, event, &under, fx),
        Msg::Paste(text) => keys::paste(state, &text, fx),
        Msg::Resize(columns, rows) => state.size = (columns, rows),
        Msg::Focus(watched) => {
            state.watched = watched;
            fx.push(Effect::Watch(watched));
        }
        Msg::Drawn(metrics) => {
            state.chat.editor.resize(metrics.input_width.max(1));
            if let Some(dialog) = state.dialogs.last_mut() {
                dialog.drawn(&metrics.dialog);
            }
            state.picker.drawn(&metrics.picker);
            state.metrics = *metrics;
        }
        Msg::Engine(event) => engine::event(state, event, fx),
        Msg::Stats(stats) => engine::stats(state, &stats),
        Msg::Telemetry(readings) => {
            state.gauges.on_telemetry(state.now, &readings);
            state.device_cursor = state.device_cursor.min(state.gauges.devices.len().saturating_sub(1));
        }
        Msg::Findings(findings) => state.findings = findings,
        Msg::Library(entries) => state.picker.found(entries),
        Msg::LibraryFacts { path, examined } => state.picker.examined(path, *examined),
        Msg::Demo(progress) => picker::demo(state, progress, fx),
        Msg::Sessions { query, rows: Ok(rows) } => dialogs::session_rows(state, &query, rows),
        Msg::Sessions { rows: Err(error), .. } | Msg::SessionError(error) => notice(state, Level::Bad, error),
        Msg::SessionOpened(Ok(opened)) => session::opened(state, *opened, fx),
        Msg::SessionOpened(Err(error)) => {
            state.chat.opening = false;
            notice(state, Level::Bad, error);
        }
        Msg::SessionFile(id) => state.chat.id = Some(id),
        Msg::Resolved(Ok(path)) => picker::load(state, path, fx),
        Msg::Resolved(Err(error)) => notice(state, Level::Bad, error),
        Msg::Exported(path) => notice(state, Level::Good, format!("saved {}", path.display())),
        Msg::Edited(Ok(text)) => edited(state, text.trim_end_matches('\n')),
        Msg::Edited(Err(error)) => notice(state, Level::Bad, error),
        Msg::Copied(Ok(how)) => notice(state, Level::Good, format!("copied ({how})")),
        Msg::Copied(Err(error)) => notice(state, Level::Bad, error),
        Msg::Hangup => actions::run(state, super::action::Action::Quit, fx),
        Msg::Resumed => fx.push(Effect::Redraw),
    }
    effects
}

/// What came back from the external editor goes where it came from.
fn edited(state: &mut State, text: &str) {
    match state.dialogs.last_mut() {
        Some(Dialog::System(system)) => *system = System::new(Some(text)),
        Some(_) | None => {
            state.chat.editor.set_text(text);
            state.focus = PanelId::Input;
        }
    }
}

/// Words that came up before there was a screen to show them.
pub fn warn(state: &mut State, text: String) {
    notice(state, Level::Warn, text);
}

/// What the start asks for besides a picture.
pub fn start(state: &mut State, start: super::Start) -> Vec<Effect> {
    let mut effects = vec![Effect::MouseCapture(state.mouse)];
    match start {
        super::Start::Picker => {
            state.screen = Screen::Picker;
            effects.push(Effect::ScanLibrary);
        }
        super::Start::Load(options) => {
            state.screen = Screen::Main;
            engine::load(state, *options, &mut effects);
        }
        super::Start::Session(id) => {
            state.screen = Screen::Main;
            session::open(state, id, &mut effects);
        }
    }
    effects
}

fn notice(state: &mut State, level: Level, text: impl Into<String>) {
    let text = text.into();
    state.notices.retain(|n| n.text != text);
    state.notices.push_back(Notice { text, level, at: state.now });
    while state.notices.len() > 8 {
        state.notices.pop_front();
    }
}

/// Errors stay until a key is pressed.
fn expire_notices(state: &mut State) {
    let now = state.now;
    state.notices.retain(|n| n.level == Level::Bad || now.saturating_sub(n.at) < NOTICE_TIME);
}

/// Sends a command with a new id that nobody waits for.
fn tell(state: &mut State, fx: &mut Effects, command: impl FnOnce(crate::engine::protocol::RequestId) -> Command) {
    let id = state.requests.new_id(super::state::Asked::Other);
    fx.push(Effect::Engine(command(id)));
}
