//! What the devices of this machine are doing: memory, load, power, temperature, clocks, links.
//!
//! Three sources give one type, [`Reading`]: NVML for NVIDIA cards, the files of `amdgpu` (with ROCm SMI as a second
//! source) for AMD cards, sysinfo for the host. What a source cannot tell is `None`. Nothing here fails: a missing
//! library or permission is a [`Finding`], and the doctor shows it.
//!
//! Invariant: measuring changes nothing. A sleeping card is not woken, and no device file is opened.

mod amd_names;
mod amdgpu;
mod examine;
mod finding;
mod gpu_metrics;
mod host;
mod kfd;
pub mod library;
mod nvml;
mod pci;
mod reading;
mod rocm_smi;
mod sampler;
mod sysfs;
#[cfg(test)]
mod testing;

use std::path::PathBuf;
use std::time::{Duration, Instant};

pub use examine::examine;
pub use finding::{Finding, FindingResult};
pub use reading::{Link, LinkRate, PciAddress, PowerState, Reading, Source};
pub use sampler::{Sampler, Snapshot};

use amdgpu::Amdgpu;
use host::Host;
use nvml::NvmlSource;
use rocm_smi::RocmSmi;

/// Where to look.
#[derive(Clone, Debug)]
pub struct TelemetryConfig {
    pub sysfs_root: PathBuf,
    pub dev_root: PathBuf,
    /// Instead of everywhere where NVML may lie.
    pub nvml_path: Option<PathBuf>,
    /// Instead of everywhere where ROCm SMI may lie.
    pub rocm_smi_path: Option<PathBuf>,
    /// libdrm's list of product names.
    pub amdgpu_ids: PathBuf,
    /// How long an AMD card that has disappeared is still told, as gone.
    pub gone_kept: Duration,
}

impl Default for TelemetryConfig {
    /// The running system.
    fn default() -> TelemetryConfig {
        TelemetryConfig {
            sysfs_root: "/sys".into(),
            dev_root: "/dev".into(),
            nvml_path: None,
            rocm_smi_path: None,
            amdgpu_ids: "/usr/share/libdrm/amdgpu.ids".into(),
            gone_kept: Duration::from_secs(60),
        }
    }
}

/// All sources together.
pub struct Telemetry {
    config: TelemetryConfig,
    nvml: Result<NvmlSource, Finding>,
    amdgpu: Amdgpu,
    rocm_smi: Second,
    host: Host,
    latest: Vec<Reading>,
}

/// The second source of AMD cards.
enum Second {
    NotNeeded,
    Open(RocmSmi),
    Failed(String),
}

impl Telemetry {
    /// Loads what there is. With an NVIDIA driver this takes some tenths of a second.
    pub fn open(config: &TelemetryConfig) -> Telemetry {
        Telemetry {
            nvml: NvmlSource::open(config),
            amdgpu: Amdgpu::open(config),
            rocm_smi: Second::NotNeeded,
            host: Host::open(config),
            latest: Vec::new(),
            config: config.clone(),
        }
    }

    /// One reading a device: NVIDIA cards, AMD cards, the host. A device keeps its id for as long as this lives.
    pub fn sample(&mut self) -> Vec<Reading> {
        let nvidia = self.nvml.as_mut().map(NvmlSource::sample).unwrap_or_default();
        let mut amd = self.amdgpu.sample(Instant::now());
        self.fill_gaps(&mut amd);
        let host = self.host.sample();
        self.latest = nvidia.into_iter().chain(amd).chain([host]).collect();
        self.latest.clone()
    }

    fn fill_gaps(&mut self, amd: &mut [Reading]) {
        let is_awake_with_gap = |reading: &Reading| reading.state == PowerState::Awake && has_gap(reading);
        let is_asleep = |reading: &Reading| reading.state == PowerState::Asleep;
        if !amd.iter().any(is_awake_with_gap) || amd.iter().any(is_asleep) {
            return;
        }
        if matches!(self.rocm_smi, Second::NotNeeded) {
            self.rocm_smi = match RocmSmi::open(self.config.rocm_smi_path.as_deref()) {
                Ok(library) => Second::Open(library),
                Err(why) => Second::Failed(why),
            };
        }
        if let Second::Open(library) = &self.rocm_smi {
            amd.iter_mut().filter(|reading| is_awake_with_gap(reading)).for_each(|reading| library.fill(reading));
        }
    }

    /// What became of the sources, as of the latest sample. [`examine`] tells what surrounds them.
    pub fn findings(&self) -> Vec<Finding> {
        let mut findings = match &self.nvml {
            Ok(source) => source.findings(&self.latest),
            Err(finding) => vec![finding.clone()],
        };
        findings.extend(self.amdgpu.findings(&self.latest));
        let failure = match &self.rocm_smi {
            Second::NotNeeded | Second::Open(_) => None,
            Second::Failed(why) => Some(why.as_str()),
        };
        findings.push(rocm_smi::finding(self.config.rocm_smi_path.as_deref(), failure));
        findings
    }
}

/// Whether the second source might know more.
fn has_gap(reading: &Reading) -> bool {
    reading.memory_total_bytes.is_none()
        || reading.memory_used_bytes.is_none()
        || reading.utilisation.is_none()
        || reading.power_w.is_none()
        || reading.temperature_c.is_none()
}

#[cfg(test)]
mod tests {
    use super::testing::{TestCard, Tree};
    use super::*;

    #[test]
    fn the_host_is_always_there() {
        let tree = Tree::new();
        let mut telemetry = Telemetry::open(&tree.config());
        let readings = telemetry.sample();
        let ids: Vec<_> = readings.iter().map(|reading| reading.id.to_string()).collect();
        assert_eq!(ids, ["cpu0"]);
        let missing = telemetry.findings();
        assert_eq!(missing.len(), 3);
        for finding in missing {
            assert!(matches!(finding.result, FindingResult::Missing { .. }), "{finding:?}");
            assert!(!finding.looked_in.is_empty(), "{finding:?}");
        }
    }

    #[test]
    fn the_second_source_is_asked_only_about_cards_that_are_awake() {
        let tree = Tree::new();
        let awake = TestCard { index: 0, folder: "0000:03:00.0", files: &[("mem_info_vram_total", "1000\n")] };
        tree.card(&awake);
        tree.card(&TestCard { index: 1, folder: "0000:04:00.0", files: &[("power/runtime_status", "suspended\n")] });
        let mut telemetry = Telemetry::open(&tree.config());
        telemetry.sample();
        assert!(matches!(telemetry.rocm_smi, Second::NotNeeded));
        tree.remove_card(1);
        telemetry.sample();
        assert!(matches!(&telemetry.rocm_smi, Second::Failed(why) if why == "it is not installed"));
        assert!(telemetry.findings().iter().any(|finding| finding.what.starts_with("ROCm SMI")));
    }

    #[test]
    fn readings_and_findings_become_json() {
        let tree = Tree::new();
        tree.card(&TestCard { index: 0, folder: "0000:03:00.0", files: &[("mem_info_vram_total", "1000\n")] });
        let mut telemetry = Telemetry::open(&tree.config());
        let readings = serde_json::to_value(telemetry.sample()).unwrap();
        assert_eq!((&readings[0]["id"], &readings[0]["pci"]), (&"rocm0".into(), &"0000:03:00.0".into()));
        assert_eq!(readings[0]["utilisation"], serde_json::Value::Null);
        let findings = serde_json::to_value(telemetry.findings()).unwrap();
        assert_eq!(findings[0]["result"], "missing");
    }
}
