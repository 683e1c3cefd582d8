//! Where the slots of a row lie on the screen: one column after the other.

use std::collections::BTreeSet;

/// A cell is never wider than this: a model of few layers would not read as a row.
const MAX_CELL: usize = 6;
/// Columns kept free for the edges that a drag can add, so that nothing else moves meanwhile.
const SPARE_EDGES: usize = 2;

/// What one column shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lane {
    /// The slots from `first` up to `end`, without it: more than one when layers outnumber columns.
    Slots { first: usize, end: usize },
    /// Between the slots `b - 1` and `b`.
    Boundary(usize),
}

/// The columns of every row of one picture.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Columns {
    x: u16,
    pub(super) lanes: Vec<Lane>,
    /// Each slot has two columns or more, the last of which is empty or an edge.
    pub(super) wide: bool,
}

impl Columns {
    /// `steady`: the edges that stay in place during a drag. `edges`: those to be seen, which may be more.
    pub(super) fn new(
        x: u16,
        width: u16,
        n_slots: usize,
        steady: &BTreeSet<usize>,
        edges: &BTreeSet<usize>,
    ) -> Columns {
        let width = usize::from(width);
        let cell = (width / n_slots).min(MAX_CELL);
        if cell >= 2 {
            return Columns { x, lanes: wide_lanes(n_slots, cell), wide: true };
        }
        let reserved = steady.len() + SPARE_EDGES;
        let (n_cells, edges) = if n_slots + reserved <= width || reserved <= width / 3 {
            (n_slots.min(width - reserved), edges.clone())
        } else {
            // Too many edges to give each a column.
            (n_slots.min(width), BTreeSet::new())
        };
        let mut lanes = narrow_lanes(n_slots, n_cells, &edges);
        lanes.truncate(width);
        Columns { x, lanes, wide: false }
    }

    /// How many columns the rows take.
    pub fn width(&self) -> u16 {
        u16::try_from(self.lanes.len()).unwrap_or(u16::MAX)
    }

    /// The columns with what they show.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u16, Lane)> + '_ {
        (self.x..=u16::MAX).zip(self.lanes.iter().copied())
    }

    /// The boundary that is nearest to a column; left and right of the row, its ends.
    pub(super) fn boundary_at(&self, x: u16) -> Option<usize> {
        // In half columns: a boundary without a column of its own lies between two.
        let wanted = 2 * i32::from(x);
        let mut nearest: Option<(i32, usize)> = None;
        let mut offer = |at: i32, boundary: usize| {
            let distance = (at - wanted).abs();
            if nearest.is_none_or(|(d, _)| distance < d) {
                nearest = Some((distance, boundary));
            }
        };
        let mut seen = None;
        for (x, lane) in self.iter() {
            match lane {
                Lane::Boundary(b) => {
                    offer(2 * i32::from(x), b);
                    seen = Some(b);
                }
                Lane::Slots { first, .. } => {
                    if seen != Some(first) {
                        offer(2 * i32::from(x) - 1, first);
                    }
                    seen = Some(first);
                }
            }
        }
        if let Some(Lane::Slots { end, .. }) = self.lanes.last() {
            offer(2 * (i32::from(self.x) + i32::from(self.width())) - 1, *end);
        }
        nearest.map(|(_, b)| b)
    }

    /// The first column of a slot.
    pub(super) fn column_of(&self, slot: usize) -> Option<u16> {
        self.iter()
            .find(|(_, lane)| matches!(lane, Lane::Slots { first, end } if (*first..*end).contains(&slot)))
            .map(|(x, _)| x)
    }
}

fn wide_lanes(n_slots: usize, cell: usize) -> Vec<Lane> {
    let mut lanes = Vec::with_capacity(n_slots * cell);
    for slot in 0..n_slots {
        lanes.extend(std::iter::repeat_n(Lane::Slots { first: slot, end: slot + 1 }, cell - 1));
        if slot + 1 < n_slots {
            lanes.push(Lane::Boundary(slot + 1));
        }
    }
    lanes
}

/// `n_cells` columns for the slots and one for each edge. Cells end at edges, and embed and head have their own, where
/// there are columns enough for that.
fn narrow_lanes(n_slots: usize, n_cells: usize, edges: &BTreeSet<usize>) -> Vec<Lane> {
    if n_cells == 0 {
        return Vec::new();
    }
    let n_layer = n_slots - 2;
    // How many cells lie before a boundary. It does not depend on the edges, so a drag moves no cell but by their columns.
    let cells_before = |b: usize| {
        if n_cells < 3 || n_layer == 0 {
            b * n_cells / n_slots
        } else if b == 0 {
            0
        } else if b == n_slots {
            n_cells
        } else {
            1 + (b - 1) * (n_cells - 2) / n_layer
        }
    };
    let cuts: BTreeSet<usize> = edges.iter().copied().chain([1, n_slots - 1, n_slots]).collect();
    let mut lanes = Vec::with_capacity(n_cells + edges.len());
    let mut first = 0;
    for cut in cuts {
        let n = cells_before(cut) - cells_before(first);
        if n == 0 {
            continue; // Not a whole cell: it shares one with what follows.
        }
        let n_in = cut - first;
        lanes.extend((0..n).map(|i| Lane::Slots { first: first + i * n_in / n, end: first + (i + 1) * n_in / n }));
        if edges.contains(&cut) {
            lanes.push(Lane::Boundary(cut));
        }
        first = cut;
    }
    if first < n_slots {
        if let Some(Lane::Boundary(_)) = lanes.last() {
            lanes.pop();
        }
        if let Some(Lane::Slots { end, .. }) = lanes.last_mut() {
            *end = n_slots;
        }
    }
    lanes
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_slot_has_a_column_and_all_fit(
            n_layer in 0usize..130,
            width in 0u16..220,
            edges in proptest::collection::btree_set(1usize..131, 0..12),
        ) {
            let n_slots = n_layer + 2;
            let edges: BTreeSet<usize> = edges.into_iter().filter(|&b| b < n_slots).collect();
            let columns = Columns::new(7, width, n_slots, &edges, &edges);
            prop_assert!(columns.width() <= width);
            let mut next = 0;
            for lane in &columns.lanes {
                match *lane {
                    Lane::Slots { first, end } => {
                        prop_assert!(first == next || columns.wide && first + 1 == next, "{lane:?} after {next}");
                        prop_assert!(first < end);
                        next = end;
                    }
                    Lane::Boundary(b) => prop_assert_eq!(b, next),
                }
            }
            prop_assert!(width == 0 || next == n_slots, "{} of {}", next, n_slots);
        }

        #[test]
        fn the_column_of_an_edge_is_that_edge(
            n_layer in 1usize..130,
            width in 40u16..220,
            edges in proptest::collection::btree_set(1usize..131, 0..5),
        ) {
            let n_slots = n_layer + 2;
            let edges: BTreeSet<usize> = edges.into_iter().filter(|&b| b < n_slots).collect();
            let columns = Columns::new(7, width, n_slots, &edges, &edges);
            for (x, lane) in columns.iter() {
                if let Lane::Boundary(b) = lane {
                    prop_assert_eq!(columns.boundary_at(x), Some(b));
                }
            }
            prop_assert_eq!(columns.boundary_at(0), Some(0));
            prop_assert_eq!(columns.boundary_at(u16::MAX), Some(n_slots));
        }
    }

    #[test]
    fn a_new_edge_moves_only_what_is_right_of_it() {
        let steady = BTreeSet::from([21]);
        let before = Columns::new(0, 72, 96, &steady, &steady);
        let after = Columns::new(0, 72, 96, &steady, &BTreeSet::from([11, 21]));
        let at = before.column_of(11).unwrap();
        assert_eq!(after.boundary_at(at), Some(11));
        assert_eq!(before.column_of(5), after.column_of(5));
        assert_eq!(before.column_of(60).map(|x| x + 1), after.column_of(60));
    }
}
