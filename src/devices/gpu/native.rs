//! [`Driver`] over a driver's library. The vendors' calls are alike: what they share is written here once, and a
//! [`Vendor`] says what differs.
//!
//! The functions are taken from the library by name, all at load, with types of our own: a missing one is an error and
//! not a panic in the middle of an answer, and a result is a number, as a newer library returns codes that no
//! enumeration knows.

use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::fs::File;
use std::io::ErrorKind;
use std::path::Path;
use std::ptr::null_mut;
use std::sync::{Mutex, PoisonError};

use libloading::Library;

use super::chip::{Arch, Chip, PciAddress};
use super::driver::{
    ContextHandle, DeviceAddress, Driver, DriverError, DriverErrorKind, EventHandle, FunctionHandle, GpuInfo,
    ModuleHandle, StreamHandle,
};
use crate::devices::DeviceKind;

/// Why there is nothing of a driver, or not one of its devices: a line for people.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{message}")]
pub struct Unavailable {
    pub kind: DeviceKind,
    pub message: String,
    /// Libraries that were looked for and not loaded.
    pub tried: Vec<String>,
}

/// A function of a library, with its name for errors.
pub struct Function<F> {
    pub name: &'static str,
    pub pointer: F,
}

/// A table of functions that return 0 or an error's code, and the names under which a library has them.
macro_rules! function_table {
    ($(#[$meta:meta])* $table:ident, $names:ident { $($field:ident: fn($($argument:ty),* $(,)?);)* }) => {
        $(#[$meta])*
        pub struct $table {
            $(pub $field: $crate::devices::gpu::native::Function<
                unsafe extern "C" fn($($argument),*) -> std::ffi::c_int,
            >,)*
        }

        /// Names of the functions in a library.
        pub struct $names {
            $(pub $field: &'static str,)*
        }

        impl $table {
            /// # Safety
            /// The library's functions of these names have these types.
            ///
            /// # Errors
            /// The name that is missing.
            pub unsafe fn load(
                library: &'static libloading::Library,
                names: &$names,
            ) -> Result<$table, &'static str> {
                Ok($table {
                    $($field: $crate::devices::gpu::native::Function {
                        name: names.$field,
                        // SAFETY: the caller vouches for the type; the library is never unloaded.
                        pointer: *unsafe { library.get(names.$field) }.map_err(|_| names.$field)?,
                    },)*
                })
            }
        }
    };
}
pub(super) use function_table;

function_table! {
    /// Calls that differ in nothing but their names. Devices are `int`; addresses and handles are as wide as a pointer.
    Calls, CallNames {
        init: fn(c_uint);
        version: fn(*mut c_int);
        n_devices: fn(*mut c_int);
        device_name: fn(*mut c_char, c_int, c_int);
        device_bytes: fn(*mut usize, c_int);
        device_attribute: fn(*mut c_int, c_int, c_int);
        memory: fn(*mut usize, *mut usize);
        alloc: fn(*mut u64, usize);
        free: fn(u64);
        alloc_pinned: fn(*mut *mut c_void, usize, c_uint);
        free_pinned: fn(*mut c_void);
        create_stream: fn(*mut usize, c_uint);
        destroy_stream: fn(usize);
        sync_stream: fn(usize);
        wait_event: fn(usize, usize, c_uint);
        create_event: fn(*mut usize, c_uint);
        destroy_event: fn(usize);
        record_event: fn(usize, usize);
        sync_event: fn(usize);
        query_event: fn(usize);
        elapsed_ms: fn(*mut f32, usize, usize);
        fill: fn(u64, u8, usize, usize);
        copy_to_device: fn(u64, *const c_void, usize, usize);
        copy_to_host: fn(*mut c_void, u64, usize, usize);
        copy_on_device: fn(u64, u64, usize, usize);
        can_access_peer: fn(*mut c_int, c_int, c_int);
        load_module: fn(*mut usize, *const c_void);
        unload_module: fn(usize);
        function: fn(*mut usize, usize, *const c_char);
        launch: fn(
            usize, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, usize, *mut *mut c_void, *mut *mut c_void,
        );
    }
}

// Both vendors' numbers.
const NOT_READY: c_int = 600;
const PEER_ACCESS_ALREADY_ENABLED: c_int = 704;
const PINNED_PORTABLE: c_uint = 1;
const STREAM_NON_BLOCKING: c_uint = 1;
const EVENT_DEFAULT: c_uint = 0;
const EVENT_DISABLE_TIMING: c_uint = 2;

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

/// Calls a function of a table: an expression for an `unsafe` block.
macro_rules! call {
    ($vendor:expr, $check:ident, $function:expr $(, $argument:expr)*) => {
        $vendor.$check($function.name, ($function.pointer)($($argument),*))
    };
}
pub(super) use call;

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

/// The text that a library wrote into `bytes`.
pub fn text_until_nul(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes.split(|byte| *byte == 0).next().unwrap_or_default()).into_owned()
}

/// Whether an ELF file's header tables lie inside it. The section headers stand at its end, so a file that was cut off
/// is not whole. Other formats are not looked into.
fn is_whole(image: &[u8]) -> bool {
    if !image.starts_with(b"\x7fELF") {
        return !image.is_empty();
    }
    let u16_at = |at| image.get(at..at + 2).map(|bytes| u64::from(u16::from_le_bytes([bytes[0], bytes[1]])));
    let u64_at = |at: usize| Some(u64::from_le_bytes(image.get(at..at + 8)?.try_into().ok()?));
    // Offset, size of one and number, of program and of section headers (ELF-64).
    [(32, 54, 56), (40, 58, 60)].into_iter().all(|(offset, size, n)| {
        let end = || u64_at(offset)?.checked_add(u16_at(size)? * u16_at(n)?);
        end().is_some_and(|end| end <= image.len() as u64)
    })
}

/// A copy at an address that headers can be read from, with zeros behind it.
fn aligned_with_end(image: &[u8]) -> Box<[u64]> {
    let words = image.chunks(8).map(|bytes| {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        u64::from_ne_bytes(word)
    });
    words.chain([0]).collect()
}

/// What is wrong with a device file that a driver needs, if anything: to explain that the driver did not start.
pub fn device_file_problem(path: &Path, absent: &str, refused: &str) -> Option<String> {
    let opened = File::options().read(true).write(true).open(path).map(drop);
    let why = match opened.map_err(|error| error.kind()) {
        Ok(()) => return None,
        Err(ErrorKind::NotFound) => format!("is missing: {absent}"),
        Err(ErrorKind::PermissionDenied) => format!("may not be opened: {refused}"),
        Err(kind) => format!("cannot be opened: {kind}"),
    };
    Some(format!("{} {why}", path.display()))
}

/// A library that stays loaded: a driver's threads may run until the process ends.
///
/// # Safety
/// Loading runs the library's initialisers.
pub unsafe fn load_forever(place: &Path) -> Result<&'static Library, libloading::Error> {
    // SAFETY: the caller vouches for the library.
    let library = unsafe { Library::new(place.as_os_str()) }?;
    Ok(Box::leak(Box::new(library)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_rates_follow_from_clock_and_bus() {
        // An H200's and an RX 7900 XTX's numbers.
        assert_eq!(memory_rate(3_201_000, 6144, 2), Some(4_916_736_000_000));
        assert_eq!(memory_rate(1_249_000, 384, 16), Some(959_232_000_000));
        assert_eq!(memory_rate(0, 384, 16), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_code_object_that_was_cut_off_is_refused() {
        // This test itself is an ELF-64 file.
        let whole = std::fs::read("/proc/self/exe").unwrap();
        assert!(is_whole(&whole));
        for n_bytes in [0, 4, 20, 63, 1000, whole.len() - 1] {
            assert!(!is_whole(&whole[..n_bytes]), "{n_bytes}");
        }
        assert!(is_whole(b".version 8.0") && is_whole(b"__CLANG_OFFLOAD_BUNDLE__"));
    }

    #[test]
    fn an_image_is_aligned_and_ends_with_zeros() {
        for n_bytes in [1, 8, 13] {
            let image: Vec<u8> = (1..=n_bytes).collect();
            let copy: Vec<u8> = aligned_with_end(&image).iter().flat_map(|word| word.to_ne_bytes()).collect();
            assert_eq!(copy[..image.len()], image);
            assert!(copy.len() >= image.len() + 8 && copy[image.len()..].iter().all(|byte| *byte == 0));
        }
    }

    #[test]
    fn a_device_file_that_is_not_there_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kfd");
        let problem = || device_file_problem(&path, "load the module", "join the group");
        assert_eq!(problem().unwrap(), format!("{} is missing: load the module", path.display()));
        std::fs::write(&path, "").unwrap();
        assert_eq!(problem(), None);
    }

    #[test]
    fn texts_end_at_a_nul() {
        assert_eq!(text_until_nul(b"gfx90a\0rest"), "gfx90a");
        assert_eq!(text_until_nul(b"no end"), "no end");
    }
}
