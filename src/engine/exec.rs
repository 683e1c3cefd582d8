//! Walks the parts: sends steps through the segments of a placement, one worker a device, so that several
//! micro-batches can be on their way at once.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::devices::{Device, DeviceError, DeviceId, Step};
use crate::engine::measured::SegmentTimes;
use crate::engine::protocol::{DeviceTimes, Timings};
use crate::engine::worker::{Hop, Job, Reply, ReplySink, Segment, Worker};

/// Tokens of one micro-batch. Does not depend on the placement.
pub const BATCH_ROWS: usize = 128;
/// Output rows of one step at most.
pub const OUTPUT_ROWS: usize = 16;

/// The devices of this process, by id, with their workers.
pub struct Executor {
    workers: BTreeMap<DeviceId, Worker>,
    segments: Vec<Arc<Segment>>,
    /// By step id.
    in_flight: HashMap<u64, InFlight>,
    next_step_id: u64,
    stop: Arc<AtomicBool>,
    clock: Clock,
    /// Computing since the start.
    busy_total: BTreeMap<DeviceId, Duration>,
}

/// What a step is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StepKind {
    Prefill,
    Decode,
}

struct InFlight {
    step: Arc<Step>,
    kind: StepKind,
}

/// A step that has gone through all segments.
pub struct Completed {
    pub step: Arc<Step>,
    /// `[n_vocab, outputs]`
    pub logits: Vec<f32>,
}

/// Busy and hop time since the last [`Executor::restart_clock`].
#[derive(Default)]
struct Clock {
    prefill: KindClock,
    decode: KindClock,
    /// Decoding through the present segments.
    segments: SegmentTimes,
    /// Time during which at least one step was in flight.
    active: Duration,
    active_since: Option<Instant>,
}

#[derive(Default)]
struct KindClock {
    busy: BTreeMap<DeviceId, Duration>,
    hops: Duration,
    hop_bytes: u64,
}

impl Clock {
    fn of(&mut self, kind: StepKind) -> &mut KindClock {
        match kind {
            StepKind::Prefill => &mut self.prefill,
            StepKind::Decode => &mut self.decode,
        }
    }
}

impl Executor {
    pub fn new(devices: &[Arc<dyn Device>], reply: &ReplySink) -> std::io::Result<Executor> {
        let workers = devices
            .iter()
            .map(|d| Ok((d.facts().id, Worker::start(d.clone(), reply.clone())?)))
            .collect::<std::io::Result<_>>()?;
        Ok(Executor {
            workers,
            segments: vec![],
            in_flight: HashMap::new(),
            next_step_id: 0,
            stop: Arc::new(AtomicBool::new(false)),
            clock: Clock::default(),
            busy_total: BTreeMap::new(),
        })
    }

    /// Steps submitted from now on run through these.
    pub fn set_segments(&mut self, segments: Vec<Arc<Segment>>) {
        self.segments = segments;
        self.clock.segments = SegmentTimes::default();
    }

    pub fn n_segments(&self) -> usize {
        self.segments.len()
    }

    pub fn n_in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// Makes steps in flight end early, with [`DeviceError::Stopped`]. Holds until [`Executor::clear_stop`].
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    pub fn clear_stop(&self) {
        self.stop.store(false, Ordering::Relaxed);
    }

    /// Sends a step on its way. Every step ends in one `Some` of [`Executor::on_reply`].
    pub fn submit(&mut self, step: Step, kind: StepKind) -> Result<(), DeviceError> {
        let step = Arc::new(step);
        let step_id = self.next_step_id;
        self.next_step_id += 1;
        self.send(step_id, 0, &step, vec![])?;
        self.clock.active_since.get_or_insert_with(Instant::now);
        self.in_flight.insert(step_id, InFlight { step, kind });
        Ok(())
    }

    fn send(&self, step_id: u64, segment_index: usize, step: &Arc<Step>, input: Hop) -> Result<(), DeviceError> {
        let segment = &self.segments[segment_index];
        let worker = self.workers.get(&segment.device).ok_or_else(|| DeviceError::Failed {
            device: segment.device,
            message: "this device has no worker".into(),
        })?;
        worker.submit(Job {
            step_id,
            segment_index,
            segment: segment.clone(),
            step: step.clone(),
            input,
            stop: self.stop.clone(),
        })
    }

    /// Takes a worker's reply; gives the step back when it is through or has failed.
    pub fn on_reply(&mut self, reply: Reply) -> Option<Result<Completed, DeviceError>> {
        *self.busy_total.entry(reply.device).or_default() += reply.busy;
        let in_flight = self.in_flight.get(&reply.step_id)?;
        let (step, kind) = (in_flight.step.clone(), in_flight.kind);
        self.note_times(&reply, kind);
        let hop = match reply.result {
            Ok(hop) => hop,
            Err(error) => return Some(self.finish(reply.step_id, Err(error))),
        };
        let next = reply.segment_index + 1;
        let nothing_left = match self.segments.get(next) {
            None => true,
            // A last segment that is the head alone has nothing to do for a step without outputs.
            Some(segment) => {
                segment.is_last && segment.programs.iter().all(|(program, _)| step.n_rows(program.rows) == 0)
            }
        };
        if nothing_left {
            self.clock.segments.n_tokens += usize::from(kind == StepKind::Decode);
            let logits = if step.outputs.is_empty() { vec![] } else { to_f32(&hop) };
            return Some(self.finish(reply.step_id, Ok(Completed { step, logits })));
        }
        self.clock.of(kind).hop_bytes += hop.iter().map(|values| values.len() as u64).sum::<u64>();
        match self.send(reply.step_id, next, &step, hop) {
            Ok(()) => None,
            Err(error) => Some(self.finish(reply.step_id, Err(error))),
        }
    }

    fn note_times(&mut self, reply: &Reply, kind: StepKind) {
        let clock = self.clock.of(kind);
        *clock.busy.entry(reply.device).or_default() += reply.busy;
        clock.hops += reply.transfer;
        if kind == StepKind::Decode {
            let busy = &mut self.clock.segments.busy;
            busy.resize(self.segments.len(), Duration::ZERO);
            if let Some(sum) = busy.get_mut(reply.segment_index) {
                *sum += reply.busy;
            }
        }
    }

    /// Waits until no worker computes any more and forgets what was in flight: replies that still come are ignored.
    pub fn abandon(&mut self) {
        if !self.in_flight.is_empty() {
            self.stop();
            self.workers.values().for_each(Worker::flush);
            self.in_flight.clear();
        }
    }

    fn finish(&mut self, step_id: u64, result: Result<Completed, DeviceError>) -> Result<Completed, DeviceError> {
        self.in_flight.remove(&step_id);
        if self.in_flight.is_empty()
            && let Some(since) = self.clock.active_since.take()
        {
            self.clock.active += since.elapsed();
        }
        result
    }

    pub fn restart_clock(&mut self) {
        self.clock = Clock::default();
    }

    /// Fills in the devices' and hops' times. A device waits while the model runs and it does not.
    pub fn read_clock(&self, timings: &mut Timings) {
        let running = self.clock.active_since.map_or(Duration::ZERO, |since| since.elapsed());
        let active = self.clock.active + running;
        let Clock { prefill, decode, .. } = &self.clock;
        (timings.prefill_hops, timings.prefill_hop_bytes) = (prefill.hops, prefill.hop_bytes);
        (timings.decode_hops, timings.decode_hop_bytes) = (decode.hops, decode.hop_bytes);
        let used: BTreeSet<_> = prefill.busy.keys().chain(decode.busy.keys()).copied().collect();
        let times = used.into_iter().map(|id| {
            let of = |clock: &KindClock| clock.busy.get(&id).copied().unwrap_or_default();
            let (prefill_busy, decode_busy) = (of(prefill), of(decode));
            let busy = prefill_busy + decode_busy;
            DeviceTimes { id, busy, prefill_busy, decode_busy, wait: active.saturating_sub(busy) }
        });
        timings.devices = times.collect();
    }

    /// What decoding through the present segments took; counting begins anew.
    pub fn take_segment_times(&mut self) -> SegmentTimes {
        std::mem::take(&mut self.clock.segments)
    }

    /// As they are until now.
    pub fn segment_times(&self) -> &SegmentTimes {
        &self.clock.segments
    }

    /// Computing of a device since the engine's start.
    pub fn busy_total(&self, id: DeviceId) -> Duration {
        self.busy_total.get(&id).copied().unwrap_or_default()
    }
}

fn to_f32(hop: &Hop) -> Vec<f32> {
    let bytes = hop.first().map_or(&[][..], |v| v);
    bytes.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect()
}
