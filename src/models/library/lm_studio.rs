//! LM Studio's folder: `OWNER/NAME/FILE.gguf`; and where its settings say that it is.

use std::path::{Path, PathBuf};

use super::walk::{FoundModel, gguf_models, read_small};

const MAX_DEPTH: usize = 4;

const MAX_SETTINGS_BYTES: u64 = 1 << 20;

pub(super) fn models(folder: &Path) -> Vec<(String, FoundModel)> {
    let named = |model: FoundModel| {
        let name = match &model.name_below[..] {
            [owner, repository, file @ ..] if !file.is_empty() => format!("{owner}/{repository}: {}", file.join("/")),
            other => other.join("/"),
        };
        (name, model)
    };
    gguf_models(folder, MAX_DEPTH).into_iter().map(named).collect()
}

/// The folder that a settings file names as the place of models.
pub(super) fn folder_in_settings(settings: &Path) -> Option<PathBuf> {
    let settings: serde_json::Value = serde_json::from_slice(&read_small(settings, MAX_SETTINGS_BYTES)?).ok()?;
    let folder = PathBuf::from(settings.get("downloadsFolder")?.as_str()?);
    folder.is_absolute().then_some(folder)
}

/// The folder that the pointer file in the user's home names: LM Studio can be told to live elsewhere.
pub(super) fn folder_in_pointer(pointer: &Path) -> Option<PathBuf> {
    let text = String::from_utf8(read_small(pointer, MAX_SETTINGS_BYTES)?).ok()?;
    let folder = PathBuf::from(text.lines().next()?.trim());
    folder.is_absolute().then_some(folder)
}
