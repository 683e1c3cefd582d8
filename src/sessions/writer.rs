//! Writes a session's lines as they come about.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::mem::discriminant;
use std::path::{Path, PathBuf};

use chrono::{DateTime, Utc};

use super::files::{append_options, lock, make_folder};
use super::line::write_line;
use super::record::Record;
use super::{SessionError, SessionId, now};

/// Appends to the file of one session and keeps other programs from it. An empty session leaves no file: lines wait
/// until one [matters](Record::matters).
#[derive(Debug)]
pub struct SessionWriter {
    id: SessionId,
    path: PathBuf,
    to: To,
}

#[derive(Debug)]
enum To {
    /// The file does not exist yet.
    Waiting(Vec<Record>),
    File(AppendFile),
}

impl SessionWriter {
    /// For a session that begins now.
    pub(super) fn new(folder: &Path, created: DateTime<Utc>) -> SessionWriter {
        let id = SessionId::new(created);
        SessionWriter { path: path_of(folder, &id), id, to: To::Waiting(vec![Record::header(created)]) }
    }

    /// For a session that begins with what another one says. Nothing is written before something is added to it.
    pub(super) fn copy(folder: &Path, created: DateTime<Utc>, records: Vec<Record>) -> SessionWriter {
        SessionWriter { to: To::Waiting(records), ..SessionWriter::new(folder, created) }
    }

    /// Goes on with a file that exists.
    pub(super) fn open(folder: &Path, id: &SessionId) -> Result<SessionWriter, SessionError> {
        let path = path_of(folder, id);
        let file = open_locked(folder, id)?;
        let to = To::File(AppendFile::new(file).map_err(SessionError::io("read", &path))?);
        Ok(SessionWriter { id: id.clone(), path, to })
    }

    /// The session's name. It may still change until the file exists, should another program take it.
    pub fn id(&self) -> &SessionId {
        &self.id
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether there is a file already.
    pub fn has_file(&self) -> bool {
        match self.to {
            To::Waiting(_) => false,
            To::File(_) => true,
        }
    }

    /// Writes a line, which a kill of the program then no longer undoes.
    ///
    /// # Errors
    /// The line is lost, or part of it is written. Later lines stay whole, and the next append may be tried.
    pub fn append(&mut self, record: &Record) -> Result<(), SessionError> {
        match &mut self.to {
            To::File(file) => file.append(std::slice::from_ref(record)).map_err(SessionError::io("write", &self.path)),
            To::Waiting(records) => {
                if !record.matters() {
                    // Of facts, only the last counts.
                    records.retain(|r| r.matters() || discriminant(r) != discriminant(record));
                }
                records.push(record.clone());
                if record.matters() { self.create() } else { Ok(()) }
            }
        }
    }

    /// Makes the file and writes what waits for it. Where that fails, all of it goes on waiting.
    fn create(&mut self) -> Result<(), SessionError> {
        let To::Waiting(records) = &self.to else { return Ok(()) };
        let folder = self.path.parent().unwrap_or(Path::new(".")).to_owned();
        make_folder(&folder)?;
        let mut n_tries = 0;
        let file = loop {
            match append_options().create_new(true).open(&self.path) {
                Ok(file) => break file,
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists && n_tries < MAX_TRIES => {
                    n_tries += 1;
                    self.id = SessionId::new(now());
                    self.path = path_of(&folder, &self.id);
                }
                Err(e) => return Err(SessionError::io("create", &self.path)(e)),
            }
        };
        lock(&file, &self.id, &self.path)?;
        let mut file = AppendFile { file, ends_in_break: true };
        if let Err(e) = file.append(records) {
            // Half a beginning is no session.
            let _ = std::fs::remove_file(&self.path);
            return Err(SessionError::io("write", &self.path)(e));
        }
        self.to = To::File(file);
        Ok(())
    }
}

/// A file that ends in a line break, or gets one before the next line.
#[derive(Debug)]
struct AppendFile {
    file: File,
    ends_in_break: bool,
}

impl AppendFile {
    fn new(mut file: File) -> io::Result<AppendFile> {
        let mut last = [b'\n'];
        if file.seek(SeekFrom::End(0))? > 0 {
            file.seek(SeekFrom::End(-1))?;
            file.read_exact(&mut last)?;
        }
        Ok(AppendFile { file, ends_in_break: last == *b"\n" })
    }

    /// Writes these lines in one go.
    fn append(&mut self, records: &[Record]) -> io::Result<()> {
        // A program that was killed, or a full disk, may have left half a line.
        let mut text = if self.ends_in_break { String::new() } else { "\n".to_owned() };
        for record in records {
            text.push_str(&write_line(record)?);
        }
        self.ends_in_break = false;
        self.file.write_all(text.as_bytes())?;
        self.ends_in_break = true;
        Ok(())
    }
}

/// Other names that are tried where one is taken.
const MAX_TRIES: usize = 16;

pub(super) fn path_of(folder: &Path, id: &SessionId) -> PathBuf {
    folder.join(id.as_str()).with_extension("jsonl")
}

/// The file of a session, kept from other programs.
pub(super) fn open_locked(folder: &Path, id: &SessionId) -> Result<File, SessionError> {
    let path = path_of(folder, id);
    let file = append_options().open(&path).map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => SessionError::NotFound { id: id.clone(), folder: folder.to_owned() },
        _ => SessionError::io("open", &path)(e),
    })?;
    lock(&file, id, &path)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sessions::{Message, Role, SessionState};

    fn title(title: &str) -> Record {
        Record::Title { title: title.to_owned() }
    }

    fn placement(text: &str) -> Record {
        Record::Placement { text: text.to_owned() }
    }

    fn read(writer: &SessionWriter) -> SessionState {
        SessionState::parse(writer.id().clone(), &std::fs::read(writer.path()).unwrap())
    }

    #[test]
    fn a_session_without_a_message_leaves_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = SessionWriter::new(folder.path(), now());
        writer.append(&placement("cpu0=*")).unwrap();
        writer.append(&placement("cpu1=*")).unwrap();
        assert!(!writer.has_file());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        writer.append(&Record::Message(Message::new(Role::User, "q"))).unwrap();
        assert!(writer.has_file());
        let text = std::fs::read_to_string(writer.path()).unwrap();
        assert_eq!(text.lines().count(), 3, "header, the last placement, message: {text}");
        assert!(text.starts_with("{\"kind\":\"header\",\"version\":1,"), "{text}");
        assert_eq!(read(&writer).placement.as_deref(), Some("cpu1=*"));
    }

    #[cfg(unix)]
    #[test]
    fn only_the_owner_reads_a_session() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("state/sessions");
        let mut writer = SessionWriter::new(&folder, now());
        writer.append(&title("t")).unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(writer.path()), mode(&folder)), (0o600, 0o700));
        assert_eq!(mode(folder.parent().unwrap()), 0o700);
    }

    #[test]
    fn a_taken_name_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = SessionWriter::new(folder.path(), now());
        let (taken, first) = (writer.path().to_owned(), writer.id().clone());
        std::fs::write(&taken, "other").unwrap();
        writer.append(&title("t")).unwrap();
        assert_ne!(writer.id(), &first);
        assert_eq!(std::fs::read_to_string(&taken).unwrap(), "other");
        assert_eq!(read(&writer).title.as_deref(), Some("t"));
    }

    #[test]
    fn what_cannot_be_written_waits_for_the_next_try() {
        let folder = tempfile::tempdir().unwrap();
        let sessions = folder.path().join("sessions");
        std::fs::write(&sessions, "a file where the folder should be").unwrap();
        let mut writer = SessionWriter::new(&sessions, now());
        let error = writer.append(&title("a")).unwrap_err().to_string();
        assert!(error.starts_with("cannot create ") && !error.contains('\n'), "{error}");
        std::fs::remove_file(&sessions).unwrap();
        writer.append(&placement("cpu0=*")).unwrap();
        writer.append(&Record::Message(Message::new(Role::User, "q"))).unwrap();
        let state = read(&writer);
        assert_eq!((state.title.as_deref(), state.placement.as_deref()), (Some("a"), Some("cpu0=*")));
    }
}
