//! Words and figures as they are shown.

use unicode_segmentation::UnicodeSegmentation;

use crate::ui::text::printable;
use crate::ui::text::width::{grapheme_width, width};

/// Text cut at spaces into lines of at most `columns`; a word that is longer is cut where it must be.
pub fn wrap_words(text: &str, columns: usize) -> Vec<String> {
    let columns = columns.max(1);
    let text = printable(text);
    let mut lines = vec![];
    let mut line = String::new();
    for word in text.split_whitespace() {
        let space = usize::from(!line.is_empty());
        if width(&line) + space + width(word) <= columns {
            line.extend((space == 1).then_some(' '));
            line.push_str(word);
            continue;
        }
        if !line.is_empty() {
            lines.push(std::mem::take(&mut line));
        }
        for grapheme in word.graphemes(true) {
            if !line.is_empty() && width(&line) + grapheme_width(grapheme) > columns {
                lines.push(std::mem::take(&mut line));
            }
            line.push_str(grapheme);
        }
    }
    if !line.is_empty() {
        lines.push(line);
    }
    lines
}

/// `1.2 GiB`, `734.0 MiB`: with one decimal from 1 KiB on.
pub fn bytes_text(n_bytes: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if n_bytes < 1024 {
        return format!("{n_bytes} B");
    }
    let mut value = n_bytes as f64 / 1024.0;
    let mut unit = 0;
    // From here on it would be shown as 1024.0.
    while value >= 1023.95 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// With a comma at each thousand.
pub fn count_text(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_wrapped_and_long_ones_cut() {
        assert_eq!(wrap_words("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap_words("/usr/lib/x86", 5), ["/usr/", "lib/x", "86"]);
        assert_eq!(wrap_words("日本語 a", 3), ["日", "本", "語", "a"]);
        assert!(wrap_words("  ", 5).is_empty());
        assert_eq!(wrap_words("a\u{1b}[2J", 9), ["a\u{fffd}[2J"]);
    }

    #[test]
    fn sizes_and_counts_have_words() {
        assert_eq!(bytes_text(1023), "1023 B");
        assert_eq!(bytes_text(1024), "1.0 KiB");
        assert_eq!(bytes_text((1 << 30) - 1), "1.0 GiB");
        assert_eq!(bytes_text(u64::MAX), "16384.0 PiB");
        assert_eq!(count_text(1_234_567), "1,234,567");
        assert_eq!(count_text(12), "12");
    }
}
