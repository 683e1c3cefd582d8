//! Conversations on disk: one JSON Lines file a session in the state folder, written while chatting.
//!
//! The state folder is `$LAYERCAKE_STATE` where that is set, else `layercake` in the user's state folder
//! (`$XDG_STATE_HOME` or `~/.local/state`; the data folder on Windows). It holds `sessions/ID.jsonl` and
//! `history.jsonl`.
//!
//! A file only grows. Each line is one [`Record`] and ends in a checksum, so that a damaged line is known and loses
//! itself alone. Who edits a line by hand takes its `"sum"` away: a line without one is believed.

use std::io;
use std::path::{Path, PathBuf};

mod conversation;
mod export;
mod files;
mod id;
mod line;

mod prompt_history;
mod record;
mod search;
mod state;
mod store;
mod writer;

pub use conversation::Conversation;
pub use export::{export_json, export_markdown};
pub use id::SessionId;
pub use prompt_history::PromptHistory;
pub use record::{Figures, Message, MessageEnd, MessageId, ModelRef, Partial, Record, Role, Settings, now};
pub use search::Found;
pub use state::SessionState;
pub use store::{Listed, SessionHead, SessionStore};
pub use writer::SessionWriter;

/// Names the state folder.
pub const FOLDER_VARIABLE: &str = "LAYERCAKE_STATE";

/// What can go wrong with sessions. Each is one line.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    #[error("cannot tell where sessions lie: no home folder is known; set {FOLDER_VARIABLE} to a folder")]
    NoHome,
    #[error("cannot {doing} {}: {source}", shown(path))]
    Io { doing: &'static str, path: PathBuf, source: io::Error },
    #[error("session {id} is open in another program; close it there, or open a copy")]
    InUse { id: SessionId },
    #[error("no session {id} in {}", shown(folder))]
    NotFound { id: SessionId, folder: PathBuf },
    #[error("{} is larger than {} MiB, so it is no session", shown(path), line::MAX_FILE_BYTES >> 20)]
    TooLarge { path: PathBuf },
    #[error("\"{text}\" is no session id: letters, digits, '-' and '_' make one")]
    BadId { text: String },
}

impl SessionError {
    /// For `map_err`: says what was being done to which file.
    fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> SessionError {
        move |source| SessionError::Io { doing, path: path.to_owned(), source }
    }
}

/// The state folder. It need not exist.
///
/// # Errors
/// `NoHome` where neither the variable nor a home folder is set.
pub fn state_folder() -> Result<PathBuf, SessionError> {
    use etcetera::BaseStrategy;
    match std::env::var_os(FOLDER_VARIABLE) {
        Some(folder) if !folder.is_empty() => Ok(PathBuf::from(folder)),
        _ => {
            let base = etcetera::choose_base_strategy().map_err(|_| SessionError::NoHome)?;
            Ok(base.state_dir().unwrap_or_else(|| base.data_dir()).join("layercake"))
        }
    }
}

/// A path for an error line: file names come from outside and may hold escape sequences.
fn shown(path: &Path) -> String {
    path.to_string_lossy().chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

#[cfg(test)]
mod damage_tests;
