//! What the PCI core knows of cards, whichever driver has them. Everything here but a link's present speed is kept in
//! memory by the kernel: reading it wakes no card.

use std::path::{Path, PathBuf};

use super::reading::{Link, LinkRate, PciAddress};
use super::sysfs;

pub const NVIDIA: u32 = 0x10de;
pub const AMD: u32 = 0x1002;

/// A display controller or accelerator on the bus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PciCard {
    pub address: PciAddress,
    pub vendor: u32,
    pub device: u32,
    /// The kernel driver that has it; `None` where there is none.
    pub driver: Option<String>,
}

/// The cards of NVIDIA and AMD, by address.
pub fn cards(sysfs_root: &Path) -> Vec<PciCard> {
    let mut cards: Vec<_> = sysfs::entries(&sysfs_root.join("bus/pci/devices")).filter_map(|d| card(&d)).collect();
    cards.sort_by_key(|card| card.address);
    cards
}

fn card(folder: &Path) -> Option<PciCard> {
    let address = folder.file_name()?.to_str()?.parse().ok()?;
    let vendor = sysfs::hex(&folder.join("vendor")).filter(|v| [NVIDIA, AMD].contains(v))?;
    // Base class 3 is display, 0x12 processing accelerators.
    sysfs::hex(&folder.join("class")).filter(|class| matches!(class >> 16, 0x03 | 0x12))?;
    let device = sysfs::hex(&folder.join("device"))?;
    Some(PciCard { address, vendor, device, driver: driver(folder) })
}

/// The name of the driver bound to a device.
pub fn driver(folder: &Path) -> Option<String> {
    let uevent = sysfs::text(&folder.join("uevent"))?;
    sysfs::value(&uevent, "DRIVER", '=').filter(|name| !name.is_empty()).map(super::reading::clean)
}

/// The folder of a device by its address.
pub fn folder(sysfs_root: &Path, address: PciAddress) -> PathBuf {
    sysfs_root.join("bus/pci/devices").join(address.to_string())
}

/// Whether the kernel has suspended the device: then nothing may be read that its driver would have to ask it for.
pub fn is_asleep(folder: &Path) -> bool {
    let status = sysfs::text(&folder.join("power/runtime_status"));
    status.is_some_and(|status| matches!(status.as_str(), "suspended" | "suspending"))
}

/// The link between an AMD card and the slot.
///
/// Since Vega, a card carries a switch of its own, and the GPU behind it always sees a fast link to that. The way to
/// the host is the outermost bridge of the card's own vendor (processors have bridges under another vendor id).
pub fn slot_link(folder: &Path, vendor: u32) -> Option<Link> {
    let mut port = std::fs::canonicalize(folder).ok()?;
    while let Some(parent) = port.parent().filter(|parent| sysfs::hex(&parent.join("vendor")) == Some(vendor)) {
        port = parent.to_owned();
    }
    let rate = |which: &str| LinkRate {
        speed_gts: sysfs::text(&port.join(format!("{which}_link_speed"))).as_deref().and_then(speed),
        width: sysfs::number(&port.join(format!("{which}_link_width"))).and_then(width),
    };
    Link { current: rate("current"), max: rate("max") }.known()
}

/// `16.0 GT/s PCIe`; older kernels leave `PCIe` out; `Unknown` is possible.
fn speed(text: &str) -> Option<f32> {
    let number: f32 = text.split_once(" GT/s")?.0.parse().ok()?;
    (number > 0.0 && number <= 1024.0).then_some(number)
}

/// 0 and 255 stand for a link that is down.
fn width(n_lanes: u64) -> Option<u32> {
    (1..=32).contains(&n_lanes).then_some(n_lanes as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::devices::telemetry::testing::Tree;

    #[test]
    fn link_texts_of_all_kernels() {
        assert_eq!(speed("16.0 GT/s PCIe"), Some(16.0));
        assert_eq!(speed("2.5 GT/s"), Some(2.5));
        for bad in ["Unknown", "", "GT/s", "-8 GT/s", "inf GT/s", "NaN GT/s", "1e30 GT/s"] {
            assert_eq!(speed(bad), None, "{bad}");
        }
        assert_eq!((width(16), width(0), width(255)), (Some(16), None, None));
    }

    #[test]
    fn the_slot_is_behind_the_cards_own_switch() {
        let tree = Tree::new();
        let port = "devices/pci0000:00/0000:00:01.1";
        let gpu = format!("{port}/0000:01:00.0/0000:02:00.0/0000:03:00.0");
        let link = |folder: &str, vendor, speed, width| {
            tree.file(&format!("{folder}/vendor"), vendor);
            tree.file(&format!("{folder}/current_link_speed"), speed);
            tree.file(&format!("{folder}/current_link_width"), width);
        };
        link(port, "0x1022\n", "32.0 GT/s PCIe\n", "16\n");
        link(&format!("{port}/0000:01:00.0"), "0x1002\n", "8.0 GT/s PCIe\n", "4\n");
        link(&format!("{port}/0000:01:00.0/0000:02:00.0"), "0x1002\n", "16.0 GT/s PCIe\n", "16\n");
        link(&gpu, "0x1002\n", "16.0 GT/s PCIe\n", "16\n");
        let found = slot_link(&tree.path(&gpu), AMD).unwrap();
        assert_eq!(found.current, LinkRate { speed_gts: Some(8.0), width: Some(4) });
        assert_eq!((found.current.generation(), found.max), (Some(3), LinkRate::default()));
    }

    #[test]
    fn cards_are_told_from_other_devices() {
        let tree = Tree::new();
        let device = |address: &str, vendor, class, uevent| {
            let folder = format!("bus/pci/devices/{address}");
            tree.file(&format!("{folder}/vendor"), vendor);
            tree.file(&format!("{folder}/device"), "0x2684\n");
            tree.file(&format!("{folder}/class"), class);
            tree.file(&format!("{folder}/uevent"), uevent);
        };
        device("0000:02:00.0", "0x10de\n", "0x030000\n", "DRIVER=nouveau\n");
        device("0000:01:00.0", "0x1002\n", "0x120000\n", "PCI_ID=1002:74A1\n");
        device("0000:02:00.1", "0x10de\n", "0x040300\n", "DRIVER=snd_hda_intel\n");
        device("0000:00:02.0", "0x8086\n", "0x030000\n", "DRIVER=i915\n");
        device("nonsense", "0x1002\n", "0x030000\n", "");
        let found: Vec<_> = cards(tree.root()).into_iter().map(|c| (c.address.to_string(), c.driver)).collect();
        let nouveau = Some("nouveau".to_owned());
        assert_eq!(found, [("0000:01:00.0".to_owned(), None), ("0000:02:00.0".to_owned(), nouveau)]);
    }
}
