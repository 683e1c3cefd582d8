//! The choice of a model at the start, or later.

use std::path::PathBuf;

use crossterm::event::{MouseButton, MouseEvent, MouseEventKind};
use ratatui::layout::Rect;

use super::super::action::{Action, Context};
use super::super::dialog::DialogInput;
use super::super::hits::Target;
use super::super::keymap::Chord;
use super::super::msg::{DemoProgress, Effect};
use super::super::picker::PickerOutcome;
use super::super::state::{Level, ModelState, Screen, State};
use super::dialogs::{Pointed, pointed};
use super::{Effects, actions, engine, notice};
use crate::engine::protocol::LoadOptions;

pub fn key(state: &mut State, chord: Chord, fx: &mut Effects) {
    // While a model loads, the only question is whether it shall.
    if let ModelState::Loading(_) = &state.model {
        if state.keymap.action(&[Context::Dialog], chord) == Some(Action::Close) {
            return engine::cancel_load(state, fx);
        }
    } else if let Some(given) = state.picker.understand(chord, &state.keymap) {
        return input(state, given, fx);
    }
    if let Some(action) = state.keymap.action(&[Context::Anywhere], chord) {
        match action {
            // The chat is not there.
            Action::FocusInput | Action::FocusChat | Action::FocusDevices | Action::FocusLayers => {}
            Action::Stop | Action::Models | Action::NextPanel | Action::PreviousPanel => {}
            other => actions::run(state, other, fx),
        }
    }
}

pub fn paste(state: &mut State, text: &str, fx: &mut Effects) {
    input(state, DialogInput::Paste(text), fx);
}

pub fn mouse(state: &mut State, event: MouseEvent, under: &[(Rect, Target)], fx: &mut Effects) {
    if let ModelState::Loading(_) = &state.model {
        let is_close = matches!(under.first(), Some((_, Target::Button(Action::Close))));
        if event.kind == MouseEventKind::Down(MouseButton::Left) && is_close {
            engine::cancel_load(state, fx);
        }
        return;
    }
    match pointed(event, under) {
        Some(Pointed::Input(given)) => input(state, given, fx),
        Some(Pointed::Run(action)) => actions::run(state, action, fx),
        Some(Pointed::Outside) | None => {}
    }
}

fn input(state: &mut State, input: DialogInput<'_>, fx: &mut Effects) {
    match state.picker.input(input) {
        PickerOutcome::Stay => {}
        PickerOutcome::Close => match &state.model {
            ModelState::None | ModelState::Loading(_) | ModelState::Failed { .. } if !has_words(state) => {
                fx.push(Effect::Quit);
            }
            ModelState::None | ModelState::Loading(_) | ModelState::Failed { .. } | ModelState::Loaded(_) => {
                state.screen = Screen::Main;
            }
        },
        PickerOutcome::Load(path) => load(state, path, fx),
        PickerOutcome::OpenTyped(text) => fx.push(Effect::Resolve(text)),
        PickerOutcome::FetchDemo => {
            state.picker.demo_progress(DemoProgress::Words("asking pip".to_owned()));
            fx.push(Effect::FetchDemo);
        }
    }
}

/// Whether the main screen holds words of the user, with or without a model.
fn has_words(state: &State) -> bool {
    !state.chat.session.conversation.is_empty() || !state.chat.editor.is_empty()
}

/// Loads what was chosen, with the sizes that the program was started with.
pub fn load(state: &mut State, path: PathBuf, fx: &mut Effects) {
    if state.chat.streaming.is_some() {
        return notice(state, Level::Warn, "an answer is streaming: stop it first (esc)");
    }
    let options = LoadOptions {
        path,
        n_ctx: state.chat.settings.n_ctx,
        kv: state.chat.settings.kv,
        placement: state.config.place.clone(),
    };
    engine::load(state, options, fx);
}

pub fn demo(state: &mut State, progress: DemoProgress, fx: &mut Effects) {
    match progress {
        DemoProgress::Ready(path) => {
            state.picker.demo_progress(DemoProgress::Ready(path.clone()));
            // It is one of the models now.
            fx.push(Effect::ScanLibrary);
            if state.screen == Screen::Picker && !matches!(state.model, ModelState::Loading(_)) {
                load(state, path, fx);
            }
        }
        DemoProgress::Failed(error) => {
            notice(state, Level::Bad, error.clone());
            state.picker.demo_progress(DemoProgress::Failed(error));
        }
        DemoProgress::Bytes { .. } | DemoProgress::Words(_) => state.picker.demo_progress(progress),
    }
}
