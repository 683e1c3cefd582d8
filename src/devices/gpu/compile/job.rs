//! One thing to compile, as text, and its name among images.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::devices::gpu::chip::{Arch, Chip};
use crate::devices::gpu::unit::Unit;

/// Changes when the flags that every unit is compiled with change, or the layout of image files.
const FORMAT: &str = "1";

/// A unit with everything that its image depends on but the compiler.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Job {
    /// For people.
    pub unit: String,
    /// For the compiler's messages.
    pub file_name: String,
    pub text: String,
    /// `-D` options.
    pub options: Vec<String>,
    /// [`Arch`] as text.
    pub arch: String,
}

impl Job {
    pub fn new(unit: &Unit, chip: &Chip) -> Job {
        Job {
            unit: unit.to_string(),
            file_name: unit.source.file_name().to_owned(),
            text: unit.source.text(),
            options: unit.options(chip),
            arch: chip.arch.to_string(),
        }
    }

    /// # Errors
    /// Words, where it does not name a chip.
    pub fn arch(&self) -> Result<Arch, String> {
        self.arch.parse()
    }

    /// Names the image that any compiler makes of it.
    pub fn key(&self) -> Key {
        Key::of([FORMAT, &self.arch, &self.text].into_iter().chain(self.options.iter().map(String::as_str)))
    }
}

/// Hexadecimal digits of a SHA-256.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Key(String);

impl Key {
    fn of<'a>(parts: impl Iterator<Item = &'a str>) -> Key {
        let mut hash = Sha256::new();
        for part in parts {
            // With lengths, so that moving text from one part to the next changes the hash.
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part.as_bytes());
        }
        Key(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// Names the image that this compiler makes of it.
    pub fn with_compiler(&self, identity: &str) -> Key {
        Key::of([self.as_str(), identity].into_iter())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::devices::gpu::unit::Source;

    #[test]
    fn keys_differ_with_everything_that_changes_the_image() {
        let chip = |arch: Arch| Chip { arch, wave_size: arch.wave_size(), n_multiprocessors: 8 };
        let job = |n: i64, arch| Job::new(&Unit::new(Source::Rows, &[("N", n)]), &chip(arch));
        let base = job(1, Arch::Sm(80));
        let mut edited = base.clone();
        edited.text.push(' ');
        let others = [job(2, Arch::Sm(80)), job(1, Arch::Sm(90)), job(1, Arch::Gfx(0x1100)), edited];
        others.iter().for_each(|other| assert_ne!(base.key(), other.key(), "{}", other.unit));
        assert_eq!(base.key(), job(1, Arch::Sm(80)).key());
        assert_ne!(base.key().with_compiler("a"), base.key().with_compiler("b"));
        assert_ne!(Key::of(["ab", "c"].into_iter()), Key::of(["a", "bc"].into_iter()));
        assert_eq!(base.key().as_str().len(), 64);
        // The number of multiprocessors is no part of it: images are built where it is not known.
        let more = Chip { n_multiprocessors: 132, ..chip(Arch::Sm(80)) };
        assert_eq!(Job::new(&Unit::new(Source::Rows, &[("N", 1)]), &more).key(), base.key());
    }
}
