//! A bar of the memory of a device, each kind of content with a glyph of its own.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::ui::gauges::MemorySplit;
use crate::ui::theme::{Role, Theme};

/// What memory holds, in the order of the bar.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Segment {
    Weights,
    Kv,
    Scratch,
    Staged,
    Others,
    Free,
}

impl Segment {
    pub const ALL: [Segment; 6] =
        [Segment::Weights, Segment::Kv, Segment::Scratch, Segment::Staged, Segment::Others, Segment::Free];

    pub const fn words(self) -> &'static str {
        match self {
            Segment::Weights => "weights",
            Segment::Kv => "KV",
            Segment::Scratch => "scratch",
            Segment::Staged => "staged",
            Segment::Others => "others",
            Segment::Free => "free",
        }
    }

    pub const fn glyph(self, ascii: bool) -> &'static str {
        match (self, ascii) {
            (Segment::Weights, false) => "█",
            (Segment::Kv, false) => "▓",
            (Segment::Scratch, false) => "▒",
            (Segment::Staged, false) => "▚",
            (Segment::Others, false) => "░",
            (Segment::Free, false) => "·",
            (Segment::Weights, true) => "#",
            (Segment::Kv, true) => "=",
            (Segment::Scratch, true) => "-",
            (Segment::Staged, true) => "%",
            (Segment::Others, true) => "+",
            (Segment::Free, true) => ".",
        }
    }

    pub const fn role(self) -> Role {
        match self {
            // What is staged will be weights; its glyph tells it apart.
            Segment::Weights | Segment::Staged => Role::BarWeights,
            Segment::Kv => Role::BarKv,
            Segment::Scratch => Role::BarScratch,
            Segment::Others => Role::BarOthers,
            Segment::Free => Role::BarFree,
        }
    }

    pub const fn bytes(self, split: &MemorySplit) -> u64 {
        match self {
            Segment::Weights => split.weight_bytes,
            Segment::Kv => split.kv_bytes,
            Segment::Scratch => split.scratch_bytes,
            Segment::Staged => split.staged_bytes,
            Segment::Others => split.others_bytes,
            Segment::Free => split.free_bytes,
        }
    }
}

/// Cells of each segment, in the order of [`Segment::ALL`]: `n_cells` together. Where there is room, whatever is there
/// has a cell.
pub fn cells(split: &MemorySplit, n_cells: u16) -> [u16; 6] {
    let sizes = Segment::ALL.map(|segment| segment.bytes(split));
    let total = sizes.iter().map(|n| u128::from(*n)).sum::<u128>().max(1);
    let mut cells = [0; 6];
    let (mut sum, mut end) = (0u128, 0);
    for (cell, size) in cells.iter_mut().zip(sizes) {
        sum += u128::from(size);
        // Rounded to the nearest; at most `n_cells`.
        let next = ((sum * u128::from(n_cells) + total / 2) / total) as u16;
        (*cell, end) = (next - end, next);
    }
    let n_present = sizes.iter().filter(|n| **n > 0).count();
    if usize::from(n_cells) >= n_present {
        for i in 0..cells.len() {
            let largest = (0..cells.len()).max_by_key(|&j| cells[j]).unwrap_or(0);
            if sizes[i] > 0 && cells[i] == 0 && cells[largest] > 1 {
                cells[largest] -= 1;
                cells[i] = 1;
            }
        }
    }
    cells
}

/// `▕███▓▒░···▏` in the first line of `area`; `None`: words that say why nothing is known, or nothing.
pub fn draw_bar(split: Option<&MemorySplit>, words: &str, theme: &Theme, area: Rect, buf: &mut Buffer) {
    if area.is_empty() {
        return;
    }
    let [open, close] = if theme.ascii { ["[", "]"] } else { ["▕", "▏"] };
    let border = theme.style(Role::Dim);
    buf.set_stringn(area.x, area.y, open, 1, border);
    if area.width > 1 {
        buf.set_stringn(area.right() - 1, area.y, close, 1, border);
    }
    let inner = area.width.saturating_sub(2);
    let Some(split) = split else {
        let start = area.x + 1 + inner.saturating_sub(words.len() as u16) / 2;
        buf.set_stringn(start, area.y, words, usize::from(inner), border);
        return;
    };
    let mut x = area.x + 1;
    for (segment, n) in Segment::ALL.into_iter().zip(cells(split, inner)) {
        let (glyph, style) = (segment.glyph(theme.ascii), theme.style(segment.role()));
        for _ in 0..n {
            buf.set_stringn(x, area.y, glyph, 1, style);
            x += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn split(sizes: [u64; 6]) -> MemorySplit {
        MemorySplit {
            total_bytes: sizes.iter().sum(),
            weight_bytes: sizes[0],
            kv_bytes: sizes[1],
            scratch_bytes: sizes[2],
            staged_bytes: sizes[3],
            others_bytes: sizes[4],
            free_bytes: sizes[5],
        }
    }

    #[test]
    fn lengths_follow_sizes_and_the_small_is_seen() {
        assert_eq!(cells(&split([50, 25, 0, 0, 0, 25]), 20), [10, 5, 0, 0, 0, 5]);
        assert_eq!(cells(&split([1000, 1, 1, 0, 0, 1000]), 10), [4, 1, 1, 0, 0, 4]);
        assert_eq!(cells(&split([10, 1, 1, 1, 1, 10]), 3).iter().sum::<u16>(), 3);
        assert_eq!(cells(&split([0; 6]), 10), [0; 6]);
        assert_eq!(cells(&split([u64::MAX / 2, 0, 0, 0, 0, u64::MAX / 2]), 10), [5, 0, 0, 0, 0, 5]);
    }

    proptest! {
        #[test]
        fn every_cell_is_somebodys(sizes in proptest::array::uniform6(0u64..1000), n_cells in 0u16..60) {
            let total: u64 = sizes.iter().sum();
            let cells = cells(&split(sizes), n_cells);
            prop_assert_eq!(cells.iter().sum::<u16>(), if total == 0 { 0 } else { n_cells });
            for (size, n) in sizes.iter().zip(cells) {
                prop_assert!(*size > 0 || n == 0);
            }
        }
    }
}
