//! Keys: what is on top gets them, then what has the focus, then everything.

use crossterm::event::{KeyEvent, KeyEventKind};

use super::super::action::{Action, Context};
use super::super::hits::PanelId;
use super::super::keymap::Chord;
use super::super::layers::MapAction;
use super::super::state::{Level, Screen, State};
use super::{Effects, actions, dialogs, layers, picker};

/// Where keys are looked up for a panel.
pub fn contexts(focus: PanelId) -> &'static [Context] {
    match focus {
        PanelId::Input => &[Context::Input, Context::Anywhere],
        PanelId::Chat => &[Context::Chat, Context::Panels, Context::Anywhere],
        PanelId::Devices => &[Context::Devices, Context::Panels, Context::Anywhere],
        PanelId::Layers => &[Context::Layers, Context::Panels, Context::Anywhere],
    }
}

pub fn key(state: &mut State, key: KeyEvent, fx: &mut Effects) {
    if key.kind == KeyEventKind::Release {
        return;
    }
    // Whoever presses a key has seen what stood there.
    state.notices.retain(|n| n.level != Level::Bad || n.at == state.now);
    let chord = Chord::of(&key);
    let on_layers = state.screen == Screen::Main && state.dialogs.is_empty() && state.focus == PanelId::Layers;
    if !on_layers {
        await_no_device(state);
    }
    if !state.dialogs.is_empty() {
        if dialogs::key(state, chord, fx) {
            return;
        }
        if let Some(action) = state.keymap.action(&[Context::Anywhere], chord) {
            dialogs::over_dialog(state, action, fx);
        }
        return;
    }
    if state.screen == Screen::Picker {
        return picker::key(state, chord, fx);
    }
    if state.focus == PanelId::Layers && layer_text(state, chord, fx) {
        return;
    }
    match (state.keymap.action(contexts(state.focus), chord), chord.typed()) {
        (Some(action), None) => actions::run(state, action, fx),
        (Some(action), Some(_)) if state.focus != PanelId::Input => actions::run(state, action, fx),
        (_, Some(c)) if state.focus == PanelId::Input => {
            state.chat.editor.insert_text(c.encode_utf8(&mut [0; 4]));
        }
        (Some(_) | None, _) => {}
    }
}

/// Digits for an edge, and the device's letter after the move key.
fn layer_text(state: &mut State, chord: Chord, fx: &mut Effects) -> bool {
    let Some(layers) = &mut state.layers else { return false };
    let typed = chord.typed();
    if layers.awaits_device {
        layers.awaits_device = false;
        return match typed {
            Some(c) if c.is_ascii_alphabetic() => {
                layers::act(state, MapAction::MoveTo(c), fx);
                true
            }
            Some(_) => true,
            // Esc gives up the waiting alone; other keys mean what they always do.
            None => state.keymap.action(&[Context::Layers], chord) == Some(Action::CancelChange),
        };
    }
    match typed {
        Some(c) if c.is_ascii_digit() => {
            layers::act(state, MapAction::Digit(c), fx);
            true
        }
        _ if layers.map.is_typing() && chord.is_backspace() => {
            layers::act(state, MapAction::Backspace, fx);
            true
        }
        _ => false,
    }
}

/// The next letter is no device's any more.
pub fn await_no_device(state: &mut State) {
    if let Some(layers) = &mut state.layers {
        layers.awaits_device = false;
    }
}

/// Pasted text never submits: it goes where text is typed, as it is.
pub fn paste(state: &mut State, text: &str, fx: &mut Effects) {
    if !state.dialogs.is_empty() {
        return dialogs::paste(state, text, fx);
    }
    if state.screen == Screen::Picker {
        return picker::paste(state, text, fx);
    }
    state.focus = PanelId::Input;
    state.chat.editor.insert_text(text);
}
