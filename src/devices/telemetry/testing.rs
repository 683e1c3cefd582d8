//! Trees of files laid out as the kernel lays out sysfs.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use super::TelemetryConfig;

pub struct Tree {
    folder: tempfile::TempDir,
}

/// What a card's files say; the folder's name is its PCI address.
pub struct TestCard<'a> {
    pub index: u32,
    /// Folders from `devices/` on, the last of them the card's.
    pub folder: &'a str,
    pub files: &'a [(&'a str, &'a str)],
}

impl Tree {
    pub fn new() -> Tree {
        Tree { folder: tempfile::tempdir().unwrap() }
    }

    pub fn root(&self) -> &Path {
        self.folder.path()
    }

    pub fn path(&self, path: &str) -> PathBuf {
        self.root().join(path)
    }

    pub fn file(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// A card with the links by which the kernel leads to it.
    pub fn card(&self, card: &TestCard) {
        let folder = format!("devices/{}", card.folder);
        self.file(&format!("{folder}/vendor"), "0x1002\n");
        for (name, content) in card.files {
            self.file(&format!("{folder}/{name}"), content);
        }
        let drm = self.path(&format!("class/drm/card{}", card.index));
        fs::create_dir_all(&drm).unwrap();
        symlink(self.path(&folder), drm.join("device")).unwrap();
        let address = card.folder.rsplit('/').next().unwrap();
        let bus = self.path("bus/pci/devices");
        fs::create_dir_all(&bus).unwrap();
        symlink(self.path(&folder), bus.join(address)).unwrap();
    }

    pub fn remove_card(&self, index: u32) {
        fs::remove_dir_all(self.path(&format!("class/drm/card{index}"))).unwrap();
    }

    /// This tree and no other source than the host.
    pub fn config(&self) -> TelemetryConfig {
        TelemetryConfig {
            sysfs_root: self.root().to_owned(),
            dev_root: self.path("dev"),
            amdgpu_ids: self.path("amdgpu.ids"),
            nvml_path: Some(self.path("no-nvml.so")),
            rocm_smi_path: Some(self.path("no-rocm-smi.so")),
            ..TelemetryConfig::default()
        }
    }
}
