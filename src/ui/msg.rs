//! What can happen to the screen, and what it asks to be done.

use std::path::PathBuf;
use std::time::Duration;

use chrono::{DateTime, Utc};
use crossterm::event::{KeyEvent, MouseEvent};
use ratatui::layout::Rect;

use super::hits::Target;
use super::view::Metrics;
use crate::devices::telemetry::{Finding, Reading};
use crate::engine::inventory::Examined;
use crate::engine::protocol::{Command, Event, Stats};
use crate::models::library::LibraryEntry;
use crate::sessions::{Record, SessionHead, SessionId, SessionState};

/// Everything that happens, in the order it happened.
#[derive(Debug)]
pub enum Msg {
    /// Time since the start, and by the clock; comes before what happened then.
    Time {
        now: Duration,
        clock: DateTime<Utc>,
    },
    Key(KeyEvent),
    /// With what lies under the pointer, topmost first.
    Mouse {
        event: MouseEvent,
        under: Vec<(Rect, Target)>,
    },
    Paste(String),
    /// Columns and rows.
    Resize(u16, u16),
    Focus(bool),
    /// A picture was drawn: how much of what there was to show was shown.
    Drawn(Box<Metrics>),
    Engine(Event),
    Stats(Box<Stats>),
    Telemetry(Vec<Reading>),
    Findings(Vec<Finding>),
    /// The model files that were found; what is known of each follows.
    Library(Vec<LibraryEntry>),
    LibraryFacts {
        path: PathBuf,
        examined: Box<Examined>,
    },
    Demo(DemoProgress),
    /// What was asked for with this query.
    Sessions {
        query: String,
        rows: Result<Vec<SessionRow>, String>,
    },
    SessionOpened(Result<Box<OpenedSession>, String>),
    /// The session has a file now.
    SessionFile(SessionId),
    /// A file of the session could not be written, read or exported.
    SessionError(String),
    Exported(PathBuf),
    /// The file of a model that was named by hand.
    Resolved(Result<PathBuf, String>),
    /// What came back from the external editor; an error says why nothing did.
    Edited(Result<String, String>),
    Copied(Result<&'static str, String>),
    /// The process was suspended and goes on.
    Resumed,
    /// The terminal has gone, or the system asks the program to end.
    Hangup,
}

/// A session in the list, with the words around what was searched.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionRow {
    pub head: SessionHead,
    pub snippet: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct OpenedSession {
    pub id: SessionId,
    pub session: SessionState,
    /// The model's file lies where the session had it.
    pub model_is_there: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub enum DemoProgress {
    Bytes { done_bytes: u64, total_bytes: Option<u64> },
    Words(String),
    Ready(PathBuf),
    Failed(String),
}

/// What the loop is to do; the state itself does nothing.
#[derive(Debug)]
pub enum Effect {
    Engine(Command),
    /// Appends to the session's file, which the first record creates.
    Record(Record),
    /// Ends this session's file; the next record starts another.
    CloseSession,
    /// A prompt that was sent, for the history of later runs.
    RememberPrompt(String),
    ListSessions {
        query: String,
    },
    OpenSession(SessionId),
    RenameSession {
        id: SessionId,
        title: String,
    },
    DeleteSession(SessionId),
    /// Writes the session's text to a file in the current folder.
    Export {
        text: String,
        extension: &'static str,
        title: String,
    },
    Copy(String),
    ExternalEditor(String),
    ScanLibrary,
    /// Finds the model that was typed: a path, or a name.
    Resolve(String),
    FetchDemo,
    Examine,
    MouseCapture(bool),
    /// Whether telemetry and pictures are wanted: not while nobody looks.
    Watch(bool),
    Redraw,
    Suspend,
    Quit,
}
