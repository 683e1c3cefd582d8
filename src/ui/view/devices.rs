//! The devices panel: one card a device, its columns aligned over all cards.

mod columns;
mod fields;
mod name;
#[cfg(test)]
pub(crate) mod tests;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use self::columns::{Column, layout};
use self::fields::{Field, spans};
use super::bar::{Segment, draw_bar};
use super::graph::draw_sparkline;
use crate::devices::telemetry::PowerState;
use crate::engine::protocol::DeviceId;
use crate::ui::gauges::{DeviceRow, Gauges};
use crate::ui::hits::{Hits, PanelId, Target};
use crate::ui::text::width::width;
use crate::ui::theme::{DeviceMark, Role, Theme};
use crate::ui::units;

pub use name::short_name;

/// Columns before a card's shape: the cursor's place.
const GUTTER: u16 = 1;
/// Columns of the gutter, the shape and the blank after it: where the id stands, and second lines begin.
const INDENT: u16 = GUTTER + 2;

/// Lines that the panel makes use of, at most `max`: one or two a card, and one for the hops.
pub fn wanted_height(n_devices: usize, _width: u16, max: u16) -> u16 {
    let n = u16::try_from(n_devices).unwrap_or(u16::MAX);
    let two_lines = n.saturating_mul(2).saturating_add(1);
    if two_lines <= max { two_lines } else { n.saturating_add(1).min(max) }
}

/// How a card is shown, besides what it says.
#[derive(Clone, Copy)]
struct Look<'a> {
    theme: &'a Theme,
    mark: DeviceMark,
    is_chosen: bool,
    is_drop: bool,
}

/// Draws the cards into `area` (the inside of the panel's frame). `cursor`: the chosen card while the panel has the
/// focus, by its place in [`Gauges::devices`]; where there are more cards than lines, it stays in sight. `drop_hot`: the
/// device that something is dragged over.
pub fn draw_devices(
    gauges: &Gauges,
    theme: &Theme,
    cursor: Option<usize>,
    drop_hot: Option<DeviceId>,
    area: Rect,
    buf: &mut Buffer,
    hits: &mut Hits,
) {
    let area = area.intersection(buf.area);
    if area.is_empty() {
        return;
    }
    hits.add(area, Target::Panel(PanelId::Devices));
    let n = gauges.devices.len();
    if n == 0 {
        put(buf, area, area.x + GUTTER, area.y, "no device", theme.style(Role::Dim));
        return;
    }
    let height = usize::from(area.height);
    let lines_a_card = if height >= 2 * n { 2 } else { 1 };
    let has_footer = height > lines_a_card * n || (n > height && height > 1);
    let n_shown = ((height - usize::from(has_footer)) / lines_a_card).min(n);
    // Without a cursor the list stands at its top; with one it is in the middle where it can be.
    let first = cursor.map_or(0, |c| c.saturating_sub(n_shown / 2).min(n - n_shown));

    let width = area.width.saturating_sub(INDENT);
    let [upper, lower] = layout(gauges, theme, width, lines_a_card == 2);
    let shown = gauges.devices.iter().enumerate().skip(first).take(n_shown);
    let mut last_end = area.x;
    for ((i, row), y) in shown.zip((area.y..).step_by(lines_a_card)) {
        let is_first_of_its_id = gauges.find(row.id).is_some_and(|(at, _)| at == i);
        let look = Look {
            theme,
            mark: theme.device(i),
            is_chosen: cursor == Some(i),
            is_drop: drop_hot == Some(row.id) && row.in_engine,
        };
        let card = Rect::new(area.x, y, area.width, lines_a_card as u16).intersection(area);
        last_end = draw_card(gauges, row, look, [&upper, &lower], card, buf);
        if is_first_of_its_id {
            hits.add(card, Target::Device(row.id));
        }
    }
    let y = area.bottom() - 1;
    if has_footer {
        draw_footer(gauges, theme, (n - n_shown, first), Rect::new(area.x, y, area.width, 1), buf);
    } else {
        let (hops, more) = (hops(gauges), more(n - n_shown));
        let words = if more.is_empty() { hops } else { more };
        let start = area.right().saturating_sub(width_of(&words));
        if !words.is_empty() && start >= last_end + 2 {
            put(buf, area, start, y, &words, theme.style(Role::Dim));
        }
    }
}

/// Returns the column after the last line's text.
fn draw_card(
    gauges: &Gauges,
    row: &DeviceRow,
    look: Look<'_>,
    lines: [&[Column]; 2],
    card: Rect,
    buf: &mut Buffer,
) -> u16 {
    let Look { theme, mark, .. } = look;
    if look.is_drop || look.is_chosen {
        buf.set_style(card, theme.style(Role::Selection));
    }
    let gutter = match (look.is_drop, look.is_chosen, theme.ascii) {
        (true, _, false) => "»",
        (false, true, false) => "›",
        (true, _, true) => "=",
        (false, true, true) => ">",
        (false, false, _) => " ",
    };
    let gutter_style = theme.style(if look.is_drop { Role::EdgeHot } else { Role::Accent });
    put(buf, card, card.x, card.y, gutter, gutter_style);
    put(buf, card, card.x + GUTTER, card.y, mark.shape.encode_utf8(&mut [0; 4]), mark.style);
    let mut end = card.x;
    for (i, y) in (0..2).zip(card.y..card.bottom()) {
        let line = Rect { y, height: 1, ..card };
        end = draw_line(gauges, row, look, lines[i], line, buf);
        // A card that this program does not use has nothing to say where its work would stand.
        let is_work = |column: &&Column| column.field.is_work();
        if i == 0
            && !row.in_engine
            && let Some(column) = lines[i].iter().find(is_work)
        {
            let x = line.x + INDENT + column.x;
            let words = ["seen, not used", "not used", "unused"];
            let fitting = words.into_iter().find(|w| x.saturating_add(width_of(w)) <= line.right());
            end = put(buf, line, x, y, fitting.unwrap_or_default(), theme.style(Role::Dim));
        }
    }
    end
}

fn draw_line(gauges: &Gauges, row: &DeviceRow, look: Look<'_>, line: &[Column], card: Rect, buf: &mut Buffer) -> u16 {
    let Look { theme, mark, .. } = look;
    let mut end = card.x;
    for column in line {
        let x = card.x + INDENT + column.x;
        let cell = Rect::new(x, card.y, column.width, 1).intersection(card);
        if cell.is_empty() || (!row.in_engine && column.field.is_work()) {
            continue;
        }
        match column.field {
            Field::Bar => draw_bar(row.memory().as_ref(), state_words(row.state()), theme, cell, buf),
            Field::Spark => {
                let n = usize::from(cell.width);
                let span = std::time::Duration::from_secs(u64::from(cell.width));
                let values = row.history.bins(gauges.now, span, n, |s| s.utilisation);
                draw_sparkline(&values, mark.style, theme.ascii, cell, buf);
            }
            Field::Id
            | Field::Tag
            | Field::Name
            | Field::MemoryLabel
            | Field::Figures
            | Field::LoadLabel
            | Field::Load
            | Field::Power
            | Field::Temperature
            | Field::Clock
            | Field::Link
            | Field::Layers
            | Field::Ms
            | Field::Share
            | Field::ShareLabel
            | Field::Wait
            | Field::Prefill => {
                let spans = spans(column.field, row, theme, cell.width);
                let text_width: u16 = spans.iter().map(|(text, _)| width_of(text)).sum();
                let pad = if column.field.is_figure() { cell.width.saturating_sub(text_width) } else { 0 };
                let mut x = cell.x + pad;
                for (text, role) in &spans {
                    let style = match column.field {
                        Field::Id if row.in_engine => mark.style,
                        _ => theme.style(*role),
                    };
                    x = put(buf, cell, x, cell.y, text, style);
                }
                if text_width == 0 {
                    continue;
                }
            }
        }
        end = cell.right();
    }
    end
}

/// Left what the bar's glyphs mean, or how many cards are out of sight; right the hops.
fn draw_footer(gauges: &Gauges, theme: &Theme, (n_hidden, n_above): (usize, usize), line: Rect, buf: &mut Buffer) {
    let dim = theme.style(Role::Dim);
    let mut x = line.x + INDENT;
    if n_hidden > 0 {
        let mut words = more(n_hidden);
        if n_above > 0 {
            words.push_str(&format!(" ({n_above} above)"));
        }
        x = put(buf, line, x, line.y, &words, dim);
    }
    let hops = hops(gauges);
    let start = line.right().saturating_sub(width_of(&hops));
    if !hops.is_empty() && start >= x + 2 {
        put(buf, line, start, line.y, &hops, dim);
    }
    let room = if hops.is_empty() { line.right() } else { start.saturating_sub(2) };
    let is_staging = gauges.devices.iter().any(|row| row.memory().is_some_and(|m| m.staged_bytes > 0));
    let legend = Segment::ALL.into_iter().filter(|s| is_staging || *s != Segment::Staged);
    let n_columns: usize = legend.clone().map(|s| s.words().len() + 4).sum();
    if n_hidden == 0 && usize::from(room) + 2 >= usize::from(x) + n_columns {
        for segment in legend {
            x = put(buf, line, x, line.y, segment.glyph(theme.ascii), theme.style(segment.role())) + 1;
            x = put(buf, line, x, line.y, segment.words(), dim) + 2;
        }
    }
}

fn more(n_hidden: usize) -> String {
    if n_hidden == 0 { String::new() } else { format!("+{n_hidden} more") }
}

/// What crosses from device to device; empty where nothing does.
fn hops(gauges: &Gauges) -> String {
    let share = gauges.hop_share.filter(|s| *s > 0.0).map(|s| format!("hops {} of time", units::percent(s)));
    let rate = gauges.hop_bytes_per_s.filter(|r| *r > 0.0).map(units::bytes_per_s);
    match (share, rate) {
        (Some(share), Some(rate)) => format!("{share}, {rate}"),
        (Some(words), None) => words,
        (None, Some(rate)) => format!("hops {rate}"),
        (None, None) => String::new(),
    }
}

fn state_words(state: PowerState) -> &'static str {
    match state {
        PowerState::Awake => "",
        PowerState::Asleep => "asleep",
        PowerState::Gone => "gone",
    }
}

fn width_of(text: &str) -> u16 {
    u16::try_from(width(text)).unwrap_or(u16::MAX)
}

/// Text from a column on, up to the end of `area`; returns the column after it.
fn put(buf: &mut Buffer, area: Rect, x: u16, y: u16, text: &str, style: Style) -> u16 {
    if x >= area.right() || y >= area.bottom() {
        return x;
    }
    buf.set_stringn(x, y, text, usize::from(area.right() - x), style).0
}
