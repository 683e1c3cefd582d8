//! The system prompt, wrapped, with its cursor.

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use unicode_segmentation::UnicodeSegmentation;

use crate::ui::action::Action;
use crate::ui::dialog::list::first_shown;
use crate::ui::dialog::{Drawn, System};
use crate::ui::hits::Hits;
use crate::ui::text::printable;
use crate::ui::text::width::{grapheme_width, width};
use crate::ui::theme::Role;
use crate::ui::view::window::{Hint, Look, Window, open_window, put};

pub fn draw(system: &System, look: Look<'_>, area: Rect, buf: &mut Buffer, hits: &mut Hits) -> Drawn {
    // Not every terminal tells Shift+Enter from Enter.
    let newline: Vec<_> = look.keymap.chords(Action::NewLine).iter().take(2).map(ToString::to_string).collect();
    let newline = newline.join(" or ");
    let hints =
        [Hint::Does(Action::Send, "apply"), Hint::Keys(&newline, "new line"), Hint::Does(Action::Close, "discard")];
    let size = (76.min(area.width.saturating_sub(8)), 12.min(area.height.saturating_sub(6)));
    let window = Window { title: "System prompt", aside: "", hints: &hints, size };
    let inner = open_window(&window, look, area, buf, hits);
    let (lines, (x, y)) = laid_out(system.text.text(), system.text.cursor(), usize::from(inner.width));
    let page = usize::from(inner.height);
    let first = first_shown(y, lines.len(), page);
    if system.text.is_empty() {
        put(buf, inner, 0, 0, "How the model is to answer; empty: nothing is said.", look.style(Role::Dim), look);
    }
    for (y, line) in lines.iter().skip(first).take(page).enumerate() {
        put(buf, inner, 0, y as u16, line, look.style(Role::Text), look);
    }
    let cursor = (!inner.is_empty()).then(|| {
        let x = (x as u16).min(inner.width - 1);
        Position::new(inner.x + x, inner.y + (y - first.min(y)) as u16)
    });
    Drawn { cursor, page, most: lines.len().saturating_sub(page) }
}

/// The text in lines of at most `columns`, cut after a space where that can be; the cursor's column and line.
fn laid_out(text: &str, cursor: usize, columns: usize) -> (Vec<String>, (usize, usize)) {
    let columns = columns.max(2);
    let mut lines = vec![];
    let mut place = (0, 0);
    let mut start = 0;
    for line in text.split('\n') {
        let mut own = cursor.checked_sub(start).filter(|at| *at <= line.len());
        start += line.len() + 1;
        let mut rest = line;
        loop {
            let cut = cut_of(rest, columns);
            let (shown, after) = rest.split_at_checked(cut).unwrap_or((rest, ""));
            if let Some(at) = own
                && (at < shown.len() || after.is_empty())
            {
                place = (width(&printable(shown.get(..at).unwrap_or(shown))), lines.len());
                own = None;
            }
            own = own.and_then(|at| at.checked_sub(shown.len()));
            lines.push(printable(shown).into_owned());
            if after.is_empty() {
                break;
            }
            rest = after;
        }
    }
    (lines, place)
}

/// Bytes of the text's first line of at most `columns`.
fn cut_of(text: &str, columns: usize) -> usize {
    let (mut used, mut after_space) = (0, None);
    for (at, grapheme) in text.grapheme_indices(true) {
        used += grapheme_width(&printable(grapheme));
        if used > columns {
            return after_space.filter(|cut| *cut > 0).unwrap_or(at.max(grapheme.len()));
        }
        if grapheme == " " {
            after_space = Some(at + 1);
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_cut_after_spaces_and_the_cursor_is_where_it_types() {
        let lines = |text: &str, cursor| laid_out(text, cursor, 6);
        assert_eq!(
            lines("one two three\n\nx", 0),
            (vec!["one ".into(), "two ".into(), "three".into(), "".into(), "x".into()], (0, 0))
        );
        assert_eq!(lines("one two", 4).1, (0, 1));
        assert_eq!(lines("one two", 7).1, (3, 1));
        assert_eq!(lines("abcdefgh", 8), (vec!["abcdef".into(), "gh".into()], (2, 1)));
        assert_eq!(lines("a\n", 2), (vec!["a".into(), "".into()], (0, 1)));
        assert_eq!(lines("日本語語", 6).0, ["日本語", "語"]);
        assert_eq!(lines("a\u{1b}[2J", 5).0, ["a\u{fffd}[2J"]);
    }
}
