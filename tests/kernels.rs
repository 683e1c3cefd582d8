//! GPU kernels compiled by the real binary in child processes, without a GPU. Tests that need a compiler say so and
//! pass where there is none.

mod common;

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use common::golden;
use layercake::devices::gpu::chip::{Arch, Chip};
use layercake::devices::gpu::compile::prebuilt::Index;
use layercake::devices::gpu::compile::worker::CompilerInfo;
use layercake::devices::gpu::compile::{CompileError, KernelOptions, KernelStore, Runner};
use layercake::devices::gpu::launch::units::program_units;
use layercake::devices::gpu::unit::{Source, Unit};
use layercake::engine::kv::KvType;
use layercake::engine::model::Model;

const PROGRAM: &str = env!("CARGO_BIN_EXE_layercake");

/// `layercake kernels ...` with a cache folder of its own.
fn kernels(cache: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command.arg("kernels").args(args).env("XDG_CACHE_HOME", cache).stdin(Stdio::null());
    command
}

fn ok(mut command: Command) -> (String, String) {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let (stdout, stderr) = (String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap());
    assert!(status.success(), "{command:?}: {stderr}");
    (stdout, stderr)
}

fn fails(mut command: Command, code: i32) -> String {
    let output = command.output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{command:?}: {stderr}");
    assert!(output.stdout.is_empty() && !stderr.contains("panicked"), "{stderr}");
    stderr
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn chip(arch: &str) -> Chip {
    let arch: Arch = arch.parse().unwrap();
    Chip { arch, wave_size: arch.wave_size(), n_multiprocessors: 64 }
}

fn store(time_limit: Duration) -> KernelStore {
    let (runner, prebuilt_dirs) = (Runner::Child(PROGRAM.into()), vec![]);
    KernelStore::new(KernelOptions { runner, cache_dir: None, prebuilt_dirs, time_limit })
}

const LONG: Duration = Duration::from_secs(120);

fn images(store: &KernelStore, arch: &str, units: &[Unit]) -> Result<Vec<Arc<[u8]>>, CompileError> {
    store.images(&chip(arch), units, &AtomicBool::new(false), &|_| ())
}

/// The compiler that the ordinary search finds.
fn compiler(arch: &str) -> Option<CompilerInfo> {
    let found = store(LONG).compiler(arch.parse().unwrap());
    found.inspect_err(|error| println!("SKIPPED: {error}")).ok()
}

fn some_unit(n: i64) -> Unit {
    Unit::new(Source::Rows, &[("LC_TEST", n)])
}

fn number_of_kernels(cache: &Path) -> usize {
    let (said, _) = ok(kernels(cache, &["cache"]));
    let line = said.lines().find_map(|line| line.strip_prefix("kernels: ")).unwrap();
    line.parse().unwrap()
}

#[test]
fn child_processes_make_images() {
    for arch in ["sm_75", "sm_80", "sm_90", "gfx906", "gfx90a"] {
        if compiler(arch).is_some() {
            let made = images(&store(LONG), arch, &[some_unit(0), some_unit(1), some_unit(2)]).unwrap();
            assert!(made.len() == 3 && made.iter().all(|image| image.len() > 100), "{arch}");
        }
    }
}

#[test]
fn a_compiler_that_takes_too_long_is_stopped() {
    for arch in ["sm_90", "gfx906"] {
        if compiler(arch).is_some() {
            let limit = Duration::from_millis(1);
            let started = Instant::now();
            let error = images(&store(limit), arch, &[some_unit(0)]).unwrap_err();
            assert!(matches!(&error, CompileError::TimedOut { unit, .. } if unit == "rows.cu LC_TEST=0"), "{error}");
            assert!(error.to_string().ends_with("for more than 0.001 s"), "{error}");
            assert!(started.elapsed() < Duration::from_secs(30));
        }
    }
}

#[test]
fn a_source_that_does_not_compile_is_refused_with_the_compilers_words() {
    for arch in ["sm_90", "gfx906"] {
        if compiler(arch).is_some() {
            let bad = Unit::new(Source::Rows, &[("u32", 5)]);
            let error = images(&store(LONG), arch, &[some_unit(0), bad]).unwrap_err();
            let CompileError::Failed { unit, log, .. } = &error else { panic!("{error:?}") };
            assert!(unit == "rows.cu u32=5" && log.contains("prelude.cuh") && log.contains("error"), "{log}");
        }
    }
}

/// HIP 5.2 aborts the process for a chip that it does not know.
#[test]
fn a_compiler_that_aborts_is_a_failed_unit_and_nothing_else() {
    if let Some(found) = compiler("gfx1100").filter(|found| found.name.contains("libamdhip64.so.5.2.")) {
        let store = store(LONG);
        let error = images(&store, "gfx1100", &[some_unit(0)]).unwrap_err();
        let CompileError::Aborted { unit, how, compiler, .. } = &error else { panic!("{error:?}") };
        assert_eq!((unit.as_str(), how.as_str(), compiler), ("rows.cu LC_TEST=0", "SIGABRT", &found.name));
        assert!(error.to_string().contains("it may be too old for this chip"), "{error}");
        // The same store goes on.
        images(&store, "gfx906", &[some_unit(0)]).unwrap();
    } else {
        println!("SKIPPED: there is no hipRTC of HIP 5.2");
    }
}

#[test]
fn a_missing_compiler_is_said_with_places_and_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let model = golden("models/llama.gguf");
    let out = folder.path().join("out");
    let args = ["build", "--arch", "sm_90", "--out", text(&out), "--model", text(&model)];
    let mut command = kernels(folder.path(), &args);
    command.env("LAYERCAKE_NVRTC", "/no/such/libnvrtc.so");
    let said = fails(command, 1);
    for words in ["error: kernels for sm_90 need NVRTC", "/no/such/libnvrtc.so", "pip install nvidia-cuda-nvrtc"] {
        assert!(said.contains(words), "'{words}' is not in: {said}");
    }
    assert!(!out.exists());
    fails(kernels(folder.path(), &["build", "--arch", "sm90", "--out", text(&out)]), 2);
    fails(kernels(folder.path(), &["build", "--out", text(&out)]), 2);
    fails(kernels(folder.path(), &["list", "--model", "/no/such/model.gguf"]), 1);
}

#[test]
fn what_is_built_ahead_is_what_a_model_needs_and_needs_no_compiler() {
    if compiler("sm_90").is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (cache, out, model) = (folder.path().join("cache"), folder.path().join("out"), golden("models/llama.gguf"));
    let build = || kernels(&cache, &["build", "--arch", "sm_90", "--out", text(&out), "--model", text(&model)]);
    // Two at once do not disturb each other.
    std::thread::scope(|scope| {
        let both = [scope.spawn(|| ok(build())), scope.spawn(|| ok(build()))];
        both.into_iter().for_each(|thread| assert!(thread.join().unwrap().1.contains("sm_90: ")));
    });

    let (listed, _) = ok(kernels(&cache, &["list", "--arch", "sm_90", "--model", text(&model)]));
    let mut listed: Vec<_> = listed.lines().map(|line| line.replace('\t', " ").replace("-D", "")).collect();
    listed.iter_mut().for_each(|line| *line = line.trim_end().to_owned());
    let index = Index::read(&out);
    let mut built: Vec<_> = index.images.values().map(|entry| entry.unit.clone()).collect();
    listed.sort();
    built.sort();
    assert_eq!(listed, built);
    assert!(!built.is_empty(), "the model needs no kernel at all");
    assert!(index.images.values().all(|entry| entry.arch == "sm_90" && entry.compiler.starts_with("NVRTC ")));

    // A machine without compiler and cache.
    let opened = Model::open(&model, Some(256), 256, KvType::F16).unwrap();
    let parts: Vec<_> = opened.parts().collect();
    let units = program_units(&opened.program_shapes(&parts), 128, &chip("sm_90")).unwrap();
    let runner = Runner::Child("/no/such/program".into());
    let options = KernelOptions { runner, cache_dir: None, prebuilt_dirs: vec![out], time_limit: LONG };
    assert_eq!(images(&KernelStore::new(options), "sm_90", &units).unwrap().len(), units.len());

    // And the cache has them too, until it is cleared.
    assert_eq!(number_of_kernels(&cache), built.len());
    let (_, said) = ok(kernels(&cache, &["cache", "--clear"]));
    assert!(said.contains(&format!("removed {} kernels", built.len())), "{said}");
    assert_eq!(number_of_kernels(&cache), 0);
}
