//! Any GPU as a [`Device`](super::Device): one executor over a [`driver::Driver`].

mod check;
pub mod chip;
pub mod compile;
pub mod cuda;
pub mod device;
pub mod driver;
mod exec;
#[cfg(test)]
mod fake;
pub mod find;
pub mod handles;
pub mod hip;
pub mod images;
mod kernels;
pub mod launch;
pub mod memory;
mod native;
pub mod open;
mod staging;
pub mod unit;

pub use device::GpuDevice;
pub use images::{ImagesError, KernelImages};
