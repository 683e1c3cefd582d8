//! Images on demand, each made once.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use super::cache::{self, Cache};
use super::error::shorten_log;
use super::pool::{self, Ended, Sharing, Worker};
use super::worker::{CompilerInfo, Reply, Request, Workshop};
use super::{CompileError, Job, KernelOptions, Key, Runner, prebuilt};
use crate::devices::Prepared;
use crate::devices::gpu::chip::{Arch, Chip};
use crate::devices::gpu::unit::Unit;

/// At most so many processes compile at a time by default.
const MAX_WORKERS: usize = 4;

/// How often waiting for another thread looks whether it is still wanted.
const POLL: Duration = Duration::from_millis(20);

/// An image that somebody has asked for.
enum Shelf {
    InWork,
    Ready(Arc<[u8]>),
}

struct Inner {
    options: KernelOptions,
    n_workers: usize,
    cache: Option<Cache>,
    shelves: Mutex<HashMap<Key, Shelf>>,
    changed: Condvar,
    compilers: Mutex<HashMap<Arch, CompilerInfo>>,
    /// For [`Runner::Here`].
    workshop: Mutex<Workshop>,
    notices: Mutex<Vec<String>>,
}

/// Where images come from. Clones share everything.
#[derive(Clone)]
pub struct KernelStore(Arc<Inner>);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What one call of [`KernelStore::images`] has undertaken to make; given up where it ends early.
struct Claim<'a> {
    inner: &'a Inner,
    keys: Vec<Key>,
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        let mut shelves = lock(&self.inner.shelves);
        for key in &self.keys {
            if let Some(Shelf::InWork) = shelves.get(key) {
                shelves.remove(key);
            }
        }
        self.inner.changed.notify_all();
    }
}

/// One call's wishes.
struct Order<'a> {
    arch: Arch,
    jobs: BTreeMap<Key, Job>,
    cancel: &'a AtomicBool,
    progress: &'a (dyn Fn(Prepared) + Sync),
}

impl KernelStore {
    pub fn new(options: KernelOptions) -> KernelStore {
        let n_cores = std::thread::available_parallelism().map_or(1, |n| n.get());
        KernelStore::with_workers(options, n_cores.min(MAX_WORKERS))
    }

    /// With so many compiling processes at a time.
    pub fn with_workers(options: KernelOptions, n_workers: usize) -> KernelStore {
        let cache = options.cache_dir.clone().map(|dir| Cache::new(dir, cache::DEFAULT_MAX_BYTES));
        KernelStore(Arc::new(Inner {
            options,
            n_workers,
            cache,
            shelves: Mutex::default(),
            changed: Condvar::new(),
            compilers: Mutex::default(),
            workshop: Mutex::default(),
            notices: Mutex::default(),
        }))
    }

    /// The images of units for a chip, in their order. `progress` may be called from any thread. May itself be called
    /// from several threads: what two of them want is made once.
    ///
    /// # Errors
    /// Of the first unit that has no image; [`CompileError::Cancelled`] when `cancel` was set.
    pub fn images(
        &self,
        chip: &Chip,
        units: &[Unit],
        cancel: &AtomicBool,
        progress: &(dyn Fn(Prepared) + Sync),
    ) -> Result<Vec<Arc<[u8]>>, CompileError> {
        let keyed: Vec<_> = units.iter().map(|unit| Job::new(unit, chip)).map(|job| (job.key(), job)).collect();
        let keys: Vec<_> = keyed.iter().map(|(key, _)| key.clone()).collect();
        let order = Order { arch: chip.arch, jobs: keyed.into_iter().collect(), cancel, progress };
        self.0.make(&order)?;
        let shelves = lock(&self.0.shelves);
        let image = |key: &Key| match shelves.get(key) {
            Some(Shelf::Ready(image)) => Ok(image.clone()),
            Some(Shelf::InWork) | None => Err(CompileError::Cancelled),
        };
        keys.iter().map(image).collect()
    }

    /// The compiler for a chip.
    ///
    /// # Errors
    /// [`CompileError::NoCompiler`]; of starting a process.
    pub fn compiler(&self, arch: Arch) -> Result<CompilerInfo, CompileError> {
        self.0.compiler(arch, &AtomicBool::new(false))
    }

    /// What did not stop anything and should be said: a cache that cannot be written, a damaged image. Each once.
    pub fn notices(&self) -> Vec<String> {
        lock(&self.0.notices).clone()
    }
}

impl Inner {
    fn make(&self, order: &Order<'_>) -> Result<(), CompileError> {
        loop {
            let claim = self.claim(order);
            self.report(order);
            self.build(order, &claim.keys)?;
            drop(claim);
            // What others have in work: they may give it up, and then it is ours.
            let mut shelves = lock(&self.shelves);
            while order.jobs.keys().any(|key| matches!(shelves.get(key), Some(Shelf::InWork))) {
                if order.cancel.load(Ordering::Relaxed) {
                    return Err(CompileError::Cancelled);
                }
                let waited = self.changed.wait_timeout(shelves, POLL).unwrap_or_else(PoisonError::into_inner);
                shelves = waited.0;
            }
            let is_complete = order.jobs.keys().all(|key| shelves.contains_key(key));
            drop(shelves);
            if is_complete {
                self.report(order);
                return Ok(());
            }
        }
    }

    /// Takes on what nobody has made or is making.
    fn claim(&self, order: &Order<'_>) -> Claim<'_> {
        let mut shelves = lock(&self.shelves);
        let keys: Vec<_> = order.jobs.keys().filter(|key| !shelves.contains_key(key)).cloned().collect();
        keys.iter().for_each(|key| drop(shelves.insert(key.clone(), Shelf::InWork)));
        Claim { inner: self, keys }
    }

    fn build(&self, order: &Order<'_>, keys: &[Key]) -> Result<(), CompileError> {
        let jobs = keys.iter().filter_map(|key| order.jobs.get(key));
        let missing: Vec<_> = jobs.filter(|job| !self.take_prebuilt(order, job)).collect();
        if missing.is_empty() {
            return Ok(());
        }
        let compiler = self.compiler(order.arch, order.cancel)?;
        let missing: Vec<_> = missing.into_iter().filter(|job| !self.take_cached(order, job, &compiler)).collect();
        if missing.is_empty() {
            return Ok(());
        }
        let compiled = self.compile(order, &missing, &compiler);
        if let Some(cache) = &self.cache
            && let Err(error) = cache.trim()
        {
            self.notice(format!("the kernel cache {} cannot be tidied: {error}", cache.dir().display()));
        }
        compiled
    }

    fn take_prebuilt(&self, order: &Order<'_>, job: &Job) -> bool {
        for dir in &self.options.prebuilt_dirs {
            match prebuilt::find(dir, job) {
                Ok(Some(image)) => {
                    self.publish(order, job, image);
                    return true;
                }
                Ok(None) => {}
                Err(reason) => self.notice(format!("{reason}; it is passed over")),
            }
        }
        false
    }

    fn take_cached(&self, order: &Order<'_>, job: &Job, compiler: &CompilerInfo) -> bool {
        let cached = self.cache.as_ref().and_then(|cache| cache.get(&job.key().with_compiler(&compiler.identity)));
        let is_there = cached.is_some();
        if let Some(image) = cached {
            self.publish(order, job, image);
        }
        is_there
    }

    fn compile(&self, order: &Order<'_>, jobs: &[&Job], compiler: &CompilerInfo) -> Result<(), CompileError> {
        // The compiler may have gone since, or may refuse.
        let refusal = Mutex::new(None);
        let done = |index: usize, reply: Reply| {
            let Some(job) = jobs.get(index) else { return Err(()) };
            let image = self.image_of(reply, job, order.arch, compiler);
            let image = image.map_err(|error| {
                lock(&refusal).get_or_insert(error);
            })?;
            self.keep(job, compiler, &image);
            self.publish(order, job, image);
            Ok(())
        };
        let ended = match &self.options.runner {
            Runner::Child(program) => {
                let time_limit = self.options.time_limit;
                let sharing = Sharing { program, n_workers: self.n_workers, time_limit };
                pool::compile(sharing, jobs, order.cancel, &done)
            }
            Runner::Here => self.compile_here(jobs, order.cancel, &done),
        };
        if let Some(error) = lock(&refusal).take() {
            return Err(error);
        }
        ended.map_err(|(index, ended)| match jobs.get(index) {
            Some(job) => self.error_of(ended, job, order.arch, compiler),
            None => CompileError::Cancelled,
        })
    }

    fn compile_here(
        &self,
        jobs: &[&Job],
        cancel: &AtomicBool,
        done: &dyn Fn(usize, Reply) -> Result<(), ()>,
    ) -> Result<(), (usize, Ended)> {
        for (index, job) in jobs.iter().enumerate() {
            if cancel.load(Ordering::Relaxed) {
                return Err((index, Ended::Cancelled));
            }
            let request = Request::Compile { job: (*job).clone(), limit_ms: 0 };
            // Not all compilers may be called from two threads at once.
            let reply = lock(&self.workshop).answer(&request);
            if done(index, reply).is_err() {
                break;
            }
        }
        Ok(())
    }

    fn image_of(&self, reply: Reply, job: &Job, arch: Arch, compiler: &CompilerInfo) -> Result<Vec<u8>, CompileError> {
        let (unit, name) = (job.unit.clone(), compiler.name.clone());
        match reply {
            Reply::Image { base64 } => BASE64_STANDARD.decode(base64).map_err(|error| CompileError::Io {
                what: format!("the compiling process answered nonsense for {unit}"),
                message: error.to_string(),
            }),
            Reply::Refused { log } => {
                let log_file = self.keep_log(job, compiler, &log);
                Err(CompileError::Failed { unit, arch, compiler: name, log: shorten_log(&log), log_file })
            }
            Reply::NoCompiler { why, looked, hint } => Err(Reply::no_compiler(arch, why, looked, hint)),
            Reply::Compiler(_) => Err(unasked(&job.unit)),
        }
    }

    fn error_of(&self, ended: Ended, job: &Job, arch: Arch, compiler: &CompilerInfo) -> CompileError {
        let (unit, name) = (job.unit.clone(), compiler.name.clone());
        match ended {
            Ended::Cancelled => CompileError::Cancelled,
            Ended::TimedOut => CompileError::TimedOut { unit, arch, compiler: name, limit: self.options.time_limit },
            Ended::Died { how, log } => {
                let log_file = self.keep_log(job, compiler, &log);
                CompileError::Aborted { unit, arch, compiler: name, how, log: shorten_log(&log), log_file }
            }
            Ended::Io(error) => error,
        }
    }

    fn compiler(&self, arch: Arch, cancel: &AtomicBool) -> Result<CompilerInfo, CompileError> {
        if let Some(known) = lock(&self.compilers).get(&arch) {
            return Ok(known.clone());
        }
        let request = Request::Identify { arch: arch.to_string() };
        let reply = match &self.options.runner {
            Runner::Here => Ok(lock(&self.workshop).answer(&request)),
            Runner::Child(program) => Worker::start(program)?
                .ask(&request, KernelOptions::DEFAULT_TIME_LIMIT, &|| cancel.load(Ordering::Relaxed)),
        };
        let what = || format!("cannot load the compiler for {arch}");
        match reply {
            Ok(Reply::Compiler(info)) => {
                lock(&self.compilers).insert(arch, info.clone());
                Ok(info)
            }
            Ok(Reply::NoCompiler { why, looked, hint }) => Err(Reply::no_compiler(arch, why, looked, hint)),
            Ok(Reply::Refused { log }) => Err(CompileError::Io { what: what(), message: log }),
            Ok(Reply::Image { .. }) => Err(unasked("nothing")),
            Err(Ended::Cancelled) => Err(CompileError::Cancelled),
            Err(Ended::TimedOut) => Err(CompileError::Io { what: what(), message: "it does not answer".to_owned() }),
            Err(Ended::Died { how, log }) => {
                let message = format!("the process ended ({how}): {}", shorten_log(&log));
                Err(CompileError::Io { what: what(), message })
            }
            Err(Ended::Io(error)) => Err(error),
        }
    }

    fn keep(&self, job: &Job, compiler: &CompilerInfo, image: &[u8]) {
        let Some(cache) = &self.cache else { return };
        if let Err(error) = cache.put(&job.key().with_compiler(&compiler.identity), image) {
            let dir = cache.dir().display();
            self.notice(format!("kernels are not kept: the cache {dir} cannot be written: {error}"));
        }
    }

    fn keep_log(&self, job: &Job, compiler: &CompilerInfo, log: &str) -> Option<PathBuf> {
        let name = &compiler.name;
        let text = format!("{name}: {} {} {}\n\n{log}\n", job.unit, job.arch, job.options.join(" "));
        self.cache.as_ref()?.put_log(&job.key().with_compiler(&compiler.identity), &text).ok()
    }

    fn publish(&self, order: &Order<'_>, job: &Job, image: Vec<u8>) {
        lock(&self.shelves).insert(job.key(), Shelf::Ready(image.into()));
        self.changed.notify_all();
        self.report(order);
    }

    fn report(&self, order: &Order<'_>) {
        let shelves = lock(&self.shelves);
        let n_done = order.jobs.keys().filter(|key| matches!(shelves.get(key), Some(Shelf::Ready(_)))).count();
        drop(shelves);
        (order.progress)(Prepared { n_done, n_total: order.jobs.len() });
    }

    fn notice(&self, text: String) {
        let mut notices = lock(&self.notices);
        if !notices.contains(&text) {
            tracing::warn!("{text}");
            notices.push(text);
        }
    }
}

fn unasked(unit: &str) -> CompileError {
    let message = format!("it was asked for {unit}");
    CompileError::Io { what: "the compiling process answered something else".to_owned(), message }
}

#[cfg(test)]
mod tests;
