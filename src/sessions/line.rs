//! From a record to its line and back: JSON, a checksum, no control character.
//!
//! ```json
//! {"kind":"title","title":"Rain","sum":"1f0c4d2e"}
//! ```

use std::fmt::Write;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::SessionError;
use super::record::KINDS;

/// No conversation is as long; a model file that lies here by mistake is not read whole.
pub const MAX_FILE_BYTES: u64 = 256 << 20;

const SUM_START: &str = ",\"sum\":\"";
const SUM_END: &str = "\"}";
const SUM_DIGITS: usize = 8;

/// What a line turned out to be.
#[derive(PartialEq, Debug)]
pub enum Line<T> {
    Good(T),
    /// Whole, but of a kind that a later version knows.
    Unknown,
    Damaged,
}

/// The line of a value that is a JSON object, with the line break.
pub fn write_line<T: Serialize>(value: &T) -> Result<String, serde_json::Error> {
    let json = serde_json::to_string(value)?;
    let mut line = String::with_capacity(json.len() + 24);
    for c in json.chars() {
        // JSON itself escapes only those below the space. Outside of strings it has none.
        if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}') {
            // Writing to a string does not fail.
            let _ = write!(line, "\\u{:04x}", u32::from(c));
        } else {
            line.push(c);
        }
    }
    if line.ends_with('}') {
        line.pop();
    }
    let sum = checksum(line.as_bytes());
    let _ = writeln!(line, "{SUM_START}{sum:0SUM_DIGITS$x}{SUM_END}");
    Ok(line)
}

/// Reads a line without its line break.
pub fn read_line<T: DeserializeOwned>(line: &[u8]) -> Line<T> {
    if !sum_is_right(line) {
        return Line::Damaged;
    }
    #[derive(Deserialize)]
    struct Kind {
        kind: String,
    }
    match serde_json::from_slice(line) {
        Ok(value) => Line::Good(value),
        Err(_) => match serde_json::from_slice::<Kind>(line) {
            Ok(Kind { kind }) if !KINDS.contains(&kind.as_str()) => Line::Unknown,
            _ => Line::Damaged,
        },
    }
}

/// What can be read of a line that is whole.
pub fn peek_line<'a, T: Deserialize<'a>>(line: &'a [u8]) -> Option<T> {
    if sum_is_right(line) { serde_json::from_slice(line).ok() } else { None }
}

/// The lines of a file that hold anything.
pub fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.split(|&b| b == b'\n').map(<[u8]>::trim_ascii).filter(|line| !line.is_empty())
}

/// The whole file.
pub fn read_file(path: &Path) -> Result<Vec<u8>, SessionError> {
    let file = File::open(path).map_err(SessionError::io("open", path))?;
    let mut bytes = Vec::new();
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(SessionError::io("read", path))?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(SessionError::TooLarge { path: path.to_owned() });
    }
    Ok(bytes)
}

/// Whether what stands before the checksum gives it. A line without one is believed.
fn sum_is_right(line: &[u8]) -> bool {
    let sum_at = line.len().checked_sub(SUM_START.len() + SUM_DIGITS + SUM_END.len());
    let Some((before, sum)) = sum_at.and_then(|at| line.split_at_checked(at)) else { return true };
    let digits = sum.strip_prefix(SUM_START.as_bytes()).and_then(|rest| rest.strip_suffix(SUM_END.as_bytes()));
    digits.is_none_or(|digits| digits == format!("{:0SUM_DIGITS$x}", checksum(before)).as_bytes())
}

/// FNV-1a: no change of a single byte keeps it, as each of its steps can be undone.
/// <http://www.isthe.com/chongo/tech/comp/fnv/>
fn checksum(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |sum, &b| (sum ^ u32::from(b)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sessions::Record;

    fn title(title: &str) -> Record {
        Record::Title { title: title.to_owned() }
    }

    #[test]
    fn lines_are_json_with_a_sum_and_without_control_characters() {
        let record = title("a\u{1b}]0;x\u{7}\n\u{9b}31m\u{7f}\u{202e}é");
        let line = write_line(&record).unwrap();
        insta::assert_snapshot!(line.trim_end(), @r#"{"kind":"title","title":"a\u001b]0;x\u0007\n\u009b31m\u007f\u202eé","sum":"a6fd6b2a"}"#);
        assert!(!line.trim_end().contains(char::is_control));
        assert_eq!(read_line(line.trim_end().as_bytes()), Line::Good(record));
    }

    #[test]
    fn checksum_is_fnv_1a() {
        // Published values of FNV-1a with 32 bits.
        assert_eq!(checksum(b""), 0x811c_9dc5);
        assert_eq!(checksum(b"a"), 0xe40c_292c);
        assert_eq!(checksum(b"foobar"), 0xbf9c_f968);
    }

    #[test]
    fn a_changed_line_is_damaged_unless_its_sum_is_taken_away() {
        let line = write_line(&title("Rain")).unwrap().replace("Rain", "Snow");
        assert_eq!(read_line::<Record>(line.trim_end().as_bytes()), Line::Damaged);
        assert_eq!(read_line(br#"{"kind":"title","title":"Snow"}"#), Line::Good(title("Snow")));
        for bad in ["", "{}", "[]", "null", r#"{"kind":"title"}"#, r#"{"kind":3}"#, r#"{"kind":"title","title":"#] {
            assert_eq!(read_line::<Record>(bad.as_bytes()), Line::Damaged, "{bad}");
        }
        assert_eq!(read_line::<Record>(br#"{"kind":"mood","mood":"good"}"#), Line::Unknown);
    }
}
