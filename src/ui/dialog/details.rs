//! One device, closely. The devices panel draws it; only scrolling is decided here.

use super::list::Scroll;
use super::{DialogInput, DialogOutcome};
use crate::engine::protocol::DeviceId;
use crate::ui::action::Action;

#[derive(Clone, PartialEq, Debug)]
pub struct Details {
    pub device: DeviceId,
    pub scroll: Scroll,
}

impl Details {
    pub fn new(device: DeviceId) -> Details {
        Details { device, scroll: Scroll::default() }
    }

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
