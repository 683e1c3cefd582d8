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
    /// Priorities are below this.
    fn n_priorities(&self) -> usize;

    fn merge(&self, word: &[u8], left: Symbol, right: Symbol) -> Option<Merge>;
}

/// Up to this many symbols a scan for the best pair beats the queue.
const MAX_SCANNED: usize = 48;

/// Room that one word after the other uses, all with the same table.
#[derive(Default)]
pub(super) struct Scratch {
    pub(super) symbols: Vec<Symbol>,
    merges: Vec<Option<Merge>>,
    links: Vec<Link>,
    queue: Queue,
}

/// The neighbours of a symbol that are left; [`NONE`] at the ends.
struct Link {
    before: u32,
    after: u32,
}

impl Scratch {
    /// Merges `self.symbols`, the parts of `word` in order, until no pair is left; O(n log n). Those that remain have
    /// `len > 0`.
    pub(super) fn merge(&mut self, word: &[u8], table: &impl MergeTable) {
        if self.symbols.len() <= MAX_SCANNED {
            self.merge_by_scan(word, table);
        } else {
            self.merge_by_queue(word, table);
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

    fn merge_by_queue(&mut self, word: &[u8], table: &impl MergeTable) {
        let Scratch { symbols, links, queue, .. } = self;
        let n = symbols.len() as u32;
        links.clear();
        links.extend((0..n).map(|i| Link { before: i.wrapping_sub(1), after: if i + 1 < n { i + 1 } else { NONE } }));
        queue.slots.resize(table.n_priorities(), NONE);
        let enqueue = |queue: &mut Queue, symbols: &[Symbol], left: u32, right: u32| {
            let (l, r) = (symbols[left as usize], symbols[right as usize]);
            if let Some(Merge { priority, id }) = table.merge(word, l, r) {
                queue.push(priority, Pair { left, len: l.len + r.len, id });
            }
        };
        for right in 1..n {
            enqueue(queue, symbols, right - 1, right);
        }
        while let Some(Pair { left, len, id }) = queue.pop() {
            let right = links[left as usize].after;
            let left_len = symbols[left as usize].len;
            // Stale when either part has grown or gone since. Their joint length tells, as parts only grow.
            if right == NONE || left_len == 0 || left_len + symbols[right as usize].len != len {
                continue;
            }
            symbols[left as usize].len = len;
            symbols[left as usize].id = id;
            symbols[right as usize].len = 0;
            let (before, after) = (links[left as usize].before, links[right as usize].after);
            links[left as usize].after = after;
            if before != NONE {
                enqueue(queue, symbols, before, left);
            }
            if after != NONE {
                links[after as usize].before = left;
                enqueue(queue, symbols, left, after);
            }
        }
    }
}

/// Two neighbours that may become one symbol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Pair {
    left: u32,
    /// Of both together.
    len: u32,
    /// What they become.
    id: u32,
}

/// Pairs by priority, then from left to right. One list per priority instead of one heap of pairs: long words that
/// repeat themselves have few priorities but many pairs, and lists are walked in order, which caches like.
#[derive(Default)]
struct Queue {
    /// By priority: its list, or [`NONE`].
    slots: Vec<u32>,
    lists: Vec<List>,
    /// The priorities whose lists are in use.
    priorities: BinaryHeap<Reverse<u32>>,
}

#[derive(Default)]
struct List {
    in_use: bool,
    /// Sorted once its turn has come; what comes after that goes into `late`.
    sorted: bool,
    pairs: Vec<Pair>,
    n_taken: usize,
    late: BinaryHeap<Reverse<Pair>>,
}

impl Queue {
    fn push(&mut self, priority: u32, pair: Pair) {
        let slot = &mut self.slots[priority as usize];
        if *slot == NONE {
            *slot = self.lists.len() as u32;
            self.lists.push(List::default());
        }
        let list = &mut self.lists[*slot as usize];
        if !list.in_use {
            list.in_use = true;
            self.priorities.push(Reverse(priority));
        }
        if list.sorted {
            list.late.push(Reverse(pair));
        } else {
            list.pairs.push(pair);
        }
    }

    fn pop(&mut self) -> Option<Pair> {
        while let Some(&Reverse(priority)) = self.priorities.peek() {
            let list = &mut self.lists[self.slots[priority as usize] as usize];
            if let Some(pair) = list.pop() {
                return Some(pair);
            }
            list.in_use = false;
            self.priorities.pop();
        }
        None
    }
}

impl List {
    fn pop(&mut self) -> Option<Pair> {
        if !self.sorted {
            self.sorted = true;
            self.pairs.sort_unstable();
        }
        let early = self.pairs.get(self.n_taken).copied();
        let late = self.late.peek().map(|&Reverse(pair)| pair);
        match (early, late) {
            (Some(pair), late) if late.is_none_or(|late| pair <= late) => {
                self.n_taken += 1;
                Some(pair)
            }
            (_, Some(pair)) => {
                self.late.pop();
                Some(pair)
            }
            _ => {
                self.pairs.clear();
                self.n_taken = 0;
                self.sorted = false;
                None
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
        fn n_priorities(&self) -> usize {
            1001
        }

        fn merge(&self, word: &[u8], left: Symbol, right: Symbol) -> Option<Merge> {
            let text = |s: Symbol| &word[s.start as usize..(s.start + s.len) as usize];
            let (l, r) = (text(left), text(right));
            (l == r || (l == b"a" && r == b"b")).then(|| Merge { priority: 1000 - left.len, id: left.id + right.id })
        }
    }

    proptest::proptest! {
        #[test]
        fn queue_and_scan_agree(word in "[abc]{0,200}") {
            let start: Vec<Symbol> = (0..word.len() as u32).map(|start| Symbol { start, len: 1, id: 1 }).collect();
            let mut scan = Scratch { symbols: start.clone(), ..Scratch::default() };
            scan.merge_by_scan(word.as_bytes(), &Doubling);
            let mut queue = Scratch { symbols: start, ..Scratch::default() };
            queue.merge_by_queue(word.as_bytes(), &Doubling);
            queue.symbols.retain(|s| s.len > 0);
            proptest::prop_assert_eq!(scan.symbols, queue.symbols);
        }
    }
}
