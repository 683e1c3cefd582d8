//! AMD cards through the files of the `amdgpu` driver, as the kernel documents them
//! (<https://docs.kernel.org/gpu/amdgpu/thermal.html>, `driver-misc.html` beside it).
//!
//! A sleeping card is not woken: `power/runtime_status` is looked at first, and then only what the PCI core and the
//! compute driver keep in memory is read. `pcie_bw` is never read: it blocks for a second.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::finding::Finding;
use super::gpu_metrics::GpuMetrics;
use super::kfd::{self, KfdNode};
use super::reading::{PciAddress, PowerState, Reading, Source, clean};
use super::{TelemetryConfig, amd_names, pci, sysfs};
use crate::devices::{DeviceId, DeviceKind};

/// All AMD cards that there were since it was opened.
#[derive(Debug)]
pub struct Amdgpu {
    sysfs_root: PathBuf,
    ids_file: PathBuf,
    gone_kept: Duration,
    cards: BTreeMap<PciAddress, Card>,
    /// Of the next card that was never seen before.
    next_index: u16,
}

/// A card and what of it does not change.
#[derive(Debug)]
struct Card {
    /// The id, the name, the driver and the sizes: what a sleeping or gone card still has.
    facts: Reading,
    /// The compute driver's number for it.
    gpu_id: Option<u64>,
    /// Whether the driver was asked for the facts that only an awake card gives.
    is_asked: bool,
    last_seen: Instant,
}

impl Amdgpu {
    pub fn open(config: &TelemetryConfig) -> Amdgpu {
        Amdgpu {
            sysfs_root: config.sysfs_root.clone(),
            ids_file: config.amdgpu_ids.clone(),
            gone_kept: config.gone_kept,
            cards: BTreeMap::new(),
            next_index: 0,
        }
    }

    /// Looks at every card. Cards that are new get the next ids, in the order of their addresses; a card that has been
    /// seen keeps its id even while it is gone, and is told as [`PowerState::Gone`] for `gone_kept`.
    pub fn sample(&mut self, now: Instant) -> Vec<Reading> {
        let folders = self.folders();
        // The topology is read only when a card is new or was asleep until now.
        let is_news = |address: &PciAddress| self.cards.get(address).is_none_or(|card| !card.is_asked);
        let topology = if folders.keys().any(is_news) { kfd::nodes(&self.sysfs_root) } else { Vec::new() };
        let mut readings = Vec::new();
        for (address, folder) in &folders {
            if !self.cards.contains_key(address) {
                let id = DeviceId::new(DeviceKind::Rocm, self.next_index);
                self.next_index = self.next_index.saturating_add(1);
                let facts = self.first_facts(id, *address, folder, &topology);
                self.cards.insert(*address, Card { facts, gpu_id: None, is_asked: false, last_seen: now });
            }
            if let Some(card) = self.cards.get_mut(address) {
                card.last_seen = now;
                readings.push(card.look(folder, &topology, &self.sysfs_root));
            }
        }
        for (_, card) in self.cards.iter().filter(|(address, _)| !folders.contains_key(address)) {
            if now.saturating_duration_since(card.last_seen) <= self.gone_kept {
                readings.push(Reading { state: PowerState::Gone, link: None, ..card.facts.clone() });
            }
        }
        readings.sort_by_key(|reading| reading.id);
        readings
    }

    /// The device folders of the cards that are there now.
    fn folders(&self) -> BTreeMap<PciAddress, PathBuf> {
        let cards = sysfs::numbered(&self.sysfs_root.join("class/drm"), "card");
        let amd = cards.into_iter().map(|card| card.join("device")).filter(|folder| is_amd(folder));
        // The first of a card's nodes counts: partitions of an accelerator have one each.
        let mut folders = BTreeMap::new();
        amd.for_each(|folder| {
            if let Some(address) = address(&folder) {
                folders.entry(address).or_insert(folder);
            }
        });
        folders
    }

    /// What can be said of a card without waking it.
    fn first_facts(&self, id: DeviceId, address: PciAddress, folder: &Path, topology: &[KfdNode]) -> Reading {
        let device = sysfs::hex(&folder.join("device"));
        let revision = sysfs::hex(&folder.join("revision")).unwrap_or(0);
        let listed = device.and_then(|device| amd_names::marketing_name(&self.ids_file, device, revision));
        let name = listed.unwrap_or_else(|| match device {
            Some(device) => format!("AMD GPU 1002:{device:04x}"),
            None => "AMD GPU".to_owned(),
        });
        let version = sysfs::text(&self.sysfs_root.join("module/amdgpu/version"));
        let driver = pci::driver(folder).map(|driver| match version.filter(|_| driver == "amdgpu") {
            Some(version) => format!("{driver} {}", clean(&version)),
            None => driver,
        });
        let node = topology.iter().find(|node| node.pci == address);
        Reading {
            pci: Some(address),
            driver,
            compute: node.and_then(|node| node.target.clone()),
            is_integrated: node.filter(|node| node.has_cpu_cores).map(|_| true),
            ..Reading::new(id, name, Source::AmdgpuSysfs)
        }
    }

    pub fn findings(&self, latest: &[Reading]) -> Vec<Finding> {
        let drm = self.sysfs_root.join("class/drm");
        let looked_in = vec![drm.join("card*").display().to_string()];
        if self.cards.is_empty() {
            let why = if drm.is_dir() {
                "no card of AMD among the graphics devices"
            } else {
                "there are no graphics devices"
            };
            let remedy = "nothing, unless the machine has an AMD GPU: then load its driver (modprobe amdgpu), or give the \
                          container /dev/kfd and /dev/dri";
            return vec![Finding::missing("AMD GPUs (amdgpu driver)", looked_in, why, remedy)];
        }
        let of_cards = latest.iter().filter(|reading| reading.source == Source::AmdgpuSysfs);
        of_cards.map(|reading| finding(reading, looked_in.clone())).collect()
    }
}

fn finding(reading: &Reading, looked_in: Vec<String>) -> Finding {
    let address = reading.pci.map(|pci| pci.to_string()).unwrap_or_default();
    let what = format!("{} (amdgpu driver)", reading.id);
    let label = format!("{} at {address}", reading.name);
    match reading.state {
        PowerState::Gone => Finding::warning(what, looked_in, format!("{label} was there and is gone"), "see dmesg"),
        PowerState::Asleep => Finding::ok(what, looked_in, format!("{label}, asleep; it is not woken to be measured")),
        PowerState::Awake if reading.memory_total_bytes.is_none() => {
            let why = format!("{label} does not tell the size of its memory");
            Finding::warning(
                what,
                looked_in,
                why,
                "see dmesg for errors of its driver; kernels before 4.17 lack the files",
            )
        }
        PowerState::Awake => {
            let target = reading.compute.as_deref().map(|t| format!(", {t}")).unwrap_or_default();
            Finding::ok(what, looked_in, format!("{label}{target}"))
        }
    }
}

fn is_amd(folder: &Path) -> bool {
    sysfs::hex(&folder.join("vendor")) == Some(pci::AMD)
}

/// From the folder's place in the device tree, else from what the kernel tells udev.
fn address(folder: &Path) -> Option<PciAddress> {
    let place = std::fs::canonicalize(folder).ok()?;
    let by_place = place.file_name().and_then(|name| name.to_str()?.parse().ok());
    by_place.or_else(|| {
        let uevent = sysfs::text(&folder.join("uevent"))?;
        sysfs::value(&uevent, "PCI_SLOT_NAME", '=')?.parse().ok()
    })
}

impl Card {
    fn look(&mut self, folder: &Path, topology: &[KfdNode], sysfs_root: &Path) -> Reading {
        if pci::is_asleep(folder) {
            return Reading { state: PowerState::Asleep, link: None, ..self.facts.clone() };
        }
        let hwmon = sysfs::numbered(&folder.join("hwmon"), "hwmon").into_iter().next();
        if !self.is_asked {
            self.ask(folder, hwmon.as_deref(), topology);
        }
        let ours_bytes = self.gpu_id.and_then(|gpu_id| kfd::ours_bytes(sysfs_root, gpu_id));
        Reading { ours_bytes, ..live(folder, hwmon.as_deref(), &mut self.facts) }
    }

    /// The facts that only an awake card gives.
    fn ask(&mut self, folder: &Path, hwmon: Option<&Path>, topology: &[KfdNode]) {
        let node = topology.iter().find(|node| Some(node.pci) == self.facts.pci);
        if let Some(product) = sysfs::text(&folder.join("product_name")) {
            self.facts.name = clean(&product);
        }
        if let Some(target) = node.and_then(|node| node.target.clone()) {
            self.facts.compute = Some(target);
        }
        self.gpu_id = node.and_then(|node| node.gpu_id);
        self.facts.is_integrated = is_integrated(folder, hwmon, node);
        self.is_asked = true;
    }
}

/// Whether the card is part of the processor. The driver does not say so in so many words; these signs, in this order,
/// do: the compute driver's node has CPU cores; the metrics have a format of APUs; there is a north bridge voltage
/// (`in1`), which only APUs have; else, the memory has a maker, or the metrics have the format of cards.
fn is_integrated(folder: &Path, hwmon: Option<&Path>, node: Option<&KfdNode>) -> Option<bool> {
    let metrics = metrics(folder);
    let has_bridge = hwmon.is_some_and(|hwmon| hwmon.join("in1_input").exists());
    if node.is_some_and(|node| node.has_cpu_cores) || metrics.is_some_and(|m| m.is_integrated) || has_bridge {
        return Some(true);
    }
    let maker = sysfs::text(&folder.join("mem_info_vram_vendor"));
    let is_card = metrics.is_some() || maker.is_some_and(|maker| maker != "unknown");
    is_card.then_some(false)
}

fn metrics(folder: &Path) -> Option<GpuMetrics> {
    GpuMetrics::parse(&sysfs::bytes(&folder.join("gpu_metrics"))?)
}

/// What an awake card tells at the moment; sizes are remembered in `facts`.
fn live(folder: &Path, hwmon: Option<&Path>, facts: &mut Reading) -> Reading {
    let memory = |name: &str| sysfs::number(&folder.join(name)).filter(|n| *n <= MAX_MEMORY_BYTES);
    facts.memory_total_bytes = memory("mem_info_vram_total").filter(|n| *n > 0).or(facts.memory_total_bytes);
    facts.gtt_total_bytes = memory("mem_info_gtt_total").filter(|n| *n > 0).or(facts.gtt_total_bytes);
    let used = |name, total: Option<u64>| memory(name).filter(|used| total.is_none_or(|total| *used <= total));
    let sensor = |name: &str| sysfs::signed(&hwmon?.join(name));
    let first = |names: &[&str]| names.iter().find_map(|name| sensor(name));
    let busy = sysfs::number(&folder.join("gpu_busy_percent")).filter(|percent| *percent <= 100);
    let mut reading = Reading {
        state: PowerState::Awake,
        memory_used_bytes: used("mem_info_vram_used", facts.memory_total_bytes),
        gtt_used_bytes: used("mem_info_gtt_used", facts.gtt_total_bytes),
        utilisation: busy.map(|percent| percent as f32 / 100.0),
        power_w: first(&["power1_average", "power1_input"]).and_then(watts),
        power_limit_w: sensor("power1_cap").and_then(watts).filter(|limit| *limit > 0.0),
        // Edge, else junction: accelerators since MI300 have only that.
        temperature_c: first(&["temp1_input", "temp2_input"]).and_then(celsius),
        clock_mhz: sensor("freq1_input").and_then(hertz).or_else(|| dpm_clock(&folder.join("pp_dpm_sclk"))),
        memory_clock_mhz: sensor("freq2_input").and_then(hertz).or_else(|| dpm_clock(&folder.join("pp_dpm_mclk"))),
        fan: fan(&sensor),
        link: pci::slot_link(folder, pci::AMD),
        ..facts.clone()
    };
    let has_gap = reading.utilisation.is_none()
        || reading.temperature_c.is_none()
        || reading.power_w.is_none()
        || reading.clock_mhz.is_none();
    if has_gap && let Some(metrics) = metrics(folder) {
        reading.utilisation = reading.utilisation.or(metrics.utilisation);
        reading.temperature_c = reading.temperature_c.or(metrics.temperature_c.filter(is_temperature));
        reading.power_w = reading.power_w.or(metrics.power_w.filter(|watts| *watts <= MAX_POWER_W));
        reading.clock_mhz = reading.clock_mhz.or(metrics.clock_mhz.filter(|mhz| *mhz <= MAX_CLOCK_MHZ));
        reading.memory_clock_mhz =
            reading.memory_clock_mhz.or(metrics.memory_clock_mhz.filter(|mhz| *mhz <= MAX_CLOCK_MHZ));
    }
    reading
}

// Beyond these a number is a driver's mistake, not a measurement.
const MAX_MEMORY_BYTES: u64 = 1 << 50;
const MAX_POWER_W: f32 = 10_000.0;
const MAX_CLOCK_MHZ: u32 = 20_000;

fn is_temperature(celsius: &f32) -> bool {
    (-50.0..=200.0).contains(celsius)
}

/// From microwatts.
fn watts(microwatts: i64) -> Option<f32> {
    let watts = (microwatts as f64 / 1e6) as f32;
    (0.0..=MAX_POWER_W).contains(&watts).then_some(watts)
}

/// From thousandths of a degree.
fn celsius(thousandths: i64) -> Option<f32> {
    Some((thousandths as f64 / 1e3) as f32).filter(is_temperature)
}

/// MHz from Hz. A card whose clock is gated tells 0, which is a fact.
fn hertz(hz: i64) -> Option<u32> {
    u32::try_from(hz / 1_000_000).ok().filter(|mhz| hz >= 0 && *mhz <= MAX_CLOCK_MHZ)
}

/// The level in use is marked: `1: 2301Mhz *`.
fn dpm_clock(path: &Path) -> Option<u32> {
    let levels = sysfs::text(path)?;
    let marked = levels.lines().find_map(|line| line.trim_end().strip_suffix('*'))?;
    let (_, clock) = marked.split_once(':')?;
    let clock = clock.trim();
    let digits = clock.find(|c: char| !c.is_ascii_digit()).and_then(|end| clock.get(..end)).unwrap_or(clock);
    digits.parse().ok().filter(|mhz| *mhz <= MAX_CLOCK_MHZ)
}

/// By its turns where the most is known (a fan at rest has 0), else by the width of its pulses.
fn fan(sensor: &impl Fn(&str) -> Option<i64>) -> Option<f32> {
    let share = |part: i64, whole: i64| (whole > 0 && part >= 0).then(|| (part as f32 / whole as f32).min(1.0));
    let turning = sensor("fan1_input").zip(sensor("fan1_max")).and_then(|(now, most)| share(now, most));
    turning.or_else(|| share(sensor("pwm1")?, sensor("pwm1_max").unwrap_or(255)))
}

#[cfg(test)]
#[path = "amdgpu_tests.rs"]
mod tests;
