//! Devices that fail: whatever breaks while layers move, the old placement goes on, and what was taken is given back.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use common::{Client, cpu_config, golden, golden_json, greedy, ids, options};
use layercake::devices::cpu::CpuDevice;
use layercake::devices::cpu::matmul::ActivationFormat;
use layercake::devices::{
    BoundProgram, Buffer, Device, DeviceError, DeviceFacts, MemoryInfo, ProgramShape, Step, WeightSpec,
};
use layercake::engine::kv::KvType;
use layercake::engine::protocol::{ChangeState, Command, Event, RecoveryState, RequestId, When};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Call {
    Alloc,
    Fill,
    Upload,
    Download,
    Run,
}

/// A CPU device of which the n-th call of one kind, and every later one, fails while it is armed.
struct Faulty {
    inner: CpuDevice,
    call: Call,
    left: AtomicUsize,
    armed: AtomicBool,
    /// Its first failure is its end, as a GPU's that is lost.
    fatal: bool,
    lost: AtomicBool,
}

impl Faulty {
    fn new(index: u16, call: Call, after: usize) -> Arc<Faulty> {
        let inner = CpuDevice::new(cpu_config(index, ActivationFormat::Int8)).unwrap();
        Arc::new(Faulty {
            inner,
            call,
            left: AtomicUsize::new(after),
            armed: AtomicBool::new(false),
            fatal: false,
            lost: AtomicBool::new(false),
        })
    }

    /// As [`Faulty::new`], but lost for good with the first failure, and armed.
    fn fatal(index: u16, call: Call, after: usize) -> Arc<Faulty> {
        let faulty = Arc::into_inner(Faulty::new(index, call, after)).unwrap();
        faulty.armed.store(true, Ordering::SeqCst);
        Arc::new(Faulty { fatal: true, ..faulty })
    }

    fn check(&self, call: Call) -> Result<(), DeviceError> {
        let lost = || DeviceError::Lost { device: self.facts().id, message: "fell off the bus on purpose".into() };
        if self.is_lost() {
            return Err(lost());
        }
        if call != self.call || !self.armed.load(Ordering::SeqCst) {
            return Ok(());
        }
        let left = self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1));
        if left.is_ok() {
            return Ok(());
        }
        self.lost.store(self.fatal, Ordering::SeqCst);
        let message = format!("{call:?} failed on purpose");
        Err(if self.fatal { lost() } else { DeviceError::Failed { device: self.facts().id, message } })
    }
}

impl Device for Faulty {
    fn facts(&self) -> &DeviceFacts {
        self.inner.facts()
    }
    fn memory(&self) -> MemoryInfo {
        self.inner.memory()
    }
    fn is_lost(&self) -> bool {
        self.lost.load(Ordering::SeqCst)
    }
    fn weight_bytes(&self, weight: &WeightSpec) -> u64 {
        self.inner.weight_bytes(weight)
    }
    fn work_bytes(&self, programs: &[ProgramShape<'_>], max_rows: usize) -> u64 {
        self.inner.work_bytes(programs, max_rows)
    }
    fn alloc_weight(&self, weight: &WeightSpec) -> Result<Buffer, DeviceError> {
        self.check(Call::Alloc)?;
        self.inner.alloc_weight(weight)
    }
    fn fill_weight(&self, to: &Buffer, weight: &WeightSpec, data: &[u8]) -> Result<(), DeviceError> {
        self.check(Call::Fill)?;
        self.inner.fill_weight(to, weight, data)
    }
    fn alloc(&self, what: &'static str, n_bytes: u64) -> Result<Buffer, DeviceError> {
        self.check(Call::Alloc)?;
        self.inner.alloc(what, n_bytes)
    }
    fn upload(&self, to: &Buffer, offset: u64, data: &[u8]) -> Result<(), DeviceError> {
        self.check(Call::Upload)?;
        self.inner.upload(to, offset, data)
    }
    fn download(&self, from: &Buffer, offset: u64, data: &mut [u8]) -> Result<(), DeviceError> {
        self.check(Call::Download)?;
        self.inner.download(from, offset, data)
    }
    fn trim(&self) {
        self.inner.trim();
    }
    fn run(&self, work: &[BoundProgram<'_>], step: &Step, stop: &AtomicBool) -> Result<(), DeviceError> {
        self.check(Call::Run)?;
        self.inner.run(work, step, stop)
    }
}

fn prompt() -> Vec<u32> {
    ids(&golden_json("models/llama.json")["golden"]["prompt"])
}

/// Moves layer 1 to a device that fails; gives how the change ended and what was still held there afterwards.
fn move_to(faulty: Arc<Faulty>) -> (ChangeState, u64, Client) {
    let good: Arc<dyn Device> = Arc::new(CpuDevice::new(cpu_config(0, ActivationFormat::Int8)).unwrap());
    let model = golden("models/llama.gguf");
    let mut client = Client::loaded(vec![good, faulty.clone()], options(model, KvType::F16, Some("cpu0=all")));
    let expected = client.generate(greedy(prompt(), 48)).ids;
    faulty.armed.store(true, Ordering::SeqCst);
    let id = client.new_id();
    let (mut n_tokens, mut end) = (0, None);
    let change = RequestId(500);
    let request = Box::new(greedy(prompt(), 48));
    let events = client.call(Command::Generate { id, request }, |engine, event| match event {
        Event::Token { .. } => {
            n_tokens += 1;
            if n_tokens == 3 {
                let placement = "cpu1=1,head".into();
                engine.send(Command::Repartition { id: change, placement, when: When::Now });
            }
        }
        Event::Repartition { state, .. } if state.is_terminal() => end = Some(state.clone()),
        _ => {}
    });
    assert_eq!(common::summary(events).ids, expected, "the answer goes on in the old place");
    let end = end.unwrap_or_else(|| client.wait_for_change(change));
    let held = faulty.memory().ours_bytes;
    assert_eq!(client.generate(greedy(prompt(), 48)).ids, expected);
    (end, held, client)
}

#[test]
fn a_change_that_fails_anywhere_leaves_the_old_placement_working() {
    for (call, after) in [
        (Call::Alloc, 0),
        (Call::Alloc, 3),
        (Call::Alloc, 12),
        (Call::Fill, 0),
        (Call::Fill, 7),
        (Call::Upload, 0),
        (Call::Upload, 3),
    ] {
        let faulty = Faulty::new(1, call, after);
        let (end, held, mut client) = move_to(faulty.clone());
        let ChangeState::Failed { message } = &end else { panic!("{call:?} {after}: {end:?}") };
        assert!(message.contains("cpu1") && message.contains("on purpose"), "{message}");
        assert_eq!(held, 0, "{call:?} {after}: memory was given back");
        // Once the device works again, so does the move.
        faulty.armed.store(false, Ordering::SeqCst);
        let id = client.repartition("cpu1=1,head", When::Now);
        assert!(matches!(client.wait_for_change(id), ChangeState::Switched { .. }));
    }
}

/// The KV cannot be read back: nothing is switched, and the conversation goes on where its cache is.
#[test]
fn a_source_that_cannot_be_read_keeps_its_layers() {
    let faulty = Faulty::new(0, Call::Download, 0);
    let good: Arc<dyn Device> = Arc::new(CpuDevice::new(cpu_config(1, ActivationFormat::Int8)).unwrap());
    let model = golden("models/llama.gguf");
    let placement = "cpu0=embed,0; cpu1=1,head";
    let mut client = Client::loaded(vec![faulty.clone(), good], options(model, KvType::F16, Some(placement)));
    let expected = client.generate(greedy(prompt(), 16)).ids;
    faulty.armed.store(true, Ordering::SeqCst);
    let id = client.repartition("cpu1=0", When::Now);
    assert!(matches!(client.wait_for_change(id), ChangeState::Failed { .. }));
    faulty.armed.store(false, Ordering::SeqCst);
    assert_eq!(client.generate(greedy(prompt(), 16)).ids, expected);
}

/// A device that fails in the middle of an answer costs that answer and nothing else.
#[test]
fn a_step_that_fails_ends_the_answer_with_the_devices_words() {
    for after in [0, 1, 5] {
        let faulty = Faulty::new(1, Call::Run, after);
        let good: Arc<dyn Device> = Arc::new(CpuDevice::new(cpu_config(0, ActivationFormat::Int8)).unwrap());
        let model = golden("models/llama.gguf");
        let placement = "cpu0=embed,0; cpu1=1,head";
        let mut client = Client::loaded(vec![good, faulty.clone()], options(model, KvType::F16, Some(placement)));
        let expected = client.generate(greedy(prompt(), 16)).ids;
        faulty.armed.store(true, Ordering::SeqCst);
        let id = client.new_id();
        let request = Box::new(greedy(prompt(), 16));
        let events = client.call(Command::Generate { id, request }, |_, _| {});
        let Some(Event::Failed { message, .. }) = events.last() else { panic!("{events:?}") };
        assert!(message.contains("cpu1") && message.contains("Run failed on purpose"), "{message}");
        faulty.armed.store(false, Ordering::SeqCst);
        assert_eq!(client.generate(greedy(prompt(), 16)).ids, expected);
    }
}

/// A lost device costs the answer in flight at most: its parts come back from the file on what is left, the next
/// request waits for that, and the conversation's tokens are computed again.
#[test]
fn a_lost_device_is_replaced_by_what_is_left() {
    for (call, after) in [(Call::Run, 0), (Call::Run, 9), (Call::Upload, 20), (Call::Download, 20)] {
        let faulty = Faulty::fatal(1, call, after);
        let cpu = |index| Arc::new(CpuDevice::new(cpu_config(index, ActivationFormat::Int8)).unwrap());
        let good: [Arc<CpuDevice>; 2] = [cpu(0), cpu(2)];
        let model = golden("models/llama.gguf");
        let mut whole = Client::loaded(vec![cpu(0)], options(&model, KvType::F16, None));
        let expected = whole.generate(greedy(prompt(), 24)).ids;
        let placement = "cpu0=embed,0; cpu1=1,head";
        let devices: Vec<Arc<dyn Device>> = vec![good[0].clone(), faulty.clone(), good[1].clone()];
        let mut client = Client::loaded(devices, options(&model, KvType::F16, Some(placement)));
        let id = client.new_id();
        let request = Box::new(greedy(prompt(), 24));
        let events = client.call(Command::Generate { id, request }, |_, _| {});
        let Some(Event::Failed { message, .. }) = events.last() else { panic!("{call:?}: {events:?}") };
        assert!(message.contains("cpu1 is lost") && message.contains("bus on purpose"), "{message}");
        // Sent at once, while the parts are on their way.
        let id = client.new_id();
        let request = Box::new(greedy(prompt(), 24));
        let events = client.call(Command::Generate { id, request }, |_, _| {});
        let states: Vec<_> = events
            .iter()
            .filter_map(|event| match event {
                Event::Recovery { device, state, .. } => Some((device.to_string(), state.clone())),
                _ => None,
            })
            .collect();
        let [(started_on, RecoveryState::Started { .. }), (_, RecoveryState::Recovered { placement, .. })] =
            &states[..]
        else {
            panic!("{call:?} {after}: {states:?}")
        };
        assert_eq!(started_on, "cpu1");
        assert!(placement.contains("cpu0=") && !placement.contains("cpu1"), "{placement}");
        assert_eq!(common::summary(events).ids, expected);
        assert_eq!(faulty.memory().ours_bytes, 0, "nothing of the model is held there any more");
        let id = client.repartition("cpu2=1", When::Now);
        assert!(matches!(client.wait_for_change(id), ChangeState::Switched { .. }));
        let id = client.repartition("cpu1=0", When::Now);
        assert!(matches!(client.wait_for_change(id), ChangeState::Refused { .. }), "nothing moves to a lost device");
        assert_eq!(client.generate(greedy(prompt(), 24)).ids, expected);
    }
}

/// Nothing is left that could hold the model: it is given back, with words.
#[test]
fn the_only_device_that_is_lost_takes_the_model_with_it() {
    let faulty = Faulty::fatal(0, Call::Run, 3);
    let mut client = Client::loaded(vec![faulty], options(golden("models/llama.gguf"), KvType::F16, None));
    let id = client.new_id();
    let request = Box::new(greedy(prompt(), 24));
    let events = client.call(Command::Generate { id, request }, |_, _| {});
    assert!(matches!(events.last(), Some(Event::Failed { .. })), "{events:?}");
    let Event::Recovery { state: RecoveryState::Failed { message }, .. } = client.next_event() else { panic!() };
    assert!(message.contains("cpu0 is lost and the model cannot go on"), "{message}");
    let id = client.new_id();
    let request = Box::new(greedy(prompt(), 24));
    let events = client.call(Command::Generate { id, request }, |_, _| {});
    let Some(Event::Failed { message, .. }) = events.last() else { panic!("{events:?}") };
    assert!(message.contains("no model is loaded"), "{message}");
}

#[test]
fn a_load_that_fails_gives_everything_back() {
    for call in [Call::Alloc, Call::Fill] {
        let faulty = Faulty::new(0, call, 9);
        faulty.armed.store(true, Ordering::SeqCst);
        let mut client = Client::new(vec![faulty.clone()]);
        let events = client.load(options(golden("models/llama.gguf"), KvType::F16, None));
        assert!(matches!(events.last(), Some(Event::Failed { .. })), "{events:?}");
        assert_eq!(faulty.memory().ours_bytes, 0);
    }
}
