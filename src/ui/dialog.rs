//! What opens above the screen: each dialog is a plain value that follows inputs and says what is to come of them.

mod confirm;
mod details;
mod doctor;
pub mod field;
pub mod filter;
mod help;
pub mod list;
mod palette;
mod rename;
mod sessions;
mod settings;
mod system;

use ratatui::layout::Position;

pub use confirm::{Confirm, Confirmed};
pub use details::Details;
pub use doctor::Doctor;
pub use help::Help;
pub use palette::Palette;
pub use rename::Rename;
pub use sessions::Sessions;
pub use settings::{SETTINGS, Setting, Settings, default_settings};
pub use system::System;

use super::action::{Action, Context};
use super::keymap::{Chord, Keymap};
use super::msg::SessionRow;
use super::state::ChatSettings;
use crate::sessions::SessionId;

#[derive(Clone, PartialEq, Debug)]
pub enum Dialog {
    Help(Help),
    Doctor(Doctor),
    Palette(Palette),
    Settings(Box<Settings>),
    System(System),
    Sessions(Sessions),
    /// Of a device; the devices panel draws it.
    Details(Details),
    Rename(Rename),
    Confirm(Confirm),
}

/// What happens to a dialog.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum DialogInput<'a> {
    /// Of [`Context::Dialog`], or one that scrolls.
    Action(Action),
    /// A character for a filter, a number or a text.
    Typed(char),
    /// An action of [`Context::Input`]: what moves in a text or deletes of it.
    Edit(Action),
    Paste(&'a str),
    /// On the line that was drawn as this [`Item`](super::hits::Target::Item).
    Click(usize),
    /// Rows; down is positive.
    Wheel(i32),
}

/// What a dialog needs to know of the rest.
#[derive(Clone, Copy)]
pub struct DialogContext<'a> {
    pub keymap: &'a Keymap,
    pub sessions: &'a [SessionRow],
}

/// What is to come of an input. All but `Stay`, `Open` and `SearchSessions` close the dialog that says it.
#[derive(Clone, PartialEq, Debug)]
pub enum DialogOutcome {
    Stay,
    Close,
    /// Above this one.
    Open(Dialog),
    /// Without any dialog left.
    Run(Action),
    /// List again: only sessions with these words; empty: all.
    SearchSessions(String),
    OpenSession(SessionId),
    DeleteSession(SessionId),
    RenameSession {
        id: SessionId,
        title: String,
    },
    SetSettings(Box<ChatSettings>),
    SetSystem(Option<String>),
}

/// What a picture tells its dialog.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Drawn {
    /// Where text is typed.
    pub cursor: Option<Position>,
    /// Rows that there was room for.
    pub page: usize,
    /// Rows that can be scrolled past the top without leaving an empty row at the bottom.
    pub most: usize,
}

/// What letters are in a dialog.
enum Typing {
    /// Of a text of several lines.
    Text,
    /// Of one line; the dialog's own keys go first.
    Line,
    /// Keys at most.
    None,
}

impl Dialog {
    /// What a key means here; `None`: nothing, so [`Context::Anywhere`] may know it.
    pub fn understand(&self, chord: Chord, keymap: &Keymap) -> Option<DialogInput<'static>> {
        let typing = match self {
            Dialog::System(_) => Typing::Text,
            Dialog::Help(_) | Dialog::Palette(_) | Dialog::Settings(_) | Dialog::Sessions(_) | Dialog::Rename(_) => {
                Typing::Line
            }
            Dialog::Doctor(_) | Dialog::Details(_) | Dialog::Confirm(_) => Typing::None,
        };
        let has_items = matches!(self, Dialog::Sessions(_) | Dialog::Settings(_));
        understand(chord, keymap, typing, has_items)
    }

    /// Follows an input.
    pub fn input(&mut self, input: DialogInput<'_>, context: &DialogContext<'_>) -> DialogOutcome {
        if input == DialogInput::Action(Action::Close) {
            return DialogOutcome::Close;
        }
        match self {
            Dialog::Help(help) => help.input(input),
            Dialog::Doctor(doctor) => doctor.input(input),
            Dialog::Palette(palette) => palette.input(input, context),
            Dialog::Settings(settings) => settings.input(input),
            Dialog::System(system) => system.input(input),
            Dialog::Sessions(sessions) => sessions.input(input, context),
            Dialog::Details(details) => details.input(input),
            Dialog::Rename(rename) => rename.input(input),
            Dialog::Confirm(confirm) => confirm.input(input),
        }
    }

    /// Takes what its last picture told.
    pub fn drawn(&mut self, drawn: &Drawn) {
        match self {
            Dialog::Help(help) => help.scroll.drawn(drawn),
            Dialog::Doctor(doctor) => doctor.scroll.drawn(drawn),
            Dialog::Palette(palette) => palette.cursor.drawn(drawn),
            Dialog::Settings(settings) => settings.cursor.drawn(drawn),
            Dialog::Sessions(sessions) => sessions.cursor.drawn(drawn),
            Dialog::Details(details) => details.scroll.drawn(drawn),
            Dialog::System(_) | Dialog::Rename(_) | Dialog::Confirm(_) => {}
        }
    }
}

/// What a click on a [`Button`](super::hits::Target::Button) of a dialog or the picker means to it; `None`: the action is
/// none of theirs.
pub fn pressed(action: Action) -> Option<DialogInput<'static>> {
    match action.info()?.context {
        Context::Dialog => Some(DialogInput::Action(action)),
        Context::Input => Some(DialogInput::Edit(action)),
        Context::Anywhere | Context::Panels | Context::Chat | Context::Devices | Context::Layers => None,
    }
}

/// See [`Dialog::understand`]; the picker asks the same way.
pub(super) fn understand_list(chord: Chord, keymap: &Keymap) -> Option<DialogInput<'static>> {
    understand(chord, keymap, Typing::Line, false)
}

fn understand(chord: Chord, keymap: &Keymap, typing: Typing, has_items: bool) -> Option<DialogInput<'static>> {
    let in_dialog = || {
        let action = keymap.action(&[Context::Dialog], chord)?;
        let is_of_items = matches!(action, Action::DeleteItem | Action::RenameItem);
        (has_items || !is_of_items).then_some(DialogInput::Action(action))
    };
    let in_text = || keymap.action(&[Context::Input], chord).map(DialogInput::Edit);
    let typed = || chord.typed().map(DialogInput::Typed);
    let scrolls = |context| {
        let action = keymap.action(&[context], chord)?;
        match action {
            Action::PageUp | Action::PageDown | Action::Top | Action::Bottom => Some(DialogInput::Action(action)),
            Action::ScrollUp => Some(DialogInput::Action(Action::ItemUp)),
            Action::ScrollDown => Some(DialogInput::Action(Action::ItemDown)),
            _ => None,
        }
    };
    match typing {
        Typing::Text => typed().or_else(in_text).or_else(in_dialog),
        Typing::Line => in_dialog().or_else(typed).or_else(in_text).or_else(|| scrolls(Context::Anywhere)),
        Typing::None => in_dialog()
            .or_else(|| scrolls(Context::Panels))
            .or_else(typed)
            .or_else(in_text)
            .or_else(|| scrolls(Context::Anywhere)),
    }
}

#[cfg(test)]
mod tests;
