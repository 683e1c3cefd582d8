//! States of the screen as they come about in use: messages alone lead to them, so they stay true. For tests, for the
//! pictures in the README and for measuring; the program itself uses nothing of this.

mod list;
mod models;
mod rig;
pub mod shots;
mod stage;
#[cfg(test)]
mod tests;
mod texts;

pub use list::{SCENES, Scene, conversation_of};
pub use rig::Rig;
pub use stage::{Setup, Stage, Words};
pub use texts::PARAGRAPH;
