//! The containers that blocks are in, and the lines written within them.

use ratatui::text::{Line, Span};

use super::{Container, Kind, MAX_INDENTED, Writer};
use crate::ui::text::width::width;
use crate::ui::text::wrap::{clip, indented, wrap};

impl Writer<'_> {
    pub(super) fn parent(&mut self) -> &mut Container {
        // The root is never closed.
        self.containers.last_mut().expect("the root container stays")
    }

    pub(super) fn open(&mut self, kind: Kind, first: Span<'static>, rest: Span<'static>) {
        let indented = self.containers.len() < MAX_INDENTED;
        let (first, rest) = if indented { (first, rest) } else { (Span::raw(""), Span::raw("")) };
        let loose = matches!(kind, Kind::Root | Kind::Quote);
        self.containers.push(Container { kind, first: Some(first), rest, has_content: false, loose });
    }

    pub(super) fn close(&mut self) {
        self.flush();
        let empty_item = |container: &Container| container.kind == Kind::Item && container.first.is_some();
        if self.containers.last().is_some_and(empty_item) {
            self.emit(vec![Vec::new()]);
        }
        if self.containers.len() > 1 {
            self.containers.pop();
        }
    }

    /// Writes what is before a block within its container: text of a tight item, and a blank line.
    pub(super) fn begin_block(&mut self) {
        self.flush();
        let parent = self.parent();
        if parent.has_content && parent.loose {
            self.set_apart();
        }
    }

    /// A blank line goes before what is written next, in the container that is open now.
    pub(super) fn set_apart(&mut self) {
        let depth = self.containers.len();
        self.blank = Some(self.blank.map_or(depth, |blank| blank.min(depth)));
    }

    /// Wraps and writes the text gathered so far.
    pub(super) fn flush(&mut self) {
        if self.inline.is_empty() || self.table.is_some() {
            return;
        }
        let mut pieces = std::mem::take(&mut self.inline);
        while let Some(last) = pieces.last_mut() {
            let kept = last.text.trim_end_matches('\n').len();
            last.text.truncate(kept);
            if kept > 0 {
                break;
            }
            pieces.pop();
        }
        let lines = wrap(&pieces, self.room());
        self.emit(lines);
    }

    /// Columns before each line; at least half of them stay for the text.
    pub(super) fn indent(&self) -> usize {
        let wanted: usize = self.containers.iter().map(|container| width(&container.rest.content)).sum();
        wanted.min(self.columns / 2)
    }

    /// Columns for text.
    pub(super) fn room(&self) -> usize {
        self.columns - self.indent()
    }

    /// Writes lines, each behind what its containers put before it.
    pub(super) fn emit(&mut self, lines: Vec<Vec<Span<'static>>>) {
        if lines.is_empty() {
            return;
        }
        self.emit_blank();
        let indent = self.indent();
        for spans in lines {
            let before = self.before(self.containers.len(), indent);
            self.lines.push(if spans.is_empty() { blank(before) } else { indented(before, spans) });
        }
        self.containers.iter_mut().for_each(|container| container.has_content = true);
    }

    /// Writes the blank line that is due.
    pub(super) fn emit_blank(&mut self) {
        if let Some(depth) = self.blank.take() {
            let before = self.before(depth, self.indent());
            self.lines.push(blank(before));
        }
    }

    /// What the outermost containers put before a line.
    pub(super) fn before(&mut self, n_containers: usize, indent: usize) -> Vec<Span<'static>> {
        let spans = self.containers.iter_mut().take(n_containers).map(|container| match container.first.take() {
            Some(first) => first,
            None => container.rest.clone(),
        });
        clip(spans.filter(|span| !span.content.is_empty()).collect(), indent)
    }
}

/// A line without text, and without spaces at its end.
fn blank(mut spans: Vec<Span<'static>>) -> Line<'static> {
    while let Some(last) = spans.last_mut() {
        let kept = last.content.trim_end().len();
        if kept > 0 {
            last.content.to_mut().truncate(kept);
            break;
        }
        spans.pop();
    }
    Line::from(spans)
}
