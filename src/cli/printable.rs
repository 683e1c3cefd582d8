//! Text that others wrote, made harmless for a terminal.

/// Model text without control characters: it must not be able to command the terminal.
pub fn printable(text: &str) -> String {
    text.chars().filter(|c| matches!(c, '\n' | '\t') || !is_hostile(*c)).collect()
}

/// Control characters (C0, DEL, C1) and those that change the direction of text.
fn is_hostile(c: char) -> bool {
    c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn model_text_cannot_command_the_terminal() {
        let hostile = "a\x1b]52;c;aGk=\x07b\u{9b}31mc\rd\u{202e}e\tf\ng";
        assert_eq!(printable(hostile), "a]52;c;aGk=b31mcde\tf\ng");
    }
}
