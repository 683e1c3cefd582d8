//! What surrounds the devices: the hardware on the bus, the libraries that compute, the rights to use it, and
//! variables that hide devices.

use std::path::{Path, PathBuf};

use super::finding::Finding;
use super::pci::{self, PciCard};
use super::reading::{Reading, clean};
use super::{TelemetryConfig, library, sysfs};
use crate::devices::DeviceKind;

/// Looks once; `readings` tell what could be hidden. No device is opened and no driver initialised.
pub fn examine(config: &TelemetryConfig, readings: &[Reading]) -> Vec<Finding> {
    let cards = pci::cards(&config.sysfs_root);
    let mut findings = vec![
        on_the_bus(&NVIDIA, &cards, &config.sysfs_root),
        library_finding("CUDA driver library", &cuda_candidates(), NVIDIA.library_remedy),
        on_the_bus(&AMD, &cards, &config.sysfs_root),
        library_finding("HIP runtime library", &hip_candidates(), AMD.library_remedy),
    ];
    findings.extend(device_files(&config.dev_root, &cards));
    let value = |name: &str| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned());
    findings.extend(VARIABLES.iter().filter_map(|variable| visibility(variable, &value(variable.name)?, readings)));
    findings
}

struct Vendor {
    name: &'static str,
    id: u32,
    /// The kernel driver by which layercake can use the card.
    driver: &'static str,
    driver_remedy: &'static str,
    library_remedy: &'static str,
}

const NVIDIA: Vendor = Vendor {
    name: "NVIDIA",
    id: pci::NVIDIA,
    driver: "nvidia",
    driver_remedy: "install NVIDIA's driver and restart, or load it (modprobe nvidia)",
    library_remedy: "nothing, unless the machine has an NVIDIA GPU: then install its driver, which brings the library",
};

const AMD: Vendor = Vendor {
    name: "AMD",
    id: pci::AMD,
    driver: "amdgpu",
    driver_remedy: "load its driver (modprobe amdgpu)",
    library_remedy: "nothing, unless the machine has an AMD GPU: then install ROCm's HIP runtime (rocm-hip-runtime; \
                     Debian: libamdhip64-5)",
};

/// The hardware, whether or not a driver has it.
fn on_the_bus(vendor: &Vendor, cards: &[PciCard], sysfs_root: &Path) -> Finding {
    let what = format!("{} hardware", vendor.name);
    let folder = sysfs_root.join("bus/pci/devices");
    let looked_in = vec![folder.display().to_string()];
    let own: Vec<_> = cards.iter().filter(|card| card.vendor == vendor.id).collect();
    let driver = |card: &PciCard| card.driver.clone().unwrap_or_else(|| "no driver".to_owned());
    let describe =
        |card: &&PciCard| format!("{} [{:04x}:{:04x}] {}", card.address, card.vendor, card.device, driver(card));
    let list = own.iter().map(describe).collect::<Vec<_>>().join(", ");
    if own.is_empty() {
        let why = if folder.is_dir() { "none on the PCI bus" } else { "there is no PCI bus to look at" };
        return Finding::missing(what, looked_in, why, "nothing, unless there should be one: check its seat and power");
    }
    if own.iter().any(|card| card.driver.as_deref() != Some(vendor.driver)) {
        return Finding::warning(what, looked_in, format!("without {}: {list}", vendor.driver), vendor.driver_remedy);
    }
    Finding::ok(what, looked_in, list)
}

fn cuda_candidates() -> Vec<PathBuf> {
    let names: &[&str] = if cfg!(windows) {
        &["nvcuda.dll"]
    } else {
        &["libcuda.so.1", "libcuda.so", "/usr/lib/wsl/lib/libcuda.so.1", "/run/opengl-driver/lib/libcuda.so.1"]
    };
    names.iter().map(PathBuf::from).collect()
}

fn hip_candidates() -> Vec<PathBuf> {
    library::rocm_candidates("libamdhip64.so", &[7, 6, 5], std::env::var_os("ROCM_PATH"), Path::new("/opt"))
}

fn library_finding(what: &str, candidates: &[PathBuf], remedy: &str) -> Finding {
    let looked_in = library::texts(candidates);
    // SAFETY: the names are those of the vendors' own libraries, which the devices load too.
    match unsafe { library::load_first(candidates) } {
        Ok(found) => {
            // These libraries start threads and register handlers: once loaded they stay.
            std::mem::forget(found.library);
            Finding::ok(what, looked_in, clean(&found.place.to_string_lossy()))
        }
        Err(none) => Finding::missing(what, looked_in, clean(&none.why()), remedy),
    }
}

/// The files through which the cards are used, and whether this user may.
fn device_files(dev_root: &Path, cards: &[PciCard]) -> Vec<Finding> {
    let has = |id| cards.iter().any(|card| card.vendor == id);
    let nvidia: Vec<_> = ["nvidiactl", "nvidia-uvm"]
        .map(|name| dev_root.join(name))
        .into_iter()
        .filter(|path| path.exists())
        .chain(sysfs::numbered(dev_root, "nvidia"))
        .collect();
    let render = sysfs::numbered(&dev_root.join("dri"), "renderD");
    let kfd: Vec<_> = Some(dev_root.join("kfd")).into_iter().filter(|path| path.exists()).collect();
    let all = |name: &str| vec![dev_root.join(name).display().to_string()];
    let container = "in a container, pass it on (docker run --device)";
    let group = |group| format!("add your user to the group {group} (usermod -aG {group} USER) and log in again");
    [
        permission(
            "NVIDIA device files",
            all("nvidia*"),
            &nvidia,
            has(pci::NVIDIA),
            "load the driver",
            &group("video"),
        ),
        permission("AMD compute device", all("kfd"), &kfd, has(pci::AMD), container, &group("render")),
        permission("Render devices", all("dri/renderD*"), &render, has(pci::AMD), container, &group("render")),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// `None` where there are no such files and no card would need them.
fn permission(
    what: &str,
    looked_in: Vec<String>,
    files: &[PathBuf],
    is_needed: bool,
    if_missing: &str,
    if_refused: &str,
) -> Option<Finding> {
    if files.is_empty() {
        return is_needed.then(|| Finding::missing(what, looked_in, "there is a card and no such file", if_missing));
    }
    let names = |files: &[&PathBuf]| files.iter().map(|file| file.display().to_string()).collect::<Vec<_>>().join(", ");
    let refused: Vec<_> = files.iter().filter(|file| !may_use(file)).collect();
    Some(if refused.is_empty() {
        Finding::ok(what, looked_in, format!("{} may be used", names(&files.iter().collect::<Vec<_>>())))
    } else {
        let why = format!("no right to read and write {}", names(&refused));
        Finding::warning(what, looked_in, why, if_refused)
    })
}

/// Whether this user may read and write. The file is not opened: that could wake its card.
#[cfg(unix)]
fn may_use(path: &Path) -> bool {
    use std::ffi::{CString, c_char, c_int};
    use std::os::unix::ffi::OsStrExt;
    unsafe extern "C" {
        /// POSIX. The system's answer knows of groups and access lists.
        fn access(path: *const c_char, mode: c_int) -> c_int;
    }
    const READ_WRITE: c_int = 4 | 2;
    let Ok(path) = CString::new(path.as_os_str().as_bytes()) else { return false };
    // SAFETY: the path is a string that ends in zero and lives through the call.
    unsafe { access(path.as_ptr(), READ_WRITE) == 0 }
}

#[cfg(not(unix))]
fn may_use(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|metadata| !metadata.permissions().readonly())
}

/// A variable by which a driver hides devices from a program.
struct Variable {
    name: &'static str,
    /// Whose devices it hides. HIP has obeyed CUDA's variable too.
    kinds: &'static [DeviceKind],
}

const VARIABLES: [Variable; 3] = [
    Variable { name: "CUDA_VISIBLE_DEVICES", kinds: &[DeviceKind::Cuda, DeviceKind::Rocm] },
    Variable { name: "HIP_VISIBLE_DEVICES", kinds: &[DeviceKind::Rocm] },
    Variable { name: "ROCR_VISIBLE_DEVICES", kinds: &[DeviceKind::Rocm] },
];

/// What the value leaves of the devices; `None` where it hides none.
fn visibility(variable: &Variable, value: &str, readings: &[Reading]) -> Option<Finding> {
    let entries: Vec<_> = value.split(',').map(str::trim).filter(|entry| !entry.is_empty()).collect();
    let describe = |kind: &DeviceKind| {
        let n_devices = readings.iter().filter(|reading| reading.id.kind == *kind).count();
        // The drivers stop at the first entry that is no device of theirs. Names (UUIDs) are taken to be right.
        let is_device = |entry: &&&str| entry.parse::<i64>().map_or(true, |n| (0..n_devices as i64).contains(&n));
        let n_left = entries.iter().take_while(is_device).count().min(n_devices);
        let n_hidden = n_devices - n_left;
        (n_hidden > 0).then(|| format!("{n_hidden} of {n_devices} {} devices", kind.name()))
    };
    let hidden: Vec<_> = variable.kinds.iter().filter_map(describe).collect();
    if hidden.is_empty() {
        return None;
    }
    let why = format!("'{}' hides {} from computing", clean(value), hidden.join(" and "));
    let remedy =
        format!("unset {} to use all devices; layercake needs no such variable to choose among them", variable.name);
    Some(Finding::warning(variable.name, vec!["environment".to_owned()], why, remedy))
}

#[cfg(test)]
#[path = "examine_tests.rs"]
mod tests;
