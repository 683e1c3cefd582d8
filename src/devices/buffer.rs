//! Memory on a device.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use super::{DeviceError, DeviceId};

/// Memory on one device, freed with its last clone. It carries its device, so that giving it to another one is an
/// error and not wrong text.
#[derive(Clone)]
pub struct Buffer {
    device: DeviceId,
    n_bytes: u64,
    storage: Arc<dyn Any + Send + Sync>,
}

impl Buffer {
    /// For devices: wraps what they allocated.
    pub fn new(device: DeviceId, n_bytes: u64, storage: Arc<dyn Any + Send + Sync>) -> Buffer {
        Buffer { device, n_bytes, storage }
    }

    pub fn device(&self) -> DeviceId {
        self.device
    }

    pub fn n_bytes(&self) -> u64 {
        self.n_bytes
    }

    /// The storage, if it is of the kind that `device` makes.
    pub fn storage<T: 'static>(&self, device: DeviceId) -> Result<&T, DeviceError> {
        if self.device != device {
            return Err(DeviceError::WrongDevice { expected: device, actual: self.device });
        }
        self.storage.downcast_ref().ok_or(DeviceError::WrongDevice { expected: device, actual: self.device })
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({}, {} bytes)", self.device, self.n_bytes)
    }
}
