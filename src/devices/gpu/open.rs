//! From the GPUs of this machine to devices: those that the user leaves to the program.

use std::path::PathBuf;
use std::sync::Arc;

use super::compile::{KernelOptions, KernelStore};
use super::device::GpuDevice;
use super::find::{Found, FoundGpu};
use crate::devices::{Device, DeviceError};

/// What a user says about GPUs.
#[derive(Clone, Default, Debug)]
pub struct GpuChoice {
    /// Ids or PCI addresses.
    pub exclude: Vec<String>,
    /// A folder of kernels that were built ahead.
    pub kernels: Option<PathBuf>,
}

/// A GPU's id or PCI address.
fn is_called(gpu: &FoundGpu, name: &str) -> bool {
    gpu.id.to_string().eq_ignore_ascii_case(name) || name.parse() == Ok(gpu.info.pci)
}

impl GpuChoice {
    pub fn excludes(&self, gpu: &FoundGpu) -> bool {
        self.exclude.iter().any(|name| is_called(gpu, name))
    }

    /// Names in `exclude` that no GPU has.
    pub fn unknown<'a>(&'a self, found: &Found) -> Vec<&'a str> {
        let is_unknown = |name: &&String| !found.gpus.iter().any(|gpu| is_called(gpu, name));
        self.exclude.iter().filter(is_unknown).map(String::as_str).collect()
    }

    /// The devices that are left, which share one store of kernels. None of them is touched yet.
    pub fn open(&self, found: &Found) -> Result<Vec<Arc<dyn Device>>, DeviceError> {
        let kernels = Arc::new(KernelStore::new(KernelOptions::of_program(self.kernels.clone())));
        let wanted = found.gpus.iter().filter(|gpu| !self.excludes(gpu));
        wanted
            .map(|gpu| {
                let device = GpuDevice::new(gpu.id, gpu.driver.clone(), gpu.info.clone(), kernels.clone())?;
                Ok(Arc::new(device) as Arc<dyn Device>)
            })
            .collect()
    }
}
