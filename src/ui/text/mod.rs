//! Text of others on the screen: made harmless, measured, wrapped and laid out as Markdown.
//!
//! Everything here is a pure function of text and width, except [`Document`], which keeps the finished part of a
//! growing text. No text reaches a span without passing [`sanitise`].

mod blocks;
mod code;
pub mod document;
pub mod highlight;
mod markdown;
pub mod sanitise;
mod styles;
mod table;
pub mod thinking;
pub mod width;
pub mod wrap;

#[cfg(test)]
mod corpus;

pub use document::{CodeBlock, Document};
pub use sanitise::{printable, printable_text};
pub use styles::{SyntaxStyles, TextStyles};
pub use thinking::{Piece, split_thinking};
