//! What each action does.

use super::super::action::Action;
use super::super::dialog::{Details, Dialog, Doctor, Help, Palette, Rename, Sessions, Settings, System};
use super::super::editor::EditAction;
use super::super::hits::PanelId;
use super::super::layers::MapAction;
use super::super::msg::Effect;
use super::super::state::{Level, ModelState, Screen, State};
use super::super::theme::Theme;
use super::{Effects, INTERRUPT_TIME, answer, chat, engine, layers, notice, session};

pub fn run(state: &mut State, action: Action, fx: &mut Effects) {
    match action {
        Action::Help => open(state, Dialog::Help(Help::default())),
        Action::Palette => open(state, Dialog::Palette(Palette::default())),
        Action::Doctor => {
            fx.push(Effect::Examine);
            open(state, Dialog::Doctor(Doctor::default()));
        }
        Action::Quit => quit(state, fx),
        Action::Interrupt => interrupt(state, fx),
        Action::Suspend => fx.push(Effect::Suspend),
        Action::ReleaseMouse => {
            // Where a drag ends is not told any more.
            layers::let_go(state, fx);
            state.mouse = !state.mouse;
            fx.push(Effect::MouseCapture(state.mouse));
        }
        Action::Redraw => fx.push(Effect::Redraw),
        Action::NextTheme => next_theme(state),
        Action::NextPanel => go_on(state, 1, fx),
        Action::PreviousPanel => go_on(state, -1, fx),
        Action::FocusInput => state.focus = PanelId::Input,
        Action::FocusChat => state.focus = PanelId::Chat,
        Action::FocusDevices => state.focus = PanelId::Devices,
        Action::FocusLayers => state.focus = PanelId::Layers,
        Action::Models => {
            state.screen = Screen::Picker;
            state.picker.scanning();
            fx.push(Effect::ScanLibrary);
        }
        Action::Sessions => {
            fx.push(Effect::ListSessions { query: String::new() });
            open(state, Dialog::Sessions(Sessions::default()));
        }
        Action::NewSession => session::new_session(state, fx),
        Action::RenameSession => match state.chat.id.clone() {
            Some(id) => {
                let title = state.chat.session.shown_title();
                open(state, Dialog::Rename(Rename::new(id, &title)));
            }
            None => notice(state, Level::Info, "there is nothing to name yet: write a message first"),
        },
        Action::ExportMarkdown => session::export_markdown(state, fx),
        Action::ExportJson => session::export_json(state, fx),
        Action::Settings => {
            let dialog = Settings::new(&state.chat.settings, &state.start_settings);
            open(state, Dialog::Settings(Box::new(dialog)));
        }
        Action::SystemPrompt => {
            open(state, Dialog::System(System::new(state.chat.settings.system.as_deref())));
        }
        Action::Send => chat::send(state, fx),
        Action::NewLine => edit(state, EditAction::InsertNewline),
        Action::ExternalEditor => {
            let text = match state.dialogs.last() {
                Some(Dialog::System(system)) => system.text.text(),
                Some(_) | None => state.chat.editor.text(),
            };
            fx.push(Effect::ExternalEditor(text.to_owned()));
        }
        Action::Stop => stop(state, fx),
        Action::Regenerate => chat::regenerate(state, fx),
        Action::Continue => chat::go_on(state, fx),
        Action::EditMessage => chat::edit(state),
        Action::PreviousBranch => chat::show_branch(state, -1, fx),
        Action::NextBranch => chat::show_branch(state, 1, fx),
        Action::CopyMessage => chat::copy_message(state, fx),
        Action::CopyCode => chat::copy_code(state, fx),
        Action::FoldThinking => chat::fold_thinking(state),
        Action::PreviousMessage => chat::choose(state, -1),
        Action::NextMessage => chat::choose(state, 1),
        Action::ScrollUp => chat::scroll(state, -1),
        Action::ScrollDown => chat::scroll(state, 1),
        Action::PageUp => chat::scroll(state, -(state.metrics.page as isize)),
        Action::PageDown => chat::scroll(state, state.metrics.page as isize),
        Action::Top => chat::scroll_to(state, 0),
        Action::Bottom => chat::scroll_to(state, usize::MAX),
        Action::DeviceUp => state.device_cursor = state.device_cursor.saturating_sub(1),
        Action::DeviceDown => {
            state.device_cursor = (state.device_cursor + 1).min(state.gauges.devices.len().saturating_sub(1));
        }
        Action::DeviceDetails => {
            if let Some(device) = state.gauges.devices.get(state.device_cursor) {
                open(state, Dialog::Details(Details::new(device.id)));
            }
        }
        Action::LayerNext | Action::LayerPrevious => walk_layers(state, action, fx),
        Action::MoveSelection => {
            if let Some(layers) = &mut state.layers {
                layers.awaits_device = true;
            }
        }
        Action::LayerLeft
        | Action::LayerRight
        | Action::LayerRowUp
        | Action::LayerRowDown
        | Action::LayerPick
        | Action::EdgeLeft
        | Action::EdgeRight
        | Action::EdgeLeftFar
        | Action::EdgeRightFar
        | Action::ExtendLeft
        | Action::ExtendRight
        | Action::SelectBlock
        | Action::LayerUndo
        | Action::LayerRedo
        | Action::LayerAuto
        | Action::Apply
        | Action::ApplyNow
        | Action::CancelChange => {
            if let Some(action) = map_action(action) {
                layers::act(state, action, fx);
            }
        }
        Action::Close if matches!(state.model, ModelState::Loading(_)) => engine::cancel_load(state, fx),
        // Dialogs understand these themselves.
        Action::ItemUp
        | Action::ItemDown
        | Action::Choose
        | Action::DeleteItem
        | Action::RenameItem
        | Action::Close => {}
        Action::Up => vertical(state, EditAction::Up, EditAction::HistoryPrevious),
        Action::Down => vertical(state, EditAction::Down, EditAction::HistoryNext),
        Action::DeleteBack
        | Action::DeleteForward
        | Action::DeleteWordBack
        | Action::DeleteWordForward
        | Action::KillToEnd
        | Action::KillToStart
        | Action::Yank
        | Action::Left
        | Action::Right
        | Action::WordLeft
        | Action::WordRight
        | Action::LineStart
        | Action::LineEnd
        | Action::TextStart
        | Action::TextEnd
        | Action::Undo
        | Action::Redo => {
            if let Some(action) = action.as_edit() {
                edit(state, action);
            }
        }
    }
}

/// One of a kind at most, on top.
fn open(state: &mut State, dialog: Dialog) {
    state.dialogs.retain(|other| std::mem::discriminant(other) != std::mem::discriminant(&dialog));
    state.dialogs.push(dialog);
}

/// Not without what an answer has so far.
fn quit(state: &mut State, fx: &mut Effects) {
    answer::save_partial(state, fx);
    fx.push(Effect::Quit);
}

fn edit(state: &mut State, action: EditAction) {
    state.focus = PanelId::Input;
    state.chat.editor.act(action);
}

/// Within the text by rows, past its first and last row through the history.
fn vertical(state: &mut State, within: EditAction, past: EditAction) {
    if !state.chat.editor.act(within) {
        state.chat.editor.act(past);
    }
}

/// Esc: the answer, then the edited message, then back to the input; there, a load that is under way.
fn stop(state: &mut State, fx: &mut Effects) {
    if state.chat.streaming.is_some() && matches!(state.focus, PanelId::Input | PanelId::Chat) {
        return answer::stop(state, fx);
    }
    if chat::stop_editing(state) {
        return;
    }
    if state.focus == PanelId::Input && matches!(state.model, ModelState::Loading(_)) {
        engine::cancel_load(state, fx);
    } else {
        state.focus = PanelId::Input;
        state.chat.chosen = None;
    }
}

/// Ctrl-C: the answer, then what is written where that is seen, then, pressed twice, the program.
fn interrupt(state: &mut State, fx: &mut Effects) {
    if state.chat.streaming.as_ref().is_some_and(|s| !s.stopping) {
        return answer::stop(state, fx);
    }
    if state.screen == Screen::Main && !state.chat.editor.is_empty() {
        // It can be fetched from the history.
        let text = state.chat.editor.take();
        state.chat.editor.push_history(&text);
        chat::stop_editing(state);
        return;
    }
    match state.interrupted_at {
        Some(at) if state.now.saturating_sub(at) < INTERRUPT_TIME => quit(state, fx),
        Some(_) | None => {
            state.interrupted_at = Some(state.now);
            notice(state, Level::Info, "once more quits");
        }
    }
}

const PANELS: [PanelId; 4] = [PanelId::Input, PanelId::Devices, PanelId::Layers, PanelId::Chat];

fn panel_after(state: &State, step: isize) -> PanelId {
    let at = PANELS.iter().position(|p| *p == state.focus).unwrap_or(0);
    PANELS[(at as isize + step).rem_euclid(PANELS.len() as isize) as usize]
}

/// To the next panel. Who comes to the layers anew comes to their beginning, or from behind to their end.
fn go_on(state: &mut State, step: isize, fx: &mut Effects) {
    state.focus = panel_after(state, step);
    if state.focus == PanelId::Layers && state.layers.as_ref().is_some_and(|l| !l.map.has_item(step > 0)) {
        layers::act(state, if step > 0 { MapAction::NextItem } else { MapAction::PreviousItem }, fx);
    }
}

/// Through the edges and blocks; past the last one to the next panel.
fn walk_layers(state: &mut State, action: Action, fx: &mut Effects) {
    let (map_action, step) = match action {
        Action::LayerPrevious => (MapAction::PreviousItem, -1),
        _ => (MapAction::NextItem, 1),
    };
    let at_end = state.layers.as_ref().is_none_or(|l| !l.map.has_item(step > 0));
    if at_end {
        state.focus = panel_after(state, step);
    } else {
        layers::act(state, map_action, fx);
    }
}

fn map_action(action: Action) -> Option<MapAction> {
    Some(match action {
        Action::LayerLeft => MapAction::CursorLeft,
        Action::LayerRight => MapAction::CursorRight,
        Action::LayerRowUp => MapAction::RowUp,
        Action::LayerRowDown => MapAction::RowDown,
        Action::LayerPick => MapAction::Pick,
        Action::EdgeLeft => MapAction::MoveLeft { by: 1 },
        Action::EdgeRight => MapAction::MoveRight { by: 1 },
        Action::EdgeLeftFar => MapAction::MoveLeft { by: 5 },
        Action::EdgeRightFar => MapAction::MoveRight { by: 5 },
        Action::ExtendLeft => MapAction::ExtendLeft,
        Action::ExtendRight => MapAction::ExtendRight,
        Action::SelectBlock => MapAction::SelectBlock,
        Action::LayerUndo => MapAction::Undo,
        Action::LayerRedo => MapAction::Redo,
        Action::LayerAuto => MapAction::Auto,
        Action::Apply => MapAction::Apply,
        Action::ApplyNow => MapAction::ApplyNow,
        Action::CancelChange => MapAction::Cancel,
        _ => return None,
    })
}

fn next_theme(state: &mut State) {
    let mut names: Vec<String> = Theme::built_in_names().map(str::to_owned).collect();
    names.extend(state.config.themes.iter().map(|t| t.name.clone()));
    let at = names.iter().position(|n| *n == state.look.theme.name).unwrap_or(0);
    let name = names[(at + 1) % names.len()].clone();
    state.set_theme(&name);
    notice(state, Level::Info, format!("theme: {name} (theme = \"{name}\" in the configuration keeps it)"));
}
