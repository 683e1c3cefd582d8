//! The laid-out lines of one text that may still be growing.
//!
//! A streaming answer is laid out again with every token, so the work must be about its end alone. What is finished
//! stays: in Markdown, a block that another one follows is never changed by later lines, but for link definitions,
//! which [`Document::layout`] handles when the text is finished. Within a fenced code block, each line is finished.

use std::ops::Range;

use pulldown_cmark::Event;
use ratatui::text::Line;

use super::blocks::{Block, BlockKind, Fence, cut, line_start, parse};
use super::code::{code_label, code_line, language};
use super::highlight::Highlight;
use super::markdown::Writer;
use super::sanitise::printable_text;
use super::styles::TextStyles;

/// A block of code in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeBlock {
    /// From the fence's info string; empty where there is none.
    pub language: String,
    /// As it was written, for copying: not for the screen.
    pub text: String,
    /// Where it is in [`Document::lines`], label included.
    pub lines: Range<usize>,
}

/// The laid-out lines of one growing text.
#[derive(Default)]
pub struct Document {
    text: String,
    width: u16,
    styles_version: u64,
    finished: bool,
    lines: Vec<Line<'static>>,
    code_blocks: Vec<CodeBlock>,
    /// One for each code block; kept when all is laid out again.
    highlights: Vec<Highlight>,
    stable: Stable,
    /// A growing block was cut: the layout is not yet what it will be.
    cut: bool,
}

/// The part that more text does not change.
#[derive(Default)]
struct Stable {
    bytes: usize,
    n_lines: usize,
    n_code_blocks: usize,
    /// What follows continues a cut block: no blank line between.
    joined: bool,
    /// It ends within this fenced code block, the last of the `n_code_blocks`.
    fence: Option<Fence>,
}

impl Document {
    pub fn new() -> Document {
        Document::default()
    }

    /// The lines, none wider than the width they were laid out for.
    pub fn lines(&self) -> &[Line<'static>] {
        &self.lines
    }

    pub fn code_blocks(&self) -> &[CodeBlock] {
        &self.code_blocks
    }

    /// Lays out `text` for `width` columns. Where it only grew since the last call (with the same width and
    /// `styles_version`), finished blocks are kept and only the rest is laid out again. `finished`: no more text will
    /// come; the lines are then those that the whole text has, however it arrived. Width 0 has no lines.
    pub fn layout(&mut self, text: &str, width: u16, styles: &TextStyles, styles_version: u64, finished: bool) {
        let same = self.width == width && self.styles_version == styles_version;
        let grown = same && text.starts_with(&self.text);
        if grown && text.len() == self.text.len() && (self.finished || !finished) {
            return;
        }
        // The parser drops carriage returns within code, `advance_fence` does not.
        self.cut |= text.get(self.text.len()..).is_some_and(|new| new.contains('\r'));
        // A definition changes links and footnotes anywhere.
        if !grown || (finished && (self.cut || text.contains("]:"))) {
            self.stable = Stable::default();
            self.cut = text.contains('\r');
            self.text.clear();
        }
        self.text.push_str(text.get(self.text.len()..).unwrap_or_default());
        (self.width, self.styles_version, self.finished) = (width, styles_version, finished);
        self.lines.truncate(self.stable.n_lines);
        self.code_blocks.truncate(self.stable.n_code_blocks);
        if let (Some(fence), Some(block)) = (&self.stable.fence, self.code_blocks.last_mut()) {
            block.text.truncate(fence.text_bytes);
        }
        if width > 0 {
            let text = std::mem::take(&mut self.text);
            while self.advance(&text, usize::from(width), styles, finished) {}
            self.text = text;
        }
    }

    /// Lays out one stretch behind the stable part; whether there is more to do.
    fn advance(&mut self, text: &str, columns: usize, styles: &TextStyles, finished: bool) -> bool {
        if self.stable.fence.is_some() {
            return self.advance_fence(text, columns, styles);
        }
        let start = self.stable.bytes;
        let tail = text.get(start..).unwrap_or_default();
        let (events, blocks) = parse(tail);
        // The last block whose first line is complete: until then, it may still become part of the one before.
        let has_line = |block: &Block| tail.get(block.start..).is_some_and(|rest| rest.contains('\n'));
        let last = blocks.iter().rposition(has_line).unwrap_or(0);
        let Some(block) = blocks.get(last) else { return false };
        let block_start = line_start(tail, block.start);
        let (before, rest) = events.split_at(block.events.start);
        if !before.is_empty() {
            self.write(before, columns, styles);
            self.keep(start + block_start, false);
        }
        let source = tail.get(block_start..).unwrap_or_default();
        if let BlockKind::Fenced(info) = &block.kind
            && let Some((fence, opening_bytes)) = Fence::open_at_end(source)
            // A block without a label and without a line is not seen, nor is a blank line before it.
            && (!language(info).is_empty() || source.get(opening_bytes..).is_some_and(|body| body.contains('\n')))
        {
            self.open_fence(info, fence, text, start + block_start + opening_bytes, columns, styles);
            return true;
        }
        if !finished && let Some(cut) = cut(block, block_start, source) {
            let (events, _) = parse(source.get(..cut).unwrap_or_default());
            self.write(&events, columns, styles);
            self.keep(start + block_start + cut, true);
            self.cut = true;
            return true;
        }
        self.write(rest, columns, styles);
        false
    }

    fn write(&mut self, events: &[Event<'_>], columns: usize, styles: &TextStyles) {
        let apart = !self.lines.is_empty() && !self.stable.joined;
        let (lines, blocks) = (&mut self.lines, &mut self.code_blocks);
        let mut writer = Writer::new(columns, styles, apart, lines, blocks, &mut self.highlights);
        for event in events {
            writer.event(event);
        }
    }

    /// All that is written now is stable.
    fn keep(&mut self, bytes: usize, joined: bool) {
        self.stable.bytes = bytes;
        self.stable.n_lines = self.lines.len();
        self.stable.n_code_blocks = self.code_blocks.len();
        self.stable.joined = joined;
    }

    /// Begins a code block whose end is not there yet, and whose first line begins at `at`.
    fn open_fence(&mut self, info: &str, fence: Fence, text: &str, at: usize, columns: usize, styles: &TextStyles) {
        if !self.lines.is_empty() && !self.stable.joined {
            self.lines.push(Line::default());
        }
        let first = self.lines.len();
        let language = language(info);
        self.lines.extend(code_label(&language, columns, styles).map(Line::from));
        let index = self.code_blocks.len();
        if self.highlights.len() <= index {
            self.highlights.resize_with(index + 1, Highlight::default);
        }
        if let Some(highlight) = self.highlights.get_mut(index) {
            highlight.begin(&language, &printable_text(text.get(at..).unwrap_or_default()));
        }
        self.code_blocks.push(CodeBlock { language, text: String::new(), lines: first..self.lines.len() });
        self.keep(at, false);
        self.stable.fence = Some(fence);
    }

    /// Lays out the lines of the open code block; whether it is closed and text follows.
    fn advance_fence(&mut self, text: &str, columns: usize, styles: &TextStyles) -> bool {
        let index = self.stable.n_code_blocks - 1;
        let (Some(fence), Some(block), Some(highlight)) =
            (&mut self.stable.fence, self.code_blocks.get_mut(index), self.highlights.get_mut(index))
        else {
            return false;
        };
        let mut closed = false;
        for line in text.get(self.stable.bytes..).unwrap_or_default().split_inclusive('\n') {
            let complete = line.ends_with('\n');
            closed = fence.is_closed_by(line);
            if !closed {
                let clean = printable_text(line.strip_suffix('\n').unwrap_or(line));
                let runs = highlight.line(fence.n_lines, &clean, complete);
                self.lines.extend(code_line(&clean, &runs, columns, styles).into_iter().map(Line::from));
                block.text.push_str(line);
            }
            if complete {
                self.stable.bytes += line.len();
                self.stable.n_lines = self.lines.len();
                fence.n_lines += 1;
                fence.text_bytes = block.text.len();
            }
            if closed {
                closed = complete;
                break;
            }
        }
        block.lines.end = self.lines.len();
        if closed {
            self.stable.fence = None;
        }
        closed
    }
}

#[cfg(test)]
mod tests;
