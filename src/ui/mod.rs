//! What is seen and touched.
//!
//! [`update`] takes messages into the [`State`] and says what is to be done; [`view::draw`] makes a picture of it and
//! records where on it a click means what; [`run`] is the loop around both. Of the engine only its
//! [protocol](crate::engine::protocol) is known here.
//!
//! **Invariants**: the state changes only in [`update`], and no effect happens there. Text from outside (models, files,
//! names) reaches a cell only through [`text::printable`] or [`text::Document`].

pub mod action;
pub mod dialog;
pub mod editor;
pub mod effects;
pub mod gauges;
pub mod hits;
pub mod keymap;
pub mod layers;
pub mod msg;
pub mod picker;
pub mod run;
#[doc(hidden)]
pub mod scenes;
pub mod state;
#[doc(hidden)]
pub mod svg;
pub mod terminal;
pub mod text;
pub mod theme;
pub mod units;
pub mod update;
pub mod view;

use crate::engine::protocol::LoadOptions;
use crate::sessions::SessionId;

pub use state::State;

/// Where the program begins.
pub enum Start {
    /// The choice of a model.
    Picker,
    /// Straight into a chat.
    Load(Box<LoadOptions>),
    /// An earlier session, with its model.
    Session(SessionId),
}
