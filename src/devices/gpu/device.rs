//! A GPU as a [`Device`].
//!
//! Weights keep the file's layout; vectors become F32. The context is opened when memory is first asked for: it takes
//! some tenths of a second, and a GPU that nothing is placed on needs none.

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use super::check::{Content, Stored, plain};
use super::driver::{Driver, GpuInfo};
use super::exec::{Exec, Parts, Recipe, shape_of, step_bytes};
use super::handles::{Bound, Context};
use super::images::KernelImages;
use super::kernels::Kernels;
use super::launch::units::program_units;
use super::memory::{Allocation, Ledger, Sizes};
use super::staging::{Staging, Transfers};
use crate::devices::op::WeightRole;
use crate::devices::quant::DType;
use crate::devices::{
    BoundProgram, Buffer, Device, DeviceError, DeviceFacts, DeviceId, GpuFacts, MemoryInfo, Op, Prepared, ProgramShape,
    Step, WeightSpec,
};

/// One GPU, of any vendor.
pub struct GpuDevice {
    facts: DeviceFacts,
    driver: Arc<dyn Driver>,
    info: GpuInfo,
    images: Arc<dyn KernelImages>,
    sizes: Sizes,
    recipe: Recipe,
    open: OnceLock<Open>,
    /// Held while the context is being opened.
    opening: Mutex<()>,
}

/// What there is once the context is open.
struct Open {
    // In this order they are dropped; each holds the context.
    exec: Mutex<Option<Exec>>,
    kernels: Kernels,
    transfers: Transfers,
    staging: Staging,
    ledger: Arc<Ledger>,
    /// Whether memory of these can be read directly.
    peers: Mutex<HashMap<DeviceId, bool>>,
    context: Arc<Context>,
}

impl GpuDevice {
    /// # Errors
    /// When `driver` is not of the kind of `id`.
    pub fn new(
        id: DeviceId,
        driver: Arc<dyn Driver>,
        info: GpuInfo,
        images: Arc<dyn KernelImages>,
    ) -> Result<GpuDevice, DeviceError> {
        if driver.kind() != id.kind {
            let message = format!("its driver is for {} devices", driver.kind().name());
            return Err(DeviceError::Unsupported { device: id, message });
        }
        let facts = DeviceFacts {
            id,
            name: info.name.clone(),
            simulated: false,
            n_threads: 0,
            memory_bytes_per_s: info.memory_bytes_per_s,
            link_bytes_per_s: None,
            gpu: Some(GpuFacts {
                pci: info.pci,
                arch: info.chip.arch,
                is_integrated: info.is_integrated,
                driver: driver.version(),
            }),
        };
        let (open, opening) = (OnceLock::new(), Mutex::new(()));
        let (sizes, recipe) = (Sizes::new(info.total_bytes, Allocation::Slabs), Recipe::OPS);
        Ok(GpuDevice { facts, driver, info, images, sizes, recipe, open, opening })
    }

    /// Every buffer an allocation of its own: for tools that watch what kernels touch. Takes more memory.
    pub fn with_separate_allocations(self) -> GpuDevice {
        let sizes = Sizes::new(self.info.total_bytes, Allocation::Separate);
        GpuDevice { sizes, ..self }
    }

    fn id(&self) -> DeviceId {
        self.facts.id
    }

    fn unsupported(&self, message: String) -> DeviceError {
        DeviceError::Unsupported { device: self.id(), message }
    }

    fn open(&self) -> Result<&Open, DeviceError> {
        if let Some(open) = self.open.get() {
            return Ok(open);
        }
        let _alone = lock(&self.opening);
        if let Some(open) = self.open.get() {
            return Ok(open);
        }
        let context = Context::open(self.driver.clone(), self.info.ordinal, self.id())?;
        let bound = context.bind()?;
        let open = Open {
            exec: Mutex::new(None),
            kernels: Kernels::new(self.info.chip, self.images.clone()),
            transfers: Transfers::new(bound)?,
            staging: Staging::new(bound)?,
            ledger: Ledger::new(context.clone(), self.sizes),
            peers: Mutex::default(),
            context: context.clone(),
        };
        Ok(self.open.get_or_init(|| open))
    }

    fn buffer(
        &self,
        open: &Open,
        bound: Bound<'_>,
        what: &str,
        n_bytes: u64,
        content: Content,
    ) -> Result<Buffer, DeviceError> {
        let piece = open.ledger.alloc(bound, what, n_bytes)?;
        Ok(Buffer::new(self.id(), n_bytes, Arc::new(Stored { piece, content })))
    }

    /// Copies from the memory of another device of the same driver, without the host. False: not offered, and nothing
    /// was copied.
    ///
    /// # Errors
    /// Ranges outside of the buffers; what the driver fails with.
    pub fn copy_from_peer(
        &self,
        to: &Buffer,
        to_offset: u64,
        from: &GpuDevice,
        from_buffer: &Buffer,
        from_offset: u64,
        n_bytes: u64,
    ) -> Result<bool, DeviceError> {
        let to = plain(self.id(), to)?.range("a peer copy", to_offset, n_bytes)?;
        let from_address = plain(from.id(), from_buffer)?.range("a peer copy", from_offset, n_bytes)?;
        if n_bytes == 0 {
            return Ok(true);
        }
        let (open, peer) = (self.open()?, from.open()?);
        let bound = open.context.bind()?;
        let stream = open.transfers.stream();
        if self.id() == from.id() {
            bound.call(|driver| driver.copy_on_device(to, from_address, n_bytes, stream.handle()))?;
        } else {
            if !self.can_read(open, bound, from, peer)? {
                return Ok(false);
            }
            let (to_context, to_ordinal) = open.context.peer();
            let (from_context, from_ordinal) = peer.context.peer();
            let (to, from) = ((to, to_context, to_ordinal), (from_address, from_context, from_ordinal));
            bound.call(|driver| driver.copy_peer(to, from, n_bytes, stream.handle()))?;
        }
        stream.sync(bound)?;
        Ok(true)
    }

    fn can_read(&self, open: &Open, bound: Bound<'_>, from: &GpuDevice, peer: &Open) -> Result<bool, DeviceError> {
        if self.id().kind != from.id().kind {
            return Ok(false);
        }
        let mut peers = lock(&open.peers);
        if let Some(known) = peers.get(&from.id()) {
            return Ok(*known);
        }
        let offered = bound.call(|driver| driver.enable_peer(self.info.ordinal, peer.context.peer()))?;
        peers.insert(from.id(), offered);
        Ok(offered)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Bytes of a weight's content.
fn content_bytes(weight: &WeightSpec) -> u64 {
    match weight.role {
        WeightRole::Vector => weight.n_elements().saturating_mul(4),
        WeightRole::Table | WeightRole::Matrix => weight.file_bytes(),
    }
}

impl Device for GpuDevice {
    fn facts(&self) -> &DeviceFacts {
        &self.facts
    }

    /// Nothing is free on a device that cannot be opened or is lost.
    fn memory(&self) -> MemoryInfo {
        let asked = self.open().and_then(|open| open.ledger.info(open.context.bind()?));
        asked.unwrap_or_else(|_| MemoryInfo {
            total_bytes: self.info.total_bytes,
            free_bytes: 0,
            ours_bytes: self.open.get().map_or(0, |open| open.ledger.ours_bytes()),
        })
    }

    fn weight_bytes(&self, weight: &WeightSpec) -> u64 {
        self.sizes.taken_bytes(content_bytes(weight))
    }

    fn work_bytes(&self, programs: &[ProgramShape<'_>], max_rows: usize) -> u64 {
        let mut work = 0;
        let mut constants = vec![];
        for ProgramShape { program, kv } in programs {
            let shape = shape_of(program, *kv, &self.info.chip, max_rows);
            for op in &program.ops {
                work = work.max((self.recipe.work_bytes)(op, &shape));
                if let Op::Rope { frequencies, .. } = op
                    && !constants.contains(&&frequencies.inv_freq)
                {
                    constants.push(&frequencies.inv_freq);
                }
            }
        }
        let taken_bytes = |n_bytes| self.sizes.taken_bytes(n_bytes);
        let work = if work == 0 { 0 } else { taken_bytes(work) };
        let constants: u64 = constants.iter().map(|values| taken_bytes(4 * values.len() as u64)).sum();
        work + constants + taken_bytes(step_bytes(max_rows) as u64)
    }

    fn prepare(
        &self,
        programs: &[ProgramShape<'_>],
        max_rows: usize,
        cancel: &AtomicBool,
        progress: &(dyn Fn(Prepared) + Sync),
    ) -> Result<(), DeviceError> {
        let units = program_units(programs, max_rows, &self.info.chip);
        let units = units.map_err(|error| self.unsupported(error.to_string()))?;
        let open = self.open()?;
        open.kernels.prepare(&open.context, &units, cancel, progress)
    }

    fn alloc_weight(&self, weight: &WeightSpec) -> Result<Buffer, DeviceError> {
        weight.check_shape(self.id())?;
        let open = self.open()?;
        let bound = open.context.bind()?;
        self.buffer(open, bound, &weight.name, content_bytes(weight), Content::of(weight))
    }

    fn fill_weight(&self, to: &Buffer, weight: &WeightSpec, data: &[u8]) -> Result<(), DeviceError> {
        weight.check_shape(self.id())?;
        let file_bytes = weight.file_bytes();
        if file_bytes != data.len() as u64 {
            let (name, n) = (&weight.name, data.len());
            return Err(self.unsupported(format!("weight {name}: {n} bytes given, its shape has {file_bytes}")));
        }
        let stored: &Stored = to.storage(self.id())?;
        if stored.content != Content::of(weight) {
            return Err(self.unsupported(format!("weight {}: the buffer was made for another one", weight.name)));
        }
        let open = self.open()?;
        let bound = open.context.bind()?;
        let address = stored.piece.address();
        match weight.role {
            WeightRole::Vector if weight.dtype != DType::F32 => {
                let mut values = vec![0.0f32; weight.n_elements() as usize];
                let unsuitable = |error| self.unsupported(format!("weight {}: {error}", weight.name));
                weight.dtype.dequantise(data, &mut values).map_err(unsuitable)?;
                let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_ne_bytes()).collect();
                open.staging.send(bound, address, &bytes)
            }
            WeightRole::Vector | WeightRole::Table | WeightRole::Matrix => open.staging.send(bound, address, data),
        }
    }

    fn alloc(&self, what: &'static str, n_bytes: u64) -> Result<Buffer, DeviceError> {
        let open = self.open()?;
        let bound = open.context.bind()?;
        let piece = open.ledger.alloc(bound, what, n_bytes)?;
        let stream = open.transfers.stream();
        piece.zero(bound, stream)?;
        stream.sync(bound)?;
        Ok(Buffer::new(self.id(), n_bytes, Arc::new(Stored { piece, content: Content::Plain })))
    }

    fn upload(&self, to: &Buffer, offset: u64, data: &[u8]) -> Result<(), DeviceError> {
        let stored: &Stored = to.storage(self.id())?;
        if stored.content != Content::Plain {
            return Err(self.unsupported("a weight is loaded, not uploaded to".into()));
        }
        let address = stored.piece.range("an upload", offset, data.len() as u64)?;
        let open = self.open()?;
        open.transfers.upload(open.context.bind()?, address, data)
    }

    fn download(&self, from: &Buffer, offset: u64, data: &mut [u8]) -> Result<(), DeviceError> {
        let stored: &Stored = from.storage(self.id())?;
        let address = stored.piece.range("a download", offset, data.len() as u64)?;
        let open = self.open()?;
        open.transfers.download(open.context.bind()?, address, data)
    }

    fn trim(&self) {
        if let Some(open) = self.open.get() {
            let idle = lock(&open.exec).take();
            drop(idle);
            open.staging.trim();
        }
    }

    fn run(&self, work: &[BoundProgram<'_>], step: &Step, stop: &AtomicBool) -> Result<(), DeviceError> {
        if stop.load(std::sync::atomic::Ordering::Relaxed) {
            return Err(DeviceError::Stopped);
        }
        let open = self.open()?;
        let bound = open.context.bind()?;
        // Held for the whole run: the working memory is this run's.
        let mut exec = lock(&open.exec);
        let exec = match &mut *exec {
            Some(exec) => exec,
            none => none.insert(Exec::new(bound, &open.ledger)?),
        };
        let parts = Parts {
            recipe: self.recipe,
            chip: &self.info.chip,
            ledger: &open.ledger,
            kernels: &open.kernels,
            transfers: &open.transfers,
        };
        exec.run(bound, parts, work, step, stop)
    }
}

#[cfg(test)]
mod tests;
