//! `layercake kernels`: GPU kernels compiled ahead, listed, and what is kept of them.

use std::collections::BTreeSet;
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Subcommand;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::cli::CliError;
use crate::cli::printable::printable;
use crate::cli::table::bytes;
use crate::devices::gpu::chip::{Arch, Chip};
use crate::devices::gpu::compile::cache::{self, Cache};
use crate::devices::gpu::compile::{CompileError, Job, KernelOptions, KernelStore, prebuilt, worker};
use crate::devices::gpu::launch::standard::standard_units;
use crate::devices::gpu::launch::units::program_units;
use crate::devices::gpu::unit::Unit;
use crate::engine::kv::KvType;
use crate::engine::model::{Model, ModelError};
use crate::models;

#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Compile kernels into a folder, for machines with a driver and no compiler; needs no GPU
    Build(BuildArgs),
    /// List what is compiled: a file and its constants a line
    List(ListArgs),
    /// Say where compiled kernels are kept and how many there are
    Cache(CacheArgs),
    /// Compile what is asked for on stdin
    #[command(hide = true)]
    Worker,
}

#[derive(clap::Args)]
struct BuildArgs {
    /// Chips, e.g. sm_80,sm_90,gfx1100
    #[arg(long, required = true, value_delimiter = ',')]
    arch: Vec<Arch>,
    /// The folder to write
    #[arg(long)]
    out: PathBuf,
    /// Only what this model needs; may be repeated [default: what models of common shapes need]
    #[arg(long)]
    model: Vec<String>,
    /// Compilers at a time [default: the processor's cores, at most 4]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=256))]
    jobs: Option<u16>,
}

#[derive(clap::Args)]
struct ListArgs {
    /// Only what this model needs; may be repeated [default: what models of common shapes need]
    #[arg(long)]
    model: Vec<String>,
    /// Only what these chips need [default: one of each kind]
    #[arg(long, value_delimiter = ',')]
    arch: Vec<Arch>,
}

#[derive(clap::Args)]
struct CacheArgs {
    /// Remove all of it
    #[arg(long)]
    clear: bool,
}

pub fn kernels(args: Args) -> Result<(), CliError> {
    match args.verb {
        Verb::Build(args) => build(args),
        Verb::List(args) => list(args),
        Verb::Cache(args) => show_cache(args),
        Verb::Worker => Ok(worker::serve(std::io::stdin().lock(), std::io::stdout())?),
    }
}

/// Multiprocessors decide how work is cut, and might once decide which kernel does it: from the smallest to the largest
/// chips.
const MULTIPROCESSORS: [u32; 4] = [16, 64, 160, 304];

/// Rows of a step: more than the engine makes.
const MAX_ROWS: usize = 512;
/// Longer than any context.
const MAX_CTX: u32 = 1 << 26;

/// What the given models may need on a chip, or models of common shapes. Sorted, each once.
fn units(models: &[Model], arch: Arch) -> Result<Vec<Unit>, CliError> {
    let mut units = BTreeSet::new();
    for n_multiprocessors in MULTIPROCESSORS {
        let chip = Chip { arch, wave_size: arch.wave_size(), n_multiprocessors };
        if models.is_empty() {
            units.extend(standard_units(&chip)?);
        }
        for model in models {
            let parts: Vec<_> = model.parts().collect();
            let of_model = program_units(&model.program_shapes(&parts), MAX_ROWS, &chip);
            units.extend(of_model.map_err(|error| CliError::failed(format!("{}: {error}", model.name())))?);
        }
    }
    Ok(units.into_iter().collect())
}

/// The models, each with every type of KV cache that fits its heads.
fn open_models(names: &[String]) -> Result<Vec<Model>, CliError> {
    let mut opened = Vec::new();
    for name in names {
        let path = models::resolve(name)?;
        for kv in KvType::ALL {
            match Model::open(&path, None, MAX_CTX, kv) {
                Ok(model) => opened.push(model),
                Err(ModelError::KvHead { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(opened)
}

fn build(args: BuildArgs) -> Result<(), CliError> {
    let models = open_models(&args.model)?;
    let cancel = Arc::new(AtomicBool::new(false));
    let flag = cancel.clone();
    ctrlc::set_handler(move || flag.store(true, Ordering::Relaxed))?;
    // What was built ahead by other versions of a compiler is no substitute here.
    let options = KernelOptions { prebuilt_dirs: vec![], ..KernelOptions::of_program([]) };
    let store = match args.jobs {
        Some(jobs) => KernelStore::with_workers(options, usize::from(jobs)),
        None => KernelStore::new(options),
    };
    let archs: BTreeSet<_> = args.arch.iter().copied().collect();
    let mut failures = Vec::new();
    for arch in &archs {
        let units = units(&models, *arch)?;
        if units.is_empty() {
            return Err(CliError::failed(format!("there are no kernels for {arch}")));
        }
        match build_for(&store, *arch, &units, &args.out, &cancel) {
            Ok(()) => {}
            Err(CompileError::Cancelled) => return Err(CompileError::Cancelled.into()),
            // The others may well succeed.
            Err(error) => {
                if archs.len() > 1 {
                    eprintln!("{arch}: {}", printable(&error.to_string()));
                }
                if let CompileError::Failed { log, .. } | CompileError::Aborted { log, .. } = &error {
                    eprintln!("{}", printable(log));
                }
                failures.push(error);
            }
        }
    }
    store.notices().iter().for_each(|notice| eprintln!("note: {}", printable(notice)));
    let n_failed = failures.len();
    match failures.into_iter().next() {
        None => Ok(()),
        Some(error) if archs.len() == 1 => Err(error.into()),
        Some(error) => Err(CliError::failed(format!("{n_failed} of {} chips failed, first: {error}", archs.len()))),
    }
}

fn build_for(
    store: &KernelStore,
    arch: Arch,
    units: &[Unit],
    out: &std::path::Path,
    cancel: &AtomicBool,
) -> Result<(), CompileError> {
    let compiler = store.compiler(arch)?.name;
    // Images do not depend on the number of multiprocessors.
    let chip = Chip { arch, wave_size: arch.wave_size(), n_multiprocessors: 1 };
    let bar = ProgressBar::with_draw_target(Some(units.len() as u64), ProgressDrawTarget::stderr());
    let style = ProgressStyle::with_template("{msg} [{bar:30}] {pos}/{len} kernels {elapsed}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> "));
    bar.set_message(arch.to_string());
    if !std::io::stderr().is_terminal() {
        bar.set_draw_target(ProgressDrawTarget::hidden());
    }
    let images = store.images(&chip, units, cancel, &|prepared| bar.set_position(prepared.n_done as u64));
    bar.finish_and_clear();
    let images = images?;
    let jobs: Vec<_> = units.iter().map(|unit| Job::new(unit, &chip)).collect();
    prebuilt::write(out, &compiler, jobs.iter().zip(images.iter().map(|image| &**image)))?;
    let n_bytes: usize = images.iter().map(|image| image.len()).sum();
    eprintln!("{arch}: {} kernels, {}, by {}", units.len(), bytes(n_bytes as u64), printable(&compiler));
    Ok(())
}

/// A chip of each kind that kernels are made differently for.
const KINDS: [Arch; 3] = [Arch::Sm(90), Arch::Gfx(0x90a), Arch::Gfx(0x1100)];

fn list(args: ListArgs) -> Result<(), CliError> {
    let models = open_models(&args.model)?;
    let archs = if args.arch.is_empty() { KINDS.to_vec() } else { args.arch };
    let mut all = BTreeSet::new();
    for arch in archs {
        all.extend(units(&models, arch)?);
    }
    let mut out = std::io::stdout().lock();
    for unit in all {
        let defines: Vec<_> = unit.defines.iter().map(|(name, value)| format!("-D{name}={value}")).collect();
        writeln!(out, "{}\t{}", unit.source.file_name(), defines.join(" "))?;
    }
    Ok(out.flush()?)
}

fn show_cache(args: CacheArgs) -> Result<(), CliError> {
    let dir = cache::default_dir()
        .ok_or_else(|| CliError::failed("no home folder is known, so kernels are not kept; set XDG_CACHE_HOME"))?;
    let cache = Cache::new(dir, cache::DEFAULT_MAX_BYTES);
    let failed = |error| CliError::failed(format!("{}: {error}", cache.dir().display()));
    if args.clear {
        let was = cache.clear().map_err(failed)?;
        eprintln!("removed {} kernels, {}", was.n_images, bytes(was.n_bytes));
    }
    let usage = cache.usage().map_err(failed)?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "folder: {}", printable(&cache.dir().to_string_lossy()))?;
    writeln!(out, "kernels: {}", usage.n_images)?;
    writeln!(out, "bytes: {} (at most {})", usage.n_bytes, cache::DEFAULT_MAX_BYTES)?;
    Ok(out.flush()?)
}
