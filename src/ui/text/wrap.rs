//! Styled text broken into lines of a width, at words where there are words.
//!
//! Right-to-left text keeps its logical order: terminals differ in how they show it, the columns are the same.

use std::ops::Range;

use ratatui::style::Style;
use ratatui::text::{Line, Span};
use unicode_segmentation::UnicodeSegmentation;

use super::width::{grapheme_width, is_plain, prefix, width};

/// Text of one style.
#[derive(Clone, Debug, PartialEq)]
pub struct Piece {
    pub text: String,
    pub style: Style,
}

/// Adds text to the end of a row of pieces, to the last piece where the style is the same.
pub fn push_piece(pieces: &mut Vec<Piece>, text: &str, style: Style) {
    if text.is_empty() {
        return;
    }
    match pieces.last_mut() {
        Some(last) if last.style == style => last.text.push_str(text),
        Some(_) | None => pieces.push(Piece { text: text.to_owned(), style }),
    }
}

/// What a grapheme means for breaking.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A line may break after it, and loses it at its end.
    Space,
    /// A line break.
    Newline,
    /// East Asian wide: a line may break before and after it.
    Wide,
    /// Wide punctuation that no line begins with.
    Closing,
    /// Wide punctuation that no line ends with.
    Opening,
    Other,
}

/// One grapheme: where it lies and how wide it is.
#[derive(Clone, Copy)]
struct Cell {
    piece: u32,
    start: u32,
    end: u32,
    columns: u8,
    kind: Kind,
}

/// Breaks pieces into lines of at most `columns`, at spaces and between East Asian characters; a word wider than a
/// line is cut between graphemes. `\n` in the text breaks a line. Spaces at a break are dropped. No text gives no line.
///
/// A grapheme wider than `columns` is shown as `…`; zero columns give no lines.
pub fn wrap(pieces: &[Piece], columns: usize) -> Vec<Vec<Span<'static>>> {
    if columns == 0 || pieces.is_empty() {
        return Vec::new();
    }
    let cells = cells(pieces);
    let mut lines = Vec::new();
    for paragraph in cells.split(|cell| cell.kind == Kind::Newline) {
        let before = lines.len();
        for range in breaks(paragraph, columns) {
            lines.push(spans(pieces, paragraph.get(range).unwrap_or_default(), columns));
        }
        if lines.len() == before {
            lines.push(Vec::new());
        }
    }
    lines
}

/// Cuts pieces every `columns`, keeping every character: for code, where spaces matter. One line at least.
pub fn cut(pieces: &[Piece], columns: usize) -> Vec<Vec<Span<'static>>> {
    if columns == 0 {
        return Vec::new();
    }
    let cells = cells(pieces);
    let mut lines = Vec::new();
    let (mut start, mut used) = (0, 0);
    for (at, cell) in cells.iter().enumerate() {
        if used + usize::from(cell.columns) > columns && at > start {
            lines.push(spans(pieces, cells.get(start..at).unwrap_or_default(), columns));
            (start, used) = (at, 0);
        }
        used += usize::from(cell.columns);
    }
    lines.push(spans(pieces, cells.get(start..).unwrap_or_default(), columns));
    lines
}

/// A line made of what stands before it and its own spans.
pub fn indented(mut before: Vec<Span<'static>>, spans: Vec<Span<'static>>) -> Line<'static> {
    before.extend(spans);
    Line::from(before)
}

/// Columns of several spans.
pub fn spans_width(spans: &[Span<'_>]) -> usize {
    spans.iter().map(|span| width(&span.content)).sum()
}

/// Spans cut to `columns`.
pub fn clip(spans: Vec<Span<'static>>, columns: usize) -> Vec<Span<'static>> {
    if spans_width(&spans) <= columns {
        return spans;
    }
    let mut left = columns;
    let mut clipped = Vec::new();
    for span in spans {
        let kept = prefix(&span.content, left);
        let whole = kept.len() == span.content.len();
        left -= width(kept);
        if !kept.is_empty() {
            clipped.push(Span::styled(kept.to_owned(), span.style));
        }
        if !whole {
            break;
        }
    }
    clipped
}

fn cells(pieces: &[Piece]) -> Vec<Cell> {
    let mut cells = Vec::with_capacity(pieces.iter().map(|piece| piece.text.len()).sum());
    for (index, piece) in pieces.iter().enumerate() {
        let cell = |start: usize, end: usize, columns: usize, kind| Cell {
            piece: index as u32,
            start: start as u32,
            end: end as u32,
            columns: columns.min(255) as u8,
            kind,
        };
        if is_plain(&piece.text) {
            let kind = |byte| if byte == b' ' { Kind::Space } else { Kind::Other };
            cells.extend(piece.text.bytes().enumerate().map(|(at, byte)| cell(at, at + 1, 1, kind(byte))));
        } else {
            cells.extend(piece.text.grapheme_indices(true).map(|(at, grapheme)| {
                let columns = grapheme_width(grapheme);
                cell(at, at + grapheme.len(), columns, kind(grapheme, columns))
            }));
        }
    }
    cells
}

fn kind(grapheme: &str, columns: usize) -> Kind {
    match grapheme.chars().next() {
        Some('\n') => Kind::Newline,
        Some(' ' | '\u{1680}' | '\u{2000}'..='\u{2006}' | '\u{2008}'..='\u{200a}' | '\u{205f}' | '\u{3000}') => {
            Kind::Space
        }
        Some(
            '、' | '。' | '，' | '．' | '：' | '；' | '？' | '！' | '）' | '］' | '｝' | '」' | '』' | '】' | '〉'
            | '》' | '〕' | 'ー' | '々' | '…' | '’' | '”',
        ) => Kind::Closing,
        Some('（' | '［' | '｛' | '「' | '『' | '【' | '〈' | '《' | '〔') => Kind::Opening,
        Some(_) if columns > 1 => Kind::Wide,
        Some(_) | None => Kind::Other,
    }
}

/// The cells of each line of a paragraph, spaces at breaks left out.
fn breaks(cells: &[Cell], columns: usize) -> Vec<Range<usize>> {
    let mut lines = Vec::new();
    let mut start = 0;
    // Columns of `start..at`, and where a line may end: the cell that the next one would begin with.
    let (mut used, mut candidate) = (0, None);
    let mut used_at_candidate = 0;
    for (at, cell) in cells.iter().enumerate() {
        if at > start && may_break(cells.get(at - 1).map_or(Kind::Other, |cell| cell.kind), cell.kind) {
            (candidate, used_at_candidate) = (Some(at), used);
        }
        let own = usize::from(cell.columns);
        if cell.kind != Kind::Space && used + own > columns && at > start {
            let end = candidate.unwrap_or(at);
            lines.push(start..trimmed(cells, start, end));
            used -= if candidate.is_some() { used_at_candidate } else { used };
            (start, candidate) = (end, None);
            // What was carried over may itself be too wide: closing punctuation sticks to a long word.
            if used + own > columns && at > start {
                lines.push(start..at);
                (start, used) = (at, 0);
            }
        }
        used += own;
    }
    let end = trimmed(cells, start, cells.len());
    if end > start {
        lines.push(start..end);
    }
    lines
}

fn may_break(before: Kind, after: Kind) -> bool {
    match (before, after) {
        (_, Kind::Space | Kind::Newline | Kind::Closing) | (Kind::Opening, _) => false,
        (Kind::Space | Kind::Newline | Kind::Wide | Kind::Closing, _) | (_, Kind::Wide | Kind::Opening) => true,
        (Kind::Other, Kind::Other) => false,
    }
}

/// The end of a line without the spaces before it.
fn trimmed(cells: &[Cell], start: usize, end: usize) -> usize {
    let line = cells.get(start..end).unwrap_or_default();
    line.iter().rposition(|cell| cell.kind != Kind::Space).map_or(start, |last| start + last + 1)
}

/// Neighbouring cells of one piece become one span.
fn spans(pieces: &[Piece], cells: &[Cell], columns: usize) -> Vec<Span<'static>> {
    let mut spans = Vec::new();
    for run in cells.chunk_by(|a, b| a.piece == b.piece) {
        let (Some(first), Some(last)) = (run.first(), run.last()) else { continue };
        let Some(piece) = pieces.get(first.piece as usize) else { continue };
        let text = if usize::from(first.columns) > columns {
            "…"
        } else {
            piece.text.get(first.start as usize..last.end as usize).unwrap_or_default()
        };
        spans.push(Span::styled(text.to_owned(), piece.style));
    }
    spans
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pieces(text: &str) -> Vec<Piece> {
        vec![Piece { text: text.to_owned(), style: Style::new() }]
    }

    fn texts(lines: Vec<Vec<Span>>) -> Vec<String> {
        lines.iter().map(|line| line.iter().map(|span| span.content.as_ref()).collect()).collect()
    }

    fn check(text: &str, columns: usize, expect: &[&str]) {
        assert_eq!(texts(wrap(&pieces(text), columns)), expect, "{text:?} at {columns}");
    }

    #[test]
    fn breaks_at_words() {
        check("the quick brown fox", 10, &["the quick", "brown fox"]);
        check("the quick", 9, &["the quick"]);
        check("the   quick  ", 5, &["the", "quick"]);
        check("a\nb\n\nc", 5, &["a", "b", "", "c"]);
        check("", 5, &[""]);
    }

    #[test]
    fn long_words_are_cut() {
        check("incomprehensible", 6, &["incomp", "rehens", "ible"]);
        check("an incomprehensible x", 6, &["an", "incomp", "rehens", "ible x"]);
    }

    #[test]
    fn east_asian_text_breaks_between_characters() {
        check("層を動かす機械", 6, &["層を動", "かす機", "械"]);
        check("層を、動かす", 5, &["層", "を、", "動か", "す"]);
        check("層「動", 4, &["層", "「動"]);
        check("GPUの層", 5, &["GPUの", "層"]);
    }

    #[test]
    fn emoji_and_marks_stay_whole() {
        check("👩\u{200d}💻👩\u{200d}💻", 3, &["👩\u{200d}💻", "👩\u{200d}💻"]);
        check("e\u{301}e\u{301}e\u{301}", 2, &["e\u{301}e\u{301}", "e\u{301}"]);
        check("日本", 1, &["…", "…"]);
    }

    #[test]
    fn styles_are_kept_over_breaks() {
        let bold = Style::new().bold();
        let mut pieces = pieces("one ");
        push_piece(&mut pieces, "two three", bold);
        let lines = wrap(&pieces, 7);
        assert_eq!(lines[0], [Span::raw("one "), Span::styled("two", bold)]);
        assert_eq!(lines[1], [Span::styled("three", bold)]);
    }

    #[test]
    fn code_keeps_its_spaces() {
        assert_eq!(texts(cut(&pieces("  a   b"), 3)), ["  a", "   ", "b"]);
        assert_eq!(texts(cut(&pieces(""), 3)), [""]);
    }

    #[test]
    fn clipped_spans() {
        let spans = vec![Span::raw("ab"), Span::raw("日c")];
        assert_eq!(texts(vec![clip(spans.clone(), 3)]), ["ab"]);
        assert_eq!(texts(vec![clip(spans, 4)]), ["ab日"]);
    }

    proptest! {
        #[test]
        fn fits_and_loses_only_spaces(text in "([a-z]{1,9}| |\n|日|、|「|👩\u{200d}💻|e\u{301}|שלום){0,40}", columns in 2..20usize) {
            let lines = wrap(&pieces(&text), columns);
            for line in &lines {
                prop_assert!(spans_width(line) <= columns);
            }
            let squeezed = |text: &str| text.replace([' ', '\n'], "");
            prop_assert_eq!(squeezed(&texts(lines).concat()), squeezed(&text));
            let lines = cut(&pieces(&text.replace('\n', " ")), columns);
            for line in &lines {
                prop_assert!(spans_width(line) <= columns);
            }
            prop_assert_eq!(texts(lines).concat(), text.replace('\n', " "));
        }
    }
}
