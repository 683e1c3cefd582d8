//! Code blocks: the label, and lines that are cut where they are too long.

use ratatui::text::Span;

use super::highlight::Run;
use super::sanitise::printable;
use super::styles::TextStyles;
use super::wrap::{clip, cut, indented, push_piece};

/// The language in the info string of a fence: `rust` in `rust,ignore`, `haskell` in `{.haskell}`.
pub fn language(info: &str) -> String {
    let info = info.trim_start_matches(['{', '.', ' ']);
    let end = |c: char| c.is_whitespace() || matches!(c, ',' | '}' | ':');
    printable(info.split(end).next().unwrap_or_default()).into_owned()
}

/// The line above a code block that names its language.
pub fn code_label(language: &str, room: usize, styles: &TextStyles) -> Option<Vec<Span<'static>>> {
    if language.is_empty() {
        return None;
    }
    let indent = Span::styled(" ".repeat(code_indent(room)), styles.code_block);
    let label = Span::styled(language.to_owned(), styles.code_label);
    Some(clip(vec![indent, label], room))
}

fn code_indent(room: usize) -> usize {
    if room >= 8 { 2 } else { 0 }
}

/// One line of code, already printable: cut where it is too long, with a mark before what continues.
pub fn code_line(line: &str, runs: &[Run], room: usize, styles: &TextStyles) -> Vec<Vec<Span<'static>>> {
    let indent = code_indent(room);
    let mut pieces = Vec::new();
    let mut from = 0;
    for run in runs {
        let text = line.get(from..from + run.bytes).unwrap_or_default();
        push_piece(&mut pieces, text, styles.code_block.patch(run.role.style(&styles.syntax)));
        from += run.bytes;
    }
    push_piece(&mut pieces, line.get(from..).unwrap_or_default(), styles.code_block);
    let lines = cut(&pieces, room - indent);
    let mark = if styles.ascii { "> " } else { "↪ " };
    let before = |nth: usize| match (indent, nth) {
        (0, _) => Vec::new(),
        (_, 0) => vec![Span::styled("  ", styles.code_block)],
        (_, _) => vec![Span::styled(mark, styles.code_block.patch(styles.dim))],
    };
    lines.into_iter().enumerate().map(|(nth, spans)| indented(before(nth), spans).spans).collect()
}
