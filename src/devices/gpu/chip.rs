//! The chip of a GPU: what its kernels are compiled for.

use std::fmt;
use std::str::FromStr;

/// A chip's name for its compiler.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Arch {
    /// `sm_90`: compute capability times ten.
    Sm(u16),
    /// `gfx90a`: its digits as a hexadecimal number, 0x90a.
    Gfx(u16),
}

impl Arch {
    /// Lanes of a wave when kernels are compiled for this chip without options that change it.
    pub const fn wave_size(self) -> u32 {
        match self {
            Arch::Gfx(number) if number < 0x1000 => 64,
            Arch::Sm(_) | Arch::Gfx(_) => 32,
        }
    }
}

impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Arch::Sm(number) => write!(f, "sm_{number}"),
            Arch::Gfx(number) => write!(f, "gfx{number:x}"),
        }
    }
}

impl FromStr for Arch {
    type Err = String;

    /// `sm_90`, `gfx1100`; what follows a colon (`gfx90a:sramecc+:xnack-`) is left away.
    fn from_str(text: &str) -> Result<Arch, String> {
        let base = text.split(':').next().unwrap_or_default();
        let sm = base.strip_prefix("sm_").and_then(|digits| digits.parse().ok()).map(Arch::Sm);
        let gfx = || base.strip_prefix("gfx").and_then(|digits| u16::from_str_radix(digits, 16).ok()).map(Arch::Gfx);
        sm.or_else(gfx)
            .filter(|arch| arch.to_string() == base)
            .ok_or_else(|| format!("'{text}' is not a chip such as sm_89, gfx90a or gfx1100"))
    }
}

/// What decides how work is cut for a GPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Chip {
    pub arch: Arch,
    /// Lanes that run together: 32 or 64.
    pub wave_size: u32,
    pub n_multiprocessors: u32,
}

/// A place on the PCI bus. Devices are ordered by it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct PciAddress {
    pub domain: u32,
    pub bus: u8,
    pub device: u8,
    pub function: u8,
}

impl fmt::Display for PciAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04x}:{:02x}:{:02x}.{:x}", self.domain, self.bus, self.device, self.function)
    }
}

impl FromStr for PciAddress {
    type Err = String;

    /// `0000:03:00.0`, in any case of letters; the domain may have up to 8 digits.
    fn from_str(text: &str) -> Result<PciAddress, String> {
        let parse = || {
            let (domain, rest) = text.trim().split_once(':')?;
            let (bus, rest) = rest.split_once(':')?;
            let (device, function) = rest.split_once('.')?;
            Some(PciAddress {
                domain: u32::from_str_radix(domain, 16).ok()?,
                bus: u8::from_str_radix(bus, 16).ok()?,
                device: u8::from_str_radix(device, 16).ok()?,
                function: u8::from_str_radix(function, 16).ok()?,
            })
        };
        parse().ok_or_else(|| format!("'{text}' is not a PCI address such as 0000:03:00.0"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chips_print_and_parse() {
        for (text, arch) in [("sm_75", Arch::Sm(75)), ("sm_120", Arch::Sm(120)), ("gfx90a", Arch::Gfx(0x90a))] {
            assert_eq!(text.parse(), Ok(arch));
            assert_eq!(arch.to_string(), text);
        }
        assert_eq!("gfx90a:sramecc+:xnack-".parse(), Ok(Arch::Gfx(0x90a)));
        for text in ["", "sm_", "sm90", "gfx", "gfxabcdef0", "gfx11-generic", "SM_90", "sm_090"] {
            assert!(text.parse::<Arch>().is_err(), "{text}");
        }
        assert_eq!([Arch::Gfx(0x942), Arch::Gfx(0x1030), Arch::Sm(90)].map(Arch::wave_size), [64, 32, 32]);
    }

    #[test]
    fn pci_addresses_print_parse_and_sort() {
        let parse = |text: &str| text.parse::<PciAddress>().unwrap();
        assert_eq!(parse("00000000:0A:1F.7").to_string(), "0000:0a:1f.7");
        assert!(parse("0000:03:00.0") < parse("0000:0a:00.0") && parse("0000:0a:00.0") < parse("0001:00:00.0"));
        assert!("03:00.0".parse::<PciAddress>().is_err() && "0000:103:00.0".parse::<PciAddress>().is_err());
    }
}
