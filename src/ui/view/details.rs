//! Everything that is known of one device, with the last minute as graphs.

mod facts;
#[cfg(test)]
mod tests;

use std::time::Duration;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::widgets::{Block, Clear, Widget};

use self::facts::{Fact, facts};
use super::bar::{Segment, draw_bar};
use super::graph::{Graph, draw_graph, level, n_points, nice_max};
use super::window::glyphs;
use crate::ui::gauges::{DeviceRow, History, MemorySplit, Sample};
use crate::ui::text::width::truncate_with;
use crate::ui::theme::{DeviceMark, Role, Theme};
use crate::ui::units;

/// Columns of the facts, where the graphs stand beside them.
const FACTS: u16 = 38;
const FACTS_WIDE: u16 = 48;
/// Fewer columns than this are no graph.
const GRAPH: u16 = 28;
/// Columns of the words before a value.
const LABEL: u16 = 12;

/// Draws the view into `area`, over whatever is there. `mark` is the device's, by its place in the list.
pub fn draw_details(row: &DeviceRow, mark: DeviceMark, theme: &Theme, now: Duration, area: Rect, buf: &mut Buffer) {
    let area = area.intersection(buf.area);
    if area.is_empty() {
        return;
    }
    Clear.render(area, buf);
    buf.set_style(area, theme.style(Role::Text));
    let inner = frame(row, mark, theme, area, buf);
    if inner.is_empty() {
        return;
    }
    let facts_width = if inner.width >= 120 { FACTS_WIDE } else { FACTS };
    if inner.width >= facts_width + 2 + GRAPH {
        draw_facts(row, theme, Rect { width: facts_width, ..inner }, buf);
        let x = inner.x + facts_width + 2;
        draw_graphs(row, mark, theme, now, Rect { x, width: inner.right() - x, ..inner }, buf);
    } else if inner.height >= 24 {
        let upper = inner.height - 12;
        draw_facts(row, theme, Rect { height: upper, ..inner }, buf);
        draw_graphs(row, mark, theme, now, Rect { y: inner.y + upper, height: 12, ..inner }, buf);
    } else {
        draw_facts(row, theme, inner, buf);
    }
}

/// Border and title; returns what is inside, with a blank column at each side.
fn frame(row: &DeviceRow, mark: DeviceMark, theme: &Theme, area: Rect, buf: &mut Buffer) -> Rect {
    let block = Block::bordered().border_style(theme.style(Role::BorderFocus)).border_set(glyphs(theme).border);
    let inner = block.inner(area);
    block.render(area, buf);
    let title = Rect { x: area.x + 1, width: area.width.saturating_sub(2), height: 1, ..area };
    let sim = if row.simulated { "SIM " } else { "" };
    let room = usize::from(title.width).saturating_sub(row.id.to_string().len() + sim.len() + 5);
    let name = truncate_with(&row.name, room, mark_of_cut(theme));
    let parts = [
        (format!(" {} ", mark.shape), mark.style),
        (format!("{} ", row.id), theme.style(Role::Strong)),
        (sim.to_owned(), theme.style(Role::Warn)),
        (format!("{name} "), theme.style(Role::Title)),
    ];
    let mut x = title.x;
    for (text, style) in parts {
        x = put(buf, title, x, title.y, &text, style);
    }
    Rect { x: inner.x + 1, width: inner.width.saturating_sub(2), ..inner }
}

fn draw_facts(row: &DeviceRow, theme: &Theme, area: Rect, buf: &mut Buffer) {
    let mut y = draw_memory(row, theme, area, buf);
    let groups = facts(row, usize::from(area.width.saturating_sub(LABEL)), theme.ascii);
    let n_lines: usize = groups.iter().map(Vec::len).sum();
    let cores = row.reading.as_ref().map_or(&[][..], |r| &r.cores);
    let n_core_lines = if cores.is_empty() { 0 } else { core_lines(cores.len(), area.width).saturating_add(1) };
    // Blank lines between the groups, where there is room for all of them.
    let room = usize::from(area.bottom().saturating_sub(y).saturating_sub(n_core_lines));
    let gap = u16::from(room >= n_lines + groups.len() + usize::from(n_core_lines > 0));
    for group in groups.iter().filter(|group| !group.is_empty()) {
        y += gap;
        for fact in group {
            draw_fact(fact, theme, y, area, buf);
            y += 1;
        }
    }
    if !cores.is_empty() && y < area.bottom() {
        let rest = Rect { y: y + gap, height: area.bottom().saturating_sub(y + gap), ..area };
        draw_cores(cores, theme, rest, buf);
    }
}

fn draw_fact(fact: &Fact, theme: &Theme, y: u16, area: Rect, buf: &mut Buffer) {
    if y >= area.bottom() {
        return;
    }
    let dim = theme.style(Role::Dim);
    put(buf, area, area.x, y, fact.label, dim);
    let x = area.x + LABEL;
    let room = usize::from(area.right().saturating_sub(x));
    let (value, style) = match &fact.value {
        Some(value) => (value.as_str(), theme.style(fact.role)),
        None => ("N/A", dim),
    };
    put(buf, area, x, y, &truncate_with(value, room, mark_of_cut(theme)), style);
}

/// The bar, and a line for each segment; returns the line after them.
fn draw_memory(row: &DeviceRow, theme: &Theme, area: Rect, buf: &mut Buffer) -> u16 {
    let dim = theme.style(Role::Dim);
    let split = row.memory();
    let mut y = area.y;
    put(buf, area, area.x, y, "memory", dim);
    let total = row.memory_total_bytes().map(units::exact);
    let words = match (split, &total) {
        (Some(split), Some(total)) => format!("{:>10} of {total}", units::exact(split.used_bytes())),
        (None, Some(total)) => format!("{:>10} of {total}", "N/A"),
        (_, None) => "N/A".to_owned(),
    };
    put(buf, area, area.x + LABEL, y, &words, theme.style(Role::Strong));
    y += 1;
    let Some(split) = split else { return y };
    if y < area.bottom() {
        draw_bar(Some(&split), "", theme, Rect { y, height: 1, ..area }, buf);
        y += 1;
    }
    let is_worth_a_line = |segment: &Segment| match segment {
        Segment::Staged => split.staged_bytes > 0,
        Segment::Weights | Segment::Kv | Segment::Scratch => row.in_engine,
        Segment::Others | Segment::Free => true,
    };
    for segment in Segment::ALL.into_iter().filter(is_worth_a_line) {
        if y >= area.bottom() {
            break;
        }
        draw_segment(segment, &split, theme, y, area, buf);
        y += 1;
    }
    y
}

fn draw_segment(segment: Segment, split: &MemorySplit, theme: &Theme, y: u16, area: Rect, buf: &mut Buffer) {
    let x = put(buf, area, area.x, y, segment.glyph(theme.ascii), theme.style(segment.role())) + 1;
    put(buf, area, x, y, segment.words(), theme.style(Role::Dim));
    let n_bytes = segment.bytes(split);
    let share = units::percent(n_bytes as f64 / split.total_bytes.max(1) as f64);
    let figures = format!("{:>10} {share:>5}", units::exact(n_bytes));
    put(buf, area, area.x + LABEL, y, &figures, theme.style(Role::Text));
}

/// Lines that so many cores take, a column each.
fn core_lines(n_cores: usize, width: u16) -> u16 {
    u16::try_from(n_cores.div_ceil(usize::from(width.max(1)))).unwrap_or(u16::MAX)
}

/// A bar for each core; higher ones where there is room.
fn draw_cores(cores: &[f32], theme: &Theme, area: Rect, buf: &mut Buffer) {
    if area.is_empty() {
        return;
    }
    let label = format!("{} cores", cores.len());
    put(buf, area, area.x, area.y, &label, theme.style(Role::Dim));
    let n_rows = core_lines(cores.len(), area.width);
    let height = ((area.height - 1) / n_rows.max(1)).clamp(1, 4);
    let style = theme.style(Role::Accent);
    for (chunk, top) in
        cores.chunks(usize::from(area.width)).zip((area.y + 1..area.bottom()).step_by(usize::from(height)))
    {
        for (core, x) in chunk.iter().zip(area.x..) {
            let eighths = core.clamp(0.0, 1.0) * f32::from(height);
            for i in 0..height {
                let y = top + height - 1 - i;
                let here = eighths - f32::from(i);
                if y < area.bottom() && (here > 0.0 || i == 0) {
                    put(buf, area, x, y, level(here, theme.ascii), style);
                }
            }
        }
    }
}

fn draw_graphs(row: &DeviceRow, mark: DeviceMark, theme: &Theme, now: Duration, area: Rect, buf: &mut Buffer) {
    let last = row.history.samples().next_back().copied().unwrap_or_default();
    let n = n_points(area.width, theme.ascii);
    let bins = |value: &dyn Fn(&Sample) -> Option<f32>| row.history.bins(now, History::SPAN, n, value);
    let na = || "N/A".to_owned();

    let total = row.memory_total_bytes().unwrap_or(0);
    let memory = bins(&|s| s.memory_used_bytes.map(|n| n as f32));
    let load = bins(&|s| s.utilisation);
    let rates = bins(&|s| s.tokens_per_s);
    let largest = rates.iter().flatten().fold(0.0f32, |a, b| a.max(*b));
    let max_rate = nice_max(largest);
    let load_title = match row.load {
        Some(load) if !load.is_measured_outside => "busy",
        Some(_) | None => "utilisation",
    };
    let style = Style { bg: None, ..mark.style };
    let graphs = [
        (
            "memory",
            last.memory_used_bytes.map_or_else(na, units::exact),
            memory,
            total as f32,
            if total > 0 { units::round(total) } else { String::new() },
        ),
        (load_title, last.utilisation.map_or_else(na, |u| units::percent(f64::from(u))), load, 1.0, "100%".to_owned()),
        (
            "decode tokens/s",
            last.tokens_per_s.map_or_else(na, |t| units::rate(f64::from(t))),
            rates,
            max_rate,
            units::rate(f64::from(max_rate)),
        ),
    ];
    let height = area.height / 3;
    let extra = area.height % 3;
    let mut y = area.y;
    for (i, (title, now, values, max, max_words)) in (0..).zip(&graphs) {
        let height = height + u16::from(i < extra);
        let graph = Graph { title, now, values, max: *max, max_words, span_words: "-60 s", style };
        draw_graph(&graph, theme, Rect { y, height, ..area }, buf);
        y += height;
    }
}

fn mark_of_cut(theme: &Theme) -> &'static str {
    if theme.ascii { "..." } else { "…" }
}

/// Text from a column on, up to the end of `area`; returns the column after it.
fn put(buf: &mut Buffer, area: Rect, x: u16, y: u16, text: &str, style: Style) -> u16 {
    if x >= area.right() || y >= area.bottom() {
        return x;
    }
    buf.set_stringn(x, y, text, usize::from(area.right() - x), style).0
}
