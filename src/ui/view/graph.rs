//! Small graphs: a sparkline of one line, and a line graph of any height with its axes.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use crate::ui::theme::{Role, Theme};

const LEVELS: [&str; 8] = ["▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];
const ASCII_LEVELS: [&str; 8] = ["_", ".", ":", "-", "=", "+", "*", "#"];

/// The glyph for a share from 0 to 1 of one cell's height.
pub fn level(share: f32, ascii: bool) -> &'static str {
    let levels = if ascii { &ASCII_LEVELS } else { &LEVELS };
    let index = (share.clamp(0.0, 1.0) * 8.0) as usize;
    levels[index.min(7)]
}

/// One cell a value from 0 to 1; a blank where there is none.
pub fn draw_sparkline(values: &[Option<f32>], style: Style, ascii: bool, area: Rect, buf: &mut Buffer) {
    if area.is_empty() {
        return;
    }
    for (x, value) in (area.x..area.right()).zip(values) {
        buf.set_stringn(x, area.y, value.map_or(" ", |v| level(v, ascii)), 1, style);
    }
}

/// What a line graph shows.
pub struct Graph<'a> {
    pub title: &'a str,
    /// The newest value, in words.
    pub now: &'a str,
    /// Of the line's points, oldest first, as many as [`n_points`] says.
    pub values: &'a [Option<f32>],
    /// The value at the upper end.
    pub max: f32,
    /// Words for the upper end of the axis; the lower one is 0.
    pub max_words: &'a str,
    /// Words for the left end of the time axis.
    pub span_words: &'a str,
    pub style: Style,
}

/// Columns for the words at the axis.
const AXIS: u16 = 10;

/// Points of a graph that is drawn into `width` columns.
pub fn n_points(width: u16, ascii: bool) -> usize {
    usize::from(width.saturating_sub(AXIS)) * if ascii { 1 } else { 2 }
}

/// The smallest upper end of an axis that reads well: 1, 2 or 5 times a power of ten.
pub fn nice_max(largest: f32) -> f32 {
    if !largest.is_finite() || largest <= 0.0 {
        return 1.0;
    }
    let power = 10f32.powf(largest.log10().floor());
    [1.0, 2.0, 5.0, 10.0].map(|n| n * power).into_iter().find(|max| *max >= largest).unwrap_or(10.0 * power)
}

/// Title, the graph over its axis, times below. Without room for a line of the graph, the title alone.
pub fn draw_graph(graph: &Graph<'_>, theme: &Theme, area: Rect, buf: &mut Buffer) {
    if area.is_empty() {
        return;
    }
    let dim = theme.style(Role::Dim);
    let (end, _) = buf.set_stringn(area.x, area.y, graph.title, usize::from(area.width), theme.style(Role::Title));
    let left = area.right().saturating_sub(end + 2);
    if usize::from(left) >= graph.now.chars().count() {
        buf.set_stringn(end + 2, area.y, graph.now, usize::from(left), theme.style(Role::Text));
    }
    if area.height < 3 || area.width < AXIS + 4 {
        return;
    }
    let plot = Rect::new(area.x + AXIS, area.y + 1, area.width - AXIS, area.height - 2);
    let line = if theme.ascii { "|" } else { "│" };
    for y in plot.y..plot.bottom() {
        buf.set_stringn(plot.x - 1, y, line, 1, dim);
    }
    let right_aligned = |words: &str| format!("{words:>width$}", width = usize::from(AXIS - 2));
    buf.set_stringn(area.x, plot.y, right_aligned(graph.max_words), usize::from(AXIS - 2), dim);
    if plot.height > 1 {
        buf.set_stringn(area.x, plot.bottom() - 1, right_aligned("0"), usize::from(AXIS - 2), dim);
    }
    let y = area.bottom() - 1;
    buf.set_stringn(plot.x, y, graph.span_words, usize::from(plot.width), dim);
    if plot.width >= 12 {
        buf.set_stringn(plot.right() - 3, y, "now", 3, dim);
    }
    if theme.ascii { draw_ascii(graph, plot, buf) } else { draw_braille(graph, plot, buf) }
}

/// The row of each point, counted from the bottom.
fn rows(graph: &Graph<'_>, n_rows: u16) -> impl Iterator<Item = Option<u16>> {
    let top = n_rows.saturating_sub(1);
    let max = if graph.max > 0.0 { graph.max } else { 1.0 };
    graph.values.iter().map(move |v| v.map(|v| ((v / max).clamp(0.0, 1.0) * f32::from(top)).round() as u16))
}

/// The rows that a line from the point before fills at this one: none twice, none left out.
fn stroke(before: Option<u16>, row: u16) -> std::ops::RangeInclusive<u16> {
    match before {
        Some(before) if before < row => before + 1..=row,
        Some(before) if before > row => row..=before - 1,
        Some(_) | None => row..=row,
    }
}

/// Bits of the dots of a braille cell, `[column][row from the bottom]`.
const DOTS: [[u32; 4]; 2] = [[0x40, 0x04, 0x02, 0x01], [0x80, 0x20, 0x10, 0x08]];

fn draw_braille(graph: &Graph<'_>, plot: Rect, buf: &mut Buffer) {
    let mut before = None;
    let mut cells = vec![0u32; usize::from(plot.width) * usize::from(plot.height)];
    for (i, row) in rows(graph, plot.height * 4).enumerate().take(usize::from(plot.width) * 2) {
        for dot in row.into_iter().flat_map(|row| stroke(before, row)) {
            let cell = usize::from(dot / 4) * usize::from(plot.width) + i / 2;
            if let Some(cell) = cells.get_mut(cell) {
                *cell |= DOTS[i % 2][usize::from(dot % 4)];
            }
        }
        before = row;
    }
    for (i, bits) in cells.into_iter().enumerate().filter(|(_, bits)| *bits != 0) {
        let x = plot.x + (i % usize::from(plot.width)) as u16;
        let y = plot.bottom() - 1 - (i / usize::from(plot.width)) as u16;
        let glyph = char::from_u32(0x2800 + bits).unwrap_or(' ');
        buf.set_stringn(x, y, glyph.encode_utf8(&mut [0; 4]), 1, graph.style);
    }
}

fn draw_ascii(graph: &Graph<'_>, plot: Rect, buf: &mut Buffer) {
    let mut before = None;
    for (x, row) in (plot.x..plot.right()).zip(rows(graph, plot.height)) {
        for row in row.into_iter().flat_map(|row| stroke(before, row)) {
            buf.set_stringn(x, plot.bottom() - 1 - row, "*", 1, graph.style);
        }
        before = row;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ui::theme::ColourDepth;
    use crate::ui::view::devices::tests::picture;

    fn graph(values: &[Option<f32>]) -> Graph<'_> {
        let style = Style::new();
        Graph { title: "load", now: "50%", values, max: 1.0, max_words: "100%", span_words: "-60 s", style }
    }

    #[test]
    fn levels_reach_from_bottom_to_top() {
        let glyphs: String = [-1.0, 0.0, 0.2, 0.5, 0.99, 1.0, 9.0].map(|v| level(v, false)).concat();
        assert_eq!(glyphs, "▁▁▂▅███");
        assert_eq!([0.0, 0.5, 1.0].map(|v| level(v, true)).concat(), "_=#");
        assert_eq!(level(f32::NAN, false), "▁");
    }

    #[test]
    fn axes_end_in_round_numbers() {
        let ends = [0.0, 0.3, 1.0, 1.1, 41.2, 500.0, 501.0, f32::NAN].map(nice_max);
        assert_eq!(ends, [1.0, 0.5, 1.0, 2.0, 50.0, 500.0, 1000.0, 1.0]);
    }

    #[test]
    fn lines_and_gaps() {
        let (theme, _) = Theme::named("dark", &[], ColourDepth::True, false);
        let area = Rect::new(0, 0, 22, 5);
        let values: Vec<_> =
            (0..24).map(|i| (i != 12).then_some(if i < 8 { 0.0 } else { (i - 8) as f32 / 15.0 })).collect();
        assert_eq!(values.len(), n_points(area.width, false));
        insta::assert_snapshot!("braille", picture(area, |buf| draw_graph(&graph(&values), &theme, area, buf)));
        let (theme, _) = Theme::named("dark", &[], ColourDepth::True, true);
        let values: Vec<_> = values.iter().step_by(2).copied().collect();
        insta::assert_snapshot!("ascii", picture(area, |buf| draw_graph(&graph(&values), &theme, area, buf)));
    }

    #[test]
    fn any_area_and_any_number_of_points() {
        for ascii in [false, true] {
            let (theme, _) = Theme::named("dark", &[], ColourDepth::True, ascii);
            for (width, height, n) in [(0, 0, 5), (1, 9, 5), (12, 3, 0), (13, 3, 100), (40, 1, 3), (40, 9, 3)] {
                let area = Rect::new(0, 0, width, height);
                let values = vec![Some(0.5); n];
                picture(area, |buf| draw_graph(&graph(&values), &theme, area, buf));
            }
        }
    }
}
