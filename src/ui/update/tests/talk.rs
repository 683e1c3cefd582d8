//! What the engine says in these scripts, and what is said to it.

use crate::engine::protocol::*;
use crate::sessions::Record;
use crate::ui::gauges::testing::{CUDA0, mib};
use crate::ui::msg::Effect;

pub const N_LAYER: u32 = 12;
pub const N_CTX: u32 = 1000;
pub const PLACEMENT: &str = "cuda0=embed,0-5; rocm0=6-9; cpu0=10-11,head";

pub fn options(path: &str) -> LoadOptions {
    LoadOptions { path: path.into(), n_ctx: None, kv: KvType::default(), placement: None }
}

pub fn model(path: &str) -> ModelInfo {
    let part = |part| PartInfo { part, weight_bytes: mib(100), kv_bytes: mib(4) };
    ModelInfo {
        path: path.into(),
        name: "A model".into(),
        arch: "llama".into(),
        quant: "Q4_K_M".into(),
        n_layer: N_LAYER,
        n_vocab: 32_000,
        n_ctx: N_CTX,
        n_ctx_train: 8192,
        n_params: 1_000_000_000,
        file_bytes: mib(700),
        kv: KvType::default(),
        is_moe: false,
        has_chat_template: true,
        placement: PLACEMENT.into(),
        parts: Part::all(N_LAYER).map(part).collect(),
        device_bytes: vec![(CUDA0, mib(400))],
        load_ms: 12.0,
    }
}

/// What the engine says of a draft that fits.
pub fn preview(placement: &str) -> Preview {
    Preview {
        placement: placement.into(),
        refused: None,
        devices: vec![],
        n_moves: 2,
        weight_bytes: mib(100),
        staging_s: 0.2,
        kv_bytes: mib(4),
        stall_s: 0.01,
        from_tokens_per_s: 38.0,
        to_tokens_per_s: 44.0,
        prefill_tokens_per_s: 900.0,
        n_hops: 2,
        hop_ms: 0.1,
        bottleneck: Bottleneck { at: BottleneckAt::Device(CUDA0), share: 0.6 },
        basis: Basis::Measured,
        notes: vec![],
    }
}

pub fn switched(placement: &str) -> ChangeState {
    ChangeState::Switched {
        placement: placement.into(),
        weight_bytes: mib(100),
        kv_bytes: mib(4),
        staging_ms: 200.0,
        stall_ms: 12.0,
    }
}

pub fn commands(effects: &[Effect]) -> Vec<&Command> {
    let commands = effects.iter().filter_map(|effect| match effect {
        Effect::Engine(command) => Some(command),
        _ => None,
    });
    commands.collect()
}

pub fn records(effects: &[Effect]) -> Vec<&Record> {
    let records = effects.iter().filter_map(|effect| match effect {
        Effect::Record(record) => Some(record),
        _ => None,
    });
    records.collect()
}

pub fn load_id(effects: &[Effect]) -> RequestId {
    load(effects).0
}

pub fn load(effects: &[Effect]) -> (RequestId, LoadOptions) {
    match &commands(effects)[..] {
        [Command::Load { id, options }] => (*id, options.clone()),
        other => panic!("one load: {other:?}"),
    }
}

pub fn generate(effects: &[Effect]) -> (RequestId, GenerateRequest) {
    match &commands(effects)[..] {
        [Command::Generate { id, request }] => (*id, (**request).clone()),
        other => panic!("one answer: {other:?}"),
    }
}

/// Role and text of what is asked, and whether the last message is to be continued.
pub fn asked(request: &GenerateRequest) -> (Vec<(&str, &str)>, bool) {
    let (messages, goes_on) = match &request.prompt {
        Prompt::Chat(messages) => (messages, false),
        Prompt::Continue(messages) => (messages, true),
        Prompt::Ids(_) | Prompt::Text(_) => panic!("a chat"),
    };
    (messages.iter().map(|m| (m.role.as_str(), m.content.as_str())).collect(), goes_on)
}
