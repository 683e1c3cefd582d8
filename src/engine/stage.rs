//! Bringing parts to devices: memory first, then weights from the file. Loading a model is staging all of its parts;
//! a live change stages those that move.
//!
//! **Invariant**: staging touches nothing that is in use. Until the caller installs the result, dropping it undoes all.

use std::collections::{BTreeMap, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::devices::{Buffer, Device, DeviceError, DeviceId, KvCache, Prepared, Scratch, WeightSpec};
use crate::engine::arch::ArchError;
use crate::engine::exec::BATCH_ROWS;
use crate::engine::model::{Devices, Model};
use crate::engine::part::Part;
use crate::engine::protocol::DeviceProgress;

#[derive(Debug, Clone, thiserror::Error)]
pub enum StageError {
    #[error("cancelled")]
    Cancelled,
    #[error("{part}: {source}")]
    Device { part: String, source: DeviceError },
    #[error(transparent)]
    Arch(Arc<ArchError>),
    #[error("there is no device {0}")]
    NoDevice(DeviceId),
    #[error("a loading thread panicked (see above)")]
    Panicked,
}

/// What of a part lies on its device.
#[derive(Clone)]
pub struct PartMemory {
    pub device: DeviceId,
    /// In the order of the program's weights.
    pub weights: Vec<Buffer>,
    pub kv: Option<KvCache>,
}

/// Weights on devices. Parts that read the same tensor in the same role share its memory: a tied head and the table.
pub type Present = HashMap<(DeviceId, WeightSpec), Buffer>;

/// What to bring where.
pub struct StageOrder {
    pub parts: Vec<(Part, DeviceId)>,
    /// Devices that need new scratch memory, with all the parts that it must serve.
    pub scratch: Vec<(DeviceId, Vec<Part>)>,
    /// What is there already and may be shared.
    pub present: Present,
    /// Threads that fill weights.
    pub n_threads: usize,
}

/// All of an order, in place.
pub struct Staged {
    pub parts: Vec<(Part, PartMemory)>,
    pub scratch: BTreeMap<DeviceId, Scratch>,
    pub weight_bytes: u64,
    pub elapsed: Duration,
}

/// How far staging is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StageProgress {
    Reserved {
        bytes: u64,
    },
    /// Kernels, one device after the other.
    Prepared {
        device: DeviceId,
        prepared: Prepared,
    },
    Filled {
        done_bytes: u64,
        total_bytes: u64,
        /// In the order of their ids.
        devices: Vec<DeviceProgress>,
    },
}

/// Between two reports: some thirty a second.
const REPORT_INTERVAL: Duration = Duration::from_millis(33);

/// Allocates everything, then fills the weights from the file. A panic in it is an error: who waits for the result
/// must get one.
pub fn stage(
    model: &Model,
    devices: &Devices,
    order: &StageOrder,
    cancel: &AtomicBool,
    progress: &(dyn Fn(StageProgress) + Sync),
) -> Result<Staged, StageError> {
    catch_unwind(AssertUnwindSafe(|| stage_all(model, devices, order, cancel, progress)))
        .unwrap_or(Err(StageError::Panicked))
}

fn stage_all(
    model: &Model,
    devices: &Devices,
    order: &StageOrder,
    cancel: &AtomicBool,
    progress: &(dyn Fn(StageProgress) + Sync),
) -> Result<Staged, StageError> {
    let started = Instant::now();
    let device = |id: DeviceId| devices.get(id).ok_or(StageError::NoDevice(id));
    let mut reserved_bytes = 0;
    let mut scratch = BTreeMap::new();
    for (id, parts) in &order.scratch {
        let (slot_offsets, n_bytes) = model.slot_layout(parts);
        let buffer = device(*id)?.alloc("scratch", n_bytes);
        let buffer = buffer.map_err(|source| StageError::Device { part: "activations".into(), source })?;
        reserved_bytes += n_bytes;
        scratch.insert(*id, Scratch { buffer, slot_offsets: slot_offsets.into() });
    }
    let mut parts = Vec::with_capacity(order.parts.len());
    let mut shared = order.present.clone();
    let mut todo = vec![];
    for (part, id) in &order.parts {
        let device = device(*id)?;
        let failed = |source| StageError::Device { part: part.to_string(), source };
        let mut weights = vec![];
        for weight in &model.programs.program(*part).weights {
            let key = (*id, weight.clone());
            if let Some(buffer) = shared.get(&key) {
                weights.push(buffer.clone());
                continue;
            }
            let buffer = device.alloc_weight(weight).map_err(failed)?;
            reserved_bytes += buffer.n_bytes();
            todo.push(Fill { part: *part, device, weight, buffer: buffer.clone() });
            shared.insert(key, buffer.clone());
            weights.push(buffer);
        }
        let kv = reserve_kv(model, *part, &**device).map_err(failed)?;
        reserved_bytes += kv.iter().map(|kv| kv.k.n_bytes() + kv.v.n_bytes()).sum::<u64>();
        parts.push((*part, PartMemory { device: *id, weights, kv }));
        if cancel.load(Ordering::Relaxed) {
            return Err(StageError::Cancelled);
        }
    }
    progress(StageProgress::Reserved { bytes: reserved_bytes });
    prepare(model, devices, order, cancel, progress)?;

    let weight_bytes = todo.iter().map(|f| f.weight.file_bytes()).sum();
    fill_all(model, &todo, order.n_threads, cancel, progress)?;
    Ok(Staged { parts, scratch, weight_bytes, elapsed: started.elapsed() })
}

/// What the parts need of their new devices besides memory.
fn prepare(
    model: &Model,
    devices: &Devices,
    order: &StageOrder,
    cancel: &AtomicBool,
    progress: &(dyn Fn(StageProgress) + Sync),
) -> Result<(), StageError> {
    let mut parts_of = BTreeMap::<DeviceId, Vec<Part>>::new();
    order.parts.iter().for_each(|(part, id)| parts_of.entry(*id).or_default().push(*part));
    for (id, parts) in parts_of {
        let device = devices.get(id).ok_or(StageError::NoDevice(id))?;
        let report = |prepared| progress(StageProgress::Prepared { device: id, prepared });
        device.prepare(&model.program_shapes(&parts), BATCH_ROWS, cancel, &report).map_err(|error| match error {
            DeviceError::Stopped => StageError::Cancelled,
            source => StageError::Device { part: "kernels".into(), source },
        })?;
    }
    Ok(())
}

fn reserve_kv(model: &Model, part: Part, device: &dyn Device) -> Result<Option<KvCache>, DeviceError> {
    let Some(spec) = model.part_kv(part) else { return Ok(None) };
    let k = device.alloc("KV cache", spec.k_bytes())?;
    let v = device.alloc("KV cache", spec.v_bytes())?;
    Ok(Some(KvCache { spec, k, v }))
}

struct Fill<'a> {
    part: Part,
    device: &'a Arc<dyn Device>,
    weight: &'a WeightSpec,
    buffer: Buffer,
}

/// What is filled so far, and when that was last said.
struct Filled {
    devices: BTreeMap<DeviceId, (u64, u64)>,
    reported: Option<Instant>,
}

impl Filled {
    fn of(todo: &[Fill<'_>]) -> Filled {
        let mut devices = BTreeMap::<_, (u64, u64)>::new();
        for fill in todo {
            devices.entry(fill.device.facts().id).or_default().1 += fill.weight.file_bytes();
        }
        Filled { devices, reported: None }
    }

    /// Counts a weight; gives a report when one is due. The last one always is.
    fn add(&mut self, id: DeviceId, n_bytes: u64) -> Option<StageProgress> {
        self.devices.entry(id).or_default().0 += n_bytes;
        let sum = |pick: fn(&(u64, u64)) -> u64| self.devices.values().map(pick).sum::<u64>();
        let (done_bytes, total_bytes) = (sum(|d| d.0), sum(|d| d.1));
        if done_bytes < total_bytes && self.reported.is_some_and(|at| at.elapsed() < REPORT_INTERVAL) {
            return None;
        }
        self.reported = Some(Instant::now());
        let progress = |(id, (done, total)): (&DeviceId, &(u64, u64))| DeviceProgress {
            id: *id,
            done_bytes: *done,
            total_bytes: *total,
        };
        Some(StageProgress::Filled { done_bytes, total_bytes, devices: self.devices.iter().map(progress).collect() })
    }
}

fn fill_all(
    model: &Model,
    todo: &[Fill<'_>],
    n_threads: usize,
    cancel: &AtomicBool,
    progress: &(dyn Fn(StageProgress) + Sync),
) -> Result<(), StageError> {
    let next = AtomicUsize::new(0);
    let filled = Mutex::new(Filled::of(todo));
    let failed = AtomicBool::new(false);
    let work = || -> Result<(), StageError> {
        while let Some(fill) = todo.get(next.fetch_add(1, Ordering::Relaxed)) {
            if cancel.load(Ordering::Relaxed) {
                return Err(StageError::Cancelled);
            }
            if failed.load(Ordering::Relaxed) {
                return Ok(());
            }
            let data = model.weight_data(fill.weight).map_err(|e| StageError::Arch(Arc::new(e)))?;
            if let Err(source) = fill.device.fill_weight(&fill.buffer, fill.weight, &data) {
                failed.store(true, Ordering::Relaxed);
                return Err(StageError::Device { part: fill.part.to_string(), source });
            }
            // Reported under the lock, so that what is heard never goes back.
            let mut filled = filled.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(report) = filled.add(fill.device.facts().id, fill.weight.file_bytes()) {
                progress(report);
            }
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (1..n_threads.max(1)).map(|_| scope.spawn(work)).collect();
        let mut result = work();
        for thread in threads {
            let joined = thread.join().unwrap_or(Err(StageError::Panicked));
            result = result.and(joined);
        }
        result
    })
}
