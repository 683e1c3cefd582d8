//! Typed text with a cursor: filters, titles, the system prompt.

use unicode_segmentation::UnicodeSegmentation;

use super::DialogInput;
use crate::ui::action::Action;

/// Longer text is no filter and no title.
const MAX_LINE_BYTES: usize = 4096;
/// Longer text is no prompt that a context holds.
const MAX_TEXT_BYTES: usize = 1 << 20;

#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Field {
    text: String,
    /// Byte at which the next character comes; always between two characters.
    cursor: usize,
    /// Whether it may have several lines.
    has_lines: bool,
}

impl Field {
    /// One line, with the cursor at its end.
    pub fn new(text: &str) -> Field {
        let mut field = Field::default();
        field.paste(text);
        field
    }

    /// A text of several lines, with the cursor at its end.
    pub fn lines(text: &str) -> Field {
        let mut field = Field { has_lines: true, ..Field::default() };
        field.paste(text);
        field
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    /// Byte of the text.
    pub fn cursor(&self) -> usize {
        self.cursor
    }

    /// What stands before the cursor and after it.
    pub fn around_cursor(&self) -> (&str, &str) {
        self.text.split_at_checked(self.cursor).unwrap_or((&self.text, ""))
    }

    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    pub fn insert(&mut self, c: char) {
        let most = if self.has_lines { MAX_TEXT_BYTES } else { MAX_LINE_BYTES };
        let fits = !c.is_control() || (c == '\n' && self.has_lines);
        if fits && self.text.len() + c.len_utf8() <= most {
            self.text.insert(self.cursor, c);
            self.cursor += c.len_utf8();
        }
    }

    /// Line ends become spaces where there is one line, tabs everywhere; whatever else is no text is left out.
    pub fn paste(&mut self, text: &str) {
        let text = text.replace("\r\n", "\n").replace('\r', "\n");
        let text = if self.has_lines { &text } else { text.trim_end_matches('\n') };
        // At once, so that a long text takes no longer than it must.
        let after = self.text.split_off(self.cursor);
        for c in text.chars() {
            self.insert(match c {
                '\t' => ' ',
                '\n' if !self.has_lines => ' ',
                c => c,
            });
        }
        self.text.push_str(&after);
    }

    /// Follows what types or edits; whether the text is another one now.
    pub fn input(&mut self, input: &DialogInput<'_>) -> bool {
        match *input {
            DialogInput::Typed(c) => self.insert(c),
            DialogInput::Paste(text) => self.paste(text),
            DialogInput::Edit(action) => return self.edit(action),
            DialogInput::Action(_) | DialogInput::Click(_) | DialogInput::Wheel(_) => return false,
        }
        true
    }

    /// Follows an action of the input; whether the text is another one now.
    pub fn edit(&mut self, action: Action) -> bool {
        let before = self.text.len();
        match action {
            Action::Left => self.cursor = self.before(),
            Action::Right => self.cursor = self.after(),
            Action::WordLeft => self.cursor = self.word_before(),
            Action::WordRight => self.cursor = self.word_after(),
            Action::LineStart => self.cursor = self.line_start(),
            Action::LineEnd => self.cursor = self.line_end(),
            Action::TextStart => self.cursor = 0,
            Action::TextEnd => self.cursor = before,
            Action::Up => self.cursor = self.line_above(),
            Action::Down => self.cursor = self.line_below(),
            Action::NewLine => self.insert('\n'),
            Action::DeleteBack => self.delete(self.before(), self.cursor),
            Action::DeleteForward => self.delete(self.cursor, self.after()),
            Action::DeleteWordBack => self.delete(self.word_before(), self.cursor),
            Action::DeleteWordForward => self.delete(self.cursor, self.word_after()),
            Action::KillToStart => self.delete(self.line_start(), self.cursor),
            Action::KillToEnd => self.delete(self.cursor, self.line_end()),
            // The other actions are not about a text.
            _ => {}
        }
        self.text.len() != before
    }

    fn delete(&mut self, from: usize, to: usize) {
        self.text.replace_range(from..to, "");
        self.cursor = from;
    }

    fn before(&self) -> usize {
        let (before, _) = self.around_cursor();
        before.grapheme_indices(true).next_back().map_or(0, |(at, _)| at)
    }

    fn after(&self) -> usize {
        let (_, after) = self.around_cursor();
        self.cursor + after.graphemes(true).next().map_or(0, str::len)
    }

    fn word_before(&self) -> usize {
        let (before, _) = self.around_cursor();
        before.unicode_word_indices().next_back().map_or(0, |(at, _)| at)
    }

    fn word_after(&self) -> usize {
        let (_, after) = self.around_cursor();
        self.cursor + after.unicode_word_indices().next().map_or(after.len(), |(at, word)| at + word.len())
    }

    fn line_start(&self) -> usize {
        let (before, _) = self.around_cursor();
        before.rfind('\n').map_or(0, |at| at + 1)
    }

    fn line_end(&self) -> usize {
        let (_, after) = self.around_cursor();
        self.cursor + after.find('\n').unwrap_or(after.len())
    }

    /// The same column of the line above, or the start of the text.
    fn line_above(&self) -> usize {
        let start = self.line_start();
        let Some(end) = start.checked_sub(1) else { return 0 };
        let above = self.text.get(..end).and_then(|text| text.rfind('\n')).map_or(0, |at| at + 1);
        self.in_column(above, end, start)
    }

    /// The same column of the line below, or the end of the text.
    fn line_below(&self) -> usize {
        let end = self.line_end();
        if end == self.text.len() {
            return end;
        }
        let rest = self.text.get(end + 1..).unwrap_or_default();
        let below_end = end + 1 + rest.find('\n').unwrap_or(rest.len());
        self.in_column(end + 1, below_end, self.line_start())
    }

    /// Where the line from `start` to `end` has as many characters as the cursor's line, which starts at `own`.
    fn in_column(&self, start: usize, end: usize, own: usize) -> usize {
        let n = self.text.get(own..self.cursor).map_or(0, |text| text.graphemes(true).count());
        let line = self.text.get(start..end).unwrap_or_default();
        line.grapheme_indices(true).nth(n).map_or(end, |(at, _)| start + at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_by_what_a_user_calls_a_character() {
        let mut field = Field::new("naïve e\u{301}👩\u{200d}💻");
        assert!(field.edit(Action::DeleteBack));
        assert_eq!(field.text(), "naïve e\u{301}");
        assert!(field.edit(Action::DeleteBack));
        assert!(!field.edit(Action::WordLeft));
        field.insert('x');
        assert_eq!(field.text(), "xnaïve ");
        assert!(field.edit(Action::DeleteWordForward));
        assert_eq!(field.around_cursor(), ("x", " "));
        assert!(!field.edit(Action::Left) && !field.edit(Action::Left) && !field.edit(Action::DeleteBack));
        assert!(field.edit(Action::KillToEnd));
        assert!(field.is_empty());
    }

    #[test]
    fn what_is_pasted_into_a_line_is_one_line_without_commands() {
        let mut field = Field::new("ab");
        field.edit(Action::Left);
        field.paste("1\r\n2\t\u{1b}[3\n");
        assert_eq!(field.text(), "a1 2 [3b");
        assert_eq!(field.around_cursor(), ("a1 2 [3", "b"));
        field.paste(&"y".repeat(10_000));
        assert!(field.text().len() <= MAX_LINE_BYTES + 1);
    }

    #[test]
    fn a_text_has_lines() {
        let mut field = Field::lines("one\r\nthree é\n");
        assert!(!field.edit(Action::Up) && !field.edit(Action::LineEnd));
        assert_eq!(field.around_cursor(), ("one\nthree é", "\n"));
        field.edit(Action::Up);
        assert_eq!(field.around_cursor(), ("one", "\nthree é\n"));
        field.edit(Action::Left);
        field.edit(Action::Down);
        assert_eq!(field.around_cursor(), ("one\nth", "ree é\n"));
        assert!(field.edit(Action::NewLine) && field.edit(Action::KillToEnd));
        assert_eq!(field.text(), "one\nth\n\n");
        field.edit(Action::TextStart);
        field.edit(Action::Up);
        assert_eq!(field.cursor(), 0);
    }
}
