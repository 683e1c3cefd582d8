//! The state of the map, and the gestures that change its draft.

use std::collections::BTreeSet;
use std::ops::Range;

use super::columns::Columns;
use super::mouse::Press;
use super::slots::{Row, block, edges, ffn_apart, n_slots, slots_of, with_edge, with_slots};
use crate::engine::placement::Placement;
use crate::engine::protocol::DeviceId;

/// What became of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MapOutcome {
    Nothing,
    Redraw,
    /// [`LayerMap::next`] is another: ask for its preview.
    DraftChanged,
    Apply,
    ApplyNow,
    AskAuto,
    /// Nothing of the map was left to cancel: cancel the change under way, or else [`LayerMap::discard`].
    Cancel,
    /// Why nothing happened, for the user.
    Refused(String),
}

/// Where the cursor is in its row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum At {
    Cell(usize),
    Edge(usize),
}

impl At {
    /// Its place among the cells and edges of a row.
    pub(super) fn order(self) -> usize {
        match self {
            At::Cell(slot) => 2 * slot + 1,
            At::Edge(b) => 2 * b,
        }
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Selection {
    pub row: Row,
    pub slots: Range<usize>,
    /// The cell that a further extension keeps.
    pub anchor: usize,
}

/// What is in the hand.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Held {
    Edge { row: Row, from: usize, to: usize },
    Slots { row: Row, slots: Range<usize>, to: Option<DeviceId> },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum By {
    /// Picked up with the key for that: stays in the hand until put down.
    Pick,
    /// A run of moves of one edge.
    Keys,
    Mouse,
}

/// A change in the making, always computed from the draft that it began with: going back restores.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Gesture {
    pub start: Placement,
    pub held: Held,
    pub by: By,
}

impl Gesture {
    fn result(&self) -> Placement {
        match &self.held {
            Held::Edge { row, from, to } => with_edge(&self.start, *row, *from, *to),
            Held::Slots { row, slots, to: Some(id) } => with_slots(&self.start, *row, slots.clone(), *id),
            Held::Slots { to: None, .. } => self.start.clone(),
        }
    }
}

/// The placement that runs, the draft of the next one, and the editing of that.
#[derive(Clone, Debug)]
pub struct LayerMap {
    pub(super) now: Placement,
    pub(super) next: Placement,
    is_moe: bool,
    /// **Invariant**: every placement in here names only these.
    pub(super) devices: Vec<DeviceId>,
    pub(super) undo: Vec<Placement>,
    pub(super) redo: Vec<Placement>,
    pub(super) row: Row,
    pub(super) at: At,
    pub(super) selection: Option<Selection>,
    pub(super) gesture: Option<Gesture>,
    /// Typed so far for the edge in the hand.
    pub(super) digits: String,
    pub(super) press: Option<Press>,
    /// The row with the slots under the pointer.
    pub(super) hover: Option<(Row, Range<usize>)>,
}

impl LayerMap {
    /// `devices`: everything that layers can be moved to, in the order of the letters.
    pub fn new(now: Placement, is_moe: bool, devices: Vec<DeviceId>) -> LayerMap {
        let mut map = LayerMap {
            next: now.clone(),
            now: now.clone(),
            is_moe,
            devices,
            undo: Vec::new(),
            redo: Vec::new(),
            row: Row::Next,
            at: At::Cell(0),
            selection: None,
            gesture: None,
            digits: String::new(),
            press: None,
            hover: None,
        };
        map.list(&now);
        map
    }

    pub fn now(&self) -> &Placement {
        &self.now
    }

    /// The draft.
    pub fn next(&self) -> &Placement {
        &self.next
    }

    pub fn devices(&self) -> &[DeviceId] {
        &self.devices
    }

    pub fn has_changes(&self) -> bool {
        self.now != self.next
    }

    /// Whether the mouse holds an edge or a block. Until it lets go, its events belong to the map.
    pub fn is_dragging(&self) -> bool {
        self.press.as_ref().is_some_and(|p| p.moved)
    }

    /// Whether a button that was pressed on the map is still down.
    pub fn is_pressed(&self) -> bool {
        self.press.is_some()
    }

    /// Whether an edge or a block was picked up with the keys.
    pub fn is_picked(&self) -> bool {
        self.gesture.as_ref().is_some_and(|g| g.by == By::Pick)
    }

    pub fn is_typing(&self) -> bool {
        !self.digits.is_empty()
    }

    /// Whether the cursor is at an edge, which digits and moves act on.
    pub fn is_at_edge(&self) -> bool {
        matches!(self.at, At::Edge(_))
    }

    pub fn can_undo(&self) -> bool {
        !self.undo.is_empty() || self.gesture.is_some()
    }

    pub fn can_redo(&self) -> bool {
        !self.redo.is_empty()
    }

    pub fn has_ffn_row(&self) -> bool {
        self.now.n_layer() > 0
            && (self.is_moe
                || ffn_apart(&self.now)
                || ffn_apart(&self.next)
                || self.gesture.as_ref().is_some_and(|g| ffn_apart(&g.start)))
    }

    /// Another placement runs. The draft follows, unless it was edited since; what it was stays to be undone to.
    pub fn set_now(&mut self, now: Placement) {
        if now.n_layer() != self.now.n_layer() {
            *self = LayerMap::new(now, self.is_moe, std::mem::take(&mut self.devices));
            return;
        }
        self.list(&now);
        if self.next == self.now && self.gesture.is_none() {
            self.next = now.clone();
        }
        self.now = now;
        self.normalise();
    }

    /// Another draft, as one step to undo.
    pub fn set_draft(&mut self, draft: Placement) -> MapOutcome {
        if draft.n_layer() != self.now.n_layer() {
            return MapOutcome::Refused("the placement is for a model with another number of layers".to_string());
        }
        if let Some(id) = draft.devices().into_iter().find(|id| !self.devices.contains(id)) {
            return MapOutcome::Refused(format!("there is no device {id}"));
        }
        let restored = self.let_go();
        match self.replace(draft) {
            MapOutcome::Redraw => restored,
            outcome => outcome,
        }
    }

    /// Makes the draft what runs, as one step to undo.
    pub fn discard(&mut self) -> MapOutcome {
        self.set_draft(self.now.clone())
    }

    /// The columns of the rows in a picture whose rows begin at `x` and may take `width`.
    pub fn columns(&self, x: u16, width: u16) -> Columns {
        let rows: &[Row] = if self.has_ffn_row() { &[Row::Next, Row::Ffn] } else { &[Row::Next] };
        let all =
            |placement: &Placement| -> BTreeSet<usize> { rows.iter().flat_map(|&row| edges(placement, row)).collect() };
        let start = self.gesture.as_ref().map_or(&self.next, |g| &g.start);
        let mut steady = all(&self.now);
        steady.extend(all(start));
        let mut seen = all(&self.next);
        seen.extend(&steady);
        Columns::new(x, width, n_slots(self.now.n_layer()), &steady, &seen)
    }

    /// Whether the edge is the one at the cursor or in the hand.
    pub(super) fn is_hot(&self, row: Row, edge: usize) -> bool {
        match &self.gesture {
            Some(Gesture { held: Held::Edge { row: held, to, .. }, .. }) => *held == row && *to == edge,
            Some(Gesture { held: Held::Slots { .. }, .. }) => false,
            None => self.row == row && self.at == At::Edge(edge),
        }
    }

    /// Whether a block in the hand has slots in that row that a predicate holds for.
    pub(super) fn holds(&self, row: Row, meets: impl Fn(&Range<usize>) -> bool) -> bool {
        match &self.gesture {
            Some(Gesture { held: Held::Slots { row: held, slots, .. }, .. }) => *held == row && meets(slots),
            Some(Gesture { held: Held::Edge { .. }, .. }) | None => false,
        }
    }

    pub(super) fn cursor_in(&self, row: Row, slots: Range<usize>) -> bool {
        match self.at {
            At::Cell(slot) => self.row == row && slots.contains(&slot),
            At::Edge(_) => false,
        }
    }

    /// What a move would take: the selection, or the block at the cursor.
    pub(super) fn chosen(&self) -> Option<(Row, Range<usize>)> {
        if let Some(s) = &self.selection {
            return Some((s.row, s.slots.clone()));
        }
        match self.at {
            At::Cell(slot) => Some((self.row, block(&self.next, self.row, slot))),
            At::Edge(_) => None,
        }
    }

    fn list(&mut self, placement: &Placement) {
        for id in placement.devices() {
            if !self.devices.contains(&id) {
                self.devices.push(id);
            }
        }
    }

    /// Selects from `anchor` to `to`, both included, and puts the cursor there.
    pub(super) fn select(&mut self, anchor: usize, to: usize) {
        let slots = anchor.min(to)..anchor.max(to) + 1;
        self.selection = Some(Selection { row: self.row, slots, anchor });
        self.at = At::Cell(to);
    }

    /// Drops what is in the hand where it came from.
    pub(super) fn let_go(&mut self) -> MapOutcome {
        self.press = None;
        self.digits.clear();
        let Some(gesture) = self.gesture.take() else { return MapOutcome::Redraw };
        if let Held::Edge { row, from, .. } = gesture.held {
            self.row = row;
            self.at = At::Edge(from);
        }
        let changed = self.next != gesture.start;
        self.next = gesture.start;
        self.normalise();
        if changed { MapOutcome::DraftChanged } else { MapOutcome::Redraw }
    }

    pub(super) fn hold_edge_at(&mut self, boundary: usize) -> MapOutcome {
        if let Some(Gesture { held: Held::Edge { row, to, .. }, .. }) = &mut self.gesture {
            let ends = slots_of(*row, self.next.n_layer());
            *to = boundary.clamp(ends.start, ends.end);
        }
        self.show_gesture()
    }

    /// Makes the draft what the gesture says.
    pub(super) fn show_gesture(&mut self) -> MapOutcome {
        let Some(gesture) = &self.gesture else { return MapOutcome::Nothing };
        if let Held::Edge { row, to, .. } = gesture.held {
            self.row = row;
            self.at = At::Edge(to);
        }
        let next = gesture.result();
        if next == self.next {
            return MapOutcome::Redraw;
        }
        self.next = next;
        MapOutcome::DraftChanged
    }

    /// Ends what is being done, as one step to undo.
    pub(super) fn settle(&mut self) {
        self.digits.clear();
        if let Some(gesture) = self.gesture.take()
            && gesture.start != self.next
        {
            if let Held::Slots { .. } = gesture.held {
                self.selection = None;
            }
            self.undo.push(gesture.start);
            self.redo.clear();
        }
        self.normalise();
    }

    pub(super) fn replace(&mut self, draft: Placement) -> MapOutcome {
        self.selection = None;
        if draft == self.next {
            return MapOutcome::Redraw;
        }
        self.undo.push(std::mem::replace(&mut self.next, draft));
        self.redo.clear();
        self.normalise();
        MapOutcome::DraftChanged
    }

    /// Puts the cursor on something that exists.
    pub(super) fn normalise(&mut self) {
        if self.row == Row::Ffn && !self.has_ffn_row() {
            self.row = Row::Next;
            self.selection = None;
        }
        if self.gesture.is_some() {
            return;
        }
        let slots = slots_of(self.row, self.next.n_layer());
        let nearest = |b: usize| edges(&self.next, self.row).into_iter().min_by_key(|edge| edge.abs_diff(b));
        self.at = match self.at {
            // Who was at an edge goes on with edges: after undo, digits still move it.
            At::Edge(b) => nearest(b).map_or(At::Cell(b.clamp(slots.start, slots.end - 1)), At::Edge),
            At::Cell(slot) => At::Cell(slot.clamp(slots.start, slots.end - 1)),
        };
    }
}
