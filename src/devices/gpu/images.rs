//! Where compiled kernels come from.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::chip::Chip;
use super::compile::{CompileError, KernelStore};
use super::unit::Unit;
use crate::devices::Prepared;

/// Why there are no images.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ImagesError {
    /// `cancel` was set.
    #[error("stopped")]
    Stopped,
    /// What failed and what to do about it.
    #[error("{0}")]
    Failed(String),
}

/// Gives what a driver loads as modules: from a cache, or by compiling.
pub trait KernelImages: Send + Sync {
    /// One image for each unit, in their order. May take long, and may be asked from several threads at once.
    fn images(
        &self,
        chip: &Chip,
        units: &[Unit],
        cancel: &AtomicBool,
        progress: &(dyn Fn(Prepared) + Sync),
    ) -> Result<Vec<Arc<[u8]>>, ImagesError>;
}

impl KernelImages for KernelStore {
    fn images(
        &self,
        chip: &Chip,
        units: &[Unit],
        cancel: &AtomicBool,
        progress: &(dyn Fn(Prepared) + Sync),
    ) -> Result<Vec<Arc<[u8]>>, ImagesError> {
        KernelStore::images(self, chip, units, cancel, progress).map_err(|error| match error {
            CompileError::Cancelled => ImagesError::Stopped,
            error => ImagesError::Failed(error.to_string()),
        })
    }
}
