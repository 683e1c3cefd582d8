//! Reading small files that the kernel, or anybody else, wrote.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

/// No file of interest in sysfs is longer: the kernel gives at most a page.
const MAX_BYTES: u64 = 64 * 1024;

/// The file's first bytes, at most `MAX_BYTES`. Only regular files are opened: a pipe or a device in its place would
/// block or do something.
pub fn bytes(path: &Path) -> Option<Vec<u8>> {
    bytes_to(path, MAX_BYTES)
}

/// As [`bytes`], with another limit.
pub fn bytes_to(path: &Path, max_bytes: u64) -> Option<Vec<u8>> {
    fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
    let mut content = Vec::new();
    // Some drivers answer EPERM, EBUSY or ENODATA on reading: all of them mean "not available".
    File::open(path).ok()?.take(max_bytes).read_to_end(&mut content).ok()?;
    Some(content)
}

/// Trimmed text; `None` where it is empty or no UTF-8.
pub fn text(path: &Path) -> Option<String> {
    let content = String::from_utf8(bytes(path)?).ok()?;
    let trimmed = content.trim();
    (!trimmed.is_empty()).then(|| trimmed.to_owned())
}

/// A decimal number that is not negative.
pub fn number(path: &Path) -> Option<u64> {
    text(path)?.parse().ok()
}

/// A decimal number that may be negative.
pub fn signed(path: &Path) -> Option<i64> {
    text(path)?.parse().ok()
}

/// `0x1002`, as the PCI core writes ids.
pub fn hex(path: &Path) -> Option<u32> {
    u32::from_str_radix(text(path)?.strip_prefix("0x")?, 16).ok()
}

/// The value after `key` and the separator on a line of its own, in text such as `DRIVER=amdgpu` or `domain 0`.
pub fn value<'a>(text: &'a str, key: &str, separator: char) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(separator).map(str::trim))
}

/// The entries of a folder whose names are `prefix` and a number, in the order of the numbers.
pub fn numbered(folder: &Path, prefix: &str) -> Vec<PathBuf> {
    let mut found: Vec<(u32, PathBuf)> = entries(folder)
        .filter_map(|path| {
            let digits = path.file_name()?.to_str()?.strip_prefix(prefix)?;
            let is_number = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
            is_number.then(|| digits.parse().ok()).flatten().map(|n| (n, path.clone()))
        })
        .collect();
    found.sort();
    found.into_iter().map(|(_, path)| path).collect()
}

/// The entries of a folder in no particular order; none where it cannot be read.
pub fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(folder).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn garbage_is_not_available() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        for bad in ["", "\n", "-5", "12 apples", "99999999999999999999999", "0x10", "1.5", "\u{0}1"] {
            fs::write(&path, bad).unwrap();
            assert_eq!(number(&path), None, "{bad:?}");
        }
        fs::write(&path, [0xff, 0xfe, 0x00]).unwrap();
        assert_eq!((number(&path), text(&path)), (None, None));
        fs::write(&path, "17").unwrap();
        assert_eq!((number(&path), hex(&path)), (Some(17), None));
        fs::write(&path, "-17\n").unwrap();
        assert_eq!(signed(&path), Some(-17));
        fs::write(&path, "0x744c\n").unwrap();
        assert_eq!(hex(&path), Some(0x744c));
        assert_eq!(number(&folder.path().join("none")), None);
        assert_eq!(text(folder.path()), None);
    }

    #[test]
    fn only_the_start_of_a_long_file_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, vec![b'1'; 10 << 20]).unwrap();
        assert_eq!(bytes(&path).unwrap().len(), MAX_BYTES as usize);
        assert_eq!(number(&path), None);
    }

    #[cfg(unix)]
    #[test]
    fn a_pipe_does_not_block() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&path).status();
        if made.is_ok_and(|status| status.success()) {
            assert_eq!(bytes(&path), None);
        }
    }

    #[test]
    fn numbered_entries_are_in_order() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["card10", "card2", "card0-DP-1", "card", "card1x", "renderD128", "card99999999999"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        let names: Vec<_> = numbered(folder.path(), "card").iter().map(|p| p.file_name().unwrap().to_owned()).collect();
        assert_eq!(names, ["card2", "card10"]);
        assert!(numbered(&folder.path().join("none"), "card").is_empty());
    }

    #[test]
    fn values_are_found_by_their_whole_key() {
        let text = "DRIVER=amdgpu\nPCI_SLOT_NAME=0000:03:00.0\nPCI=x";
        assert_eq!(value(text, "PCI", '='), Some("x"));
        assert_eq!(value(text, "PCI_SLOT_NAME", '='), Some("0000:03:00.0"));
        assert_eq!(value(text, "SLOT", '='), None);
    }
}
