//! Running programs: from an op's launches to kernels on the compute stream.
//!
//! A run goes through its programs once: it builds a program's launches, resolves their arguments and queues them while
//! the device computes the programs before. Only so many programs are queued ahead that a stop is heard soon. The run
//! ends when its last event has happened, so that nothing uses a buffer behind its caller's back.

use std::ffi::c_void;
use std::ptr::from_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::check::ProgramMemory;
use super::chip::Chip;
use super::handles::{Bound, Event, Function, PinnedMemory, Stream};
use super::kernels::Kernels;
use super::launch::{self, Arg, Launch, LaunchError, Shape, StepBlock};
use super::memory::{Ledger, Piece};
use super::staging::Transfers;
use crate::devices::{BoundProgram, DeviceError, KvSpec, Op, Program, Step};

/// Programs that are queued before the first of them has ended, at most.
const N_AHEAD: usize = 8;
/// Launches are made for a multiple of so many positions, so that lists stay the same over many steps.
const POSITION_STRIDE: u32 = 256;
/// Tables of constants that are kept; those of earlier models go when there are more.
const N_CONSTANTS: usize = 64;
/// Tokens for which the step block has room from the start.
const MIN_STEP_TOKENS: usize = 128;

/// How ops become launches.
#[derive(Clone, Copy)]
pub struct Recipe {
    pub launches: fn(&Op, &Shape<'_>, &mut Vec<Launch>) -> Result<(), LaunchError>,
    pub work_bytes: fn(&Op, &Shape<'_>) -> u64,
}

impl Recipe {
    pub const OPS: Recipe = Recipe { launches: launch::launches, work_bytes: launch::work_bytes };
}

/// What a run uses of its device.
#[derive(Clone, Copy)]
pub struct Parts<'a> {
    pub recipe: Recipe,
    pub chip: &'a Chip,
    pub ledger: &'a Arc<Ledger>,
    pub kernels: &'a Kernels,
    pub transfers: &'a Transfers,
}

/// The compute stream of a device, with what runs leave for the next one.
pub struct Exec {
    stream: Stream,
    /// One for each program that may be queued.
    ended: Vec<Event>,
    step: StepMemory,
    /// Working memory of the ops, of undefined content between two of them.
    work: Option<Piece>,
    constants: Vec<(Arc<[f32]>, Piece)>,
}

/// The step block and where it is written first.
struct StepMemory {
    host: PinnedMemory,
    device: Piece,
}

impl StepMemory {
    fn new(bound: Bound<'_>, ledger: &Arc<Ledger>, n_tokens: usize) -> Result<StepMemory, DeviceError> {
        let n_bytes = step_bytes(n_tokens);
        let device = ledger.alloc(bound, "the step block", n_bytes as u64)?;
        Ok(StepMemory { host: PinnedMemory::new(bound, n_bytes)?, device })
    }
}

/// Of the step block.
pub fn step_bytes(n_tokens: usize) -> usize {
    4 * (StepBlock::TOKENS + n_tokens.max(MIN_STEP_TOKENS))
}

/// What an op is launched for when only the size of its step is known.
pub fn shape_of<'a>(program: &'a Program, kv: Option<KvSpec>, chip: &'a Chip, n_rows: usize) -> Shape<'a> {
    let n_rows = u32::try_from(n_rows).unwrap_or(u32::MAX);
    let n_positions = kv.map_or(n_rows, |kv| kv.n_ctx);
    Shape { program, kv, chip, n_tokens: n_rows, n_outputs: n_rows, n_positions }
}

/// Waits for the stream when a run ends early, by an error or a panic.
struct Drain<'a> {
    stream: &'a Stream,
    bound: Bound<'a>,
    is_done: bool,
}

impl Drop for Drain<'_> {
    fn drop(&mut self) {
        if !self.is_done {
            // A second error adds nothing to the first; a lost device computes nothing any more.
            let _ = self.stream.sync(self.bound);
        }
    }
}

impl Exec {
    pub fn new(bound: Bound<'_>, ledger: &Arc<Ledger>) -> Result<Exec, DeviceError> {
        Ok(Exec {
            stream: Stream::new(bound)?,
            ended: (0..N_AHEAD).map(|_| Event::new(bound)).collect::<Result<_, _>>()?,
            step: StepMemory::new(bound, ledger, MIN_STEP_TOKENS)?,
            work: None,
            constants: vec![],
        })
    }

    /// # Errors
    /// [`DeviceError::Stopped`] when `stop` was set; then, as after any error, what was queued has ended.
    pub fn run(
        &mut self,
        bound: Bound<'_>,
        parts: Parts<'_>,
        work: &[BoundProgram<'_>],
        step: &Step,
        stop: &AtomicBool,
    ) -> Result<(), DeviceError> {
        let device = bound.device();
        let memories: Vec<_> = work.iter().map(|p| ProgramMemory::new(device, p, step)).collect::<Result<_, _>>()?;
        let shapes: Vec<_> = work.iter().map(|p| shape(p, parts.chip, step)).collect();
        self.reserve(bound, parts, &shapes, step)?;
        if self.constants.len() > N_CONSTANTS {
            self.constants.clear();
        }

        let Exec { stream, ended, step: step_memory, work: working, constants } = self;
        let mut drain = Drain { stream, bound, is_done: false };
        write_step(step_memory, bound, stream, step)?;
        let mut queue = Queue { bound, parts, stream, step: &step_memory.device, work: working.as_ref(), constants };
        let mut launches = vec![];
        let mut n_queued = 0;
        for (shape, memory) in shapes.iter().zip(&memories) {
            if stop.load(Relaxed) {
                return Err(DeviceError::Stopped);
            }
            launches.clear();
            for op in &shape.program.ops {
                (parts.recipe.launches)(op, shape, &mut launches).map_err(|error| memory.error(error))?;
            }
            let event = &ended[n_queued % N_AHEAD];
            if n_queued >= N_AHEAD {
                event.wait(bound)?;
            }
            queue.program(&launches, memory, stop)?;
            event.record(bound, stream)?;
            n_queued += 1;
        }
        if let Some(last) = n_queued.checked_sub(1) {
            ended[last % N_AHEAD].wait_soon(bound)?;
            drain.is_done = true;
        }
        Ok(())
    }

    /// Makes sure of the working memory and the step block. Nothing is in flight.
    fn reserve(
        &mut self,
        bound: Bound<'_>,
        parts: Parts<'_>,
        shapes: &[Shape<'_>],
        step: &Step,
    ) -> Result<(), DeviceError> {
        let needed = shapes.iter().flat_map(|s| s.program.ops.iter().map(|op| (parts.recipe.work_bytes)(op, s))).max();
        let needed = needed.unwrap_or(0);
        if needed > self.work.as_ref().map_or(0, Piece::n_bytes) {
            // The old one goes first: never both at a time.
            self.work = None;
            self.work = Some(parts.ledger.alloc(bound, "working memory", needed)?);
        }
        if step_bytes(step.tokens.len()) > self.step.host.n_bytes() {
            self.step = StepMemory::new(bound, parts.ledger, step.tokens.len())?;
        }
        Ok(())
    }
}

fn shape<'a>(bound: &BoundProgram<'a>, chip: &'a Chip, step: &Step) -> Shape<'a> {
    let kv = bound.bindings.kv.as_ref().map(|kv| kv.spec);
    let (n_tokens, n_outputs) = (step.tokens.len() as u32, step.outputs.len() as u32);
    let end = step.first_position.saturating_add(n_tokens).max(1);
    let rounded = end.div_ceil(POSITION_STRIDE).saturating_mul(POSITION_STRIDE);
    let n_positions = rounded.min(kv.map_or(u32::MAX, |kv| kv.n_ctx)).max(end);
    Shape { program: bound.program, kv, chip, n_tokens, n_outputs, n_positions }
}

fn write_step(memory: &mut StepMemory, bound: Bound<'_>, stream: &Stream, step: &Step) -> Result<(), DeviceError> {
    let n_words = StepBlock::TOKENS + step.tokens.len();
    let words = memory.host.bytes(bound)?.as_chunks_mut::<4>().0;
    let mut put = |at: usize, word: u32| words[at] = word.to_ne_bytes();
    (0..StepBlock::TOKENS).for_each(|at| put(at, 0));
    put(StepBlock::N_TOKENS, step.tokens.len() as u32);
    put(StepBlock::FIRST_POSITION, step.first_position);
    put(StepBlock::OUTPUTS_START, step.outputs.start);
    put(StepBlock::N_OUTPUTS, step.outputs.len() as u32);
    step.tokens.iter().enumerate().for_each(|(i, token)| put(StepBlock::TOKENS + i, *token));
    memory.host.send(bound, stream, memory.device.address(), 4 * n_words)
}

/// Queues launches of one run.
struct Queue<'a> {
    bound: Bound<'a>,
    parts: Parts<'a>,
    stream: &'a Stream,
    step: &'a Piece,
    work: Option<&'a Piece>,
    constants: &'a mut Vec<(Arc<[f32]>, Piece)>,
}

impl Queue<'_> {
    fn program(
        &mut self,
        launches: &[Launch],
        memory: &ProgramMemory<'_>,
        stop: &AtomicBool,
    ) -> Result<(), DeviceError> {
        for launch in launches {
            let function = match self.parts.kernels.function(self.bound, &launch.unit, launch.entry)? {
                Some(function) => function,
                None => self.missing(launches, launch, stop)?,
            };
            if launch.grid.contains(&0) || launch.block == 0 {
                let Launch { entry, grid, block, .. } = launch;
                return Err(memory.error(format!("{entry} with {grid:?} blocks of {block} threads")));
            }
            let mut cells =
                launch.args.iter().map(|arg| self.cell(arg, memory)).collect::<Result<Vec<u64>, DeviceError>>()?;
            let mut params: Vec<*mut c_void> = cells.iter_mut().map(|cell| from_mut(cell).cast()).collect();
            let handle = function.handle();
            self.bound.call(|driver| {
                // SAFETY: the launch arm of the op lists the parameters of the kernel, and each cell is as large as the
                // largest of them. Addresses are of checked buffers, which the run's caller holds until `run` has
                // returned, after the last launch has ended.
                unsafe { driver.launch(handle, launch.grid, launch.block, &mut params, self.stream.handle()) }
            })?;
        }
        Ok(())
    }

    /// Nobody has prepared these kernels.
    fn missing(&self, launches: &[Launch], launch: &Launch, stop: &AtomicBool) -> Result<Function, DeviceError> {
        let units: Vec<_> = launches.iter().map(|launch| launch.unit.clone()).collect();
        self.parts.kernels.prepare(self.bound.context(), &units, stop, &|_| {})?;
        self.parts.kernels.function(self.bound, &launch.unit, launch.entry)?.ok_or_else(|| DeviceError::Kernels {
            device: self.bound.device(),
            message: format!("{} was not loaded", launch.unit),
        })
    }

    /// A parameter's value, at the start of eight bytes.
    fn cell(&mut self, arg: &Arg, memory: &ProgramMemory<'_>) -> Result<u64, DeviceError> {
        Ok(match arg {
            Arg::Step => self.step.address().0,
            Arg::Slot(slot) => memory.slot(*slot)?.0,
            Arg::Weight(weight) => memory.weight(*weight)?.0,
            Arg::KvK => memory.kv()?.1.0,
            Arg::KvV => memory.kv()?.2.0,
            Arg::Work(offset) => {
                let none = || memory.error("an op uses working memory and asks for none");
                self.work.ok_or_else(none)?.range("working memory", *offset, 0)?.0
            }
            Arg::Constants(values) => self.constants(values)?,
            Arg::Null => 0,
            Arg::U32(value) => word(value.to_ne_bytes()),
            Arg::F32(value) => word(value.to_ne_bytes()),
        })
    }

    /// Address of the device's copy.
    fn constants(&mut self, values: &Arc<[f32]>) -> Result<u64, DeviceError> {
        let is_same = |known: &Arc<[f32]>| {
            Arc::ptr_eq(known, values)
                || known.len() == values.len() && known.iter().zip(&**values).all(|(a, b)| a.to_bits() == b.to_bits())
        };
        if let Some((_, piece)) = self.constants.iter().find(|(known, _)| is_same(known)) {
            return Ok(piece.address().0);
        }
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_ne_bytes()).collect();
        let piece = self.parts.ledger.alloc(self.bound, "constants", bytes.len() as u64)?;
        self.parts.transfers.upload(self.bound, piece.address(), &bytes)?;
        let address = piece.address().0;
        self.constants.push((values.clone(), piece));
        Ok(address)
    }
}

fn word(bytes: [u8; 4]) -> u64 {
    let [a, b, c, d] = bytes;
    u64::from_ne_bytes([a, b, c, d, 0, 0, 0, 0])
}
