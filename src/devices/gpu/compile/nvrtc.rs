//! NVRTC: NVIDIA's run-time compiler, versions 11.2 and later (earlier ones give no image for a chip).

use std::path::{Path, PathBuf};

use super::rtc::shown_variable;
use crate::devices::gpu::chip::Arch;

/// Names the library's file and is then the only place looked at.
pub const FILE_VARIABLE: &str = "LAYERCAKE_NVRTC";

pub const HINT: &str = "`pip install nvidia-cuda-nvrtc-cu12` brings it (with a driver of CUDA 13: `pip install \
                        nvidia-cuda-nvrtc`), or set LAYERCAKE_NVRTC to libnvrtc.so, or give kernels that were built \
                        ahead";

pub fn flags(arch: Arch) -> Vec<String> {
    vec![format!("--gpu-architecture={arch}"), "--std=c++17".to_owned(), "--fmad=true".to_owned()]
}

/// In which order the names are tried: the newest first, so that new chips are known.
const NAMES: [&str; 4] = ["libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2"];

/// What decides where it is looked for.
pub struct Places<'a> {
    pub variable: Box<super::Variable<'a>>,
    /// `/`
    pub root: PathBuf,
}

impl Places<'_> {
    pub fn of_system() -> Places<'static> {
        Places { variable: Box::new(|name| std::env::var_os(name)), root: PathBuf::from("/") }
    }

    fn folder(&self, variable: &str) -> Option<PathBuf> {
        (self.variable)(variable).filter(|value| !value.is_empty()).map(PathBuf::from)
    }
}

/// Where the library may lie: the file that the user names, else the loader's path, CUDA toolkits, and what pip and
/// conda install.
pub fn candidates(places: &Places<'_>) -> Vec<PathBuf> {
    if let Some(file) = places.folder(FILE_VARIABLE) {
        return vec![file];
    }
    let toolkits = ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(|name| places.folder(name));
    let toolkits = toolkits.chain(matching(&places.root.join("usr/local"), "cuda"));
    let of_toolkits = toolkits.flat_map(|toolkit| {
        let targets = matching(&toolkit.join("targets"), "").into_iter().map(|target| target.join("lib"));
        std::iter::once(toolkit.join("lib64")).chain(targets).collect::<Vec<_>>()
    });
    let of_pip = site_packages(places).into_iter().flat_map(|site| {
        matching(&site.join("nvidia"), "").into_iter().map(|package| package.join("lib")).collect::<Vec<_>>()
    });
    let of_conda = places.folder("CONDA_PREFIX").into_iter().map(|prefix| prefix.join("lib"));
    let folders = of_toolkits.chain(of_pip).chain(of_conda).filter(|folder| folder.is_dir());
    let in_folders = folders.flat_map(|folder| NAMES.map(|name| folder.join(name))).filter(|file| file.exists());
    NAMES.map(PathBuf::from).into_iter().chain(in_folders).collect()
}

/// The same for people.
pub fn looked(places: &Places<'_>) -> Vec<String> {
    let variable = |name: &str| shown_variable(name, (places.variable)(name));
    if places.folder(FILE_VARIABLE).is_some() {
        return vec![variable(FILE_VARIABLE)];
    }
    vec![
        "the loader's path".to_owned(),
        variable("CUDA_HOME"),
        variable("CUDA_PATH"),
        "/usr/local/cuda*".to_owned(),
        format!(
            "nvidia/*/lib of the Python packages in {}, {}, ~/.local, /usr/local and /usr",
            variable("VIRTUAL_ENV"),
            variable("CONDA_PREFIX"),
        ),
    ]
}

/// Folders of Python packages: of the active environment, the user and the system, newest Python first.
fn site_packages(places: &Places<'_>) -> Vec<PathBuf> {
    let environments = ["VIRTUAL_ENV", "CONDA_PREFIX"].into_iter().filter_map(|name| places.folder(name));
    let user = places.folder("PYTHONUSERBASE").or_else(|| Some(places.folder("HOME")?.join(".local")));
    let system = ["usr/local", "usr"].map(|folder| places.root.join(folder));
    let prefixes = environments.chain(user).chain(system);
    let pythons = prefixes.flat_map(|prefix| matching(&prefix.join("lib"), "python3"));
    pythons.flat_map(|python| ["site-packages", "dist-packages"].map(|name| python.join(name))).collect()
}

/// Entries of a folder whose names begin so: the plain name first, then the newest version.
fn matching(folder: &Path, prefix: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
    let mut found: Vec<_> =
        entries.filter(|path| path.file_name().is_some_and(|n| n.to_string_lossy().starts_with(prefix))).collect();
    found.sort_by_key(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        (name != prefix, std::cmp::Reverse(version_of(&name)), name)
    });
    found
}

/// The numbers in a name: 12.10 is newer than 12.9.
fn version_of(name: &str) -> Vec<u32> {
    name.split(|c: char| !c.is_ascii_digit()).filter_map(|digits| digits.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn toolkits_pip_and_conda_are_looked_at_in_order() {
        let root = tempfile::tempdir().unwrap();
        let files = [
            "home/.local/lib/python3.9/site-packages/nvidia/cuda_nvrtc/lib/libnvrtc.so.12",
            "home/.local/lib/python3.12/site-packages/nvidia/cu13/lib/libnvrtc.so.13",
            "venv/lib/python3.11/site-packages/nvidia/cuda_nvrtc/lib/libnvrtc.so.12",
            "usr/lib/python3/dist-packages/nvidia/cuda_nvrtc/lib/libnvrtc.so.11.2",
            "usr/local/lib/python3.13/dist-packages/nvidia/cu13/lib/libnvrtc.so.13",
            "usr/local/cuda-12.10/lib64/libnvrtc.so",
            "usr/local/cuda-12.9/targets/sbsa-linux/lib/libnvrtc.so.12",
            "mine/lib64/libnvrtc.so",
            "conda/lib/libnvrtc.so.12",
        ];
        for file in files {
            let path = root.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        let at = |name: &str| root.path().join(name).into_os_string();
        let variable = |name: &str| match name {
            "CUDA_HOME" => Some(at("mine")),
            "CUDA_PATH" => Some("".into()),
            "HOME" => Some(at("home")),
            "VIRTUAL_ENV" => Some(at("venv")),
            "CONDA_PREFIX" => Some(at("conda")),
            _ => None,
        };
        let places = Places { variable: Box::new(variable), root: root.path().to_owned() };
        let found = candidates(&places);
        let found: Vec<_> =
            found.iter().map(|path| path.strip_prefix(root.path()).unwrap_or(path).to_str().unwrap()).collect();
        let expected = [7, 5, 6, 2, 1, 0, 4, 3, 8].map(|i: usize| files[i]);
        assert_eq!(found, [&NAMES[..], &expected[..]].concat());
    }

    #[test]
    fn a_named_file_is_the_only_candidate() {
        let variable = |name: &str| (name == FILE_VARIABLE).then(|| "/x/libnvrtc.so.12".into());
        let places = Places { variable: Box::new(variable), root: PathBuf::from("/") };
        assert_eq!(candidates(&places), [PathBuf::from("/x/libnvrtc.so.12")]);
        assert_eq!(looked(&places), ["$LAYERCAKE_NVRTC (/x/libnvrtc.so.12)"]);
        let venv = |name: &str| (name == "VIRTUAL_ENV").then(|| "/v\u{1b}x".into());
        let looked = looked(&Places { variable: Box::new(venv), root: PathBuf::from("/") }).join(", ");
        assert!(looked.contains("$CUDA_HOME, ") && looked.contains("$VIRTUAL_ENV (/vx)"), "{looked}");
    }
}
