//! Everything the screen shows, as plain values. Only [`super::update`] changes it.

use std::collections::{HashMap, HashSet, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::dialog::Dialog;
use super::editor::Editor;
use super::gauges::Gauges;
use super::hits::PanelId;
use super::keymap::Keymap;
use super::layers::{ChangeView, LayerMap, PreviewView};
use super::msg::SessionRow;
use super::picker::Picker;
use super::theme::{ColourDepth, OwnTheme, Theme};
use super::view::Metrics;
use crate::config::Config;
use crate::devices::telemetry::Finding;
use crate::engine::protocol::{
    DeviceFacts, DeviceId, DeviceProgress, KvType, LoadOptions, ModelInfo, Placement, RequestId, SamplerSettings,
};
use crate::sessions::{MessageId, SessionId, SessionState};
use chrono::{DateTime, Utc};

pub struct State {
    /// Since the start.
    pub now: Duration,
    /// What the clock says.
    pub clock: DateTime<Utc>,
    /// Columns and rows of the terminal.
    pub size: (u16, u16),
    /// Whether the terminal's window has the focus, as far as it says.
    pub watched: bool,
    pub mouse: bool,
    pub look: Look,
    pub config: Config,
    pub keymap: Keymap,
    pub screen: Screen,
    pub focus: PanelId,
    /// The last one is on top and gets the keys.
    pub dialogs: Vec<Dialog>,
    pub notices: VecDeque<Notice>,
    pub gauges: Gauges,
    pub findings: Vec<Finding>,
    pub picker: Picker,
    /// As the sessions dialog lists them.
    pub sessions: Vec<SessionRow>,
    pub model: ModelState,
    pub chat: Chat,
    pub layers: Option<Layers>,
    pub requests: Requests,
    /// The device that is chosen in the devices panel.
    pub device_cursor: usize,
    pub metrics: Metrics,
    /// Counts conversations that took another one's place: message numbers begin anew.
    pub conversation_version: u64,
    /// Where the seeds of answers come from, where none is set.
    seeds: u64,
    /// When Ctrl-C was pressed with nothing left to stop.
    pub interrupted_at: Option<Duration>,
    /// The settings that the program was started with.
    pub start_settings: ChatSettings,
}

/// How things look, and what it can be changed to.
pub struct Look {
    pub theme: Theme,
    pub depth: ColourDepth,
    pub ascii: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Screen {
    Picker,
    Main,
}

/// Words for the user, in the last line until they are old or a key is pressed.
#[derive(Clone, PartialEq, Debug)]
pub struct Notice {
    pub text: String,
    pub level: Level,
    pub at: Duration,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Level {
    Good,
    Info,
    Warn,
    Bad,
}

/// Which model there is, or is to be.
pub enum ModelState {
    None,
    Loading(Loading),
    Loaded(Box<ModelInfo>),
    Failed { path: PathBuf, message: String },
}

impl ModelState {
    pub fn info(&self) -> Option<&ModelInfo> {
        match self {
            ModelState::Loaded(info) => Some(info),
            ModelState::None | ModelState::Loading(_) | ModelState::Failed { .. } => None,
        }
    }
}

pub struct Loading {
    pub id: RequestId,
    pub options: LoadOptions,
    pub since: Duration,
    pub done_bytes: u64,
    pub total_bytes: u64,
    pub devices: Vec<DeviceProgress>,
    /// Kernels of a device that are being made, before weights come.
    pub preparing: Option<String>,
}

pub struct Chat {
    pub session: SessionState,
    /// `None`: nothing of it is written yet.
    pub id: Option<SessionId>,
    /// Another session was asked for and is not here yet: what is sent now would end up in its file.
    pub opening: bool,
    pub settings: ChatSettings,
    pub editor: Editor,
    /// The message whose edited text the editor holds.
    pub editing: Option<MessageId>,
    /// What the editor held before that.
    pub draft: String,
    pub streaming: Option<Streaming>,
    /// First line shown; `None`: the newest text is followed.
    pub top: Option<usize>,
    pub chosen: Option<MessageId>,
    pub unfolded: HashSet<MessageId>,
    /// The code block that was copied last, to go on to the next.
    pub copied_block: Option<(MessageId, usize)>,
    /// Positions that the last prompt and answer took of the context.
    pub n_past: u32,
    pub decode_tokens_per_s: Option<f64>,
    /// Whether the user was told that the context is nearly full.
    pub warned_nearly_full: bool,
    pub context_full: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ChatSettings {
    pub sampling: SamplerSettings,
    /// `None`: a new seed for every answer.
    pub seed: Option<u64>,
    pub system: Option<String>,
    pub max_tokens: Option<u32>,
    pub n_ctx: Option<u32>,
    pub kv: KvType,
}

/// An answer that is coming.
pub struct Streaming {
    pub request: RequestId,
    pub message: MessageId,
    pub since: Duration,
    pub stopping: bool,
    /// Prompt tokens done and in all, until the first token came.
    pub prefill: Option<(usize, usize)>,
    pub n_cached: usize,
    pub n_tokens: usize,
    pub first_token_at: Option<Duration>,
    /// When the last tokens came, for the rate that is shown.
    pub recent: VecDeque<Duration>,
    /// When the text was written to the session's file last.
    pub saved_at: Duration,
    /// How much of it, in bytes.
    pub saved_len: usize,
    pub thinking_ended_at: Option<Duration>,
}

/// The layer map and everything that answers to it.
pub struct Layers {
    pub map: LayerMap,
    pub preview: Option<PreviewView>,
    /// The forecast that was asked for, and the draft it is for.
    pub asked: Option<(RequestId, Placement)>,
    /// `auto` was asked for.
    pub auto: Option<RequestId>,
    pub change: Change,
    /// Waits for a device's letter.
    pub awaits_device: bool,
    /// The card of a device that a drag hovers over.
    pub drop_hot: Option<DeviceId>,
    pub part_ms: Arc<[Option<f32>]>,
}

/// The live change under way, or the last one.
pub struct Change {
    pub view: ChangeView,
    pub id: Option<RequestId>,
    pub now: bool,
    pub since: Duration,
    /// Decoding rate before the switch.
    pub from_tokens_per_s: Option<f64>,
    /// When it was switched: tokens after that give the new rate.
    pub switched_at: Option<Duration>,
    pub tokens_since: usize,
    pub first_token_since: Option<Duration>,
}

impl Default for Change {
    fn default() -> Change {
        Change {
            view: ChangeView::None,
            id: None,
            now: false,
            since: Duration::ZERO,
            from_tokens_per_s: None,
            switched_at: None,
            tokens_since: 0,
            first_token_since: None,
        }
    }
}

/// Ids of commands, and what is still to be answered.
#[derive(Default)]
pub struct Requests {
    last: u64,
    pub open: HashMap<RequestId, Asked>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Asked {
    Load,
    /// A load that the user gave up.
    CancelledLoad,
    Unload,
    Generate,
    Preview,
    Auto,
    Repartition,
    Other,
}

impl Requests {
    pub fn new_id(&mut self, asked: Asked) -> RequestId {
        self.last += 1;
        let id = RequestId(self.last);
        self.open.insert(id, asked);
        id
    }
}

/// What a start gives the state.
pub struct Beginning<'a> {
    pub config: Config,
    pub keymap: Keymap,
    pub depth: ColourDepth,
    pub ascii: bool,
    pub settings: ChatSettings,
    pub devices: &'a [DeviceFacts],
    pub session: SessionState,
    pub picker: Picker,
    /// Prompts of earlier runs, oldest first.
    pub history: Vec<String>,
    /// Seeds of answers follow from it.
    pub seed: u64,
    pub clock: DateTime<Utc>,
}

impl State {
    pub fn new(begin: Beginning<'_>) -> State {
        let (theme, warnings) = theme_of(&begin.config, &begin.config.theme, begin.depth, begin.ascii);
        let mut editor = Editor::new();
        editor.set_history(begin.history);
        let notice = |text| Notice { text, level: Level::Warn, at: Duration::ZERO };
        State {
            now: Duration::ZERO,
            clock: begin.clock,
            size: (80, 24),
            watched: true,
            mouse: begin.config.mouse,
            look: Look { theme, depth: begin.depth, ascii: begin.ascii },
            config: begin.config,
            keymap: begin.keymap,
            screen: Screen::Main,
            focus: PanelId::Input,
            dialogs: vec![],
            notices: warnings.into_iter().map(notice).collect(),
            gauges: Gauges::new(begin.devices),
            findings: vec![],
            picker: begin.picker,
            sessions: vec![],
            model: ModelState::None,
            chat: Chat {
                session: begin.session,
                id: None,
                opening: false,
                settings: begin.settings.clone(),
                editor,
                editing: None,
                draft: String::new(),
                streaming: None,
                top: None,
                chosen: None,
                unfolded: HashSet::new(),
                copied_block: None,
                n_past: 0,
                decode_tokens_per_s: None,
                warned_nearly_full: false,
                context_full: false,
            },
            layers: None,
            requests: Requests::default(),
            device_cursor: 0,
            metrics: Metrics::default(),
            conversation_version: 0,
            seeds: begin.seed,
            interrupted_at: None,
            start_settings: begin.settings.clone(),
        }
    }

    pub fn set_theme(&mut self, name: &str) {
        let (theme, _) = theme_of(&self.config, name, self.look.depth, self.look.ascii);
        self.look.theme = theme;
    }

    /// A seed that was not given yet (the step of SplitMix64, Steele and others 2014).
    pub fn next_seed(&mut self) -> u64 {
        self.seeds = self.seeds.wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.seeds
    }
}

fn theme_of(config: &Config, name: &str, depth: ColourDepth, ascii: bool) -> (Theme, Vec<String>) {
    let entries: Vec<Vec<(String, String)>> =
        config.themes.iter().map(|t| t.colours.iter().map(|c| (c.name.clone(), c.value.clone())).collect()).collect();
    let own: Vec<OwnTheme<'_>> = config
        .themes
        .iter()
        .zip(&entries)
        .map(|(t, entries)| OwnTheme { name: &t.name, base: Some(&t.base), entries })
        .collect();
    Theme::named(name, &own, depth, ascii)
}
