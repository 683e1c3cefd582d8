//! Parting a model's thoughts from its answer.

use std::ops::Range;

/// What models write before and after their thoughts, as their chat templates have it.
const TAGS: &[(&str, &str)] = &[
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("<seed:think>", "</seed:think>"),
    ("<mm:think>", "</mm:think>"),
    ("[THINK]", "[/THINK]"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
    ("<|channel>thought", "<channel|>"),
    ("<|channel|>analysis<|message|>", "<|end|>"),
];

/// What models write around their answer: not part of it.
const MARKERS: &[&str] = &[
    "<|start|>assistant",
    "<|channel|>final<|message|>",
    "<|START_TEXT|>",
    "<|END_TEXT|>",
    "<|START_RESPONSE|>",
    "<|END_RESPONSE|>",
];

/// A stretch of a model's text, in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// `closed`: the model has ended the thought.
    Thinking {
        text: Range<usize>,
        closed: bool,
    },
    Answer {
        text: Range<usize>,
    },
}

/// The thoughts and answers in a text, without their tags and the blank space around them; in order. A closed thought
/// without text and a blank answer are left out.
///
/// `thinks_first`: the prompt has already opened a thought. A tag opens a thought only at the start of a line and
/// outside of a fenced code block, so that an answer may speak of tags. While the text is not `finished`, its end is left
/// out where it may become a tag.
pub fn split_thinking(text: &str, thinks_first: bool, finished: bool) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut at = 0;
    if thinks_first {
        // Some models repeat the tag that the prompt ended with.
        let start = text.len() - text.trim_start().len();
        let rest = text.get(start..).unwrap_or_default();
        match TAGS.iter().find(|(open, _)| rest.starts_with(open)) {
            Some((open, close)) => at = thought(text, start + open.len(), &[close], finished, &mut pieces),
            None if !finished && TAGS.iter().any(|(open, _)| open.starts_with(rest)) => return pieces,
            None => {
                let closers: Vec<&str> = TAGS.iter().map(|(_, close)| *close).collect();
                at = thought(text, 0, &closers, finished, &mut pieces);
            }
        }
    }
    while at < text.len() {
        at = answer(text, at, finished, &mut pieces);
    }
    pieces
}

/// Adds the thought that begins at `start`; where the text goes on.
fn thought(text: &str, start: usize, closers: &[&str], finished: bool, pieces: &mut Vec<Piece>) -> usize {
    let rest = text.get(start..).unwrap_or_default();
    let close = closers.iter().filter_map(|close| Some((rest.find(close)?, close.len()))).min();
    let (end, next, closed) = match close {
        Some((at, bytes)) => (start + at, start + at + bytes, true),
        None if finished => (text.len(), text.len(), false),
        None => (text.len() - undecided(rest, closers), text.len(), false),
    };
    let range = trimmed(text, start..end);
    if !(closed && range.is_empty()) {
        pieces.push(Piece::Thinking { text: range, closed });
    }
    next
}

/// Adds the answer that begins at `start`, and the thought after it; where the text goes on.
fn answer(text: &str, start: usize, finished: bool, pieces: &mut Vec<Piece>) -> usize {
    let mut in_code = false;
    for (offset, line) in lines(text, start) {
        let unindented = line.trim_start();
        if unindented.starts_with("```") || unindented.starts_with("~~~") {
            in_code = !in_code;
        }
        let at = offset + line.len() - unindented.len();
        // All tags and markers begin with one of these. Long answers are looked through with every frame.
        let bytes = line.as_bytes();
        if in_code || !(bytes.contains(&b'<') || bytes.contains(&b'[')) {
            continue;
        }
        if let Some((open, close)) = TAGS.iter().find(|(open, _)| unindented.starts_with(open)) {
            push_answer(text, start..at, pieces);
            return thought(text, at + open.len(), &[close], finished, pieces);
        }
        let marker = MARKERS.iter().filter_map(|marker| Some((line.find(marker)?, marker.len()))).min();
        if let Some((marker_at, bytes)) = marker {
            push_answer(text, start..offset + marker_at, pieces);
            return offset + marker_at + bytes;
        }
        if !finished && offset + line.len() == text.len() {
            let opens = !unindented.is_empty() && TAGS.iter().any(|(open, _)| open.starts_with(unindented));
            let hidden = if opens { unindented.len() } else { undecided(line, MARKERS) };
            push_answer(text, start..text.len() - hidden, pieces);
            return text.len();
        }
    }
    push_answer(text, start..text.len(), pieces);
    text.len()
}

/// The lines from `start` on, with their ends, and where each begins.
fn lines(text: &str, start: usize) -> impl Iterator<Item = (usize, &str)> {
    let mut at = start;
    text.get(start..).unwrap_or_default().split_inclusive('\n').map(move |line| {
        let offset = at;
        at += line.len();
        (offset, line)
    })
}

fn push_answer(text: &str, range: Range<usize>, pieces: &mut Vec<Piece>) {
    let range = trimmed(text, range);
    if !range.is_empty() {
        pieces.push(Piece::Answer { text: range });
    }
}

/// A range without blank space at its start and end. Spaces before text in its first line stay: they may matter.
fn trimmed(text: &str, range: Range<usize>) -> Range<usize> {
    let inside = text.get(range.clone()).unwrap_or_default();
    let end = range.start + inside.trim_end().len();
    let blank = inside.len() - inside.trim_start().len();
    let lead = inside.get(..blank).and_then(|blank| blank.rfind('\n')).map_or(0, |newline| newline + 1);
    (range.start + lead).min(end)..end
}

/// How many bytes at the end of a text are the start, but not all, of a tag.
fn undecided(text: &str, tags: &[&str]) -> usize {
    let longest = |tag: &&str| {
        (1..tag.len()).rev().find(|&bytes| tag.get(..bytes).is_some_and(|start| text.ends_with(start))).unwrap_or(0)
    };
    tags.iter().map(longest).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn show(text: &str, thinks_first: bool, finished: bool) -> String {
        let piece = |piece: Piece| match piece {
            Piece::Thinking { text: range, closed } => format!("{}:{}", if closed { "T" } else { "t" }, &text[range]),
            Piece::Answer { text: range } => format!("A:{}", &text[range]),
        };
        split_thinking(text, thinks_first, finished).into_iter().map(piece).collect::<Vec<_>>().join(" | ")
    }

    #[test]
    fn tags_of_models() {
        for (open, close) in TAGS {
            let text = format!("{open}\nhm\n{close}\n\nyes\n");
            assert_eq!(show(&text, false, true), "T:hm | A:yes", "{open}");
            assert_eq!(show(&text, true, true), "T:hm | A:yes", "{open}");
            assert_eq!(show(&format!("hm{close}yes"), true, true), "T:hm | A:yes", "{close}");
            assert_eq!(show(&format!("{open}hm"), false, true), "t:hm", "{open}");
        }
        let harmony = "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>yes";
        assert_eq!(show(harmony, false, true), "T:hm | A:yes");
        let command = "<|START_THINKING|>hm<|END_THINKING|><|START_TEXT|>yes<|END_TEXT|>";
        assert_eq!(show(command, false, true), "T:hm | A:yes");
    }

    #[test]
    fn thoughts_may_be_empty_or_several() {
        assert_eq!(show("<think>\n\n</think>\n\nyes", false, true), "A:yes");
        assert_eq!(show("<think>", false, false), "t:");
        assert_eq!(show("<think>a</think>b\n<think>c</think>d", false, true), "T:a | A:b | T:c | A:d");
        assert_eq!(show("", true, false), "");
        assert_eq!(show("yes", false, true), "A:yes");
    }

    #[test]
    fn an_answer_may_speak_of_tags() {
        let text = "Use `<think>` like this:\n```\n<think>x</think>\n```\nDone, not <think>.";
        assert_eq!(show(text, false, true), format!("A:{text}"));
    }

    #[test]
    fn half_a_tag_does_not_show() {
        assert_eq!(show("<thi", false, false), "");
        assert_eq!(show("<thi", false, true), "A:<thi");
        assert_eq!(show("<think>a</thi", false, false), "t:a");
        assert_eq!(show("<think>a</thi", false, true), "t:a</thi");
        assert_eq!(show("a < b", false, false), "A:a < b");
        assert_eq!(show("x\n<|chan", false, false), "A:x");
        assert_eq!(show("<|START_TEXT|>yes<|END_", false, false), "A:yes");
    }

    proptest! {
        #[test]
        fn pieces_only_grow(parts in prop::collection::vec(prop::sample::select(vec![
            "<think>", "</think>", "a", " ", "\n", "<|channel>thought", "<channel|>", "<", "日", "```\n", "[THINK]", "[/THINK]",
        ]), 0..20), first: bool) {
            let text = parts.concat();
            let whole = split_thinking(&text, first, false);
            for (end, _) in text.char_indices() {
                let pieces = split_thinking(&text[..end], first, false);
                // All but the last piece are what they will be, and the last one only grows.
                for (nth, piece) in pieces.iter().enumerate() {
                    let later = whole.get(nth);
                    let (Piece::Thinking { text: now, .. } | Piece::Answer { text: now }) = piece;
                    if let Some(Piece::Thinking { text: then, .. } | Piece::Answer { text: then }) = later {
                        prop_assert!(now.is_empty() || now.start == then.start && now.end <= then.end, "{:?} {:?}", pieces, whole);
                    }
                }
            }
        }
    }
}
