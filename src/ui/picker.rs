//! The choice of a model: what lies on this machine, what is known of it, what is typed, and where the cursor is.
//!
//! Rows arrive in any order and at any time: the cursor is on a model, not on a line.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::action::Action;
use super::dialog::field::Field;
use super::dialog::filter::matching;
use super::dialog::list::Cursor;
use super::dialog::{DialogInput, Drawn, understand_list};
use super::keymap::{Chord, Keymap};
use super::msg::DemoProgress;
use crate::engine::inventory::{Examined, Verdict};
use crate::models::library::LibraryEntry;

/// What can be chosen.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Choice {
    /// What is typed, which looks like a path.
    Typed(String),
    Model(PathBuf),
    Demo,
}

#[derive(Clone, PartialEq, Debug)]
pub enum PickerOutcome {
    Stay,
    /// Back to where it was opened from; without a model, the end.
    Close,
    Load(PathBuf),
    /// As typed: `~` and names are still to be resolved.
    OpenTyped(String),
    FetchDemo,
}

#[derive(Clone, PartialEq, Debug, Default)]
pub struct Picker {
    /// In the order in which the library lists them: the user's own folder first.
    entries: Vec<LibraryEntry>,
    examined: HashMap<PathBuf, Examined>,
    is_scanning: bool,
    filter: Field,
    /// `None`: the first row, whatever that is.
    chosen: Option<Choice>,
    cursor: Cursor,
    /// Where the demo model is or would be.
    demo_path: Option<PathBuf>,
    demo: Option<DemoProgress>,
}

impl Picker {
    /// Before anything is found. `demo_path` is where the demo model would lie.
    pub fn new(demo_path: Option<PathBuf>) -> Picker {
        Picker { demo_path, is_scanning: true, ..Picker::default() }
    }

    /// The library is searched anew; what was found stays until the new list comes.
    pub fn scanning(&mut self) {
        self.is_scanning = true;
    }

    pub fn found(&mut self, entries: Vec<LibraryEntry>) {
        self.entries = entries;
        self.is_scanning = false;
        let there = |path: &PathBuf| self.entries.iter().any(|entry| &entry.path == path);
        self.examined.retain(|path, _| there(path));
    }

    pub fn examined(&mut self, path: PathBuf, examined: Examined) {
        self.examined.insert(path, examined);
    }

    pub fn demo_progress(&mut self, progress: DemoProgress) {
        self.demo = Some(progress);
    }

    pub fn is_scanning(&self) -> bool {
        self.is_scanning
    }

    pub fn filter(&self) -> &Field {
        &self.filter
    }

    /// How far the demo model is; `None`: it was not asked for.
    pub fn demo(&self) -> Option<&DemoProgress> {
        self.demo.as_ref()
    }

    pub fn demo_path(&self) -> Option<&Path> {
        self.demo_path.as_deref()
    }

    pub fn is_fetching(&self) -> bool {
        match self.demo {
            Some(DemoProgress::Bytes { .. } | DemoProgress::Words(_)) => true,
            Some(DemoProgress::Ready(_) | DemoProgress::Failed(_)) | None => false,
        }
    }

    pub fn n_models(&self) -> usize {
        self.entries.len()
    }

    pub fn entry(&self, path: &Path) -> Option<&LibraryEntry> {
        self.entries.iter().find(|entry| entry.path == path)
    }

    pub fn known(&self, path: &Path) -> Option<&Examined> {
        self.examined.get(path)
    }

    /// What there is to choose from, in the order of the lines. A filter that leaves no model leaves the demo model.
    pub fn rows(&self) -> Vec<Choice> {
        let typed = self.filter.text().trim();
        let typed_path = is_like_a_path(typed).then(|| Choice::Typed(typed.to_owned()));
        let texts: Vec<_> = self.entries.iter().map(|entry| self.searched(entry)).collect();
        let models = matching(typed, texts.iter().map(String::as_str))
            .into_iter()
            .filter_map(|i| Some(Choice::Model(self.entries.get(i)?.path.clone())));
        let demo_is_wanted = typed.is_empty() || !matching(typed, ["SmolLM2-135M demo"]).is_empty();
        let demo = (!self.has_demo() && demo_is_wanted).then_some(Choice::Demo);
        typed_path.into_iter().chain(models).chain(demo).collect()
    }

    /// What a filter looks at: name, quantisation, architecture and where it is from.
    fn searched(&self, entry: &LibraryEntry) -> String {
        let facts = self.known(&entry.path).and_then(|known| known.facts.as_ref());
        let (quant, arch) = facts.map_or(("", ""), |facts| (&facts.quant, &facts.arch));
        format!("{} {quant} {arch} {}", entry.name, entry.origin.label())
    }

    fn has_demo(&self) -> bool {
        self.demo_path.as_ref().is_some_and(|demo| self.entries.iter().any(|entry| &entry.path == demo))
    }

    /// The line with the cursor, among `rows`.
    pub fn at(&self, rows: &[Choice]) -> usize {
        self.chosen.as_ref().and_then(|chosen| rows.iter().position(|row| row == chosen)).unwrap_or(0)
    }

    pub fn drawn(&mut self, drawn: &Drawn) {
        self.cursor.drawn(drawn);
    }

    /// What a key means here; `None`: nothing, so [`Anywhere`](super::action::Context::Anywhere) may know it.
    pub fn understand(&self, chord: Chord, keymap: &Keymap) -> Option<DialogInput<'static>> {
        understand_list(chord, keymap)
    }

    pub fn input(&mut self, input: DialogInput<'_>) -> PickerOutcome {
        let rows = self.rows();
        self.cursor.set(self.at(&rows));
        match input {
            DialogInput::Action(Action::Close) if self.filter.is_empty() => return PickerOutcome::Close,
            DialogInput::Action(Action::Close) => {
                self.filter = Field::default();
            }
            DialogInput::Action(Action::Choose) => return self.open(rows.get(self.at(&rows))),
            DialogInput::Click(item) => {
                self.chosen = rows.get(item).cloned();
                return self.open(rows.get(item));
            }
            // Where nothing is typed there is no other use for them.
            DialogInput::Edit(Action::LineStart) if self.filter.is_empty() => self.chosen = None,
            DialogInput::Edit(Action::LineEnd) if self.filter.is_empty() => self.chosen = rows.last().cloned(),
            DialogInput::Typed(_) | DialogInput::Edit(_) | DialogInput::Paste(_) => {
                if self.filter.input(&input) {
                    self.chosen = None;
                }
            }
            DialogInput::Action(_) | DialogInput::Wheel(_) => {
                if self.cursor.input(&input, rows.len()) {
                    self.chosen = self.cursor.at(rows.len()).and_then(|at| rows.get(at)).cloned();
                }
            }
        }
        PickerOutcome::Stay
    }

    /// A file that cannot be run stays closed: its line says why. One that is too large may be tried: memory may be
    /// free by then, or the context smaller.
    fn open(&self, choice: Option<&Choice>) -> PickerOutcome {
        match choice {
            Some(Choice::Model(path)) => match self.known(path).map(|known| &known.verdict) {
                Some(Verdict::Unsupported { .. } | Verdict::Unreadable { .. }) => PickerOutcome::Stay,
                Some(Verdict::Fits { .. } | Verdict::FitsSplit { .. } | Verdict::TooLarge { .. }) | None => {
                    PickerOutcome::Load(path.clone())
                }
            },
            Some(Choice::Typed(text)) => PickerOutcome::OpenTyped(text.clone()),
            Some(Choice::Demo) if self.is_fetching() => PickerOutcome::Stay,
            Some(Choice::Demo) => PickerOutcome::FetchDemo,
            None => PickerOutcome::Stay,
        }
    }
}

/// Whether a text is rather a path than words to search for.
fn is_like_a_path(text: &str) -> bool {
    let starts = ["/", "~/", "./", "../"].iter().any(|start| text.starts_with(start));
    let is_of_windows = text.get(1..3).is_some_and(|colon| matches!(colon, ":\\" | ":/"));
    (starts && text.len() > 1) || (is_of_windows && text.starts_with(|c: char| c.is_ascii_alphabetic()))
}

#[cfg(test)]
mod tests;
