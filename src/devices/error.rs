//! What a device can fail with.

use super::DeviceId;
use super::quant::DType;

#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum DeviceError {
    #[error(
        "{device} has no room for {what}: it needs {:.1} MiB, {:.1} MiB are free ({:.1} MiB short)",
        mib(*.needed_bytes), mib(*.free_bytes), mib(.needed_bytes - .free_bytes.min(.needed_bytes))
    )]
    OutOfMemory { device: DeviceId, what: String, needed_bytes: u64, free_bytes: u64 },
    #[error("a buffer of {actual} was given to {expected}")]
    WrongDevice { expected: DeviceId, actual: DeviceId },
    #[error("{device}: {what} of {n_bytes} bytes at {offset} lies outside a buffer of {buffer_bytes} bytes")]
    OutOfRange { device: DeviceId, what: &'static str, offset: u64, n_bytes: u64, buffer_bytes: u64 },
    #[error("{device} cannot compute with tensor type {dtype}{}", supported_note(*.dtype))]
    UnsupportedType { device: DeviceId, dtype: DType },
    #[error("{device}: {message}")]
    Unsupported { device: DeviceId, message: String },
    #[error("{device}: {message}")]
    Kernels { device: DeviceId, message: String },
    #[error("{device} is lost: {message}; its driver answers no more until the program is started again")]
    Lost { device: DeviceId, message: String },
    #[error("stopped")]
    Stopped,
    #[error("{device} failed: {message}")]
    Failed { device: DeviceId, message: String },
}

fn mib(n_bytes: u64) -> f64 {
    n_bytes as f64 / (1024.0 * 1024.0)
}

fn supported_note(dtype: DType) -> String {
    if dtype.is_supported() {
        return String::new();
    }
    let names: Vec<_> = DType::ALL.iter().filter(|t| t.is_supported()).map(|t| t.name()).collect();
    format!(" (supported: {})", names.join(", "))
}
