//! What the map is given to show, and what it says of its picture.

use ratatui::style::Style;

use super::slots::Row;
use crate::engine::part::Part;
use crate::engine::placement::Placement;
use crate::engine::protocol::DeviceId;

/// How a device looks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeviceLook {
    pub id: DeviceId,
    /// What names it after the move key: `A`, `B`, typed in either case.
    pub letter: char,
    /// `■`, `▲`, or a letter where the terminal has only ASCII. One column wide.
    pub shape: char,
    pub style: Style,
    pub name: String,
}

/// The theme of the map.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MapStyles {
    pub text: Style,
    pub dim: Style,
    pub cursor: Style,
    pub selection: Style,
    pub edge: Style,
    /// The edge at the cursor or in the hand.
    pub edge_hot: Style,
    pub good: Style,
    pub bad: Style,
    /// A layer that would lie elsewhere than it does now; drawn underlined too.
    pub moved: Style,
    pub ascii: bool,
}

/// What a rectangle of the picture means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LayerTarget {
    /// A cell, with the parts from `first` to `last` of its row.
    Cell {
        row: Row,
        first: Part,
        last: Part,
    },
    /// The edge before the cell `index` of its row: embed is cell 0, layer 0 is cell 1.
    Edge {
        row: Row,
        index: usize,
    },
    /// A device in the legend.
    Device(DeviceId),
    Button(MapButton),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MapButton {
    Apply,
    ApplyNow,
    Undo,
    Redo,
    Auto,
    Cancel,
}

/// What is known of one part.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct PartInfoView {
    pub weight_bytes: u64,
    pub kv_bytes: u64,
    /// Of one token, on the device that it lies on now; `None` while unmeasured.
    pub ms: Option<f32>,
}

/// A device as a draft would leave it.
#[derive(Clone, PartialEq, Debug)]
pub struct PreviewDevice {
    pub id: DeviceId,
    pub after_bytes: u64,
    pub total_bytes: u64,
    /// What is missing, 0 when the draft fits.
    pub short_bytes: u64,
}

/// The engine's answer to a draft.
#[derive(Clone, PartialEq, Debug)]
pub struct PreviewView {
    /// The draft that this answers.
    pub placement: Placement,
    /// Why it cannot be done.
    pub refused: Option<String>,
    pub fits: bool,
    pub devices: Vec<PreviewDevice>,
    /// Weights to move.
    pub weight_bytes: u64,
    /// KV cache to move.
    pub kv_bytes: u64,
    /// Seconds of moving while the old placement works on.
    pub staging_s: f64,
    /// Seconds of standing still.
    pub stall_s: f64,
    pub from_tokens_per_s: Option<f64>,
    pub to_tokens_per_s: Option<f64>,
}

/// How far a change has come.
#[derive(Clone, PartialEq, Debug, Default)]
pub enum ChangeView {
    #[default]
    None,
    /// Kernels of a device are made first: which, and how many of them.
    Preparing(String),
    Staging {
        done_bytes: u64,
        total_bytes: u64,
        bytes_per_s: f64,
    },
    /// Staged; waits for the next prompt, or with `when_now` for the next token.
    Ready {
        when_now: bool,
    },
    Switched {
        stall_ms: f64,
        from_tokens_per_s: Option<f64>,
        to_tokens_per_s: Option<f64>,
    },
    Refused(String),
    Failed(String),
    Cancelled,
}
