//! The folder of sessions.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use chrono::{DateTime, Utc};
use serde::Deserialize;

use super::line::{lines, peek_line, read_file};
use super::record::{Record, Role, now};
use super::state::shown_title;
use super::writer::{SessionWriter, open_locked, path_of};
use super::{SessionError, SessionId, SessionState, state_folder};

/// Longest title that is taken from a question.
pub(super) const TITLE_CHARS: usize = 80;

/// The sessions of one folder.
#[derive(Clone, Debug)]
pub struct SessionStore {
    folder: PathBuf,
}

/// A session in a list.
#[derive(Clone, PartialEq, Debug)]
pub struct SessionHead {
    pub id: SessionId,
    pub path: PathBuf,
    /// See [`SessionState::shown_title`].
    pub title: String,
    pub created: DateTime<Utc>,
    /// When its newest message began.
    pub changed: DateTime<Utc>,
    /// Name of the model.
    pub model: Option<String>,
    /// Of all branches.
    pub n_messages: usize,
    /// Of its file.
    pub bytes: u64,
}

/// What is in a folder.
#[derive(Debug)]
pub struct Listed<T> {
    /// Newest first.
    pub sessions: Vec<T>,
    /// Files that could not be read.
    pub unreadable: Vec<SessionError>,
}

impl SessionStore {
    /// The user's own sessions.
    pub fn of_user() -> Result<SessionStore, SessionError> {
        Ok(SessionStore::new(state_folder()?.join("sessions")))
    }

    /// The folder need not exist.
    pub fn new(folder: impl Into<PathBuf>) -> SessionStore {
        SessionStore { folder: folder.into() }
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// A new session. It has no file until something is said.
    pub fn create(&self) -> (SessionState, SessionWriter) {
        let created = now();
        let writer = SessionWriter::new(&self.folder, created);
        (SessionState::new(writer.id().clone(), created), writer)
    }

    /// Goes on with a session.
    ///
    /// # Errors
    /// `InUse` while it is open elsewhere; see [`SessionStore::open_copy`].
    pub fn open(&self, id: &SessionId) -> Result<(SessionState, SessionWriter), SessionError> {
        // First the lock, so that nobody writes behind what is read.
        let writer = SessionWriter::open(&self.folder, id)?;
        let bytes = read_file(writer.path())?;
        Ok((SessionState::parse(id.clone(), &bytes), writer))
    }

    /// A new session that begins as another one is now. Without anything added it leaves no file.
    pub fn open_copy(&self, id: &SessionId) -> Result<(SessionState, SessionWriter), SessionError> {
        let original = self.read(id)?;
        let created = now();
        let title = format!("{} (copy)", original.shown_title());
        let mut copy = SessionState { created, title: Some(title), n_damaged_lines: 0, ..original };
        let writer = SessionWriter::copy(&self.folder, created, copy.records());
        copy.id = writer.id().clone();
        Ok((copy, writer))
    }

    /// Only reads a session, whoever has it open.
    pub fn read(&self, id: &SessionId) -> Result<SessionState, SessionError> {
        let bytes = read_file(&path_of(&self.folder, id)).map_err(|e| self.or_not_found(id, e))?;
        Ok(SessionState::parse(id.clone(), &bytes))
    }

    /// Gives a session a title; an empty one takes it back. A session that this program has open gets it through its
    /// own writer.
    pub fn rename(&self, id: &SessionId, title: &str) -> Result<(), SessionError> {
        SessionWriter::open(&self.folder, id)?.append(&Record::Title { title: title.to_owned() })
    }

    /// Removes a session for good. One that this program has open must be closed first.
    pub fn delete(&self, id: &SessionId) -> Result<(), SessionError> {
        // Where it stays open, Windows removes nothing.
        drop(open_locked(&self.folder, id)?);
        let path = path_of(&self.folder, id);
        std::fs::remove_file(&path).map_err(SessionError::io("remove", &path))
    }

    /// All sessions. Of each line only what a list shows is read.
    pub fn list(&self) -> Result<Listed<SessionHead>, SessionError> {
        self.each(|id, path, bytes| Some(head(id, path, bytes)), |head| head)
    }

    /// Reads every session of the folder and sorts what is made of them.
    pub(super) fn each<T>(
        &self,
        make: impl Fn(SessionId, &Path, &[u8]) -> Option<T>,
        head: impl Fn(&T) -> &SessionHead,
    ) -> Result<Listed<T>, SessionError> {
        let mut listed = Listed { sessions: Vec::new(), unreadable: Vec::new() };
        let entries = match std::fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(listed),
            Err(e) => return Err(SessionError::io("list", &self.folder)(e)),
        };
        for entry in entries {
            let path = entry.map_err(SessionError::io("list", &self.folder))?.path();
            let Some(id) = id_of(&path) else { continue };
            match read_file(&path) {
                Ok(bytes) => listed.sessions.extend(make(id, &path, &bytes)),
                Err(e) => listed.unreadable.push(e),
            }
        }
        let key = |item: &T| (head(item).changed, head(item).id.clone());
        listed.sessions.sort_by_cached_key(|item| std::cmp::Reverse(key(item)));
        Ok(listed)
    }

    fn or_not_found(&self, id: &SessionId, error: SessionError) -> SessionError {
        match error {
            SessionError::Io { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                SessionError::NotFound { id: id.clone(), folder: self.folder.clone() }
            }
            error => error,
        }
    }
}

fn id_of(path: &Path) -> Option<SessionId> {
    if path.extension()? != "jsonl" {
        return None;
    }
    path.file_stem()?.to_str()?.parse().ok()
}

/// Of a line, what a list shows; the text of answers is passed over.
#[derive(Deserialize)]
struct Peek<'a> {
    #[serde(borrow)]
    kind: Cow<'a, str>,
    id: Option<u64>,
    role: Option<Role>,
    #[serde(borrow)]
    at: Option<Cow<'a, str>>,
    #[serde(borrow)]
    created: Option<Cow<'a, str>>,
    title: Option<String>,
    name: Option<String>,
}

pub(super) fn head(id: SessionId, path: &Path, bytes: &[u8]) -> SessionHead {
    let time = |text: Option<&str>| text.and_then(|t| DateTime::parse_from_rfc3339(t).ok()).map(|t| t.to_utc());
    let (mut title, mut question, mut model) = (None, None, None);
    let (mut created, mut changed): (Option<DateTime<Utc>>, Option<DateTime<Utc>>) = (None, None);
    let mut ids = BTreeSet::new();
    for line in lines(bytes) {
        let Some(peek) = peek_line::<Peek<'_>>(line) else { continue };
        match &*peek.kind {
            "header" => created = time(peek.created.as_deref()),
            "title" => title = peek.title.filter(|t| !t.trim().is_empty()),
            "model" => model = peek.name,
            "message" | "partial" => {
                let at = time(peek.at.as_deref());
                ids.extend(peek.id);
                created = created.or(at);
                changed = changed.max(at);
                if peek.role == Some(Role::User)
                    && question.is_none()
                    && let Some(Record::Message(message)) = peek_line(line)
                {
                    question = Some(message.text);
                }
            }
            _ => {}
        }
    }
    let created = created.unwrap_or(DateTime::UNIX_EPOCH);
    SessionHead {
        id,
        path: path.to_owned(),
        title: shown_title(title.as_deref(), question.as_deref()),
        created,
        changed: changed.unwrap_or(created),
        model,
        n_messages: ids.len(),
        bytes: bytes.len() as u64,
    }
}
