//! Where AMD's HIP library is looked for.

use std::cmp::Reverse;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The plain name is the installed development link or the only one of a hand-made folder; the others are of ROCm 7,
/// 6 and 5.
const NAMES: [&str; 4] = ["libamdhip64.so", "libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5"];

/// In order: the folders that the user named, the installed ones with the newest first, the loader's own path.
/// `env` gives environment variables, `opt` is where ROCm is installed.
pub fn candidates(env: impl Fn(&str) -> Option<OsString>, opt: &Path) -> Vec<PathBuf> {
    let given = ["ROCM_PATH", "HIP_PATH"].into_iter().filter_map(env).filter(|path| !path.is_empty());
    let mut installed: Vec<_> = std::fs::read_dir(opt)
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.starts_with("rocm-"))
        .collect();
    installed.sort_by_cached_key(|name| Reverse(version_in(name)));
    let roots = given.map(PathBuf::from).chain([opt.join("rocm")]).chain(installed.iter().map(|name| opt.join(name)));
    let mut folders: Vec<_> = roots.map(|root| root.join("lib")).collect();
    let mut seen = Vec::new();
    folders.retain(|folder| {
        !seen.contains(folder) && {
            seen.push(folder.clone());
            true
        }
    });
    in_folders(&folders).into_iter().chain(NAMES.map(PathBuf::from)).collect()
}

/// By every name in each of the folders.
pub fn in_folders(folders: &[PathBuf]) -> Vec<PathBuf> {
    folders.iter().flat_map(|folder| NAMES.map(|name| folder.join(name))).collect()
}

/// The numbers of `rocm-6.10.2`: they, and not letters, say what is newer.
fn version_in(name: &str) -> Vec<u32> {
    name.split(|letter: char| !letter.is_ascii_digit()).filter_map(|digits| digits.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_user_named_comes_first_and_the_loaders_path_last() {
        let opt = tempfile::tempdir().unwrap();
        for name in ["rocm-6.4.1", "rocm-6.10.0", "rocm-7.0.2", "rocm", "other"] {
            std::fs::create_dir(opt.path().join(name)).unwrap();
        }
        let env = |name: &str| match name {
            "ROCM_PATH" => Some("/mine".into()),
            "HIP_PATH" => Some("/hip".into()),
            _ => None,
        };
        let found: Vec<_> = candidates(env, opt.path())
            .iter()
            .map(|path| path.to_string_lossy().replace(&*opt.path().to_string_lossy(), "OPT"))
            .collect();
        let folders: Vec<_> =
            found.iter().step_by(NAMES.len()).map(|path| path.trim_end_matches("/libamdhip64.so")).collect();
        let expected = [
            "/mine/lib",
            "/hip/lib",
            "OPT/rocm/lib",
            "OPT/rocm-7.0.2/lib",
            "OPT/rocm-6.10.0/lib",
            "OPT/rocm-6.4.1/lib",
            "libamdhip64.so",
        ];
        assert_eq!(folders, expected);
        let names = ["libamdhip64.so", "libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5"];
        assert_eq!(found[..4], names.map(|name| format!("/mine/lib/{name}")));
        assert_eq!(found[found.len() - 4..], names);
    }

    #[test]
    fn a_folder_is_looked_into_once() {
        let opt = tempfile::tempdir().unwrap();
        let rocm = opt.path().join("rocm");
        let env = |_: &str| Some(rocm.clone().into_os_string());
        assert_eq!(candidates(env, opt.path()).len(), 2 * NAMES.len());
        let empty = |_: &str| Some(OsString::new());
        assert_eq!(candidates(empty, opt.path()).len(), 2 * NAMES.len());
    }
}
