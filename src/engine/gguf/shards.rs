//! The names of the files of a model that is split: `NAME-00002-of-00003.gguf`.

use std::path::{Path, PathBuf};

/// A path taken apart.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ShardName {
    /// Folder and `NAME`.
    pub prefix: PathBuf,
    /// Which shard, counted from 1.
    pub no: u32,
    /// Of how many.
    pub count: u32,
}

impl ShardName {
    /// `None` where the file is not named like a shard.
    pub fn parse(path: &Path) -> Option<ShardName> {
        // `NAME`, then `-00002-of-00003`.
        const TAIL_BYTES: usize = 15;
        let stem = path.file_name()?.to_str()?.strip_suffix(".gguf")?;
        let (name, tail) = stem.split_at_checked(stem.len().checked_sub(TAIL_BYTES)?)?;
        let (no, count) = tail.strip_prefix('-')?.split_once("-of-")?;
        let number = |digits: &str| match digits.len() {
            5 if digits.bytes().all(|c| c.is_ascii_digit()) => digits.parse::<u32>().ok(),
            _ => None,
        };
        let (no, count) = (number(no)?, number(count)?);
        (1..=count).contains(&no).then(|| ShardName { prefix: path.with_file_name(name), no, count })
    }

    /// The path of shard `no`, counted from 1.
    pub fn path(&self, no: u32) -> PathBuf {
        shard_path(&self.prefix, no, self.count)
    }
}

/// The path of shard `no` (counted from 1) of `count`.
pub fn shard_path(prefix: &Path, no: u32, count: u32) -> PathBuf {
    let mut path = prefix.as_os_str().to_os_string();
    path.push(format!("-{no:05}-of-{count:05}.gguf"));
    path.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_names_apart_and_puts_them_together() {
        let shard = ShardName::parse(Path::new("/m/Qwen3-30B-00002-of-00003.gguf")).unwrap();
        assert_eq!(shard, ShardName { prefix: "/m/Qwen3-30B".into(), no: 2, count: 3 });
        assert_eq!(shard.path(3), Path::new("/m/Qwen3-30B-00003-of-00003.gguf"));
    }

    #[test]
    fn knows_what_is_no_shard() {
        for name in [
            "m.gguf",
            "00001-of-00003.gguf",
            "m-00004-of-00003.gguf",
            "m-00000-of-00003.gguf",
            "m-+0001-of-00003.gguf",
            "m-00001-of-00003.bin",
            "é-0001-of-00003.gguf",
            "",
        ] {
            assert_eq!(ShardName::parse(Path::new(name)), None, "{name}");
        }
    }
}
