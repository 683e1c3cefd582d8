//! How images are come by.

use std::path::PathBuf;
use std::time::Duration;

use super::{cache, prebuilt};

/// Who compiles.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Runner {
    /// This program, in child processes.
    Child(PathBuf),
    /// The calling process: a compiler that aborts ends it, and there is no time limit.
    Here,
}

impl Runner {
    /// This program's executable, even if its file has been replaced since.
    pub fn this_program() -> Runner {
        let itself = PathBuf::from("/proc/self/exe");
        if itself.exists() {
            Runner::Child(itself)
        } else {
            std::env::current_exe().map_or(Runner::Here, Runner::Child)
        }
    }
}

#[derive(Clone, Debug)]
pub struct KernelOptions {
    pub runner: Runner,
    /// `None`: nothing is kept on disk.
    pub cache_dir: Option<PathBuf>,
    /// Folders of images that were built ahead, the first one first.
    pub prebuilt_dirs: Vec<PathBuf>,
    /// Of compiling one unit.
    pub time_limit: Duration,
}

impl KernelOptions {
    pub const DEFAULT_TIME_LIMIT: Duration = Duration::from_secs(120);

    /// What the program uses: child processes, the user's cache, `kernels` before the installed folders.
    pub fn of_program(kernels: impl IntoIterator<Item = PathBuf>) -> KernelOptions {
        KernelOptions {
            runner: Runner::this_program(),
            cache_dir: cache::default_dir(),
            prebuilt_dirs: kernels.into_iter().chain(prebuilt::default_dirs()).collect(),
            time_limit: KernelOptions::DEFAULT_TIME_LIMIT,
        }
    }
}
