//! What the mouse does: gathered when the button goes down, decided from there and the place of the pointer alone, kept
//! when it goes up. A press that never moved is a click.

use std::ops::Range;

use super::columns::Columns;
use super::keys::MapAction;
use super::map::{At, By, Gesture, Held, LayerMap, MapOutcome};
use super::slots::{Row, block, device_at, edges, slot_of, slots_of};
use super::view::{LayerTarget, MapButton};
use crate::engine::protocol::DeviceId;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MouseKind {
    /// The left button.
    Down,
    Drag,
    Up,
    /// No button is down.
    Move,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MapMouse {
    pub kind: MouseKind,
    pub x: u16,
    pub y: u16,
    pub shift: bool,
    pub ctrl: bool,
}

/// Where the button went down.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Press {
    mouse: MapMouse,
    target: LayerTarget,
    columns: Columns,
    pub moved: bool,
}

impl LayerMap {
    /// `target`: what of the map lies under the pointer, the topmost. `card`: the device whose card elsewhere on the
    /// screen does. `columns`: those of the last picture ([`super::MapPicture::columns`]).
    pub fn mouse(
        &mut self,
        mouse: MapMouse,
        columns: &Columns,
        target: Option<LayerTarget>,
        card: Option<DeviceId>,
    ) -> MapOutcome {
        let hover = self.hovered(target);
        let hover_changed = hover != self.hover;
        self.hover = hover;
        let outcome = match mouse.kind {
            MouseKind::Move => MapOutcome::Nothing,
            MouseKind::Down => self.press_down(mouse, columns, target),
            MouseKind::Drag => self.drag(mouse, target, card),
            MouseKind::Up => self.release(mouse, target, card),
        };
        if outcome == MapOutcome::Nothing && hover_changed { MapOutcome::Redraw } else { outcome }
    }

    fn hovered(&self, target: Option<LayerTarget>) -> Option<(Row, Range<usize>)> {
        match target? {
            LayerTarget::Cell { row, first, last } => {
                let n_layer = self.next.n_layer();
                Some((row, slot_of(first, n_layer)..slot_of(last, n_layer) + 1))
            }
            LayerTarget::Edge { row, index } => Some((row, index..index)),
            LayerTarget::Device(_) | LayerTarget::Button(_) => None,
        }
    }

    fn press_down(&mut self, mouse: MapMouse, columns: &Columns, target: Option<LayerTarget>) -> MapOutcome {
        self.settle();
        // A target of an older picture may no longer exist.
        let has_ffn_row = self.has_ffn_row();
        let exists = |target: &LayerTarget| match *target {
            LayerTarget::Cell { row: Row::Ffn, .. } | LayerTarget::Edge { row: Row::Ffn, .. } if !has_ffn_row => false,
            LayerTarget::Cell { row, first, last } => {
                let slots = slots_of(row, self.next.n_layer());
                let n_layer = self.next.n_layer();
                slots.contains(&slot_of(first, n_layer)) && slots.contains(&slot_of(last, n_layer))
            }
            LayerTarget::Edge { row, index } => !row.is_draft() || edges(&self.next, row).contains(&index),
            LayerTarget::Device(_) | LayerTarget::Button(_) => true,
        };
        let Some(target) = target.filter(exists) else {
            self.press = None;
            return MapOutcome::Nothing;
        };
        self.press = Some(Press { mouse, target, columns: columns.clone(), moved: false });
        MapOutcome::Redraw
    }

    fn drag(&mut self, mouse: MapMouse, target: Option<LayerTarget>, card: Option<DeviceId>) -> MapOutcome {
        let Some(press) = &mut self.press else { return MapOutcome::Nothing };
        if !press.moved && (mouse.x, mouse.y) == (press.mouse.x, press.mouse.y) {
            return MapOutcome::Nothing;
        }
        press.moved = true;
        let press = press.clone();
        if self.gesture.is_none() {
            let Some(held) = self.taken(&press) else { return MapOutcome::Nothing };
            self.gesture = Some(Gesture { start: self.next.clone(), held, by: By::Mouse });
        }
        match self.gesture.as_ref().map(|g| &g.held) {
            Some(Held::Edge { from, .. }) => {
                // Where the pointer did not leave the columns it began in, nothing moved, even over a wide cell.
                let to = if mouse.x == press.mouse.x { Some(*from) } else { press.columns.boundary_at(mouse.x) };
                self.hold_edge_at(to.unwrap_or(*from))
            }
            Some(Held::Slots { .. }) => {
                let id = card.or_else(|| self.device_under(target)).filter(|id| self.devices.contains(id));
                if let Some(Gesture { held: Held::Slots { to, .. }, .. }) = &mut self.gesture {
                    *to = id;
                }
                self.show_gesture()
            }
            None => MapOutcome::Nothing,
        }
    }

    /// What a drag from there moves.
    fn taken(&mut self, press: &Press) -> Option<Held> {
        let n_layer = self.next.n_layer();
        match press.target {
            LayerTarget::Edge { row, index } if row.is_draft() => Some(Held::Edge { row, from: index, to: index }),
            LayerTarget::Cell { row, first, last } if row.is_draft() => {
                let cells = slot_of(first, n_layer)..slot_of(last, n_layer) + 1;
                let selected = self.selection.as_ref().filter(|s| s.row == row && s.slots.contains(&cells.start));
                let slots = match selected {
                    Some(s) => s.slots.clone(),
                    None if press.mouse.ctrl => cells.clone(),
                    None => block(&self.next, row, cells.start),
                };
                if selected.is_none() {
                    self.selection = None;
                }
                self.row = row;
                self.at = At::Cell(cells.start);
                Some(Held::Slots { row, slots, to: None })
            }
            LayerTarget::Edge { .. } | LayerTarget::Cell { .. } | LayerTarget::Device(_) | LayerTarget::Button(_) => {
                None
            }
        }
    }

    /// The device that a block would be dropped on. The draft counts as it was before the drag.
    fn device_under(&self, target: Option<LayerTarget>) -> Option<DeviceId> {
        let start = &self.gesture.as_ref()?.start;
        let (row, slot) = match target? {
            LayerTarget::Cell { row, first, .. } => (row, slot_of(first, start.n_layer())),
            LayerTarget::Edge { row, index } => (row, index),
            LayerTarget::Device(id) => return Some(id),
            LayerTarget::Button(_) => return None,
        };
        device_at(if row.is_draft() { start } else { &self.now }, row, slot)
    }

    fn release(&mut self, mouse: MapMouse, target: Option<LayerTarget>, card: Option<DeviceId>) -> MapOutcome {
        let outcome = self.drag(mouse, target, card);
        let Some(press) = self.press.take() else { return MapOutcome::Nothing };
        if press.moved {
            self.settle();
            return if outcome == MapOutcome::Nothing { MapOutcome::Redraw } else { outcome };
        }
        match press.target {
            LayerTarget::Cell { row, first, last } if row.is_draft() => {
                let n_layer = self.next.n_layer();
                let (first, last) = (slot_of(first, n_layer), slot_of(last, n_layer));
                let anchor = self.selection.as_ref().filter(|s| s.row == row && press.mouse.shift).map(|s| s.anchor);
                let anchor = match (anchor, self.at) {
                    (Some(anchor), _) => anchor,
                    (None, At::Cell(slot)) if press.mouse.shift && self.row == row => slot,
                    (None, _) => first,
                };
                self.row = row;
                self.select(anchor, if anchor > last { first } else { last });
                MapOutcome::Redraw
            }
            LayerTarget::Edge { row, index } if row.is_draft() => {
                self.selection = None;
                self.row = row;
                self.at = At::Edge(index);
                MapOutcome::Redraw
            }
            LayerTarget::Cell { .. } | LayerTarget::Edge { .. } | LayerTarget::Device(_) => MapOutcome::Redraw,
            LayerTarget::Button(button) if target == Some(press.target) => self.act(action_of(button)),
            LayerTarget::Button(_) => MapOutcome::Redraw,
        }
    }
}

fn action_of(button: MapButton) -> MapAction {
    match button {
        MapButton::Apply => MapAction::Apply,
        MapButton::ApplyNow => MapAction::ApplyNow,
        MapButton::Undo => MapAction::Undo,
        MapButton::Redo => MapAction::Redo,
        MapButton::Auto => MapAction::Auto,
        MapButton::Cancel => MapAction::Cancel,
    }
}
