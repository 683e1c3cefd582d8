//! The devices with what the draft puts on each, in exact numbers. Each is a place to drop layers on.

use ratatui::style::Style;
use ratatui::text::Span;

use super::map::LayerMap;
use super::view::{DeviceLook, MapStyles};
use super::words::{Signs, holds, n_layers};
use crate::engine::protocol::DeviceId;

/// One device of the legend.
pub struct Entry {
    pub id: DeviceId,
    pub spans: Vec<Span<'static>>,
}

impl Entry {
    pub fn width(&self) -> usize {
        self.spans.iter().map(Span::width).sum()
    }
}

/// How much an entry says.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Detail {
    /// The letter, the ranges, how many, and how many more than now.
    All,
    Ranges,
    Count,
    Name,
}

/// The legend in at most `n_lines` lines, with as much detail as fits; what does not fit even as names is left out.
pub fn legend(
    map: &LayerMap,
    looks: &[DeviceLook],
    styles: &MapStyles,
    width: usize,
    n_lines: usize,
) -> Vec<Vec<Entry>> {
    let with =
        |detail| wrap(map.devices().iter().map(|&id| entry(map, looks, styles, id, detail)).collect(), styles, width);
    for detail in [Detail::All, Detail::Ranges, Detail::Count] {
        let lines = with(detail);
        if lines.len() <= n_lines && lines.iter().all(|line| width_of(line) <= width) {
            return lines;
        }
    }
    let mut lines = with(Detail::Name);
    lines.truncate(n_lines);
    lines
}

/// What lies between two entries.
pub fn separator(styles: &MapStyles) -> Span<'static> {
    Span::styled(format!(" {} ", Signs::of(styles.ascii).edge), styles.dim)
}

fn width_of(line: &[Entry]) -> usize {
    line.iter().map(Entry::width).sum::<usize>() + 3 * line.len().saturating_sub(1)
}

fn wrap(entries: Vec<Entry>, styles: &MapStyles, width: usize) -> Vec<Vec<Entry>> {
    let gap = separator(styles).width();
    let mut lines: Vec<Vec<Entry>> = Vec::new();
    for entry in entries {
        match lines.last_mut() {
            Some(line) if width_of(line) + gap + entry.width() <= width => line.push(entry),
            _ => lines.push(vec![entry]),
        }
    }
    lines
}

fn entry(map: &LayerMap, looks: &[DeviceLook], styles: &MapStyles, id: DeviceId, detail: Detail) -> Entry {
    let signs = Signs::of(styles.ascii);
    let look = looks.iter().find(|look| look.id == id);
    let style = look.map_or(styles.text, |look| look.style);
    let mut spans = Vec::new();
    if let Some(look) = look {
        if look.letter != look.shape && matches!(detail, Detail::All | Detail::Count) {
            spans.push(Span::styled(format!("{} ", look.letter), styles.dim));
        }
        spans.push(Span::styled(format!("{} ", look.shape), style));
    }
    spans.push(Span::styled(id.to_string(), style));
    let said = |text: String| Span::styled(format!(" {text}"), styles.text);
    let (n, n_ffn) = n_layers(map.next(), id);
    let ((was, was_ffn), held) = (n_layers(map.now(), id), holds(map.next(), id, signs.more));
    match (detail, held) {
        (Detail::All | Detail::Ranges | Detail::Count, None) => {
            spans.push(Span::styled(format!(" {}", signs.none), styles.dim))
        }
        (Detail::Ranges, Some(held)) => spans.push(said(held)),
        (Detail::All, Some(held)) => {
            spans.push(said(held));
            if n == n_ffn && n > 0 {
                spans.push(said(format!("({n}{})", delta(n, was))));
            } else if n != n_ffn {
                let ffn = format!("ffn {n_ffn}{}", delta(n_ffn, was_ffn));
                spans.push(said(if n == 0 { format!("({ffn})") } else { format!("({n}{}, {ffn})", delta(n, was)) }));
            }
        }
        (Detail::Count, Some(_)) => {
            spans.push(said(if n == n_ffn { n.to_string() } else { format!("{n}/{n_ffn}") }));
        }
        (Detail::Name, _) => {}
    }
    Entry { id, spans }
}

fn delta(n: usize, was: usize) -> String {
    let delta = n as i64 - was as i64;
    if delta == 0 { String::new() } else { format!(" {delta:+}") }
}

/// The style of a device.
pub fn style_of(looks: &[DeviceLook], styles: &MapStyles, id: DeviceId) -> Style {
    looks.iter().find(|look| look.id == id).map_or(styles.text, |look| look.style)
}
