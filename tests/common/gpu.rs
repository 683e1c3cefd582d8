//! The GPUs that tests run on: all that this machine has; where it has no AMD GPU, one that is made of the CPU (see
//! `tests/standin`), loaded as any libamdhip64 is.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, OnceLock};

use layercake::devices::Device;
use layercake::devices::gpu::compile::{KernelOptions, KernelStore, Runner};
use layercake::devices::gpu::cuda::Cuda;
use layercake::devices::gpu::device::GpuDevice;
use layercake::devices::gpu::driver::Driver;
use layercake::devices::gpu::find::{FoundGpu, found_by};
use layercake::devices::gpu::hip::Hip;

/// The program: its kernel compiler runs in child processes of it.
pub fn program() -> PathBuf {
    std::env::var_os("LAYERCAKE_TEST_PROGRAM").map_or_else(|| env!("CARGO_BIN_EXE_layercake").into(), PathBuf::from)
}

/// Root folder of the stand-in for ROCm, as `ROCM_PATH` names one; built when first asked for.
pub fn standin() -> &'static Path {
    static ROOT: OnceLock<PathBuf> = OnceLock::new();
    ROOT.get_or_init(|| {
        let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join("rocm-standin");
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/standin/build");
        let built = Command::new(&script).arg(&root).output().unwrap_or_else(|e| panic!("{}: {e}", script.display()));
        assert!(built.status.success(), "{}: {}", script.display(), String::from_utf8_lossy(&built.stderr));
        root
    })
}

fn drivers() -> &'static [FoundGpu] {
    static FOUND: OnceLock<Vec<FoundGpu>> = OnceLock::new();
    FOUND.get_or_init(|| {
        fn shared<D: Driver + 'static>(driver: D) -> Arc<dyn Driver> {
            Arc::new(driver)
        }
        let hip = match Hip::load() {
            Ok(hip) => Ok(hip),
            Err(_) => Hip::load_from(&[standin().join("lib")]),
        };
        let found = found_by(vec![Cuda::load().map(shared), hip.map(shared)], |_| None);
        assert!(!found.gpus.is_empty(), "no GPU and no stand-in");
        found.gpus
    })
}

/// The program in an environment in which compilers find the stand-in, as this process cannot change its own.
fn program_with_standin() -> PathBuf {
    let script = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("layercake-with-standin-{}", std::process::id()));
    let text = format!("#!/bin/sh\nROCM_PATH='{}' exec '{}' \"$@\"\n", standin().display(), program().display());
    // Another process writes it: a file that is open for writing here or in a child of this process cannot be run.
    let made =
        Command::new("sh").args(["-c", r#"printf %s "$1" > "$0" && chmod 755 "$0""#]).arg(&script).arg(text).status();
    assert!(made.is_ok_and(|status| status.success()), "{}", script.display());
    script
}

fn kernels() -> &'static KernelStore {
    static KERNELS: OnceLock<KernelStore> = OnceLock::new();
    KERNELS.get_or_init(|| {
        let program = if Hip::load().is_ok() { program() } else { program_with_standin() };
        KernelStore::new(KernelOptions {
            runner: Runner::Child(program),
            cache_dir: Some(Path::new(env!("CARGO_TARGET_TMPDIR")).join("kernels")),
            prebuilt_dirs: vec![],
            time_limit: KernelOptions::DEFAULT_TIME_LIMIT,
        })
    })
}

/// A device of its own for each of the GPUs.
pub fn gpus() -> Vec<Arc<dyn Device>> {
    let device = |gpu: &FoundGpu| {
        let kernels = Arc::new(kernels().clone());
        let device = GpuDevice::new(gpu.id, gpu.driver.clone(), gpu.info.clone(), kernels);
        Arc::new(device.unwrap_or_else(|e| panic!("{e}"))) as Arc<dyn Device>
    };
    drivers().iter().map(device).collect()
}

/// The first GPU of each driver.
pub fn one_of_each() -> Vec<Arc<dyn Device>> {
    let mut gpus = gpus();
    gpus.dedup_by_key(|gpu| gpu.facts().id.kind);
    gpus
}
