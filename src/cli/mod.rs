//! One file a subcommand.

pub mod fetch_bar;
