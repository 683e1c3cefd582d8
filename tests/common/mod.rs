//! What integration tests share: golden data, devices, and a client that waits.
#![allow(dead_code)]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use layercake::devices::cpu::matmul::ActivationFormat;
use layercake::devices::cpu::{CpuConfig, CpuDevice};
use layercake::devices::{Device, DeviceId, DeviceKind};
use layercake::engine::kv::KvType;
use layercake::engine::protocol::{
    ChangeState, Command, Event, GenerateRequest, LoadOptions, LogitRows, Prompt, RequestId, Summary, When,
};
use layercake::engine::run::Engine;
use layercake::engine::sampler::SamplerSettings;

/// Golden data must be there: a test that cannot compare has failed.
pub fn golden(path: &str) -> PathBuf {
    let folder = match std::env::var_os("LAYERCAKE_GOLDEN") {
        Some(path) => PathBuf::from(path),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/golden"),
    };
    let path = folder.join(path);
    assert!(path.exists(), "golden data is missing: {}", path.display());
    path
}

pub fn golden_json(path: &str) -> serde_json::Value {
    serde_json::from_str(&std::fs::read_to_string(golden(path)).unwrap()).unwrap()
}

pub fn golden_f32(path: &str) -> Vec<f32> {
    let bytes = std::fs::read(golden(path)).unwrap();
    bytes.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect()
}

pub fn ids(value: &serde_json::Value) -> Vec<u32> {
    serde_json::from_value(value.clone()).unwrap()
}

pub fn f32s(value: &serde_json::Value) -> Vec<f32> {
    serde_json::from_value(value.clone()).unwrap()
}

/// The demo model, which `scripts/test` fetches.
pub fn smollm2() -> PathBuf {
    let path = layercake::models::demo_path().unwrap();
    assert!(path.exists(), "the demo model is missing: run `layercake demo --fetch-only` ({})", path.display());
    path
}

/// Sum of squared errors over sum of squares.
pub fn nmse(actual: &[f32], expected: &[f32]) -> f64 {
    assert_eq!(actual.len(), expected.len());
    let error: f64 = actual.iter().zip(expected).map(|(a, e)| (f64::from(*a) - f64::from(*e)).powi(2)).sum();
    let norm: f64 = expected.iter().map(|e| f64::from(*e).powi(2)).sum();
    error / norm
}

pub fn max_abs(actual: &[f32], expected: &[f32]) -> f32 {
    actual.iter().zip(expected).map(|(a, e)| (a - e).abs()).fold(0.0, f32::max)
}

pub fn cpu_config(index: u16, activations: ActivationFormat) -> CpuConfig {
    CpuConfig {
        id: DeviceId::cpu(index),
        name: "test CPU".into(),
        simulated: false,
        n_threads: 2,
        memory_bytes: None,
        activations,
        memory_bytes_per_s: None,
        link_bytes_per_s: None,
    }
}

pub fn cpus(n: u16, activations: ActivationFormat) -> Vec<Arc<dyn Device>> {
    (0..n).map(|i| Arc::new(CpuDevice::new(cpu_config(i, activations)).unwrap()) as Arc<dyn Device>).collect()
}

/// Simulated devices with these memories.
pub fn sims(memories: &[(DeviceKind, u16, u64)]) -> Vec<Arc<dyn Device>> {
    let device = |(kind, index, memory_bytes): &(DeviceKind, u16, u64)| {
        let config = CpuConfig {
            id: DeviceId::new(*kind, *index),
            simulated: true,
            memory_bytes: Some(*memory_bytes),
            ..cpu_config(0, ActivationFormat::Int8)
        };
        Arc::new(CpuDevice::new(config).unwrap()) as Arc<dyn Device>
    };
    memories.iter().map(device).collect()
}

/// An engine whose events are waited for.
pub struct Client {
    pub engine: Engine,
    next_id: u64,
}

impl Client {
    pub fn new(devices: Vec<Arc<dyn Device>>) -> Client {
        Client { engine: Engine::start(devices).unwrap(), next_id: 0 }
    }

    /// A model on these devices, ready.
    pub fn loaded(devices: Vec<Arc<dyn Device>>, options: LoadOptions) -> Client {
        let mut client = Client::new(devices);
        let events = client.load(options);
        assert!(matches!(events.last(), Some(Event::Loaded { .. })), "{events:?}");
        client
    }

    pub fn new_id(&mut self) -> RequestId {
        self.next_id += 1;
        RequestId(self.next_id)
    }

    pub fn load(&mut self, options: LoadOptions) -> Vec<Event> {
        let id = self.new_id();
        self.call(Command::Load { id, options }, |_, _| {})
    }

    /// All events up to the command's end, those of other commands too.
    pub fn call(&mut self, command: Command, mut on_event: impl FnMut(&Engine, &Event)) -> Vec<Event> {
        let id = command.id();
        self.engine.send(command);
        let mut events = vec![];
        loop {
            let event = self.next_event();
            on_event(&self.engine, &event);
            let ended = event.id() == id && event.is_terminal();
            events.push(event);
            if ended {
                return events;
            }
        }
    }

    pub fn next_event(&mut self) -> Event {
        self.engine.events.recv_timeout(std::time::Duration::from_secs(120)).expect("an event within two minutes")
    }

    pub fn logits(&mut self, ids: &[u32]) -> Vec<f32> {
        let id = self.new_id();
        let events = self.call(Command::Logits { id, ids: ids.to_vec(), which: LogitRows::All }, |_, _| {});
        assert!(matches!(events.last(), Some(Event::Finished { .. })), "{:?}", events.last());
        let rows = events.into_iter().filter_map(|e| match e {
            Event::Logits { logits, .. } => Some(logits),
            _ => None,
        });
        rows.flatten().collect()
    }

    pub fn generate(&mut self, request: GenerateRequest) -> Summary {
        let id = self.new_id();
        summary(self.call(Command::Generate { id, request: Box::new(request) }, |_, _| {}))
    }

    /// Waits for the end of a change.
    pub fn wait_for_change(&mut self, change: RequestId) -> ChangeState {
        loop {
            if let Event::Repartition { id, state } = self.next_event()
                && id == change
                && state.is_terminal()
            {
                return state;
            }
        }
    }

    pub fn repartition(&mut self, placement: &str, when: When) -> RequestId {
        let id = self.new_id();
        self.engine.send(Command::Repartition { id, placement: placement.into(), when });
        id
    }
}

pub fn summary(events: Vec<Event>) -> Summary {
    match events.into_iter().next_back() {
        Some(Event::Finished { summary, .. }) => *summary,
        other => panic!("did not finish: {other:?}"),
    }
}

pub fn options(path: impl Into<PathBuf>, kv: KvType, placement: Option<&str>) -> LoadOptions {
    LoadOptions { path: path.into(), n_ctx: Some(512), kv, placement: placement.map(str::to_owned) }
}

pub fn greedy(ids: Vec<u32>, n: u32) -> GenerateRequest {
    GenerateRequest {
        prompt: Prompt::Ids(ids),
        sampling: SamplerSettings { temperature: 0.0, ..SamplerSettings::default() },
        stop: vec![],
        max_tokens: Some(n),
        ignore_eog: true,
        reuse_cache: true,
    }
}
