//! Classes of characters, as the splitting rules of pre-tokenizers name them.

use unicode_general_category::{GeneralCategory, get_general_category};

/// Disjoint classes, one bit each, so that a union or a complement of classes is one integer.
pub(super) type Classes = u16;

pub(super) const UPPER: Classes = 1 << 0; // Lu
pub(super) const TITLE: Classes = 1 << 1; // Lt
pub(super) const LOWER: Classes = 1 << 2; // Ll
pub(super) const MODIFIER: Classes = 1 << 3; // Lm
pub(super) const OTHER_LETTER: Classes = 1 << 4; // Lo
pub(super) const MARK: Classes = 1 << 5; // M
pub(super) const DIGIT: Classes = 1 << 6; // 0-9
pub(super) const OTHER_NUMBER: Classes = 1 << 7; // N without 0-9
pub(super) const PUNCTUATION: Classes = 1 << 8; // P
pub(super) const SYMBOL: Classes = 1 << 9; // S
pub(super) const BLANK: Classes = 1 << 10; // the ASCII space alone
pub(super) const NEWLINE: Classes = 1 << 11; // \r and \n
pub(super) const OTHER_SPACE: Classes = 1 << 12; // the rest of White_Space
pub(super) const OTHER: Classes = 1 << 13; // control, format, unassigned, private use

/// `\p{L}`
pub(super) const LETTER: Classes = UPPER | TITLE | LOWER | MODIFIER | OTHER_LETTER;
/// `\p{N}`
pub(super) const NUMBER: Classes = DIGIT | OTHER_NUMBER;
/// `\s`
pub(super) const SPACE: Classes = BLANK | NEWLINE | OTHER_SPACE;

const ALL: Classes = (1 << 14) - 1;

/// Every class but these: `[^...]`.
pub(super) const fn except(classes: Classes) -> Classes {
    ALL & !classes
}

/// The class of a character: one bit of [`Classes`].
pub(super) fn class_of(c: char) -> Classes {
    if c.is_ascii() { ASCII[c as usize] } else { class_by_category(c) }
}

pub(super) const ASCII: [Classes; 128] = {
    let mut table = [OTHER; 128];
    let mut i = 0;
    while i < 128 {
        let b = i as u8;
        table[i] = match b {
            b'A'..=b'Z' => UPPER,
            b'a'..=b'z' => LOWER,
            b'0'..=b'9' => DIGIT,
            b' ' => BLANK,
            b'\r' | b'\n' => NEWLINE,
            b'\t' | 0x0B | 0x0C => OTHER_SPACE,
            b'$' | b'+' | b'<' | b'=' | b'>' | b'^' | b'`' | b'|' | b'~' => SYMBOL,
            b'!'..=b'/' | b':'..=b'@' | b'['..=b'`' | b'{'..=b'~' => PUNCTUATION,
            _ => OTHER,
        };
        i += 1;
    }
    table
};

fn class_by_category(c: char) -> Classes {
    use GeneralCategory as G;
    if c.is_whitespace() {
        return OTHER_SPACE;
    }
    match get_general_category(c) {
        G::UppercaseLetter => UPPER,
        G::TitlecaseLetter => TITLE,
        G::LowercaseLetter => LOWER,
        G::ModifierLetter => MODIFIER,
        G::OtherLetter => OTHER_LETTER,
        G::NonspacingMark | G::SpacingMark | G::EnclosingMark => MARK,
        G::DecimalNumber | G::LetterNumber | G::OtherNumber => OTHER_NUMBER,
        G::ConnectorPunctuation
        | G::DashPunctuation
        | G::OpenPunctuation
        | G::ClosePunctuation
        | G::InitialPunctuation
        | G::FinalPunctuation
        | G::OtherPunctuation => PUNCTUATION,
        G::MathSymbol | G::CurrencySymbol | G::ModifierSymbol | G::OtherSymbol => SYMBOL,
        // The crate marks its enum non-exhaustive; what is left is control, format, separators and unassigned.
        _ => OTHER,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ascii_table_agrees_with_the_general_categories() {
        for b in 0x21..0x7Fu8 {
            let c = char::from(b);
            let expected = if c.is_ascii_digit() { DIGIT } else { class_by_category(c) };
            assert_eq!(class_of(c), expected, "{c:?}");
        }
        for b in (0..0x21u8).chain([0x7F]) {
            let c = char::from(b);
            assert_eq!(class_of(c) & SPACE != 0, c.is_whitespace(), "{c:?}");
        }
    }

    #[test]
    fn classes_are_single_bits() {
        for c in ['a', 'Z', 'ǅ', 'ʰ', '中', '\u{301}', '7', '½', '‼', '😀', ' ', '\n', '\u{3000}', '\u{200d}'] {
            assert_eq!(class_of(c).count_ones(), 1, "{c:?}");
        }
        assert_eq!(except(SPACE | LETTER) & (SPACE | LETTER), 0);
    }
}
