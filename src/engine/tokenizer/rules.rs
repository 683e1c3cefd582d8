//! Splitting rules: the parts that pre-tokenizer regular expressions are made of, each matched by hand.
//!
//! A regular expression engine with lookahead backtracks, and text is untrusted. Every rule here looks at a character a
//! bounded number of times before that character is consumed, so splitting is linear in the length of the text.

use std::ops::Range;

use super::classes::*;

/// A set of characters: classes and ranges, or all characters but those.
#[derive(Debug, Clone, Copy)]
pub(super) struct Set {
    /// Its ASCII members, one bit each: most text is looked up here alone.
    ascii: u128,
    classes: Classes,
    /// Ascending and disjoint.
    ranges: &'static [(char, char)],
    negated: bool,
}

impl Set {
    pub(super) const EMPTY: Set = Set::of(0);

    pub(super) const fn of(classes: Classes) -> Set {
        Set::new(classes, &[], false)
    }

    pub(super) const fn with(classes: Classes, ranges: &'static [(char, char)]) -> Set {
        Set::new(classes, ranges, false)
    }

    pub(super) const fn without(classes: Classes, ranges: &'static [(char, char)]) -> Set {
        Set::new(classes, ranges, true)
    }

    const fn new(classes: Classes, ranges: &'static [(char, char)], negated: bool) -> Set {
        let mut ascii = 0;
        let mut c = 0;
        while c < 128 {
            let mut named = ASCII[c as usize] & classes != 0;
            let mut i = 0;
            while i < ranges.len() {
                named |= ranges[i].0 as u32 <= c && c <= ranges[i].1 as u32;
                i += 1;
            }
            if named != negated {
                ascii |= 1 << c;
            }
            c += 1;
        }
        Set { ascii, classes, ranges, negated }
    }

    fn contains(&self, c: char) -> bool {
        if c.is_ascii() {
            return self.ascii >> (c as u32) & 1 != 0;
        }
        let named = class_of(c) & self.classes != 0 || self.in_ranges(c);
        named != self.negated
    }

    fn in_ranges(&self, c: char) -> bool {
        let after = self.ranges.partition_point(|&(first, _)| first <= c);
        after.checked_sub(1).is_some_and(|i| c <= self.ranges[i].1)
    }
}

/// What may or must stand before the body of a run: at most one character.
#[derive(Debug, Clone, Copy)]
pub(super) enum Lead {
    None,
    /// `[..]?`
    Optional(Set),
    /// `[..]`
    Required(Set),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Case {
    Lower,
    Any,
}

/// One alternative of a pass.
#[derive(Debug, Clone, Copy)]
pub(super) enum Rule {
    /// `'s|'t|'re|'ve|'m|'ll|'d`
    Contraction(Case),
    /// `lead body{min,max} tail*`. Body and tail must not share characters unless the tail may be cut short for free.
    Run { lead: Lead, body: Set, min: usize, max: usize, tail: Set },
    /// A word cut where lower case turns to upper case, with an optional contraction after it:
    /// `lead? [Lu Lt Lm Lo M]* [Ll Lm Lo M]+` or else `lead? [Lu Lt Lm Lo M]+ [Ll Lm Lo M]*`
    CasedWord { lead: Set, contraction: bool },
    /// `\s*[\r\n]+`
    ThroughLastNewline,
    /// `\s+(?!\S)`: white space, but not its last character where a word follows
    SpaceBeforeSpace,
    /// `\s+$`
    TrailingSpace,
}

/// Alternatives tried in order at each position; what none matches stays together as a gap.
pub(super) type Pass = &'static [Rule];

/// Applies the passes one after the other, each inside the pieces that the last one left. Pieces are byte ranges of
/// `text`, ascending, without holes.
pub(super) fn split(text: &str, passes: &[Pass]) -> Vec<Range<usize>> {
    let mut pieces = Vec::new();
    if !text.is_empty() {
        pieces.push(0..text.len());
    }
    for pass in passes {
        let mut next = Vec::with_capacity(pieces.len());
        for piece in pieces {
            split_once(text, piece, pass, &mut next);
        }
        pieces = next;
    }
    pieces
}

fn split_once(text: &str, piece: Range<usize>, pass: Pass, out: &mut Vec<Range<usize>>) {
    let segment = Segment::new(&text[piece.clone()]);
    let base = piece.start;
    let (mut at, mut gap) = (0, 0);
    while let Some(c) = segment.char_at(at) {
        match pass.iter().find_map(|rule| segment.match_end(rule, at)) {
            Some(end) => {
                if gap < at {
                    out.push(base + gap..base + at);
                }
                out.push(base + at..base + end);
                (at, gap) = (end, end);
            }
            None => at += c.len_utf8(),
        }
    }
    if gap < at {
        out.push(base + gap..base + at);
    }
}

struct Segment<'t> {
    text: &'t str,
    /// Where the white space at the end begins.
    trailing: usize,
}

impl<'t> Segment<'t> {
    fn new(text: &'t str) -> Self {
        Segment { text, trailing: text.trim_end().len() }
    }

    fn char_at(&self, at: usize) -> Option<char> {
        match self.text.as_bytes().get(at) {
            Some(&b) if b.is_ascii() => Some(char::from(b)),
            Some(_) => self.text[at..].chars().next(),
            None => None,
        }
    }

    /// Where the match of `rule` that begins at `at` ends; a match is never empty.
    fn match_end(&self, rule: &Rule, at: usize) -> Option<usize> {
        match *rule {
            Rule::Contraction(case) => self.contraction(at, case),
            Rule::Run { lead, body, min, max, tail } => {
                let with_lead = |set: Set| {
                    let c = self.char_at(at).filter(|&c| set.contains(c))?;
                    self.run(at + c.len_utf8(), body, min, max, tail)
                };
                let without_lead = || self.run(at, body, min, max, tail);
                match lead {
                    Lead::None => without_lead(),
                    Lead::Required(set) => with_lead(set),
                    Lead::Optional(set) => with_lead(set).or_else(without_lead),
                }
            }
            Rule::CasedWord { lead, contraction } => {
                let after_lead = self.char_at(at).filter(|&c| lead.contains(c)).map(|c| at + c.len_utf8());
                let end = after_lead
                    .and_then(|start| self.word_with_lower_end(start))
                    .or_else(|| self.word_with_lower_end(at))
                    .or_else(|| after_lead.and_then(|start| self.upper_word(start)))
                    .or_else(|| self.upper_word(at))?;
                Some(if contraction { self.contraction(end, Case::Any).unwrap_or(end) } else { end })
            }
            Rule::ThroughLastNewline => {
                let mut end = None;
                for (offset, c) in self.text[at..].char_indices() {
                    match class_of(c) {
                        NEWLINE => end = Some(at + offset + 1),
                        BLANK | OTHER_SPACE => {}
                        _ => break,
                    }
                }
                end
            }
            Rule::SpaceBeforeSpace => {
                let (mut last, mut end) = (at, at);
                for c in self.text[at..].chars() {
                    if class_of(c) & SPACE == 0 {
                        return (last > at).then_some(last);
                    }
                    last = end;
                    end += c.len_utf8();
                }
                (end > at).then_some(end)
            }
            Rule::TrailingSpace => (at >= self.trailing).then_some(self.text.len()),
        }
    }

    fn run(&self, at: usize, body: Set, min: usize, max: usize, tail: Set) -> Option<usize> {
        let (end, count) = self.extent(at, body, max);
        (count >= min).then(|| self.extent(end, tail, usize::MAX).0)
    }

    /// End and length in characters of the longest run, of at most `max` characters, of members of `set`.
    fn extent(&self, at: usize, set: Set, max: usize) -> (usize, usize) {
        let (mut end, mut count) = (at, 0);
        while count < max {
            match self.char_at(end) {
                Some(c) if set.contains(c) => {
                    end += c.len_utf8();
                    count += 1;
                }
                _ => break,
            }
        }
        (end, count)
    }

    fn contraction(&self, at: usize, case: Case) -> Option<usize> {
        let rest = self.text.as_bytes()[at..].strip_prefix(b"'")?;
        let letter = |i: usize| {
            let b = *rest.get(i)?;
            Some(if case == Case::Any { b.to_ascii_lowercase() } else { b })
        };
        let length = match (letter(0)?, letter(1)) {
            (b's' | b't' | b'm' | b'd', _) => 1,
            (b'r' | b'v', Some(b'e')) | (b'l', Some(b'l')) => 2,
            _ => return None,
        };
        Some(at + 1 + length)
    }

    /// `[Lu Lt Lm Lo M]*[Ll Lm Lo M]+`
    fn word_with_lower_end(&self, at: usize) -> Option<usize> {
        let mut end = at;
        // The last caseless character gives the run back its end when no lower-case letter follows.
        let mut caseless_end = None;
        while let Some(c) = self.char_at(end) {
            let class = class_of(c);
            if class & NOT_LOWER == 0 {
                if class & NOT_UPPER != 0 {
                    return Some(self.extent(end, NOT_UPPER_SET, usize::MAX).0);
                }
                break;
            }
            end += c.len_utf8();
            if class & NOT_UPPER != 0 {
                caseless_end = Some(end);
            }
        }
        caseless_end
    }

    /// `[Lu Lt Lm Lo M]+[Ll Lm Lo M]*`, tried only where no [`Self::word_with_lower_end`] is.
    fn upper_word(&self, at: usize) -> Option<usize> {
        self.run(at, NOT_LOWER_SET, 1, usize::MAX, NOT_UPPER_SET)
    }
}

/// Letters and marks that may stand in the upper-case part of a word, and in its lower-case part.
const NOT_LOWER: Classes = UPPER | TITLE | MODIFIER | OTHER_LETTER | MARK;
const NOT_UPPER: Classes = LOWER | MODIFIER | OTHER_LETTER | MARK;
const NOT_LOWER_SET: Set = Set::of(NOT_LOWER);
const NOT_UPPER_SET: Set = Set::of(NOT_UPPER);
