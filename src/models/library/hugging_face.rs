//! The cache of huggingface_hub: `models--OWNER--NAME/snapshots/REVISION/...`, where files are links to blobs.
//!
//! Layout: <https://huggingface.co/docs/huggingface_hub/guides/manage-cache>.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::Path;
use std::time::SystemTime;

use super::canonical;
use super::walk::{FoundModel, folders_in, gguf_models, read_small};

/// Below a snapshot: some repositories have a folder for each quantisation.
const MAX_DEPTH: usize = 4;

/// A revision is 40 hex digits.
const MAX_REVISION_BYTES: u64 = 256;

/// How many digits tell revisions apart for people.
const SHORT_REVISION: usize = 8;

pub(super) fn models(hub: &Path) -> Vec<(String, FoundModel)> {
    folders_in(hub).iter().flat_map(|folder| in_repository(&hub.join(folder), folder)).collect()
}

fn in_repository(folder: &Path, folder_name: &str) -> Vec<(String, FoundModel)> {
    let Some(repository) = folder_name.strip_prefix("models--") else { return Vec::new() };
    // Old repositories have no owner. A name may hold `--` itself, an owner may not.
    let repository = repository.replacen("--", "/", 1);
    let mut found = Vec::new();
    let mut blobs = HashSet::new();
    let mut newest: HashMap<String, String> = HashMap::new();
    for revision in revisions(folder) {
        for model in gguf_models(&folder.join("snapshots").join(&revision), MAX_DEPTH) {
            // The newest revision that has a blob names it.
            if !blobs.insert(canonical(&model.path)) {
                continue;
            }
            let name = format!("{repository}: {}", model.name_below.join("/"));
            let is_newest = newest.entry(name.clone()).or_insert_with(|| revision.clone()) == &revision;
            let short: String = revision.chars().take(SHORT_REVISION).collect();
            found.push((if is_newest { name } else { format!("{name}@{short}") }, model));
        }
    }
    found
}

/// The newest first: what `main` is now, then by when the snapshot was made.
fn revisions(folder: &Path) -> Vec<String> {
    let main = read_small(&folder.join("refs/main"), MAX_REVISION_BYTES);
    let main = main.and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default();
    let snapshots = folder.join("snapshots");
    let made =
        |name: &str| fs::metadata(snapshots.join(name)).and_then(|m| m.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
    let mut names = folders_in(&snapshots);
    names.sort_by_cached_key(|name| Reverse((name == main.trim(), made(name))));
    names
}
