//! The host: processor, memory, swap, and what this process holds.

use std::path::PathBuf;

use sysinfo::{CpuRefreshKind, Pid, ProcessRefreshKind, ProcessesToUpdate, System};

use super::reading::{Reading, Source, clean};
use super::{TelemetryConfig, sysfs};
use crate::devices::DeviceId;
use crate::devices::cpu::memory::HostMemory;
use crate::devices::discover::HostCpu;

/// Clocks are read every so many samples: it costs a file per core, and some kernels interrupt the core for it.
const SAMPLES_PER_CLOCK: u32 = 8;

pub struct Host {
    /// `None` where the operating system is unknown to sysinfo.
    system: Option<System>,
    name: String,
    pid: Option<Pid>,
    n_samples: u32,
    clock_mhz: Option<u32>,
    sysfs_root: PathBuf,
}

impl Host {
    pub fn open(config: &TelemetryConfig) -> Host {
        Host {
            system: System::new().ok(),
            name: clean(&HostCpu::now().name),
            pid: sysinfo::get_current_pid().ok(),
            n_samples: 0,
            clock_mhz: None,
            sysfs_root: config.sysfs_root.clone(),
        }
    }

    /// Load is told from the second sample on: it is what happened since the one before.
    pub fn sample(&mut self) -> Reading {
        let reading = Reading::new(DeviceId::cpu(0), self.name.clone(), Source::Host);
        let temperature_c = self.temperature_c();
        let Some(system) = &mut self.system else { return Reading { temperature_c, ..reading } };
        let is_first = self.n_samples == 0;
        let specifics = CpuRefreshKind::nothing().with_usage();
        system.refresh_cpu_specifics(specifics);
        if self.n_samples.is_multiple_of(SAMPLES_PER_CLOCK) {
            system.refresh_cpu_frequency();
            let fastest = system.cpus().iter().map(|cpu| cpu.frequency()).max();
            self.clock_mhz = fastest.filter(|mhz| *mhz > 0).and_then(|mhz| mhz.try_into().ok());
        }
        self.n_samples = self.n_samples.wrapping_add(1).max(1);
        system.refresh_memory();
        if let Some(pid) = self.pid {
            let kind = ProcessRefreshKind::nothing().with_memory().without_tasks();
            system.refresh_processes_specifics(ProcessesToUpdate::Some(&[pid]), false, kind);
        }
        let ours = self.pid.and_then(|pid| system.process(pid)).map(|process| process.memory());
        let load = |percent: f32| (percent / 100.0).clamp(0.0, 1.0);
        let cores = if is_first { Vec::new() } else { system.cpus().iter().map(|cpu| load(cpu.usage())).collect() };
        // The same figures by which the CPU device decides what fits: they know of a container's limit.
        let memory = HostMemory::now();
        let is_known = memory.total_bytes > 0 && memory.total_bytes < isize::MAX as u64;
        let total = is_known.then_some(memory.total_bytes);
        Reading {
            is_integrated: None,
            memory_total_bytes: total,
            memory_used_bytes: total.map(|total| total.saturating_sub(memory.available_bytes)),
            swap_total_bytes: Some(system.total_swap()),
            swap_used_bytes: Some(system.used_swap()),
            ours_bytes: ours.filter(|n_bytes| *n_bytes > 0),
            utilisation: (!cores.is_empty()).then(|| cores.iter().sum::<f32>() / cores.len() as f32),
            cores,
            temperature_c,
            clock_mhz: self.clock_mhz,
            ..reading
        }
    }

    /// The hottest processor's own sensor.
    fn temperature_c(&self) -> Option<f32> {
        let monitors = sysfs::numbered(&self.sysfs_root.join("class/hwmon"), "hwmon");
        monitors
            .iter()
            .filter_map(|monitor| {
                let name = sysfs::text(&monitor.join("name"))?;
                // Of AMD's sensor the first is the control temperature, of Intel's the package.
                let is_processor = matches!(name.as_str(), "k10temp" | "zenpower" | "coretemp" | "cpu_thermal");
                let thousandths = sysfs::signed(&monitor.join("temp1_input")).filter(|_| is_processor)?;
                Some((thousandths as f64 / 1e3) as f32).filter(|celsius| (-50.0..=200.0).contains(celsius))
            })
            .reduce(f32::max)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Tree;
    use super::*;
    use std::time::Duration;

    #[test]
    fn this_machine_is_plausible() {
        let mut host = Host::open(&TelemetryConfig::default());
        let first = host.sample();
        assert_eq!((first.utilisation, first.cores.len()), (None, 0));
        std::thread::sleep(sysinfo::MINIMUM_CPU_UPDATE_INTERVAL + Duration::from_millis(20));
        let second = host.sample();
        assert_eq!(second.id, DeviceId::cpu(0));
        assert!(!second.name.is_empty() && !second.cores.is_empty(), "{second:?}");
        assert!(second.cores.iter().all(|load| (0.0..=1.0).contains(load)), "{second:?}");
        assert!(second.utilisation.is_some_and(|load| (0.0..=1.0).contains(&load)));
        assert!(second.memory_total_bytes > Some(64 << 20) && second.memory_used_bytes <= second.memory_total_bytes);
        // A test program holds more than 1 MiB and less than the machine has.
        assert!(second.ours_bytes > Some(1 << 20) && second.ours_bytes < second.memory_total_bytes, "{second:?}");
    }

    #[test]
    fn what_this_process_takes_is_seen() {
        let mut host = Host::open(&TelemetryConfig::default());
        let before = host.sample().ours_bytes.unwrap();
        let held = vec![1u8; 96 << 20];
        let after = host.sample().ours_bytes.unwrap();
        assert!(after >= before + (64 << 20), "{before} {after} {}", held[1000]);
    }

    #[test]
    fn the_hottest_processor_counts() {
        let tree = Tree::new();
        let monitor = |index: u32, name: &str, temperature: &str| {
            tree.file(&format!("class/hwmon/hwmon{index}/name"), name);
            tree.file(&format!("class/hwmon/hwmon{index}/temp1_input"), temperature);
        };
        let temperature = || Host::open(&tree.config()).sample().temperature_c;
        assert_eq!(temperature(), None);
        monitor(0, "nvme\n", "99000\n");
        assert_eq!(temperature(), None);
        monitor(1, "coretemp\n", "55000\n");
        monitor(2, "coretemp\n", "61250\n");
        assert_eq!(temperature(), Some(61.25));
        monitor(2, "coretemp\n", "garbage");
        assert_eq!(temperature(), Some(55.0));
        monitor(1, "k10temp\n", "9999999999\n");
        assert_eq!(temperature(), None);
    }
}
