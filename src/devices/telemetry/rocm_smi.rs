//! AMD's management library, loaded by name: a second source for what `amdgpu`'s files leave open.
//!
//! It is initialised only when a card that is awake leaves something open and no card sleeps, because its
//! initialisation asks every card.

use std::path::{Path, PathBuf};

use libloading::Library;

use super::finding::Finding;
use super::library::{self, Found};
use super::reading::{PciAddress, Reading, Source};

/// Versions of the library's name; Debian counts its own from 1.
const VERSIONS: [u32; 4] = [7, 6, 5, 1];

/// `rsmi_status_t`: 0 is success.
type Status = i32;

/// The functions used, with the signatures of `rocm_smi.h`.
#[derive(Clone, Copy)]
struct Table {
    init: unsafe extern "C" fn(flags: u64) -> Status,
    shut_down: unsafe extern "C" fn() -> Status,
    num_monitor_devices: unsafe extern "C" fn(n: *mut u32) -> Status,
    dev_pci_id_get: unsafe extern "C" fn(device: u32, bdfid: *mut u64) -> Status,
    dev_busy_percent_get: unsafe extern "C" fn(device: u32, percent: *mut u32) -> Status,
    /// In microwatts. Newer libraries may lack it.
    dev_power_ave_get: Option<unsafe extern "C" fn(device: u32, sensor: u32, microwatts: *mut u64) -> Status>,
    /// In thousandths of a degree.
    dev_temp_metric_get: unsafe extern "C" fn(device: u32, sensor: u32, metric: u32, thousandths: *mut i64) -> Status,
    dev_memory_total_get: unsafe extern "C" fn(device: u32, kind: u32, n_bytes: *mut u64) -> Status,
    dev_memory_usage_get: unsafe extern "C" fn(device: u32, kind: u32, n_bytes: *mut u64) -> Status,
}

const TEMP_EDGE: u32 = 0;
const TEMP_JUNCTION: u32 = 1;
const TEMP_CURRENT: u32 = 0;
const MEMORY_VRAM: u32 = 0;
const MEMORY_GTT: u32 = 2;

/// The library, initialised.
pub struct RocmSmi {
    table: Table,
    devices: Vec<(PciAddress, u32)>,
    /// Keeps the functions of the table loaded.
    _library: Option<Library>,
}

/// Where it is looked for; `given` instead of everywhere else.
pub fn candidates(given: Option<&Path>) -> Vec<PathBuf> {
    match given {
        Some(path) => vec![path.to_owned()],
        None => {
            let rocm_path = std::env::var_os("ROCM_PATH");
            library::rocm_candidates("librocm_smi64.so", &VERSIONS, rocm_path, Path::new("/opt"))
        }
    }
}

impl RocmSmi {
    /// # Errors
    /// A line that says why there is none.
    pub fn open(given: Option<&Path>) -> Result<RocmSmi, String> {
        // SAFETY: the names are those of ROCm's own library, or what the user gave in its place.
        let Found { library, .. } = unsafe { library::load_first(&candidates(given)) }.map_err(|none| none.why())?;
        // SAFETY: `rocm_smi.h` declares the functions with the types of the table, in all versions named above.
        let table = unsafe { Table::of(&library) }.map_err(|name| format!("the library has no {name}"))?;
        RocmSmi::with(table, Some(library))
    }

    fn with(table: Table, library: Option<Library>) -> Result<RocmSmi, String> {
        // SAFETY: called once, before anything else of the library.
        let status = unsafe { (table.init)(0) };
        if status != 0 {
            return Err(format!("rsmi_init failed with status {status}"));
        }
        let mut smi = RocmSmi { table, devices: Vec::new(), _library: library };
        // SAFETY: initialised above; the pointer is to a live value.
        let n = get(|n| unsafe { (table.num_monitor_devices)(n) }).unwrap_or(0u32);
        let address = |device| {
            // SAFETY: as above; the device is one of those counted.
            let bdfid = get(|id| unsafe { (table.dev_pci_id_get)(device, id) })?;
            Some((unpack(bdfid), device))
        };
        smi.devices = (0..n.min(256)).filter_map(address).collect();
        Ok(smi)
    }

    /// Fills what is open in a reading of a card that is awake.
    pub fn fill(&self, reading: &mut Reading) {
        let Some(&(_, device)) = self.devices.iter().find(|(address, _)| Some(*address) == reading.pci) else { return };
        let before = reading.clone();
        let table = self.table;
        // SAFETY, for all calls here: the library is initialised until `self` is dropped, the device is one that it
        // counted, and each pointer is to a live value of the type that the function writes.
        let total = |kind| get(|n| unsafe { (table.dev_memory_total_get)(device, kind, n) }).filter(|n: &u64| *n > 0);
        // SAFETY: as above.
        let usage = |kind| get(|n| unsafe { (table.dev_memory_usage_get)(device, kind, n) });
        let temperature = |sensor| {
            // SAFETY: as above.
            let thousandths: i64 = get(|t| unsafe { (table.dev_temp_metric_get)(device, sensor, TEMP_CURRENT, t) })?;
            Some((thousandths as f64 / 1e3) as f32).filter(|celsius| (-50.0..=200.0).contains(celsius))
        };
        reading.memory_total_bytes = reading.memory_total_bytes.or_else(|| total(MEMORY_VRAM));
        reading.memory_used_bytes = reading.memory_used_bytes.or_else(|| usage(MEMORY_VRAM));
        reading.gtt_total_bytes = reading.gtt_total_bytes.or_else(|| total(MEMORY_GTT));
        reading.gtt_used_bytes = reading.gtt_used_bytes.or_else(|| usage(MEMORY_GTT));
        reading.temperature_c =
            reading.temperature_c.or_else(|| temperature(TEMP_EDGE)).or_else(|| temperature(TEMP_JUNCTION));
        reading.utilisation = reading.utilisation.or_else(|| {
            // SAFETY: as above.
            let percent: u32 = get(|p| unsafe { (table.dev_busy_percent_get)(device, p) })?;
            (percent <= 100).then_some(percent as f32 / 100.0)
        });
        reading.power_w = reading.power_w.or_else(|| {
            let power_ave_get = table.dev_power_ave_get?;
            // SAFETY: as above.
            let microwatts: u64 = get(|p| unsafe { power_ave_get(device, 0, p) })?;
            Some((microwatts as f64 / 1e6) as f32).filter(|watts| *watts <= 10_000.0)
        });
        if *reading != before {
            reading.supplement = Some(Source::RocmSmi);
        }
    }
}

impl Drop for RocmSmi {
    fn drop(&mut self) {
        // SAFETY: initialised in `with`, and nothing of the library is called afterwards.
        unsafe { (self.table.shut_down)() };
    }
}

impl Table {
    /// # Errors
    /// The name of the function that is missing.
    ///
    /// # Safety
    /// Functions of these names in the library must have the types of the table's fields.
    unsafe fn of(library: &Library) -> Result<Table, &'static str> {
        macro_rules! function {
            ($name:literal) => {
                // SAFETY: the caller vouches for the types.
                unsafe { library.get($name) }.map(|symbol| *symbol).map_err(|_| $name)
            };
        }
        Ok(Table {
            init: function!("rsmi_init")?,
            shut_down: function!("rsmi_shut_down")?,
            num_monitor_devices: function!("rsmi_num_monitor_devices")?,
            dev_pci_id_get: function!("rsmi_dev_pci_id_get")?,
            dev_busy_percent_get: function!("rsmi_dev_busy_percent_get")?,
            dev_power_ave_get: function!("rsmi_dev_power_ave_get").ok(),
            dev_temp_metric_get: function!("rsmi_dev_temp_metric_get")?,
            dev_memory_total_get: function!("rsmi_dev_memory_total_get")?,
            dev_memory_usage_get: function!("rsmi_dev_memory_usage_get")?,
        })
    }
}

/// The value that a function writes, where it succeeds.
fn get<T: Default>(call: impl FnOnce(&mut T) -> Status) -> Option<T> {
    let mut value = T::default();
    (call(&mut value) == 0).then_some(value)
}

/// The upper half is the domain, the lower 16 bits are bus, device and function.
fn unpack(bdfid: u64) -> PciAddress {
    PciAddress::from_packed((bdfid >> 32) as u32, bdfid as u16)
}

/// Whether it could be loaded; it is not initialised for that.
pub fn finding(given: Option<&Path>, failure: Option<&str>) -> Finding {
    const WHAT: &str = "ROCm SMI (second source for AMD GPUs)";
    const REMEDY: &str = "nothing, unless an AMD GPU shows N/A: then install rocm-smi-lib (Debian: librocm-smi64-1)";
    let candidates = candidates(given);
    let looked_in = library::texts(&candidates);
    if let Some(why) = failure {
        return Finding::missing(WHAT, looked_in, why, REMEDY);
    }
    // SAFETY: as in `open`.
    match unsafe { library::load_first(&candidates) } {
        Ok(found) => Finding::ok(WHAT, looked_in, found.place.display().to_string()),
        Err(none) => Finding::missing(WHAT, looked_in, none.why(), REMEDY),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::devices::{DeviceId, DeviceKind};

    unsafe extern "C" fn init(_: u64) -> Status {
        0
    }
    unsafe extern "C" fn init_fails(_: u64) -> Status {
        8
    }
    unsafe extern "C" fn shut_down() -> Status {
        0
    }
    unsafe extern "C" fn two(n: *mut u32) -> Status {
        // SAFETY: called with a pointer to a live value; so are the functions below.
        unsafe { *n = 2 };
        0
    }
    unsafe extern "C" fn pci_id(device: u32, id: *mut u64) -> Status {
        // SAFETY: as above.
        unsafe { *id = (1 << 32) | (u64::from(device + 3) << 8) };
        0
    }
    unsafe extern "C" fn busy(device: u32, percent: *mut u32) -> Status {
        // SAFETY: as above.
        unsafe { *percent = 40 + device };
        0
    }
    unsafe extern "C" fn fails(_: u32, _: u32, _: *mut u64) -> Status {
        2
    }
    unsafe extern "C" fn junction(_: u32, sensor: u32, _: u32, thousandths: *mut i64) -> Status {
        // SAFETY: as above.
        unsafe { *thousandths = 61_500 };
        if sensor == TEMP_JUNCTION { 0 } else { 2 }
    }
    unsafe extern "C" fn memory(_: u32, kind: u32, n_bytes: *mut u64) -> Status {
        // SAFETY: as above.
        unsafe { *n_bytes = 1000 + u64::from(kind) };
        0
    }

    fn table() -> Table {
        Table {
            init,
            shut_down,
            num_monitor_devices: two,
            dev_pci_id_get: pci_id,
            dev_busy_percent_get: busy,
            dev_power_ave_get: Some(fails),
            dev_temp_metric_get: junction,
            dev_memory_total_get: memory,
            dev_memory_usage_get: memory,
        }
    }

    fn open_reading() -> Reading {
        let id = DeviceId::new(DeviceKind::Rocm, 0);
        Reading { pci: "0001:04:00.0".parse().ok(), ..Reading::new(id, "card".into(), Source::AmdgpuSysfs) }
    }

    #[test]
    fn only_what_is_open_is_filled() {
        let smi = RocmSmi::with(table(), None).unwrap();
        let mut reading = Reading { memory_total_bytes: Some(7), ..open_reading() };
        smi.fill(&mut reading);
        let expected = Reading {
            memory_total_bytes: Some(7),
            memory_used_bytes: Some(1000),
            gtt_total_bytes: Some(1002),
            gtt_used_bytes: Some(1002),
            utilisation: Some(0.41),
            temperature_c: Some(61.5),
            power_w: None,
            supplement: Some(Source::RocmSmi),
            ..open_reading()
        };
        assert_eq!(reading, expected);
    }

    #[test]
    fn a_card_that_it_does_not_know_is_left_alone() {
        let smi = RocmSmi::with(table(), None).unwrap();
        let mut reading = Reading { pci: "0000:04:00.0".parse().ok(), ..open_reading() };
        let before = reading.clone();
        smi.fill(&mut reading);
        assert_eq!(reading, before);
    }

    #[test]
    fn where_the_library_is_installed_it_opens_or_says_why_not() {
        match RocmSmi::open(None) {
            Ok(smi) => assert!(smi.devices.iter().all(|(address, _)| address.to_string().len() >= 12)),
            Err(why) => assert!(!why.is_empty()),
        }
    }

    #[test]
    fn its_failures_are_words() {
        let failed = RocmSmi::with(Table { init: init_fails, ..table() }, None);
        assert_eq!(failed.err().unwrap(), "rsmi_init failed with status 8");
        let none = RocmSmi::open(Some(Path::new("/nonexistent/librocm_smi64.so")));
        assert_eq!(none.err().unwrap(), "it is not installed");
        let found = finding(Some(Path::new("/nonexistent/librocm_smi64.so")), None);
        assert_eq!(found.looked_in, ["/nonexistent/librocm_smi64.so"]);
        assert!(matches!(found.result, super::super::FindingResult::Missing { .. }));
    }
}
