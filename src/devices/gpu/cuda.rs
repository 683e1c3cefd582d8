//! NVIDIA's driver library, libcuda.

use std::ffi::{CStr, c_char, c_int, c_uint};
use std::path::Path;
use std::ptr::null;

use cudarc::driver::sys;

use super::chip::{Arch, PciAddress};
use super::driver::{ContextHandle, DeviceAddress, DriverError, DriverErrorKind, StreamHandle};
use super::native::Native;
use super::native::library::{Unavailable, device_file_problem};
use super::native::table::{CallNames, Calls, call, function_table};
use super::native::vendor::{Attributes, Stage, Vendor};
use crate::devices::DeviceKind;

/// CUDA: the driver of NVIDIA's GPUs.
pub type Cuda = Native<Nvidia>;

/// The oldest driver whose calls are all there, as the library counts: 1000 times major, 10 times minor.
const NEEDED_VERSION: c_int = 12_000;
/// The first driver release of that version.
const NEEDED_RELEASE: &str = "525";

const NAMES: CallNames = CallNames {
    init: "cuInit",
    version: "cuDriverGetVersion",
    n_devices: "cuDeviceGetCount",
    device_name: "cuDeviceGetName",
    device_bytes: "cuDeviceTotalMem_v2",
    device_attribute: "cuDeviceGetAttribute",
    memory: "cuMemGetInfo_v2",
    alloc: "cuMemAlloc_v2",
    free: "cuMemFree_v2",
    alloc_pinned: "cuMemHostAlloc",
    free_pinned: "cuMemFreeHost",
    create_stream: "cuStreamCreate",
    destroy_stream: "cuStreamDestroy_v2",
    sync_stream: "cuStreamSynchronize",
    wait_event: "cuStreamWaitEvent",
    create_event: "cuEventCreate",
    destroy_event: "cuEventDestroy_v2",
    record_event: "cuEventRecord",
    sync_event: "cuEventSynchronize",
    query_event: "cuEventQuery",
    elapsed_ms: "cuEventElapsedTime",
    fill: "cuMemsetD8Async",
    copy_to_device: "cuMemcpyHtoDAsync_v2",
    copy_to_host: "cuMemcpyDtoHAsync_v2",
    copy_on_device: "cuMemcpyDtoDAsync_v2",
    can_access_peer: "cuDeviceCanAccessPeer",
    load_module: "cuModuleLoadData",
    unload_module: "cuModuleUnload",
    function: "cuModuleGetFunction",
    launch: "cuLaunchKernel",
};

function_table! {
    OwnCalls, OwnNames {
        device: fn(*mut c_int, c_int);
        retain_context: fn(*mut usize, c_int);
        release_context: fn(c_int);
        bind: fn(usize);
        enable_peer: fn(usize, c_uint);
        copy_peer: fn(u64, usize, u64, usize, usize, usize);
        error_text: fn(c_int, *mut *const c_char);
    }
}

const OWN_NAMES: OwnNames = OwnNames {
    device: "cuDeviceGet",
    retain_context: "cuDevicePrimaryCtxRetain",
    release_context: "cuDevicePrimaryCtxRelease_v2",
    bind: "cuCtxSetCurrent",
    enable_peer: "cuCtxEnablePeerAccess",
    copy_peer: "cuMemcpyPeerAsync",
    error_text: "cuGetErrorString",
};

/// What is NVIDIA's own.
pub struct Nvidia {
    calls: OwnCalls,
    version: String,
}

impl Native<Nvidia> {
    /// Loads and starts the driver.
    pub fn load() -> Result<Cuda, Unavailable> {
        let unavailable = |message: String| Unavailable { kind: DeviceKind::Cuda, message, tried: Vec::new() };
        // SAFETY: loads the driver's library, if there is one.
        if !unsafe { sys::is_culib_present() } {
            let message = "no NVIDIA driver was found (libcuda): where there is an NVIDIA GPU, install its driver";
            let mut tried: Vec<_> = ["cuda", "nvcuda"].into_iter().flat_map(cudarc::get_lib_name_candidates).collect();
            tried.sort();
            tried.dedup();
            return Err(Unavailable { tried, ..unavailable(message.to_owned()) });
        }
        // SAFETY: the library was found just now; it panics only where there is none.
        let library = unsafe { sys::culib() };
        let missing = |name| unavailable(format!("the NVIDIA driver is too old: it lacks {name}; {}", how_to_update()));
        // SAFETY: the types are those of the CUDA 12 driver API; names are versioned where types have changed.
        let (calls, own) = unsafe {
            (Calls::load(library, &NAMES).map_err(missing)?, OwnCalls::load(library, &OWN_NAMES).map_err(missing)?)
        };
        let mut number = 0;
        // SAFETY: `number` can be written to; the call needs no initialisation.
        let code = unsafe { (calls.version.pointer)(&mut number) };
        if code == 0 && number < NEEDED_VERSION {
            return Err(unavailable(too_old(number)));
        }
        let release = std::fs::read_to_string("/proc/driver/nvidia/version").ok();
        let version = version_text(number, release.as_deref().and_then(release_in));
        let vendor = Nvidia { calls: own, version };
        // SAFETY: there are no flags.
        let code = unsafe { (calls.init.pointer)(0) };
        if code != 0 {
            let file = device_file_problem(
                Path::new("/dev/nvidiactl"),
                "the kernel module nvidia is not loaded, or the container was not given the GPU",
                "the user may not use the GPU",
            );
            return Err(unavailable(does_not_start(&vendor.version, code, &vendor.text(code), file)));
        }
        Ok(Native::new(vendor, calls))
    }
}

impl Vendor for Nvidia {
    const KIND: DeviceKind = DeviceKind::Cuda;
    const ATTRIBUTES: Attributes = Attributes {
        wave_size: sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_WARP_SIZE as c_int,
        n_multiprocessors: sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT as c_int,
        is_integrated: sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_INTEGRATED as c_int,
        memory_clock: sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE as c_int,
        memory_bus_width: sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH as c_int,
    };

    fn version(&self) -> &str {
        &self.version
    }

    fn text(&self, code: c_int) -> String {
        let mut text = null();
        // SAFETY: `text` can be written to.
        let known = unsafe { (self.calls.error_text.pointer)(code, &mut text) } == 0 && !text.is_null();
        // SAFETY: where the code is known, `text` is a string that stays.
        if known { unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned() } else { "unknown error".to_owned() }
    }

    fn error_kind(code: c_int, stage: Stage) -> DriverErrorKind {
        match (code, stage) {
            (2, _) => DriverErrorKind::OutOfMemory,
            // Uninitialised, a stub for linking, too old, not licensed, not ready, versions that differ, MPS without
            // a server.
            (3 | 34 | 35 | 102 | 802..=808, _) => DriverErrorKind::Unavailable,
            // Used by somebody else alone, not there, not permitted.
            (46 | 100 | 101 | 800, Stage::Asking) => DriverErrorKind::Unavailable,
            (46 | 100 | 101, Stage::Using) => DriverErrorKind::DeviceLost,
            // The driver is shutting down; memory or link errors; an exception contained; a fault of a kernel, which
            // ends the context: address, time limit, assertion, stack, instruction, alignment, space, counter,
            // unspecified, tensor memory; context destroyed; MPS ended it. The documentation says of each that the
            // process must end to use the device again.
            (4 | 214 | 220 | 226 | 700 | 702 | 709 | 710 | 714..=719 | 721 | 810, _) => DriverErrorKind::DeviceLost,
            // "Unknown" is what calls return when the device has fallen off the bus.
            (999, Stage::Using) => DriverErrorKind::DeviceLost,
            _ => DriverErrorKind::Other,
        }
    }

    fn device(&self, ordinal: u32) -> Result<c_int, DriverError> {
        let mut device = 0;
        let ordinal = c_int::try_from(ordinal).unwrap_or(c_int::MAX);
        // SAFETY: `device` can be written to.
        unsafe { call!(self, check_asked, self.calls.device, &mut device, ordinal) }?;
        Ok(device)
    }

    fn pci(&self, calls: &Calls, device: c_int) -> Result<PciAddress, DriverError> {
        use sys::CUdevice_attribute as Attribute;
        let domain = self.attribute(calls, device, Attribute::CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID)?;
        let bus = self.attribute(calls, device, Attribute::CU_DEVICE_ATTRIBUTE_PCI_BUS_ID)?;
        let number = self.attribute(calls, device, Attribute::CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID)?;
        // The library tells no function; a GPU's compute function is 0. Virtual machines have domains of 32 bits.
        Ok(PciAddress { domain: domain as u32, bus: bus as u8, device: number as u8, function: 0 })
    }

    fn arch(&self, calls: &Calls, device: c_int) -> Result<Arch, DriverError> {
        use sys::CUdevice_attribute as Attribute;
        let major = self.attribute(calls, device, Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
        let minor = self.attribute(calls, device, Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
        Ok(Arch::Sm((major * 10 + minor) as u16))
    }

    /// All memory kinds have a clock with two transfers a cycle as the library tells it.
    fn transfers_per_clock(_: Arch) -> Option<u64> {
        Some(2)
    }

    fn open(&self, device: c_int) -> Result<ContextHandle, DriverError> {
        let mut context = 0;
        // SAFETY: `context` can be written to.
        unsafe { call!(self, check_asked, self.calls.retain_context, &mut context, device) }?;
        Ok(ContextHandle(context))
    }

    fn close(&self, _: ContextHandle, device: c_int) {
        // SAFETY: one release for each retain. A device that is lost refuses, which changes nothing.
        unsafe { (self.calls.release_context.pointer)(device) };
    }

    fn bind(&self, context: ContextHandle) -> Result<(), DriverError> {
        // SAFETY: a context from `open`.
        unsafe { call!(self, check, self.calls.bind, context.0) }
    }

    fn enable_peer(&self, (context, _): (ContextHandle, c_int)) -> (&'static str, c_int) {
        // SAFETY: a context from `open`; there are no flags.
        (self.calls.enable_peer.name, unsafe { (self.calls.enable_peer.pointer)(context.0, 0) })
    }

    fn copy_peer(
        &self,
        (to, to_context, _): (DeviceAddress, ContextHandle, c_int),
        (from, from_context, _): (DeviceAddress, ContextHandle, c_int),
        n_bytes: usize,
        stream: StreamHandle,
    ) -> Result<(), DriverError> {
        let copy = &self.calls.copy_peer;
        // SAFETY: contexts from `open`; only devices' memory is touched.
        unsafe { call!(self, check, copy, to.0, to_context.0, from.0, from_context.0, n_bytes, stream.0) }
    }
}

impl Nvidia {
    fn attribute(&self, calls: &Calls, device: c_int, what: sys::CUdevice_attribute) -> Result<c_int, DriverError> {
        let mut value = 0;
        // SAFETY: `value` can be written to.
        unsafe { call!(self, check_asked, calls.device_attribute, &mut value, what as c_int, device) }?;
        Ok(value)
    }
}

/// "12.4"
fn number_text(number: c_int) -> String {
    format!("{}.{}", number / 1000, number % 1000 / 10)
}

fn version_text(number: c_int, release: Option<&str>) -> String {
    let release = release.map(|release| format!(" (driver {release})")).unwrap_or_default();
    format!("CUDA {}{release}", number_text(number))
}

/// The release in the kernel module's own words: the first word of digits and dots.
fn release_in(text: &str) -> Option<&str> {
    text.split_whitespace()
        .find(|word| word.contains('.') && word.chars().all(|letter| letter.is_ascii_digit() || letter == '.'))
}

fn how_to_update() -> String {
    format!("install driver {NEEDED_RELEASE} or newer (CUDA {})", number_text(NEEDED_VERSION))
}

fn too_old(number: c_int) -> String {
    let (has, needs) = (number_text(number), number_text(NEEDED_VERSION));
    format!("the NVIDIA driver is too old: it offers CUDA {has} and {needs} is needed; {}", how_to_update())
}

fn does_not_start(version: &str, code: c_int, text: &str, file: Option<String>) -> String {
    let hint = match code {
        34 => Some("what was loaded is the library for linking, not the driver's: look at LD_LIBRARY_PATH".to_owned()),
        803 => Some("library and kernel module differ in version: reboot after an update".to_owned()),
        802 => Some("start nvidia-fabricmanager".to_owned()),
        _ => file,
    };
    let what = if code == 100 { "sees no GPU".to_owned() } else { format!("does not start: {text} ({code})") };
    match hint {
        Some(hint) => format!("{version} is installed and {what}; {hint}"),
        None => format!("{version} is installed and {what}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::devices::gpu::driver::Driver;

    /// Whatever the machine has: the driver works, or a line says why not.
    #[test]
    fn loading_never_panics() {
        match Cuda::load() {
            Ok(cuda) => {
                assert!(cuda.version().starts_with("CUDA "));
                for ordinal in 0..cuda.n_devices().unwrap() {
                    let info = cuda.info(ordinal).unwrap();
                    assert!(matches!(info.chip.arch, Arch::Sm(_)) && info.chip.wave_size == 32 && info.total_bytes > 0);
                }
                assert_eq!(cuda.info(1000).unwrap_err().kind, DriverErrorKind::Unavailable);
            }
            Err(unavailable) => {
                assert_eq!(unavailable.kind, DeviceKind::Cuda);
                let is_absent = unavailable.message.contains("libcuda");
                assert_eq!(is_absent, unavailable.tried.iter().any(|name| name == "libcuda.so.1"), "{unavailable:?}");
            }
        }
    }

    #[test]
    fn errors_that_end_a_context_are_told_apart() {
        use DriverErrorKind::{DeviceLost, Other, OutOfMemory, Unavailable};
        let of = |codes: &[c_int], stage, kind| {
            codes.iter().for_each(|code| assert_eq!(Nvidia::error_kind(*code, stage), kind, "{code}"));
        };
        for stage in [Stage::Asking, Stage::Using] {
            of(&[2], stage, OutOfMemory);
            of(&[4, 214, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719], stage, DeviceLost);
            of(&[34, 802, 803], stage, Unavailable);
            // Invalid value, no binary for this GPU, not found, out of launch resources, peer access already enabled.
            of(&[1, 209, 500, 701, 704, 720], stage, Other);
        }
        of(&[46, 100, 101, 800], Stage::Asking, Unavailable);
        of(&[46, 100, 101, 999], Stage::Using, DeviceLost);
        of(&[800], Stage::Using, Other);
    }

    #[test]
    fn versions_are_read() {
        let closed = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159.03  Tue Sep 23 10:00:00 UTC 2025\nGCC 12";
        let open = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.54.15  Release Build";
        assert_eq!(version_text(13_000, release_in(closed)), "CUDA 13.0 (driver 580.159.03)");
        assert_eq!(version_text(12_040, release_in(open)), "CUDA 12.4 (driver 550.54.15)");
        assert_eq!(version_text(12_040, release_in("nothing of the kind")), "CUDA 12.4");
    }

    #[test]
    fn lines_say_what_is_and_what_is_needed() {
        assert_eq!(
            too_old(11_040),
            "the NVIDIA driver is too old: it offers CUDA 11.4 and 12.0 is needed; install driver 525 or newer (CUDA 12.0)"
        );
        let file = Some("/dev/nvidiactl is missing: x".to_owned());
        assert_eq!(
            does_not_start("CUDA 12.4", 100, "", file.clone()),
            "CUDA 12.4 is installed and sees no GPU; /dev/nvidiactl is missing: x"
        );
        let line = does_not_start("CUDA 12.4", 803, "system has unsupported display driver", file);
        assert!(line.contains("does not start: system") && line.contains("(803)") && line.contains("reboot"), "{line}");
    }
}
