//! Folders searched with an end: bounded depth, bounded number of items, every folder once.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::models::resolve::{has_gguf_ending, model_name, split_shard};

/// Items looked at below one folder. Caches of other programs have thousands; a mistaken root has millions.
const MAX_ITEMS: usize = 50_000;

/// A regular file, perhaps behind links.
pub(super) struct FoundFile {
    pub path: PathBuf,
    /// Folders below the start, then the file's name.
    pub below: Vec<String>,
    pub n_bytes: u64,
}

/// The files below `folder` at most `depth` levels down (1: directly in it), sorted by path. Hidden ones are left out:
/// unfinished downloads are among them. What cannot be read is passed over.
pub(super) fn files(folder: &Path, depth: usize) -> Vec<FoundFile> {
    let mut found = Vec::new();
    // The upper levels first and each in order, so that of several ways to a folder the shortest is taken.
    let mut open = VecDeque::from([(folder.to_path_buf(), Vec::new())]);
    let mut seen = HashSet::new();
    let mut n_left = MAX_ITEMS;
    while let Some((folder, above)) = open.pop_front() {
        // By its real path, so that a loop of links ends.
        if n_left == 0 || !fs::canonicalize(&folder).is_ok_and(|real| seen.insert(real)) {
            continue;
        }
        let Ok(items) = fs::read_dir(&folder) else { continue };
        let mut names: Vec<OsString> = items.flatten().take(n_left).map(|item| item.file_name()).collect();
        n_left -= names.len();
        names.sort();
        for name in names {
            let path = folder.join(&name);
            let name = name.to_string_lossy().into_owned();
            // Follows links; one that leads nowhere has no metadata.
            let Ok(metadata) = fs::metadata(&path) else { continue };
            if name.starts_with('.') {
                continue;
            }
            let below: Vec<String> = above.iter().cloned().chain([name]).collect();
            if metadata.is_file() {
                found.push(FoundFile { path, below, n_bytes: metadata.len() });
            } else if metadata.is_dir() && below.len() < depth {
                open.push_back((path, below));
            }
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

/// A model's files as one.
pub(super) struct FoundModel {
    /// Of the first shard that is there.
    pub path: PathBuf,
    /// Folders below the start, then the file's name without ending and shard number.
    pub name_below: Vec<String>,
    pub file_bytes: u64,
    pub n_shards: u32,
}

/// The models below `folder`. Shards of one model are one; projectors (`mmproj`) go with a model and are none.
pub(super) fn gguf_models(folder: &Path, depth: usize) -> Vec<FoundModel> {
    // By folder, name and number of shards, which tell models apart. Shards come in order, as files are sorted.
    let mut models: BTreeMap<(Option<PathBuf>, String, Option<String>), FoundModel> = BTreeMap::new();
    for file in files(folder, depth) {
        let Some((file_name, above)) = file.below.split_last() else { continue };
        if !has_gguf_ending(file_name) || file_name.to_lowercase().contains("mmproj") {
            continue;
        }
        let name = model_name(file_name);
        let n_shards = file_name.rsplit_once('.').and_then(|(stem, _)| split_shard(stem)).map(|(_, n)| n.to_owned());
        // Only shards share a key: `m.gguf` and `m.GGUF` may lie side by side.
        let key_name = if n_shards.is_some() { name } else { file_name };
        let key = (file.path.parent().map(Path::to_path_buf), key_name.to_owned(), n_shards);
        let model = models.entry(key).or_insert_with(|| FoundModel {
            path: file.path.clone(),
            name_below: above.iter().cloned().chain([name.to_owned()]).collect(),
            file_bytes: 0,
            n_shards: 0,
        });
        model.file_bytes = model.file_bytes.saturating_add(file.n_bytes);
        model.n_shards += 1;
    }
    models.into_values().collect()
}

/// The names of the folders in `folder`, sorted; hidden ones too.
pub(super) fn folders_in(folder: &Path) -> Vec<String> {
    let Ok(items) = fs::read_dir(folder) else { return Vec::new() };
    let is_folder = |item: &fs::DirEntry| fs::metadata(item.path()).is_ok_and(|m| m.is_dir());
    let items = items.flatten().take(MAX_ITEMS).filter(is_folder);
    let mut names: Vec<String> = items.filter_map(|item| item.file_name().into_string().ok()).collect();
    names.sort();
    names
}

/// A regular file of at most `max_bytes`, whole.
pub(super) fn read_small(path: &Path, max_bytes: u64) -> Option<Vec<u8>> {
    // Asked before opening: to open a named pipe would wait for its other end.
    let metadata = fs::metadata(path).ok()?;
    if !metadata.is_file() || metadata.len() > max_bytes {
        return None;
    }
    let mut bytes = Vec::new();
    // It may have grown since.
    File::open(path).ok()?.take(max_bytes + 1).read_to_end(&mut bytes).ok()?;
    (bytes.len() as u64 <= max_bytes).then_some(bytes)
}
