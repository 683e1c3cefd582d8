//! The top-level blocks of a Markdown text, and where a text that grows may be parted.

use std::ops::Range;

use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag};

use super::markdown::OPTIONS;

/// Paragraphs and lists that are longer (in bytes) are cut while they grow, so that a token's cost has a bound.
const MAX_GROWING_TEXT_BYTES: usize = 8 << 10;
/// The same for blocks that look wrong when cut: tables, quotes, HTML.
const MAX_GROWING_BLOCK_BYTES: usize = 64 << 10;
/// A paragraph is cut this far (in bytes) before its end.
const KEPT_BYTES: usize = 256;

/// A block at the top level.
pub struct Block {
    pub events: Range<usize>,
    /// Its first byte: spaces before it are not part of it.
    pub start: usize,
    pub kind: BlockKind,
    /// Where the items of a list begin.
    pub items: Vec<usize>,
}

pub enum BlockKind {
    Paragraph,
    List,
    /// A fenced code block with its info string.
    Fenced(String),
    Other,
}

/// The events of a text and its top-level blocks.
pub fn parse(text: &str) -> (Vec<Event<'_>>, Vec<Block>) {
    let mut events = Vec::new();
    let mut blocks: Vec<Block> = Vec::new();
    let mut depth = 0_usize;
    for (event, bytes) in Parser::new_ext(text, OPTIONS).into_offset_iter() {
        if depth == 0 {
            let kind = match &event {
                Event::Start(Tag::Paragraph) => BlockKind::Paragraph,
                Event::Start(Tag::List(_)) => BlockKind::List,
                Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(info))) => BlockKind::Fenced(info.to_string()),
                _ => BlockKind::Other,
            };
            blocks.push(Block { events: events.len()..events.len(), start: bytes.start, kind, items: Vec::new() });
        }
        match &event {
            Event::Start(tag) => {
                if depth == 1
                    && matches!(tag, Tag::Item)
                    && let Some(list) = blocks.last_mut()
                {
                    list.items.push(bytes.start);
                }
                depth += 1;
            }
            Event::End(_) => depth = depth.saturating_sub(1),
            _ => {}
        }
        events.push(event);
        if let Some(block) = blocks.last_mut() {
            block.events.end = events.len();
        }
    }
    (events, blocks)
}

/// Where the line begins that holds byte `at`.
pub fn line_start(text: &str, at: usize) -> usize {
    text.get(..at).and_then(|before| before.rfind(['\n', '\r'])).map_or(0, |end| end + 1)
}

/// Where to cut a block that has grown too long, in bytes of `source`, which begins with the line at `offset` that the
/// block begins in.
pub fn cut(block: &Block, offset: usize, source: &str) -> Option<usize> {
    let after_last_line = || source.rfind('\n').map(|end| end + 1).filter(|&at| at < source.len());
    let limit = match block.kind {
        BlockKind::Paragraph | BlockKind::List => MAX_GROWING_TEXT_BYTES,
        BlockKind::Fenced(_) | BlockKind::Other => MAX_GROWING_BLOCK_BYTES,
    };
    if source.len() <= limit {
        return None;
    }
    match block.kind {
        BlockKind::Paragraph => {
            let before = source.get(..source.floor_char_boundary(source.len() - KEPT_BYTES))?;
            let at_word = before.rfind([' ', '\n']).map(|space| space + 1).filter(|&at| at > limit / 2);
            Some(at_word.unwrap_or(before.len()))
        }
        BlockKind::List => {
            let complete = |at: &usize| source.get(*at..).is_some_and(|rest| rest.contains('\n'));
            let items = block.items.iter().map(|item| item - offset);
            let item = items.map(|item| line_start(source, item)).rfind(|at| *at > 0 && complete(at));
            item.or_else(|| (source.len() > MAX_GROWING_BLOCK_BYTES).then(after_last_line).flatten())
        }
        BlockKind::Fenced(_) | BlockKind::Other => after_last_line(),
    }
}

/// A fenced code block that is not closed yet.
pub struct Fence {
    marker: u8,
    n_markers: usize,
    /// Complete lines so far, and the bytes they have in the block's text.
    pub n_lines: usize,
    pub text_bytes: usize,
}

impl Fence {
    /// The fence that opens a text and is not closed in it, and the bytes of its first line. None for fences that
    /// are indented, and for lines that end in carriage returns: they need the parser.
    pub fn open_at_end(source: &str) -> Option<(Fence, usize)> {
        let (opening, body) = source.split_once('\n')?;
        let marker = *opening.as_bytes().first().filter(|marker| matches!(marker, b'`' | b'~'))?;
        let n_markers = opening.bytes().take_while(|&byte| byte == marker).count();
        let fence = Fence { marker, n_markers, n_lines: 0, text_bytes: 0 };
        let open = n_markers >= 3 && !source.contains('\r') && !body.lines().any(|line| fence.is_closed_by(line));
        open.then_some((fence, opening.len() + 1))
    }

    /// Whether this line ends the block.
    pub fn is_closed_by(&self, line: &str) -> bool {
        let line = line.trim_end_matches('\n');
        let unindented = line.trim_start_matches(' ');
        let n_markers = unindented.bytes().take_while(|&byte| byte == self.marker).count();
        line.len() - unindented.len() <= 3
            && n_markers >= self.n_markers
            && unindented.get(n_markers..).is_some_and(|rest| rest.trim_matches([' ', '\t']).is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fences_open_and_close() {
        assert!(Fence::open_at_end("```rust\nfn\n").is_some());
        assert!(Fence::open_at_end("```rust\nfn\n``` x\n").is_some());
        assert!(Fence::open_at_end("````\n```\n").is_some());
        assert!(Fence::open_at_end("```\nfn\n   ````  ").is_none());
        assert!(Fence::open_at_end("```rust").is_none());
        assert!(Fence::open_at_end("``\n").is_none());
        assert!(Fence::open_at_end("```\na\r\n").is_none());
    }

    #[test]
    fn blocks_of_a_text() {
        let text = "# A\n\npara\n\n- one\n- two\n\n---\n";
        let (_, blocks) = parse(text);
        let starts: Vec<usize> = blocks.iter().map(|block| block.start).collect();
        assert_eq!(starts, [0, 5, 11, 24]);
        assert_eq!(blocks[2].items, [11, 17]);
    }

    #[test]
    fn long_blocks_are_cut() {
        let paragraph = "word ".repeat(3000);
        let (_, blocks) = parse(&paragraph);
        let at = cut(&blocks[0], 0, &paragraph).expect("long");
        assert!(at.is_multiple_of(5) && at > 14_000);
        let list = "- item\n".repeat(3000);
        let (_, blocks) = parse(&list);
        assert_eq!(cut(&blocks[0], 0, &list), Some(7 * 2999));
        assert_eq!(cut(&parse("short").1[0], 0, "short"), None);
        let unbroken = "日".repeat(5000);
        assert!(cut(&parse(&unbroken).1[0], 0, &unbroken).is_some_and(|at| unbroken.is_char_boundary(at)));
    }
}
