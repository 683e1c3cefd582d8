//! Any GPU as a [`Device`](super::Device): one executor over a [`driver::Driver`].

pub mod chip;
pub mod cuda;
pub mod driver;
pub mod find;
pub mod hip;
pub mod launch;
mod native;
pub mod unit;
