//! What differs between the vendors' libraries.

use std::ffi::c_int;

use super::table::Calls;
use crate::devices::DeviceKind;
use crate::devices::gpu::chip::{Arch, PciAddress};
use crate::devices::gpu::driver::{ContextHandle, DeviceAddress, DriverError, DriverErrorKind, StreamHandle};

/// When an error came: a device that is not there was never there, or is lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    /// Looking for devices and opening them.
    Asking,
    /// A context was open.
    Using,
}

/// A vendor's numbers of device attributes.
pub struct Attributes {
    pub wave_size: c_int,
    pub n_multiprocessors: c_int,
    pub is_integrated: c_int,
    /// In kHz.
    pub memory_clock: c_int,
    /// In bits.
    pub memory_bus_width: c_int,
}

/// What differs between vendors.
pub trait Vendor: Send + Sync {
    const KIND: DeviceKind;
    const ATTRIBUTES: Attributes;

    /// For people, as [`Driver::version`].
    fn version(&self) -> &str;

    /// The library's words for a code.
    fn text(&self, code: c_int) -> String;

    fn error_kind(code: c_int, stage: Stage) -> DriverErrorKind;

    /// The library's number of a device.
    fn device(&self, ordinal: u32) -> Result<c_int, DriverError>;

    fn pci(&self, calls: &Calls, device: c_int) -> Result<PciAddress, DriverError>;

    fn arch(&self, calls: &Calls, device: c_int) -> Result<Arch, DriverError>;

    /// Bits that a line of the memory bus carries in a cycle of the clock that the driver tells, where known.
    fn transfers_per_clock(arch: Arch) -> Option<u64>;

    fn open(&self, device: c_int) -> Result<ContextHandle, DriverError>;

    fn close(&self, context: ContextHandle, device: c_int);

    fn bind(&self, context: ContextHandle) -> Result<(), DriverError>;

    /// The name of the call and its code: it is no error that access was enabled already.
    fn enable_peer(&self, peer: (ContextHandle, c_int)) -> (&'static str, c_int);

    fn copy_peer(
        &self,
        to: (DeviceAddress, ContextHandle, c_int),
        from: (DeviceAddress, ContextHandle, c_int),
        n_bytes: usize,
        stream: StreamHandle,
    ) -> Result<(), DriverError>;

    fn error(&self, call: &'static str, code: c_int, stage: Stage) -> DriverError {
        DriverError { call, code: code.into(), text: self.text(code), kind: Self::error_kind(code, stage) }
    }

    /// Of a call in a bound context.
    fn check(&self, call: &'static str, code: c_int) -> Result<(), DriverError> {
        if code == 0 { Ok(()) } else { Err(self.error(call, code, Stage::Using)) }
    }

    /// Of a call before there is a context.
    fn check_asked(&self, call: &'static str, code: c_int) -> Result<(), DriverError> {
        if code == 0 { Ok(()) } else { Err(self.error(call, code, Stage::Asking)) }
    }
}
