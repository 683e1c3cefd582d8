//! What was looked for and what was found.

use super::list::Scroll;
use super::{DialogInput, DialogOutcome};
use crate::ui::action::Action;

#[derive(Clone, PartialEq, Default, Debug)]
pub struct Doctor {
    pub scroll: Scroll,
}

impl Doctor {
    pub(super) fn input(&mut self, input: DialogInput<'_>) -> DialogOutcome {
        match input {
            DialogInput::Action(Action::Choose) => DialogOutcome::Close,
            _ => {
                self.scroll.input(&input);
                DialogOutcome::Stay
            }
        }
    }
}
