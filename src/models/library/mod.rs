//! The GGUF files that a user already has, wherever other programs have put them.
//!
//! Every folder, name and manifest here was written by others: reads are bounded, what cannot be read is passed over,
//! and a name cannot lead out of its folder except by links that the file system itself has.

mod hugging_face;
mod lm_studio;
mod ollama;
mod roots;
mod walk;

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::ModelsError;
use super::printable;
use super::resolve::{self, Candidate, pick};
pub use roots::LibraryRoots;
use walk::{FoundModel, gguf_models};

/// Who put a file where it is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    ModelFolder,
    HuggingFace,
    LmStudio,
    Ollama,
    LlamaCpp,
    /// Directly in the folder that the program was started in.
    CurrentFolder,
    /// In a further folder that the user named.
    Configured,
}

impl Origin {
    pub const ALL: [Origin; 7] = [
        Origin::ModelFolder,
        Origin::HuggingFace,
        Origin::LmStudio,
        Origin::Ollama,
        Origin::LlamaCpp,
        Origin::CurrentFolder,
        Origin::Configured,
    ];

    /// For people.
    pub const fn label(self) -> &'static str {
        match self {
            Origin::ModelFolder => "model folder",
            Origin::HuggingFace => "Hugging Face",
            Origin::LmStudio => "LM Studio",
            Origin::Ollama => "Ollama",
            Origin::LlamaCpp => "llama.cpp",
            Origin::CurrentFolder => "current folder",
            Origin::Configured => "own folder",
        }
    }
}

/// A model that lies on this machine. Nothing is known of what is in it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LibraryEntry {
    /// Of the first shard; as it was met, so a link stays one: the other shards lie beside the link.
    pub path: PathBuf,
    /// What the user calls it, such as `owner/name: file` or `llama3:latest`; control characters are replaced.
    pub name: String,
    pub origin: Origin,
    /// Of all shards that are there.
    pub file_bytes: u64,
    /// That are there; a download may be unfinished.
    pub n_shards: u32,
}

/// Every model in these folders, each once: what is met under several names or through links is listed by the first.
/// In the order of the folders, then by name. Files that go with a model (`mmproj`) are no models. What is missing,
/// broken or unreadable is passed over.
pub fn scan(roots: &LibraryRoots) -> Vec<LibraryEntry> {
    let mut seen = HashSet::new();
    let mut entries = all_names(roots);
    entries.retain(|entry| seen.insert(canonical(&entry.path)));
    entries
}

/// As [`scan`], with every name of a file.
fn all_names(roots: &LibraryRoots) -> Vec<LibraryEntry> {
    roots.folders.iter().flat_map(|(origin, folder)| in_folder(*origin, folder)).collect()
}

fn in_folder(origin: Origin, folder: &Path) -> Vec<LibraryEntry> {
    let mut found = match origin {
        Origin::HuggingFace => hugging_face::models(folder),
        Origin::LmStudio => lm_studio::models(folder),
        Origin::Ollama => ollama::models(folder),
        Origin::ModelFolder | Origin::Configured => named_by_path(folder, resolve::MAX_DEPTH),
        Origin::LlamaCpp | Origin::CurrentFolder => named_by_path(folder, 1),
    };
    found.sort_by(|a, b| (&a.0, &a.1.path).cmp(&(&b.0, &b.1.path)));
    let entry = |(name, model): (String, FoundModel)| LibraryEntry {
        path: model.path,
        name: printable(&name),
        origin,
        file_bytes: model.file_bytes,
        n_shards: model.n_shards,
    };
    found.into_iter().map(entry).collect()
}

fn named_by_path(folder: &Path, depth: usize) -> Vec<(String, FoundModel)> {
    gguf_models(folder, depth).into_iter().map(|model| (model.name_below.join("/"), model)).collect()
}

/// The file of a model that is called so in these folders. As with a name in the model folder a part is enough where
/// only one model has it; `:latest`, the owner or the file's name may be left out. With how many models there are.
pub(super) fn find(model: &str, roots: &LibraryRoots) -> Result<(Option<PathBuf>, usize), ModelsError> {
    let entries = all_names(roots);
    let candidates: Vec<_> =
        entries.iter().map(|e| Candidate { path: &e.path, name: &e.name, keys: keys(&e.name, e.origin) }).collect();
    let found = pick(model, &candidates)?.map(Path::to_path_buf);
    let files: HashSet<_> = entries.iter().map(|e| canonical(&e.path)).collect();
    Ok((found, files.len()))
}

/// What a name can be abbreviated to.
fn keys(name: &str, origin: Origin) -> Vec<String> {
    let mut keys = vec![name];
    match origin {
        Origin::Ollama => keys.extend(name.strip_suffix(":latest")),
        Origin::ModelFolder
        | Origin::HuggingFace
        | Origin::LmStudio
        | Origin::LlamaCpp
        | Origin::CurrentFolder
        | Origin::Configured => {
            if let Some((repository, file)) = name.split_once(": ") {
                keys.extend([repository, file]);
            }
            keys.extend(name.rsplit(['/', ' ']).next());
        }
    }
    keys.into_iter().map(str::to_lowercase).collect()
}

pub(super) fn canonical(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

#[cfg(test)]
mod tests;
