//! A row of the map as slots: embed, each layer, head. Pure functions on placements.

use std::ops::Range;

use crate::engine::part::Part;
use crate::engine::placement::Placement;
use crate::engine::protocol::DeviceId;

/// A row of the map. A layer in `Now` and `Next` lies where its attention lies.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Row {
    /// What runs.
    Now,
    /// The Ffn parts of what runs.
    NowFfn,
    /// The draft.
    Next,
    /// The Ffn parts of the draft.
    Ffn,
}

impl Row {
    pub fn is_draft(self) -> bool {
        match self {
            Row::Next | Row::Ffn => true,
            Row::Now | Row::NowFfn => false,
        }
    }

    pub fn is_ffn(self) -> bool {
        match self {
            Row::Ffn | Row::NowFfn => true,
            Row::Next | Row::Now => false,
        }
    }
}

/// Embed, the layers, head.
pub fn n_slots(n_layer: u32) -> usize {
    n_layer as usize + 2
}

/// The slots of a row: those of Ffn parts have no embed and no head.
pub fn slots_of(row: Row, n_layer: u32) -> Range<usize> {
    if row.is_ffn() { 1..n_layer as usize + 1 } else { 0..n_slots(n_layer) }
}

pub fn part_at(n_layer: u32, row: Row, slot: usize) -> Option<Part> {
    if !slots_of(row, n_layer).contains(&slot) {
        return None;
    }
    if slot == 0 {
        return Some(Part::Embed);
    }
    let layer = u32::try_from(slot - 1).ok()?;
    if layer == n_layer {
        return Some(Part::Head);
    }
    Some(if row.is_ffn() { Part::Ffn(layer) } else { Part::Attn(layer) })
}

pub fn slot_of(part: Part, n_layer: u32) -> usize {
    match part {
        Part::Embed => 0,
        Part::Attn(l) | Part::Ffn(l) => l as usize + 1,
        Part::Head => n_layer as usize + 1,
    }
}

pub fn device_at(placement: &Placement, row: Row, slot: usize) -> Option<DeviceId> {
    Some(placement.get(part_at(placement.n_layer(), row, slot)?))
}

/// The boundaries of a row where the device changes: `b` lies between the slots `b - 1` and `b`.
pub fn edges(placement: &Placement, row: Row) -> Vec<usize> {
    let slots = slots_of(row, placement.n_layer());
    (slots.start + 1..slots.end).filter(|&b| device_at(placement, row, b - 1) != device_at(placement, row, b)).collect()
}

/// The maximal run on one device around a slot.
pub fn block(placement: &Placement, row: Row, slot: usize) -> Range<usize> {
    let slots = slots_of(row, placement.n_layer());
    let edges = edges(placement, row);
    let start = edges.iter().copied().rfind(|&b| b <= slot).unwrap_or(slots.start);
    let end = edges.iter().copied().find(|&b| b > slot).unwrap_or(slots.end);
    start..end
}

/// Slots of a row on another device. A layer of the main row takes its Ffn part along when that lies with its attention;
/// one that was put elsewhere stays there.
pub fn with_slots(start: &Placement, row: Row, slots: Range<usize>, id: DeviceId) -> Placement {
    let n_layer = start.n_layer();
    let mut placement = start.clone();
    for part in slots.filter_map(|slot| part_at(n_layer, row, slot)) {
        if let Part::Attn(l) = part
            && start.get(Part::Ffn(l)) == start.get(part)
        {
            placement.set(Part::Ffn(l), id);
        }
        placement.set(part, id);
    }
    placement
}

/// The boundary `from` at `to`: the side that grows takes what the boundary passes, whole blocks too.
pub fn with_edge(start: &Placement, row: Row, from: usize, to: usize) -> Placement {
    let (taken, owner) = if to < from { (to..from, Some(from)) } else { (from..to, from.checked_sub(1)) };
    match owner.and_then(|slot| device_at(start, row, slot)) {
        Some(id) => with_slots(start, row, taken, id),
        None => start.clone(),
    }
}

/// Whether an Ffn part lies elsewhere than its attention.
pub fn ffn_apart(placement: &Placement) -> bool {
    (0..placement.n_layer()).any(|l| placement.get(Part::Attn(l)) != placement.get(Part::Ffn(l)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::protocol::{DeviceId, DeviceKind};

    const A: DeviceId = DeviceId::new(DeviceKind::Cuda, 0);
    const B: DeviceId = DeviceId::new(DeviceKind::Rocm, 0);
    const C: DeviceId = DeviceId::cpu(0);

    #[test]
    fn slots_are_parts_in_order() {
        for n_layer in [0, 1, 5] {
            for slot in slots_of(Row::Next, n_layer) {
                assert_eq!(slot_of(part_at(n_layer, Row::Next, slot).unwrap(), n_layer), slot);
            }
            assert_eq!(part_at(n_layer, Row::Next, n_slots(n_layer)), None);
            assert_eq!(part_at(n_layer, Row::Ffn, 0), None);
            assert_eq!(part_at(n_layer, Row::Ffn, n_slots(n_layer) - 1), None);
        }
    }

    #[test]
    fn an_edge_swallows_what_it_passes() {
        let p = Placement::uniform(9, A).with_layers(3..6, B).with_layers(6.., C).with(Part::Head, C);
        assert_eq!(edges(&p, Row::Next), [4, 7]);
        assert_eq!(with_edge(&p, Row::Next, 4, 9).to_string(), "cuda0=embed,0-7; cpu0=8,head");
        assert_eq!(with_edge(&p, Row::Next, 7, 2).to_string(), "cuda0=embed,0; cpu0=1-8,head");
        assert_eq!(with_edge(&p, Row::Next, 7, 0).to_string(), "cpu0=embed,0-8,head");
        assert_eq!(with_edge(&p, Row::Next, 7, 7), p);
    }

    #[test]
    fn an_ffn_that_lies_apart_stays() {
        let p = Placement::uniform(3, A).with(Part::Ffn(1), C);
        let moved = with_slots(&p, Row::Next, 1..4, B);
        assert_eq!(moved.get(Part::Ffn(0)), B);
        assert_eq!(moved.get(Part::Attn(1)), B);
        assert_eq!(moved.get(Part::Ffn(1)), C);
        assert_eq!(with_slots(&p, Row::Ffn, 1..2, C).get(Part::Attn(0)), A);
    }
}
