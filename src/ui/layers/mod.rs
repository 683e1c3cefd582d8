//! The layer map: which device holds which layer now, which would hold it next, and the editing of that draft with keys
//! and mouse.
//!
//! [`LayerMap`] is the state, [`LayerMap::act`] and [`LayerMap::mouse`] change it, [`draw_map`] draws it. Pure: nothing
//! here knows the engine or the terminal. What the engine says of a draft comes in as [`PreviewView`].
//!
//! **Invariant**: one [`Columns`] both draws a row and reads the pointer, so a click cannot disagree with the picture.

mod columns;
mod draw;
mod draw_text;
mod info;
mod keys;
mod legend;
mod map;
mod mouse;
mod slots;
mod view;
mod words;

#[cfg(test)]
mod draw_tests;
#[cfg(test)]
mod map_tests;

pub use columns::Columns;
pub use draw::{MapPicture, draw_map, wanted_height};
pub use keys::MapAction;
pub use map::{LayerMap, MapOutcome};
pub use mouse::{MapMouse, MouseKind};
pub use slots::Row;
pub use view::{ChangeView, DeviceLook, LayerTarget, MapButton, MapStyles, PartInfoView, PreviewDevice, PreviewView};
