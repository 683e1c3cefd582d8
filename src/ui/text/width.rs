//! Columns of text, as ratatui places it into cells.

use std::borrow::Cow;

use ratatui::buffer::CellWidth;
use unicode_segmentation::UnicodeSegmentation;

/// Columns of one grapheme. Control characters have none: ratatui leaves them out.
pub fn grapheme_width(grapheme: &str) -> usize {
    if grapheme.contains(char::is_control) { 0 } else { usize::from(grapheme.cell_width()) }
}

/// Columns of a text.
pub fn width(text: &str) -> usize {
    if is_plain(text) { text.len() } else { text.graphemes(true).map(grapheme_width).sum() }
}

/// The text cut to `columns`, with `…` at its end where something was cut.
pub fn truncate(text: &str, columns: usize) -> Cow<'_, str> {
    truncate_with(text, columns, "…")
}

/// The text cut to `columns`, with `mark` at its end where something was cut (as much of it as there is room for).
pub fn truncate_with<'a>(text: &'a str, columns: usize, mark: &str) -> Cow<'a, str> {
    if width(text) <= columns {
        return Cow::Borrowed(text);
    }
    let mark = prefix(mark, columns);
    let kept = prefix(text, columns - width(mark));
    Cow::Owned(format!("{kept}{mark}"))
}

/// The longest start of a text that is no wider than `columns`.
pub fn prefix(text: &str, columns: usize) -> &str {
    let mut used = 0;
    for (at, grapheme) in text.grapheme_indices(true) {
        used += grapheme_width(grapheme);
        if used > columns {
            return text.get(..at).unwrap_or_default();
        }
    }
    text
}

/// Printable ASCII only: every byte is one grapheme of one column.
pub fn is_plain(text: &str) -> bool {
    text.bytes().all(|b| matches!(b, b' '..=b'~'))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use ratatui::buffer::Buffer;
    use ratatui::layout::Rect;
    use ratatui::style::Style;

    use super::*;

    #[test]
    fn columns_of_scripts() {
        for (text, columns) in [
            ("abc", 3),
            ("日本語", 6),
            ("e\u{301}", 1),
            ("👩\u{200d}👩\u{200d}👧", 2),
            ("🇨🇭", 2),
            ("❤\u{fe0f}", 2),
            ("שלום", 4),
            ("a\x1bb", 2),
        ] {
            assert_eq!(width(text), columns, "{text:?}");
        }
    }

    #[test]
    fn cut_text_ends_in_a_mark() {
        assert_eq!(truncate("layercake", 9), "layercake");
        assert_eq!(truncate("layercake", 6), "layer…");
        assert_eq!(truncate("日本語", 4), "日…");
        assert_eq!(truncate("abc", 1), "…");
        assert_eq!(truncate("abc", 0), "");
        assert_eq!(truncate_with("layercake", 6, "..."), "lay...");
        assert_eq!(truncate_with("layercake", 2, "..."), "..");
    }

    proptest! {
        #[test]
        fn agrees_with_the_cells(text in "(\\PC|👩\u{200d}💻|e\u{301}|ｶﾞ|日|🇨🇭|\u{200d}){0,20}", columns in 0..30usize) {
            let mut buffer = Buffer::empty(Rect::new(0, 0, 100, 1));
            let (end, _) = buffer.set_stringn(0, 0, &text, 100, Style::default());
            prop_assert_eq!(usize::from(end), width(&text));
            prop_assert!(width(&truncate(&text, columns)) <= columns);
        }
    }
}
