//! Finds the devices of this machine.

use super::DeviceId;
use super::cpu::CpuConfig;
use super::cpu::matmul::ActivationFormat;
use super::rig::Rig;

/// The host as `n` devices, each with memory of its own and `threads` threads (as many as there are physical cores,
/// where not given). More than one is for trying placements: they share the cores.
pub fn cpu_devices(n: usize, threads: Option<usize>) -> Vec<CpuConfig> {
    let host = HostCpu::now();
    let n_threads = threads.unwrap_or(host.n_cores).max(1);
    (0..n)
        .map_while(|index| u16::try_from(index).ok())
        .map(|index| CpuConfig {
            id: DeviceId::cpu(index),
            name: host.name.clone(),
            simulated: false,
            n_threads,
            memory_bytes: None,
            activations: ActivationFormat::Int8,
            memory_bytes_per_s: None,
            link_bytes_per_s: None,
        })
        .collect()
}

/// The devices of a rig file, each simulated on this CPU with `threads` threads, where the file gives no other number.
pub fn rig_devices(rig: &Rig, threads: Option<usize>) -> Vec<CpuConfig> {
    let n_threads = threads.unwrap_or_else(|| HostCpu::now().n_cores).max(1);
    rig.devices
        .iter()
        .map(|device| CpuConfig {
            id: device.id,
            name: device.name.clone(),
            simulated: true,
            n_threads: device.n_threads.unwrap_or(n_threads),
            memory_bytes: Some(device.memory_bytes),
            activations: ActivationFormat::Int8,
            memory_bytes_per_s: device.memory_bytes_per_s,
            link_bytes_per_s: device.link_bytes_per_s,
        })
        .collect()
}

/// The processor as the operating system describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostCpu {
    pub name: String,
    /// Physical cores that this process may use.
    pub n_cores: usize,
}

impl HostCpu {
    pub fn now() -> HostCpu {
        let specifics = sysinfo::RefreshKind::nothing().with_cpu(sysinfo::CpuRefreshKind::nothing());
        let system = sysinfo::System::new_with_specifics(specifics).ok();
        let brand = system.as_ref().and_then(|s| s.cpus().first()).map(|cpu| cpu.brand().trim().to_owned());
        // An affinity mask or a container may allow fewer than there are.
        let n_allowed = std::thread::available_parallelism().map_or(1, |n| n.get());
        let n_physical = sysinfo::System::physical_core_count().unwrap_or(n_allowed);
        HostCpu {
            name: brand.filter(|name| !name.is_empty()).unwrap_or_else(|| format!("{} CPU", std::env::consts::ARCH)),
            n_cores: n_physical.clamp(1, n_allowed.max(1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::devices::cpu::CpuDevice;
    use crate::devices::{Device, DeviceFacts};

    #[test]
    fn the_host_becomes_devices() {
        let configs = cpu_devices(3, None);
        let ids: Vec<_> = configs.iter().map(|c| c.id.to_string()).collect();
        assert_eq!(ids, ["cpu0", "cpu1", "cpu2"]);
        assert!(configs.iter().all(|c| !c.name.is_empty() && !c.simulated && c.n_threads >= 1));
        let device = CpuDevice::new(cpu_devices(1, Some(2)).remove(0)).unwrap();
        let DeviceFacts { n_threads, simulated, .. } = device.facts();
        assert_eq!((*n_threads, *simulated), (2, false));
        assert!(device.memory().free_bytes > 0);
    }

    #[test]
    fn no_threads_means_one() {
        assert_eq!(cpu_devices(1, Some(0))[0].n_threads, 1);
    }
}
