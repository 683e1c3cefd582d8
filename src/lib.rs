//! layercake: chat with GGUF language models while their layers are moved between devices.
//!
//! Arrows point down only: `main` -> `cli` -> `engine` -> `devices`. `devices` knows no layer, model, token or
//! file; `engine` knows no terminal. `docs/ARCHITECTURE.md` has the code map and the invariants.

pub mod cli;
pub mod config;
pub mod devices;
pub mod engine;
pub mod models;
pub mod sessions;
pub mod ui;
