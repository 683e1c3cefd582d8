//! A device's own threads, all running the same function (SPMD): the caller is one of them.
//!
//! Between runs the threads sleep. Inside a run they meet at barriers: a short spin, because phases of a decoded
//! token take microseconds, then sleep, because other devices' threads may need the core.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long a thread at a barrier spins before it sleeps: about what waking a sleeper costs.
const SPIN: Duration = Duration::from_micros(15);

/// Threads that run one function together. Dropping the pool ends them.
pub struct Pool {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    /// Held during a run: runs follow one another.
    running: Mutex<()>,
}

/// A thread of the pool panicked; its message.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("a compute thread panicked: {0}")]
pub struct Panicked(pub String);

/// One thread inside [`Pool::run`].
pub struct Worker<'a> {
    index: usize,
    shared: &'a Shared,
    /// How many times this thread has called [`Worker::chunks`] in this run.
    n_chunk_calls: Cell<u32>,
}

type Job = *const (dyn Fn(&Worker<'_>) + Sync);

struct Shared {
    n_threads: usize,
    state: Mutex<State>,
    /// A job is there, or the pool ends.
    start: Condvar,
    /// The last thread has finished the job.
    done: Condvar,
    barrier: Barrier,
    /// Call number of [`Worker::chunks`] in the high half, next index in the low half.
    chunk: std::sync::atomic::AtomicU64,
}

struct State {
    job: Option<JobPointer>,
    /// Number of the job; threads that have done it wait for another one.
    generation: u64,
    n_unfinished: usize,
    panic: Option<String>,
    ending: bool,
}

#[derive(Clone, Copy)]
struct JobPointer(Job);
// SAFETY: the function is `Sync`, and `Pool::run` keeps it alive until every thread has finished it.
unsafe impl Send for JobPointer {}

/// Unwinds the threads that wait at a barrier for one that panicked. Not a panic itself: prints nothing.
struct Abandoned;

struct Barrier {
    n_threads: usize,
    n_arrived: AtomicUsize,
    generation: AtomicUsize,
    n_sleeping: AtomicUsize,
    abandoned: AtomicBool,
    lock: Mutex<()>,
    wake: Condvar,
}

impl Barrier {
    fn wait(&self) {
        let generation = self.generation.load(SeqCst);
        if self.abandoned.load(SeqCst) {
            resume_unwind(Box::new(Abandoned));
        }
        if self.n_arrived.fetch_add(1, SeqCst) + 1 == self.n_threads {
            self.n_arrived.store(0, SeqCst);
            self.generation.store(generation.wrapping_add(1), SeqCst);
            self.wake_sleepers();
            return;
        }
        if !self.spin(generation) {
            self.sleep(generation);
        }
        if self.generation.load(SeqCst) == generation {
            resume_unwind(Box::new(Abandoned));
        }
    }

    fn passed(&self, generation: usize) -> bool {
        self.generation.load(Acquire) != generation || self.abandoned.load(Acquire)
    }

    fn spin(&self, generation: usize) -> bool {
        let start = Instant::now();
        loop {
            for _ in 0..16 {
                if self.passed(generation) {
                    return true;
                }
                std::hint::spin_loop();
            }
            if start.elapsed() > SPIN {
                return false;
            }
        }
    }

    fn sleep(&self, generation: usize) {
        // Sequentially consistent: either the last thread sees this sleeper, or this thread sees the new generation.
        self.n_sleeping.fetch_add(1, SeqCst);
        let mut guard = lock(&self.lock);
        while self.generation.load(SeqCst) == generation && !self.abandoned.load(SeqCst) {
            guard = self.wake.wait(guard).unwrap_or_else(PoisonError::into_inner);
        }
        drop(guard);
        self.n_sleeping.fetch_sub(1, SeqCst);
    }

    fn wake_sleepers(&self) {
        if self.n_sleeping.load(SeqCst) > 0 {
            drop(lock(&self.lock));
            self.wake.notify_all();
        }
    }

    fn abandon(&self) {
        self.abandoned.store(true, SeqCst);
        self.wake_sleepers();
    }

    /// Only when no thread is inside.
    fn reset(&self) {
        self.n_arrived.store(0, SeqCst);
        self.abandoned.store(false, SeqCst);
    }
}

/// Nothing here is left half-changed by a panic, so a poisoned lock is still good.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Pool {
    /// A pool of `n_threads` (at least 1), the caller of [`Pool::run`] included: one thread starts none.
    ///
    /// # Errors
    /// The operating system's, where it starts no more threads.
    pub fn new(n_threads: usize) -> std::io::Result<Pool> {
        let n_threads = n_threads.max(1);
        let shared = Arc::new(Shared {
            n_threads,
            state: Mutex::new(State { job: None, generation: 0, n_unfinished: 0, panic: None, ending: false }),
            start: Condvar::new(),
            done: Condvar::new(),
            barrier: Barrier {
                n_threads,
                n_arrived: AtomicUsize::new(0),
                generation: AtomicUsize::new(0),
                n_sleeping: AtomicUsize::new(0),
                abandoned: AtomicBool::new(false),
                lock: Mutex::new(()),
                wake: Condvar::new(),
            },
            chunk: Default::default(),
        });
        let mut pool = Pool { shared, threads: vec![], running: Mutex::new(()) };
        for index in 1..n_threads {
            let shared = pool.shared.clone();
            // An error drops `pool`, which ends the threads that did start.
            let thread =
                std::thread::Builder::new().name(format!("cpu-worker-{index}")).spawn(move || shared.serve(index))?;
            pool.threads.push(thread);
        }
        Ok(pool)
    }

    pub fn n_threads(&self) -> usize {
        self.shared.n_threads
    }

    /// Runs `job` on all threads at once and returns when all have finished. Not to be called from inside a job.
    ///
    /// # Errors
    /// When a thread panicked: the others are stopped at their next barrier.
    pub fn run(&self, job: &(dyn Fn(&Worker<'_>) + Sync)) -> Result<(), Panicked> {
        let _running = lock(&self.running);
        let shared = &*self.shared;
        shared.chunk.store(0, Relaxed);
        if shared.n_threads > 1 {
            // SAFETY: only the lifetime is erased; this function returns after every thread has let go of the job.
            let job: Job = unsafe { std::mem::transmute::<&(dyn Fn(&Worker<'_>) + Sync), Job>(job) };
            let mut state = lock(&shared.state);
            state.job = Some(JobPointer(job));
            state.generation += 1;
            state.n_unfinished = shared.n_threads - 1;
            drop(state);
            shared.start.notify_all();
        }
        shared.run_part(0, job);
        let mut state = lock(&shared.state);
        while state.n_unfinished > 0 {
            state = shared.done.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.job = None;
        shared.barrier.reset();
        state.panic.take().map_or(Ok(()), |message| Err(Panicked(message)))
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        lock(&self.shared.state).ending = true;
        self.shared.start.notify_all();
        for thread in self.threads.drain(..) {
            // A worker catches its job's panics, so it ends normally.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn serve(&self, index: usize) {
        let mut generation = 0;
        loop {
            let mut state = lock(&self.state);
            while !state.ending && (state.generation == generation || state.job.is_none()) {
                state = self.start.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            if state.ending {
                return;
            }
            generation = state.generation;
            let Some(JobPointer(job)) = state.job else { continue };
            drop(state);
            // SAFETY: `Pool::run` waits for `n_unfinished` to become 0 before the job's lifetime ends.
            self.run_part(index, unsafe { &*job });
            let mut state = lock(&self.state);
            state.n_unfinished -= 1;
            if state.n_unfinished == 0 {
                self.done.notify_one();
            }
        }
    }

    fn run_part(&self, index: usize, job: &(dyn Fn(&Worker<'_>) + Sync)) {
        let worker = Worker { index, shared: self, n_chunk_calls: Cell::new(0) };
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| job(&worker)))
            && !panic.is::<Abandoned>()
        {
            lock(&self.state).panic.get_or_insert(message_of(&*panic));
            self.barrier.abandon();
        }
    }
}

fn message_of(panic: &(dyn Any + Send)) -> String {
    match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(text), _) => (*text).to_owned(),
        (_, Some(text)) => text.clone(),
        _ => "unknown panic".to_owned(),
    }
}

impl Worker<'_> {
    /// `0..n_threads`
    pub fn index(&self) -> usize {
        self.index
    }

    pub fn n_threads(&self) -> usize {
        self.shared.n_threads
    }

    /// Returns when all threads have called it; what they wrote before is then visible to all.
    pub fn barrier(&self) {
        if self.shared.n_threads > 1 {
            self.shared.barrier.wait();
        }
    }

    /// This thread's part of `0..n`, the same in every call with the same `n`.
    pub fn share(&self, n: usize) -> std::ops::Range<usize> {
        let (i, of) = (self.index, self.shared.n_threads);
        (n * i / of)..(n * (i + 1) / of)
    }

    /// Calls `f` for indices of `0..n`, each on the thread that gets to it first. Every thread makes the same calls
    /// in the same order. Implies no barrier.
    pub fn chunks(&self, n: usize, mut f: impl FnMut(usize)) {
        let call = self.n_chunk_calls.get() + 1;
        self.n_chunk_calls.set(call);
        if self.shared.n_threads == 1 {
            return (0..n).for_each(f);
        }
        while let Some(index) = self.next_chunk(call, n) {
            f(index);
        }
    }

    /// One counter serves all calls: a thread leaves call `c` only when all indices of `c` are given out, so one that
    /// still is in `c` while the counter belongs to a later call knows that nothing is left.
    fn next_chunk(&self, call: u32, n: usize) -> Option<usize> {
        debug_assert!(n < u32::MAX as usize);
        let chunk = &self.shared.chunk;
        let mut seen = chunk.load(Relaxed);
        loop {
            let (seen_call, seen_next) = ((seen >> 32) as u32, seen as u32);
            let index = match seen_call.cmp(&call) {
                std::cmp::Ordering::Greater => return None,
                std::cmp::Ordering::Equal => seen_next,
                std::cmp::Ordering::Less => 0,
            };
            if index as usize >= n {
                return None;
            }
            let next = (u64::from(call) << 32) | u64::from(index + 1);
            match chunk.compare_exchange_weak(seen, next, Relaxed, Relaxed) {
                Ok(_) => return Some(index as usize),
                Err(now) => seen = now,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    #[test]
    fn every_chunk_runs_once() {
        for n_threads in 1..=4 {
            let pool = Pool::new(n_threads).unwrap();
            for n in [0, 1, 2, 7, 1000] {
                let counts: Vec<_> = (0..n).map(|_| AtomicUsize::new(0)).collect();
                let again: Vec<_> = (0..n).map(|_| AtomicUsize::new(0)).collect();
                pool.run(&|worker| {
                    worker.chunks(n, |i| _ = counts[i].fetch_add(1, Relaxed));
                    worker.chunks(0, |_| panic!("there is nothing to do"));
                    worker.chunks(n, |i| _ = again[i].fetch_add(1, Relaxed));
                })
                .unwrap();
                assert!(counts.iter().chain(&again).all(|c| c.load(Relaxed) == 1), "{n_threads} threads, {n} chunks");
            }
        }
    }

    #[test]
    fn shares_cover_everything_once() {
        let pool = Pool::new(3).unwrap();
        for n in [0, 1, 2, 3, 10, 64] {
            let total = AtomicUsize::new(0);
            pool.run(&|worker| _ = total.fetch_add(worker.share(n).len(), Relaxed)).unwrap();
            assert_eq!(total.load(Relaxed), n);
        }
    }

    /// Phases of a shared sum: any thread that passes a barrier too early sees a wrong total. More threads than
    /// cores, so sleeping and spinning both happen.
    #[test]
    fn barriers_separate_phases_under_stress() {
        for n_threads in [2, 3, 8] {
            let pool = Pool::new(n_threads).unwrap();
            for _ in 0..20 {
                let total = AtomicU64::new(0);
                pool.run(&|worker| {
                    for phase in 1..=50u64 {
                        if (phase as usize + worker.index()).is_multiple_of(13) {
                            std::thread::sleep(Duration::from_micros(60));
                        }
                        worker.chunks(n_threads * 3, |_| _ = total.fetch_add(1, Relaxed));
                        worker.barrier();
                        assert_eq!(total.load(Relaxed), phase * n_threads as u64 * 3);
                        worker.barrier();
                    }
                })
                .unwrap();
            }
        }
    }

    #[test]
    fn a_panic_is_an_error_and_the_pool_lives_on() {
        for n_threads in 1..=4 {
            let pool = Pool::new(n_threads).unwrap();
            for panicking in 0..n_threads {
                let result = pool.run(&|worker| {
                    worker.barrier();
                    assert!(worker.index() != panicking, "thread {panicking} gives up");
                    worker.barrier();
                    worker.barrier();
                });
                assert_eq!(result, Err(Panicked(format!("thread {panicking} gives up"))));
                let n_ran = AtomicUsize::new(0);
                pool.run(&|worker| {
                    worker.barrier();
                    n_ran.fetch_add(1, Relaxed);
                })
                .unwrap();
                assert_eq!(n_ran.load(Relaxed), n_threads);
            }
        }
    }

    #[test]
    fn runs_from_several_threads_follow_one_another() {
        let pool = Pool::new(2).unwrap();
        let inside = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        pool.run(&|worker| {
                            inside.fetch_add(1, SeqCst);
                            worker.barrier();
                            assert_eq!(inside.load(SeqCst), 2);
                            worker.barrier();
                            inside.fetch_sub(1, SeqCst);
                        })
                        .unwrap();
                    }
                });
            }
        });
    }
}
