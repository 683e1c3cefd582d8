//! The configuration as it is meant: with defaults, and names looked up.

use std::path::{Path, PathBuf};

use super::raw::{KeyBinding, RawConfig, RawSampling, RawTheme, ThemeColour};
use super::read::{nearest_note, shortened};
use super::{Surroundings, Warning};
use crate::engine::kv::KvType;
use crate::engine::sampler::SamplerSettings;

/// Themes that need no table; the first is the default.
pub const BUILT_IN_THEMES: [&str; 4] = ["dark", "light", "okabe-ito", "mono"];

const DEFAULT_TELEMETRY_HZ: u32 = 4;

/// All settings. `None`: the command decides, or nothing is set.
#[derive(Clone, PartialEq, Debug)]
pub struct Config {
    /// One of [`BUILT_IN_THEMES`] or of `themes`.
    pub theme: String,
    pub colours: Colours,
    pub ascii: Ascii,
    pub mouse: bool,
    /// Besides the model folder.
    pub models: Vec<PathBuf>,
    /// Context length in tokens, above 0.
    pub ctx: Option<u32>,
    pub kv: KvType,
    /// Placement text.
    pub place: Option<String>,
    /// Of each CPU device, 1 to 1024.
    pub threads: Option<u16>,
    /// Command of the text editor.
    pub editor: Option<String>,
    /// System message.
    pub system: Option<String>,
    /// Readings of the devices a second, 1 to 10.
    pub telemetry_hz: u32,
    pub sampling: Sampling,
    /// In the order of the file; neither actions nor chords are checked yet.
    pub keys: Vec<KeyBinding>,
    /// Names are unique and not built in.
    pub themes: Vec<Theme>,
}

/// How tokens are chosen; each in the sampler's own range. `None`: the command decides.
#[derive(Clone, PartialEq, Debug)]
pub struct Sampling {
    pub temperature: Option<f32>,
    pub top_k: u32,
    pub top_p: f32,
    pub min_p: f32,
    pub repeat_penalty: f32,
    pub seed: Option<u64>,
    /// Most tokens of one answer, above 0.
    pub max_tokens: Option<u32>,
}

impl Sampling {
    fn from_raw(raw: RawSampling) -> Sampling {
        let default = SamplerSettings::default();
        Sampling {
            temperature: raw.temperature,
            top_k: raw.top_k.unwrap_or(default.top_k),
            top_p: raw.top_p.unwrap_or(default.top_p),
            min_p: raw.min_p.unwrap_or(default.min_p),
            repeat_penalty: raw.repeat_penalty.unwrap_or(default.repeat_penalty),
            seed: raw.seed,
            max_tokens: raw.max_tokens,
        }
    }
}

/// A theme of the user's.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Theme {
    pub name: String,
    /// One of [`BUILT_IN_THEMES`], for what `colours` leave out.
    pub base: String,
    /// Neither names nor values are checked yet.
    pub colours: Vec<ThemeColour>,
}

/// How many colours the screen uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Colours {
    /// What the terminal says that it can.
    #[default]
    Auto,
    None,
    Ansi16,
    Indexed256,
    True,
}

impl Colours {
    pub const ALL: [Colours; 5] = [Colours::Auto, Colours::None, Colours::Ansi16, Colours::Indexed256, Colours::True];

    /// As in the file.
    pub const fn name(self) -> &'static str {
        match self {
            Colours::Auto => "auto",
            Colours::None => "none",
            Colours::Ansi16 => "16",
            Colours::Indexed256 => "256",
            Colours::True => "true",
        }
    }
}

/// Whether the screen keeps to ASCII.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Ascii {
    /// As the locale says.
    #[default]
    Auto,
    Always,
    Never,
}

impl Default for Config {
    fn default() -> Config {
        Config::from_raw(RawConfig::default(), Path::new(""), &Surroundings::default(), &mut Vec::new())
    }
}

impl Config {
    pub(super) fn from_raw(raw: RawConfig, path: &Path, around: &Surroundings, warnings: &mut Vec<Warning>) -> Config {
        let themes = themes(raw.themes, warnings);
        let default_theme = || BUILT_IN_THEMES[0].to_owned();
        let theme = raw.theme.and_then(|(name, line)| {
            let known = || BUILT_IN_THEMES.into_iter().chain(themes.iter().map(|t| t.name.as_str()));
            if known().any(|k| k == name) {
                return Some(name);
            }
            let near = nearest_note(&name, known());
            let message = format!("there is no theme \"{}\"{near}", shortened(&name));
            warnings.push(Warning { line, message });
            None
        });
        Config {
            theme: theme.unwrap_or_else(default_theme),
            colours: raw.colours.unwrap_or_default(),
            ascii: raw.ascii.unwrap_or_default(),
            mouse: raw.mouse.unwrap_or(true),
            models: raw.models.unwrap_or_default().iter().map(|folder| folder_of(folder, path, around)).collect(),
            ctx: raw.ctx,
            kv: raw.kv.unwrap_or_default(),
            place: raw.place,
            threads: raw.threads,
            editor: raw.editor.or_else(|| around.editor.clone()),
            system: raw.system.filter(|text| !text.trim().is_empty()),
            telemetry_hz: raw.telemetry_hz.unwrap_or(DEFAULT_TELEMETRY_HZ),
            sampling: Sampling::from_raw(raw.sampling),
            keys: raw.keys,
            themes,
        }
    }
}

fn themes(raw: Vec<RawTheme>, warnings: &mut Vec<Warning>) -> Vec<Theme> {
    let mut themes = Vec::new();
    for RawTheme { name, line, base, colours } in raw {
        if BUILT_IN_THEMES.contains(&name.as_str()) {
            let message = format!("theme \"{name}\" is built in: give yours another name, and base = \"{name}\"");
            warnings.push(Warning { line, message });
            continue;
        }
        let base = base.and_then(|(base, line)| {
            if BUILT_IN_THEMES.contains(&base.as_str()) {
                return Some(base);
            }
            let known = BUILT_IN_THEMES.map(|name| format!("\"{name}\"")).join(", ");
            let message = format!("base is \"{}\": give one of {known}", shortened(&base));
            warnings.push(Warning { line, message });
            None
        });
        themes.push(Theme { name, base: base.unwrap_or_else(|| BUILT_IN_THEMES[0].to_owned()), colours });
    }
    themes
}

/// `~/` is the home folder; a relative folder is beside the file.
fn folder_of(folder: &str, file: &Path, around: &Surroundings) -> PathBuf {
    let in_home = folder.strip_prefix('~').filter(|rest| rest.is_empty() || rest.starts_with(['/', '\\']));
    match (in_home, &around.home) {
        (Some(rest), Some(home)) => home.join(rest.trim_start_matches(['/', '\\'])),
        _ => file.parent().unwrap_or(Path::new("")).join(folder),
    }
}
