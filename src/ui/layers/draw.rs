//! The picture of the map.

use std::ops::Range;

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::style::{Modifier, Style};

use super::columns::{Columns, Lane};
use super::legend::{legend, style_of};
use super::map::LayerMap;
use super::slots::{Row, device_at, edges, ffn_apart, n_slots, part_at, slots_of};
use super::view::{ChangeView, DeviceLook, LayerTarget, MapStyles, PartInfoView, PreviewView};
use super::words::Signs;
use crate::engine::placement::Placement;
use crate::engine::protocol::DeviceId;

/// What [`draw_map`] draws, the map itself apart.
#[derive(Clone, Copy)]
pub struct MapPicture<'a> {
    pub looks: &'a [DeviceLook],
    pub styles: &'a MapStyles,
    /// In the order of [`crate::engine::part::Part::all`].
    pub parts: Option<&'a [PartInfoView]>,
    /// `None` while the first answer is computed.
    pub preview: Option<&'a PreviewView>,
    /// A newer answer is being computed. One for another draft is taken for stale anyway.
    pub preview_is_stale: bool,
    pub change: &'a ChangeView,
    pub focused: bool,
}

const LABEL_WIDTH: u16 = 5;
/// From this width on, the lines that do not fit below the rows stand beside them.
const WIDE: u16 = 130;
const BESIDE_WIDTH: u16 = 62;

/// The height at which nothing is left out.
pub fn wanted_height(map: &LayerMap, width: u16) -> u16 {
    let rows = 3 + u16::from(map.has_ffn_row()) + u16::from(ffn_apart(map.now()));
    // Without looks and styles the width of a legend is nearly known: its letters are two columns an entry.
    let plain = MapStyles::default();
    let lines = legend(map, &[], &plain, usize::from(width.saturating_sub(4)), 3).len();
    rows + 3 + u16::try_from(lines).unwrap_or(1)
}

/// Draws the map into `area`, adds what its rectangles mean to `hits` (later ones lie on top), and returns the columns
/// of its rows, which [`LayerMap::mouse`] asks for.
pub fn draw_map(
    map: &LayerMap,
    picture: &MapPicture<'_>,
    area: Rect,
    buf: &mut Buffer,
    hits: &mut Vec<(Rect, LayerTarget)>,
) -> Columns {
    let area = area.intersection(buf.area);
    if area.is_empty() {
        return Columns::default();
    }
    let beside = area.width >= WIDE && area.height < wanted_height(map, area.width);
    let info_width = if beside { BESIDE_WIDTH } else { area.width };
    let label_width = if area.width >= 4 * LABEL_WIDTH { LABEL_WIDTH } else { 0 };
    let left = if beside { area.width - BESIDE_WIDTH - 2 } else { area.width };
    let columns = map.columns(area.x + label_width, left - label_width);
    let mut canvas = Canvas { map, picture, signs: Signs::of(picture.styles.ascii), buf, hits };

    let rows = rows(map, area.height, beside);
    let mut y = area.y;
    for line in &rows {
        match line {
            RowLine::Ruler => canvas.ruler(&columns, y),
            RowLine::Row(row) => {
                canvas.label(*row, Rect::new(area.x, y, label_width, 1));
                canvas.row(*row, &columns, y);
            }
        }
        y += 1;
    }
    let info = if beside {
        Rect::new(area.x + left + 2, area.y, info_width, area.height)
    } else {
        Rect::new(area.x, y, area.width, area.bottom().saturating_sub(y))
    };
    canvas.info(info);
    columns
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum RowLine {
    Ruler,
    Row(Row),
}

/// The rows that a height has room for. Unless the text stands beside them, one line is left for what the draft means as
/// soon as there are three.
fn rows(map: &LayerMap, height: u16, beside: bool) -> Vec<RowLine> {
    let has_ffn = map.has_ffn_row();
    let n_basic = 2 + u16::from(has_ffn);
    // How many lines of text go before a row that is only useful.
    let below = |n: u16| if beside { 0 } else { n };
    let mut rows = Vec::new();
    if height > n_basic + below(2) {
        rows.push(RowLine::Ruler);
    }
    if height >= 2 {
        rows.push(RowLine::Row(Row::Now));
    }
    if height > n_basic + 1 + below(4) && ffn_apart(map.now()) {
        rows.push(RowLine::Row(Row::NowFfn));
    }
    rows.push(RowLine::Row(Row::Next));
    if has_ffn && height >= 3 + below(1) {
        rows.push(RowLine::Row(Row::Ffn));
    }
    rows
}

/// What is drawn on, with what is drawn.
pub(super) struct Canvas<'a, 'b> {
    pub map: &'a LayerMap,
    pub picture: &'a MapPicture<'a>,
    pub signs: &'static Signs,
    pub buf: &'b mut Buffer,
    pub hits: &'b mut Vec<(Rect, LayerTarget)>,
}

impl Canvas<'_, '_> {
    fn placement(&self, row: Row) -> &Placement {
        if row.is_draft() { self.map.next() } else { self.map.now() }
    }

    fn put(&mut self, x: u16, y: u16, sign: char, style: Style) {
        if let Some(cell) = self.buf.cell_mut(Position::new(x, y)) {
            cell.set_char(sign).set_style(style);
        }
    }

    fn label(&mut self, row: Row, area: Rect) {
        let styles = self.picture.styles;
        let (text, style) = match row {
            Row::Now => ("now", styles.text),
            Row::Next => ("next", styles.text),
            Row::NowFfn | Row::Ffn => ("ffn", styles.dim),
        };
        self.buf.set_stringn(area.x, area.y, text, usize::from(area.width), style);
    }

    /// Layer numbers at their columns, as close as they can stand.
    fn ruler(&mut self, columns: &Columns, y: u16) {
        let n_layer = self.map.next().n_layer();
        let Some(last) = n_layer.checked_sub(1) else { return };
        let column = |layer: u32| columns.column_of(layer as usize + 1);
        let fits = |step: u32| {
            let labelled = (0..n_layer).step_by(step as usize);
            labelled.zip((step..n_layer).step_by(step as usize)).all(|(a, b)| match (column(a), column(b)) {
                (Some(at), Some(next)) => usize::from(next - at) > a.to_string().len(),
                (None, _) | (_, None) => false,
            })
        };
        let step = [1, 2, 5, 10, 20, 50, 100].into_iter().find(|&step| fits(step)).unwrap_or(n_layer);
        let end = columns.iter().last().map_or(0, |(x, _)| x + 1);
        for layer in (0..=last).step_by(step as usize) {
            if let Some(x) = column(layer) {
                let room = usize::from(end.saturating_sub(x));
                let text = layer.to_string();
                if text.len() <= room {
                    self.buf.set_stringn(x, y, text, room, self.picture.styles.dim);
                }
            }
        }
    }

    fn row(&mut self, row: Row, columns: &Columns, y: u16) {
        let edges = edges(self.placement(row), row);
        let slots = slots_of(row, self.placement(row).n_layer());
        let mut run: Option<(LayerTarget, Rect)> = None;
        let mut before = None;
        for (x, lane) in columns.iter() {
            let is_first = before != Some(lane);
            before = Some(lane);
            let target = match lane {
                Lane::Slots { first, end } => {
                    self.cell(row, first..end, is_first, Position::new(x, y));
                    self.target(row, first.max(slots.start), end.min(slots.end))
                }
                Lane::Boundary(b) if edges.contains(&b) => {
                    self.edge(row, b, x, y);
                    Some(LayerTarget::Edge { row, index: b })
                }
                Lane::Boundary(b) => {
                    if !columns.wide && slots.contains(&b) && b > slots.start {
                        let style = self.style_of(row, b - 1, b);
                        self.put(x, y, self.signs.runs_on, style);
                    }
                    run.map(|(target, _)| target).filter(|_| slots.contains(&(b - 1)))
                }
            };
            run = match (run, target) {
                (Some((held, area)), Some(target)) if held == target => {
                    Some((held, Rect { width: area.width + 1, ..area }))
                }
                (before, target) => {
                    self.hits.extend(before.map(|(target, area)| (area, target)));
                    target.map(|target| (target, Rect::new(x, y, 1, 1)))
                }
            };
        }
        self.hits.extend(run.map(|(target, area)| (area, target)));
    }

    fn target(&self, row: Row, first: usize, end: usize) -> Option<LayerTarget> {
        let n_layer = self.placement(row).n_layer();
        let last = part_at(n_layer, row, end.checked_sub(1)?)?;
        (first < end).then_some(LayerTarget::Cell { row, first: part_at(n_layer, row, first)?, last })
    }

    fn edge(&mut self, row: Row, b: usize, x: u16, y: u16) {
        let styles = self.picture.styles;
        let is_hot = row.is_draft() && self.map.is_hot(row, b);
        let in_hand = self.map.gesture.is_some();
        let (sign, style) = match (is_hot, in_hand || self.picture.focused) {
            (true, true) => (self.signs.edge_hot, styles.edge_hot),
            (true, false) | (false, _) => (self.signs.edge, styles.edge),
        };
        self.put(x, y, sign, style);
    }

    /// One column of a cell. The letter of embed or head stands once in it.
    fn cell(&mut self, row: Row, slots: Range<usize>, is_first: bool, at: Position) {
        let placement = self.placement(row);
        let last_slot = n_slots(placement.n_layer()) - 1;
        let mut ids = slots.clone().filter_map(|slot| device_at(placement, row, slot));
        let Some(id) = ids.next() else { return };
        let sign = if ids.any(|other| other != id) {
            self.signs.mixed
        } else if is_first && slots == (0..1) {
            'E'
        } else if is_first && slots == (last_slot..last_slot + 1) {
            'H'
        } else {
            self.picture.looks.iter().find(|look| look.id == id).map_or('?', |look| look.shape)
        };
        let style = self.style_of(row, slots.start, slots.end);
        self.put(at.x, at.y, sign, style);
    }

    /// The style of a cell: its device's, and what else is to be seen of it.
    fn style_of(&self, row: Row, first: usize, end: usize) -> Style {
        let styles = self.picture.styles;
        let placement = self.placement(row);
        let ids: Vec<DeviceId> = (first..end).filter_map(|slot| device_at(placement, row, slot)).collect();
        let mut style = match ids.as_slice() {
            [id, rest @ ..] if rest.iter().all(|other| other == id) => style_of(self.picture.looks, styles, *id),
            _ => styles.text,
        };
        if !row.is_draft() {
            return style;
        }
        let moved = (first..end).any(|slot| device_at(self.map.now(), row, slot) != device_at(placement, row, slot));
        if moved {
            style = style.patch(styles.moved).add_modifier(Modifier::UNDERLINED);
        }
        let meets = |slots: &Range<usize>| slots.start < end && first < slots.end;
        if self.map.selection.as_ref().is_some_and(|s| s.row == row && meets(&s.slots)) || self.map.holds(row, meets) {
            style = style.patch(styles.selection);
        }
        if self.picture.focused && self.map.cursor_in(row, first..end) {
            style = style.patch(styles.cursor);
        }
        style
    }
}
