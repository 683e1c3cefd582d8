//! The engine thread: one loop over commands, workers' replies and staging's progress.
//!
//! Owns everything that changes: the loaded model, the session, the change under way. Nobody else writes them.

use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Instant;

use tokio::sync::watch;

use crate::devices::{Device, DeviceError, DeviceFacts, DeviceId, Prepared};
use crate::engine::change::{Change, ChangePhase, check_change};
use crate::engine::exec::{Completed, Executor, StepKind};
use crate::engine::generation::{Generation, Next, check_prompt};
use crate::engine::load::{LoadError, LoadedModel, load};
use crate::engine::logits::LogitsWork;
use crate::engine::measured::Measured;
use crate::engine::model::{Devices, Model};
use crate::engine::preview::{note_measured, preview};
use crate::engine::protocol::{
    ChangeState, Command, Event, GenerateRequest, LoadOptions, LogitRows, RecoveryState, RequestId, Stats, When,
};
use crate::engine::publish::{device_memory, part_ms, set_timings};
use crate::engine::recovery::{Recovery, install, lost_device, new_placement};
use crate::engine::resident::stage_order;
use crate::engine::stage::{StageError, StageOrder, StageProgress, Staged, stage};
use crate::engine::worker::{Reply, ReplySink};

/// The interface's end of the engine.
pub struct Engine {
    /// Of all devices, in the order of [`Stats::devices`].
    pub devices: Vec<DeviceFacts>,
    messages: mpsc::Sender<Message>,
    pub events: mpsc::Receiver<Event>,
    pub stats: watch::Receiver<Stats>,
    thread: Option<JoinHandle<()>>,
}

/// Sends commands; can be cloned and kept by signal handlers.
#[derive(Clone)]
pub struct CommandSender(mpsc::Sender<Message>);

impl CommandSender {
    /// Queues a command. After the engine has ended this does nothing.
    pub fn send(&self, command: Command) {
        // The only failure is an engine that has ended, which its last event has said.
        let _ = self.0.send(Message::Command(command));
    }
}

/// Everything that can happen to the engine.
enum Message {
    Command(Command),
    Reply(Reply),
    LoadProgress {
        id: RequestId,
        progress: StageProgress,
    },
    LoadDone {
        id: RequestId,
        result: Box<Result<LoadedModel, LoadError>>,
    },
    StageProgress {
        id: RequestId,
        progress: StageProgress,
    },
    /// `running` goes with what was staged: who waits for its other end finds the memory of a dropped result free.
    StageDone {
        id: RequestId,
        result: Box<Result<Staged, StageError>>,
        running: mpsc::Sender<Infallible>,
    },
}

impl Engine {
    /// Starts the thread. It ends with `Shutdown`, or when this handle is dropped.
    pub fn start(devices: Vec<Arc<dyn Device>>) -> std::io::Result<Engine> {
        let (messages, inbox) = mpsc::channel();
        let (events, event_receiver) = mpsc::channel();
        let (stats_sender, stats) = watch::channel(Stats::default());
        let to_self = messages.clone();
        let reply: ReplySink = Arc::new(move |reply| {
            let _ = to_self.send(Message::Reply(reply));
        });
        let exec = Executor::new(&devices, &reply)?;
        let facts = devices.iter().map(|d| d.facts().clone()).collect();
        let mut state = State {
            devices: Devices(devices),
            exec,
            messages: messages.clone(),
            events,
            stats: stats_sender,
            loading: None,
            loaded: None,
            work: Work::Idle,
            change: None,
            staging: None,
            measured: Measured::default(),
            recovery: None,
            waiting: vec![],
        };
        state.publish();
        let thread = std::thread::Builder::new().name("layercake engine".into()).spawn(move || {
            while let Ok(message) = inbox.recv() {
                if state.handle(message).is_break() {
                    break;
                }
            }
        })?;
        Ok(Engine { devices: facts, messages, events: event_receiver, stats, thread: Some(thread) })
    }

    /// The events, to be taken by another thread than the one that keeps this handle. Once.
    pub fn take_events(&mut self) -> mpsc::Receiver<Event> {
        std::mem::replace(&mut self.events, mpsc::channel().1)
    }

    pub fn commands(&self) -> CommandSender {
        CommandSender(self.messages.clone())
    }

    pub fn send(&self, command: Command) {
        self.commands().send(command);
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.send(Command::Shutdown { id: RequestId(u64::MAX) });
        if let Some(thread) = self.thread.take() {
            // A panic there was already reported where it happened.
            let _ = thread.join();
        }
    }
}

struct State {
    devices: Devices,
    exec: Executor,
    messages: mpsc::Sender<Message>,
    events: mpsc::Sender<Event>,
    stats: watch::Sender<Stats>,
    loading: Option<Loading>,
    loaded: Option<LoadedModel>,
    work: Work,
    change: Option<Change>,
    /// Ends when the last staging thread has, and what it staged was taken or dropped.
    staging: Option<mpsc::Receiver<Infallible>>,
    /// Of the loaded model.
    measured: Measured,
    recovery: Option<Recovery>,
    /// Requests for the model that came while it recovers.
    waiting: Vec<Command>,
}

struct Loading {
    id: RequestId,
    cancel: Arc<AtomicBool>,
}

/// What the model is busy with.
enum Work {
    Idle,
    Generating(Box<Generation>),
    Logits(LogitsWork),
}

type Flow = std::ops::ControlFlow<()>;
const CONTINUE: Flow = Flow::Continue(());

impl State {
    fn handle(&mut self, message: Message) -> Flow {
        match message {
            Message::Command(command) => return self.command(command),
            Message::Reply(reply) => {
                if let Some(result) = self.exec.on_reply(reply) {
                    self.step_done(result);
                }
            }
            Message::LoadProgress { id, progress } => {
                if self.loading.as_ref().is_none_or(|l| l.id != id) {
                    return CONTINUE;
                }
                match progress {
                    StageProgress::Reserved { .. } => {}
                    StageProgress::Prepared { device, prepared } => self.preparing(id, device, prepared),
                    StageProgress::Filled { done_bytes, total_bytes, devices } => {
                        self.emit(Event::LoadProgress { id, done_bytes, total_bytes, devices });
                    }
                }
            }
            Message::LoadDone { id, result } => self.load_done(id, *result),
            Message::StageProgress { id, progress } => self.stage_progress(id, progress),
            Message::StageDone { id, result, running } => {
                self.stage_done(id, *result);
                drop(running);
            }
        }
        CONTINUE
    }

    fn emit(&self, event: Event) {
        // Nobody listens any more: the interface has gone, and `Shutdown` follows.
        let _ = self.events.send(event);
    }

    fn preparing(&self, id: RequestId, device: DeviceId, Prepared { n_done, n_total }: Prepared) {
        self.emit(Event::Preparing { id, device, n_done, n_total });
    }

    fn fail(&self, id: RequestId, message: impl Into<String>) {
        self.emit(Event::Failed { id, message: message.into() });
    }

    fn command(&mut self, command: Command) -> Flow {
        match command {
            Command::Load { id, options } => self.start_load(id, options),
            Command::Generate { id, request } => self.start_generation(id, *request),
            Command::Logits { id, ids, which } => self.start_logits(id, ids, which),
            Command::Stop { id } => {
                self.stop_work();
                self.emit(Event::Done { id });
            }
            Command::Repartition { id, placement, when } => self.start_change(id, &placement, when),
            Command::Preview { id, placement } => self.preview(id, &placement),
            Command::CancelRepartition { id } => {
                self.cancel_change();
                self.emit(Event::Done { id });
            }
            Command::Unload { id } => {
                self.unload();
                self.emit(Event::Done { id });
            }
            Command::Shutdown { id } => {
                self.unload();
                self.emit(Event::Done { id });
                return Flow::Break(());
            }
        }
        CONTINUE
    }

    // ---- loading ----

    fn start_load(&mut self, id: RequestId, options: LoadOptions) {
        self.unload();
        let cancel = Arc::new(AtomicBool::new(false));
        self.loading = Some(Loading { id, cancel: cancel.clone() });
        let (devices, messages, staging) = (self.devices.usable(), self.messages.clone(), self.staging.take());
        std::thread::spawn(move || {
            wait_for_end(staging);
            let report = |progress| {
                let _ = messages.send(Message::LoadProgress { id, progress });
            };
            let result = Box::new(load(&options, &devices, &cancel, &report));
            let _ = messages.send(Message::LoadDone { id, result });
        });
    }

    fn load_done(&mut self, id: RequestId, result: Result<LoadedModel, LoadError>) {
        // A load that was given up has had its last event; dropping the result frees what it took.
        if self.loading.take_if(|l| l.id == id).is_none() {
            return;
        }
        let installed = result.and_then(|loaded| {
            let segments = loaded.resident.segments(&loaded.model)?;
            Ok((loaded, segments))
        });
        match installed {
            Ok((loaded, segments)) => {
                self.exec.set_segments(segments);
                for text in &loaded.notices {
                    self.emit(Event::Notice { id, text: text.clone() });
                }
                let info = Box::new(loaded.info(&self.devices));
                tracing::debug!(?id, ?info, "loaded");
                self.loaded = Some(loaded);
                self.publish();
                self.emit(Event::Loaded { id, info });
            }
            Err(error) => self.fail(id, error.to_string()),
        }
    }

    /// Ends everything that hangs on the model, then frees it.
    fn unload(&mut self) {
        if let Some(loading) = self.loading.take() {
            loading.cancel.store(true, Ordering::Relaxed);
            self.fail(loading.id, "cancelled");
        }
        if let Some(recovery) = self.recovery.take() {
            recovery.cancel.store(true, Ordering::Relaxed);
        }
        for waiting in std::mem::take(&mut self.waiting) {
            self.fail(waiting.id(), "cancelled");
        }
        self.cancel_change();
        self.stop_work();
        // Steps in flight hold the memory: it is only free once they have ended.
        self.exec.abandon();
        match &self.work {
            Work::Idle => {}
            Work::Generating(_) => self.finish_generation(),
            Work::Logits(_) => self.finish_logits(),
        }
        self.exec.set_segments(vec![]);
        self.loaded = None;
        self.measured.clear();
        self.devices.0.iter().for_each(|d| d.trim());
        self.publish();
    }

    // ---- generating ----

    fn start_generation(&mut self, id: RequestId, request: GenerateRequest) {
        if self.recovery.is_some() {
            return self.waiting.push(Command::Generate { id, request: Box::new(request) });
        }
        if let Err(message) = self.free_to_work() {
            return self.fail(id, message);
        }
        self.switch_if_ready(true);
        let Some(loaded) = &mut self.loaded else { return self.fail(id, "no model is loaded") };
        let generation = match Generation::new(id, &request, &loaded.text, &mut loaded.session, &loaded.model) {
            Ok(generation) => generation,
            Err(error) => return self.fail(id, error.to_string()),
        };
        let (prompt_ids, n_cached) = (generation.prompt().to_vec(), generation.n_cached());
        let thinks_first = generation.thinks_first();
        self.exec.clear_stop();
        self.exec.restart_clock();
        self.emit(Event::PrefillStarted { id, prompt_ids, n_cached, thinks_first });
        self.work = Work::Generating(Box::new(generation));
        self.publish_progress();
        self.advance();
    }

    /// Why no new work can start, if so.
    fn free_to_work(&self) -> Result<(), &'static str> {
        if self.loaded.is_none() {
            return Err("no model is loaded");
        }
        match self.work {
            Work::Idle => Ok(()),
            Work::Generating(_) | Work::Logits(_) => Err("the model is busy with another request: stop that first"),
        }
    }

    /// Sends the next steps of what is going on, as many as keep all devices busy.
    fn advance(&mut self) {
        let max_in_flight = self.exec.n_segments() + 1;
        match &mut self.work {
            Work::Idle => {}
            Work::Generating(generation) => {
                while self.exec.n_in_flight() < max_in_flight {
                    let Some(step) = generation.next_step() else { break };
                    if let Err(error) = self.exec.submit(step, generation.step_kind()) {
                        generation.fail(error);
                        break;
                    }
                }
                if self.exec.n_in_flight() == 0 && generation.is_ending() {
                    self.finish_generation();
                }
            }
            Work::Logits(work) => {
                while self.exec.n_in_flight() < max_in_flight {
                    let Some(step) = work.next_step() else { break };
                    if let Err(error) = self.exec.submit(step, StepKind::Prefill) {
                        work.fail(error);
                    }
                }
                if self.exec.n_in_flight() == 0 {
                    self.finish_logits();
                }
            }
        }
    }

    fn step_done(&mut self, result: Result<Completed, DeviceError>) {
        let Some(loaded) = &mut self.loaded else { return };
        match &mut self.work {
            Work::Idle => {}
            Work::Generating(generation) => {
                let next = match result {
                    Ok(completed) => generation.on_completed(completed, &mut loaded.session, &loaded.text),
                    Err(error) => {
                        generation.fail(error);
                        // The other steps in flight are of no use any more.
                        self.exec.stop();
                        Next::Wait
                    }
                };
                let id = generation.id();
                match next {
                    Next::Wait => {}
                    Next::Prefilling { n_done, n_total } => self.emit(Event::PrefillProgress { id, n_done, n_total }),
                    Next::Token { token, text, finished } => {
                        self.emit(Event::Token { id, token, text });
                        if finished {
                            return self.finish_generation();
                        }
                        self.switch_if_ready(false);
                    }
                    Next::Finished => return self.finish_generation(),
                }
                self.publish_progress();
                self.advance();
            }
            Work::Logits(work) => {
                match result {
                    Ok(completed) => {
                        let n_vocab = loaded.model.programs.spec.n_vocab;
                        if let Some(event) = work.on_completed(completed, n_vocab) {
                            self.emit(event);
                        }
                    }
                    Err(error) => work.fail(error),
                }
                self.advance();
            }
        }
    }

    fn finish_generation(&mut self) {
        let Work::Generating(generation) = std::mem::replace(&mut self.work, Work::Idle) else { return };
        let id = generation.id();
        self.note_measured();
        match generation.finish() {
            Ok(mut summary) => {
                self.exec.read_clock(&mut summary.timings);
                tracing::debug!(?id, stop = ?summary.stop, timings = ?summary.timings, "finished");
                self.stats.send_modify(|s| s.timings = summary.timings.clone());
                self.publish();
                self.emit(Event::Finished { id, summary: Box::new(summary) });
            }
            Err(error) => {
                self.publish();
                self.fail(id, error.to_string());
            }
        }
        self.settle(id);
    }

    /// After work has ended: a lost device comes first, then a change that waits for its moment.
    fn settle(&mut self, id: RequestId) {
        self.recover_if_lost(id);
        self.switch_if_ready(false);
    }

    /// Makes the running work end soon; its own end is an event of its own.
    fn stop_work(&mut self) {
        for waiting in std::mem::take(&mut self.waiting) {
            self.fail(waiting.id(), "stopped before it began");
        }
        match &mut self.work {
            Work::Idle => return,
            Work::Generating(generation) => generation.stop(),
            Work::Logits(work) => work.fail(DeviceError::Stopped),
        }
        self.exec.stop();
        if self.exec.n_in_flight() > 0 {
            return;
        }
        match &self.work {
            Work::Idle => {}
            Work::Generating(_) => self.finish_generation(),
            Work::Logits(_) => self.finish_logits(),
        }
    }

    // ---- logits ----

    fn start_logits(&mut self, id: RequestId, ids: Vec<u32>, which: LogitRows) {
        if self.recovery.is_some() {
            return self.waiting.push(Command::Logits { id, ids, which });
        }
        if let Err(message) = self.free_to_work() {
            return self.fail(id, message);
        }
        self.switch_if_ready(true);
        let Some(loaded) = &mut self.loaded else { return };
        if let Err(error) = check_prompt(&ids, loaded.model.programs.spec.n_vocab, loaded.model.n_ctx) {
            return self.fail(id, error.to_string());
        }
        loaded.session.clear();
        self.exec.clear_stop();
        self.exec.restart_clock();
        self.work = Work::Logits(LogitsWork::new(id, ids, which));
        self.advance();
    }

    fn finish_logits(&mut self) {
        let Work::Logits(work) = std::mem::replace(&mut self.work, Work::Idle) else { return };
        let id = work.id();
        match work.finish() {
            Ok(mut summary) => {
                self.exec.read_clock(&mut summary.timings);
                self.emit(Event::Finished { id, summary: Box::new(summary) });
            }
            Err(error) => self.fail(id, error.to_string()),
        }
        self.settle(id);
    }

    // ---- a lost device ----

    fn recover_if_lost(&mut self, id: RequestId) {
        let Some(loaded) = &mut self.loaded else { return };
        let Some(lost) = lost_device(loaded, &self.devices) else { return };
        // Positions of the lost layers are gone, and with them what the others are good for.
        loaded.session.clear();
        let chosen = new_placement(loaded, &self.devices);
        self.exec.set_segments(vec![]);
        self.cancel_change();
        let (Ok(placement), Some(loaded)) = (&chosen, &self.loaded) else {
            return self.give_up(id, lost, chosen.err().unwrap_or_default());
        };
        let message = format!("{lost} is lost: its parts are placed anew, from the file");
        let state = RecoveryState::Started { message, placement: placement.to_string() };
        self.emit(Event::Recovery { id, device: lost, state });
        let cancel = Arc::new(AtomicBool::new(false));
        let order = stage_order(&loaded.model, Some(&loaded.resident), placement, 1);
        let (model, placement) = (loaded.model.clone(), placement.clone());
        self.recovery = Some(Recovery { id, lost, placement, cancel: cancel.clone(), started: Instant::now() });
        self.start_staging(id, model, order, cancel);
    }

    fn recovery_done(&mut self, recovery: Recovery, result: Result<Staged, StageError>) {
        let Recovery { id, lost, placement, started, .. } = recovery;
        let Some(loaded) = &mut self.loaded else { return };
        let installed = result
            .map_err(|e| e.to_string())
            .and_then(|staged| install(loaded, &placement, &staged, &self.devices).map_err(|e| e.to_string()));
        match installed {
            Ok(segments) => {
                self.exec.set_segments(segments);
                self.devices.trim_unused(&placement);
                self.publish();
                let took_ms = started.elapsed().as_secs_f64() * 1e3;
                let state = RecoveryState::Recovered { placement: placement.to_string(), took_ms };
                self.emit(Event::Recovery { id, device: lost, state });
                for command in std::mem::take(&mut self.waiting) {
                    // None of them ends the engine.
                    let _ = self.command(command);
                }
            }
            // Another device may have been lost meanwhile; what is left may still do.
            Err(message) => match lost_device(loaded, &self.devices).filter(|other| *other != lost) {
                Some(_) => self.recover_if_lost(id),
                None => self.give_up(id, lost, message),
            },
        }
    }

    /// No model goes on without the lost device.
    fn give_up(&mut self, id: RequestId, lost: DeviceId, why: String) {
        let message = format!("{lost} is lost and the model cannot go on without it: {why}");
        self.emit(Event::Recovery { id, device: lost, state: RecoveryState::Failed { message } });
        self.unload();
    }

    // ---- live change ----

    fn start_change(&mut self, id: RequestId, text: &str, when: When) {
        self.cancel_change();
        let Some(loaded) = &self.loaded else { return self.fail(id, "no model is loaded") };
        if let Some(recovery) = &self.recovery {
            let message = format!("the parts of {} are being placed anew: wait for that", recovery.lost);
            return self.emit(Event::Repartition { id, state: ChangeState::Refused { message } });
        }
        let checked = check_change(text, loaded, &self.devices.usable(), &self.measured);
        let (placement, state) = match checked {
            Ok(checked) => checked,
            Err(message) => {
                return self.emit(Event::Repartition { id, state: ChangeState::Refused { message } });
            }
        };
        self.emit(Event::Repartition { id, state });
        let cancel = Arc::new(AtomicBool::new(false));
        let order = stage_order(&loaded.model, Some(&loaded.resident), &placement, 1);
        self.change = Some(Change { id, placement, when, cancel: cancel.clone(), phase: ChangePhase::Staging });
        let model = loaded.model.clone();
        self.start_staging(id, model, order, cancel);
    }

    fn start_staging(&mut self, id: RequestId, model: Arc<Model>, order: StageOrder, cancel: Arc<AtomicBool>) {
        let (devices, messages) = (self.devices.clone(), self.messages.clone());
        let (running, end) = mpsc::channel();
        let before = self.staging.replace(end);
        std::thread::spawn(move || {
            // What a change that this one replaces has taken counts as free already.
            wait_for_end(before);
            let report = |progress| {
                let _ = messages.send(Message::StageProgress { id, progress });
            };
            let result = Box::new(stage(&model, &devices, &order, &cancel, &report));
            let _ = messages.send(Message::StageDone { id, result, running });
        });
    }

    fn stage_progress(&mut self, id: RequestId, progress: StageProgress) {
        if self.change.as_ref().is_none_or(|c| c.id != id) {
            if let StageProgress::Prepared { device, prepared } = progress
                && self.recovery.as_ref().is_some_and(|r| r.id == id)
            {
                self.preparing(id, device, prepared);
            }
            return;
        }
        let state = match progress {
            StageProgress::Reserved { bytes } => ChangeState::Reserved { reserved_bytes: bytes },
            StageProgress::Prepared { device, prepared } => return self.preparing(id, device, prepared),
            StageProgress::Filled { done_bytes, total_bytes, .. } => ChangeState::Staging { done_bytes, total_bytes },
        };
        self.emit(Event::Repartition { id, state });
    }

    fn stage_done(&mut self, id: RequestId, result: Result<Staged, StageError>) {
        if let Some(recovery) = self.recovery.take_if(|r| r.id == id) {
            return self.recovery_done(recovery, result);
        }
        // A change that was cancelled has had its last event; dropping the result frees what it took.
        let Some(change) = self.change.as_mut().filter(|c| c.id == id) else { return };
        match result {
            Ok(staged) => {
                let staging_ms = staged.elapsed.as_secs_f64() * 1e3;
                change.phase = ChangePhase::Ready(Box::new(staged));
                self.publish();
                self.emit(Event::Repartition { id, state: ChangeState::Ready { staging_ms } });
                if matches!(self.work, Work::Idle) {
                    self.switch_if_ready(false);
                }
            }
            Err(error) => {
                self.change = None;
                let state = ChangeState::Failed { message: error.to_string() };
                self.emit(Event::Repartition { id, state });
            }
        }
    }

    fn preview(&mut self, id: RequestId, text: &str) {
        let Some(loaded) = &self.loaded else { return self.fail(id, "no model is loaded") };
        // The answer that runs is measured, too.
        note_measured(&mut self.measured, loaded, self.exec.segment_times());
        let (_, preview) = preview(text, loaded, &self.devices.usable(), &self.measured);
        self.emit(Event::Previewed { id, preview: Box::new(preview) });
    }

    fn cancel_change(&mut self) {
        if let Some(change) = self.change.take() {
            change.cancel.store(true, Ordering::Relaxed);
            self.emit(Event::Repartition { id: change.id, state: ChangeState::Cancelled });
        }
    }

    /// Installs a staged change if this is its moment. Only called between steps, with none in flight.
    fn switch_if_ready(&mut self, before_prefill: bool) {
        if self.exec.n_in_flight() > 0 {
            return;
        }
        let due = self
            .change
            .take_if(|c| matches!(c.phase, ChangePhase::Ready(_)) && (before_prefill || c.when == When::Now));
        let (Some(Change { id, placement, phase: ChangePhase::Ready(staged), .. }), Some(loaded)) =
            (due, &mut self.loaded)
        else {
            return;
        };
        let started = Instant::now();
        note_measured(&mut self.measured, loaded, &self.exec.take_segment_times());
        let n_past = loaded.session.n_past();
        let switched =
            loaded.resident.switched(&placement, &staged, n_past, &self.devices).and_then(|(resident, kv_bytes)| {
                let segments = resident.segments(&loaded.model)?;
                Ok((resident, segments, kv_bytes))
            });
        let state = match switched {
            Ok((resident, segments, kv_bytes)) => {
                self.exec.set_segments(segments);
                loaded.resident = resident;
                self.devices.trim_unused(&placement);
                ChangeState::Switched {
                    placement: placement.to_string(),
                    weight_bytes: staged.weight_bytes,
                    kv_bytes,
                    staging_ms: staged.elapsed.as_secs_f64() * 1e3,
                    stall_ms: started.elapsed().as_secs_f64() * 1e3,
                }
            }
            Err(error) => ChangeState::Failed { message: error.to_string() },
        };
        tracing::debug!(?id, ?state, "change");
        self.publish();
        self.emit(Event::Repartition { id, state });
    }

    /// What decoding has taken since the last switch or the answer's start.
    fn note_measured(&mut self) {
        let times = self.exec.take_segment_times();
        if let Some(loaded) = &self.loaded {
            note_measured(&mut self.measured, loaded, &times);
        }
    }

    /// Everything, after parts or memory have changed.
    fn publish(&self) {
        let loaded = self.loaded.as_ref();
        // Asked before the lock is taken, which a reader may wait for.
        let devices = device_memory(&self.devices, loaded);
        let part_ms = loaded.map(|l| part_ms(l, &self.measured)).unwrap_or_default();
        self.stats.send_modify(|stats| {
            stats.placement = loaded.map(|l| l.resident.placement.to_string()).unwrap_or_default();
            stats.n_ctx = loaded.map_or(0, |l| l.model.n_ctx);
            (stats.devices, stats.part_ms) = (devices, part_ms);
            self.set_progress(stats);
        });
    }

    /// What changes with every token.
    fn publish_progress(&self) {
        self.stats.send_modify(|stats| self.set_progress(stats));
    }

    fn set_progress(&self, stats: &mut Stats) {
        stats.n_past = self.loaded.as_ref().map_or(0, |l| l.session.n_past());
        let (timings, recent) = match &self.work {
            Work::Generating(generation) => {
                let mut timings = generation.timings();
                self.exec.read_clock(&mut timings);
                (timings, generation.recent_tokens_per_s())
            }
            Work::Idle | Work::Logits(_) => (std::mem::take(&mut stats.timings), None),
        };
        stats.streaming = matches!(self.work, Work::Generating(_));
        set_timings(stats, timings, recent, |id| self.exec.busy_total(id));
    }
}

/// Waits until a staging thread is through and what it staged is not pending any more.
fn wait_for_end(staging: Option<mpsc::Receiver<Infallible>>) {
    // Nothing is ever sent: this returns when the sender is dropped.
    if let Some(end) = staging {
        let _ = end.recv();
    }
}
