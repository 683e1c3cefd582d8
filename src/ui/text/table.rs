//! A table laid out in columns: as wide as their content, wrapped where there is no room.

use pulldown_cmark::Alignment;
use ratatui::text::Span;

use super::styles::TextStyles;
use super::width::width;
use super::wrap::{Piece, push_piece, spans_width, wrap};

/// A cell's content.
pub type Cell = Vec<Piece>;

/// A table as it was written.
#[derive(Default)]
pub struct Table {
    pub alignments: Vec<Alignment>,
    pub head: Vec<Cell>,
    pub rows: Vec<Vec<Cell>>,
}

/// The lines that a table is drawn with.
struct Border {
    horizontal: &'static str,
    vertical: &'static str,
    /// Left, middle and right of the top, of lines between rows, and of the bottom.
    corners: [[&'static str; 3]; 3],
}

const LINES: Border =
    Border {
        horizontal: "─", vertical: "│", corners: [["┌", "┬", "┐"], ["├", "┼", "┤"], ["└", "┴", "┘"]]
    };
const ASCII: Border = Border { horizontal: "-", vertical: "|", corners: [["+", "+", "+"]; 3] };

/// Columns narrower than this make no table: rows are then listed one under the other.
const MIN_COLUMN: usize = 3;

/// A table as lines of at most `room` columns.
pub fn lay_out(table: &Table, room: usize, styles: &TextStyles) -> Vec<Vec<Span<'static>>> {
    let n_columns = table.rows.iter().map(Vec::len).fold(table.head.len(), usize::max);
    let natural: Vec<usize> = (0..n_columns).map(|column| natural_width(table, column)).collect();
    // Each column has a space on both sides and a border before it; one border ends the row.
    let Some(content) = room.checked_sub(3 * n_columns + 1).filter(|_| n_columns > 0) else {
        return listed(table, room, styles);
    };
    if natural.iter().map(|&columns| columns.min(MIN_COLUMN)).sum::<usize>() > content {
        return listed(table, room, styles);
    }
    framed(table, &fit(&natural, content), styles)
}

/// The width a column would like: its widest line.
fn natural_width(table: &Table, column: usize) -> usize {
    let cells = std::iter::once(&table.head).chain(&table.rows).filter_map(|row| row.get(column));
    cells.map(|cell| cell_width(cell)).max().unwrap_or(0).max(1)
}

fn cell_width(cell: &[Piece]) -> usize {
    let (mut widest, mut line) = (0, 0);
    for piece in cell {
        for (nth, part) in piece.text.split('\n').enumerate() {
            line = if nth == 0 { line } else { 0 } + width(part);
            widest = widest.max(line);
        }
    }
    widest
}

/// Widths that together take at most `content` columns: narrow columns keep what they like, wide ones share the rest.
fn fit(natural: &[usize], content: usize) -> Vec<usize> {
    if natural.iter().sum::<usize>() <= content {
        return natural.to_vec();
    }
    // The widest cap that all columns fit under.
    let taken = |cap: usize| natural.iter().map(|&columns| columns.min(cap)).sum::<usize>();
    let (mut cap, mut too_wide) = (1, content + 1);
    while too_wide - cap > 1 {
        let middle = cap.midpoint(too_wide);
        if taken(middle) <= content { cap = middle } else { too_wide = middle }
    }
    let mut left = content.saturating_sub(taken(cap));
    let widen = |&columns: &usize| {
        let extra = usize::from(columns > cap && left > 0);
        left -= extra;
        columns.min(cap) + extra
    };
    natural.iter().map(widen).collect()
}

fn framed(table: &Table, widths: &[usize], styles: &TextStyles) -> Vec<Vec<Span<'static>>> {
    let border = if styles.ascii { &ASCII } else { &LINES };
    let rule = |[left, middle, right]: [&str; 3]| {
        let parts: Vec<String> = widths.iter().map(|&columns| border.horizontal.repeat(columns + 2)).collect();
        vec![Span::styled(format!("{left}{}{right}", parts.join(middle)), styles.table_border)]
    };
    let [top, between, bottom] = border.corners;
    let rows: Vec<Vec<Vec<Span>>> =
        table.rows.iter().map(|row| row_lines(table, row, widths, border, styles)).collect();
    // Where a row takes several lines, rows need a line between them.
    let apart = rows.iter().any(|row| row.len() > 1);
    let mut lines = vec![rule(top)];
    lines.extend(row_lines(table, &table.head, widths, border, styles));
    lines.push(rule(between));
    for (nth, row) in rows.into_iter().enumerate() {
        if apart && nth > 0 {
            lines.push(rule(between));
        }
        lines.extend(row);
    }
    lines.push(rule(bottom));
    lines
}

fn row_lines(
    table: &Table,
    row: &[Cell],
    widths: &[usize],
    border: &Border,
    styles: &TextStyles,
) -> Vec<Vec<Span<'static>>> {
    let cell = |(column, &columns): (usize, &usize)| row.get(column).map_or_else(Vec::new, |cell| wrap(cell, columns));
    let mut cells: Vec<Vec<Vec<Span>>> = widths.iter().enumerate().map(cell).collect();
    let height = cells.iter().map(Vec::len).max().unwrap_or(0).max(1);
    let line = |nth: usize| {
        let mut line = vec![Span::styled(border.vertical, styles.table_border)];
        for (column, (cell, &columns)) in cells.iter_mut().zip(widths).enumerate() {
            let content = cell.get_mut(nth).map(std::mem::take).unwrap_or_default();
            let spare = columns.saturating_sub(spans_width(&content));
            let before = match table.alignments.get(column) {
                Some(Alignment::Right) => spare,
                Some(Alignment::Center) => spare / 2,
                Some(Alignment::Left | Alignment::None) | None => 0,
            };
            line.push(Span::styled(" ".repeat(1 + before), styles.text));
            line.extend(content);
            line.push(Span::styled(" ".repeat(1 + spare - before), styles.text));
            line.push(Span::styled(border.vertical, styles.table_border));
        }
        line
    };
    (0..height).map(line).collect()
}

/// Too narrow for columns: each row as a list of `head: cell`.
fn listed(table: &Table, room: usize, styles: &TextStyles) -> Vec<Vec<Span<'static>>> {
    let mut lines = Vec::new();
    for (nth, row) in table.rows.iter().enumerate() {
        if nth > 0 {
            lines.push(Vec::new());
        }
        for (column, cell) in row.iter().enumerate() {
            let mut pieces = table.head.get(column).cloned().unwrap_or_default();
            push_piece(&mut pieces, ": ", styles.dim);
            pieces.extend(cell.iter().cloned());
            lines.extend(wrap(&pieces, room));
        }
    }
    if table.rows.is_empty() {
        lines.extend(table.head.iter().flat_map(|cell| wrap(cell, room)));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_share_what_there_is() {
        assert_eq!(fit(&[3, 4], 10), [3, 4]);
        assert_eq!(fit(&[3, 20, 20], 20), [3, 9, 8]);
        assert_eq!(fit(&[30, 2], 10), [8, 2]);
        assert_eq!(fit(&[5, 5], 2), [1, 1]);
    }
}
