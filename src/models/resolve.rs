//! From what the user calls a model to its file.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::library::{self, LibraryRoots};
use crate::engine::synth;

use super::{ModelsError, folder, printable, shown};

/// How deep the model folder is searched: enough for `owner/name/file.gguf`, and an end to loops of links.
pub(super) const MAX_DEPTH: usize = 3;

/// How many names an error lists.
const MAX_LISTED: usize = 12;

/// A model file and what it can be called.
struct Entry {
    path: PathBuf,
    /// Path below the folder without `.gguf` and shard number, with `/` between folders.
    name: String,
}

/// The file of `model`: an existing path (a file, any shard, a folder that holds one model), else a name in the
/// model folder, else what another program calls it (see [`library`]). A name may leave out `.gguf`, the sub-folder
/// and the case; the beginning of a name, or a part of it, is enough where only one model has it. Of a sharded model
/// the path of the first shard is given.
///
/// # Errors
/// When nothing fits (listing what there is) or more than one model does (listing those).
pub fn resolve(model: &str) -> Result<PathBuf, ModelsError> {
    // A path needs no model folder, so a missing home is an error only where a name is looked up.
    match resolve_path(model)? {
        Some(path) => Ok(path),
        None => resolve_in_all(model, &folder()?, &LibraryRoots::of_user()),
    }
}

/// The model folder first: other programs' files never change what a name there means.
fn resolve_in_all(model: &str, folder: &Path, roots: &LibraryRoots) -> Result<PathBuf, ModelsError> {
    let not_found = match resolve_name(model, folder) {
        Err(error @ ModelsError::NotFound { .. }) => error,
        decided => return decided,
    };
    match (library::find(model, roots)?, not_found) {
        ((Some(path), _), _) => Ok(path),
        ((None, n_models), ModelsError::NotFound { model, folder, holds }) if n_models > 0 => {
            let holds = format!("{holds}; all {n_models} on this machine: `layercake models`");
            Err(ModelsError::NotFound { model, folder, holds })
        }
        ((None, _), error) => Err(error),
    }
}

/// As [`resolve`], in the model folder that is given and nowhere else.
///
/// # Errors
/// As [`resolve`].
pub fn resolve_in(model: &str, folder: &Path) -> Result<PathBuf, ModelsError> {
    match resolve_path(model)? {
        Some(path) => Ok(path),
        None => resolve_name(model, folder),
    }
}

/// Every model below `folder`, sorted by path; a sharded model once, by its first shard. A folder that does not
/// exist holds nothing.
///
/// # Errors
/// When a folder cannot be read.
pub fn list(folder: &Path) -> Result<Vec<PathBuf>, ModelsError> {
    Ok(entries(folder, MAX_DEPTH)?.into_iter().map(|e| e.path).collect())
}

fn resolve_path(model: &str) -> Result<Option<PathBuf>, ModelsError> {
    if model.trim().is_empty() {
        return Err(ModelsError::Unnamed);
    }
    if model.starts_with(synth::PREFIX) {
        // Said here already, so that a wrong name is a wrong argument.
        synth::SynthName::parse(model).map_err(ModelsError::Synth)?;
        return Ok(Some(PathBuf::from(model)));
    }
    let path = Path::new(model);
    let Ok(metadata) = fs::metadata(path) else { return Ok(None) };
    if !metadata.is_dir() {
        return Ok(Some(first_shard(path)));
    }
    let mut found = entries(path, 1)?;
    match found.len() {
        1 => Ok(Some(found.remove(0).path)),
        // A bare word may be a folder here by chance and a model's name all the same.
        0 if is_bare_name(model) => Ok(None),
        0 => Err(ModelsError::EmptyFolder { folder: path.to_owned() }),
        _ => Err(ModelsError::ManyInFolder { folder: path.to_owned(), candidates: listed(&names(&found)) }),
    }
}

fn resolve_name(model: &str, folder: &Path) -> Result<PathBuf, ModelsError> {
    let all = entries(folder, MAX_DEPTH)?;
    let keys = |entry: &Entry| {
        let name = entry.name.to_lowercase();
        let stem = name.rsplit('/').next().map(str::to_owned);
        stem.into_iter().chain([name]).collect()
    };
    let candidates: Vec<_> = all.iter().map(|e| Candidate { path: &e.path, name: &e.name, keys: keys(e) }).collect();
    if let Some(path) = pick(model, &candidates)? {
        return Ok(path.to_owned());
    }
    let holds = if all.is_empty() { "no models".to_owned() } else { listed(&names(&all)) };
    Err(ModelsError::NotFound { model: printable(model), folder: folder.to_owned(), holds })
}

/// A model that a name may mean.
pub(super) struct Candidate<'a> {
    pub path: &'a Path,
    /// For errors.
    pub name: &'a str,
    /// What it can be called, in lower case.
    pub keys: Vec<String>,
}

/// The one that `model` means, if any does.
pub(super) fn pick<'a>(model: &str, all: &[Candidate<'a>]) -> Result<Option<&'a Path>, ModelsError> {
    let wanted = model_name(model).to_lowercase();
    // From strict to loose; the first rule that fits anything decides.
    let rules: [fn(&str, &str) -> bool; 3] =
        [|name, wanted| name == wanted, |name, wanted| name.starts_with(wanted), |name, wanted| name.contains(wanted)];
    for fits in rules {
        let mut found: Vec<_> = all.iter().filter(|c| c.keys.iter().any(|key| fits(key, &wanted))).collect();
        // One file may go by several names.
        let mut seen = HashSet::new();
        found.retain(|candidate| seen.insert(library::canonical(candidate.path)));
        match found[..] {
            [] => {}
            [one] => return Ok(Some(one.path)),
            _ => {
                let candidates = listed(&found.iter().map(|c| c.name).collect::<Vec<_>>());
                return Err(ModelsError::Ambiguous { model: printable(model), candidates });
            }
        }
    }
    Ok(None)
}

/// The models in `folder` down to `depth` levels, sorted by path. Hidden files are left out: unfinished downloads
/// are among them.
fn entries(folder: &Path, depth: usize) -> Result<Vec<Entry>, ModelsError> {
    let mut found = Vec::new();
    collect(folder, "", depth, &mut found)?;
    // The shortest way to a file first: through links, and by its shards, one model is met more than once.
    found.sort_by(|a, b| (a.path.components().count(), &a.path).cmp(&(b.path.components().count(), &b.path)));
    let mut seen = HashSet::new();
    found.retain(|entry| seen.insert(library::canonical(&entry.path)));
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

fn collect(folder: &Path, above: &str, depth: usize, found: &mut Vec<Entry>) -> Result<(), ModelsError> {
    let reading = match fs::read_dir(folder) {
        Ok(reading) => reading,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(ModelsError::io("read the folder", folder)(e)),
    };
    for item in reading {
        let path = item.map_err(ModelsError::io("read the folder", folder))?.path();
        let Some(file_name) = path.file_name().map(|n| n.to_string_lossy().into_owned()) else { continue };
        // A link that leads nowhere is no model.
        let Ok(metadata) = fs::metadata(&path) else { continue };
        if file_name.starts_with('.') {
            continue;
        }
        if metadata.is_dir() {
            if depth > 1 {
                // A sub-folder that cannot be read must not hide the models beside it.
                let _ = collect(&path, &format!("{above}{file_name}/"), depth - 1, found);
            }
        } else if has_gguf_ending(&file_name) {
            found.push(Entry { path: first_shard(&path), name: format!("{above}{}", model_name(&file_name)) });
        }
    }
    Ok(())
}

pub(super) fn has_gguf_ending(name: &str) -> bool {
    name.len() >= 5 && name.is_char_boundary(name.len() - 5) && name[name.len() - 5..].eq_ignore_ascii_case(".gguf")
}

/// A file name without `.gguf` and without a shard number.
pub(super) fn model_name(file_name: &str) -> &str {
    if !has_gguf_ending(file_name) {
        return file_name;
    }
    let stem = &file_name[..file_name.len() - 5];
    split_shard(stem).map_or(stem, |(name, _)| name)
}

/// `name-00002-of-00003` -> (`name`, `00003`).
pub(super) fn split_shard(stem: &str) -> Option<(&str, &str)> {
    let is_number = |text: &str| text.len() == 5 && text.bytes().all(|b| b.is_ascii_digit());
    let (rest, n_shards) = stem.rsplit_once("-of-")?;
    let (name, number) = rest.rsplit_once('-')?;
    (is_number(n_shards) && is_number(number)).then_some((name, n_shards))
}

/// The first shard beside `path`, where `path` is a later one and the first is there; else `path` itself, so that
/// the reader can say which shard is missing.
fn first_shard(path: &Path) -> PathBuf {
    let first = path.file_name().and_then(|n| n.to_str()).filter(|n| has_gguf_ending(n)).and_then(|file_name| {
        let (stem, ending) = file_name.split_at(file_name.len() - 5);
        let (name, n_shards) = split_shard(stem)?;
        Some(path.with_file_name(format!("{name}-00001-of-{n_shards}{ending}")))
    });
    first.filter(|first| first.is_file()).unwrap_or_else(|| path.to_owned())
}

fn is_bare_name(model: &str) -> bool {
    !model.starts_with('.') && !model.contains(std::path::is_separator)
}

fn names(entries: &[Entry]) -> Vec<&str> {
    entries.iter().map(|e| e.name.as_str()).collect()
}

/// Names on one line, with an end.
fn listed(names: &[&str]) -> String {
    let mut text = names.iter().take(MAX_LISTED).map(|n| shown(Path::new(n))).collect::<Vec<_>>().join(", ");
    if names.len() > MAX_LISTED {
        text.push_str(&format!(" and {} more", names.len() - MAX_LISTED));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A model folder with these (empty) files, links and folders made as needed.
    fn folder_with(files: &[&str]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().expect("temp folder");
        for file in files {
            let path = dir.path().join(file);
            fs::create_dir_all(path.parent().expect("parent")).expect("folders");
            fs::write(path, b"").expect("file");
        }
        dir
    }

    fn check(files: &[&str], model: &str, expect: Result<&str, &str>) {
        let dir = folder_with(files);
        let got = resolve_in(model, dir.path()).map_err(|e| e.to_string());
        match (got, expect) {
            (Ok(path), Ok(file)) => assert_eq!(path, dir.path().join(file), "{model}"),
            (Err(error), Err(part)) => assert!(error.contains(part), "{model}: {error}"),
            (got, expect) => panic!("{model}: got {got:?}, expected {expect:?}"),
        }
    }

    const SHELF: &[&str] = &[
        "SmolLM2-135M-Instruct.Q4_1.gguf",
        "Qwen3-0.6B-Q8_0.gguf",
        "Qwen3-30B-A3B-Q4_K_M.gguf",
        "owner/Phi-3.GGUF",
        "big-00001-of-00003.gguf",
        "big-00002-of-00003.gguf",
        "big-00003-of-00003.gguf",
        ".part.gguf",
        "notes.txt",
    ];

    #[test]
    fn names_are_found_whatever_their_case_and_ending() {
        check(SHELF, "SmolLM2-135M-Instruct.Q4_1", Ok("SmolLM2-135M-Instruct.Q4_1.gguf"));
        check(SHELF, "smollm2-135m-instruct.q4_1.GGUF", Ok("SmolLM2-135M-Instruct.Q4_1.gguf"));
        check(SHELF, "phi-3", Ok("owner/Phi-3.GGUF"));
        check(SHELF, "owner/phi-3.gguf", Ok("owner/Phi-3.GGUF"));
    }

    #[test]
    fn a_unique_beginning_or_part_is_enough() {
        check(SHELF, "smol", Ok("SmolLM2-135M-Instruct.Q4_1.gguf"));
        check(SHELF, "30b", Ok("Qwen3-30B-A3B-Q4_K_M.gguf"));
        // The beginning of one name wins over the middle of another.
        check(&["tiny.gguf", "not-tiny.gguf"], "tin", Ok("tiny.gguf"));
        // A whole name wins over a longer one that begins with it.
        check(&["tiny.gguf", "tiny-2.gguf"], "tiny", Ok("tiny.gguf"));
    }

    #[test]
    fn a_sharded_model_is_one_model() {
        check(SHELF, "big", Ok("big-00001-of-00003.gguf"));
        check(SHELF, "big-00002-of-00003.gguf", Ok("big-00001-of-00003.gguf"));
        assert_eq!(list(folder_with(SHELF).path()).expect("list").len(), 5);
    }

    #[test]
    fn an_ambiguous_name_lists_the_candidates() {
        check(SHELF, "qwen3", Err("more than one model: Qwen3-0.6B-Q8_0, Qwen3-30B-A3B-Q4_K_M"));
        check(&["a/x.gguf", "b/x.gguf"], "x", Err("a/x, b/x"));
        check(&["a/x.gguf", "b/x.gguf"], "b/x", Ok("b/x.gguf"));
    }

    #[test]
    fn an_unknown_name_lists_what_there_is_and_where() {
        check(
            SHELF,
            "llama",
            Err("Qwen3-0.6B-Q8_0, Qwen3-30B-A3B-Q4_K_M, SmolLM2-135M-Instruct.Q4_1, big, owner/Phi-3"),
        );
        check(&["notes.txt"], "llama", Err("has no models"));
        check(SHELF, " ", Err("no model was named"));
        let missing = resolve_in("llama", Path::new("/nowhere/models")).expect_err("nothing there").to_string();
        assert!(missing.contains("/nowhere/models has no models"), "{missing}");
        let many: Vec<String> = (0..40).map(|i| format!("m{i:02}.gguf")).collect();
        check(&many.iter().map(String::as_str).collect::<Vec<_>>(), "m", Err("m11 and 28 more"));
    }

    #[test]
    fn an_existing_path_wins() {
        let dir = folder_with(&["here.gguf", "one/m.gguf", "none/notes.txt", "split/s-00002-of-00002.gguf"]);
        let at = |below: &str| resolve_in(dir.path().join(below).to_str().expect("utf-8"), Path::new("/nowhere"));
        assert_eq!(at("here.gguf").expect("file"), dir.path().join("here.gguf"));
        assert_eq!(at("one").expect("folder"), dir.path().join("one/m.gguf"));
        // A name without `.gguf` is a file too, when it is there.
        assert_eq!(at("none/notes.txt").expect("file"), dir.path().join("none/notes.txt"));
        // The first shard is missing: the reader has to say so.
        assert_eq!(at("split").expect("shard"), dir.path().join("split/s-00002-of-00002.gguf"));
        assert!(at("none").expect_err("empty").to_string().contains("holds no .gguf file"));
        fs::write(dir.path().join("one/n.gguf"), b"").expect("file");
        assert!(at("one").expect_err("two").to_string().contains("more than one model: m, n"));
    }

    #[test]
    fn any_shard_of_the_golden_model_leads_to_the_first() {
        let golden = std::env::var_os("LAYERCAKE_GOLDEN")
            .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/golden"), PathBuf::from);
        let shards = golden.join("shards");
        let third = shards.join("llama-shard-00003-of-00003.gguf");
        let first = shards.join("llama-shard-00001-of-00003.gguf");
        assert!(first.is_file(), "golden data is missing: {}", first.display());
        assert_eq!(resolve_in(third.to_str().expect("utf-8"), Path::new("/nowhere")).expect("shard"), first);
        assert_eq!(resolve_in(shards.to_str().expect("utf-8"), Path::new("/nowhere")).expect("folder"), first);
    }

    #[cfg(unix)]
    #[test]
    fn a_loop_of_links_and_a_dead_link_do_no_harm() {
        let dir = folder_with(&["a/m.gguf"]);
        std::os::unix::fs::symlink(dir.path(), dir.path().join("a/up")).expect("link");
        std::os::unix::fs::symlink("/nowhere/at/all", dir.path().join("dead.gguf")).expect("link");
        assert_eq!(resolve_in("m", &dir.path().join("a")).expect("found"), dir.path().join("a/m.gguf"));
    }
}
