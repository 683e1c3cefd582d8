//! What the engine asks of a GPU driver, in handle types of our own. Nothing above this trait knows the vendor.
//!
//! Handles are plain numbers; [`super::handles`] wraps them in owners that free them. All calls but the first group
//! want the context bound to the calling thread ([`Driver::bind`]).

use std::ffi::{CStr, c_void};

use crate::devices::DeviceKind;
use crate::devices::gpu::chip::{Chip, PciAddress};

/// A device's context. With drivers that have none, the device's number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ContextHandle(pub usize);
/// An address in a device's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeviceAddress(pub u64);
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StreamHandle(pub usize);
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EventHandle(pub usize);
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ModuleHandle(pub usize);
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FunctionHandle(pub usize);

/// What a driver's error means to those above.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DriverErrorKind {
    OutOfMemory,
    /// The device or its context is broken for good: every later call fails too.
    DeviceLost,
    /// No device, no permission, a driver that is too old.
    Unavailable,
    Other,
}

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{call} failed: {text} ({code})")]
pub struct DriverError {
    /// The driver's own name of the call.
    pub call: &'static str,
    pub code: i64,
    /// The driver's words.
    pub text: String,
    pub kind: DriverErrorKind,
}

/// What is known of a device before a context exists.
#[derive(Clone, PartialEq, Debug)]
pub struct GpuInfo {
    pub ordinal: u32,
    pub name: String,
    pub pci: PciAddress,
    pub chip: Chip,
    pub total_bytes: u64,
    /// Shares the host's memory.
    pub is_integrated: bool,
    /// Bytes per second, from clock and bus width, where the driver tells them.
    pub memory_bytes_per_s: Option<u64>,
}

pub trait Driver: Send + Sync {
    fn kind(&self) -> DeviceKind;

    /// For people: "CUDA 13.0 (driver 580.159)", "HIP 6.2".
    fn version(&self) -> String;

    fn n_devices(&self) -> Result<u32, DriverError>;

    fn info(&self, ordinal: u32) -> Result<GpuInfo, DriverError>;

    /// The device's context, made if need be. Each `open` is followed by one `close`.
    fn open(&self, ordinal: u32) -> Result<ContextHandle, DriverError>;

    fn close(&self, context: ContextHandle, ordinal: u32);

    /// Makes the context the calling thread's. Cheap where it is already.
    fn bind(&self, context: ContextHandle) -> Result<(), DriverError>;

    /// Free and total bytes.
    fn memory(&self) -> Result<(u64, u64), DriverError>;

    fn alloc(&self, n_bytes: u64) -> Result<DeviceAddress, DriverError>;

    fn free(&self, address: DeviceAddress) -> Result<(), DriverError>;

    /// Host memory that the device copies from and to without the driver's help.
    fn alloc_pinned(&self, n_bytes: usize) -> Result<*mut u8, DriverError>;

    /// # Safety
    /// `memory` came from [`Driver::alloc_pinned`] and nothing uses it any more.
    unsafe fn free_pinned(&self, memory: *mut u8) -> Result<(), DriverError>;

    /// A stream that does not wait for the default one.
    fn create_stream(&self) -> Result<StreamHandle, DriverError>;

    fn destroy_stream(&self, stream: StreamHandle) -> Result<(), DriverError>;

    fn sync_stream(&self, stream: StreamHandle) -> Result<(), DriverError>;

    /// Work queued from now on waits for the event as it was last recorded.
    fn wait_event(&self, stream: StreamHandle, event: EventHandle) -> Result<(), DriverError>;

    /// `timed`: it can be asked for times, which costs a little. Waiting for it is left to the driver, which spins at
    /// first: to sleep would add some 50 µs to each token.
    fn create_event(&self, timed: bool) -> Result<EventHandle, DriverError>;

    fn destroy_event(&self, event: EventHandle) -> Result<(), DriverError>;

    fn record_event(&self, event: EventHandle, stream: StreamHandle) -> Result<(), DriverError>;

    fn sync_event(&self, event: EventHandle) -> Result<(), DriverError>;

    /// Whether all work before the event is done.
    fn query_event(&self, event: EventHandle) -> Result<bool, DriverError>;

    /// Milliseconds between two timed events that have happened.
    fn elapsed_ms(&self, from: EventHandle, to: EventHandle) -> Result<f32, DriverError>;

    fn fill(&self, to: DeviceAddress, byte: u8, n_bytes: u64, stream: StreamHandle) -> Result<(), DriverError>;

    /// # Safety
    /// `from` is good for `n_bytes` until the copy has ended.
    unsafe fn copy_to_device(
        &self,
        to: DeviceAddress,
        from: *const u8,
        n_bytes: usize,
        stream: StreamHandle,
    ) -> Result<(), DriverError>;

    /// # Safety
    /// `to` is good for `n_bytes` until the copy has ended, and nothing else touches it.
    unsafe fn copy_to_host(
        &self,
        to: *mut u8,
        from: DeviceAddress,
        n_bytes: usize,
        stream: StreamHandle,
    ) -> Result<(), DriverError>;

    /// Inside one device.
    fn copy_on_device(
        &self,
        to: DeviceAddress,
        from: DeviceAddress,
        n_bytes: u64,
        stream: StreamHandle,
    ) -> Result<(), DriverError>;

    /// Whether the device `ordinal` can read the memory of `peer` directly; enables it in the bound context.
    fn enable_peer(&self, ordinal: u32, peer: (ContextHandle, u32)) -> Result<bool, DriverError>;

    /// Between two devices of this driver. Contexts with their devices' numbers.
    fn copy_peer(
        &self,
        to: (DeviceAddress, ContextHandle, u32),
        from: (DeviceAddress, ContextHandle, u32),
        n_bytes: u64,
        stream: StreamHandle,
    ) -> Result<(), DriverError>;

    fn load_module(&self, image: &[u8]) -> Result<ModuleHandle, DriverError>;

    fn unload_module(&self, module: ModuleHandle) -> Result<(), DriverError>;

    fn function(&self, module: ModuleHandle, name: &CStr) -> Result<FunctionHandle, DriverError>;

    /// # Safety
    /// `params` are what the kernel takes, each pointing to a value of its type; addresses in them are good for what
    /// the kernel does, until it has ended.
    unsafe fn launch(
        &self,
        function: FunctionHandle,
        grid: [u32; 3],
        block: u32,
        params: &mut [*mut c_void],
        stream: StreamHandle,
    ) -> Result<(), DriverError>;
}
