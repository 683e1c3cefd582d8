//! Folders of images that were built ahead: `ARCH/KEY.bin`, and `index.json` for people. Which compiler made them does
//! not matter to who uses them, so a machine with a driver only needs no compiler.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::cache::replace;
use super::seal::{seal, unseal};
use super::{CompileError, Job};

const INDEX: &str = "index.json";

/// Where images that were built ahead may be installed: in the user's data folder and beside the program.
pub fn default_dirs() -> Vec<PathBuf> {
    use etcetera::BaseStrategy;
    let of_user = etcetera::choose_base_strategy().ok().map(|base| base.data_dir().join("layercake").join("kernels"));
    let program = std::env::current_exe().ok();
    let beside = program.as_deref().and_then(Path::parent).map(|folder| folder.join("../share/layercake/kernels"));
    of_user.into_iter().chain(beside).collect()
}

fn file_of(job: &Job) -> String {
    format!("{}/{}.bin", job.arch, job.key().as_str())
}

/// The image of a job in a folder. `Err`: there is one, and it cannot be used.
pub fn find(dir: &Path, job: &Job) -> Result<Option<Vec<u8>>, String> {
    let path = dir.join(file_of(job));
    match std::fs::read(&path) {
        Ok(file) => unseal(file).map(Some).ok_or_else(|| format!("{} is damaged", path.display())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(format!("{} cannot be read: {error}", path.display())),
    }
}

/// What `index.json` says of one image.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct IndexEntry {
    pub arch: String,
    /// "matmul.cu FORMAT=12"
    pub unit: String,
    pub compiler: String,
    pub n_bytes: u64,
}

/// By file, relative to the folder.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Index {
    /// The version that built it.
    pub layercake: String,
    pub images: BTreeMap<String, IndexEntry>,
}

impl Index {
    /// That of a folder; an empty one where there is none that can be read.
    pub fn read(dir: &Path) -> Index {
        let text = std::fs::read_to_string(dir.join(INDEX)).ok();
        text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
    }
}

/// Adds images to a folder, which is made where it is missing.
///
/// # Errors
/// [`CompileError::Io`].
pub fn write<'a>(
    dir: &Path,
    compiler: &str,
    images: impl IntoIterator<Item = (&'a Job, &'a [u8])>,
) -> Result<(), CompileError> {
    let failed = |path: &Path, error| CompileError::io(format!("cannot write {}", path.display()), &error);
    let mut index = Index::read(dir);
    index.layercake = env!("CARGO_PKG_VERSION").to_owned();
    for (job, image) in images {
        let file = file_of(job);
        let path = dir.join(&file);
        let folder = path.parent().unwrap_or(dir);
        std::fs::create_dir_all(folder).map_err(|error| failed(folder, error))?;
        replace(&path, &seal(image)).map_err(|error| failed(&path, error))?;
        let (arch, unit, compiler) = (job.arch.clone(), job.unit.clone(), compiler.to_owned());
        index.images.insert(file, IndexEntry { arch, unit, compiler, n_bytes: image.len() as u64 });
    }
    // Images of sources that have changed since are not there any more once somebody has removed them.
    index.images.retain(|file, _| dir.join(file).exists());
    let text = serde_json::to_string_pretty(&index).unwrap_or_default() + "\n";
    let path = dir.join(INDEX);
    std::fs::create_dir_all(dir).map_err(|error| failed(dir, error))?;
    replace(&path, text.as_bytes()).map_err(|error| failed(&path, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(unit: &str, arch: &str) -> Job {
        let (file_name, options) = ("x.cu".into(), vec!["-DLC_WAVE=32".into()]);
        Job { unit: unit.into(), file_name, text: unit.into(), options, arch: arch.into() }
    }

    #[test]
    fn a_folder_gives_back_its_images_and_lists_them_for_people() {
        let folder = tempfile::tempdir().unwrap();
        let (a, b) = (job("a.cu", "sm_80"), job("b.cu", "gfx1100"));
        write(folder.path(), "NVRTC 12.9", [(&a, &b"AAAA"[..])]).unwrap();
        write(folder.path(), "hipRTC 9.0", [(&b, &b"BB"[..])]).unwrap();
        assert_eq!(find(folder.path(), &a), Ok(Some(b"AAAA".to_vec())));
        assert_eq!(find(folder.path(), &b), Ok(Some(b"BB".to_vec())));
        assert_eq!(find(folder.path(), &job("a.cu", "sm_90")), Ok(None));
        let index = Index::read(folder.path());
        let listed: Vec<_> = index.images.values().map(|e| (&*e.arch, &*e.unit, &*e.compiler, e.n_bytes)).collect();
        assert_eq!(listed, [("gfx1100", "b.cu", "hipRTC 9.0", 2), ("sm_80", "a.cu", "NVRTC 12.9", 4)]);
        assert!(index.images.keys().all(|file| folder.path().join(file).exists()));

        let path = folder.path().join(file_of(&a));
        std::fs::write(&path, "short").unwrap();
        assert!(find(folder.path(), &a).unwrap_err().contains("is damaged"));
        std::fs::remove_file(&path).unwrap();
        write(folder.path(), "NVRTC 12.9", []).unwrap();
        assert_eq!(Index::read(folder.path()).images.len(), 1);
    }
}
