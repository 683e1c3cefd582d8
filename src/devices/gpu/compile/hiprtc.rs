//! hipRTC: AMD's run-time compiler. Up to HIP 5.2 it is part of the runtime library.

use std::path::PathBuf;

use super::rtc::shown_variable;
use crate::devices::gpu::chip::Arch;

pub const HINT: &str = "install ROCm's hipRTC (package hiprtc or rocm-hip-runtime), set ROCM_PATH to where it is, or \
                        give kernels that were built ahead";

pub fn flags(arch: Arch) -> Vec<String> {
    vec![format!("--gpu-architecture={arch}"), "-O3".to_owned(), "-std=c++17".to_owned()]
}

/// In which order the names are tried in each place.
const NAMES: [&str; 8] = [
    "libhiprtc.so",
    "libhiprtc.so.7",
    "libhiprtc.so.6",
    "libhiprtc.so.5",
    "libamdhip64.so",
    "libamdhip64.so.7",
    "libamdhip64.so.6",
    "libamdhip64.so.5",
];

/// What decides where it is looked for.
pub struct Places<'a> {
    pub variable: Box<super::Variable<'a>>,
    /// `/opt`
    pub opt: PathBuf,
}

impl Places<'_> {
    pub fn of_system() -> Places<'static> {
        Places { variable: Box::new(|name| std::env::var_os(name)), opt: PathBuf::from("/opt") }
    }
}

/// Where the library may lie: the folders that the user names, what is installed, newest first, then the loader's
/// path.
pub fn candidates(places: &Places<'_>) -> Vec<PathBuf> {
    let named = ["ROCM_PATH", "HIP_PATH"].into_iter().filter_map(|name| (places.variable)(name));
    let named = named.filter(|value| !value.is_empty()).map(PathBuf::from);
    let entries = std::fs::read_dir(&places.opt).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
    let mut installed: Vec<_> =
        entries.filter(|path| path.file_name().is_some_and(|n| n.to_string_lossy().starts_with("rocm"))).collect();
    installed.sort_by_key(|path| (path.file_name().is_none_or(|name| name != "rocm"), std::cmp::Reverse(path.clone())));
    let folders = named.chain(installed).map(|folder| folder.join("lib"));
    let in_folders = folders.flat_map(|folder| NAMES.map(|name| folder.join(name)));
    in_folders.chain(NAMES.map(PathBuf::from)).collect()
}

/// The same for people.
pub fn looked(places: &Places<'_>) -> Vec<String> {
    let variables = ["ROCM_PATH", "HIP_PATH"].map(|name| shown_variable(name, (places.variable)(name)));
    variables.into_iter().chain(["/opt/rocm*/lib".to_owned(), "the loader's path".to_owned()]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_named_folder_comes_before_what_is_installed() {
        let opt = tempfile::tempdir().unwrap();
        ["rocm-6.2.0", "rocm", "rocm-7.0.1", "other"]
            .iter()
            .for_each(|name| std::fs::create_dir(opt.path().join(name)).unwrap());
        let variable = |name: &str| (name == "ROCM_PATH").then(|| "/mine".into());
        let found = candidates(&Places { variable: Box::new(variable), opt: opt.path().to_owned() });
        let folders: Vec<_> = found.chunks(NAMES.len()).map(|names| names[0].parent().unwrap().to_owned()).collect();
        let installed = ["rocm/lib", "rocm-7.0.1/lib", "rocm-6.2.0/lib"].map(|name| opt.path().join(name));
        assert_eq!(folders, [&["/mine/lib".into()], &installed[..], &["".into()]].concat());
        let of_first: Vec<_> = found[..NAMES.len()].iter().map(|path| path.file_name().unwrap()).collect();
        assert_eq!(of_first, NAMES);
    }
}
