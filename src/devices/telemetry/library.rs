//! Libraries of drivers, found by name when the program runs: it starts where none of them is installed.

use std::error::Error;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use libloading::Library;

/// A library and the name by which it was found.
pub struct Found {
    pub library: Library,
    pub place: PathBuf,
}

/// Nothing of the name could be loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotFound {
    /// The loader's words, once each, without those of files that merely are not there; empty where it is only that.
    pub reasons: Vec<String>,
}

impl NotFound {
    /// One line.
    pub fn why(&self) -> String {
        if self.reasons.is_empty() { "it is not installed".to_owned() } else { self.reasons.join("; ") }
    }
}

/// Loads the first candidate that can be. A bare file name is looked for in the loader's path.
///
/// # Safety
/// Loading runs the library's initialisers: the candidates must name libraries that may be loaded into this process.
pub unsafe fn load_first(candidates: &[PathBuf]) -> Result<Found, NotFound> {
    let mut reasons = Vec::new();
    for place in candidates {
        // SAFETY: the caller vouches for the candidates.
        match unsafe { Library::new(place.as_os_str()) } {
            Ok(library) => return Ok(Found { library, place: place.clone() }),
            Err(error) => {
                let reason = error.source().map_or_else(|| error.to_string(), |cause| cause.to_string());
                note_reason(&mut reasons, place, reason);
            }
        }
    }
    Err(NotFound { reasons })
}

/// Keeps a loader's words unless they say no more than that the library itself is not there (another one that it needs
/// may be missing, in the same words), or are known already.
pub fn note_reason(reasons: &mut Vec<String>, place: &Path, reason: String) {
    let is_plain_absence =
        reason.starts_with(&*place.to_string_lossy()) && reason.contains("No such file or directory");
    if !is_plain_absence && !reasons.contains(&reason) {
        reasons.push(reason);
    }
}

/// Where ROCm's libraries may lie: by each versioned name in the loader's path, then in ROCM_PATH and /opt/rocm*.
pub fn rocm_candidates(stem: &str, versions: &[u32], rocm_path: Option<OsString>, opt: &Path) -> Vec<PathBuf> {
    let names: Vec<_> = versions
        .iter()
        .map(|version| format!("{stem}.{version}"))
        .chain([stem.to_owned()])
        .map(PathBuf::from)
        .collect();
    let mut installed: Vec<_> = std::fs::read_dir(opt)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("rocm")))
        .collect();
    // The plain link first, then the newest.
    installed.sort_by_key(|path| (path.file_name().is_none_or(|name| name != "rocm"), std::cmp::Reverse(path.clone())));
    let given = rocm_path.filter(|path| !path.is_empty()).map(PathBuf::from);
    let folders = given.into_iter().chain(installed).map(|folder| folder.join("lib"));
    let in_folders = folders.flat_map(|folder| names.iter().map(move |name| folder.join(name)).collect::<Vec<_>>());
    names.iter().cloned().chain(in_folders).collect()
}

/// As text for a finding.
pub fn texts(candidates: &[PathBuf]) -> Vec<String> {
    candidates.iter().map(|path| super::reading::clean(&path.to_string_lossy())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rocm_is_looked_for_by_all_its_names() {
        let opt = tempfile::tempdir().unwrap();
        for name in ["rocm-6.4.1", "rocm-7.0.0", "rocm", "other"] {
            std::fs::create_dir(opt.path().join(name)).unwrap();
        }
        let found = rocm_candidates("libx.so", &[7, 6], Some("/mine".into()), opt.path());
        let found: Vec<_> =
            found.iter().map(|p| p.to_string_lossy().replace(&*opt.path().to_string_lossy(), "OPT")).collect();
        let expected = [
            "libx.so.7",
            "libx.so.6",
            "libx.so",
            "/mine/lib/libx.so.7",
            "/mine/lib/libx.so.6",
            "/mine/lib/libx.so",
            "OPT/rocm/lib/libx.so.7",
            "OPT/rocm/lib/libx.so.6",
            "OPT/rocm/lib/libx.so",
            "OPT/rocm-7.0.0/lib/libx.so.7",
            "OPT/rocm-7.0.0/lib/libx.so.6",
            "OPT/rocm-7.0.0/lib/libx.so",
            "OPT/rocm-6.4.1/lib/libx.so.7",
            "OPT/rocm-6.4.1/lib/libx.so.6",
            "OPT/rocm-6.4.1/lib/libx.so",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_missing_dependency_is_a_reason() {
        let mut reasons = Vec::new();
        let absent = |name: &str| format!("{name}: cannot open shared object file: No such file or directory");
        note_reason(&mut reasons, Path::new("libx.so.6"), absent("libx.so.6"));
        assert!(reasons.is_empty());
        note_reason(&mut reasons, Path::new("libx.so.6"), absent("libdrm.so.2"));
        note_reason(&mut reasons, Path::new("libx.so"), absent("libdrm.so.2"));
        assert_eq!(reasons, [absent("libdrm.so.2")]);
    }

    #[test]
    fn a_file_that_is_no_library_is_told_apart_from_a_missing_one() {
        let folder = tempfile::tempdir().unwrap();
        let (none, text) = (folder.path().join("none.so"), folder.path().join("text.so"));
        std::fs::write(&text, "this is no library").unwrap();
        // SAFETY: neither candidate is a library, so nothing of them is run.
        let (missing, broken) = unsafe { (load_first(std::slice::from_ref(&none)), load_first(&[none.clone(), text])) };
        assert_eq!(missing.err().unwrap().why(), "it is not installed");
        let broken = broken.err().unwrap();
        assert!(broken.reasons.len() == 1 && broken.why().contains("text.so"), "{broken:?}");
    }
}
