//! The CPU as a device.

pub mod matmul;
pub mod simd;
