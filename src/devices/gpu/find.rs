//! The GPUs of this machine, over all drivers.

use std::sync::Arc;

use super::cuda::Cuda;
use super::driver::{Driver, DriverError, GpuInfo};
use super::hip::Hip;
pub use super::native::library::Unavailable;
use crate::devices::{DeviceId, DeviceKind};

/// Variables that hide devices from the drivers.
const HIDING: [&str; 4] = ["CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL"];

/// A GPU with the driver that runs it.
#[derive(Clone)]
pub struct FoundGpu {
    pub id: DeviceId,
    pub driver: Arc<dyn Driver>,
    pub info: GpuInfo,
}

/// What was found, and what was not.
pub struct Found {
    /// By kind, then by PCI address.
    pub gpus: Vec<FoundGpu>,
    /// Drivers that are not there and devices that could not be asked.
    pub unavailable: Vec<Unavailable>,
    /// Environment variables that are set and hide devices from their drivers, with their values.
    pub hiding: Vec<(String, String)>,
}

/// Loads the drivers and asks for their devices.
pub fn find_gpus() -> Found {
    fn shared<D: Driver + 'static>(driver: D) -> Arc<dyn Driver> {
        Arc::new(driver)
    }
    found_by(vec![Cuda::load().map(shared), Hip::load().map(shared)], |name| std::env::var(name).ok())
}

/// The devices of these drivers. `env` gives environment variables.
pub fn found_by(drivers: Vec<Result<Arc<dyn Driver>, Unavailable>>, env: impl Fn(&str) -> Option<String>) -> Found {
    let mut found = Found { gpus: Vec::new(), unavailable: Vec::new(), hiding: hiding(env) };
    for driver in drivers {
        match driver.and_then(|driver| Ok((ask(&*driver)?, driver))) {
            Ok((answers, driver)) => {
                let (infos, unavailable) = sort_out(driver.kind(), answers);
                found.gpus.extend(number(driver.kind(), infos).into_iter().map(|(id, info)| {
                    let driver = driver.clone();
                    FoundGpu { id, driver, info }
                }));
                found.unavailable.extend(unavailable);
            }
            Err(unavailable) => found.unavailable.push(unavailable),
        }
    }
    found
}

/// What a driver says of each of its devices.
fn ask(driver: &dyn Driver) -> Result<Vec<Result<GpuInfo, DriverError>>, Unavailable> {
    let (kind, version) = (driver.kind(), driver.version());
    let unavailable = |message| Unavailable { kind, message, tried: Vec::new() };
    let n = driver.n_devices().map_err(|error| unavailable(format!("{version} cannot list its devices: {error}")))?;
    if n == 0 {
        return Err(unavailable(format!("{version} is installed and sees no GPU")));
    }
    Ok((0..n).map(|ordinal| driver.info(ordinal)).collect())
}

fn sort_out(kind: DeviceKind, answers: Vec<Result<GpuInfo, DriverError>>) -> (Vec<GpuInfo>, Vec<Unavailable>) {
    let (mut infos, mut unavailable) = (Vec::new(), Vec::new());
    for (ordinal, answer) in answers.into_iter().enumerate() {
        match answer {
            Ok(info) => infos.push(info),
            Err(error) => {
                let message = format!("{}'s device {ordinal} cannot be used: {error}", kind.name());
                unavailable.push(Unavailable { kind, message, tried: Vec::new() });
            }
        }
    }
    (infos, unavailable)
}

/// Ids by PCI address, whatever order the driver has; parts of one card keep the driver's order.
fn number(kind: DeviceKind, mut infos: Vec<GpuInfo>) -> Vec<(DeviceId, GpuInfo)> {
    infos.sort_by_key(|info| (info.pci, info.ordinal));
    (0..).map(|index| DeviceId::new(kind, index)).zip(infos).collect()
}

fn hiding(env: impl Fn(&str) -> Option<String>) -> Vec<(String, String)> {
    HIDING.into_iter().filter_map(|name| Some((name.to_owned(), env(name)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::devices::gpu::chip::{Arch, Chip};
    use crate::devices::gpu::driver::DriverErrorKind;

    fn info(ordinal: u32, pci: &str) -> GpuInfo {
        GpuInfo {
            ordinal,
            name: format!("GPU {ordinal}"),
            pci: pci.parse().unwrap(),
            chip: Chip { arch: Arch::Sm(90), wave_size: 32, n_multiprocessors: 132 },
            total_bytes: 1 << 30,
            is_integrated: false,
            memory_bytes_per_s: None,
        }
    }

    #[test]
    fn ids_follow_pci_addresses_and_not_the_drivers_order() {
        let infos = vec![
            info(0, "0000:c1:00.0"),
            info(1, "0000:03:00.0"),
            info(2, "0001:01:00.0"),
            info(3, "0000:0a:00.0"),
            info(4, "0000:0a:00.0"),
        ];
        let numbered: Vec<_> =
            number(DeviceKind::Rocm, infos).iter().map(|(id, info)| (id.to_string(), info.ordinal)).collect();
        let expected = [("rocm0", 1), ("rocm1", 3), ("rocm2", 4), ("rocm3", 0), ("rocm4", 2)];
        assert_eq!(numbered, expected.map(|(id, ordinal)| (id.to_owned(), ordinal)));
    }

    #[test]
    fn a_device_that_cannot_be_asked_is_told_and_the_others_stay() {
        let error = DriverError {
            call: "cuDeviceGetAttribute",
            code: 46,
            text: "CUDA-capable device(s) is/are busy or unavailable".to_owned(),
            kind: DriverErrorKind::Unavailable,
        };
        let answers = vec![Ok(info(0, "0000:03:00.0")), Err(error), Ok(info(2, "0000:02:00.0"))];
        let (infos, unavailable) = sort_out(DeviceKind::Cuda, answers);
        assert_eq!(infos.iter().map(|info| info.ordinal).collect::<Vec<_>>(), [0, 2]);
        assert_eq!(unavailable.len(), 1);
        let message = &unavailable[0].message;
        assert!(message.contains("device 1 ") && message.contains("(46)"), "{message}");
    }

    #[test]
    fn absent_drivers_and_hiding_variables_are_told() {
        let absent = |kind, message: &str| Unavailable { kind, message: message.to_owned(), tried: Vec::new() };
        let drivers = vec![Err(absent(DeviceKind::Cuda, "no driver")), Err(absent(DeviceKind::Rocm, "no library"))];
        let env = |name: &str| match name {
            "HIP_VISIBLE_DEVICES" => Some("1".to_owned()),
            "CUDA_VISIBLE_DEVICES" => Some(String::new()),
            _ => None,
        };
        let found = found_by(drivers, env);
        assert!(found.gpus.is_empty());
        assert_eq!(found.unavailable.iter().map(|u| &*u.message).collect::<Vec<_>>(), ["no driver", "no library"]);
        let expected = [("CUDA_VISIBLE_DEVICES", ""), ("HIP_VISIBLE_DEVICES", "1")];
        assert_eq!(found.hiding, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }

    /// With whatever drivers this machine has.
    #[test]
    fn this_machine_can_be_asked() {
        let found = find_gpus();
        for kind in [DeviceKind::Cuda, DeviceKind::Rocm] {
            let n = found.gpus.iter().filter(|gpu| gpu.id.kind == kind).count();
            let n_told = found.unavailable.iter().filter(|unavailable| unavailable.kind == kind).count();
            assert!(n + n_told > 0, "{kind:?}: neither devices nor a reason");
        }
        assert!(found.gpus.iter().all(|gpu| gpu.id.kind == gpu.driver.kind() && gpu.info.total_bytes > 0));
    }
}
