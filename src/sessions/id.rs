//! Names of sessions: safe as file names, and in the order of time.

use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::str::FromStr;

use chrono::{DateTime, Utc};

use super::SessionError;

/// The name of a session and of its file, e.g. `2026-12-01T14-05-33-9f3a`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SessionId(String);

const MAX_CHARS: usize = 64;

impl SessionId {
    /// A name for a session that begins at this time. Two of one second differ in their last four digits, most
    /// likely.
    pub fn new(at: DateTime<Utc>) -> SessionId {
        // The standard library's own source of random numbers.
        let random = RandomState::new().build_hasher().finish() & 0xffff;
        SessionId(format!("{}-{random:04x}", at.format("%Y-%m-%dT%H-%M-%S")))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for SessionId {
    type Err = SessionError;

    fn from_str(text: &str) -> Result<SessionId, SessionError> {
        let is_fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        if text.is_empty() || text.len() > MAX_CHARS || !text.chars().all(is_fine) {
            let text = text.chars().take(MAX_CHARS).flat_map(char::escape_debug).collect();
            return Err(SessionError::BadId { text });
        }
        Ok(SessionId(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_follow_the_time_and_are_file_names() {
        let at = |text: &str| text.parse::<DateTime<Utc>>().unwrap();
        let first = SessionId::new(at("2026-12-01T14:05:33Z"));
        assert!(first.as_str().starts_with("2026-12-01T14-05-33-"), "{first}");
        assert!(first < SessionId::new(at("2026-12-01T14:05:34Z")));
        assert_eq!(first.as_str().parse::<SessionId>().unwrap(), first);
        for bad in ["", "..", "a/b", "a\\b", "a.b", "é", "a\u{1b}b", &"a".repeat(65)] {
            assert!(bad.parse::<SessionId>().is_err(), "{bad}");
        }
        assert!(!"a\u{1b}[2J".parse::<SessionId>().unwrap_err().to_string().contains('\u{1b}'));
    }
}
