//! The lines that say what the draft means, how a change comes along and what lies under the pointer.

use ratatui::text::{Line, Span};

use super::legend::style_of;
use super::map::{At, Gesture, Held, LayerMap};
use super::slots::{Row, part_at};
use super::view::{ChangeView, DeviceLook, MapStyles, PartInfoView, PreviewDevice, PreviewView};
use super::words::{Signs, difference, of_size, ranges, rate, size, time};
use crate::engine::part::Part;
use crate::engine::protocol::DeviceId;

/// What every line needs.
#[derive(Clone, Copy)]
pub struct Say<'a> {
    pub map: &'a LayerMap,
    pub looks: &'a [DeviceLook],
    pub styles: &'a MapStyles,
    pub signs: &'static Signs,
}

/// A part of a line. Of too many, those with the highest number go first.
struct Piece {
    goes: u8,
    spans: Vec<Span<'static>>,
}

impl Say<'_> {
    /// The draft's consequences: memory, speed, bytes to move; or why it cannot be done.
    pub fn verdict(&self, preview: Option<&PreviewView>, is_stale: bool, width: usize) -> Vec<Line<'static>> {
        let Say { map, styles, signs, .. } = *self;
        let mut pieces = Vec::new();
        if map.is_typing() {
            pieces.push(self.said(0, format!("before layer {}{}", map.digits, signs.edge_hot)));
        }
        let is_stale = is_stale || preview.is_some_and(|p| p.placement != *map.next());
        let refused = preview.filter(|_| !is_stale).and_then(|p| p.refused.as_deref());
        if let Some(why) = refused {
            let mut text = String::new();
            if let Some(Piece { spans, .. }) = pieces.first() {
                text.extend(spans.iter().map(|s| s.content.as_ref()));
                text.push_str(signs.dot);
            }
            text.push_str(why);
            return wrapped(&text, width).into_iter().map(|t| Line::styled(t, styles.bad)).collect();
        }
        let mut devices: Vec<(bool, Piece)> = Vec::new();
        for &id in map.devices() {
            let Some(text) = difference(map.now(), map.next(), id) else { continue };
            let after = preview.and_then(|p| p.devices.iter().find(|d| d.id == id));
            let grows = map.next().parts_on(id).len() >= map.now().parts_on(id).len();
            devices.push((grows, self.device(id, &text, after, grows, is_stale)));
        }
        // What receives comes first: it is where a draft fails.
        devices.sort_by_key(|(grows, _)| !grows);
        pieces.extend(devices.into_iter().map(|(_, piece)| piece));
        let Some(preview) = preview else {
            pieces.push(Piece { goes: 1, spans: vec![Span::styled(signs.more, styles.dim)] });
            return vec![self.line(pieces, width)];
        };
        let figure = if is_stale { styles.dim } else { styles.text };
        if let Some(to) = preview.to_tokens_per_s {
            let text = match preview.from_tokens_per_s {
                Some(from) => format!("~{}{}{} tok/s", rate(from), signs.arrow, rate(to)),
                None => format!("~{} tok/s", rate(to)),
            };
            let slower = preview.from_tokens_per_s.is_some_and(|from| to < from);
            let style = if is_stale || slower { figure } else { styles.good };
            pieces.push(Piece { goes: 1, spans: vec![Span::styled(text, style)] });
        }
        let moved = size(preview.weight_bytes.saturating_add(preview.kv_bytes));
        let text = format!("{moved} {}", about(signs.about, preview.staging_s));
        pieces.push(Piece { goes: 2, spans: vec![Span::styled(text, figure)] });
        let text = format!("stall {}", about(signs.about, preview.stall_s));
        pieces.push(Piece { goes: 5, spans: vec![Span::styled(text, styles.dim)] });
        if is_stale {
            pieces.push(Piece { goes: 1, spans: vec![Span::styled(signs.more, styles.dim)] });
        }
        vec![self.line(pieces, width)]
    }

    /// How a change under way comes along, or how it ended.
    pub fn change(&self, change: &ChangeView, width: usize) -> Vec<Line<'static>> {
        let Say { styles, signs, .. } = *self;
        let text = |text: String| vec![self.said(0, text)];
        let pieces = match change {
            ChangeView::None => return Vec::new(),
            ChangeView::Preparing(what) => text(format!("preparing {what}")),
            ChangeView::Staging { done_bytes, total_bytes, bytes_per_s } => {
                let left_s = total_bytes.saturating_sub(*done_bytes) as f64 / bytes_per_s;
                let mut pieces = text("staging".to_string());
                let n = (width / 4).min(24);
                let done = *done_bytes as f64 / (*total_bytes).max(1) as f64;
                let n_full = ((done * n as f64) as usize).min(n);
                let bar: String = (0..n).map(|i| signs.bar[usize::from(i >= n_full)]).collect();
                pieces.push(Piece { goes: 2, spans: vec![Span::styled(bar, styles.good)] });
                pieces.push(self.said(0, of_size(*done_bytes, *total_bytes)));
                if *bytes_per_s > 0.0 {
                    pieces.push(self.said(1, format!("{}/s", size(*bytes_per_s as u64))));
                    pieces.push(self.said(3, format!("{} left", time(left_s))));
                }
                pieces
            }
            ChangeView::Ready { when_now: true } => text("ready: switches at the next token".to_string()),
            ChangeView::Ready { when_now: false } => text("ready: switches before the next prompt".to_string()),
            ChangeView::Switched { stall_ms, from_tokens_per_s, to_tokens_per_s } => {
                let stalled = format!("switched: stalled {}", time(stall_ms / 1000.0));
                let mut pieces = vec![Piece { goes: 0, spans: vec![Span::styled(stalled, styles.good)] }];
                pieces.extend(match (from_tokens_per_s, to_tokens_per_s) {
                    (Some(from), Some(to)) => {
                        Some(self.said(0, format!("{} {} {} tok/s", rate(*from), signs.arrow, rate(*to))))
                    }
                    (None, Some(to)) => Some(self.said(0, format!("{} tok/s", rate(*to)))),
                    (_, None) => None,
                });
                pieces
            }
            ChangeView::Refused(why) | ChangeView::Failed(why) => {
                let head = if matches!(change, ChangeView::Failed(_)) { "failed: " } else { "refused: " };
                let lines = wrapped(&format!("{head}{why}"), width);
                return lines.into_iter().map(|t| Line::styled(t, styles.bad)).collect();
            }
            ChangeView::Cancelled => text("cancelled: the old placement works on".to_string()),
        };
        vec![self.line(pieces, width)]
    }

    /// What is in the hand, under the pointer, selected or at the cursor, the first of these that there is.
    pub fn pointed(&self, parts: Option<&[PartInfoView]>, focused: bool, width: usize) -> Option<Line<'static>> {
        let map = self.map;
        if let Some(Gesture { held: Held::Edge { row, to, .. }, .. }) = map.gesture {
            return Some(self.edge(row, to, width));
        }
        if let Some((row, slots)) = &map.hover {
            return Some(if slots.is_empty() {
                self.edge(*row, slots.start, width)
            } else {
                self.cells(*row, slots.clone(), parts, width)
            });
        }
        if let Some(s) = &map.selection {
            return Some(self.cells(s.row, s.slots.clone(), parts, width));
        }
        match map.at {
            _ if !focused => None,
            At::Cell(slot) => Some(self.cells(map.row, slot..slot + 1, parts, width)),
            At::Edge(b) => Some(self.edge(map.row, b, width)),
        }
    }

    fn edge(&self, row: Row, boundary: usize, width: usize) -> Line<'static> {
        let placement = if row.is_draft() { self.map.next() } else { self.map.now() };
        let side = |slot: Option<usize>| {
            let part = part_at(placement.n_layer(), row, slot?)?;
            let what = part.layer().map_or_else(|| part.to_string(), |l| format!("layer {l}"));
            Some((what, placement.get(part)))
        };
        let mut pieces = Vec::new();
        if let Some((what, id)) = side(boundary.checked_sub(1)) {
            pieces.push(Piece { goes: 0, spans: vec![self.name(id), self.text(format!(" up to {what}"))] });
        }
        if let Some((what, id)) = side(Some(boundary)) {
            pieces.push(Piece { goes: 0, spans: vec![self.name(id), self.text(format!(" from {what}"))] });
        }
        self.line(pieces, width)
    }

    fn cells(
        &self,
        row: Row,
        slots: std::ops::Range<usize>,
        infos: Option<&[PartInfoView]>,
        width: usize,
    ) -> Line<'static> {
        let placement = if row.is_draft() { self.map.next() } else { self.map.now() };
        let n_layer = placement.n_layer();
        let mut parts: Vec<Part> = Vec::new();
        let mut devices: Vec<DeviceId> = Vec::new();
        let mut from: Vec<DeviceId> = Vec::new();
        for part in slots.clone().filter_map(|slot| part_at(n_layer, row, slot)) {
            parts.push(part);
            // Its Ffn part is meant too where they lie together.
            if let Part::Attn(l) = part
                && placement.get(Part::Ffn(l)) == placement.get(part)
            {
                parts.push(Part::Ffn(l));
            }
            for (list, id) in [(&mut devices, placement.get(part)), (&mut from, self.map.now().get(part))] {
                if !list.contains(&id) {
                    list.push(id);
                }
            }
        }
        let mut text = named(&parts, self.signs.more);
        let known: Vec<PartInfoView> =
            parts.iter().filter_map(|part| infos?.get(part.index(n_layer)).copied()).collect();
        if known.len() == parts.len() && !parts.is_empty() {
            let weights = known.iter().fold(0u64, |sum, i| sum.saturating_add(i.weight_bytes));
            let kv = known.iter().fold(0u64, |sum, i| sum.saturating_add(i.kv_bytes));
            text.push_str(&format!(": {} weights", size(weights)));
            if kv > 0 {
                text.push_str(&format!(", {} KV", size(kv)));
            }
            if let Some(ms) = known.iter().map(|i| i.ms).sum::<Option<f32>>() {
                text.push_str(&format!(", ~{ms:.2} ms"));
            }
        }
        let mut spans = vec![self.text(text + " on ")];
        let list = |spans: &mut Vec<Span<'static>>, ids: &[DeviceId]| {
            for (i, &id) in ids.iter().enumerate() {
                if i > 0 {
                    spans.push(self.text(", ".to_string()));
                }
                spans.push(self.name(id));
            }
        };
        if row.is_draft() && from != devices {
            list(&mut spans, &from);
            spans.push(self.text(format!(" {} ", self.signs.arrow)));
        }
        list(&mut spans, &devices);
        if slots.len() > 1 && self.map.selection.as_ref().is_some_and(|s| s.row == row && s.slots == slots) {
            let n = slots.len();
            spans.insert(0, self.text(format!("{n} selected{}", self.signs.dot)));
        }
        let pieces = vec![Piece { goes: 0, spans }];
        self.line(pieces, width)
    }

    fn device(&self, id: DeviceId, text: &str, after: Option<&PreviewDevice>, grows: bool, is_stale: bool) -> Piece {
        let Say { styles, signs, .. } = *self;
        let mut spans = vec![self.name(id), self.text(format!(" {text}"))];
        if let Some(after) = after {
            let figures = format!(" {} {}", signs.arrow, of_size(after.after_bytes, after.total_bytes));
            spans.push(Span::styled(figures, if is_stale { styles.dim } else { styles.text }));
            if !is_stale && after.short_bytes > 0 {
                spans.push(Span::styled(format!(" {} short", size(after.short_bytes)), styles.bad));
            } else if !is_stale && grows {
                spans.push(Span::styled(" fits", styles.good));
            }
        }
        let is_short = after.is_some_and(|a| a.short_bytes > 0);
        Piece { goes: if grows || is_short { 0 } else { 4 }, spans }
    }

    fn name(&self, id: DeviceId) -> Span<'static> {
        Span::styled(id.to_string(), style_of(self.looks, self.styles, id))
    }

    fn text(&self, text: String) -> Span<'static> {
        Span::styled(text, self.styles.text)
    }

    fn said(&self, goes: u8, text: String) -> Piece {
        Piece { goes, spans: vec![self.text(text)] }
    }

    fn line(&self, mut pieces: Vec<Piece>, width: usize) -> Line<'static> {
        let gap = Span::styled(self.signs.dot, self.styles.dim);
        let total = |pieces: &[Piece]| {
            let own: usize = pieces.iter().flat_map(|p| &p.spans).map(Span::width).sum();
            own + gap.width() * pieces.len().saturating_sub(1)
        };
        while total(&pieces) > width {
            let Some(last) = pieces.iter().map(|p| p.goes).max().filter(|&goes| goes > 0) else { break };
            if let Some(at) = pieces.iter().rposition(|p| p.goes == last) {
                pieces.remove(at);
            }
        }
        let mut spans = Vec::new();
        for (i, piece) in pieces.into_iter().enumerate() {
            if i > 0 {
                spans.push(gap.clone());
            }
            spans.extend(piece.spans);
        }
        Line::from(spans)
    }
}

/// `embed, layers 0-3`, `attn 7`, `ffn 4-9`. Attention alone is named so: its Ffn part lies elsewhere.
fn named(parts: &[Part], more: &str) -> String {
    let has = |part: &Part| parts.contains(part);
    let (mut whole, mut attn, mut ffn) = (Vec::new(), Vec::new(), Vec::new());
    for part in parts {
        match *part {
            Part::Attn(l) if has(&Part::Ffn(l)) => whole.push(l),
            Part::Attn(l) => attn.push(l),
            Part::Ffn(l) if !has(&Part::Attn(l)) => ffn.push(l),
            Part::Ffn(_) | Part::Embed | Part::Head => {}
        }
    }
    let mut names = Vec::new();
    if has(&Part::Embed) {
        names.push("embed".to_string());
    }
    for (one, many, layers) in [("layer", "layers", whole), ("attn", "attn", attn), ("ffn", "ffn", ffn)] {
        if let Some(ranges) = ranges(&layers, more) {
            names.push(format!("{} {ranges}", if layers.len() == 1 { one } else { many }));
        }
    }
    if has(&Part::Head) {
        names.push("head".to_string());
    }
    names.join(", ")
}

/// A text in lines of at most `width` columns, cut at spaces.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if Span::raw(line.as_str()).width() + 1 + Span::raw(word).width() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_string()),
        }
    }
    lines
}

/// A time that is only forecast; one below what is worth counting says so already.
fn about(sign: &str, seconds: f64) -> String {
    let time = time(seconds);
    if time.starts_with('<') { time } else { format!("{sign}{time}") }
}
