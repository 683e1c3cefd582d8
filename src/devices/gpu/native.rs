//! [`Driver`] over a driver's library. The vendors' calls are alike: what they share is written here once, and a
//! [`Vendor`] says what differs.
//!
//! The functions are taken from the library by name, all at load, with types of our own: a missing one is an error and
//! not a panic in the middle of an answer, and a result is a number, as a newer library returns codes that no
//! enumeration knows.

use std::collections::HashMap;
use std::ffi::{CStr, c_int, c_uint, c_void};
use std::ptr::null_mut;
use std::sync::{Mutex, PoisonError};

use super::chip::Chip;
use super::driver::{
    ContextHandle, DeviceAddress, Driver, DriverError, DriverErrorKind, EventHandle, FunctionHandle, GpuInfo,
    ModuleHandle, StreamHandle,
};
use crate::devices::DeviceKind;
use image::{aligned_with_end, is_whole};
use library::text_until_nul;
use table::{Calls, call};
use vendor::{Stage, Vendor};

mod image;
pub mod library;
pub mod table;
#[cfg(test)]
mod tests;
pub mod vendor;

// Both vendors' numbers.
const NOT_READY: c_int = 600;
const PEER_ACCESS_ALREADY_ENABLED: c_int = 704;
const PINNED_PORTABLE: c_uint = 1;
const STREAM_NON_BLOCKING: c_uint = 1;
const EVENT_DEFAULT: c_uint = 0;
const EVENT_DISABLE_TIMING: c_uint = 2;

/// A loaded and started driver.
pub struct Native<V> {
    vendor: V,
    calls: Calls,
    /// Images of loaded modules: no vendor promises that it does not look at them later.
    images: Mutex<HashMap<usize, Box<[u64]>>>,
}

impl<V: Vendor> Native<V> {
    /// The library has been initialised.
    pub fn new(vendor: V, calls: Calls) -> Native<V> {
        Native { vendor, calls, images: Mutex::default() }
    }

    fn attribute(&self, device: c_int, attribute: c_int) -> Result<c_int, DriverError> {
        let mut value = 0;
        // SAFETY: `value` can be written to; numbers that the library does not know are errors.
        unsafe { call!(self.vendor, check_asked, self.calls.device_attribute, &mut value, attribute, device) }?;
        Ok(value)
    }

    fn device_name(&self, device: c_int) -> Result<String, DriverError> {
        let mut name = [0u8; 256];
        let length = name.len() as c_int;
        // SAFETY: the library writes at most `length` bytes.
        unsafe { call!(self.vendor, check_asked, self.calls.device_name, name.as_mut_ptr().cast(), length, device) }?;
        Ok(text_until_nul(&name).trim().to_owned())
    }
}

impl<V: Vendor> Driver for Native<V> {
    fn kind(&self) -> DeviceKind {
        V::KIND
    }

    fn version(&self) -> String {
        self.vendor.version().to_owned()
    }

    fn n_devices(&self) -> Result<u32, DriverError> {
        let mut n = 0;
        // SAFETY: `n` can be written to.
        unsafe { call!(self.vendor, check_asked, self.calls.n_devices, &mut n) }?;
        Ok(u32::try_from(n).unwrap_or(0))
    }

    fn info(&self, ordinal: u32) -> Result<GpuInfo, DriverError> {
        let device = self.vendor.device(ordinal)?;
        let number = |attribute| Ok(u32::try_from(self.attribute(device, attribute)?).unwrap_or(0));
        let arch = self.vendor.arch(&self.calls, device)?;
        let mut total_bytes = 0;
        // SAFETY: `total_bytes` can be written to.
        unsafe { call!(self.vendor, check_asked, self.calls.device_bytes, &mut total_bytes, device) }?;
        let chip = Chip {
            arch,
            wave_size: number(V::ATTRIBUTES.wave_size)?,
            n_multiprocessors: number(V::ATTRIBUTES.n_multiprocessors)?,
        };
        let is_integrated = number(V::ATTRIBUTES.is_integrated)? != 0;
        // Nice to know: no reason to refuse a device.
        let known = |attribute| number(attribute).ok();
        let memory_bytes_per_s = V::transfers_per_clock(arch).filter(|_| !is_integrated).and_then(|per_clock| {
            memory_rate(known(V::ATTRIBUTES.memory_clock)?, known(V::ATTRIBUTES.memory_bus_width)?, per_clock)
        });
        Ok(GpuInfo {
            ordinal,
            // Some chips have no name of a product.
            name: Some(self.device_name(device)?).filter(|name| !name.is_empty()).unwrap_or_else(|| arch.to_string()),
            pci: self.vendor.pci(&self.calls, device)?,
            chip,
            total_bytes: total_bytes as u64,
            is_integrated,
            memory_bytes_per_s,
        })
    }

    fn open(&self, ordinal: u32) -> Result<ContextHandle, DriverError> {
        self.vendor.open(self.vendor.device(ordinal)?)
    }

    fn close(&self, context: ContextHandle, ordinal: u32) {
        if let Ok(device) = self.vendor.device(ordinal) {
            self.vendor.close(context, device);
        }
    }

    fn bind(&self, context: ContextHandle) -> Result<(), DriverError> {
        self.vendor.bind(context)
    }

    fn memory(&self) -> Result<(u64, u64), DriverError> {
        let (mut free, mut total) = (0, 0);
        // SAFETY: both can be written to.
        unsafe { call!(self.vendor, check, self.calls.memory, &mut free, &mut total) }?;
        Ok((free as u64, total as u64))
    }

    fn alloc(&self, n_bytes: u64) -> Result<DeviceAddress, DriverError> {
        let mut address = 0;
        // Nothing is no size that a driver takes.
        let n_bytes = n_bytes.max(1) as usize;
        // SAFETY: `address` can be written to.
        unsafe { call!(self.vendor, check, self.calls.alloc, &mut address, n_bytes) }?;
        Ok(DeviceAddress(address))
    }

    fn free(&self, address: DeviceAddress) -> Result<(), DriverError> {
        // SAFETY: the library refuses what is no start of an allocation.
        unsafe { call!(self.vendor, check, self.calls.free, address.0) }
    }

    fn alloc_pinned(&self, n_bytes: usize) -> Result<*mut u8, DriverError> {
        let mut memory = null_mut();
        // SAFETY: `memory` can be written to.
        unsafe { call!(self.vendor, check, self.calls.alloc_pinned, &mut memory, n_bytes.max(1), PINNED_PORTABLE) }?;
        Ok(memory.cast())
    }

    unsafe fn free_pinned(&self, memory: *mut u8) -> Result<(), DriverError> {
        // SAFETY: the caller vouches that it came from `alloc_pinned` and is not used any more.
        unsafe { call!(self.vendor, check, self.calls.free_pinned, memory.cast()) }
    }

    fn create_stream(&self) -> Result<StreamHandle, DriverError> {
        let mut stream = 0;
        // SAFETY: `stream` can be written to.
        unsafe { call!(self.vendor, check, self.calls.create_stream, &mut stream, STREAM_NON_BLOCKING) }?;
        Ok(StreamHandle(stream))
    }

    fn destroy_stream(&self, stream: StreamHandle) -> Result<(), DriverError> {
        // SAFETY: a handle from `create_stream`; work in it goes on to its end.
        unsafe { call!(self.vendor, check, self.calls.destroy_stream, stream.0) }
    }

    fn sync_stream(&self, stream: StreamHandle) -> Result<(), DriverError> {
        // SAFETY: a handle from `create_stream`.
        unsafe { call!(self.vendor, check, self.calls.sync_stream, stream.0) }
    }

    fn wait_event(&self, stream: StreamHandle, event: EventHandle) -> Result<(), DriverError> {
        // SAFETY: handles from `create_stream` and `create_event`; there are no flags.
        unsafe { call!(self.vendor, check, self.calls.wait_event, stream.0, event.0, 0) }
    }

    fn create_event(&self, timed: bool) -> Result<EventHandle, DriverError> {
        let mut event = 0;
        let flags = if timed { EVENT_DEFAULT } else { EVENT_DISABLE_TIMING };
        // SAFETY: `event` can be written to.
        unsafe { call!(self.vendor, check, self.calls.create_event, &mut event, flags) }?;
        Ok(EventHandle(event))
    }

    fn destroy_event(&self, event: EventHandle) -> Result<(), DriverError> {
        // SAFETY: a handle from `create_event`.
        unsafe { call!(self.vendor, check, self.calls.destroy_event, event.0) }
    }

    fn record_event(&self, event: EventHandle, stream: StreamHandle) -> Result<(), DriverError> {
        // SAFETY: handles from `create_event` and `create_stream`.
        unsafe { call!(self.vendor, check, self.calls.record_event, event.0, stream.0) }
    }

    fn sync_event(&self, event: EventHandle) -> Result<(), DriverError> {
        // SAFETY: a handle from `create_event`.
        unsafe { call!(self.vendor, check, self.calls.sync_event, event.0) }
    }

    fn query_event(&self, event: EventHandle) -> Result<bool, DriverError> {
        let query = &self.calls.query_event;
        // SAFETY: a handle from `create_event`.
        match unsafe { (query.pointer)(event.0) } {
            NOT_READY => Ok(false),
            code => self.vendor.check(query.name, code).map(|()| true),
        }
    }

    fn elapsed_ms(&self, from: EventHandle, to: EventHandle) -> Result<f32, DriverError> {
        let mut ms = 0.0;
        // SAFETY: `ms` can be written to; handles from `create_event`.
        unsafe { call!(self.vendor, check, self.calls.elapsed_ms, &mut ms, from.0, to.0) }?;
        Ok(ms)
    }

    fn fill(&self, to: DeviceAddress, byte: u8, n_bytes: u64, stream: StreamHandle) -> Result<(), DriverError> {
        if n_bytes == 0 {
            return Ok(());
        }
        // SAFETY: only the device's memory is written to.
        unsafe { call!(self.vendor, check, self.calls.fill, to.0, byte, n_bytes as usize, stream.0) }
    }

    unsafe fn copy_to_device(
        &self,
        to: DeviceAddress,
        from: *const u8,
        n_bytes: usize,
        stream: StreamHandle,
    ) -> Result<(), DriverError> {
        if n_bytes == 0 {
            return Ok(());
        }
        // SAFETY: the caller vouches for `from`.
        unsafe { call!(self.vendor, check, self.calls.copy_to_device, to.0, from.cast(), n_bytes, stream.0) }
    }

    unsafe fn copy_to_host(
        &self,
        to: *mut u8,
        from: DeviceAddress,
        n_bytes: usize,
        stream: StreamHandle,
    ) -> Result<(), DriverError> {
        if n_bytes == 0 {
            return Ok(());
        }
        // SAFETY: the caller vouches for `to`.
        unsafe { call!(self.vendor, check, self.calls.copy_to_host, to.cast(), from.0, n_bytes, stream.0) }
    }

    fn copy_on_device(
        &self,
        to: DeviceAddress,
        from: DeviceAddress,
        n_bytes: u64,
        stream: StreamHandle,
    ) -> Result<(), DriverError> {
        if n_bytes == 0 {
            return Ok(());
        }
        // SAFETY: only the device's memory is touched.
        unsafe { call!(self.vendor, check, self.calls.copy_on_device, to.0, from.0, n_bytes as usize, stream.0) }
    }

    fn enable_peer(&self, ordinal: u32, peer: (ContextHandle, u32)) -> Result<bool, DriverError> {
        let (device, peer_device) = (self.vendor.device(ordinal)?, self.vendor.device(peer.1)?);
        let mut can = 0;
        // SAFETY: `can` can be written to.
        unsafe { call!(self.vendor, check, self.calls.can_access_peer, &mut can, device, peer_device) }?;
        if can == 0 {
            return Ok(false);
        }
        match self.vendor.enable_peer((peer.0, peer_device)) {
            (_, 0 | PEER_ACCESS_ALREADY_ENABLED) => Ok(true),
            (call, code) => Err(self.vendor.error(call, code, Stage::Using)),
        }
    }

    fn copy_peer(
        &self,
        to: (DeviceAddress, ContextHandle, u32),
        from: (DeviceAddress, ContextHandle, u32),
        n_bytes: u64,
        stream: StreamHandle,
    ) -> Result<(), DriverError> {
        if n_bytes == 0 {
            return Ok(());
        }
        let to = (to.0, to.1, self.vendor.device(to.2)?);
        let from = (from.0, from.1, self.vendor.device(from.2)?);
        self.vendor.copy_peer(to, from, n_bytes as usize, stream)
    }

    fn load_module(&self, image: &[u8]) -> Result<ModuleHandle, DriverError> {
        let load = &self.calls.load_module;
        if !is_whole(image) {
            let text = "the code object ends before its headers say it does".to_owned();
            return Err(DriverError { call: load.name, code: 0, text, kind: DriverErrorKind::Other });
        }
        let image = aligned_with_end(image);
        let mut module = 0;
        // SAFETY: `module` can be written to. The library finds the image's length in its headers, which lie inside
        // it, or reads text up to a NUL, which is there; the image lives as long as the module.
        unsafe { call!(self.vendor, check, load, &mut module, image.as_ptr().cast()) }?;
        self.images.lock().unwrap_or_else(PoisonError::into_inner).insert(module, image);
        Ok(ModuleHandle(module))
    }

    fn unload_module(&self, module: ModuleHandle) -> Result<(), DriverError> {
        // Before the library can give the handle to another module.
        let image = self.images.lock().unwrap_or_else(PoisonError::into_inner).remove(&module.0);
        // SAFETY: a handle from `load_module`.
        let result = unsafe { call!(self.vendor, check, self.calls.unload_module, module.0) };
        drop(image);
        result
    }

    fn function(&self, module: ModuleHandle, name: &CStr) -> Result<FunctionHandle, DriverError> {
        let mut function = 0;
        // SAFETY: `function` can be written to, a handle from `load_module`, and the name ends with a NUL.
        unsafe { call!(self.vendor, check, self.calls.function, &mut function, module.0, name.as_ptr()) }?;
        Ok(FunctionHandle(function))
    }

    unsafe fn launch(
        &self,
        function: FunctionHandle,
        [x, y, z]: [u32; 3],
        block: u32,
        params: &mut [*mut c_void],
        stream: StreamHandle,
    ) -> Result<(), DriverError> {
        let (launch, params, stream) = (&self.calls.launch, params.as_mut_ptr(), stream.0);
        // SAFETY: the caller vouches for the parameters; there are no other options.
        unsafe { call!(self.vendor, check, launch, function.0, x, y, z, block, 1, 1, 0, stream, params, null_mut()) }
    }
}

/// Bytes per second, from a clock in kHz and a bus in bits.
fn memory_rate(clock: u32, bus_width: u32, per_clock: u64) -> Option<u64> {
    let rate = u64::from(clock) * 1000 * per_clock * u64::from(bus_width) / 8;
    (rate > 0).then_some(rate)
}
