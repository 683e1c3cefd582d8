//! Kernels on a device: modules loaded once, functions found once.

use std::collections::HashMap;
use std::ffi::CString;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::chip::Chip;
use super::handles::{Bound, Context, Function, Module};
use super::images::{ImagesError, KernelImages};
use super::unit::Unit;
use crate::devices::{DeviceError, Prepared};

/// All kernels of one device. Modules stay loaded as long as it lives.
pub struct Kernels {
    chip: Chip,
    images: Arc<dyn KernelImages>,
    units: Mutex<HashMap<Unit, Loaded>>,
}

struct Loaded {
    module: Arc<Module>,
    functions: HashMap<&'static str, Function>,
}

impl Kernels {
    pub fn new(chip: Chip, images: Arc<dyn KernelImages>) -> Kernels {
        Kernels { chip, images, units: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Unit, Loaded>> {
        self.units.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Loads what is not loaded yet. Compiling happens outside of the lock: the device runs on meanwhile.
    pub fn prepare(
        &self,
        context: &Arc<Context>,
        units: &[Unit],
        cancel: &AtomicBool,
        progress: &(dyn Fn(Prepared) + Sync),
    ) -> Result<(), DeviceError> {
        let device = context.device();
        let mut missing: Vec<Unit> = units.to_vec();
        missing.sort();
        missing.dedup();
        let n_total = missing.len();
        {
            let loaded = self.lock();
            missing.retain(|unit| !loaded.contains_key(unit));
        }
        let n_ready = n_total - missing.len();
        progress(Prepared { n_done: n_ready, n_total });
        if missing.is_empty() {
            return Ok(());
        }
        let report = |made: Prepared| progress(Prepared { n_done: n_ready + made.n_done.min(missing.len()), n_total });
        let images = self.images.images(&self.chip, &missing, cancel, &report).map_err(|error| match error {
            ImagesError::Stopped => DeviceError::Stopped,
            ImagesError::Failed(message) => DeviceError::Kernels { device, message },
        })?;
        if images.len() != missing.len() {
            let message = format!("{} kernel images for {} units", images.len(), missing.len());
            return Err(DeviceError::Kernels { device, message });
        }
        let bound = context.bind()?;
        for (unit, image) in missing.into_iter().zip(&images) {
            let module = Module::new(bound, image).map_err(|error| named(error, &unit))?;
            self.lock().entry(unit).or_insert_with(|| Loaded { module: Arc::new(module), functions: HashMap::new() });
        }
        Ok(())
    }

    /// The kernel `entry` of a unit; `None` where the unit is not loaded.
    pub fn function(
        &self,
        bound: Bound<'_>,
        unit: &Unit,
        entry: &'static str,
    ) -> Result<Option<Function>, DeviceError> {
        let mut units = self.lock();
        let Some(loaded) = units.get_mut(unit) else { return Ok(None) };
        if let Some(function) = loaded.functions.get(entry) {
            return Ok(Some(function.clone()));
        }
        let name = CString::new(entry).map_err(|_| DeviceError::Kernels {
            device: bound.device(),
            message: format!("'{entry}' is no kernel name"),
        })?;
        let function = loaded.module.function(bound, &name).map_err(|error| named(error, unit))?;
        loaded.functions.insert(entry, function.clone());
        Ok(Some(function))
    }
}

/// A failure with the unit that it is of.
fn named(error: DeviceError, unit: &Unit) -> DeviceError {
    match error {
        DeviceError::Failed { device, message } => {
            DeviceError::Kernels { device, message: format!("{unit}: {message}") }
        }
        other => other,
    }
}
