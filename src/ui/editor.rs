//! A multi-line text input: graphemes, soft-wrapped rows, words, kill and yank, undo, history.
//!
//! Pure state: keys are mapped to [`EditAction`] elsewhere, and the picture is made from [`Editor::layout`].

mod rows;
#[cfg(test)]
mod tests;
mod undo;

use std::borrow::Cow;
use std::ops::Range;

use unicode_segmentation::GraphemeCursor;

use self::rows::Row;
use self::undo::{Edit, Run, Undo};

/// What a key can do to the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EditAction {
    InsertNewline,
    DeleteBack,
    DeleteForward,
    DeleteWordBack,
    DeleteWordForward,
    /// To the end of the line, or the line break there.
    KillToEnd,
    /// To the start of the line, or the line break there.
    KillToStart,
    /// Inserts what was killed last.
    Yank,
    Left,
    Right,
    /// One row of the screen up.
    Up,
    Down,
    WordLeft,
    WordRight,
    LineStart,
    LineEnd,
    TextStart,
    TextEnd,
    Undo,
    Redo,
    HistoryPrevious,
    HistoryNext,
}

/// The rows of the input on the screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EditorLayout {
    /// Printable: what hides or commands is shown as a stand-in.
    pub rows: Vec<String>,
    /// Column and row of the cursor, from 0.
    pub cursor: (usize, usize),
}

/// A multi-line input.
#[derive(Clone, Debug)]
pub struct Editor {
    text: String,
    /// In bytes, always between two graphemes.
    cursor: usize,
    width: u16,
    /// The rows of `text` at `width`.
    rows: Vec<Row>,
    /// The column that Up and Down aim for.
    wanted_column: Option<usize>,
    killed: String,
    undo: Undo,
    history: Vec<String>,
    /// Which entry of the history is shown.
    browsed: Option<usize>,
    /// What was typed before browsing.
    draft: String,
}

impl Default for Editor {
    fn default() -> Self {
        Editor::new()
    }
}

impl Editor {
    /// An empty input, 80 columns wide until [`Editor::resize`].
    pub fn new() -> Editor {
        let width = 80;
        Editor {
            text: String::new(),
            cursor: 0,
            width,
            rows: rows::lay_out("", width),
            wanted_column: None,
            killed: String::new(),
            undo: Undo::default(),
            history: Vec::new(),
            browsed: None,
            draft: String::new(),
        }
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    /// Where the cursor is, in bytes of the text.
    pub fn cursor(&self) -> usize {
        self.cursor
    }

    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Replaces the text; the cursor goes to its end, and nothing can be undone.
    pub fn set_text(&mut self, text: &str) {
        self.text = cleaned(text);
        self.cursor = self.text.len();
        self.wanted_column = None;
        self.undo = Undo::default();
        self.rows = rows::lay_out(&self.text, self.width);
    }

    /// Takes the text out, for sending it.
    pub fn take(&mut self) -> String {
        let text = std::mem::take(&mut self.text);
        self.set_text("");
        self.browsed = None;
        self.draft.clear();
        text
    }

    /// Tells the width that rows are wrapped at, for [`Editor::act`] and [`Editor::click`].
    pub fn resize(&mut self, width: u16) {
        if width != self.width {
            self.width = width;
            self.rows = rows::lay_out(&self.text, width);
        }
    }

    /// Column and row of the cursor at the width of [`Editor::resize`].
    pub fn cursor_cell(&self) -> (usize, usize) {
        rows::locate(&self.text, &self.rows, self.cursor, self.width)
    }

    /// How many rows the text takes at a width.
    pub fn n_rows(&self, width: u16) -> usize {
        self.rows_at(width).len()
    }

    /// First of the rows that a window of so many lines shows, at the width of [`Editor::resize`]: the cursor's is
    /// among them.
    pub fn first_row(&self, height: usize) -> usize {
        first_row(self.cursor_cell().1, self.rows.len(), height)
    }

    /// What a window of so many lines shows, the cursor counted from its first row: a long text is not copied for the
    /// few rows that are seen.
    pub fn window(&self, width: u16, height: usize) -> EditorLayout {
        let rows = self.rows_at(width);
        let (column, row) = rows::locate(&self.text, &rows, self.cursor, width);
        let first = first_row(row, rows.len(), height);
        let shown = rows.iter().skip(first).take(height);
        EditorLayout { rows: shown.map(|row| rows::shown(&self.text, row)).collect(), cursor: (column, row - first) }
    }

    /// All rows at a width.
    pub fn layout(&self, width: u16) -> EditorLayout {
        self.window(width, usize::MAX)
    }

    fn rows_at(&self, width: u16) -> Cow<'_, [Row]> {
        if width == self.width { Cow::Borrowed(&self.rows) } else { Cow::Owned(rows::lay_out(&self.text, width)) }
    }

    /// Puts the cursor to a cell of the rows; beyond their end, to the nearest place.
    pub fn click(&mut self, column: usize, row: usize) {
        self.move_to(rows::position(&self.text, &self.rows, column, row));
    }

    /// Inserts what was typed or pasted. Line breaks of all systems become `\n`, tabs four spaces; other control
    /// characters are dropped.
    pub fn insert_text(&mut self, text: &str) {
        let text = cleaned(text);
        if text.is_empty() {
            return;
        }
        let typed = text != "\n" && next_boundary(&text, 0) == text.len();
        self.replace(self.cursor..self.cursor, &text, if typed { Run::Typed } else { Run::Single });
    }

    /// Does an action; `false`: there was nothing to do, as for Up in the first row.
    pub fn act(&mut self, action: EditAction) -> bool {
        let (text, cursor) = (&self.text, self.cursor);
        match action {
            EditAction::InsertNewline => {
                self.replace(cursor..cursor, "\n", Run::Single);
                true
            }
            EditAction::DeleteBack => self.delete(previous_boundary(text, cursor)..cursor),
            EditAction::DeleteForward => self.delete(cursor..next_boundary(text, cursor)),
            EditAction::DeleteWordBack => self.kill(word_before(text, cursor)..cursor),
            EditAction::DeleteWordForward => self.kill(cursor..word_after(text, cursor)),
            EditAction::KillToEnd => {
                let end = line_end(text, cursor);
                self.kill(cursor..if end == cursor { next_boundary(text, cursor) } else { end })
            }
            EditAction::KillToStart => {
                let start = line_start(text, cursor);
                self.kill(if start == cursor { previous_boundary(text, cursor) } else { start }..cursor)
            }
            EditAction::Yank => {
                let killed = self.killed.clone();
                !killed.is_empty() && self.replace(cursor..cursor, &killed, Run::Single)
            }
            EditAction::Left => self.move_to(previous_boundary(text, cursor)),
            EditAction::Right => self.move_to(next_boundary(text, cursor)),
            EditAction::Up => self.move_rows(|row| row.checked_sub(1)),
            EditAction::Down => self.move_rows(|row| row.checked_add(1)),
            EditAction::WordLeft => self.move_to(word_before(text, cursor)),
            EditAction::WordRight => self.move_to(word_after(text, cursor)),
            EditAction::LineStart => self.move_to(line_start(text, cursor)),
            EditAction::LineEnd => self.move_to(line_end(text, cursor)),
            EditAction::TextStart => self.move_to(0),
            EditAction::TextEnd => self.move_to(text.len()),
            EditAction::Undo => match self.undo.undo() {
                Some(edit) => self.apply(edit.at..edit.at + edit.inserted.len(), &edit.removed, edit.cursor_before),
                None => false,
            },
            EditAction::Redo => match self.undo.redo() {
                Some(edit) => {
                    let end = edit.at + edit.inserted.len();
                    self.apply(edit.at..edit.at + edit.removed.len(), &edit.inserted, end)
                }
                None => false,
            },
            EditAction::HistoryPrevious => {
                let earlier = self.browsed.unwrap_or(self.history.len()).checked_sub(1);
                earlier.is_some_and(|entry| self.browse(Some(entry)))
            }
            EditAction::HistoryNext => match self.browsed {
                Some(entry) => self.browse(Some(entry + 1).filter(|&next| next < self.history.len())),
                None => false,
            },
        }
    }

    /// The texts to browse, oldest first.
    pub fn set_history(&mut self, history: Vec<String>) {
        self.history = history;
        self.browsed = None;
    }

    /// Adds a text that was sent. Blank texts and repetitions of the last are not kept.
    pub fn push_history(&mut self, text: &str) {
        if !text.trim().is_empty() && self.history.last().is_none_or(|last| last != text) {
            self.history.push(text.to_owned());
        }
        self.browsed = None;
    }

    /// Shows an entry of the history, or what was being typed before.
    fn browse(&mut self, entry: Option<usize>) -> bool {
        if self.browsed.is_none() {
            self.draft.clone_from(&self.text);
        }
        let text = match entry.and_then(|entry| self.history.get(entry)) {
            Some(text) => text.clone(),
            None => std::mem::take(&mut self.draft),
        };
        self.set_text(&text);
        self.browsed = entry;
        true
    }

    fn delete(&mut self, range: Range<usize>) -> bool {
        !range.is_empty() && self.replace(range, "", Run::Deleted)
    }

    fn kill(&mut self, range: Range<usize>) -> bool {
        if range.is_empty() {
            return false;
        }
        self.killed = self.text.get(range.clone()).unwrap_or_default().to_owned();
        self.replace(range, "", Run::Single)
    }

    /// Changes the text in a way that can be undone.
    fn replace(&mut self, range: Range<usize>, with: &str, run: Run) -> bool {
        let removed = self.text.get(range.clone()).unwrap_or_default().to_owned();
        let edit = Edit { at: range.start, removed, inserted: with.to_owned(), cursor_before: self.cursor };
        self.undo.record(edit, run);
        let end = range.start + with.len();
        self.apply(range, with, end)
    }

    fn apply(&mut self, range: Range<usize>, with: &str, cursor: usize) -> bool {
        self.text.replace_range(range, with);
        // What stands before and after may have become one grapheme.
        self.cursor = boundary_from(&self.text, cursor);
        self.wanted_column = None;
        self.rows = rows::lay_out(&self.text, self.width);
        true
    }

    fn move_to(&mut self, cursor: usize) -> bool {
        let moved = cursor != self.cursor;
        self.cursor = cursor;
        self.wanted_column = None;
        self.undo.end_run();
        moved
    }

    fn move_rows(&mut self, to: impl Fn(usize) -> Option<usize>) -> bool {
        let (column, row) = self.cursor_cell();
        let Some(row) = to(row).filter(|&row| row < self.rows.len()) else { return false };
        let column = self.wanted_column.unwrap_or(column);
        self.move_to(rows::position(&self.text, &self.rows, column, row));
        self.wanted_column = Some(column);
        true
    }
}

/// Text as the input keeps it.
fn cleaned(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\r' if chars.peek() == Some(&'\n') => {}
            '\n' | '\r' => clean.push('\n'),
            '\t' => clean.push_str("    "),
            _ if c.is_control() => {}
            _ => clean.push(c),
        }
    }
    clean
}

/// The first place between graphemes at or after `at`.
fn boundary_from(text: &str, at: usize) -> usize {
    match GraphemeCursor::new(at, text.len(), true).is_boundary(text, 0) {
        Ok(false) => next_boundary(text, at),
        Ok(true) | Err(_) => at,
    }
}

fn next_boundary(text: &str, at: usize) -> usize {
    GraphemeCursor::new(at, text.len(), true).next_boundary(text, 0).ok().flatten().unwrap_or(text.len())
}

fn previous_boundary(text: &str, at: usize) -> usize {
    GraphemeCursor::new(at, text.len(), true).prev_boundary(text, 0).ok().flatten().unwrap_or(0)
}

fn line_start(text: &str, at: usize) -> usize {
    text.get(..at).and_then(|before| before.rfind('\n')).map_or(0, |newline| newline + 1)
}

fn line_end(text: &str, at: usize) -> usize {
    text.get(at..).and_then(|after| after.find('\n')).map_or(text.len(), |newline| at + newline)
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The start of the word before `at`.
fn word_before(text: &str, at: usize) -> usize {
    let before = text.get(..at).unwrap_or_default();
    let word_end = before.trim_end_matches(|c| !is_word(c));
    let start = word_end.trim_end_matches(is_word).len();
    // Marks that are no letters of their own may end in the middle of a grapheme.
    match GraphemeCursor::new(start, text.len(), true).is_boundary(text, 0) {
        Ok(false) => previous_boundary(text, start),
        Ok(true) | Err(_) => start,
    }
}

/// The end of the word after `at`.
fn word_after(text: &str, at: usize) -> usize {
    let after = text.get(at..).unwrap_or_default();
    let word = after.trim_start_matches(|c| !is_word(c));
    boundary_from(text, text.len() - word.trim_start_matches(is_word).len())
}

/// The last rows are shown whole, and the cursor's row always.
fn first_row(cursor_row: usize, n_rows: usize, height: usize) -> usize {
    cursor_row.saturating_sub(height.saturating_sub(1)).min(n_rows.saturating_sub(height))
}
