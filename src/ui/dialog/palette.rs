//! Every action by its words.

use super::field::Field;
use super::filter::matching;
use super::list::Cursor;
use super::{DialogContext, DialogInput, DialogOutcome};
use crate::ui::action::{Action, ActionInfo};
use crate::ui::keymap::{Chord, Keymap};

#[derive(Clone, PartialEq, Default, Debug)]
pub struct Palette {
    pub filter: Field,
    pub cursor: Cursor,
}

impl Palette {
    /// What the filter leaves, the nearest first.
    pub fn rows<'a>(&self, keymap: &'a Keymap) -> Vec<(&'static ActionInfo, &'a [Chord])> {
        let all: Vec<_> = keymap.entries().filter(|(info, _)| info.in_palette).collect();
        let texts: Vec<_> = all.iter().map(|(info, _)| format!("{} {}", info.words, info.name)).collect();
        let places = matching(self.filter.text(), texts.iter().map(String::as_str));
        places.into_iter().filter_map(|i| all.get(i).copied()).collect()
    }

    pub(super) fn input(&mut self, input: DialogInput<'_>, context: &DialogContext<'_>) -> DialogOutcome {
        let rows = self.rows(context.keymap);
        let run = |at: Option<usize>| match at.and_then(|at| rows.get(at)) {
            Some((info, _)) => DialogOutcome::Run(info.action),
            None => DialogOutcome::Stay,
        };
        match input {
            DialogInput::Action(Action::Choose) => return run(self.cursor.at(rows.len())),
            DialogInput::Click(item) => return run(Some(item)),
            _ if self.filter.is_empty() && self.cursor.input(&input, rows.len()) => {}
            DialogInput::Action(_) | DialogInput::Wheel(_) => {
                self.cursor.input(&input, rows.len());
            }
            DialogInput::Typed(_) | DialogInput::Edit(_) | DialogInput::Paste(_) => {
                if self.filter.input(&input) {
                    self.cursor.set(0);
                }
            }
        }
        DialogOutcome::Stay
    }
}
