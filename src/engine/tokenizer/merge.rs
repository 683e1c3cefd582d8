//! Merging neighbours inside one word, best pair first: what byte-pair encoding and SentencePiece share.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// No neighbour, or no token.
pub(super) const NONE: u32 = u32::MAX;

/// Longer words are cut into pieces of this size, so that positions fit 32 bits.
pub(super) const MAX_WORD_BYTES: usize = 1 << 30;

/// A part of a word, `len` bytes from `start`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Symbol {
    pub(super) start: u32,
    /// 0 once it was merged into its left neighbour.
    pub(super) len: u32,
    /// What the merge table calls it; [`NONE`] if it has no name.
    pub(super) id: u32,
}

/// What two neighbours become.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Merge {
    /// The smallest is merged first; of equals the leftmost.
    pub(super) priority: u32,
    pub(super) id: u32,
}

/// Which neighbours may be merged.
pub(super) trait MergeTable {
    fn merge(&self, word: &[u8], left: Symbol, right: Symbol) -> Option<Merge>;
}

/// Up to this many symbols a scan for the best pair beats the heap.
const MAX_SCANNED: usize = 48;

/// Room that one word after the other uses.
#[derive(Default)]
pub(super) struct Scratch {
    pub(super) symbols: Vec<Symbol>,
    merges: Vec<Option<Merge>>,
    links: Vec<(u32, u32)>,
    queue: BinaryHeap<Reverse<(u32, u32, u32)>>,
}

impl Scratch {
    /// Merges `self.symbols`, the parts of `word` in order, until no pair is left; O(n log n). Those that remain have
    /// `len > 0`.
    pub(super) fn merge(&mut self, word: &[u8], table: &impl MergeTable) {
        if self.symbols.len() <= MAX_SCANNED {
            self.merge_by_scan(word, table);
        } else {
            self.merge_by_heap(word, table);
        }
    }

    fn merge_by_scan(&mut self, word: &[u8], table: &impl MergeTable) {
        let Scratch { symbols, merges, .. } = self;
        merges.clear();
        merges.extend(symbols.windows(2).map(|pair| table.merge(word, pair[0], pair[1])));
        loop {
            let mut best: Option<(usize, Merge)> = None;
            for (i, merge) in merges.iter().enumerate() {
                if let Some(merge) = merge
                    && best.is_none_or(|(_, b)| merge.priority < b.priority)
                {
                    best = Some((i, *merge));
                }
            }
            let Some((i, merge)) = best else { return };
            symbols[i].len += symbols[i + 1].len;
            symbols[i].id = merge.id;
            symbols.remove(i + 1);
            merges.remove(i);
            if i > 0 {
                merges[i - 1] = table.merge(word, symbols[i - 1], symbols[i]);
            }
            if i < merges.len() {
                merges[i] = table.merge(word, symbols[i], symbols[i + 1]);
            }
        }
    }

    fn merge_by_heap(&mut self, word: &[u8], table: &impl MergeTable) {
        let Scratch { symbols, links, queue, .. } = self;
        let n = symbols.len() as u32;
        links.clear();
        links.extend((0..n).map(|i| (i.wrapping_sub(1), if i + 1 < n { i + 1 } else { NONE })));
        queue.clear();
        // An entry is stale when either part has grown or gone since; their joint length tells, as parts only grow.
        let entry = |symbols: &[Symbol], left: u32, right: u32| {
            let (l, r) = (symbols[left as usize], symbols[right as usize]);
            table.merge(word, l, r).map(|merge| Reverse((merge.priority, left, l.len + r.len)))
        };
        queue.extend((1..n).filter_map(|right| entry(symbols, right - 1, right)));
        while let Some(Reverse((_, left, len))) = queue.pop() {
            let right = links[left as usize].1;
            let l = symbols[left as usize];
            if right == NONE || l.len == 0 || l.len + symbols[right as usize].len != len {
                continue;
            }
            let Some(merge) = table.merge(word, l, symbols[right as usize]) else { continue };
            symbols[left as usize].len = len;
            symbols[left as usize].id = merge.id;
            symbols[right as usize].len = 0;
            let (before, after) = (links[left as usize].0, links[right as usize].1);
            links[left as usize].1 = after;
            if before != NONE {
                queue.extend(entry(symbols, before, left));
            }
            if after != NONE {
                links[after as usize].0 = left;
                queue.extend(entry(symbols, left, after));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Joins equal neighbours of any length, the longest first, and `ab`.
    struct Doubling;

    impl MergeTable for Doubling {
        fn merge(&self, word: &[u8], left: Symbol, right: Symbol) -> Option<Merge> {
            let text = |s: Symbol| &word[s.start as usize..(s.start + s.len) as usize];
            let (l, r) = (text(left), text(right));
            (l == r || (l == b"a" && r == b"b")).then(|| Merge { priority: 1000 - left.len, id: left.id + right.id })
        }
    }

    proptest::proptest! {
        #[test]
        fn heap_and_scan_agree(word in "[abc]{0,200}") {
            let start: Vec<Symbol> = (0..word.len() as u32).map(|start| Symbol { start, len: 1, id: 1 }).collect();
            let mut scan = Scratch { symbols: start.clone(), ..Scratch::default() };
            scan.merge_by_scan(word.as_bytes(), &Doubling);
            let mut heap = Scratch { symbols: start, ..Scratch::default() };
            heap.merge_by_heap(word.as_bytes(), &Doubling);
            heap.symbols.retain(|s| s.len > 0);
            proptest::prop_assert_eq!(scan.symbols, heap.symbols);
        }
    }
}
