//! The system prompt: a text of several lines.

use super::field::Field;
use super::{DialogInput, DialogOutcome};
use crate::ui::action::Action;

#[derive(Clone, PartialEq, Debug)]
pub struct System {
    pub text: Field,
}

impl System {
    pub fn new(prompt: Option<&str>) -> System {
        System { text: Field::lines(prompt.unwrap_or_default()) }
    }

    pub(super) fn input(&mut self, input: DialogInput<'_>) -> DialogOutcome {
        match input {
            DialogInput::Edit(Action::Send) => {
                let text = self.text.text().trim();
                DialogOutcome::SetSystem((!text.is_empty()).then(|| text.to_owned()))
            }
            DialogInput::Wheel(rows) => {
                let action = if rows < 0 { Action::Up } else { Action::Down };
                self.text.edit(action);
                DialogOutcome::Stay
            }
            _ => {
                self.text.input(&input);
                DialogOutcome::Stay
            }
        }
    }
}
