//! A machine and a model, and what the engine and telemetry would say of them.

use std::time::Duration;

use super::stage::Words;
use crate::devices::telemetry::{Link, LinkRate, Reading, Source};
use crate::engine::protocol::{
    Basis, Bottleneck, BottleneckAt, DeviceFacts, DeviceId, DeviceKind, DevicePreview, DeviceStats, KvType, ModelInfo,
    Part, PartInfo, Placement, Preview, Stats,
};

pub const CUDA0: DeviceId = DeviceId::new(DeviceKind::Cuda, 0);
pub const CUDA1: DeviceId = DeviceId::new(DeviceKind::Cuda, 1);
pub const ROCM0: DeviceId = DeviceId::new(DeviceKind::Rocm, 0);
pub const CPU0: DeviceId = DeviceId::cpu(0);

const MIB: u64 = 1 << 20;
const SCRATCH_BYTES: u64 = 640 * MIB;
/// Of a switch between devices, for one token.
const HOP_MS: f64 = 0.12;
/// From the file to a device.
const STAGING_BYTES_PER_S: f64 = 5.6e9;
/// From device to device.
const LINK_BYTES_PER_S: f64 = 11.0e9;

#[derive(Clone)]
struct Device {
    facts: DeviceFacts,
    total_bytes: u64,
    others_bytes: u64,
    /// At which weights are read when a token is decoded.
    read_bytes_per_s: f64,
    prefill_tokens_per_s: f64,
    /// At full work and at rest.
    power_w: Option<(f32, f32)>,
    temperature_c: (f32, f32),
    clock_mhz: (u32, u32),
}

/// Devices, a model, and simple rules for what moves and how fast it is.
#[derive(Clone)]
pub struct Rig {
    devices: Vec<Device>,
    info: ModelInfo,
}

fn device(id: DeviceId, name: &str, total_mib: u64, others_mib: u64, gb_per_s: f64) -> Device {
    let is_cpu = id.kind == DeviceKind::Cpu;
    Device {
        facts: DeviceFacts {
            id,
            name: name.to_owned(),
            simulated: false,
            n_threads: if is_cpu { 32 } else { 0 },
            memory_bytes_per_s: Some((gb_per_s * 1.1e9) as u64),
            link_bytes_per_s: Some(25_000_000_000).filter(|_| !is_cpu),
            gpu: None,
        },
        total_bytes: total_mib * MIB,
        others_bytes: others_mib * MIB,
        read_bytes_per_s: gb_per_s * 1e9,
        prefill_tokens_per_s: gb_per_s * 2.1,
        power_w: Some((gb_per_s as f32 * 0.36, 22.0)).filter(|_| !is_cpu),
        temperature_c: (if is_cpu { 64.0 } else { 71.0 }, 41.0),
        clock_mhz: if is_cpu { (4650, 1800) } else { (2520, 210) },
    }
}

fn workstation() -> Vec<Device> {
    vec![
        device(CUDA0, "NVIDIA GeForce RTX 4090", 24_564, 1430, 910.0),
        device(ROCM0, "AMD Radeon RX 7900 XTX", 24_560, 620, 830.0),
        device(CPU0, "AMD EPYC 9354 32-Core Processor", 257_600, 9_300, 410.0),
    ]
}

impl Rig {
    /// A dense model of 64 layers over a card of each vendor and the processor.
    pub fn workstation(words: Words) -> Rig {
        let placement =
            Placement::uniform(64, CUDA0).with_layers(34..56, ROCM0).with_layers(56.., CPU0).with(Part::Head, CPU0);
        let model = Model {
            name: "Qwen2.5 32B Instruct",
            file: "Qwen2.5-32B-Instruct-Q4_K_M.gguf",
            arch: "qwen2",
            n_params: 32_763_876_352,
            n_ctx: 32_768,
            attn_bytes: 46 * MIB,
            ffn_bytes: 236 * MIB,
            kv_bytes: 128 * MIB,
            head_bytes: 620 * MIB,
            is_moe: false,
        };
        Rig::new(words, workstation(), &model, placement)
    }

    /// A mixture of experts of 62 layers over four devices, the experts of its last layers on the processor.
    pub fn experts(words: Words) -> Rig {
        let mut devices = workstation();
        devices.insert(1, device(CUDA1, "NVIDIA RTX A6000", 49_140, 420, 700.0));
        let mut placement =
            Placement::uniform(62, CUDA0).with_layers(16..44, CUDA1).with_layers(44.., ROCM0).with(Part::Head, ROCM0);
        for layer in 40..62 {
            placement = placement.with(Part::Ffn(layer), CPU0);
        }
        let model = Model {
            name: "Qwen3 Coder 480B A35B Instruct",
            file: "Qwen3-Coder-480B-A35B-Instruct-IQ2_XXS-00001-of-00003.gguf",
            arch: "qwen3moe",
            n_params: 122_600_000_000,
            n_ctx: 16_384,
            attn_bytes: 60 * MIB,
            ffn_bytes: 1180 * MIB,
            kv_bytes: 64 * MIB,
            head_bytes: 480 * MIB,
            is_moe: true,
        };
        Rig::new(words, devices, &model, placement)
    }

    /// Sixty layers over four devices, for measuring.
    pub fn sixty_layers() -> Rig {
        let mut devices = workstation();
        devices.insert(1, device(CUDA1, "NVIDIA RTX A6000", 49_140, 420, 700.0));
        let placement = Placement::uniform(60, CUDA0)
            .with_layers(18..34, CUDA1)
            .with_layers(34..50, ROCM0)
            .with_layers(50.., CPU0)
            .with(Part::Head, CPU0);
        let model = Model {
            name: "Yi 34B Chat",
            file: "yi-34b-chat.Q4_K_M.gguf",
            arch: "llama",
            n_params: 34_388_917_248,
            n_ctx: 65_536,
            attn_bytes: 58 * MIB,
            ffn_bytes: 272 * MIB,
            kv_bytes: 128 * MIB,
            head_bytes: 360 * MIB,
            is_moe: false,
        };
        Rig::new(Words::Plain, devices, &model, placement)
    }

    fn new(words: Words, mut devices: Vec<Device>, model: &Model, placement: Placement) -> Rig {
        for device in &mut devices {
            device.facts.name = words.of(&device.facts.name);
        }
        let n_layer = placement.n_layer();
        let part = |part| {
            let (weight_bytes, kv_bytes) = match part {
                Part::Embed => (model.head_bytes * 3 / 4, 0),
                Part::Attn(_) => (model.attn_bytes, model.kv_bytes),
                Part::Ffn(_) => (model.ffn_bytes, 0),
                Part::Head => (model.head_bytes, 0),
            };
            PartInfo { part, weight_bytes, kv_bytes }
        };
        let parts: Vec<PartInfo> = Part::all(n_layer).map(part).collect();
        let weights: u64 = parts.iter().map(|p| p.weight_bytes).sum();
        let info = ModelInfo {
            path: format!("/home/ada/models/{}", words.of(model.file)).into(),
            name: words.of(model.name),
            arch: words.of(model.arch),
            quant: words.of(if model.is_moe { "IQ2_XXS" } else { "Q4_K_M" }),
            n_layer,
            n_vocab: 152_064,
            n_ctx: model.n_ctx,
            n_ctx_train: 131_072,
            n_params: model.n_params,
            file_bytes: weights + 6 * MIB,
            kv: KvType::F16,
            is_moe: model.is_moe,
            has_chat_template: true,
            placement: placement.to_string(),
            device_bytes: vec![],
            load_ms: 4312.0,
            parts,
        };
        let mut rig = Rig { devices, info };
        rig.info.device_bytes = rig.held(&placement).iter().map(|h| (h.id, h.all())).collect();
        rig
    }

    pub fn facts(&self) -> Vec<DeviceFacts> {
        self.devices.iter().map(|d| d.facts.clone()).collect()
    }

    pub fn info(&self) -> &ModelInfo {
        &self.info
    }

    /// Where the model lies after loading.
    pub fn placement(&self) -> Placement {
        let first = self.devices.first().map_or(CPU0, |d| d.facts.id);
        self.parse(&self.info.placement, &Placement::uniform(self.info.n_layer, first))
    }

    /// A placement in words; the one before where they mean none.
    pub fn parse(&self, text: &str, before: &Placement) -> Placement {
        let ids: Vec<_> = self.devices.iter().map(|d| d.facts.id).collect();
        Placement::parse(text, self.info.n_layer, &ids, before).unwrap_or_else(|_| before.clone())
    }

    fn held(&self, placement: &Placement) -> Vec<Held> {
        let of = |device: &Device| {
            let id = device.facts.id;
            let mut held = Held { id, n_parts: 0, weight_bytes: 0, kv_bytes: 0, read_bytes: 0 };
            for part in self.info.parts.iter().filter(|p| placement.get(p.part) == id) {
                held.n_parts += 1;
                held.weight_bytes += part.weight_bytes;
                held.kv_bytes += part.kv_bytes;
                held.read_bytes += self.read_bytes(part);
            }
            held
        };
        self.devices.iter().map(of).collect()
    }

    /// For one token: a row of the embeddings, an eighth of the experts.
    fn read_bytes(&self, part: &PartInfo) -> u64 {
        match part.part {
            Part::Embed => 0,
            Part::Ffn(_) if self.info.is_moe => part.weight_bytes / 16,
            Part::Attn(_) | Part::Ffn(_) | Part::Head => part.weight_bytes,
        }
    }

    fn decode_ms(&self, placement: &Placement) -> (Vec<f64>, f64) {
        let held = self.held(placement);
        let ms = self.devices.iter().zip(&held).map(|(d, h)| h.read_bytes as f64 / d.read_bytes_per_s * 1e3).collect();
        (ms, placement.segments().len().saturating_sub(1) as f64 * HOP_MS)
    }

    pub fn tokens_per_s(&self, placement: &Placement) -> f64 {
        let (ms, hops) = self.decode_ms(placement);
        1e3 / (ms.iter().sum::<f64>() + hops)
    }

    pub fn stats(&self, placement: &Placement, now: Duration, n_past: u32, streaming: bool) -> Stats {
        let (ms, hops) = self.decode_ms(placement);
        let token_ms = ms.iter().sum::<f64>() + hops;
        let devices = self.devices.iter().zip(self.held(placement)).zip(&ms).map(|((d, held), ms)| {
            let is_used = held.n_parts > 0;
            DeviceStats {
                id: held.id,
                total_bytes: d.total_bytes,
                free_bytes: d.total_bytes.saturating_sub(held.all() + d.others_bytes),
                ours_bytes: held.all(),
                weight_bytes: held.weight_bytes,
                kv_bytes: held.kv_bytes,
                scratch_bytes: held.scratch(),
                n_parts: held.n_parts,
                busy_total: now.mul_f64(ms / token_ms),
                decode_ms_per_token: is_used.then_some(*ms),
                decode_share: is_used.then_some(ms / token_ms),
                wait_share: is_used.then_some(1.0 - ms / token_ms),
                prefill_tokens_per_s: is_used.then_some(d.prefill_tokens_per_s),
            }
        });
        let part_ms = self.info.parts.iter().map(|part| {
            let device = self.devices.iter().find(|d| d.facts.id == placement.get(part.part))?;
            Some((self.read_bytes(part) as f64 / device.read_bytes_per_s * 1e3) as f32)
        });
        Stats {
            placement: placement.to_string(),
            n_ctx: self.info.n_ctx,
            n_past,
            streaming,
            decode_tokens_per_s: Some(1e3 / token_ms),
            prefill_tokens_per_s: Some(702.0),
            hop_share: Some(hops / token_ms),
            hop_bytes_per_s: Some(2.0 * 10_240.0 * 1e3 / token_ms),
            devices: devices.collect(),
            part_ms: part_ms.collect(),
            ..Stats::default()
        }
    }

    /// What the engine would say of a draft.
    pub fn preview(&self, words: Words, text: &str, before: &Placement, n_past: u32) -> Preview {
        let after = self.parse(text, before);
        let moved = |part: &&PartInfo| before.get(part.part) != after.get(part.part);
        let weight_bytes: u64 = self.info.parts.iter().filter(moved).map(|p| p.weight_bytes).sum();
        let used = f64::from(n_past) / f64::from(self.info.n_ctx.max(1));
        let kv_bytes = self.info.parts.iter().filter(moved).map(|p| p.kv_bytes as f64 * used).sum::<f64>() as u64;
        let (ms, hop_ms) = self.decode_ms(&after);
        let token_ms = ms.iter().sum::<f64>() + hop_ms;
        let now_held = self.held(before);
        let previews = self.devices.iter().zip(self.held(&after)).zip(&now_held).zip(&ms).map(|(((d, h), was), ms)| {
            let staged = was.all().max(h.all()) + d.others_bytes;
            DevicePreview {
                id: h.id,
                n_parts: h.n_parts,
                held_bytes_after: h.all(),
                weight_bytes: h.weight_bytes,
                kv_bytes: h.kv_bytes,
                scratch_bytes: h.scratch(),
                total_bytes: d.total_bytes,
                short_bytes: staged.saturating_sub(d.total_bytes),
                decode_ms: *ms,
                decode_share: ms / token_ms,
                read_bytes: h.read_bytes,
                basis: Some(Basis::Measured).filter(|_| h.n_parts > 0),
            }
        });
        let devices: Vec<DevicePreview> = previews.collect();
        let short = devices.iter().find(|d| d.short_bytes > 0);
        let refused = short.map(|d| {
            let mib = |bytes: u64| bytes.div_ceil(MIB);
            words.of(&format!(
                "{} is {} MiB short: the change takes weights {} MiB + KV {} MiB > free {} MiB beside the present placement",
                d.id,
                mib(d.short_bytes),
                mib(d.weight_bytes),
                mib(d.kv_bytes),
                mib(d.total_bytes.saturating_sub(d.held_bytes_after)),
            ))
        });
        Preview {
            placement: after.to_string(),
            refused,
            devices,
            n_moves: self.info.parts.iter().filter(moved).count(),
            weight_bytes,
            staging_s: weight_bytes as f64 / STAGING_BYTES_PER_S,
            kv_bytes,
            stall_s: kv_bytes as f64 / LINK_BYTES_PER_S + 0.002,
            from_tokens_per_s: self.tokens_per_s(before),
            to_tokens_per_s: 1e3 / token_ms,
            prefill_tokens_per_s: 760.0,
            n_hops: after.segments().len().saturating_sub(1),
            hop_ms,
            bottleneck: Bottleneck { at: BottleneckAt::Device(CUDA0), share: 0.48 },
            basis: Basis::Measured,
            notes: vec![],
        }
    }

    /// What telemetry would see; `step` makes it vary, as it does.
    pub fn readings(&self, words: Words, stats: &Stats, step: u32) -> Vec<Reading> {
        let wave = (step as f32 / 4.5).sin();
        let all = self.devices.iter().enumerate().map(|(i, d)| {
            let id = d.facts.id;
            let of_stats = stats.devices.iter().find(|s| s.id == id);
            let share = of_stats.and_then(|s| s.decode_share).unwrap_or(0.0) as f32;
            let work = if stats.streaming { (share + 0.04 * wave).clamp(0.02, 1.0) } else { 0.0 };
            let between = |(high, low): (f32, f32)| low + (high - low) * work;
            let source = match id.kind {
                DeviceKind::Cuda => Source::Nvml,
                DeviceKind::Rocm => Source::AmdgpuSysfs,
                DeviceKind::Cpu => Source::Host,
            };
            let is_card = id.kind != DeviceKind::Cpu;
            let link = |gen_| LinkRate::of_generation(Some(gen_), Some(16));
            let clock = (d.clock_mhz.0 as f32, d.clock_mhz.1 as f32);
            Reading {
                pci: format!("0000:{:02x}:00.0", 1 + 0x40 * i).parse().ok().filter(|_| is_card),
                memory_total_bytes: Some(d.total_bytes),
                memory_used_bytes: of_stats.map(|s| s.ours_bytes + d.others_bytes),
                ours_bytes: of_stats.map(|s| s.ours_bytes),
                utilisation: Some(work),
                power_w: d.power_w.map(between),
                power_limit_w: d.power_w.map(|(high, _)| (high * 1.3).round()),
                temperature_c: Some(between(d.temperature_c)),
                clock_mhz: Some(between(clock) as u32),
                memory_clock_mhz: Some(10_501).filter(|_| is_card),
                fan: Some(0.3 + 0.3 * work).filter(|_| is_card),
                link: Some(Link { current: link(if stats.streaming { 4 } else { 1 }), max: link(4) })
                    .filter(|_| is_card),
                driver: match id.kind {
                    DeviceKind::Cuda => Some(words.of("NVIDIA 570.86.15")),
                    DeviceKind::Rocm => Some(words.of("amdgpu 6.12.12")),
                    DeviceKind::Cpu => None,
                },
                compute: match id.kind {
                    DeviceKind::Cuda => Some(words.of("8.9")),
                    DeviceKind::Rocm => Some(words.of("gfx1100")),
                    DeviceKind::Cpu => None,
                },
                cores: if is_card { vec![] } else { (0..64).map(|c| core_load(c, work)).collect() },
                swap_total_bytes: Some(8192 * MIB).filter(|_| !is_card),
                swap_used_bytes: Some(310 * MIB).filter(|_| !is_card),
                ..Reading::new(id, d.facts.name.clone(), source)
            }
        });
        all.collect()
    }
}

/// Half of them work.
fn core_load(core: u32, work: f32) -> f32 {
    if core.is_multiple_of(2) { (work * 2.6 + core as f32 % 7.0 / 30.0).min(1.0) } else { core as f32 % 5.0 / 40.0 }
}

struct Model {
    name: &'static str,
    file: &'static str,
    arch: &'static str,
    n_params: u64,
    n_ctx: u32,
    /// Of a layer.
    attn_bytes: u64,
    ffn_bytes: u64,
    kv_bytes: u64,
    head_bytes: u64,
    is_moe: bool,
}

/// What a device holds of the model.
struct Held {
    id: DeviceId,
    n_parts: usize,
    weight_bytes: u64,
    kv_bytes: u64,
    read_bytes: u64,
}

impl Held {
    fn scratch(&self) -> u64 {
        if self.n_parts > 0 { SCRATCH_BYTES } else { 0 }
    }

    fn all(&self) -> u64 {
        self.weight_bytes + self.kv_bytes + self.scratch()
    }
}
