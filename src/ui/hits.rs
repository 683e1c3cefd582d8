//! What lies where on the screen, recorded while it is drawn: a click can never disagree with the picture.

use ratatui::layout::{Position, Rect};

use super::action::Action;
use super::layers::LayerTarget;
use crate::engine::protocol::DeviceId;
use crate::sessions::MessageId;

/// What a place on the screen means to the mouse.
#[derive(Clone, PartialEq, Debug)]
pub enum Target {
    /// A panel's own area: a click goes there, the wheel scrolls it.
    Panel(PanelId),
    /// A device's card: details, and a place to drop layers.
    Device(DeviceId),
    Layers(LayerTarget),
    Message(MessageId),
    /// A thinking block's line: folds and unfolds.
    Thinking(MessageId),
    /// The copy mark of a code block.
    CopyCode {
        message: MessageId,
        block: usize,
    },
    /// Text of the input: a cell of its layout, `[column, row]`.
    Input,
    /// A line of the dialog on top.
    Item(usize),
    /// A word that does something.
    Button(Action),
    /// The dialog on top itself: clicks on it that mean nothing else stay there.
    Dialog,
    /// Everything around the dialog on top.
    Outside,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum PanelId {
    Devices,
    Layers,
    Chat,
    Input,
}

/// The rectangles of one picture, later ones on top.
#[derive(Clone, Default, Debug)]
pub struct Hits {
    areas: Vec<(Rect, Target)>,
}

impl Hits {
    pub fn add(&mut self, area: Rect, target: Target) {
        if !area.is_empty() {
            self.areas.push((area, target));
        }
    }

    pub fn extend(&mut self, areas: impl IntoIterator<Item = (Rect, Target)>) {
        for (area, target) in areas {
            self.add(area, target);
        }
    }

    /// Everything under a cell, topmost first, with its rectangle.
    pub fn at(&self, column: u16, row: u16) -> Vec<(Rect, Target)> {
        let position = Position::new(column, row);
        self.areas.iter().rev().filter(|(area, _)| area.contains(position)).cloned().collect()
    }

    /// The rectangles of a target, for tests and screenshots.
    pub fn areas_of(&self, wanted: impl Fn(&Target) -> bool) -> Vec<Rect> {
        self.areas.iter().filter(|(_, target)| wanted(target)).map(|(area, _)| *area).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_topmost_comes_first_and_nothing_is_hit_where_nothing_is() {
        let mut hits = Hits::default();
        hits.add(Rect::new(0, 0, 10, 10), Target::Panel(PanelId::Chat));
        hits.add(Rect::new(2, 2, 3, 1), Target::Item(4));
        hits.add(Rect::new(5, 5, 0, 3), Target::Item(9));
        let targets: Vec<_> = hits.at(4, 2).into_iter().map(|(_, t)| t).collect();
        assert_eq!(targets, [Target::Item(4), Target::Panel(PanelId::Chat)]);
        assert_eq!(hits.at(5, 2).len(), 1);
        assert!(hits.at(10, 0).is_empty());
    }
}
