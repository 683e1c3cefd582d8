//! One thread a device: it owns the device's queue, so that devices overlap.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::devices::{Bindings, BoundProgram, Device, DeviceError, DeviceId, Program, Slot, Step};

/// Consecutive parts on one device, bound to their memory: what a worker runs in one go.
pub struct Segment {
    pub device: DeviceId,
    pub programs: Vec<(Arc<Program>, Bindings)>,
    /// What must be brought in, with bytes per row.
    pub inputs: Vec<(Slot, u64)>,
    /// What is wanted from it by later segments, with bytes per row.
    pub outputs: Vec<(Slot, u64)>,
    /// The model's last segment: its outputs have a row for each output of the step, not for each token.
    pub is_last: bool,
}

/// Values of a segment's outputs, in their order: what hops.
pub type Hop = Vec<Vec<u8>>;

pub struct Job {
    pub step_id: u64,
    pub segment_index: usize,
    pub segment: Arc<Segment>,
    pub step: Arc<Step>,
    pub input: Hop,
    pub stop: Arc<AtomicBool>,
}

pub struct Reply {
    pub step_id: u64,
    pub segment_index: usize,
    pub device: DeviceId,
    pub result: Result<Hop, DeviceError>,
    /// Computing.
    pub busy: Duration,
    /// Bringing inputs in and outputs out.
    pub transfer: Duration,
}

/// Takes replies from workers; called on their threads.
pub type ReplySink = Arc<dyn Fn(Reply) + Send + Sync>;

enum Queued {
    Run(Job),
    /// Answered when everything before it is done.
    Flush(mpsc::Sender<()>),
}

pub struct Worker {
    jobs: Option<mpsc::Sender<Queued>>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    pub fn start(device: Arc<dyn Device>, reply: ReplySink) -> std::io::Result<Worker> {
        let (jobs, queue) = mpsc::channel::<Queued>();
        let name = format!("layercake {}", device.facts().id);
        let thread = std::thread::Builder::new().name(name).spawn(move || {
            for job in queue {
                match job {
                    Queued::Run(job) => reply(run(&*device, job)),
                    // Who asked may have given up waiting.
                    Queued::Flush(done) => drop(done.send(())),
                }
            }
        })?;
        Ok(Worker { jobs: Some(jobs), thread: Some(thread) })
    }

    /// Queues a job. Its reply always comes, unless the thread died.
    pub fn submit(&self, job: Job) -> Result<(), DeviceError> {
        let device = job.segment.device;
        let gone = || DeviceError::Failed { device, message: "its worker thread has ended".into() };
        self.jobs.as_ref().ok_or_else(gone)?.send(Queued::Run(job)).map_err(|_| gone())
    }

    /// Waits until everything that was queued is done.
    pub fn flush(&self) {
        let (done, wait) = mpsc::channel();
        if self.jobs.as_ref().is_some_and(|jobs| jobs.send(Queued::Flush(done)).is_ok()) {
            // An error means that the thread has ended: nothing runs then, either.
            let _ = wait.recv();
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        drop(self.jobs.take());
        if let Some(thread) = self.thread.take() {
            // A panic on the worker was already reported where it happened.
            let _ = thread.join();
        }
    }
}

fn run(device: &dyn Device, job: Job) -> Reply {
    let (mut busy, mut transfer) = (Duration::ZERO, Duration::ZERO);
    // A bug in a device must not leave the engine waiting for a reply for ever.
    let computed = catch_unwind(AssertUnwindSafe(|| compute(device, &job, &mut busy, &mut transfer)));
    let result = computed.unwrap_or_else(|_| {
        Err(DeviceError::Failed { device: job.segment.device, message: "it panicked (see above)".into() })
    });
    Reply { step_id: job.step_id, segment_index: job.segment_index, device: job.segment.device, result, busy, transfer }
}

fn compute(device: &dyn Device, job: &Job, busy: &mut Duration, transfer: &mut Duration) -> Result<Hop, DeviceError> {
    let segment = &*job.segment;
    let Some((_, bindings)) = segment.programs.first() else { return Ok(vec![]) };
    let scratch = &bindings.scratch;
    let offset_of = |slot: Slot| {
        scratch.slot_offsets.get(usize::from(slot.0)).copied().flatten().ok_or_else(|| DeviceError::Failed {
            device: segment.device,
            message: format!("slot {} has no memory here", slot.0),
        })
    };

    let started = Instant::now();
    for ((slot, _), data) in segment.inputs.iter().zip(&job.input) {
        device.upload(&scratch.buffer, offset_of(*slot)?, data)?;
    }
    let uploaded = Instant::now();

    let work: Vec<_> = segment
        .programs
        .iter()
        .filter(|(program, _)| job.step.n_rows(program.rows) > 0)
        .map(|(program, bindings)| BoundProgram { program, bindings })
        .collect();
    device.run(&work, &job.step, &job.stop)?;
    let ran = Instant::now();
    *busy = ran - uploaded;

    let n_rows = if segment.is_last { job.step.outputs.len() } else { job.step.n_tokens() };
    let mut hop = Vec::with_capacity(segment.outputs.len());
    for (slot, row_bytes) in &segment.outputs {
        let mut data = vec![0; *row_bytes as usize * n_rows];
        device.download(&scratch.buffer, offset_of(*slot)?, &mut data)?;
        hop.push(data);
    }
    *transfer = (uploaded - started) + ran.elapsed();
    Ok(hop)
}
