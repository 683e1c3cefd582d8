//! The compute driver's list of processors (`/sys/class/kfd/kfd/topology/nodes`). It is kept in memory by the kernel:
//! reading it wakes no card.

use std::path::{Path, PathBuf};

use super::reading::PciAddress;
use super::sysfs;

/// A GPU as the compute driver sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KfdNode {
    pub pci: PciAddress,
    /// `gfx1100`
    pub target: Option<String>,
    /// The node has CPU cores too: a processor with graphics.
    pub has_cpu_cores: bool,
    /// The driver's own number for it.
    pub gpu_id: Option<u64>,
}

/// The GPUs of the topology; none where there is no compute driver.
pub fn nodes(sysfs_root: &Path) -> Vec<KfdNode> {
    let folder = sysfs_root.join("class/kfd/kfd/topology/nodes");
    let node = |folder: &PathBuf| {
        let gpu_id = sysfs::number(&folder.join("gpu_id"));
        Some(KfdNode { gpu_id, ..parse(&sysfs::text(&folder.join("properties"))?)? })
    };
    sysfs::numbered(&folder, "").iter().filter_map(node).collect()
}

/// Memory of a GPU that this process has taken through the compute driver. `None` where it has not opened it, or the
/// driver knows the process by another number (as in a container).
pub fn ours_bytes(sysfs_root: &Path, gpu_id: u64) -> Option<u64> {
    let process = sysfs_root.join("class/kfd/kfd/proc").join(std::process::id().to_string());
    sysfs::number(&process.join(format!("vram_{gpu_id}")))
}

fn parse(properties: &str) -> Option<KfdNode> {
    let number = |key| sysfs::value(properties, key, ' ')?.parse::<u64>().ok();
    // Nodes of CPUs alone have no SIMD units; their location says nothing.
    number("simd_count").filter(|n| *n > 0)?;
    let bdf = u16::try_from(number("location_id")?).ok()?;
    // Kernels before 5.1 do not tell the domain; it was 0 on nearly all machines.
    let domain = u32::try_from(number("domain").unwrap_or(0)).ok()?;
    Some(KfdNode {
        pci: PciAddress::from_packed(domain, bdf),
        target: number("gfx_target_version").and_then(target),
        has_cpu_cores: number("cpu_cores_count").is_some_and(|n| n > 0),
        gpu_id: None,
    })
}

/// 110000 is gfx1100 and 90010 is gfx90a: major, minor and stepping as two decimal digits each, the last two printed
/// in hexadecimal.
fn target(version: u64) -> Option<String> {
    let (major, minor, stepping) = (version / 10_000, version / 100 % 100, version % 100);
    let is_possible = (1..100).contains(&major) && minor < 16 && stepping < 16;
    is_possible.then(|| format!("gfx{major}{minor:x}{stepping:x}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn target_versions_are_named() {
        let cases =
            [(110_000, "gfx1100"), (90_010, "gfx90a"), (90_402, "gfx942"), (100_300, "gfx1030"), (90_006, "gfx906")];
        for (version, name) in cases {
            assert_eq!(target(version).as_deref(), Some(name));
        }
        for bad in [0, 99, 1_000_000, u64::MAX, 119_900] {
            assert_eq!(target(bad), None, "{bad}");
        }
    }

    #[test]
    fn nodes_are_matched_by_address() {
        let gpu = "cpu_cores_count 0\nsimd_count 192\nlocation_id 768\ndomain 1\ngfx_target_version 110000\n";
        let node = parse(gpu).unwrap();
        assert_eq!(node.pci.to_string(), "0001:03:00.0");
        assert_eq!((node.target.as_deref(), node.has_cpu_cores), (Some("gfx1100"), false));
        assert_eq!(parse("cpu_cores_count 16\nsimd_count 0\nlocation_id 0\n"), None);
        assert_eq!(parse("simd_count 4\nlocation_id 99999999\n"), None);
        assert_eq!(parse("simd_count -4\nlocation_id x\n"), None);
        assert_eq!(parse(""), None);
    }
}
