//! What can hold and compute. Knows no layer, model, token or file.
//!
//! A [`Device`] has memory, takes weights in the layout of a GGUF file and runs [`Program`]s: lists of [`Op`]s over
//! symbolic slots. Everything that crosses this boundary is plain data.

pub mod buffer;
pub mod cpu;
pub mod discover;
pub mod error;
pub mod gpu;
pub mod op;
#[cfg(test)]
pub(crate) mod op_cases;
pub mod quant;
pub mod rig;
pub mod telemetry;

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::AtomicBool;

pub use buffer::Buffer;
pub use error::DeviceError;
pub use op::{Op, Program, Rows, Slot, SlotRows, SlotSpec, WeightRef, WeightSpec};

use serde::{Serialize, Serializer};

use gpu::chip::{Arch, PciAddress};
use quant::DType;

/// The kind of a device: which driver would run it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum DeviceKind {
    Cuda,
    Rocm,
    Cpu,
}

impl DeviceKind {
    pub const ALL: [DeviceKind; 3] = [DeviceKind::Cuda, DeviceKind::Rocm, DeviceKind::Cpu];

    pub const fn name(self) -> &'static str {
        match self {
            DeviceKind::Cuda => "cuda",
            DeviceKind::Rocm => "rocm",
            DeviceKind::Cpu => "cpu",
        }
    }
}

/// A device's name in placements and on the screen: `cuda0`, `rocm1`, `cpu0`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeviceId {
    pub kind: DeviceKind,
    pub index: u16,
}

impl DeviceId {
    pub const fn new(kind: DeviceKind, index: u16) -> DeviceId {
        DeviceId { kind, index }
    }

    pub const fn cpu(index: u16) -> DeviceId {
        DeviceId::new(DeviceKind::Cpu, index)
    }
}

impl fmt::Display for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.kind.name(), self.index)
    }
}

impl fmt::Debug for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for DeviceId {
    /// As its text.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl FromStr for DeviceId {
    type Err = String;

    fn from_str(text: &str) -> Result<DeviceId, String> {
        DeviceKind::ALL
            .into_iter()
            .find_map(|kind| {
                let digits = text.strip_prefix(kind.name())?;
                let canonical = digits == "0" || !digits.starts_with(['0', '+']);
                let index = digits.parse().ok().filter(|_| canonical)?;
                Some(DeviceId { kind, index })
            })
            .ok_or_else(|| format!("'{text}' is not a device id such as cpu0, cuda0 or rocm1"))
    }
}

/// What is known of a device before it does anything.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceFacts {
    pub id: DeviceId,
    /// The product's name, as its driver or the operating system gives it.
    pub name: String,
    /// A simulated device computes on the CPU and is labelled SIM wherever it is shown.
    pub simulated: bool,
    /// Worker threads, for devices that compute on the CPU.
    pub n_threads: usize,
    /// Bytes per second at which weights can be read from its memory, where known.
    pub memory_bytes_per_s: Option<u64>,
    /// Bytes per second between the host and its memory, where known.
    pub link_bytes_per_s: Option<u64>,
    /// What only a real GPU has.
    pub gpu: Option<GpuFacts>,
}

/// Facts of a GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuFacts {
    pub pci: PciAddress,
    pub arch: Arch,
    /// Shares the host's memory. Listed, and not used by `auto`.
    pub is_integrated: bool,
    /// Its driver with the version, for people.
    pub driver: String,
}

/// A device's memory at this moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryInfo {
    pub total_bytes: u64,
    /// What an allocation could still take.
    pub free_bytes: u64,
    /// What buffers of this program hold.
    pub ours_bytes: u64,
}

/// One step: the rows that flow through a model's programs together. One sequence, consecutive positions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Token ids `[n_tokens]`.
    pub tokens: Vec<u32>,
    /// Position of the first token: how many positions the KV cache holds before this step.
    pub first_position: u32,
    /// The rows of this step that programs over [`Rows::Outputs`] compute.
    pub outputs: std::ops::Range<u32>,
}

impl Step {
    pub fn n_tokens(&self) -> usize {
        self.tokens.len()
    }

    pub fn n_rows(&self, rows: Rows) -> usize {
        match rows {
            Rows::Batch => self.tokens.len(),
            Rows::Outputs => self.outputs.len(),
        }
    }
}

/// The KV cache of one layer on one device.
///
/// Layout, fastest first: `k` is `[head_dim_k, n_ctx, n_kv_head]`, `v` is `[head_dim_v, n_ctx, n_kv_head]`, elements of
/// `dtype` (F32, F16 or Q8_0), so that one head's history is contiguous. The same on every device: it is copied
/// between devices as it is.
#[derive(Clone, Debug)]
pub struct KvCache {
    pub spec: KvSpec,
    pub k: Buffer,
    pub v: Buffer,
}

/// Shape of one layer's KV cache; see [`KvCache`] for the layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvSpec {
    pub dtype: DType,
    pub head_dim_k: u32,
    pub head_dim_v: u32,
    pub n_kv_head: u32,
    pub n_ctx: u32,
}

impl KvSpec {
    /// Bytes of one position of one head of K.
    pub fn k_row_bytes(&self) -> u64 {
        row_bytes(self.dtype, self.head_dim_k)
    }

    /// Bytes of one position of one head of V.
    pub fn v_row_bytes(&self) -> u64 {
        row_bytes(self.dtype, self.head_dim_v)
    }

    pub fn k_bytes(&self) -> u64 {
        self.k_row_bytes() * u64::from(self.n_ctx) * u64::from(self.n_kv_head)
    }

    pub fn v_bytes(&self) -> u64 {
        self.v_row_bytes() * u64::from(self.n_ctx) * u64::from(self.n_kv_head)
    }
}

fn row_bytes(dtype: DType, n: u32) -> u64 {
    u64::from(n).div_ceil(dtype.block_len() as u64) * dtype.block_bytes() as u64
}

/// The memory that a program's names stand for on one device.
#[derive(Clone, Debug)]
pub struct Bindings {
    /// In the order of [`Program::weights`].
    pub weights: Vec<Buffer>,
    pub kv: Option<KvCache>,
    /// Activations: slot `s` starts at `scratch.slot_offsets[s]` of this buffer.
    pub scratch: Scratch,
}

/// Activation memory of one device, shared by all its programs: they run one after another.
#[derive(Clone, Debug)]
pub struct Scratch {
    pub buffer: Buffer,
    /// Byte offset of each slot of the model's slot table; `None`: no program on this device uses it.
    pub slot_offsets: std::sync::Arc<[Option<u64>]>,
}

/// A program with what it will be bound to, before it is.
#[derive(Clone, Copy, Debug)]
pub struct ProgramShape<'a> {
    pub program: &'a Program,
    pub kv: Option<KvSpec>,
}

/// How far [`Device::prepare`] is: programs' kernels, compiled or found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prepared {
    pub n_done: usize,
    pub n_total: usize,
}

/// A program with its memory.
#[derive(Clone, Copy)]
pub struct BoundProgram<'a> {
    pub program: &'a Program,
    pub bindings: &'a Bindings,
}

/// What can hold and compute.
///
/// Calls that touch memory or compute may come from any thread, but [`Device::run`] and transfers to or from the
/// same buffer are never made at the same time: each device's work is owned by one worker.
pub trait Device: Send + Sync {
    fn facts(&self) -> &DeviceFacts;

    fn memory(&self) -> MemoryInfo;

    /// Whether it has failed for good: every call answers [`DeviceError::Lost`] from now on.
    fn is_lost(&self) -> bool {
        false
    }

    /// Bytes that a weight takes on this device (its layout may differ from the file's). Pure.
    fn weight_bytes(&self, weight: &WeightSpec) -> u64;

    /// Bytes of working memory that running `programs` with steps of up to `max_rows` takes besides slots. Pure.
    fn work_bytes(&self, programs: &[ProgramShape<'_>], max_rows: usize) -> u64;

    /// Makes ready what running these programs with up to `max_rows` rows needs besides memory: a GPU compiles
    /// kernels, which may take a while the first time. May come from any thread, also while the device runs.
    ///
    /// # Errors
    /// [`DeviceError::Stopped`] when `cancel` was set.
    fn prepare(
        &self,
        _programs: &[ProgramShape<'_>],
        _max_rows: usize,
        _cancel: &AtomicBool,
        _progress: &(dyn Fn(Prepared) + Sync),
    ) -> Result<(), DeviceError> {
        Ok(())
    }

    /// Memory for a weight, to be filled by [`Device::fill_weight`].
    fn alloc_weight(&self, weight: &WeightSpec) -> Result<Buffer, DeviceError>;

    /// Takes a weight from its bytes in the file's layout. May come from any thread while the device runs programs
    /// that do not use this buffer.
    fn fill_weight(&self, to: &Buffer, weight: &WeightSpec, data: &[u8]) -> Result<(), DeviceError>;

    /// Both at once.
    fn load_weight(&self, weight: &WeightSpec, data: &[u8]) -> Result<Buffer, DeviceError> {
        let buffer = self.alloc_weight(weight)?;
        self.fill_weight(&buffer, weight, data)?;
        Ok(buffer)
    }

    /// Memory for anything but weights, zeroed. `what` names it in errors: "KV cache", "scratch".
    fn alloc(&self, what: &'static str, n_bytes: u64) -> Result<Buffer, DeviceError>;

    fn upload(&self, to: &Buffer, offset: u64, data: &[u8]) -> Result<(), DeviceError>;

    fn download(&self, from: &Buffer, offset: u64, data: &mut [u8]) -> Result<(), DeviceError>;

    /// Frees working memory that runs have left for the next one; for a device that no part lies on any more.
    fn trim(&self);

    /// Runs the programs in order. `stop` is looked at between programs: [`DeviceError::Stopped`] when it was set.
    fn run(&self, work: &[BoundProgram<'_>], step: &Step, stop: &AtomicBool) -> Result<(), DeviceError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_ids_print_and_parse() {
        for text in ["cpu0", "cuda0", "rocm12"] {
            assert_eq!(text.parse::<DeviceId>().unwrap().to_string(), text);
        }
        for text in ["", "cpu", "gpu0", "cpu-1", "cpu+1", "cpu01", "cpu99999", "cuda0 "] {
            assert!(text.parse::<DeviceId>().is_err(), "{text}");
        }
    }
}
