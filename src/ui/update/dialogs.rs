//! The dialog on top gets keys, text and the mouse.

use crossterm::event::{MouseButton, MouseEvent, MouseEventKind};
use ratatui::layout::Rect;

use super::super::action::Action;
use super::super::dialog::{Dialog, DialogContext, DialogInput, DialogOutcome, pressed};
use super::super::hits::Target;
use super::super::keymap::Chord;
use super::super::msg::{Effect, SessionRow};
use super::super::state::{ChatSettings, State};
use super::{Effects, actions, answer};

/// Whether the dialog understood the key.
pub fn key(state: &mut State, chord: Chord, fx: &mut Effects) -> bool {
    let Some(dialog) = state.dialogs.last() else { return false };
    match dialog.understand(chord, &state.keymap) {
        Some(given) => {
            input(state, given, fx);
            true
        }
        None => false,
    }
}

pub fn paste(state: &mut State, text: &str, fx: &mut Effects) {
    input(state, DialogInput::Paste(text), fx);
}

/// What the mouse means to a list or form that lies over everything else.
pub enum Pointed {
    Input(DialogInput<'static>),
    /// A button that is none of the dialog's own.
    Run(Action),
    Outside,
}

pub fn pointed(event: MouseEvent, under: &[(Rect, Target)]) -> Option<Pointed> {
    match event.kind {
        MouseEventKind::Down(MouseButton::Left) => match &under.first()?.1 {
            Target::Item(item) => Some(Pointed::Input(DialogInput::Click(*item))),
            Target::Button(action) => Some(pressed(*action).map_or(Pointed::Run(*action), Pointed::Input)),
            Target::Outside => Some(Pointed::Outside),
            Target::Panel(_)
            | Target::Device(_)
            | Target::Layers(_)
            | Target::Message(_)
            | Target::Thinking(_)
            | Target::CopyCode { .. }
            | Target::Input
            | Target::Dialog => None,
        },
        MouseEventKind::ScrollUp => Some(Pointed::Input(DialogInput::Wheel(-1))),
        MouseEventKind::ScrollDown => Some(Pointed::Input(DialogInput::Wheel(1))),
        MouseEventKind::Down(_)
        | MouseEventKind::Up(_)
        | MouseEventKind::Drag(_)
        | MouseEventKind::Moved
        | MouseEventKind::ScrollLeft
        | MouseEventKind::ScrollRight => None,
    }
}

pub fn mouse(state: &mut State, event: MouseEvent, under: &[(Rect, Target)], fx: &mut Effects) {
    match pointed(event, under) {
        Some(Pointed::Input(given)) => input(state, given, fx),
        Some(Pointed::Run(action)) => over_dialog(state, action, fx),
        Some(Pointed::Outside) => {
            state.dialogs.pop();
        }
        None => {}
    }
}

fn input(state: &mut State, input: DialogInput<'_>, fx: &mut Effects) {
    let Some(dialog) = state.dialogs.last_mut() else { return };
    let context = DialogContext { keymap: &state.keymap, sessions: &state.sessions };
    let outcome = dialog.input(input, &context);
    match outcome {
        DialogOutcome::Stay => return,
        DialogOutcome::Open(dialog) => return state.dialogs.push(dialog),
        DialogOutcome::SearchSessions(query) => return fx.push(Effect::ListSessions { query }),
        DialogOutcome::Close
        | DialogOutcome::Run(_)
        | DialogOutcome::OpenSession(_)
        | DialogOutcome::DeleteSession(_)
        | DialogOutcome::RenameSession { .. }
        | DialogOutcome::SetSettings(_)
        | DialogOutcome::SetSystem(_) => {}
    }
    state.dialogs.pop();
    match outcome {
        DialogOutcome::Stay | DialogOutcome::Open(_) | DialogOutcome::SearchSessions(_) | DialogOutcome::Close => {}
        DialogOutcome::Run(action) => {
            state.dialogs.clear();
            match action {
                // Named, it is meant, wherever the focus was before.
                Action::Stop if state.chat.streaming.is_some() => answer::stop(state, fx),
                other => actions::run(state, other, fx),
            }
        }
        DialogOutcome::OpenSession(id) => {
            state.dialogs.clear();
            if state.chat.id.as_ref() != Some(&id) {
                super::session::open(state, id, fx);
            }
        }
        DialogOutcome::DeleteSession(id) => super::session::delete(state, id, fx),
        DialogOutcome::RenameSession { id, title } => {
            if state.chat.id.as_ref() == Some(&id) {
                state.chat.session.title = (!title.trim().is_empty()).then(|| title.clone());
                fx.push(Effect::Record(crate::sessions::Record::Title { title }));
            } else {
                fx.push(Effect::RenameSession { id, title });
            }
            super::session::list_again(state, fx);
        }
        DialogOutcome::SetSettings(settings) => set(state, *settings, fx),
        DialogOutcome::SetSystem(system) => {
            let settings = ChatSettings { system, ..state.chat.settings.clone() };
            set(state, settings, fx);
        }
    }
}

/// An action of everywhere, asked for while a dialog is open. What is about the panels below would be done unseen.
pub fn over_dialog(state: &mut State, action: Action, fx: &mut Effects) {
    match action {
        Action::NextPanel | Action::PreviousPanel | Action::Stop => {}
        Action::Interrupt if state.chat.streaming.as_ref().is_none_or(|s| s.stopping) => {
            state.dialogs.pop();
        }
        Action::FocusInput
        | Action::FocusChat
        | Action::FocusDevices
        | Action::FocusLayers
        | Action::Models
        | Action::NewSession => {
            state.dialogs.clear();
            actions::run(state, action, fx);
        }
        other => actions::run(state, other, fx),
    }
}

fn set(state: &mut State, settings: ChatSettings, fx: &mut Effects) {
    state.chat.settings = settings;
    if !state.chat.session.conversation.is_empty() {
        super::session::describe(state, fx);
    }
}

/// Rows of an older query come too late.
pub fn session_rows(state: &mut State, query: &str, rows: Vec<SessionRow>) {
    let wanted = state.dialogs.iter().find_map(|d| match d {
        Dialog::Sessions(sessions) => Some(sessions.query.text().trim()),
        _ => None,
    });
    if wanted.is_none_or(|wanted| wanted == query) {
        state.sessions = rows;
    }
}
