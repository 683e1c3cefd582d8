//! AMD's HIP library, libamdhip64.

use std::error::Error;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::path::{Path, PathBuf};

use libloading::Library;

use super::chip::{Arch, PciAddress};
use super::driver::{ContextHandle, DeviceAddress, DriverError, DriverErrorKind, StreamHandle};
use super::native::Native;
use super::native::library::{Unavailable, device_file_problem, load_forever, text_until_nul};
use super::native::table::{CallNames, Calls, call, function_table};
use super::native::vendor::{Attributes, Stage, Vendor};
use crate::devices::DeviceKind;

mod properties;
mod search;

/// HIP: the driver of AMD's GPUs.
pub type Hip = Native<Amd>;

const NAMES: CallNames = CallNames {
    init: "hipInit",
    version: "hipDriverGetVersion",
    n_devices: "hipGetDeviceCount",
    device_name: "hipDeviceGetName",
    device_bytes: "hipDeviceTotalMem",
    device_attribute: "hipDeviceGetAttribute",
    memory: "hipMemGetInfo",
    alloc: "hipMalloc",
    free: "hipFree",
    alloc_pinned: "hipHostMalloc",
    free_pinned: "hipHostFree",
    create_stream: "hipStreamCreateWithFlags",
    destroy_stream: "hipStreamDestroy",
    sync_stream: "hipStreamSynchronize",
    wait_event: "hipStreamWaitEvent",
    create_event: "hipEventCreateWithFlags",
    destroy_event: "hipEventDestroy",
    record_event: "hipEventRecord",
    sync_event: "hipEventSynchronize",
    query_event: "hipEventQuery",
    elapsed_ms: "hipEventElapsedTime",
    fill: "hipMemsetD8Async",
    copy_to_device: "hipMemcpyHtoDAsync",
    copy_to_host: "hipMemcpyDtoHAsync",
    copy_on_device: "hipMemcpyDtoDAsync",
    can_access_peer: "hipDeviceCanAccessPeer",
    load_module: "hipModuleLoadData",
    unload_module: "hipModuleUnload",
    function: "hipModuleGetFunction",
    launch: "hipModuleLaunchKernel",
};

function_table! {
    OwnCalls, OwnNames {
        pci: fn(*mut c_char, c_int, c_int);
        properties: fn(*mut c_void, c_int);
        bind: fn(c_int);
        enable_peer: fn(c_int, c_uint);
        copy_peer: fn(u64, c_int, u64, c_int, usize, usize);
    }
}

/// With the properties of ROCm 6 and newer.
const OWN_NAMES: OwnNames = OwnNames {
    pci: "hipDeviceGetPCIBusId",
    properties: "hipGetDevicePropertiesR0600",
    bind: "hipSetDevice",
    enable_peer: "hipDeviceEnablePeerAccess",
    copy_peer: "hipMemcpyPeerAsync",
};

/// With those of ROCm 5.
const OLD_OWN_NAMES: OwnNames = OwnNames { properties: "hipGetDeviceProperties", ..OWN_NAMES };

type ErrorText = unsafe extern "C" fn(c_int) -> *const c_char;
const ERROR_TEXT: &str = "hipGetErrorString";

/// Room for the properties of a device, which have been 792 and 1472 bytes.
const PROPERTIES_BYTES: usize = 16 << 10;
/// What is AMD's own.
pub struct Amd {
    calls: OwnCalls,
    error_text: ErrorText,
    version: String,
}

impl Native<Amd> {
    /// Loads and starts the driver, looking where ROCM_PATH and HIP_PATH say, in /opt and in the loader's path.
    pub fn load() -> Result<Hip, Unavailable> {
        load_first(search::candidates(|name| std::env::var_os(name), Path::new("/opt")))
    }

    /// The same, looking only in these folders.
    pub fn load_from(folders: &[PathBuf]) -> Result<Hip, Unavailable> {
        load_first(search::in_folders(folders))
    }
}

fn load_first(candidates: Vec<PathBuf>) -> Result<Hip, Unavailable> {
    let mut reasons = Vec::new();
    for place in &candidates {
        // A bare name is the loader's to find.
        if place.is_absolute() && !place.exists() {
            continue;
        }
        // SAFETY: a library of this name is AMD's, or what the user put in its place.
        match unsafe { load_forever(place) } {
            Ok(library) => return start(library, place),
            Err(error) => reasons.extend(reason(place, &error)),
        }
    }
    let what = "no HIP library (libamdhip64) could be loaded";
    let how = "where there is an AMD GPU, install ROCm 5 or newer, or set ROCM_PATH to its folder";
    let message = match reasons.first() {
        Some(reason) => format!("{what}: {reason}; {how}"),
        None => format!("{what}; {how}"),
    };
    let tried = candidates.iter().map(|place| place.display().to_string()).collect();
    Err(Unavailable { kind: DeviceKind::Rocm, message, tried })
}

/// The loader's words, unless they say no more than that the library itself is not there.
fn reason(place: &Path, error: &libloading::Error) -> Option<String> {
    let words = error.source().map_or_else(|| error.to_string(), |cause| cause.to_string());
    let is_absence = words.starts_with(&*place.to_string_lossy()) && words.contains("No such file or directory");
    (!is_absence).then_some(words)
}

fn start(library: &'static Library, place: &Path) -> Result<Hip, Unavailable> {
    let unavailable = |message| Unavailable { kind: DeviceKind::Rocm, message, tried: Vec::new() };
    let missing = |name| {
        let place = place.display();
        unavailable(format!("{place} is too old or no HIP library: it lacks {name}; install ROCm 5 or newer"))
    };
    // SAFETY: the types are those of HIP 5 to 7. The two names of `properties` fill different structs, both smaller
    // than what they are given.
    let (calls, own, error_text) = unsafe {
        let calls = Calls::load(library, &NAMES).map_err(missing)?;
        let own = OwnCalls::load(library, &OWN_NAMES).or_else(|_| OwnCalls::load(library, &OLD_OWN_NAMES));
        let error_text = library.get::<ErrorText>(ERROR_TEXT).map_err(|_| missing(ERROR_TEXT))?;
        (calls, own.map_err(missing)?, *error_text)
    };
    // SAFETY: there are no flags.
    let init_code = unsafe { (calls.init.pointer)(0) };
    let (mut number, mut n_devices) = (0, 0);
    // SAFETY: both can be written to.
    let (_, count_code) = unsafe { ((calls.version.pointer)(&mut number), (calls.n_devices.pointer)(&mut n_devices)) };
    let vendor = Amd { calls: own, error_text, version: version_text(number) };
    let code = if init_code == 0 { count_code } else { init_code };
    if code != 0 || n_devices == 0 {
        let file = device_file_problem(
            Path::new("/dev/kfd"),
            "the kernel module amdgpu is not loaded, or the container was not given the GPU",
            "add your user to the groups render and video and log in again",
        );
        return Err(unavailable(does_not_start(&vendor.version, code, &vendor.text(code), file)));
    }
    Ok(Native::new(vendor, calls))
}

impl Vendor for Amd {
    const KIND: DeviceKind = DeviceKind::Rocm;
    /// The same in HIP 5, 6 and 7.
    const ATTRIBUTES: Attributes =
        Attributes { wave_size: 87, n_multiprocessors: 63, is_integrated: 16, memory_clock: 60, memory_bus_width: 59 };

    fn version(&self) -> &str {
        &self.version
    }

    fn text(&self, code: c_int) -> String {
        // SAFETY: takes any number.
        let text = unsafe { (self.error_text)(code) };
        if text.is_null() {
            return "unknown error".to_owned();
        }
        // SAFETY: a string that stays.
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
    }

    fn error_kind(code: c_int, stage: Stage) -> DriverErrorKind {
        match (code, stage) {
            (2, _) => DriverErrorKind::OutOfMemory,
            // Uninitialised, a kernel module that is too old.
            (3 | 35, _) => DriverErrorKind::Unavailable,
            (100 | 101, Stage::Asking) => DriverErrorKind::Unavailable,
            (100 | 101, Stage::Using) => DriverErrorKind::DeviceLost,
            // Shutting down; an earlier launch failed; memory error; a fault of a kernel: address, time limit,
            // assertion, unspecified; context destroyed; the runtime below has failed.
            (4 | 53 | 214 | 700 | 702 | 709 | 710 | 714..=719 | 1053, _) => DriverErrorKind::DeviceLost,
            // 999, "unknown", is what this library says of many a wrong argument: no reason to give a device up.
            _ => DriverErrorKind::Other,
        }
    }

    /// Devices are numbered, and have no other handle.
    fn device(&self, ordinal: u32) -> Result<c_int, DriverError> {
        Ok(c_int::try_from(ordinal).unwrap_or(c_int::MAX))
    }

    fn pci(&self, _: &Calls, device: c_int) -> Result<PciAddress, DriverError> {
        let mut text = [0u8; 64];
        let pci = &self.calls.pci;
        let length = text.len() as c_int;
        // SAFETY: the library writes at most `length` bytes.
        unsafe { call!(self, check_asked, pci, text.as_mut_ptr().cast(), length, device) }?;
        text_until_nul(&text).parse().map_err(|text| not_understood(pci.name, text))
    }

    fn arch(&self, _: &Calls, device: c_int) -> Result<Arch, DriverError> {
        let properties = &self.calls.properties;
        let mut words = vec![0u64; PROPERTIES_BYTES / 8];
        // SAFETY: there is room for more than any version of the struct has, aligned for its widest member.
        unsafe { call!(self, check_asked, properties, words.as_mut_ptr().cast(), device) }?;
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        properties::arch_in(&bytes).map_err(|text| not_understood(properties.name, text))
    }

    /// Data sheets' rates over the clock that the driver tells. HBM2 transfers twice a cycle; the clock of HBM3 is told
    /// at half, that of GDDR6 at an eighth of the memory's own.
    fn transfers_per_clock(arch: Arch) -> Option<u64> {
        match arch {
            Arch::Gfx(0x906 | 0x908 | 0x90a) => Some(2),
            Arch::Gfx(0x940..=0x95f) => Some(4),
            Arch::Gfx(0x1030..=0x12ff) => Some(16),
            Arch::Gfx(_) | Arch::Sm(_) => None,
        }
    }

    /// There are no contexts: the number stands for one. Fails where the device cannot be used.
    fn open(&self, device: c_int) -> Result<ContextHandle, DriverError> {
        // SAFETY: numbers of no device are errors.
        unsafe { call!(self, check_asked, self.calls.bind, device) }?;
        Ok(ContextHandle(device as usize))
    }

    /// What could be closed is the process's, not ours.
    fn close(&self, _: ContextHandle, _: c_int) {}

    fn bind(&self, context: ContextHandle) -> Result<(), DriverError> {
        // SAFETY: numbers of no device are errors.
        unsafe { call!(self, check, self.calls.bind, context.0 as c_int) }
    }

    fn enable_peer(&self, (_, peer): (ContextHandle, c_int)) -> (&'static str, c_int) {
        // SAFETY: numbers of no device are errors; there are no flags.
        (self.calls.enable_peer.name, unsafe { (self.calls.enable_peer.pointer)(peer, 0) })
    }

    fn copy_peer(
        &self,
        (to, _, to_device): (DeviceAddress, ContextHandle, c_int),
        (from, _, from_device): (DeviceAddress, ContextHandle, c_int),
        n_bytes: usize,
        stream: StreamHandle,
    ) -> Result<(), DriverError> {
        let copy = &self.calls.copy_peer;
        // SAFETY: only devices' memory is touched.
        unsafe { call!(self, check, copy, to.0, to_device, from.0, from_device, n_bytes, stream.0) }
    }
}

fn not_understood(call: &'static str, text: String) -> DriverError {
    DriverError { call, code: 0, text, kind: DriverErrorKind::Unavailable }
}

/// From 10,000,000 times major, 100,000 times minor and a patch number.
fn version_text(number: c_int) -> String {
    format!("HIP {}.{}", number / 10_000_000, number / 100_000 % 100)
}

fn does_not_start(version: &str, code: c_int, text: &str, file: Option<String>) -> String {
    // Both codes are what there being no device is called.
    let what = match code {
        0 | 100 | 101 => "sees no AMD GPU".to_owned(),
        _ => format!("does not start: {text} ({code})"),
    };
    let hint = file.map(|file| format!("; {file}")).unwrap_or_default();
    format!("{version} is installed and {what}{hint}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::devices::gpu::driver::Driver;

    #[test]
    fn where_nothing_is_all_that_was_tried_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let error = Hip::load_from(&[folder.path().to_owned()]).err().unwrap();
        assert!(error.message.starts_with("no HIP library (libamdhip64) could be loaded; where"), "{error}");
        assert_eq!(error.tried.len(), 4);
        assert_eq!(error.tried[3], folder.path().join("libamdhip64.so.5").display().to_string());
    }

    #[test]
    fn a_file_that_is_no_library_is_told() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("libamdhip64.so.6"), "no library").unwrap();
        let error = Hip::load_from(&[folder.path().to_owned()]).err().unwrap();
        assert!(error.message.contains("libamdhip64.so.6") && !error.message.contains("No such file"), "{error}");
    }

    /// Whatever the machine has: the driver works, or a line says why not.
    #[test]
    fn the_installed_library_loads_or_says_why_not() {
        match Hip::load() {
            Ok(hip) => {
                assert!(hip.version().starts_with("HIP ") && hip.n_devices().unwrap() > 0);
                assert!(matches!(hip.info(0).unwrap().chip.arch, Arch::Gfx(_)));
                assert_eq!(hip.open(1000).unwrap_err().kind, DriverErrorKind::Unavailable);
            }
            Err(error) if error.tried.is_empty() => {
                assert!(error.message.contains("HIP ") && error.message.contains(" is installed and "), "{error}");
                let has_device_file = Path::new("/dev/kfd").exists();
                assert_eq!(error.message.contains("/dev/kfd is missing"), !has_device_file, "{error}");
            }
            Err(error) => assert!(error.message.contains("ROCM_PATH"), "{error}"),
        }
    }

    #[test]
    fn errors_that_end_a_device_are_told_apart() {
        use DriverErrorKind::{DeviceLost, Other, OutOfMemory, Unavailable};
        let of = |codes: &[c_int], stage, kind| {
            codes.iter().for_each(|code| assert_eq!(Amd::error_kind(*code, stage), kind, "{code}"));
        };
        for stage in [Stage::Asking, Stage::Using] {
            of(&[2], stage, OutOfMemory);
            of(&[4, 53, 214, 700, 702, 709, 710, 718, 719], stage, DeviceLost);
            // Invalid value, no binary for this GPU, not found, out of launch resources, peer access already enabled.
            of(&[1, 209, 500, 701, 704, 999], stage, Other);
        }
        of(&[100, 101], Stage::Asking, Unavailable);
        of(&[100, 101], Stage::Using, DeviceLost);
    }

    #[test]
    fn lines_say_what_is_wrong() {
        assert_eq!(version_text(50_221_153), "HIP 5.2");
        assert_eq!(does_not_start("HIP 5.2", 101, "", None), "HIP 5.2 is installed and sees no AMD GPU");
        let line = does_not_start("HIP 7.0", 3, "initialization error", Some("/dev/kfd may not be opened: x".into()));
        assert_eq!(
            line,
            "HIP 7.0 is installed and does not start: initialization error (3); /dev/kfd may not be opened: x"
        );
    }
}
