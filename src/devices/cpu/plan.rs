//! The tasks of one run, with barriers where they are needed, and the working memory that they take.
//!
//! Tasks over rows give each thread its own rows, the same in every such task, so that one may follow another without
//! a barrier. Every other task is shared freely among the threads and stands between barriers.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::sync::{Mutex, PoisonError};

use super::activation::GatedActivation;
use super::attention::Attention;
use super::bind::View;
use super::embed::{Embed, TakeOutputs};
use super::kv::KvAppend;
use super::matmul::RowPair;
use super::memory::ALIGN;
use super::moe::{ExpertCombine, ExpertMatMul, Route};
use super::norm::RmsNorm;
use super::pool::Worker;
use super::product::{MatMul, Prepare};
use super::rope::{Rope, RopeTable};
use super::simd::Simd;

/// One op, or a phase of one, with its memory.
pub enum Kernel<'a> {
    Embed(Embed<'a>),
    TakeOutputs(TakeOutputs),
    RmsNorm(RmsNorm<'a>),
    Prepare(Prepare),
    MatMul(MatMul<'a>),
    RopeTable(RopeTable<'a>),
    Rope(Rope),
    KvAppend(KvAppend),
    Attention(Attention),
    GatedActivation(GatedActivation),
    Route(Route<'a>),
    ExpertMatMul(ExpertMatMul<'a>),
    ExpertCombine(ExpertCombine),
}

/// Who does what of a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    /// So many rows, each thread its own share.
    Rows(usize),
    /// All threads together.
    All,
}

struct Task<'a> {
    kernel: Kernel<'a>,
    scope: Scope,
    barrier_before: bool,
}

/// Bytes of working memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Needs {
    /// Rows of the longest step: the list of all rows.
    pub n_rows: usize,
    /// Rope tables: they live as long as the run.
    pub table_bytes: usize,
    /// Shared by the threads within one op.
    pub shared_bytes: usize,
    /// Of each thread, within one task.
    pub thread_bytes: usize,
}

impl Needs {
    pub fn grow(&mut self, other: Needs) {
        self.n_rows = self.n_rows.max(other.n_rows);
        self.table_bytes = self.table_bytes.max(other.table_bytes);
        self.shared_bytes = self.shared_bytes.max(other.shared_bytes);
        self.thread_bytes = self.thread_bytes.max(other.thread_bytes);
    }

    fn list_bytes(&self) -> usize {
        (self.n_rows * size_of::<RowPair>()).next_multiple_of(ALIGN)
    }

    /// All regions together.
    pub fn total_bytes(&self, n_threads: usize) -> usize {
        self.list_bytes()
            + self.table_bytes.next_multiple_of(ALIGN)
            + self.shared_bytes.next_multiple_of(ALIGN)
            + self.thread_bytes.next_multiple_of(ALIGN) * n_threads
    }
}

/// The tasks of all programs of a run.
#[derive(Default)]
pub struct Plan<'a> {
    tasks: Vec<Task<'a>>,
    /// Index of each program's first task.
    programs: Vec<usize>,
    /// What tasks over rows have touched since the last barrier; `None` after a task that is not over rows.
    touched: Option<Vec<View>>,
    pub needs: Needs,
    pub tables: Vec<super::rope::TableKey<'a>>,
}

impl<'a> Plan<'a> {
    pub fn start_program(&mut self) {
        self.programs.push(self.tasks.len());
        // There is a barrier between programs.
        self.touched = Some(vec![]);
    }

    /// Adds a task that touches `views` row by row (`Scope::Rows`) or as it likes.
    pub fn push(&mut self, kernel: Kernel<'a>, scope: Scope, views: &[View]) {
        let is_first = self.programs.last() == Some(&self.tasks.len());
        let rows_kept_apart = match (&self.touched, scope) {
            (Some(touched), Scope::Rows(_)) => touched.iter().all(|t| views.iter().all(|v| t.keeps_rows_apart(*v))),
            _ => false,
        };
        let barrier_before = !is_first && !rows_kept_apart;
        self.touched = match (self.touched.take(), scope) {
            (Some(mut touched), Scope::Rows(_)) if !barrier_before => {
                touched.extend_from_slice(views);
                Some(touched)
            }
            (_, Scope::Rows(_)) => Some(views.to_vec()),
            (_, Scope::All) => None,
        };
        self.tasks.push(Task { kernel, scope, barrier_before });
    }

    /// What each thread of the pool does.
    ///
    /// # Safety
    /// The memory that the plan was bound to is still borrowed, and `context` has what [`Plan::needs`] says.
    pub unsafe fn execute(&self, context: &Context<'_>, worker: &Worker<'_>, stop: &AtomicBool) {
        for (program, &start) in self.programs.iter().enumerate() {
            let end = self.programs.get(program + 1).copied().unwrap_or(self.tasks.len());
            // Thread 0 decides before the barrier, all read after it. The number keeps a thread that reads late, when
            // thread 0 has already decided about the next program, from stopping alone.
            if worker.index() == 0 && stop.load(Relaxed) {
                context.stopped_at.fetch_min(program, Relaxed);
            }
            worker.barrier();
            if context.stopped_at.load(Relaxed) <= program {
                return;
            }
            for task in &self.tasks[start..end] {
                if task.barrier_before {
                    worker.barrier();
                }
                match task.scope {
                    Scope::Rows(n_rows) => {
                        for row in worker.share(n_rows) {
                            // SAFETY: the caller's contract; rows are divided, barriers stand where they meet.
                            unsafe { task.kernel.run_row(context, worker, row) };
                        }
                    }
                    // SAFETY: the caller's contract; there is a barrier before and after.
                    Scope::All => unsafe { task.kernel.run_all(context, worker) },
                }
            }
        }
    }
}

impl Kernel<'_> {
    /// # Safety
    /// Each row by one thread; memory as for [`Plan::execute`].
    unsafe fn run_row(&self, context: &Context<'_>, worker: &Worker<'_>, row: usize) {
        // SAFETY: the caller's contract.
        unsafe {
            match self {
                Kernel::Embed(op) => op.row(context, row),
                Kernel::TakeOutputs(op) => op.row(row),
                Kernel::RmsNorm(op) => op.row(context.simd, row),
                Kernel::Prepare(op) => op.row(context, row),
                Kernel::RopeTable(op) => op.row(context, row),
                Kernel::Rope(op) => op.row(context, row),
                Kernel::KvAppend(op) => op.row(row),
                Kernel::GatedActivation(op) => op.row(context.simd, row),
                Kernel::Route(op) => op.row(context, worker, row),
                Kernel::ExpertCombine(op) => op.row(context.simd, row),
                Kernel::MatMul(_) | Kernel::Attention(_) | Kernel::ExpertMatMul(_) => unreachable!("not over rows"),
            }
        }
    }

    /// # Safety
    /// By all threads, between barriers; memory as for [`Plan::execute`].
    unsafe fn run_all(&self, context: &Context<'_>, worker: &Worker<'_>) {
        // SAFETY: the caller's contract.
        unsafe {
            match self {
                Kernel::MatMul(op) => op.run(context, worker),
                Kernel::Attention(op) => op.run(context, worker),
                Kernel::ExpertMatMul(op) => op.run(context, worker),
                _ => unreachable!("over rows"),
            }
        }
    }
}

/// What all threads of a run share.
pub struct Context<'a> {
    pub simd: Simd,
    rows: &'a [RowPair],
    tables: *mut u8,
    shared: *mut u8,
    threads: *mut u8,
    thread_bytes: usize,
    /// Number of the program before which the run stopped.
    stopped_at: AtomicUsize,
    /// What went wrong inside a kernel.
    failure: Mutex<Option<String>>,
}

// SAFETY: the pointers lead into working memory that is borrowed for the run; `Plan` keeps threads apart.
unsafe impl Sync for Context<'_> {}

impl<'a> Context<'a> {
    /// Divides `memory` among the regions.
    ///
    /// # Safety
    /// `memory` is good for `needs.total_bytes(n_threads)`, aligned to [`ALIGN`], for `'a`, and nobody else's.
    pub unsafe fn new(simd: Simd, memory: *mut u8, needs: Needs) -> Context<'a> {
        // SAFETY: the regions follow one another inside `memory`.
        unsafe {
            let list = memory.cast::<RowPair>();
            for i in 0..needs.n_rows {
                list.add(i).write(RowPair { input: i as u32, output: i as u32 });
            }
            let tables = memory.add(needs.list_bytes());
            let shared = tables.add(needs.table_bytes.next_multiple_of(ALIGN));
            let threads = shared.add(needs.shared_bytes.next_multiple_of(ALIGN));
            Context {
                simd,
                rows: std::slice::from_raw_parts(list, needs.n_rows),
                tables,
                shared,
                threads,
                thread_bytes: needs.thread_bytes.next_multiple_of(ALIGN),
                stopped_at: AtomicUsize::new(usize::MAX),
                failure: Mutex::new(None),
            }
        }
    }

    /// Rows `0..n`, each to itself.
    pub fn rows(&self, n: usize) -> &[RowPair] {
        &self.rows[..n]
    }

    pub fn tables(&self) -> *mut f32 {
        self.tables.cast()
    }

    /// Aligned to [`ALIGN`].
    pub fn shared(&self) -> *mut u8 {
        self.shared
    }

    /// The thread's own memory, aligned to [`ALIGN`].
    pub fn of_thread(&self, worker: &Worker<'_>) -> *mut u8 {
        // SAFETY: one part for each thread of the pool.
        unsafe { self.threads.add(worker.index() * self.thread_bytes) }
    }

    /// Makes the run fail; the first message stays.
    pub fn fail(&self, message: impl FnOnce() -> String) {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(message);
    }

    pub fn is_stopped(&self) -> bool {
        self.stopped_at.load(Relaxed) != usize::MAX
    }

    pub fn into_failure(self) -> Option<String> {
        self.failure.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}
