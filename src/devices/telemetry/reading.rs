//! What one look at one device tells.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use crate::devices::DeviceId;

/// One moment of one device. `None` is "not available", never 0.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Reading {
    /// `cuda0..` by PCI address among NVIDIA cards, `rocm0..` by PCI address among AMD cards, `cpu0` the host.
    pub id: DeviceId,
    /// As the driver says, with control characters replaced.
    pub name: String,
    pub pci: Option<PciAddress>,
    pub source: Source,
    /// A second source that filled what the first left open.
    pub supplement: Option<Source>,
    pub state: PowerState,
    /// Whether it is part of the processor and lives on the host's memory.
    pub is_integrated: Option<bool>,
    /// Memory of the card, or of the host.
    pub memory_total_bytes: Option<u64>,
    /// All that cannot be taken: by anybody, and what the driver keeps for itself.
    pub memory_used_bytes: Option<u64>,
    /// Host memory that an AMD GPU can reach through its page table. Integrated ones live there.
    pub gtt_total_bytes: Option<u64>,
    pub gtt_used_bytes: Option<u64>,
    /// Only the host has swap.
    pub swap_total_bytes: Option<u64>,
    pub swap_used_bytes: Option<u64>,
    /// What this process holds: device memory of a card, resident memory of the host.
    pub ours_bytes: Option<u64>,
    /// Share of the time in which the device was busy, `0..=1`.
    pub utilisation: Option<f32>,
    /// Load of each core of the host, `0..=1`; empty before there are two looks to compare.
    pub cores: Vec<f32>,
    pub power_w: Option<f32>,
    pub power_limit_w: Option<f32>,
    pub temperature_c: Option<f32>,
    pub clock_mhz: Option<u32>,
    pub memory_clock_mhz: Option<u32>,
    /// Share of the fan's full speed, `0..=1`.
    pub fan: Option<f32>,
    pub link: Option<Link>,
    /// The kernel driver and its version.
    pub driver: Option<String>,
    /// What code must be compiled for: `8.9` is a CUDA compute capability, `gfx1100` an AMD target.
    pub compute: Option<String>,
}

impl Reading {
    /// Nothing known yet but who it is.
    pub fn new(id: DeviceId, name: String, source: Source) -> Reading {
        Reading {
            id,
            name,
            pci: None,
            source,
            supplement: None,
            state: PowerState::Awake,
            is_integrated: None,
            memory_total_bytes: None,
            memory_used_bytes: None,
            gtt_total_bytes: None,
            gtt_used_bytes: None,
            swap_total_bytes: None,
            swap_used_bytes: None,
            ours_bytes: None,
            utilisation: None,
            cores: Vec::new(),
            power_w: None,
            power_limit_w: None,
            temperature_c: None,
            clock_mhz: None,
            memory_clock_mhz: None,
            fan: None,
            link: None,
            driver: None,
            compute: None,
        }
    }
}

/// Who told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    Nvml,
    AmdgpuSysfs,
    RocmSmi,
    Host,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PowerState {
    Awake,
    /// Suspended by its driver. It is not woken to be asked: only what is known without that is told.
    Asleep,
    /// It was there and is no longer: unplugged, reset or fallen off the bus.
    Gone,
}

/// A PCI Express link: as it runs now (idle cards lower it) and at its best.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Link {
    pub current: LinkRate,
    pub max: LinkRate,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct LinkRate {
    /// Transfers a second and lane, in 10⁹.
    pub speed_gts: Option<f32>,
    /// Lanes.
    pub width: Option<u32>,
}

/// Speeds of the PCI Express generations 1 to 6, in 10⁹ transfers a second and lane.
const GENERATION_SPEEDS_GTS: [f32; 6] = [2.5, 5.0, 8.0, 16.0, 32.0, 64.0];

impl LinkRate {
    /// The rate of a generation, counted from 1.
    pub fn of_generation(generation: Option<u32>, width: Option<u32>) -> LinkRate {
        let index = generation.and_then(|g| g.checked_sub(1)).map(|i| i as usize);
        let speed_gts = index.and_then(|i| GENERATION_SPEEDS_GTS.get(i)).copied();
        LinkRate { speed_gts, width }
    }

    /// The newest generation whose speed this reaches.
    pub fn generation(&self) -> Option<u32> {
        let speed = self.speed_gts?;
        let n_reached = GENERATION_SPEEDS_GTS.iter().filter(|s| **s <= speed + 0.01).count() as u32;
        (n_reached > 0).then_some(n_reached)
    }

    pub fn is_known(&self) -> bool {
        self.speed_gts.is_some() || self.width.is_some()
    }
}

impl Link {
    /// `None` where nothing is known.
    pub fn known(self) -> Option<Link> {
        (self.current.is_known() || self.max.is_known()).then_some(self)
    }
}

/// Where a card sits; printed as `0000:01:00.0`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PciAddress {
    pub domain: u32,
    pub bus: u8,
    pub device: u8,
    pub function: u8,
}

impl PciAddress {
    /// From the domain and the 16 bits in which bus (8), device (5) and function (3) are packed.
    pub fn from_packed(domain: u32, bdf: u16) -> PciAddress {
        let [bus, devfn] = bdf.to_be_bytes();
        PciAddress { domain, bus, device: devfn >> 3, function: devfn & 7 }
    }
}

impl fmt::Display for PciAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04x}:{:02x}:{:02x}.{:x}", self.domain, self.bus, self.device, self.function)
    }
}

impl fmt::Debug for PciAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for PciAddress {
    /// As its text.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl FromStr for PciAddress {
    type Err = String;

    /// The domain may have four digits, as the kernel writes it, or eight, as NVML does.
    fn from_str(text: &str) -> Result<PciAddress, String> {
        let parse = || {
            let (domain, rest) = text.split_once(':')?;
            let (bus, rest) = rest.split_once(':')?;
            let (device, function) = rest.split_once('.')?;
            let hex = |digits: &str, max: u32| {
                let is_hex = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_hexdigit());
                u32::from_str_radix(digits, 16).ok().filter(|n| is_hex && *n <= max)
            };
            Some(PciAddress {
                domain: hex(domain, u32::MAX)?,
                bus: hex(bus, 0xff)? as u8,
                device: hex(device, 0x1f)? as u8,
                function: hex(function, 7)? as u8,
            })
        };
        parse().ok_or_else(|| format!("'{}' is not a PCI address such as 0000:01:00.0", clean(text)))
    }
}

/// Text of a driver or a file made fit to be shown: one line, at most 128 characters, no control characters and none
/// that turn the direction of text.
pub fn clean(text: &str) -> String {
    let is_hostile = |c: char| {
        c.is_control()
            || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}' | '\u{61c}')
    };
    let replaced = text.trim().chars().map(|c| if is_hostile(c) { char::REPLACEMENT_CHARACTER } else { c });
    replaced.take(128).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn pci_addresses_are_read_and_written() {
        let address = PciAddress { domain: 0, bus: 0xc1, device: 0, function: 0 };
        assert_eq!("0000:c1:00.0".parse(), Ok(address));
        assert_eq!("00000000:C1:00.0".parse(), Ok(address));
        assert_eq!("10000:01:1f.7".parse::<PciAddress>().unwrap().to_string(), "10000:01:1f.7");
        for bad in ["", "0000:01:00", "0000:01:20.0", "0000:01:00.8", "0000:100:00.0", "+000:01:00.0", "a:b:c.d:e"] {
            assert!(bad.parse::<PciAddress>().is_err(), "{bad}");
        }
        assert_eq!(PciAddress::from_packed(1, 0x0308).to_string(), "0001:03:01.0");
    }

    proptest! {
        #[test]
        fn what_is_printed_is_read_back(domain in 0u32..=u32::MAX, bdf: u16) {
            let address = PciAddress::from_packed(domain, bdf);
            prop_assert_eq!(address.to_string().parse(), Ok(address));
        }
    }

    #[test]
    fn generations_have_speeds() {
        assert_eq!(LinkRate::of_generation(Some(4), Some(16)), LinkRate { speed_gts: Some(16.0), width: Some(16) });
        assert_eq!(LinkRate::of_generation(Some(4), None).generation(), Some(4));
        assert_eq!(LinkRate::of_generation(Some(0), None).generation(), None);
        assert_eq!(LinkRate::of_generation(Some(99), None).speed_gts, None);
        assert_eq!(LinkRate { speed_gts: Some(1.0), width: None }.generation(), None);
        assert_eq!(Link::default().known(), None);
    }

    #[test]
    fn names_cannot_command_the_terminal() {
        assert_eq!(
            clean(" RTX\x1b]52;c;x\x07 \u{202e}4090\u{9b}m\n"),
            "RTX\u{fffd}]52;c;x\u{fffd} \u{fffd}4090\u{fffd}m"
        );
        assert_eq!(clean(&"x".repeat(1000)).len(), 128);
    }
}
