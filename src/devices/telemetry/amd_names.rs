//! Names under which AMD cards are sold, from libdrm's list, where it is installed.

use std::path::Path;

use super::reading::clean;
use super::sysfs;

/// The list has about 30 kB.
const MAX_BYTES: u64 = 1 << 20;

/// The name for a device and revision id; `None` where the file or the line is missing.
pub fn marketing_name(ids_file: &Path, device: u32, revision: u32) -> Option<String> {
    let content = sysfs::bytes_to(ids_file, MAX_BYTES)?;
    find(&String::from_utf8_lossy(&content), device, revision)
}

/// Lines read `744C, C8, AMD Radeon RX 7900 XTX`; others are comments and a version.
fn find(list: &str, device: u32, revision: u32) -> Option<String> {
    list.lines().find_map(|line| {
        let mut fields = line.splitn(3, ',').map(str::trim);
        let is = |field: Option<&str>, id| field.and_then(|f| u32::from_str_radix(f, 16).ok()) == Some(id);
        let is_it = is(fields.next(), device) && is(fields.next(), revision);
        let name = fields.next().filter(|name| is_it && !name.is_empty())?;
        Some(clean(name))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_by_both_ids() {
        let list =
            "# comment\n1.0.0\n744C,\tC8,\tAMD Radeon RX 7900 XTX\n744C,\tCC,\tAMD Radeon RX 7900 XT\n15BF,C1,\n";
        assert_eq!(find(list, 0x744c, 0xcc).as_deref(), Some("AMD Radeon RX 7900 XT"));
        assert_eq!(find(list, 0x744c, 0xc8).as_deref(), Some("AMD Radeon RX 7900 XTX"));
        assert_eq!(find(list, 0x744c, 0), None);
        assert_eq!(find(list, 0x15bf, 0xc1), None);
        assert_eq!(find("744C, C8, a\x1b[2Jb", 0x744c, 0xc8).as_deref(), Some("a\u{fffd}[2Jb"));
    }
}
