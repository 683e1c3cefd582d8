//! The CPU as a device.
//!
//! [`CpuDevice`] owns a pool of threads and a ledger of its memory. A run binds every op to checked memory
//! ([`bind`]), makes one list of tasks of it ([`plan`]) and walks through it with all threads at once. One file for
//! each family of ops.
//!
//! A row's result has the same bits whatever else is in its step and however many threads there are.

mod activation;
#[cfg(target_arch = "aarch64")]
mod arm_asm;
mod attention;
mod bind;
mod embed;
mod kv;
pub mod matmul;
pub mod memory;
mod moe;
mod norm;
mod plan;
pub mod pool;
mod product;
mod rope;
pub mod simd;
mod vector;

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::op::WeightRole;
use super::{
    BoundProgram, Buffer, Device, DeviceError, DeviceFacts, DeviceId, MemoryInfo, Op, Program, ProgramShape, Slot,
    Step, WeightRef, WeightSpec,
};
use bind::{Binder, Borrows, Content, Stored, slot_width};
use matmul::{ActivationFormat, MatrixLayout};
use memory::{Budget, Ledger, Memory};
use plan::{Context, Needs, Plan};
use pool::Pool;
use simd::Simd;

/// Transfers of up to so many bytes are not slowed down to a simulated link's rate: they are latency, not rate.
const UNPACED_BYTES: usize = 64 * 1024;

/// What a CPU device is made of.
#[derive(Clone, Debug, PartialEq)]
pub struct CpuConfig {
    pub id: DeviceId,
    pub name: String,
    /// Stands for another device: its memory is `memory_bytes` and transfers take `link_bytes_per_s`.
    pub simulated: bool,
    pub n_threads: usize,
    /// At most so much memory; `None`: what the host has.
    pub memory_bytes: Option<u64>,
    /// What matrices of block formats are multiplied with.
    pub activations: ActivationFormat,
    pub memory_bytes_per_s: Option<u64>,
    pub link_bytes_per_s: Option<u64>,
}

/// A device that computes on the CPU.
pub struct CpuDevice {
    facts: DeviceFacts,
    activations: ActivationFormat,
    simd: Simd,
    ledger: Arc<Ledger>,
    pool: Pool,
    /// Working memory of a run, kept for the next one.
    work: Mutex<Option<Memory>>,
}

impl CpuDevice {
    /// # Errors
    /// When the operating system starts no more threads.
    pub fn new(config: CpuConfig) -> Result<CpuDevice, DeviceError> {
        CpuDevice::with_simd(config, Simd::detect())
    }

    /// As [`CpuDevice::new`], with other instructions than the best.
    ///
    /// # Errors
    /// Also when this machine does not have them.
    pub fn with_simd(config: CpuConfig, simd: Simd) -> Result<CpuDevice, DeviceError> {
        let CpuConfig { id, name, simulated, n_threads, memory_bytes, activations, .. } = config;
        if !simd.is_available() {
            return Err(DeviceError::Unsupported { device: id, message: format!("this machine has no {simd:?}") });
        }
        let pool = Pool::new(n_threads).map_err(|error| DeviceError::Failed {
            device: id,
            message: format!("starting {n_threads} threads: {error}; use fewer (--threads)"),
        })?;
        let budget = match memory_bytes {
            Some(bytes) if simulated => Budget::Fixed(bytes),
            limit_bytes => Budget::Host { limit_bytes },
        };
        let facts = DeviceFacts {
            id,
            name,
            simulated,
            n_threads: pool.n_threads(),
            memory_bytes_per_s: config.memory_bytes_per_s,
            link_bytes_per_s: config.link_bytes_per_s,
            gpu: None,
        };
        Ok(CpuDevice { facts, activations, simd, ledger: Ledger::new(id, budget), pool, work: Mutex::new(None) })
    }

    fn id(&self) -> DeviceId {
        self.facts.id
    }

    fn unsupported(&self, message: String) -> DeviceError {
        DeviceError::Unsupported { device: self.id(), message }
    }

    fn buffer(&self, memory: Memory, content: Content) -> Buffer {
        Buffer::new(self.id(), memory.n_bytes() as u64, Arc::new(Stored { memory, content }))
    }

    /// Waits as long as a simulated link would have taken longer than the transfer that began at `start`.
    fn pace(&self, start: Instant, n_bytes: usize) {
        let Some(rate) = self.facts.link_bytes_per_s.filter(|&rate| rate > 0) else { return };
        if self.facts.simulated && n_bytes > UNPACED_BYTES {
            let needed = Duration::from_secs_f64(n_bytes as f64 / rate as f64);
            std::thread::sleep(needed.saturating_sub(start.elapsed()));
        }
    }

    fn bind_op<'a>(&self, binder: &Binder<'a>, plan: &mut Plan<'a>, op: &'a Op) -> Result<(), DeviceError> {
        match op {
            Op::Embed { table, n_embd, out } => embed::Embed::bind(binder, plan, *table, *n_embd, *out),
            Op::TakeOutputs { x, width, out } => embed::TakeOutputs::bind(binder, plan, *x, *width, *out),
            Op::RmsNorm { x, weight, width, n_groups, eps, out } => {
                norm::RmsNorm::bind(binder, plan, *x, *weight, (*width, *n_groups), *eps, *out)
            }
            Op::MatMul { x, n_in, projections } => {
                product::MatMul::bind(binder, plan, *x, *n_in, projections, self.activations)
            }
            Op::Rope { x, n_head, head_dim, n_rot, pairing, frequencies, factors } => {
                rope::Rope::bind(binder, plan, *x, (*n_head, *head_dim, *n_rot), *pairing, frequencies, *factors)
            }
            Op::KvAppend { k, v } => kv::KvAppend::bind(binder, plan, *k, *v),
            Op::Attention { q, n_head, scale, out } => {
                attention::Attention::bind(binder, plan, *q, *n_head, *scale, *out, self.facts.n_threads)
            }
            Op::GatedActivation { gate, up, activation, width, out } => {
                activation::GatedActivation::bind(binder, plan, (*gate, *up), *activation, *width, *out)
            }
            Op::Route { .. } => moe::Route::bind(binder, plan, op),
            Op::ExpertMatMul { .. } => moe::ExpertMatMul::bind(binder, plan, op, self.activations),
            Op::ExpertCombine { x, weights, width, n_used, add, out } => {
                moe::ExpertCombine::bind(binder, plan, (*x, *weights), (*width, *n_used), (*add, *out))
            }
        }
    }

    /// What binding `op` will need, without its memory.
    fn needs(&self, program: &Program, op: &Op, n_rows: usize) -> Needs {
        let format = |weight: WeightRef| {
            let layout = program.weights.get(usize::from(weight.0)).and_then(MatrixLayout::of);
            layout.map(|layout| layout.input_format(self.activations))
        };
        match op {
            Op::MatMul { n_in, projections, .. } => {
                product::needs(projections.iter().filter_map(|p| format(p.weight)), *n_in as usize, n_rows)
            }
            Op::ExpertMatMul { x_per_expert, n_in, n_expert, n_used, projections, .. } => {
                let formats = projections.iter().filter_map(|p| format(p.weight));
                let (n_expert, n_used) = (*n_expert as usize, *n_used as usize);
                moe::expert_needs(formats, *n_in as usize, n_expert, n_used, *x_per_expert, n_rows)
            }
            Op::Route { n_expert, .. } => moe::route_needs(*n_expert as usize),
            Op::Attention { q, n_head, out, .. } => {
                let n_head = (*n_head as usize).max(1);
                let dim = |slot: Slot| slot_width(program, slot).map_or(attention::USUAL_HEAD_DIM, |n| n / n_head);
                let dims = (dim(*q), dim(*out));
                let n_kv_head = program.ops.iter().find_map(|op| match op {
                    Op::KvAppend { k, .. } => Some(slot_width(program, *k)? / dims.0.max(1)),
                    _ => None,
                });
                let n_kv_head = n_kv_head.filter(|&n| n > 0 && n_head.is_multiple_of(n)).unwrap_or(n_head);
                attention::needs(dims, (n_head, n_kv_head), n_rows, self.facts.n_threads)
            }
            Op::Embed { .. }
            | Op::TakeOutputs { .. }
            | Op::RmsNorm { .. }
            | Op::Rope { .. }
            | Op::KvAppend { .. }
            | Op::GatedActivation { .. }
            | Op::ExpertCombine { .. } => Needs::default(),
        }
    }

    /// Makes sure of the run's working memory.
    fn reserve<'m>(&self, work: &'m mut Option<Memory>, n_bytes: usize) -> Result<&'m Memory, DeviceError> {
        if work.as_ref().is_none_or(|memory| memory.n_bytes() < n_bytes) {
            // The old one goes first: never both at a time.
            *work = None;
            *work = Some(self.ledger.alloc("working memory", n_bytes as u64)?);
        }
        work.as_ref().ok_or_else(|| DeviceError::Failed { device: self.id(), message: "no working memory".into() })
    }
}

impl Device for CpuDevice {
    fn facts(&self) -> &DeviceFacts {
        &self.facts
    }

    fn memory(&self) -> MemoryInfo {
        self.ledger.info()
    }

    fn weight_bytes(&self, weight: &WeightSpec) -> u64 {
        match weight.role {
            WeightRole::Table => weight.file_bytes(),
            WeightRole::Vector => weight.n_elements().saturating_mul(4),
            WeightRole::Matrix => MatrixLayout::of(weight).map_or(0, |layout| layout.packed_bytes()),
        }
    }

    fn work_bytes(&self, programs: &[ProgramShape<'_>], max_rows: usize) -> u64 {
        let mut needs = Needs { n_rows: max_rows, ..Needs::default() };
        let programs: Vec<_> = programs.iter().map(|shape| shape.program).collect();
        for program in &programs {
            program.ops.iter().for_each(|op| needs.grow(self.needs(program, op, max_rows)));
        }
        needs.table_bytes = rope::table_bytes(&programs, max_rows);
        needs.total_bytes(self.facts.n_threads) as u64
    }

    fn alloc_weight(&self, weight: &WeightSpec) -> Result<Buffer, DeviceError> {
        let n_elements = weight.check_shape(self.id())?;
        let content = match weight.role {
            WeightRole::Matrix => Content::Matrix(MatrixLayout::of(weight).ok_or_else(|| {
                let WeightSpec { name, dtype, shape, .. } = weight;
                self.unsupported(format!("weight {name}: {dtype} {shape:?} cannot be multiplied with"))
            })?),
            WeightRole::Table => {
                let n_embd = weight.shape[0];
                let n_vocab = (n_elements / n_embd) as usize;
                Content::Table { dtype: weight.dtype, n_embd: n_embd as usize, n_vocab }
            }
            WeightRole::Vector => Content::Vector { n: n_elements as usize },
        };
        let memory = self.ledger.alloc(&weight.name, self.weight_bytes(weight))?;
        Ok(self.buffer(memory, content))
    }

    fn fill_weight(&self, to: &Buffer, weight: &WeightSpec, data: &[u8]) -> Result<(), DeviceError> {
        let start = Instant::now();
        let file_bytes = weight.check_shape(self.id()).map(|_| weight.file_bytes())?;
        if file_bytes != data.len() as u64 {
            let (name, n) = (&weight.name, data.len());
            return Err(self.unsupported(format!("weight {name}: {n} bytes given, its shape has {file_bytes}")));
        }
        let stored: &Stored = to.storage(self.id())?;
        let mut guard = stored.memory.write()?;
        let bytes = guard.bytes_mut();
        let mismatch = || self.unsupported(format!("weight {}: the buffer was made for another one", weight.name));
        match (weight.role, &stored.content) {
            (WeightRole::Matrix, Content::Matrix(layout)) if MatrixLayout::of(weight) == Some(*layout) => {
                layout.pack(data, bytes);
            }
            (WeightRole::Table, Content::Table { dtype, .. })
                if *dtype == weight.dtype && bytes.len() == data.len() =>
            {
                bytes.copy_from_slice(data);
            }
            (WeightRole::Vector, Content::Vector { n }) if *n as u64 == weight.n_elements() => {
                self.fill_vector(weight, data, bytes)?;
            }
            _ => return Err(mismatch()),
        }
        drop(guard);
        self.pace(start, data.len());
        Ok(())
    }

    fn alloc(&self, what: &'static str, n_bytes: u64) -> Result<Buffer, DeviceError> {
        Ok(self.buffer(self.ledger.alloc(what, n_bytes)?, Content::Plain))
    }

    fn upload(&self, to: &Buffer, offset: u64, data: &[u8]) -> Result<(), DeviceError> {
        let start = Instant::now();
        let stored: &Stored = to.storage(self.id())?;
        let Content::Plain = stored.content else {
            return Err(self.unsupported("a weight is loaded, not uploaded to".into()));
        };
        let range = self.range("an upload", offset, data.len(), &stored.memory)?;
        stored.memory.write()?.bytes_mut()[range].copy_from_slice(data);
        self.pace(start, data.len());
        Ok(())
    }

    fn download(&self, from: &Buffer, offset: u64, data: &mut [u8]) -> Result<(), DeviceError> {
        let start = Instant::now();
        let stored: &Stored = from.storage(self.id())?;
        let range = self.range("a download", offset, data.len(), &stored.memory)?;
        data.copy_from_slice(&stored.memory.read()?.bytes()[range]);
        self.pace(start, data.len());
        Ok(())
    }

    fn trim(&self) {
        *self.work.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn run(&self, work: &[BoundProgram<'_>], step: &Step, stop: &AtomicBool) -> Result<(), DeviceError> {
        if stop.load(Relaxed) {
            return Err(DeviceError::Stopped);
        }
        let failed = |message| DeviceError::Failed { device: self.id(), message };
        // Held for the whole run: the working memory is this run's.
        let mut working = self.work.lock().unwrap_or_else(PoisonError::into_inner);
        let borrows = Borrows::take(self.id(), work)?;
        let mut plan = Plan::default();
        plan.needs.n_rows = step.tokens.len();
        for (index, bound) in work.iter().enumerate() {
            let binder = Binder::new(self.id(), bound, &borrows, index, step)?;
            plan.start_program();
            for op in &bound.program.ops {
                self.bind_op(&binder, &mut plan, op)?;
            }
        }
        let memory = self.reserve(&mut working, plan.needs.total_bytes(self.facts.n_threads))?.write()?;
        // SAFETY: `memory` has the bytes that the plan needs and is this run's until it ends.
        let context = unsafe { Context::new(self.simd, memory.pointer(), plan.needs) };
        self.pool
            .run(&|worker| {
                // SAFETY: `borrows` and `memory` outlive the run.
                unsafe { plan.execute(&context, worker, stop) }
            })
            .map_err(|panicked| failed(panicked.to_string()))?;
        if context.is_stopped() {
            return Err(DeviceError::Stopped);
        }
        context.into_failure().map_or(Ok(()), |message| Err(failed(message)))
    }
}

impl CpuDevice {
    /// F32 values of a vector in any type.
    fn fill_vector(&self, weight: &WeightSpec, data: &[u8], bytes: &mut [u8]) -> Result<(), DeviceError> {
        let mut values = vec![0.0f32; bytes.len() / 4];
        let unsuitable = |error| self.unsupported(format!("weight {}: {error}", weight.name));
        weight.dtype.dequantise(data, &mut values).map_err(unsuitable)?;
        bytes.as_chunks_mut::<4>().0.iter_mut().zip(&values).for_each(|(b, v)| *b = v.to_ne_bytes());
        Ok(())
    }

    fn range(
        &self,
        what: &'static str,
        offset: u64,
        n_bytes: usize,
        memory: &Memory,
    ) -> Result<std::ops::Range<usize>, DeviceError> {
        let buffer_bytes = memory.n_bytes() as u64;
        let end = offset.checked_add(n_bytes as u64).filter(|&end| end <= buffer_bytes);
        let outside =
            || DeviceError::OutOfRange { device: self.id(), what, offset, n_bytes: n_bytes as u64, buffer_bytes };
        let end = end.ok_or_else(outside)?;
        Ok(offset as usize..end as usize)
    }
}

#[cfg(test)]
mod tests;
