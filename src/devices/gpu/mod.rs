//! Any GPU as a [`Device`](super::Device): one executor over a [`driver::Driver`].

pub mod chip;
pub mod compile;
pub mod driver;
pub mod launch;
pub mod unit;
