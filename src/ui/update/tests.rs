//! Scripts of messages: what a user and the engine do one after the other, and what comes of it.

mod chat;
mod drag;
mod keys;
mod layers;
mod picker;
mod random;
mod script;
mod sessions;
mod talk;
