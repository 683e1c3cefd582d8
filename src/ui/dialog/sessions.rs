//! The sessions that there are, to open, search, rename and delete.

use super::field::Field;
use super::list::Cursor;
use super::{Confirm, Confirmed, Dialog, DialogContext, DialogInput, DialogOutcome, Rename};
use crate::ui::action::Action;

#[derive(Clone, PartialEq, Default, Debug)]
pub struct Sessions {
    /// Words to look for in the text of the sessions.
    pub query: Field,
    pub cursor: Cursor,
}

impl Sessions {
    pub(super) fn input(&mut self, input: DialogInput<'_>, context: &DialogContext<'_>) -> DialogOutcome {
        let rows = context.sessions;
        let chosen = self.cursor.at(rows.len()).and_then(|at| rows.get(at));
        match (input, chosen) {
            (DialogInput::Action(Action::Choose), Some(row)) => DialogOutcome::OpenSession(row.head.id.clone()),
            (DialogInput::Action(Action::DeleteItem), Some(row)) => {
                let question = format!("Delete {} for good?", named(&row.head.title));
                let n = row.head.n_messages;
                let detail = format!("It has {n} message{}.", if n == 1 { "" } else { "s" });
                let then = Confirmed::DeleteSession(row.head.id.clone());
                DialogOutcome::Open(Dialog::Confirm(Confirm::new(question, detail, then)))
            }
            (DialogInput::Action(Action::RenameItem), Some(row)) => {
                DialogOutcome::Open(Dialog::Rename(Rename::new(row.head.id.clone(), &row.head.title)))
            }
            (DialogInput::Click(item), _) => match rows.get(item) {
                Some(row) => DialogOutcome::OpenSession(row.head.id.clone()),
                None => DialogOutcome::Stay,
            },
            _ if self.query.is_empty() && self.cursor.input(&input, rows.len()) => DialogOutcome::Stay,
            (DialogInput::Typed(_) | DialogInput::Edit(_) | DialogInput::Paste(_), _) => {
                if self.query.input(&input) {
                    self.cursor.set(0);
                    return DialogOutcome::SearchSessions(self.query.text().trim().to_owned());
                }
                DialogOutcome::Stay
            }
            (DialogInput::Action(_) | DialogInput::Wheel(_), _) => {
                self.cursor.input(&input, rows.len());
                DialogOutcome::Stay
            }
        }
    }
}

/// A title in a sentence.
fn named(title: &str) -> String {
    if title.trim().is_empty() { "this session".to_owned() } else { format!("\"{title}\"") }
}
