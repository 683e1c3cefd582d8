//! A cursor in a list whose length others decide.

use super::{DialogInput, Drawn};
use crate::ui::action::Action;

#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Cursor {
    at: usize,
    /// Rows that the last picture had room for.
    page: usize,
}

impl Cursor {
    pub fn at(&self, n: usize) -> Option<usize> {
        n.checked_sub(1).map(|last| self.at.min(last))
    }

    pub fn set(&mut self, at: usize) {
        self.at = at;
    }

    pub fn drawn(&mut self, drawn: &Drawn) {
        self.page = drawn.page;
    }

    /// Follows what moves in a list of `n`; whether it was such an input. The ends are ends.
    pub fn input(&mut self, input: &DialogInput<'_>, n: usize) -> bool {
        let at = self.at(n).unwrap_or(0);
        let page = self.page.saturating_sub(1).max(1);
        self.at = match *input {
            DialogInput::Action(Action::ItemUp) => at.saturating_sub(1),
            DialogInput::Action(Action::ItemDown) => at + 1,
            DialogInput::Action(Action::PageUp) => at.saturating_sub(page),
            DialogInput::Action(Action::PageDown) => at + page,
            // Beside an empty filter the keys of a line's ends have nothing else to do.
            DialogInput::Action(Action::Top) | DialogInput::Edit(Action::LineStart) => 0,
            DialogInput::Action(Action::Bottom) | DialogInput::Edit(Action::LineEnd) => n,
            DialogInput::Wheel(rows) => at.saturating_add_signed(rows as isize),
            _ => return false,
        }
        .min(n.saturating_sub(1));
        true
    }
}

/// The first row to show of `n`, so that the one with the cursor is in the middle where that can be.
pub fn first_shown(cursor: usize, n: usize, page: usize) -> usize {
    cursor.saturating_sub(page / 2).min(n.saturating_sub(page))
}

/// How far a page of text is scrolled.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Scroll {
    pub top: usize,
    page: usize,
    /// Largest `top` that leaves no empty row.
    most: usize,
}

impl Scroll {
    pub fn to_top(&mut self) {
        self.top = 0;
    }

    pub fn to_bottom(&mut self) {
        self.top = self.most;
    }

    pub fn drawn(&mut self, drawn: &Drawn) {
        (self.page, self.most) = (drawn.page, drawn.most);
        self.top = self.top.min(drawn.most);
    }

    /// Follows what scrolls; whether it was such an input.
    pub fn input(&mut self, input: &DialogInput<'_>) -> bool {
        let page = self.page.saturating_sub(1).max(1);
        self.top = match *input {
            DialogInput::Action(Action::ItemUp) => self.top.saturating_sub(1),
            DialogInput::Action(Action::ItemDown) => self.top + 1,
            DialogInput::Action(Action::PageUp) => self.top.saturating_sub(page),
            DialogInput::Action(Action::PageDown) => self.top + page,
            DialogInput::Action(Action::Top) => 0,
            DialogInput::Action(Action::Bottom) => self.most,
            DialogInput::Wheel(rows) => self.top.saturating_add_signed(rows as isize),
            _ => return false,
        }
        .min(self.most);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cursor_stays_in_the_list() {
        let mut cursor = Cursor::default();
        assert_eq!(cursor.at(0), None);
        assert!(cursor.input(&DialogInput::Action(Action::ItemUp), 3));
        assert_eq!(cursor.at(3), Some(0));
        cursor.input(&DialogInput::Wheel(7), 3);
        assert_eq!(cursor.at(3), Some(2));
        assert_eq!(cursor.at(2), Some(1), "the list became shorter");
        cursor.drawn(&Drawn { page: 10, ..Drawn::default() });
        cursor.input(&DialogInput::Action(Action::PageDown), 30);
        assert_eq!(cursor.at(30), Some(11));
        cursor.input(&DialogInput::Wheel(i32::MIN), 30);
        assert_eq!(cursor.at(30), Some(0));
        assert!(!cursor.input(&DialogInput::Typed('x'), 30));
    }

    #[test]
    fn the_row_with_the_cursor_is_always_shown() {
        for n in 0..12 {
            for page in 1..8 {
                for cursor in 0..n {
                    let first = first_shown(cursor, n, page);
                    assert!((first..first + page).contains(&cursor), "{cursor} of {n}, {page} rows");
                    assert!(first == 0 || first + page <= n);
                }
            }
        }
    }
}
