//! The keys, as they are.

use super::field::Field;
use super::list::Scroll;
use super::{DialogInput, DialogOutcome};
use crate::ui::action::{Action, ActionInfo, Context};
use crate::ui::keymap::{Chord, Keymap};

#[derive(Clone, PartialEq, Default, Debug)]
pub struct Help {
    /// `None`: nothing was typed, so that `d` opens the doctor and `?` closes. Any other letter, or `/`, begins a
    /// filter.
    pub filter: Option<Field>,
    pub scroll: Scroll,
}

/// A place and the actions that have keys there.
pub type Group<'a> = (Context, Vec<(&'static ActionInfo, &'a [Chord])>);

impl Help {
    /// The actions that have keys by where these hold, with all filtered words in them.
    pub fn groups<'a>(&self, keymap: &'a Keymap) -> Vec<Group<'a>> {
        let filter = self.filter.as_ref().map(|field| field.text().to_lowercase()).unwrap_or_default();
        let matches = |info: &ActionInfo, chords: &[Chord]| {
            let keys: String = chords.iter().map(|chord| format!("{chord} ")).collect();
            let text = format!("{} {} {keys}{}", info.words, info.name, info.context.title()).to_lowercase();
            filter.split_whitespace().all(|word| text.contains(word))
        };
        let of = |context: Context| {
            keymap
                .entries()
                .filter(move |(info, chords)| info.context == context && !chords.is_empty())
                .filter(|(info, chords)| matches(info, chords))
                .collect::<Vec<_>>()
        };
        let groups = Context::ALL.into_iter().map(|context| (context, of(context)));
        groups.filter(|(_, entries)| !entries.is_empty()).collect()
    }

    pub(super) fn input(&mut self, input: DialogInput<'_>) -> DialogOutcome {
        if self.scroll.input(&input) {
            return DialogOutcome::Stay;
        }
        match (&mut self.filter, input) {
            (None, DialogInput::Typed('d')) => return DialogOutcome::Run(Action::Doctor),
            (None, DialogInput::Typed('?')) | (_, DialogInput::Action(Action::Choose)) => return DialogOutcome::Close,
            (None, DialogInput::Edit(Action::LineStart)) => self.scroll.to_top(),
            (None, DialogInput::Edit(Action::LineEnd)) => self.scroll.to_bottom(),
            (None, DialogInput::Edit(_)) => {}
            (None, DialogInput::Typed('/')) => self.filter = Some(Field::default()),
            (filter, input) => {
                if filter.get_or_insert_default().input(&input) {
                    self.scroll.to_top();
                }
                // What was typed is deleted again: as if nothing had been.
                if matches!(input, DialogInput::Edit(_)) && filter.as_ref().is_some_and(Field::is_empty) {
                    *filter = None;
                }
            }
        }
        DialogOutcome::Stay
    }
}
