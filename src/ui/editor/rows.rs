//! The rows that a text takes on the screen: broken at its line breaks, and at words where it is too wide.
//!
//! Every character is in a row, and one column stays free for the cursor behind the last.

use unicode_segmentation::UnicodeSegmentation;

use crate::ui::text::sanitise::revealed;
use crate::ui::text::width::{grapheme_width, is_plain, width};

/// A row, in bytes of the text, without its line break.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    pub start: usize,
    pub end: usize,
}

/// The rows of a text; at least one.
pub fn lay_out(text: &str, columns: u16) -> Vec<Row> {
    let room = usize::from(columns).saturating_sub(1).max(1);
    let mut rows = Vec::new();
    let mut start = 0;
    for line in text.split('\n') {
        wrap(line, start, room, &mut rows);
        start += line.len() + 1;
    }
    rows
}

fn wrap(line: &str, offset: usize, room: usize, rows: &mut Vec<Row>) {
    if line.len() <= room && is_plain(line) {
        rows.push(Row { start: offset, end: offset + line.len() });
        return;
    }
    // All in bytes of the line; `word` is where the row may end, and the columns up to there.
    let (mut start, mut used) = (0, 0);
    let mut word = None;
    let mut break_at = |at: usize, start: &mut usize| {
        rows.push(Row { start: offset + *start, end: offset + at });
        *start = at;
    };
    let mut place = |at: usize, bytes: usize, columns: usize, is_space: bool| {
        let hangs = is_space && used == room && at + bytes < line.len();
        if used + columns > room && !hangs && at > start {
            match word.filter(|_| !is_space) {
                Some((end, columns_before)) => {
                    break_at(end, &mut start);
                    used -= columns_before;
                }
                None => {
                    break_at(at, &mut start);
                    used = 0;
                }
            }
            word = None;
            if used + columns > room && at > start {
                break_at(at, &mut start);
                used = 0;
            }
        }
        used += columns;
        if is_space || columns > 1 {
            word = Some((at + bytes, used));
        }
    };
    if is_plain(line) {
        line.bytes().enumerate().for_each(|(at, byte)| place(at, 1, 1, byte == b' '));
    } else {
        for (at, grapheme) in line.grapheme_indices(true) {
            place(at, grapheme.len(), grapheme_width(&revealed(grapheme)), grapheme == " ");
        }
    }
    rows.push(Row { start: offset + start, end: offset + line.len() });
}

/// A row as it is shown.
pub fn shown(text: &str, row: &Row) -> String {
    revealed(text.get(row.start..row.end).unwrap_or_default()).into_owned()
}

/// Column and row of a place in the text. Where a row is broken, the place is at the start of the next one.
pub fn locate(text: &str, rows: &[Row], at: usize, columns: u16) -> (usize, usize) {
    let row = rows.partition_point(|row| row.start <= at).saturating_sub(1);
    let start = rows.get(row).map_or(0, |row| row.start);
    let column = width(&revealed(text.get(start..at).unwrap_or_default()));
    (column.min(usize::from(columns).saturating_sub(1)), row)
}

/// The place in the text that is shown at a cell, or the nearest.
pub fn position(text: &str, rows: &[Row], column: usize, row: usize) -> usize {
    let row = row.min(rows.len().saturating_sub(1));
    let Some(&Row { start, end }) = rows.get(row) else { return 0 };
    // The end of a broken row is the start of the next one: the place before its last grapheme is the nearest in it.
    let broken = rows.get(row + 1).is_some_and(|next| next.start == end);
    let mut used = 0;
    let mut last = start;
    for (at, grapheme) in text.get(start..end).unwrap_or_default().grapheme_indices(true) {
        last = start + at;
        used += grapheme_width(&revealed(grapheme));
        if used > column {
            return last;
        }
    }
    if broken { last } else { end }
}
