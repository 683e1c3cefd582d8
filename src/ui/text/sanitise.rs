//! Text that others wrote (models, files, drivers), made harmless for a terminal and honest for a reader.
//!
//! Zero-width joiner, zero-width non-joiner and variation selectors stay: emoji and the scripts of India and Iran
//! need them. Unassigned and private characters stay as well: they only look odd.

use std::borrow::Cow;

/// The visible stand-in for a character that must not reach the terminal.
pub const STAND_IN: char = '\u{fffd}';

/// Columns between tab stops.
pub const TAB_COLUMNS: usize = 4;

/// What takes the place of a character.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Becomes {
    /// [`STAND_IN`]: the reader shall see that something was there.
    Visible,
    /// Nothing: it had no look of its own, and good text contains it.
    Nothing,
}

/// Characters that command the terminal, re-order text or hide it, as ascending ranges.
const REPLACED: &[(char, char, Becomes)] = &[
    ('\u{0}', '\u{1f}', Becomes::Visible), // C0 control characters, ESC and BEL among them
    ('\u{7f}', '\u{9f}', Becomes::Visible), // DEL and C1: single-character CSI, OSC, DCS
    ('\u{ad}', '\u{ad}', Becomes::Nothing), // soft hyphen
    ('\u{600}', '\u{605}', Becomes::Visible), // Arabic number signs, which enclose what follows
    ('\u{61c}', '\u{61c}', Becomes::Visible), // Arabic letter mark
    ('\u{6dd}', '\u{6dd}', Becomes::Visible), // Arabic end of ayah, which encloses what follows
    ('\u{70f}', '\u{70f}', Becomes::Visible), // Syriac abbreviation mark
    ('\u{180e}', '\u{180e}', Becomes::Visible), // Mongolian vowel separator
    ('\u{200b}', '\u{200b}', Becomes::Nothing), // zero-width space
    ('\u{200e}', '\u{200f}', Becomes::Visible), // left-to-right and right-to-left marks
    ('\u{2028}', '\u{2029}', Becomes::Visible), // line and paragraph separators
    ('\u{202a}', '\u{202e}', Becomes::Visible), // bidirectional embeddings and overrides
    ('\u{2060}', '\u{2060}', Becomes::Nothing), // word joiner
    ('\u{2061}', '\u{2065}', Becomes::Visible), // invisible mathematical operators
    ('\u{2066}', '\u{206f}', Becomes::Visible), // bidirectional isolates, deprecated format characters
    ('\u{feff}', '\u{feff}', Becomes::Nothing), // byte order mark
    ('\u{fff9}', '\u{fffb}', Becomes::Visible), // interlinear annotation
    ('\u{110bd}', '\u{110bd}', Becomes::Visible), // Kaithi number signs
    ('\u{110cd}', '\u{110cd}', Becomes::Visible), //
    ('\u{13430}', '\u{1345f}', Becomes::Visible), // Egyptian hieroglyph format controls
    ('\u{1bca0}', '\u{1bca3}', Becomes::Visible), // shorthand format controls
    ('\u{1d173}', '\u{1d17a}', Becomes::Visible), // musical format controls
    ('\u{e0000}', '\u{e007f}', Becomes::Nothing), // tags: text that only machines read
];

/// What a character must become; `None`: it may stay.
fn replacement(c: char) -> Option<Becomes> {
    if matches!(c, ' '..='~') {
        return None;
    }
    let at = REPLACED.partition_point(|&(_, last, _)| last < c);
    REPLACED.get(at).and_then(|&(first, _, becomes)| (first <= c).then_some(becomes))
}

/// Whether a character must never reach the terminal (line feed and tab included: they are the layout's business).
pub fn is_hostile(c: char) -> bool {
    replacement(c).is_some()
}

/// One line of text for the screen: no control character (line feeds and tabs neither) and nothing that re-orders or
/// hides text.
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(is_hostile) {
        return Cow::Borrowed(text);
    }
    let mut clean = String::with_capacity(text.len());
    for c in text.chars() {
        push_printable(&mut clean, c);
    }
    Cow::Owned(clean)
}

/// Several lines of text for the screen: as [`printable`], but `\n` stays, `\r\n` becomes `\n`, and a tab becomes
/// spaces up to the next multiple of [`TAB_COLUMNS`] characters. As many lines come out as went in.
pub fn printable_text(text: &str) -> Cow<'_, str> {
    if !text.contains(|c| c != '\n' && is_hostile(c)) {
        return Cow::Borrowed(text);
    }
    let mut clean = String::with_capacity(text.len());
    let mut column = 0;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\r' if chars.peek() == Some(&'\n') => {}
            '\n' => {
                clean.push('\n');
                column = 0;
            }
            '\t' => {
                let spaces = TAB_COLUMNS - column % TAB_COLUMNS;
                clean.extend(std::iter::repeat_n(' ', spaces));
                column += spaces;
            }
            _ => {
                push_printable(&mut clean, c);
                column += 1;
            }
        }
    }
    Cow::Owned(clean)
}

/// One line of text with a stand-in for every hostile character, so that the characters stay as many: for text that is
/// being edited.
pub fn revealed(text: &str) -> Cow<'_, str> {
    if text.contains(is_hostile) {
        Cow::Owned(text.chars().map(|c| if is_hostile(c) { STAND_IN } else { c }).collect())
    } else {
        Cow::Borrowed(text)
    }
}

fn push_printable(clean: &mut String, c: char) {
    match replacement(c) {
        None => clean.push(c),
        Some(Becomes::Visible) => clean.push(STAND_IN),
        Some(Becomes::Nothing) => {}
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use unicode_general_category::{GeneralCategory, get_general_category};

    use super::*;

    #[test]
    fn escape_sequences_lose_their_escape() {
        assert_eq!(printable("a\x1b]52;c;aGk=\x07b"), "a\u{fffd}]52;c;aGk=\u{fffd}b");
        assert_eq!(printable("\x1b[31m\u{9b}0m\u{90}q\u{9c}"), "\u{fffd}[31m\u{fffd}0m\u{fffd}q\u{fffd}");
        assert_eq!(printable("two\nlines\t"), "two\u{fffd}lines\u{fffd}");
    }

    #[test]
    fn text_that_hides_or_turns_is_seen() {
        assert_eq!(printable("safe\u{202e}exe.txt\u{2066}"), "safe\u{fffd}exe.txt\u{fffd}");
        assert_eq!(printable("a\u{ad}b\u{feff}c\u{200b}d\u{e0041}\u{e007f}"), "abcd");
    }

    #[test]
    fn joiners_and_selectors_stay() {
        for text in ["👩\u{200d}💻", "می\u{200c}خواهم", "❤\u{fe0f}", "क्\u{200d}ष", "e\u{301}", "ｶﾞ", "日本語", "עברית"]
        {
            assert!(matches!(printable(text), Cow::Borrowed(_)), "{text}");
        }
    }

    #[test]
    fn lines_and_tabs_of_longer_text() {
        assert_eq!(printable_text("a\tb\r\nc\rd\u{2028}e\n\t\x07"), "a   b\nc\u{fffd}d\u{fffd}e\n    \u{fffd}");
        assert!(matches!(printable_text("a\nb"), Cow::Borrowed(_)));
    }

    #[test]
    fn table_ascends_and_has_every_format_character() {
        for pair in REPLACED.windows(2) {
            assert!(pair[0].1 < pair[1].0, "{:?}", pair[1]);
        }
        let kept = ['\u{200c}', '\u{200d}'];
        // Arabic signs added by later Unicode versions have a visible form and enclose nothing that follows unseen.
        let visible = ['\u{890}', '\u{891}', '\u{8e2}'];
        for c in (0..=0x10ffff).filter_map(char::from_u32) {
            let category = get_general_category(c);
            let hides = matches!(
                category,
                GeneralCategory::Control
                    | GeneralCategory::Format
                    | GeneralCategory::LineSeparator
                    | GeneralCategory::ParagraphSeparator
            );
            if hides && !kept.contains(&c) && !visible.contains(&c) {
                assert!(is_hostile(c), "{:x}", c as u32);
            }
        }
    }

    proptest! {
        #[test]
        fn nothing_hostile_is_left(text in any::<String>()) {
            prop_assert!(!printable(&text).contains(is_hostile));
            prop_assert!(!printable_text(&text).contains(|c| c != '\n' && is_hostile(c)));
            let clean: String = text.chars().filter(|&c| !is_hostile(c)).collect();
            prop_assert_eq!(printable(&clean), clean.as_str());
            prop_assert_eq!(printable_text(&clean), clean.as_str());
        }
    }
}
