//! Findings, one below the other: a sign and what, then where, what was found, what to do.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::devices::telemetry::{Finding, FindingResult};
use crate::ui::action::Action;
use crate::ui::dialog::{Doctor, Drawn};
use crate::ui::hits::Hits;
use crate::ui::theme::Role;
use crate::ui::view::window::{EDGE_ROWS, Hint, Look, Window, open_window, put, wrap_words};

const COLUMNS: u16 = 100;
const INDENT: u16 = 2;
/// Of the word that says what a line tells, with the space after it.
const LABEL_COLUMNS: u16 = 8;

/// Pieces of text with their columns.
type Line = Vec<(u16, String, Role)>;

pub fn draw(
    doctor: &Doctor,
    findings: &[Finding],
    look: Look<'_>,
    area: Rect,
    buf: &mut Buffer,
    hits: &mut Hits,
) -> Drawn {
    let columns = COLUMNS.min(area.width.saturating_sub(8));
    let lines = lines(findings, columns, look);
    let rows = u16::try_from(lines.len()).unwrap_or(u16::MAX).min(area.height.saturating_sub(EDGE_ROWS + 2));
    let page = usize::from(rows);
    let top = doctor.scroll.top.min(lines.len().saturating_sub(page));
    let aside = match lines.len().saturating_sub(page) {
        0 => summary(findings),
        _ => format!("{}-{} of {} lines", top + 1, (top + page).min(lines.len()), lines.len()),
    };
    let hints = [Hint::Keys(look.glyphs().up_down, "scroll"), Hint::Does(Action::Close, "close")];
    let title = "Doctor: what was looked for";
    let window = Window { title, aside: &aside, hints: &hints, size: (columns, rows) };
    let inner = open_window(&window, look, area, buf, hits);
    for (y, line) in lines.iter().skip(top).take(usize::from(inner.height)).enumerate() {
        for (x, text, role) in line {
            put(buf, inner, *x, y as u16, text, look.style(*role), look);
        }
    }
    let page = usize::from(inner.height);
    Drawn { cursor: None, page, most: lines.len().saturating_sub(page) }
}

fn lines(findings: &[Finding], columns: u16, look: Look<'_>) -> Vec<Line> {
    if findings.is_empty() {
        return vec![vec![(0, "Looking at devices and driver libraries...".to_owned(), Role::Dim)]];
    }
    let mut lines = vec![];
    for finding in findings {
        if !lines.is_empty() {
            lines.push(vec![]);
        }
        let glyphs = look.glyphs();
        let (sign, role) = match &finding.result {
            FindingResult::Ok { .. } => (glyphs.good, Role::Good),
            FindingResult::Warning { .. } => (glyphs.warn, Role::Warn),
            FindingResult::Missing { .. } => (glyphs.bad, Role::Dim),
        };
        for (i, what) in wrap_words(&finding.what, usize::from(columns.saturating_sub(INDENT))).into_iter().enumerate()
        {
            let mut line = vec![(INDENT, what, Role::Strong)];
            line.extend((i == 0).then(|| (0, sign.to_owned(), role)));
            lines.push(line);
        }
        let places = finding.looked_in.join(", ");
        match &finding.result {
            FindingResult::Ok { found } => {
                labelled(&mut lines, "found", found, Role::Text, columns);
                labelled(&mut lines, "looked", &places, Role::Dim, columns);
            }
            FindingResult::Warning { why, remedy } | FindingResult::Missing { why, remedy } => {
                labelled(&mut lines, "found", why, Role::Text, columns);
                labelled(&mut lines, "looked", &places, Role::Dim, columns);
                labelled(&mut lines, "to do", remedy, Role::Accent, columns);
            }
        }
    }
    lines
}

/// Words beside the word that says what they tell; nothing where there are none.
fn labelled(lines: &mut Vec<Line>, label: &str, words: &str, role: Role, columns: u16) {
    let x = INDENT + LABEL_COLUMNS;
    for (i, words) in wrap_words(words, usize::from(columns.saturating_sub(x))).into_iter().enumerate() {
        let mut line = vec![(x, words, role)];
        line.extend((i == 0).then(|| (INDENT, label.to_owned(), Role::Dim)));
        lines.push(line);
    }
}

fn summary(findings: &[Finding]) -> String {
    let n_warnings = findings.iter().filter(|f| matches!(f.result, FindingResult::Warning { .. })).count();
    match n_warnings {
        0 => String::new(),
        1 => "1 warning".to_owned(),
        n => format!("{n} warnings"),
    }
}
