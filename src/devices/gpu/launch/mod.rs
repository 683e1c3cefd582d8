//! From an op to kernel launches. Pure: no driver, no memory; what a launch will touch is named, not pointed to.
//!
//! One file an op family, beside its kernel file in `kernels/`. Kernels read token count and positions from the step
//! block in device memory ([`Arg::Step`]), not from arguments, so that a list of launches can be replayed.

use std::sync::Arc;

use crate::devices::gpu::chip::Chip;
use crate::devices::gpu::unit::Unit;
use crate::devices::{KvSpec, Op, Program, Rows, Slot, WeightRef, WeightSpec};

pub mod attention;
pub mod experts;
pub mod kv;
pub mod matmul;
pub mod norm;
pub mod rope;
pub mod route;
pub mod rows;
pub mod units;

/// One argument of a kernel, in the order of its parameters.
#[derive(Clone, PartialEq, Debug)]
pub enum Arg {
    /// `const u32*`: the step block, see [`StepBlock`].
    Step,
    /// `float*` or `u32*`: start of a slot.
    Slot(Slot),
    /// `const u8*` or `const float*`: a weight in the file's layout; vectors are F32.
    Weight(WeightRef),
    /// `u8*`: the K cache.
    KvK,
    /// `u8*`: the V cache.
    KvV,
    /// A pointer to so many bytes behind the start of the working memory. Every op has it all for itself; launches of
    /// one op hand results to one another through it.
    Work(u64),
    /// `const float*`: values that the host computed; the device keeps a copy.
    Constants(Arc<[f32]>),
    /// A null pointer: an optional operand that is not there.
    Null,
    U32(u32),
    F32(f32),
}

/// One kernel launch.
#[derive(Clone, PartialEq, Debug)]
pub struct Launch {
    pub unit: Unit,
    /// Name of the kernel in its file.
    pub entry: &'static str,
    /// Blocks. No number is 0.
    pub grid: [u32; 3],
    /// Threads of a block: what the kernel's `LC_KERNEL` says.
    pub block: u32,
    pub args: Vec<Arg>,
}

/// What a launch is made for.
#[derive(Clone, Copy, Debug)]
pub struct Shape<'a> {
    pub program: &'a Program,
    /// Of the bound cache, where there is one.
    pub kv: Option<KvSpec>,
    pub chip: &'a Chip,
    /// Tokens of the step.
    pub n_tokens: u32,
    /// Rows of the step that are outputs.
    pub n_outputs: u32,
    /// Positions that the cache holds after this step, rounded up at will: decides how many blocks are launched, never
    /// what they compute.
    pub n_positions: u32,
}

impl<'a> Shape<'a> {
    /// Rows of the program's ops.
    pub fn n_rows(&self) -> u32 {
        match self.program.rows {
            Rows::Batch => self.n_tokens,
            Rows::Outputs => self.n_outputs,
        }
    }

    pub fn weight(&self, weight: WeightRef) -> Result<&'a WeightSpec, LaunchError> {
        self.program.weights.get(usize::from(weight.0)).ok_or(LaunchError::NoWeight(weight))
    }

    pub fn kv(&self) -> Result<KvSpec, LaunchError> {
        self.kv.ok_or(LaunchError::NoKv)
    }
}

/// Why an op cannot be launched. A model whose programs pass the loader does not meet these.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum LaunchError {
    #[error("the program has no weight {}", .0.0)]
    NoWeight(WeightRef),
    #[error("the op needs a KV cache and none is bound")]
    NoKv,
    #[error("{0}")]
    Unsupported(String),
}

/// Words of the step block, a `u32` array in device memory; the kernels' names for them are in `prelude.cuh`.
pub struct StepBlock;

impl StepBlock {
    pub const N_TOKENS: usize = 0;
    pub const FIRST_POSITION: usize = 1;
    /// First output row of the step.
    pub const OUTPUTS_START: usize = 2;
    pub const N_OUTPUTS: usize = 3;
    /// Token ids follow from here.
    pub const TOKENS: usize = 8;
}

/// Appends the launches of an op. None where it has no rows.
pub fn launches(op: &Op, shape: &Shape<'_>, to: &mut Vec<Launch>) -> Result<(), LaunchError> {
    if shape.n_rows() == 0 {
        return Ok(());
    }
    match op {
        Op::Embed { .. } | Op::TakeOutputs { .. } | Op::GatedActivation { .. } => rows::launches(op, shape, to),
        Op::RmsNorm { .. } => norm::launches(op, shape, to),
        Op::MatMul { .. } => matmul::launches(op, shape, to),
        Op::Rope { .. } => rope::launches(op, shape, to),
        Op::KvAppend { .. } => kv::launches(op, shape, to),
        Op::Attention { .. } => attention::launches(op, shape, to),
        Op::Route { .. } => route::launches(op, shape, to),
        Op::ExpertMatMul { .. } | Op::ExpertCombine { .. } => experts::launches(op, shape, to),
    }
}

/// Bytes of working memory that an op's launches need with steps of up to `shape.n_tokens` rows, at any position of
/// the cache. Where no cache is bound yet, `shape.kv` says what it will be.
pub fn work_bytes(op: &Op, shape: &Shape<'_>) -> u64 {
    match op {
        Op::MatMul { .. } => matmul::work_bytes(op, shape),
        Op::Attention { .. } => attention::work_bytes(op, shape),
        Op::ExpertMatMul { .. } => experts::work_bytes(op, shape),
        Op::Embed { .. }
        | Op::TakeOutputs { .. }
        | Op::RmsNorm { .. }
        | Op::Rope { .. }
        | Op::KvAppend { .. }
        | Op::GatedActivation { .. }
        | Op::Route { .. }
        | Op::ExpertCombine { .. } => 0,
    }
}
