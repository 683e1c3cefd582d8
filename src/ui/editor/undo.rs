//! What was changed, for taking it back.

/// Changes kept at most.
const MAX_EDITS: usize = 1_000;

/// A stretch of text that was replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// In bytes.
    pub at: usize,
    pub removed: String,
    pub inserted: String,
    pub cursor_before: usize,
}

/// Which changes are taken back together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Run {
    /// Characters typed one after the other.
    Typed,
    /// Characters deleted one after the other.
    Deleted,
    /// A change of its own.
    Single,
}

#[derive(Clone, Debug, Default)]
pub struct Undo {
    done: Vec<Edit>,
    undone: Vec<Edit>,
    /// The kind of the last change, while it can still be added to.
    run: Option<Run>,
}

impl Undo {
    pub fn record(&mut self, edit: Edit, run: Run) {
        self.undone.clear();
        let joins = self.run == Some(run);
        self.run = Some(run);
        match (self.done.last_mut(), run) {
            (Some(last), Run::Typed) if joins && last.at + last.inserted.len() == edit.at => {
                last.inserted.push_str(&edit.inserted);
            }
            (Some(last), Run::Deleted) if joins && edit.at == last.at => last.removed.push_str(&edit.removed),
            (Some(last), Run::Deleted) if joins && edit.at + edit.removed.len() == last.at => {
                last.at = edit.at;
                last.removed.insert_str(0, &edit.removed);
            }
            (Some(_) | None, Run::Typed | Run::Deleted | Run::Single) => {
                if self.done.len() >= MAX_EDITS {
                    self.done.remove(0);
                }
                self.done.push(edit);
            }
        }
    }

    /// What follows is taken back by itself.
    pub fn end_run(&mut self) {
        self.run = None;
    }

    /// The change to take back.
    pub fn undo(&mut self) -> Option<Edit> {
        self.run = None;
        let edit = self.done.pop()?;
        self.undone.push(edit.clone());
        Some(edit)
    }

    /// The change to make again.
    pub fn redo(&mut self) -> Option<Edit> {
        self.run = None;
        let edit = self.undone.pop()?;
        self.done.push(edit.clone());
        Some(edit)
    }
}
