//! Rig files: devices that are only described, to try a split before a card is bought or a model downloaded.
//!
//! ```toml
//! [[device]]
//! vendor = "nvidia"               # nvidia, amd or cpu
//! memory = "24 GiB"               # KB MB GB TB count thousands, KiB MiB GiB TiB 1024s; a number is bytes
//! name = "RTX 4090"               # the rest is optional
//! id = "cuda0"                    # the next free number of its vendor
//! memory_bandwidth = "1008 GB/s"  # a number is bytes per second
//! link_bandwidth = "25 GB/s"      # between the host and its memory
//! threads = 2                     # of the CPU that computes for it
//! ```

use std::io::Read;
use std::path::{Path, PathBuf};

use super::{DeviceId, DeviceKind};

/// Far above any rig; a model file that is given by mistake is not read whole.
const MAX_FILE_BYTES: u64 = 1 << 20;
/// More would be a slip of the pen.
const MAX_THREADS: usize = 4096;

const DEVICE_KEYS: [&str; 7] = ["id", "name", "vendor", "memory", "memory_bandwidth", "link_bandwidth", "threads"];

/// The devices of a rig file, in its order; ids are unique. At least one.
#[derive(Clone, PartialEq, Debug)]
pub struct Rig {
    pub devices: Vec<RigDevice>,
}

#[derive(Clone, PartialEq, Debug)]
pub struct RigDevice {
    /// Its kind is the vendor's.
    pub id: DeviceId,
    pub name: String,
    /// Never 0.
    pub memory_bytes: u64,
    /// Never 0 where known.
    pub memory_bytes_per_s: Option<u64>,
    /// Never 0 where known.
    pub link_bytes_per_s: Option<u64>,
    /// Never 0 where given.
    pub n_threads: Option<usize>,
}

/// Why a rig file cannot be used. One line.
#[derive(Debug, thiserror::Error)]
pub enum RigError {
    #[error("rig file {}: {source}", .path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("rig file {}: larger than {} KiB, so it is no rig file", .path.display(), MAX_FILE_BYTES / 1024)]
    TooLarge { path: PathBuf },
    #[error("rig file {}: {source}", .path.display())]
    InFile { path: PathBuf, source: Box<RigError> },
    #[error("line {line}: {message}")]
    Toml { line: usize, message: String },
    #[error("no device: describe each under [[device]]")]
    NoDevice,
    #[error("unknown key '{key}'{}{}", in_device(*.device), nearest_note(.nearest))]
    UnknownKey { device: Option<usize>, key: String, nearest: Option<&'static str> },
    /// `device` counts from 1.
    #[error("device {device}: '{key}' is missing")]
    Missing { device: usize, key: &'static str },
    #[error("device {device}: {key} is {found}: give {expected}")]
    Value { device: usize, key: &'static str, found: String, expected: &'static str },
    #[error(
        "device {device}: {id} cannot be of vendor \"{vendor}\", whose ids are {0}0, {0}1, ...",
        .kind.name()
    )]
    WrongVendor { device: usize, id: DeviceId, vendor: &'static str, kind: DeviceKind },
    #[error("device {device}: {id} is the id of device {first} already")]
    Duplicate { device: usize, id: DeviceId, first: usize },
    #[error("device {device}: there are too many devices of vendor \"{vendor}\"")]
    TooMany { device: usize, vendor: &'static str },
}

fn in_device(device: Option<usize>) -> String {
    device.map_or_else(String::new, |n| format!(" in device {n}"))
}

fn nearest_note(nearest: &Option<&'static str>) -> String {
    nearest.map_or_else(String::new, |name| format!(": did you mean '{name}'?"))
}

impl Rig {
    pub fn load(path: &Path) -> Result<Rig, RigError> {
        let read = |source| RigError::Read { path: path.to_path_buf(), source };
        let file = std::fs::File::open(path).map_err(read)?;
        let mut text = String::new();
        let n_bytes = file.take(MAX_FILE_BYTES + 1).read_to_string(&mut text);
        // Cut inside a character, a file that is too large is also not UTF-8.
        if std::fs::metadata(path).is_ok_and(|m| m.len() > MAX_FILE_BYTES) || text.len() as u64 > MAX_FILE_BYTES {
            return Err(RigError::TooLarge { path: path.to_path_buf() });
        }
        n_bytes.map_err(read)?;
        Rig::parse(&text).map_err(|e| RigError::InFile { path: path.to_path_buf(), source: Box::new(e) })
    }

    pub fn parse(text: &str) -> Result<Rig, RigError> {
        let table: toml::Table = text.parse().map_err(|e: toml::de::Error| RigError::Toml {
            line: e.span().map_or(1, |span| 1 + text.bytes().take(span.start).filter(|&b| b == b'\n').count()),
            // A message may quote the file, with line breaks and what else is in it.
            message: e.message().split(char::is_control).flat_map(str::split_whitespace).collect::<Vec<_>>().join(" "),
        })?;
        for key in table.keys() {
            if key != "device" {
                return Err(unknown(None, key, &["device"]));
            }
        }
        let entries = match table.get("device") {
            Some(toml::Value::Array(entries)) if !entries.is_empty() => entries,
            _ => return Err(RigError::NoDevice),
        };
        let described = entries.iter().enumerate().map(|(i, entry)| Described::read(i + 1, entry));
        with_ids(described.collect::<Result<Vec<_>, _>>()?)
    }
}

/// One entry of the file; its id may still be missing.
struct Described {
    kind: DeviceKind,
    id: Option<DeviceId>,
    name: String,
    memory_bytes: u64,
    memory_bytes_per_s: Option<u64>,
    link_bytes_per_s: Option<u64>,
    n_threads: Option<usize>,
}

impl Described {
    fn read(device: usize, entry: &toml::Value) -> Result<Described, RigError> {
        let Some(table) = entry.as_table() else { return Err(RigError::NoDevice) };
        if let Some(key) = table.keys().find(|key| !DEVICE_KEYS.contains(&key.as_str())) {
            return Err(unknown(Some(device), key, &DEVICE_KEYS));
        }
        let value = |key: &'static str, found: &toml::Value, expected| RigError::Value {
            device,
            key,
            found: shown(found),
            expected,
        };
        let text = |key: &'static str, expected: &'static str| match table.get(key) {
            None => Ok(None),
            Some(toml::Value::String(text)) => Ok(Some(text.as_str())),
            Some(other) => Err(value(key, other, expected)),
        };
        let bytes = |key: &'static str, per_second: bool, expected: &'static str| {
            let Some(found) = table.get(key) else { return Ok(None) };
            let n = match found {
                toml::Value::Integer(n) => u64::try_from(*n).ok(),
                toml::Value::String(text) => parse_bytes(text, per_second),
                _ => None,
            };
            n.filter(|&n| n > 0).map(Some).ok_or_else(|| value(key, found, expected))
        };

        const VENDORS: &str = "\"nvidia\", \"amd\" or \"cpu\"";
        let vendor = text("vendor", VENDORS)?.ok_or(RigError::Missing { device, key: "vendor" })?;
        let kind = DeviceKind::ALL
            .into_iter()
            .find(|&kind| vendor_name(kind).eq_ignore_ascii_case(vendor))
            .ok_or_else(|| value("vendor", &table["vendor"], VENDORS))?;

        const IDS: &str = "an id such as \"cuda0\", \"rocm1\" or \"cpu0\"";
        let id = match text("id", IDS)? {
            None => None,
            Some(id) => {
                let id: DeviceId = id.to_ascii_lowercase().parse().map_err(|_| value("id", &table["id"], IDS))?;
                if id.kind != kind {
                    return Err(RigError::WrongVendor { device, id, vendor: vendor_name(kind), kind });
                }
                Some(id)
            }
        };

        const RATE: &str = "a rate above zero such as \"25 GB/s\"";
        let n_threads = match table.get("threads") {
            None => None,
            Some(toml::Value::Integer(n)) if (1..=MAX_THREADS as i64).contains(n) => Some(*n as usize),
            Some(other) => return Err(value("threads", other, "a number from 1 to 4096")),
        };
        const NAME: &str = "a short text without control characters such as \"RTX 4090\"";
        let name = match text("name", NAME)? {
            // It goes to the screen as it is.
            Some(name) if name.contains(char::is_control) || name.chars().count() > 100 => {
                return Err(value("name", &table["name"], NAME));
            }
            Some(name) => name.to_string(),
            None => default_name(kind).to_string(),
        };
        Ok(Described {
            kind,
            id,
            name,
            memory_bytes: bytes("memory", false, "a size above zero such as \"24 GiB\"")?
                .ok_or(RigError::Missing { device, key: "memory" })?,
            memory_bytes_per_s: bytes("memory_bandwidth", true, RATE)?,
            link_bytes_per_s: bytes("link_bandwidth", true, RATE)?,
            n_threads,
        })
    }
}

/// Gives each device without an id the lowest free number of its kind.
fn with_ids(described: Vec<Described>) -> Result<Rig, RigError> {
    let mut ids: Vec<Option<DeviceId>> = described.iter().map(|d| d.id).collect();
    for (i, id) in ids.iter().enumerate().filter_map(|(i, id)| id.map(|id| (i, id))) {
        if let Some(first) = ids[..i].iter().position(|&other| other == Some(id)) {
            return Err(RigError::Duplicate { device: i + 1, id, first: first + 1 });
        }
    }
    let mut devices = Vec::with_capacity(described.len());
    for (i, d) in described.into_iter().enumerate() {
        let id = match ids[i] {
            Some(id) => id,
            None => (0..=u16::MAX)
                .map(|index| DeviceId::new(d.kind, index))
                .find(|&id| !ids.contains(&Some(id)))
                .ok_or(RigError::TooMany { device: i + 1, vendor: vendor_name(d.kind) })?,
        };
        ids[i] = Some(id);
        devices.push(RigDevice {
            id,
            name: d.name,
            memory_bytes: d.memory_bytes,
            memory_bytes_per_s: d.memory_bytes_per_s,
            link_bytes_per_s: d.link_bytes_per_s,
            n_threads: d.n_threads,
        });
    }
    Ok(Rig { devices })
}

const fn vendor_name(kind: DeviceKind) -> &'static str {
    match kind {
        DeviceKind::Cuda => "nvidia",
        DeviceKind::Rocm => "amd",
        DeviceKind::Cpu => "cpu",
    }
}

const fn default_name(kind: DeviceKind) -> &'static str {
    match kind {
        DeviceKind::Cuda => "NVIDIA GPU",
        DeviceKind::Rocm => "AMD GPU",
        DeviceKind::Cpu => "CPU",
    }
}

/// A value as the file has it, shortened to one line without control characters.
fn shown(value: &toml::Value) -> String {
    let text = match value {
        toml::Value::Table(_) => "a table".to_string(),
        toml::Value::Array(_) => "a list".to_string(),
        toml::Value::String(text) => format!("\"{text}\""),
        other => other.to_string(),
    };
    shortened(&text)
}

fn shortened(text: &str) -> String {
    const MAX_CHARS: usize = 40;
    let short: String = text
        .chars()
        .take(MAX_CHARS)
        .flat_map(|c| if c == '"' { vec![c] } else { c.escape_debug().collect() })
        .collect();
    if text.chars().nth(MAX_CHARS).is_some() { format!("{short}…") } else { short }
}

/// `24 GiB`, `1.5GB`, `800 MB`; with `per_second` the same with `/s`. `None`: not of this form, or more than a u64
/// holds.
fn parse_bytes(text: &str, per_second: bool) -> Option<u64> {
    let text = text.trim();
    let split = text.find(|c: char| !(c.is_ascii_digit() || c == '.'))?;
    let (number, unit) = text.split_at(split);
    let unit = unit.trim().to_ascii_lowercase();
    let unit = if per_second { unit.strip_suffix("/s")?.trim_end() } else { &unit };
    let (base, power) = match unit {
        "b" => (1u64, 1),
        "kb" => (1000, 1),
        "mb" => (1000, 2),
        "gb" => (1000, 3),
        "tb" => (1000, 4),
        "kib" => (1024, 1),
        "mib" => (1024, 2),
        "gib" => (1024, 3),
        "tib" => (1024, 4),
        _ => return None,
    };
    let bytes = number.parse::<f64>().ok()? * base.pow(power) as f64;
    // `as` would saturate.
    (bytes < u64::MAX as f64).then_some(bytes.round() as u64)
}

fn unknown(device: Option<usize>, key: &str, known: &[&'static str]) -> RigError {
    let nearest = known.iter().map(|name| (edit_distance(key, name), *name)).min();
    // Further away than half of its letters, a name is no help.
    let nearest = nearest.filter(|&(distance, name)| distance <= name.len().div_ceil(2)).map(|(_, name)| name);
    RigError::UnknownKey { device, key: shortened(key), nearest }
}

/// Letters to insert, drop or replace to make `b` of `a`, of which only the beginning is looked at.
fn edit_distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.chars().count()).collect();
    for (i, x) in a.chars().take(64).enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.chars().enumerate() {
            let replaced = diagonal + usize::from(!x.eq_ignore_ascii_case(&y));
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.chars().count()]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn error(text: &str) -> String {
        Rig::parse(text).expect_err(text).to_string()
    }

    /// A rig of one device with these lines.
    fn one(lines: &str) -> String {
        format!("[[device]]\n{lines}\n")
    }

    #[test]
    fn every_key_is_read() {
        let rig = Rig::parse(&one("id = \"CUDA3\"\nname = \"RTX 4090\"\nvendor = \"nvidia\"\nmemory = \"24 GiB\"\n\
             memory_bandwidth = \"1008 GB/s\"\nlink_bandwidth = \"1.5gib/s\"\nthreads = 2"));
        let expected = RigDevice {
            id: DeviceId::new(DeviceKind::Cuda, 3),
            name: "RTX 4090".to_string(),
            memory_bytes: 24 << 30,
            memory_bytes_per_s: Some(1_008_000_000_000),
            link_bytes_per_s: Some(3 << 29),
            n_threads: Some(2),
        };
        assert_eq!(rig.unwrap().devices, [expected]);
        let bare = Rig::parse(&one("vendor = \"cpu\"\nmemory = 1000")).unwrap().devices.remove(0);
        assert_eq!((bare.id, bare.memory_bytes, bare.n_threads), (DeviceId::cpu(0), 1000, None));
        assert_eq!(bare.name, "CPU");
    }

    #[test]
    fn ids_are_the_lowest_free_of_their_vendor() {
        let device = |vendor: &str, id: &str| one(&format!("vendor = \"{vendor}\"\nmemory = \"1 GB\"\n{id}"));
        let text = [("nvidia", ""), ("amd", ""), ("nvidia", "id = \"cuda0\""), ("cpu", ""), ("nvidia", "")];
        let rig = Rig::parse(&text.map(|(v, id)| device(v, id)).concat()).unwrap();
        let ids: Vec<_> = rig.devices.iter().map(|d| d.id.to_string()).collect();
        assert_eq!(ids, ["cuda1", "rocm0", "cuda0", "cpu0", "cuda2"]);
    }

    #[test]
    fn errors_say_what_and_where() {
        for (text, expected) in [
            ("", "no device: describe each under [[device]]"),
            ("device = 3", "no device: describe each under [[device]]"),
            ("device = [1]", "no device: describe each under [[device]]"),
            ("[[devices]]\nmemory = 3", "unknown key 'devices': did you mean 'device'?"),
            ("zzz = 1", "unknown key 'zzz'"),
        ] {
            assert_eq!(error(text), expected, "{text}");
        }
        for (lines, expected) in [
            ("", "device 1: 'vendor' is missing"),
            ("vendor = \"cpu\"", "device 1: 'memory' is missing"),
            ("memery = 3", "unknown key 'memery' in device 1: did you mean 'memory'?"),
            ("bandwidth = 3", "unknown key 'bandwidth' in device 1: did you mean 'link_bandwidth'?"),
            ("vendor = \"intel\"", "device 1: vendor is \"intel\": give \"nvidia\", \"amd\" or \"cpu\""),
            ("vendor = \"cpu\"\nmemory = 0", "device 1: memory is 0: give a size above zero such as \"24 GiB\""),
            (
                "vendor = \"cpu\"\nmemory = \"0 GiB\"",
                "device 1: memory is \"0 GiB\": give a size above zero such as \"24 GiB\"",
            ),
            (
                "vendor = \"cpu\"\nmemory = \"24\"",
                "device 1: memory is \"24\": give a size above zero such as \"24 GiB\"",
            ),
            ("vendor = \"cpu\"\nmemory = -5", "device 1: memory is -5: give a size above zero such as \"24 GiB\""),
            (
                "vendor = \"cpu\"\nmemory = 5\nlink_bandwidth = \"5 GB\"",
                "device 1: link_bandwidth is \"5 GB\": give a rate above zero such as \"25 GB/s\"",
            ),
            ("vendor = \"cpu\"\nmemory = 5\nthreads = 0", "device 1: threads is 0: give a number from 1 to 4096"),
            (
                "vendor = \"amd\"\nmemory = 5\nid = \"cuda0\"",
                "device 1: cuda0 cannot be of vendor \"amd\", whose ids are rocm0, rocm1, ...",
            ),
            (
                "vendor = \"cpu\"\nmemory = 5\nid = \"gpu0\"",
                "device 1: id is \"gpu0\": give an id such as \"cuda0\", \"rocm1\" or \"cpu0\"",
            ),
            (
                "vendor = \"cpu\"\nmemory = 5\nname = \"a\\u001b[2Jb\"",
                "device 1: name is \"a\\u{1b}[2Jb\": give a short text without control characters such as \"RTX 4090\"",
            ),
        ] {
            assert_eq!(error(&one(lines)), expected, "{lines}");
        }
        let twice = one("vendor = \"cpu\"\nmemory = 5\nid = \"cpu1\"").repeat(2);
        assert_eq!(error(&twice), "device 2: cpu1 is the id of device 1 already");
        let broken = error("[[device]]\nmemory = \n");
        assert!(broken.starts_with("line 2: ") && !broken.contains('\n'), "{broken}");
    }

    #[test]
    fn sizes_have_units() {
        for (text, expected) in [
            ("24 GiB", Some(24 << 30)),
            ("1.5GB", Some(1_500_000_000)),
            (" 512 mib ", Some(512 << 20)),
            ("2 TB", Some(2_000_000_000_000)),
            ("7 B", Some(7)),
            ("99999999 TiB", None),
            ("1.2.3 GB", None),
            ("GB", None),
            ("-1 GB", None),
            ("1 GB/s", None),
            ("12", None),
        ] {
            assert_eq!(parse_bytes(text, false), expected, "{text}");
        }
        assert_eq!(parse_bytes("1 GB / s", true), None);
        assert_eq!(parse_bytes("1 GB/s", true), Some(1_000_000_000));
    }

    #[test]
    fn the_sample_rigs_are_right() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/rigs");
        for (name, ids) in [
            ("4090-7900xtx", &["cuda0", "rocm0", "cpu0"][..]),
            ("three-old-cards", &["cuda0", "cuda1", "rocm0", "cpu0"]),
            ("one-24gb", &["cuda0", "cpu0"]),
        ] {
            let rig = Rig::load(&folder.join(name).with_extension("toml")).unwrap();
            assert_eq!(rig.devices.iter().map(|d| d.id.to_string()).collect::<Vec<_>>(), ids, "{name}");
            assert!(rig.devices.iter().all(|d| d.memory_bytes_per_s.is_some()), "{name}");
        }
    }

    #[test]
    fn files_that_are_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rig.toml");
        assert!(Rig::load(&path).unwrap_err().to_string().contains("rig.toml"));
        std::fs::write(&path, "x = 1").unwrap();
        assert!(Rig::load(&path).unwrap_err().to_string().ends_with("rig.toml: unknown key 'x'"));
        std::fs::write(&path, vec![0xff; MAX_FILE_BYTES as usize + 9]).unwrap();
        assert!(matches!(Rig::load(&path), Err(RigError::TooLarge { .. })));
        std::fs::write(&path, [0xff, 0xfe]).unwrap();
        assert!(matches!(Rig::load(&path), Err(RigError::Read { .. })));
    }

    /// Lines that are nearly a rig file.
    const LINES: &str = concat!(
        "(\\[\\[device\\]\\]\n",
        "|(id|name|vendor|memory|threads) = (\"(cpu|cuda0|amd|1 GB)\"|[0-9]{1,30}|\\[\\]|\"\\PC{0,9}\")\n",
        "|\\PC{0,5}\n){0,9}",
    );

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in LINES) {
            match Rig::parse(&text) {
                Ok(rig) => prop_assert!(!rig.devices.is_empty() && rig.devices.iter().all(|d| d.memory_bytes > 0)),
                Err(e) => prop_assert!(!e.to_string().contains(char::is_control), "{e}"),
            }
        }
    }
}
