//! What the lines of a session say.

use std::fmt;
use std::path::PathBuf;

use chrono::{DateTime, SubsecRound, Utc};
use serde::{Deserialize, Serialize, Serializer};

/// Of the file's form. A reader takes what it knows of a later one.
pub const VERSION: u32 = 1;

/// One line of a session's file. Each kind but messages replaces the one before it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Record {
    /// The first line.
    Header {
        version: u32,
        #[serde(with = "time")]
        created: DateTime<Utc>,
    },
    /// Given by the user; empty takes it back.
    Title {
        title: String,
    },
    Model(ModelRef),
    /// Placement text, e.g. `cuda0=embed,0-19; cpu0=20-29,head`.
    Placement {
        text: String,
    },
    Settings(Settings),
    /// A whole message. One of a known id replaces it: an answer that was continued, or that ended after its partials.
    Message(Message),
    Partial(Partial),
    /// The message that is shown last, where that is not the newest one.
    Leaf {
        id: MessageId,
    },
}

/// The kinds that this version knows, as the lines name them.
pub const KINDS: [&str; 8] = ["header", "title", "model", "placement", "settings", "message", "partial", "leaf"];

impl Record {
    pub fn header(created: DateTime<Utc>) -> Record {
        Record::Header { version: VERSION, created }
    }

    /// Whether a session that holds nothing else is worth a file.
    pub fn matters(&self) -> bool {
        match self {
            Record::Title { .. } | Record::Message(_) | Record::Partial(_) => true,
            Record::Header { .. }
            | Record::Model(_)
            | Record::Placement { .. }
            | Record::Settings(_)
            | Record::Leaf { .. } => false,
        }
    }
}

/// The model that answers.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ModelRef {
    /// As opened; it may have moved since.
    pub path: PathBuf,
    pub name: String,
    pub n_ctx: u32,
    /// Element type of the KV cache, e.g. `f16`.
    pub kv: String,
}

/// How answers are made.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// The sampler's settings, in its own form.
    pub sampling: serde_json::Value,
    /// System message.
    pub system: Option<String>,
    /// Most tokens of one answer.
    pub max_tokens: Option<u32>,
}

/// Number of a message in its session, from 1 in the order of writing; a message's parent has a lower one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MessageId(pub u64);

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Who speaks. The system message is a setting.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    User,
    Assistant,
}

impl Role {
    pub const fn name(self) -> &'static str {
        match self {
            Role::User => "user",
            Role::Assistant => "assistant",
        }
    }
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Message {
    pub id: MessageId,
    /// What it follows; `None`: it begins a conversation.
    pub parent: Option<MessageId>,
    pub role: Role,
    /// As typed or as the model gave it: not fit for a terminal as it is.
    pub text: String,
    /// When it began.
    #[serde(with = "time")]
    pub at: DateTime<Utc>,
    #[serde(default)]
    pub end: MessageEnd,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub figures: Option<Figures>,
    /// The template had opened the thinking block, so the text begins inside it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub thinks_first: bool,
}

impl Message {
    /// A whole message that begins now. Its number is set where it is added; it has no parent yet.
    pub fn new(role: Role, text: impl Into<String>) -> Message {
        Message {
            id: MessageId(0),
            parent: None,
            role,
            text: text.into(),
            at: now(),
            end: MessageEnd::Complete,
            figures: None,
            thinks_first: false,
        }
    }

    /// The line that keeps what was added to this answer while it streams.
    pub fn partial(&self, added: impl Into<String>) -> Partial {
        Partial { id: self.id, parent: self.parent, at: self.at, added: added.into(), thinks_first: self.thinks_first }
    }
}

/// How a message came to its end.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MessageEnd {
    #[default]
    Complete,
    /// By the user.
    Stopped,
    MaxTokens,
    ContextFull,
    /// The engine's error.
    Failed(String),
    /// The program ended before the answer did.
    Partial,
}

/// What an answer took.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Figures {
    /// Tokens of the prompt that were computed.
    pub n_prompt: u64,
    /// Tokens of the answer.
    pub n_tokens: u64,
    #[serde(serialize_with = "milliseconds")]
    pub prefill_ms: f64,
    #[serde(serialize_with = "milliseconds")]
    pub decode_ms: f64,
    /// From the first to the last token of the thinking block.
    #[serde(serialize_with = "some_milliseconds", skip_serializing_if = "Option::is_none")]
    pub thinking_ms: Option<f64>,
}

/// Text that was added to an answer while it streams. Each such line stands alone, whichever others are lost.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Partial {
    pub id: MessageId,
    pub parent: Option<MessageId>,
    /// When the message began.
    #[serde(with = "time")]
    pub at: DateTime<Utc>,
    /// Since the line before of this id.
    pub added: String,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub thinks_first: bool,
}

/// The time as files keep it: to the millisecond.
pub fn now() -> DateTime<Utc> {
    Utc::now().trunc_subsecs(3)
}

/// JSON knows no infinity: it would damage its line.
fn milliseconds<S: Serializer>(ms: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    let rounded = (ms * 1000.0).round() / 1000.0;
    serializer.serialize_f64(if rounded.is_finite() { rounded } else { 0.0 })
}

fn some_milliseconds<S: Serializer>(ms: &Option<f64>, serializer: S) -> Result<S::Ok, S::Error> {
    match ms {
        Some(ms) => milliseconds(ms, serializer),
        None => serializer.serialize_none(),
    }
}

/// RFC 3339 text.
mod time {
    use chrono::{DateTime, SecondsFormat, Utc};
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub fn serialize<S: Serializer>(at: &DateTime<Utc>, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&at.to_rfc3339_opts(SecondsFormat::AutoSi, true))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<DateTime<Utc>, D::Error> {
        let text = String::deserialize(deserializer)?;
        DateTime::parse_from_rfc3339(&text).map(|at| at.to_utc()).map_err(D::Error::custom)
    }
}
