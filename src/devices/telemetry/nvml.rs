//! NVIDIA cards through the driver's management library.
//!
//! Every call may fail alone (a MIG card has no utilisation, WSL no memory by process, a laptop no fan): what fails is
//! not available. A library that is missing or refuses is a [`Finding`].

use std::error::Error;
use std::path::{Path, PathBuf};

use nvml_wrapper::enum_wrappers::device::{Clock, TemperatureSensor};
use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::struct_wrappers::device::ProcessInfo;
use nvml_wrapper::{Device, Nvml};

use super::finding::Finding;
use super::reading::{Link, LinkRate, PciAddress, PowerState, Reading, Source, clean};
use super::{TelemetryConfig, library, pci};
use crate::devices::{DeviceId, DeviceKind};

const WHAT: &str = "NVIDIA GPUs (NVML)";

/// Where the driver's library lies: in the loader's path, or where WSL, NixOS and Windows put it.
#[cfg(not(windows))]
const PLACES: [&str; 4] = [
    "libnvidia-ml.so.1",
    "libnvidia-ml.so",
    "/usr/lib/wsl/lib/libnvidia-ml.so.1",
    "/run/opengl-driver/lib/libnvidia-ml.so.1",
];
#[cfg(windows)]
const PLACES: [&str; 2] = ["nvml.dll", r"C:\Program Files\NVIDIA Corporation\NVSMI\nvml.dll"];

/// NVML, initialised, and the cards that it had then.
pub struct NvmlSource {
    nvml: Nvml,
    place: PathBuf,
    cards: Vec<Card>,
    /// Cards that it counts but does not give.
    refused: Vec<String>,
    sysfs_root: PathBuf,
}

/// A card and what of it does not change.
struct Card {
    nvml_index: u32,
    facts: Reading,
    max_link: LinkRate,
}

fn candidates(given: Option<&Path>) -> Vec<PathBuf> {
    given.map_or_else(|| PLACES.map(PathBuf::from).to_vec(), |path| vec![path.to_owned()])
}

impl NvmlSource {
    /// # Errors
    /// The finding that says why there is none.
    pub fn open(config: &TelemetryConfig) -> Result<NvmlSource, Finding> {
        let candidates = candidates(config.nvml_path.as_deref());
        let mut reasons = Vec::new();
        for place in &candidates {
            match Nvml::builder().lib_path(place.as_os_str()).init() {
                Ok(nvml) => return Ok(NvmlSource::with(nvml, place.clone(), &config.sysfs_root)),
                Err(NvmlError::LibloadingError(error)) => {
                    let reason = error.source().map_or_else(|| error.to_string(), |cause| cause.to_string());
                    library::note_reason(&mut reasons, place, reason);
                }
                // The library is there and says no: another copy would say the same.
                Err(error) => return Err(refusal(&error, library::texts(std::slice::from_ref(place)))),
            }
        }
        let why = library::NotFound { reasons }.why();
        let remedy = "nothing, unless the machine has an NVIDIA GPU: then install its driver, which brings the library; \
                      in a container, pass the GPUs on (docker run --gpus all)";
        Err(Finding::missing(WHAT, library::texts(&candidates), why, remedy))
    }

    fn with(nvml: Nvml, place: PathBuf, sysfs_root: &Path) -> NvmlSource {
        let driver = nvml.sys_driver_version().ok().map(|version| clean(&format!("nvidia {version}")));
        let (mut cards, mut refused) = (Vec::new(), Vec::new());
        for nvml_index in 0..nvml.device_count().unwrap_or(0) {
            match nvml.device_by_index(nvml_index) {
                Ok(device) => cards.push(Card::of(&device, nvml_index, driver.clone())),
                Err(error) => refused.push(format!("card {nvml_index}: {error}")),
            }
        }
        cards.sort_by_key(|card| (card.facts.pci, card.nvml_index));
        for (index, card) in (0u16..).zip(&mut cards) {
            card.facts.id = DeviceId::new(DeviceKind::Cuda, index);
        }
        NvmlSource { nvml, place, cards, refused, sysfs_root: sysfs_root.to_owned() }
    }

    pub fn sample(&mut self) -> Vec<Reading> {
        self.cards.iter_mut().map(|card| card.look(&self.nvml, &self.sysfs_root)).collect()
    }

    pub fn findings(&self, latest: &[Reading]) -> Vec<Finding> {
        let looked_in = vec![self.place.display().to_string()];
        let driver =
            self.nvml.sys_driver_version().map_or_else(|_| "driver".to_owned(), |v| format!("driver {}", clean(&v)));
        if self.cards.is_empty() && self.refused.is_empty() {
            let remedy = "see whether lspci lists a card, and whether the container was given it";
            return vec![Finding::warning(WHAT, looked_in, format!("{driver} has no card"), remedy)];
        }
        let plural = if self.cards.len() == 1 { "" } else { "s" };
        let mut findings =
            vec![Finding::ok(WHAT, looked_in.clone(), format!("{} card{plural}, {driver}", self.cards.len()))];
        for refused in &self.refused {
            let remedy = "see dmesg for Xid errors; a card that fell off the bus needs a restart of the machine";
            findings.push(Finding::warning(WHAT, looked_in.clone(), refused.clone(), remedy));
        }
        for reading in latest.iter().filter(|r| r.source == Source::Nvml && r.state == PowerState::Gone) {
            let why = format!("{} ({}) has stopped answering", reading.id, reading.name);
            let remedy = "see dmesg for Xid errors; a card that fell off the bus needs a restart of the machine";
            findings.push(Finding::warning(WHAT, looked_in.clone(), why, remedy));
        }
        for card in self.cards.iter().filter(|card| card.is_split(&self.nvml)) {
            let why = format!("{} is split by MIG: it tells no utilisation", card.facts.id);
            findings.push(Finding::warning(
                WHAT,
                looked_in.clone(),
                why,
                "nothing, or nvidia-smi -mig 0 for the whole card",
            ));
        }
        findings
    }
}

/// What to do about a library that was loaded and refuses.
fn refusal(error: &NvmlError, looked_in: Vec<String>) -> Finding {
    let remedy = match error {
        NvmlError::LibRmVersionMismatch => {
            "the driver was updated while the old one was loaded: restart the machine, or unload the nvidia modules and \
             load them again"
        }
        NvmlError::DriverNotLoaded => {
            "load the driver (modprobe nvidia); in a container, pass the GPUs on (docker run --gpus all)"
        }
        NvmlError::NoPermission => "allow reading and writing /dev/nvidiactl and /dev/nvidia* (groups video or render)",
        NvmlError::OperatingSystem => "the control group or the container does not allow the GPUs: pass them on",
        NvmlError::GpuLost | NvmlError::ResetRequired => "see dmesg for Xid errors and restart the machine",
        // Of the library's many other answers none has a remedy of its own.
        _ => "run nvidia-smi: it will fail in the same way and may say more",
    };
    Finding::warning(WHAT, looked_in, clean(&error.to_string()), remedy)
}

impl Card {
    fn of(device: &Device, nvml_index: u32, driver: Option<String>) -> Card {
        let id = DeviceId::new(DeviceKind::Cuda, 0);
        let name = device.name().map_or_else(|_| format!("NVIDIA GPU {nvml_index}"), |name| clean(&name));
        let pci = device.pci_info().ok().and_then(|pci| pci.bus_id.parse::<PciAddress>().ok());
        let compute = device.cuda_compute_capability().ok().map(|c| format!("{}.{}", c.major, c.minor));
        let facts = Reading { pci, driver, compute, ..Reading::new(id, name, Source::Nvml) };
        let max_link = LinkRate::of_generation(device.max_pcie_link_gen().ok(), device.max_pcie_link_width().ok());
        Card { nvml_index, facts, max_link }
    }

    fn look(&mut self, nvml: &Nvml, sysfs_root: &Path) -> Reading {
        // A laptop's card that sleeps would be woken by any question.
        if self.facts.pci.is_some_and(|address| pci::is_asleep(&pci::folder(sysfs_root, address))) {
            return Reading { state: PowerState::Asleep, ..self.facts.clone() };
        }
        match nvml.device_by_index(self.nvml_index) {
            Ok(device) => self.live(nvml, &device),
            Err(_) => Reading { state: PowerState::Gone, ..self.facts.clone() },
        }
    }

    fn live(&mut self, nvml: &Nvml, device: &Device) -> Reading {
        let memory = memory(nvml, device);
        if matches!(memory, Err(NvmlError::GpuLost)) {
            return Reading { state: PowerState::Gone, ..self.facts.clone() };
        }
        let memory = memory.ok();
        if let Some(memory) = memory {
            self.facts.memory_total_bytes = Some(memory.total_bytes);
            // Processors with graphics have no memory of their own to tell of.
            self.facts.is_integrated = Some(false);
        }
        let current =
            LinkRate::of_generation(device.current_pcie_link_gen().ok(), device.current_pcie_link_width().ok());
        let share = |percent: u32| (percent <= 100).then_some(percent as f32 / 100.0);
        let watts = |milliwatts: u32| (milliwatts as f64 / 1e3) as f32;
        Reading {
            memory_used_bytes: memory.map(|memory| memory.total_bytes.saturating_sub(memory.free_bytes)),
            ours_bytes: ours(device),
            utilisation: device.utilization_rates().ok().and_then(|rates| share(rates.gpu)),
            power_w: device.power_usage().ok().map(watts),
            power_limit_w: device.enforced_power_limit().ok().map(watts).filter(|limit| *limit > 0.0),
            temperature_c: device.temperature(TemperatureSensor::Gpu).ok().map(|celsius| celsius as f32),
            clock_mhz: device.clock_info(Clock::SM).ok(),
            memory_clock_mhz: device.clock_info(Clock::Memory).ok(),
            // A fan may be asked for more than its nominal full speed.
            fan: device.fan_speed(0).ok().map(|percent| (percent as f32 / 100.0).min(1.0)),
            link: Link { current, max: self.max_link }.known(),
            ..self.facts.clone()
        }
    }

    fn is_split(&self, nvml: &Nvml) -> bool {
        nvml.device_by_index(self.nvml_index).and_then(|device| device.mig_mode()).is_ok_and(|mode| mode.current == 1)
    }
}

#[derive(Clone, Copy)]
struct Memory {
    total_bytes: u64,
    /// What the driver keeps for itself counts as used: nobody can take it. The first version of NVML's structure
    /// counted it so, the second tells it apart; the free bytes mean the same in both.
    free_bytes: u64,
}

fn memory(nvml: &Nvml, device: &Device) -> Result<Memory, NvmlError> {
    let told = match device.memory_info() {
        Ok(info) => Memory { total_bytes: info.total, free_bytes: info.free },
        // Drivers before 510 have only the first version.
        Err(NvmlError::FailedToLoadSymbol(_) | NvmlError::FunctionNotFound) => memory_of_old_driver(nvml, device)?,
        Err(error) => return Err(error),
    };
    if told.total_bytes == 0 { Err(NvmlError::NotSupported) } else { Ok(told) }
}

fn memory_of_old_driver(nvml: &Nvml, device: &Device) -> Result<Memory, NvmlError> {
    let get = nvml.lib().nvmlDeviceGetMemoryInfo.as_ref().map_err(|_| NvmlError::FunctionNotFound)?;
    // SAFETY: the structure is of plain integers, for which zero is a value; the handle is that of a device of this
    // library, which is initialised; the function writes one structure of its own type.
    let (status, info) = unsafe {
        let mut info = std::mem::zeroed();
        (get(device.handle(), &mut info), info)
    };
    nvml_wrapper::error::nvml_try(status)?;
    Ok(Memory { total_bytes: info.total, free_bytes: info.free })
}

/// Device memory of this process. `None` where the driver does not list the process: it has no context there, or the
/// driver knows it by another number (as in a container), does not tell (WSL), or is older than 510.
fn ours(device: &Device) -> Option<u64> {
    let processes = device.running_compute_processes().ok()?;
    let is_ours = |process: &&ProcessInfo| process.pid == std::process::id();
    let of_each = processes.iter().filter(is_ours).map(|process| match process.used_gpu_memory {
        UsedGpuMemory::Used(n_bytes) => Some(n_bytes),
        UsedGpuMemory::Unavailable => None,
    });
    // A MIG card lists a process once an instance.
    of_each.reduce(|a, b| Some(a? + b?)).flatten()
}

#[cfg(test)]
mod tests {
    use super::super::FindingResult;
    use super::*;

    #[test]
    fn a_missing_library_is_a_finding_that_says_where_was_looked() {
        let config = TelemetryConfig { nvml_path: Some("/nonexistent/nvml.so".into()), ..TelemetryConfig::default() };
        let finding = NvmlSource::open(&config).err().unwrap();
        assert_eq!(finding.looked_in, ["/nonexistent/nvml.so"]);
        let FindingResult::Missing { why, remedy } = finding.result else { panic!("{finding:?}") };
        assert_eq!(why, "it is not installed");
        assert!(remedy.contains("install its driver"));
    }

    #[test]
    fn a_file_that_is_no_library_is_a_finding() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "no library").unwrap();
        let config = TelemetryConfig { nvml_path: Some(file.path().into()), ..TelemetryConfig::default() };
        let FindingResult::Missing { why, .. } = NvmlSource::open(&config).err().unwrap().result else { panic!() };
        assert_ne!(why, "it is not installed");
    }

    #[test]
    fn refusals_have_remedies() {
        let remedy = |error: NvmlError| match refusal(&error, Vec::new()).result {
            FindingResult::Warning { why, remedy } => {
                assert!(!why.is_empty());
                remedy
            }
            other => panic!("{other:?}"),
        };
        assert!(remedy(NvmlError::LibRmVersionMismatch).contains("restart"));
        assert!(remedy(NvmlError::DriverNotLoaded).contains("modprobe nvidia"));
        assert!(remedy(NvmlError::NoPermission).contains("/dev/nvidiactl"));
        assert!(remedy(NvmlError::Unknown).contains("nvidia-smi"));
    }

    #[test]
    fn where_there_is_a_driver_its_cards_are_plausible() {
        let Ok(mut source) = NvmlSource::open(&TelemetryConfig::default()) else { return };
        for reading in source.sample().into_iter().filter(|reading| reading.state == PowerState::Awake) {
            assert!(reading.pci.is_some() && !reading.name.is_empty(), "{reading:?}");
            assert!(reading.memory_used_bytes <= reading.memory_total_bytes, "{reading:?}");
            assert!(reading.utilisation.is_none_or(|u| (0.0..=1.0).contains(&u)), "{reading:?}");
        }
    }
}
