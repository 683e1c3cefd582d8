//! What a device's properties say of its chip.

use crate::devices::gpu::chip::Arch;
use crate::devices::gpu::native::library::text_until_nul;

/// They begin with the product's name.
const PRODUCT_NAME_BYTES: usize = 256;

/// The chip's name in a device's properties. It is found by its looks, as versions place it differently; the
/// product's name before it may say anything.
pub fn arch_in(properties: &[u8]) -> Result<Arch, String> {
    let fields = properties.get(PRODUCT_NAME_BYTES..).unwrap_or_default();
    let names = fields.windows(3).enumerate().filter(|(_, letters)| letters == b"gfx");
    let mut texts = names.map(|(at, _)| text_until_nul(&fields[at..]));
    let first = texts.next().ok_or("no name of a chip in the properties")?;
    std::iter::once(first.clone()).chain(texts).find_map(|text| text.parse().ok()).map_or_else(|| first.parse(), Ok)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Properties with texts at places.
    fn properties(texts: &[(usize, &str)]) -> Vec<u8> {
        let mut bytes = vec![0; 2048];
        for (at, text) in texts {
            bytes[*at..at + text.len()].copy_from_slice(text.as_bytes());
        }
        bytes
    }

    #[test]
    fn the_chip_is_found_wherever_it_stands() {
        for at in [256, 399, 1160, 1792] {
            let bytes = properties(&[(0, "AMD gfx900 Pro"), (at, "gfx90a:sramecc+:xnack-")]);
            assert_eq!(arch_in(&bytes), Ok(Arch::Gfx(0x90a)), "{at}");
        }
        let bytes = properties(&[(300, "gfx-like noise"), (1000, "gfx1201")]);
        assert_eq!(arch_in(&bytes), Ok(Arch::Gfx(0x1201)));
        let strange = arch_in(&properties(&[(0, "gfx1100"), (400, "gfx11-generic")])).unwrap_err();
        assert!(strange.contains("gfx11-generic"), "{strange}");
        assert!(arch_in(&properties(&[(0, "gfx1100")])).is_err() && arch_in(b"short").is_err());
    }
}
