//! A title for a session.

use super::field::Field;
use super::{DialogInput, DialogOutcome};
use crate::sessions::SessionId;
use crate::ui::action::Action;

#[derive(Clone, PartialEq, Debug)]
pub struct Rename {
    pub id: SessionId,
    pub title: Field,
}

impl Rename {
    pub fn new(id: SessionId, title: &str) -> Rename {
        Rename { id, title: Field::new(title) }
    }

    pub(super) fn input(&mut self, input: DialogInput<'_>) -> DialogOutcome {
        if input == DialogInput::Action(Action::Choose) {
            let title = self.title.text().trim().to_owned();
            return DialogOutcome::RenameSession { id: self.id.clone(), title };
        }
        self.title.input(&input);
        DialogOutcome::Stay
    }
}
