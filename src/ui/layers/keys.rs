//! What the keys do to the map.

use super::map::{At, By, Gesture, Held, LayerMap, MapOutcome, Selection};
use super::slots::{Row, block, device_at, edges, slots_of, with_slots};
use crate::engine::protocol::DeviceId;

/// What is asked of the map. [`MapAction::MoveTo`] takes the letter that a device has by its place: `a` is the first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MapAction {
    /// The cell or edge to the left; with an edge or a block in the hand as [`MapAction::MoveLeft`] by one.
    CursorLeft,
    CursorRight,
    /// The next edge or block of the row, around its end.
    NextItem,
    PreviousItem,
    RowUp,
    RowDown,
    /// Takes the edge, the selection or the block at the cursor, or puts it down.
    Pick,
    /// Moves the edge at the cursor, or a block in the hand to the device before.
    MoveLeft {
        by: usize,
    },
    MoveRight {
        by: usize,
    },
    /// Selects a range; with an edge in the hand as [`MapAction::MoveLeft`] by five.
    ExtendLeft,
    ExtendRight,
    /// Types the layer before which the edge at the cursor is to lie.
    Digit(char),
    Backspace,
    SelectBlock,
    MoveTo(char),
    Undo,
    Redo,
    Auto,
    Apply,
    ApplyNow,
    Cancel,
}

const MANY: usize = 5;

impl LayerMap {
    /// Moves the selection, else the block at the cursor.
    pub fn move_to(&mut self, id: DeviceId) -> MapOutcome {
        if !self.devices.contains(&id) {
            return MapOutcome::Refused(format!("there is no device {id}"));
        }
        if let Some(Gesture { held: Held::Slots { to, .. }, .. }) = &mut self.gesture {
            *to = Some(id);
            let outcome = self.show_gesture();
            self.settle();
            return outcome;
        }
        self.settle();
        let Some((row, slots)) = self.chosen() else {
            return MapOutcome::Refused("the cursor is at an edge: choose a block or select layers first".to_string());
        };
        self.replace(with_slots(&self.next, row, slots, id))
    }

    pub fn act(&mut self, action: MapAction) -> MapOutcome {
        if self.press.is_some() && action != MapAction::Cancel {
            return MapOutcome::Nothing;
        }
        match action {
            MapAction::CursorLeft if self.is_picked() => self.move_held(false, 1),
            MapAction::CursorRight if self.is_picked() => self.move_held(true, 1),
            MapAction::CursorLeft => self.step(false),
            MapAction::CursorRight => self.step(true),
            MapAction::NextItem => self.jump(true),
            MapAction::PreviousItem => self.jump(false),
            MapAction::RowUp => self.go_to_row(Row::Next),
            MapAction::RowDown => self.go_to_row(Row::Ffn),
            MapAction::Pick => self.pick(),
            MapAction::MoveLeft { by } => self.move_held(false, by),
            MapAction::MoveRight { by } => self.move_held(true, by),
            MapAction::ExtendLeft if self.is_picked() => self.move_held(false, MANY),
            MapAction::ExtendRight if self.is_picked() => self.move_held(true, MANY),
            MapAction::ExtendLeft => self.extend(false),
            MapAction::ExtendRight => self.extend(true),
            MapAction::Digit(digit) => self.digit(digit),
            MapAction::Backspace => self.backspace(),
            MapAction::SelectBlock => self.select_block(),
            MapAction::MoveTo(letter) => match self.device_of(letter) {
                Some(id) => self.move_to(id),
                None => MapOutcome::Refused(format!("there is no device {}", letter.escape_debug())),
            },
            MapAction::Undo => self.undo(),
            MapAction::Redo => self.redo(),
            MapAction::Auto => {
                self.settle();
                MapOutcome::AskAuto
            }
            // Enter first ends what is being done.
            MapAction::Apply if self.is_picked() || self.is_typing() => {
                self.settle();
                MapOutcome::Redraw
            }
            MapAction::Apply => self.apply(MapOutcome::Apply),
            MapAction::ApplyNow => self.apply(MapOutcome::ApplyNow),
            MapAction::Cancel => self.cancel(),
        }
    }

    /// The cells and edges of the cursor's row, in order.
    fn items(&self) -> Vec<At> {
        let edges = edges(&self.next, self.row);
        let mut items: Vec<At> = slots_of(self.row, self.next.n_layer()).map(At::Cell).collect();
        items.extend(edges.into_iter().map(At::Edge));
        items.sort_by_key(|at| at.order());
        items
    }

    fn step(&mut self, forward: bool) -> MapOutcome {
        self.settle();
        self.selection = None;
        if let Some(at) = neighbour(&self.items(), self.at, forward) {
            self.at = at;
        }
        MapOutcome::Redraw
    }

    /// Whether there is an edge or block further on in this row.
    pub fn has_item(&self, forward: bool) -> bool {
        neighbour(&self.edges_and_blocks(), self.at, forward).is_some()
    }

    fn edges_and_blocks(&self) -> Vec<At> {
        let edges = edges(&self.next, self.row);
        let first = slots_of(self.row, self.next.n_layer()).start;
        let mut items = vec![At::Cell(first)];
        items.extend(edges.iter().flat_map(|&b| [At::Edge(b), At::Cell(b)]));
        items
    }

    fn jump(&mut self, forward: bool) -> MapOutcome {
        self.settle();
        self.selection = None;
        let items = self.edges_and_blocks();
        let around = if forward { items.first() } else { items.last() };
        if let Some(at) = neighbour(&items, self.at, forward).or(around.copied()) {
            self.at = at;
        }
        MapOutcome::Redraw
    }

    fn go_to_row(&mut self, row: Row) -> MapOutcome {
        self.settle();
        if row == Row::Ffn && !self.has_ffn_row() {
            return MapOutcome::Nothing;
        }
        self.selection = None;
        self.row = row;
        self.normalise();
        MapOutcome::Redraw
    }

    fn pick(&mut self) -> MapOutcome {
        let was_picked = self.is_picked();
        self.settle();
        if was_picked {
            return MapOutcome::Redraw;
        }
        let held = match (self.at, self.chosen()) {
            (_, Some((row, slots))) => Held::Slots { row, slots, to: None },
            (At::Edge(b), None) => Held::Edge { row: self.row, from: b, to: b },
            (At::Cell(_), None) => return MapOutcome::Nothing,
        };
        self.gesture = Some(Gesture { start: self.next.clone(), held, by: By::Pick });
        MapOutcome::Redraw
    }

    fn move_held(&mut self, forward: bool, by: usize) -> MapOutcome {
        if !self.digits.is_empty() {
            self.digits.clear();
        }
        if self.gesture.is_none() {
            let At::Edge(b) = self.at else {
                return MapOutcome::Refused("no edge is chosen: Tab goes to the next one".to_string());
            };
            let held = Held::Edge { row: self.row, from: b, to: b };
            self.gesture = Some(Gesture { start: self.next.clone(), held, by: By::Keys });
        }
        match &mut self.gesture {
            Some(Gesture { held: Held::Edge { row, to, .. }, .. }) => {
                let ends = slots_of(*row, self.next.n_layer());
                let wanted = if forward { to.saturating_add(by) } else { to.saturating_sub(by) };
                *to = wanted.clamp(ends.start, ends.end);
            }
            Some(Gesture { start, held: Held::Slots { row, slots, to }, .. }) => {
                let at = to.or_else(|| device_at(start, *row, slots.start));
                let place = self.devices.iter().position(|&id| Some(id) == at).unwrap_or(0);
                let place = if forward { place.saturating_add(1) } else { place.saturating_sub(1) };
                *to = self.devices.get(place).copied().or(*to);
            }
            None => {}
        }
        self.show_gesture()
    }

    fn extend(&mut self, forward: bool) -> MapOutcome {
        self.settle();
        let slot = match self.at {
            At::Cell(slot) => slot,
            // Towards where the selection grows, the edge's neighbour is the first to be in it.
            At::Edge(b) => {
                let slot = if forward { b } else { b - 1 };
                self.select(slot, slot);
                return MapOutcome::Redraw;
            }
        };
        let anchor = self.selection.as_ref().filter(|s| s.row == self.row).map_or(slot, |s| s.anchor);
        let slots = slots_of(self.row, self.next.n_layer());
        let to = if forward { slot + 1 } else { slot.saturating_sub(1) };
        self.select(anchor, to.clamp(slots.start, slots.end - 1));
        MapOutcome::Redraw
    }

    fn select_block(&mut self) -> MapOutcome {
        self.settle();
        let slot = match self.at {
            At::Cell(slot) | At::Edge(slot) => slot,
        };
        let slots = block(&self.next, self.row, slot);
        self.selection = Some(Selection { row: self.row, anchor: slots.start, slots });
        self.at = At::Cell(slot);
        MapOutcome::Redraw
    }

    fn digit(&mut self, digit: char) -> MapOutcome {
        if !digit.is_ascii_digit() {
            return MapOutcome::Nothing;
        }
        let held = match (&self.gesture, self.at) {
            (Some(Gesture { held: Held::Edge { .. }, .. }), _) => None,
            (None, At::Edge(b)) => Some(Held::Edge { row: self.row, from: b, to: b }),
            (Some(Gesture { held: Held::Slots { .. }, .. }), _) | (None, At::Cell(_)) => {
                return MapOutcome::Refused("digits move an edge: Tab goes to the next one".to_string());
            }
        };
        let typed = format!("{}{digit}", self.digits);
        let n_layer = self.next.n_layer();
        let Some(layer) = typed.parse::<u32>().ok().filter(|&l| l <= n_layer) else {
            return MapOutcome::Refused(format!("an edge can lie before layer 0 to {n_layer}, not {typed}"));
        };
        if let Some(held) = held {
            self.gesture = Some(Gesture { start: self.next.clone(), held, by: By::Keys });
        }
        self.digits = typed;
        self.hold_edge_at(layer as usize + 1)
    }

    fn backspace(&mut self) -> MapOutcome {
        if self.digits.pop().is_none() {
            return MapOutcome::Nothing;
        }
        match (self.digits.parse::<usize>(), &self.gesture) {
            (Ok(layer), _) => self.hold_edge_at(layer + 1),
            (Err(_), Some(Gesture { held: Held::Edge { from, .. }, .. })) => self.hold_edge_at(*from),
            (Err(_), _) => MapOutcome::Redraw,
        }
    }

    fn undo(&mut self) -> MapOutcome {
        self.settle();
        let Some(before) = self.undo.pop() else {
            return MapOutcome::Refused("nothing to undo".to_string());
        };
        self.redo.push(std::mem::replace(&mut self.next, before));
        self.normalise();
        MapOutcome::DraftChanged
    }

    fn redo(&mut self) -> MapOutcome {
        self.settle();
        let Some(after) = self.redo.pop() else {
            return MapOutcome::Refused("nothing to redo".to_string());
        };
        self.undo.push(std::mem::replace(&mut self.next, after));
        self.normalise();
        MapOutcome::DraftChanged
    }

    fn apply(&mut self, outcome: MapOutcome) -> MapOutcome {
        self.settle();
        if self.has_changes() {
            outcome
        } else {
            MapOutcome::Refused("nothing to apply: the draft is what runs".to_string())
        }
    }

    fn cancel(&mut self) -> MapOutcome {
        if self.press.take().is_some() | self.gesture.is_some() {
            return self.let_go();
        }
        if self.selection.take().is_some() { MapOutcome::Redraw } else { MapOutcome::Cancel }
    }

    fn device_of(&self, letter: char) -> Option<DeviceId> {
        let place = u32::from(letter.to_ascii_lowercase()).checked_sub(u32::from('a'))?;
        self.devices.get(place as usize).copied()
    }
}

/// What comes before or after a place in a list of places in order.
fn neighbour(items: &[At], at: At, forward: bool) -> Option<At> {
    if forward {
        items.iter().copied().find(|item| item.order() > at.order())
    } else {
        items.iter().copied().rfind(|item| item.order() < at.order())
    }
}
