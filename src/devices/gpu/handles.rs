//! Owners of what a driver hands out: each frees what it holds when dropped, and each knows its context.
//!
//! Calls go through a [`Bound`]: proof that the context is the calling thread's. A device that is lost once is lost for
//! good: [`Context::bind`] then says so at once, and owners leave their handles to the driver, which has already
//! dropped what was behind them.
//!
//! Addresses in device memory are numbers, not pointers: a wrong one spoils a result or loses the device, never this
//! process's memory. Host memory that a device reads or writes is kept safe by [`PinnedMemory`].

use std::ffi::CStr;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use super::driver::{
    ContextHandle, DeviceAddress, Driver, DriverError, DriverErrorKind, EventHandle, FunctionHandle, ModuleHandle,
    StreamHandle,
};
use crate::devices::{DeviceError, DeviceId};

/// How long [`Event::wait_soon`] asks before it sleeps.
const SPIN: Duration = Duration::from_micros(60);

/// A device's context, closed with its last owner.
pub struct Context {
    driver: Arc<dyn Driver>,
    handle: ContextHandle,
    ordinal: u32,
    device: DeviceId,
    /// Why the device is lost, once it is.
    lost: OnceLock<String>,
}

impl Context {
    pub fn open(driver: Arc<dyn Driver>, ordinal: u32, device: DeviceId) -> Result<Arc<Context>, DeviceError> {
        let handle = driver.open(ordinal).map_err(|error| translate(device, &error))?;
        Ok(Arc::new(Context { driver, handle, ordinal, device, lost: OnceLock::new() }))
    }

    pub fn device(&self) -> DeviceId {
        self.device
    }

    /// For calls that name two devices.
    pub fn peer(&self) -> (ContextHandle, u32) {
        (self.handle, self.ordinal)
    }

    /// Makes the context the calling thread's. It stays so while the thread binds no other one.
    ///
    /// # Errors
    /// [`DeviceError::Lost`] from the first loss on.
    pub fn bind(self: &Arc<Context>) -> Result<Bound<'_>, DeviceError> {
        if let Some(message) = self.lost.get() {
            return Err(DeviceError::Lost { device: self.device, message: message.clone() });
        }
        self.driver.bind(self.handle).map_err(|error| self.error(&error, None))?;
        Ok(Bound { context: self, thread: PhantomData })
    }

    /// What a driver's error is to the engine. `wanted`: what memory was asked for.
    fn error(&self, error: &DriverError, wanted: Option<(&str, u64)>) -> DeviceError {
        let device = self.device;
        match error.kind {
            DriverErrorKind::OutOfMemory => {
                let (what, needed_bytes) = wanted.unwrap_or((error.call, 0));
                let free_bytes = self.driver.memory().map_or(0, |(free_bytes, _)| free_bytes);
                DeviceError::OutOfMemory { device, what: what.to_owned(), needed_bytes, free_bytes }
            }
            DriverErrorKind::DeviceLost => {
                let message = self.lost.get_or_init(|| error.to_string()).clone();
                DeviceError::Lost { device, message }
            }
            DriverErrorKind::Unavailable | DriverErrorKind::Other => translate(device, error),
        }
    }

    /// For drops: nothing is asked of a lost device, and there is nobody to tell of an error.
    fn quietly(&self, call: impl FnOnce(&dyn Driver) -> Result<(), DriverError>) {
        if self.lost.get().is_some() {
            return;
        }
        let driver = &*self.driver;
        if let Err(error) = driver.bind(self.handle).and_then(|()| call(driver)) {
            let error = self.error(&error, None);
            tracing::warn!("while freeing: {error}");
        }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        self.driver.close(self.handle, self.ordinal);
    }
}

fn translate(device: DeviceId, error: &DriverError) -> DeviceError {
    let message = error.to_string();
    match error.kind {
        DriverErrorKind::DeviceLost => DeviceError::Lost { device, message },
        DriverErrorKind::OutOfMemory | DriverErrorKind::Unavailable | DriverErrorKind::Other => {
            DeviceError::Failed { device, message }
        }
    }
}

/// A context that is the calling thread's. Not sent to another thread, where it would not be.
#[derive(Clone, Copy)]
pub struct Bound<'a> {
    context: &'a Arc<Context>,
    thread: PhantomData<*const ()>,
}

impl<'a> Bound<'a> {
    pub fn context(self) -> &'a Arc<Context> {
        self.context
    }

    pub fn device(self) -> DeviceId {
        self.context.device
    }

    /// A driver call.
    pub fn call<T>(self, call: impl FnOnce(&dyn Driver) -> Result<T, DriverError>) -> Result<T, DeviceError> {
        call(&*self.context.driver).map_err(|error| self.context.error(&error, None))
    }

    /// A driver call that takes memory.
    fn call_for<T>(
        self,
        what: &str,
        n_bytes: u64,
        call: impl FnOnce(&dyn Driver) -> Result<T, DriverError>,
    ) -> Result<T, DeviceError> {
        call(&*self.context.driver).map_err(|error| self.context.error(&error, Some((what, n_bytes))))
    }
}

/// One allocation in a device's memory.
pub struct DeviceMemory {
    context: Arc<Context>,
    address: DeviceAddress,
    n_bytes: u64,
}

impl DeviceMemory {
    /// `what` names it where there is no room.
    pub fn new(bound: Bound<'_>, what: &str, n_bytes: u64) -> Result<DeviceMemory, DeviceError> {
        let address = bound.call_for(what, n_bytes, |driver| driver.alloc(n_bytes))?;
        Ok(DeviceMemory { context: bound.context.clone(), address, n_bytes })
    }

    pub fn address(&self) -> DeviceAddress {
        self.address
    }

    pub fn n_bytes(&self) -> u64 {
        self.n_bytes
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        self.context.quietly(|driver| driver.free(self.address));
    }
}

pub struct Stream {
    context: Arc<Context>,
    handle: StreamHandle,
}

impl Stream {
    pub fn new(bound: Bound<'_>) -> Result<Stream, DeviceError> {
        let handle = bound.call(|driver| driver.create_stream())?;
        Ok(Stream { context: bound.context.clone(), handle })
    }

    pub fn handle(&self) -> StreamHandle {
        self.handle
    }

    /// Waits until everything queued is done.
    pub fn sync(&self, bound: Bound<'_>) -> Result<(), DeviceError> {
        bound.call(|driver| driver.sync_stream(self.handle))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.context.quietly(|driver| driver.destroy_stream(self.handle));
    }
}

pub struct Event {
    context: Arc<Context>,
    handle: EventHandle,
}

impl Event {
    pub fn new(bound: Bound<'_>) -> Result<Event, DeviceError> {
        let handle = bound.call(|driver| driver.create_event(false))?;
        Ok(Event { context: bound.context.clone(), handle })
    }

    pub fn record(&self, bound: Bound<'_>, stream: &Stream) -> Result<(), DeviceError> {
        bound.call(|driver| driver.record_event(self.handle, stream.handle))
    }

    pub fn is_done(&self, bound: Bound<'_>) -> Result<bool, DeviceError> {
        bound.call(|driver| driver.query_event(self.handle))
    }

    /// Sleeps until it has happened.
    pub fn wait(&self, bound: Bound<'_>) -> Result<(), DeviceError> {
        if self.is_done(bound)? { Ok(()) } else { bound.call(|driver| driver.sync_event(self.handle)) }
    }

    /// For what takes microseconds, where waking from sleep would be most of the time.
    pub fn wait_soon(&self, bound: Bound<'_>) -> Result<(), DeviceError> {
        let started = Instant::now();
        while !self.is_done(bound)? {
            if started.elapsed() > SPIN {
                return bound.call(|driver| driver.sync_event(self.handle));
            }
            std::hint::spin_loop();
        }
        Ok(())
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        self.context.quietly(|driver| driver.destroy_event(self.handle));
    }
}

/// Compiled kernels on a device.
pub struct Module {
    context: Arc<Context>,
    handle: ModuleHandle,
}

impl Module {
    pub fn new(bound: Bound<'_>, image: &[u8]) -> Result<Module, DeviceError> {
        let handle = bound.call_for("kernels", image.len() as u64, |driver| driver.load_module(image))?;
        Ok(Module { context: bound.context.clone(), handle })
    }

    pub fn function(self: &Arc<Module>, bound: Bound<'_>, name: &CStr) -> Result<Function, DeviceError> {
        let handle = bound.call(|driver| driver.function(self.handle, name))?;
        Ok(Function { handle, _module: self.clone() })
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        self.context.quietly(|driver| driver.unload_module(self.handle));
    }
}

/// A kernel; keeps its module loaded.
#[derive(Clone)]
pub struct Function {
    handle: FunctionHandle,
    _module: Arc<Module>,
}

impl Function {
    pub fn handle(&self) -> FunctionHandle {
        self.handle
    }
}

/// Host memory that the device copies from and to, with the copy that may be under way: the bytes are reached only when
/// that has ended.
pub struct PinnedMemory {
    context: Arc<Context>,
    start: NonNull<u8>,
    n_bytes: usize,
    /// Recorded behind the last copy.
    copied: Event,
    is_copying: bool,
}

// SAFETY: plain bytes, owned; pinned memory belongs to no thread.
unsafe impl Send for PinnedMemory {}

impl PinnedMemory {
    pub fn new(bound: Bound<'_>, n_bytes: usize) -> Result<PinnedMemory, DeviceError> {
        let copied = Event::new(bound)?;
        let start = bound.call_for("pinned host memory", n_bytes as u64, |driver| driver.alloc_pinned(n_bytes))?;
        let start = NonNull::new(start).ok_or_else(|| DeviceError::Failed {
            device: bound.device(),
            message: format!("its driver gave no pinned host memory of {n_bytes} bytes"),
        })?;
        // SAFETY: `n_bytes` of fresh memory that nothing else uses; zeroed, so that it is initialised from here on.
        unsafe { start.write_bytes(0, n_bytes) };
        Ok(PinnedMemory { context: bound.context.clone(), start, n_bytes, copied, is_copying: false })
    }

    pub fn n_bytes(&self) -> usize {
        self.n_bytes
    }

    pub fn is_idle(&self, bound: Bound<'_>) -> Result<bool, DeviceError> {
        if self.is_copying { self.copied.is_done(bound) } else { Ok(true) }
    }

    /// Waits until the last copy has ended.
    pub fn wait(&mut self, bound: Bound<'_>) -> Result<(), DeviceError> {
        if self.is_copying {
            self.copied.wait_soon(bound)?;
            self.is_copying = false;
        }
        Ok(())
    }

    /// The bytes, when no copy is under way any more.
    pub fn bytes(&mut self, bound: Bound<'_>) -> Result<&mut [u8], DeviceError> {
        self.wait(bound)?;
        // SAFETY: owned and initialised, and the device is done with it.
        Ok(unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.n_bytes) })
    }

    /// Queues a copy of the first `n_bytes`.
    pub fn send(
        &mut self,
        bound: Bound<'_>,
        stream: &Stream,
        to: DeviceAddress,
        n_bytes: usize,
    ) -> Result<(), DeviceError> {
        self.begin(bound, n_bytes)?;
        // SAFETY: inside the allocation, which is neither written nor freed before `copied` has happened.
        bound.call(|driver| unsafe { driver.copy_to_device(to, self.start.as_ptr(), n_bytes, stream.handle) })?;
        self.record(bound, stream)
    }

    /// Queues a copy into the first `n_bytes`.
    pub fn receive(
        &mut self,
        bound: Bound<'_>,
        stream: &Stream,
        from: DeviceAddress,
        n_bytes: usize,
    ) -> Result<(), DeviceError> {
        self.begin(bound, n_bytes)?;
        // SAFETY: inside the allocation, which is neither read, written nor freed before `copied` has happened.
        bound.call(|driver| unsafe { driver.copy_to_host(self.start.as_ptr(), from, n_bytes, stream.handle) })?;
        self.record(bound, stream)
    }

    fn record(&self, bound: Bound<'_>, stream: &Stream) -> Result<(), DeviceError> {
        let recorded = self.copied.record(bound, stream);
        if recorded.is_err() {
            // Without an event to wait for, the copy is waited for here.
            stream.sync(bound)?;
        }
        recorded
    }

    fn begin(&mut self, bound: Bound<'_>, n_bytes: usize) -> Result<(), DeviceError> {
        if n_bytes > self.n_bytes {
            let (n_bytes, buffer_bytes) = (n_bytes as u64, self.n_bytes as u64);
            let what = "a pinned copy";
            return Err(DeviceError::OutOfRange { device: bound.device(), what, offset: 0, n_bytes, buffer_bytes });
        }
        self.wait(bound)?;
        self.is_copying = true;
        Ok(())
    }
}

impl Drop for PinnedMemory {
    fn drop(&mut self) {
        let waited = || {
            let bound = self.context.bind()?;
            if self.is_copying { self.copied.wait(bound) } else { Ok(()) }
        };
        // With an unfinished copy, memory that nobody frees is better than memory that the device still writes to.
        if waited().is_ok() {
            // SAFETY: it came from `alloc_pinned`, and the last copy has ended.
            self.context.quietly(|driver| unsafe { driver.free_pinned(self.start.as_ptr()) });
        }
    }
}
