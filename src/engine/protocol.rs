//! What the interface and the engine say to each other: the only engine types that the interface imports.
//!
//! **Invariant**: every command gets exactly one terminal event with its id (see [`Event::is_terminal`]), and events of
//! one command come in order. What happens often and only matters when fresh goes through the `watch` channel of
//! [`Stats`] instead.

mod facts;
mod preview;
mod stats;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

pub use crate::devices::{DeviceFacts, DeviceId, DeviceKind};
pub use crate::engine::forecast::{Basis, Bottleneck, BottleneckAt};
pub use crate::engine::kv::KvType;
pub use crate::engine::part::Part;
pub use crate::engine::placement::{Placement, PlacementError};
pub use crate::engine::run::{CommandSender, Engine};
pub use crate::engine::sampler::SamplerSettings;
pub use facts::{ModelInfo, PartInfo, Summary};
pub use preview::{DevicePreview, Preview};
pub use stats::{DeviceStats, DeviceTimes, Stats, Timings};

/// Names a command; its events carry it. Chosen by the sender, unique within one engine.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct RequestId(pub u64);

#[derive(Clone, Debug)]
pub enum Command {
    /// Ends in `Loaded` or `Failed`. A loaded model is unloaded first.
    Load { id: RequestId, options: LoadOptions },
    /// Ends in `Finished` or `Failed`. Refused while another generation runs.
    Generate { id: RequestId, request: Box<GenerateRequest> },
    /// Computes logits of given ids from an empty cache. `Logits` events in order of positions, then `Finished`.
    Logits { id: RequestId, ids: Vec<u32>, which: LogitRows },
    /// Ends the running generation (which finishes with [`StopReason::Stopped`]). Ends in `Done`.
    Stop { id: RequestId },
    /// Moves parts. Parts that the text does not name stay where they are; `auto` places all of them anew, as if the
    /// model's own memory were free. A change that is under way is cancelled. Ends in `Switched`, `Refused`,
    /// `Cancelled` or `Failed`.
    Repartition { id: RequestId, placement: String, when: When },
    /// What `Repartition` with this text would do, answered at once, also while tokens are generated. Touches nothing:
    /// many can be sent while something is dragged. Ends in `Previewed`, or in `Failed` when no model is loaded.
    Preview { id: RequestId, placement: String },
    /// Cancels the change under way, if any. Ends in `Done`.
    CancelRepartition { id: RequestId },
    /// Frees the model. Ends in `Done`.
    Unload { id: RequestId },
    /// Ends the engine thread. Ends in `Done`.
    Shutdown { id: RequestId },
}

impl Command {
    pub fn id(&self) -> RequestId {
        match self {
            Command::Load { id, .. }
            | Command::Generate { id, .. }
            | Command::Logits { id, .. }
            | Command::Stop { id }
            | Command::Repartition { id, .. }
            | Command::Preview { id, .. }
            | Command::CancelRepartition { id }
            | Command::Unload { id }
            | Command::Shutdown { id } => *id,
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct LoadOptions {
    pub path: PathBuf,
    /// Context length; `None`: the model's own, at most [`LoadOptions::DEFAULT_CTX`].
    pub n_ctx: Option<u32>,
    pub kv: KvType,
    /// Placement text; `None`: `auto`.
    pub placement: Option<String>,
}

impl LoadOptions {
    pub const DEFAULT_CTX: u32 = 8192;
}

/// When a staged change takes effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum When {
    /// Before the next prompt is computed.
    NextPrefill,
    /// At the next token boundary.
    Now,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LogitRows {
    All,
    Last,
}

#[derive(Clone, Debug)]
pub enum Prompt {
    /// Computed as they are.
    Ids(Vec<u32>),
    /// Tokenised as it is, special tokens parsed, BOS added where the model wants it.
    Text(String),
    /// Rendered with the model's chat template.
    Chat(Vec<ChatMessage>),
    /// As `Chat`, but the last message is an assistant's that goes on where it ends: its text is computed as it is,
    /// names of special tokens in it are plain text.
    Continue(Vec<ChatMessage>),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChatMessage {
    pub role: String,
    pub content: String,
}

#[derive(Clone, Debug)]
pub struct GenerateRequest {
    pub prompt: Prompt,
    pub sampling: SamplerSettings,
    /// Texts that end the answer; they are not part of it.
    pub stop: Vec<String>,
    /// `None`: until the model ends or the context is full.
    pub max_tokens: Option<u32>,
    /// Goes on past end-of-generation tokens (for measuring).
    pub ignore_eog: bool,
    /// Keeps what the cache already holds of this prompt. False: computes all of it again.
    pub reuse_cache: bool,
}

/// Why a generation ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// The model gave an end-of-generation token.
    Eog,
    /// One of the stop texts came.
    StopText,
    MaxTokens,
    /// The context is full.
    Context,
    /// A `Stop` command.
    Stopped,
}

#[derive(Clone, Debug)]
pub enum Event {
    /// Of weights from the file, some thirty times a second at most. The last one is complete.
    LoadProgress {
        id: RequestId,
        done_bytes: u64,
        total_bytes: u64,
        /// Those that weights go to, in the order of their ids.
        devices: Vec<DeviceProgress>,
    },
    /// Before weights are brought to a device: its kernels are found or compiled. Of loads and changes.
    Preparing {
        id: RequestId,
        device: DeviceId,
        n_done: usize,
        n_total: usize,
    },
    Loaded {
        id: RequestId,
        info: Box<ModelInfo>,
    },
    /// A device that held parts is lost, and what is done about it. `id` is the request during which that was found
    /// out; it has had, or will have, its own last event.
    Recovery {
        id: RequestId,
        device: DeviceId,
        state: RecoveryState,
    },
    /// Words for the user that are no failure.
    Notice {
        id: RequestId,
        text: String,
    },
    /// The prompt as ids, and how many of them the cache already held.
    PrefillStarted {
        id: RequestId,
        prompt_ids: Vec<u32>,
        n_cached: usize,
        /// The rendered prompt ends with the opening of a thought, so the answer begins in the middle of one.
        thinks_first: bool,
    },
    PrefillProgress {
        id: RequestId,
        n_done: usize,
        n_total: usize,
    },
    /// A token and the text that became certain with it (maybe none, maybe of earlier tokens).
    Token {
        id: RequestId,
        token: u32,
        text: String,
    },
    Logits {
        id: RequestId,
        first_position: u32,
        n_vocab: u32,
        logits: Vec<f32>,
    },
    Finished {
        id: RequestId,
        summary: Box<Summary>,
    },
    Repartition {
        id: RequestId,
        state: ChangeState,
    },
    Previewed {
        id: RequestId,
        preview: Box<Preview>,
    },
    Done {
        id: RequestId,
    },
    Failed {
        id: RequestId,
        message: String,
    },
}

impl Event {
    pub fn id(&self) -> RequestId {
        match self {
            Event::LoadProgress { id, .. }
            | Event::Preparing { id, .. }
            | Event::Loaded { id, .. }
            | Event::Recovery { id, .. }
            | Event::Notice { id, .. }
            | Event::PrefillStarted { id, .. }
            | Event::PrefillProgress { id, .. }
            | Event::Token { id, .. }
            | Event::Logits { id, .. }
            | Event::Finished { id, .. }
            | Event::Repartition { id, .. }
            | Event::Previewed { id, .. }
            | Event::Done { id }
            | Event::Failed { id, .. } => *id,
        }
    }

    /// Whether this is the last event of its command.
    pub fn is_terminal(&self) -> bool {
        match self {
            Event::LoadProgress { .. }
            | Event::Preparing { .. }
            | Event::Recovery { .. }
            | Event::Notice { .. }
            | Event::PrefillStarted { .. }
            | Event::PrefillProgress { .. }
            | Event::Token { .. }
            | Event::Logits { .. } => false,
            Event::Loaded { .. }
            | Event::Finished { .. }
            | Event::Previewed { .. }
            | Event::Done { .. }
            | Event::Failed { .. } => true,
            Event::Repartition { state, .. } => state.is_terminal(),
        }
    }
}

/// How far loading is on one device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeviceProgress {
    pub id: DeviceId,
    pub done_bytes: u64,
    pub total_bytes: u64,
}

/// What becomes of a model that has lost a device. Requests that come meanwhile wait.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum RecoveryState {
    /// Its parts are placed anew, from the file.
    Started { message: String, placement: String },
    /// The model goes on; what the cache held is computed again with the next prompt.
    Recovered { placement: String, took_ms: f64 },
    /// It does not fit on what is left: no model is loaded any more.
    Failed { message: String },
}

/// A live change on its way. In order: checked, reserved, staging (many), ready, switched; or an end before that,
/// after which the old placement works as if nothing had been asked.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum ChangeState {
    /// The forecast says that it fits.
    Checked {
        n_moves: usize,
        move_bytes: u64,
    },
    /// The destination's memory is allocated.
    Reserved {
        reserved_bytes: u64,
    },
    Staging {
        done_bytes: u64,
        total_bytes: u64,
    },
    /// Waits for its moment.
    Ready {
        staging_ms: f64,
    },
    Switched {
        placement: String,
        weight_bytes: u64,
        kv_bytes: u64,
        staging_ms: f64,
        stall_ms: f64,
    },
    /// Would not fit, or makes no sense; nothing was touched.
    Refused {
        message: String,
    },
    Cancelled,
    Failed {
        message: String,
    },
}

impl ChangeState {
    pub fn is_terminal(&self) -> bool {
        match self {
            ChangeState::Checked { .. }
            | ChangeState::Reserved { .. }
            | ChangeState::Staging { .. }
            | ChangeState::Ready { .. } => false,
            ChangeState::Switched { .. }
            | ChangeState::Refused { .. }
            | ChangeState::Cancelled
            | ChangeState::Failed { .. } => true,
        }
    }
}
