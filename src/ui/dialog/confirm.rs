//! A question before something that cannot be taken back.

use super::{DialogInput, DialogOutcome};
use crate::sessions::SessionId;
use crate::ui::action::Action;

/// What yes means.
#[derive(Clone, PartialEq, Debug)]
pub enum Confirmed {
    DeleteSession(SessionId),
    Run(Action),
}

#[derive(Clone, PartialEq, Debug)]
pub struct Confirm {
    pub question: String,
    /// What follows from yes.
    pub detail: String,
    /// What is chosen; at first no, so that a key too many does no harm.
    pub yes: bool,
    pub then: Confirmed,
}

impl Confirm {
    pub fn new(question: impl Into<String>, detail: impl Into<String>, then: Confirmed) -> Confirm {
        Confirm { question: question.into(), detail: detail.into(), yes: false, then }
    }

    /// Lines: 0 is yes, 1 is no.
    pub(super) fn input(&mut self, input: DialogInput<'_>) -> DialogOutcome {
        match input {
            DialogInput::Typed('y' | 'Y') | DialogInput::Click(0) => self.confirmed(),
            DialogInput::Typed('n' | 'N') | DialogInput::Click(1) => DialogOutcome::Close,
            DialogInput::Action(Action::Choose) if self.yes => self.confirmed(),
            DialogInput::Action(Action::Choose) => DialogOutcome::Close,
            DialogInput::Action(Action::ItemUp | Action::ItemDown)
            | DialogInput::Edit(Action::Left | Action::Right) => {
                self.yes = !self.yes;
                DialogOutcome::Stay
            }
            _ => DialogOutcome::Stay,
        }
    }

    fn confirmed(&self) -> DialogOutcome {
        match &self.then {
            Confirmed::DeleteSession(id) => DialogOutcome::DeleteSession(id.clone()),
            Confirmed::Run(action) => DialogOutcome::Run(*action),
        }
    }
}
