//! The user's settings: `config.toml` in the configuration folder.
//!
//! The file is `$LAYERCAKE_CONFIG` where that is set, else `layercake/config.toml` in the user's configuration folder
//! (`$XDG_CONFIG_HOME` or `~/.config`; `%APPDATA%` on Windows). All of it is optional:
//!
//! ```toml
//! theme = "okabe-ito"             # dark, light, okabe-ito, mono or one of [themes]
//! colours = "auto"                # auto, none, 16, 256 or true
//! ascii = "auto"                  # auto, true or false
//! mouse = true
//! models = ["~/models"]           # folders besides the model folder
//! ctx = 8192                      # context length in tokens
//! kv = "f16"                      # f16, q8_0 or f32
//! place = "cpu0=embed,0-29,head"
//! threads = 8                     # of each CPU device
//! editor = "nano"                 # else $VISUAL, else $EDITOR
//! system = "Be brief."
//! telemetry_hz = 4                # 1 to 10
//!
//! [sampling]
//! temperature = 0.7               # also top_k, top_p, min_p, repeat_penalty, seed, max_tokens
//!
//! [keys]
//! "ctrl+s" = "stop"               # chord = action
//! apply = ["enter", "f5"]         # or action = chords
//!
//! [themes.mine]
//! base = "dark"
//! text = "#e0e0e0"                # a colour: "#rrggbb", the name of one, or 0 to 255
//! ```
//!
//! What is wrong with a key costs that key alone and is told in a [`Warning`]. Flags of the command line win over the
//! file; that is up to each command.

use std::fmt;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

mod effective;
mod meaning;
mod raw;
mod read;

pub use meaning::{Ascii, BUILT_IN_THEMES, Colours, Config, Sampling, Theme};
pub use raw::{KeyBinding, RawConfig, RawSampling, RawTheme, ThemeColour};

/// Names the configuration file.
pub const FILE_VARIABLE: &str = "LAYERCAKE_CONFIG";

/// Far above any configuration; a model file that is given by mistake is not read whole.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Why the file cannot be used at all. One line.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("cannot tell where the configuration lies: no home folder is known; set {FILE_VARIABLE} to a file")]
    NoHome,
    #[error("cannot read {}: {source}", shown_path(path))]
    Read { path: PathBuf, source: io::Error },
    #[error("{} is larger than {} KiB, so it is no configuration", shown_path(path), MAX_FILE_BYTES / 1024)]
    TooLarge { path: PathBuf },
    #[error("{}, line {line}: {message}", shown_path(path))]
    Toml { path: PathBuf, line: usize, message: String },
}

/// Something in the file that is passed over. One line, fit for a terminal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Warning {
    /// Of the file, from 1.
    pub line: usize,
    pub message: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)
    }
}

/// The configuration file. It need not exist.
///
/// # Errors
/// `NoHome` where neither the variable nor a home folder is set.
pub fn path() -> Result<PathBuf, ConfigError> {
    use etcetera::BaseStrategy;
    match std::env::var_os(FILE_VARIABLE) {
        Some(file) if !file.is_empty() => Ok(PathBuf::from(file)),
        _ => {
            let base = etcetera::choose_base_strategy().map_err(|_| ConfigError::NoHome)?;
            Ok(base.config_dir().join("layercake").join("config.toml"))
        }
    }
}

/// What the file is read with.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Surroundings {
    /// For `~/`.
    pub home: Option<PathBuf>,
    /// `$VISUAL`, else `$EDITOR`.
    pub editor: Option<String>,
}

impl Surroundings {
    pub fn of_user() -> Surroundings {
        let variable = |name| std::env::var(name).ok().filter(|text| !text.trim().is_empty());
        Surroundings { home: etcetera::home_dir().ok(), editor: variable("VISUAL").or_else(|| variable("EDITOR")) }
    }
}

impl Config {
    /// Reads the file. A missing one means the defaults.
    ///
    /// # Errors
    /// Of reading, or where the text is no TOML.
    pub fn load(path: &Path) -> Result<(Config, Vec<Warning>), ConfigError> {
        let surroundings = Surroundings::of_user();
        match read_text(path)? {
            Some(text) => Config::parse(&text, path, &surroundings),
            None => Ok((Config::from_raw(RawConfig::default(), path, &surroundings, &mut Vec::new()), Vec::new())),
        }
    }

    /// As [`load`](Config::load), of this text. Relative folders in it are beside `path`.
    pub fn parse(text: &str, path: &Path, around: &Surroundings) -> Result<(Config, Vec<Warning>), ConfigError> {
        let (raw, mut warnings) = RawConfig::parse(text, path)?;
        let config = Config::from_raw(raw, path, around, &mut warnings);
        warnings.sort_by_key(|w| w.line);
        Ok((config, warnings))
    }
}

/// `None`: there is no such file.
fn read_text(path: &Path) -> Result<Option<String>, ConfigError> {
    let failed = |source| ConfigError::Read { path: path.to_owned(), source };
    let file = match std::fs::File::open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(failed(e)),
    };
    let mut bytes = Vec::new();
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(ConfigError::TooLarge { path: path.to_owned() });
    }
    String::from_utf8(bytes).map(Some).map_err(|e| {
        let before = e.as_bytes().get(..e.utf8_error().valid_up_to()).unwrap_or_default();
        let line = 1 + before.iter().filter(|&&b| b == b'\n').count();
        ConfigError::Toml { path: path.to_owned(), line, message: "not UTF-8".to_owned() }
    })
}

fn shown_path(path: &Path) -> String {
    path.to_string_lossy().chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

#[cfg(test)]
mod tests;
