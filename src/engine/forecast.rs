//! How fast a placement would answer, and what a change would move. Pure.
//!
//! Decoding reads every weight of a device once per token, so its time is bytes over memory rate; prefilling is bound
//! by arithmetic. What was measured wins over what follows from rates, a rate that is known over one that is assumed.

use std::fmt;

use crate::devices::{DeviceId, DeviceKind};
use crate::engine::part::Part;
use crate::engine::placement::{Needs, Placement, plan};

/// Assumed memory rate of a GPU that does not say: a middle-class card with GDDR6.
pub const ASSUMED_GPU_MEMORY_BYTES_PER_S: u64 = 400_000_000_000;
/// Assumed memory rate of a CPU: two channels of DDR4-3200, theoretical.
pub const ASSUMED_CPU_MEMORY_BYTES_PER_S: u64 = 51_200_000_000;
/// Assumed prefill rate of a GPU, multiply and add counted as two.
pub const ASSUMED_GPU_FLOPS_PER_S: u64 = 20_000_000_000_000;
/// Assumed prefill rate of a CPU: eight cores with 256-bit integer dot products.
pub const ASSUMED_CPU_FLOPS_PER_S: u64 = 400_000_000_000;
/// Assumed rate between the host and a GPU: PCIe 3.0 x16, as copies reach it.
pub const ASSUMED_GPU_LINK_BYTES_PER_S: u64 = 12_000_000_000;
/// Assumed rate of a copy in host memory.
pub const ASSUMED_CPU_LINK_BYTES_PER_S: u64 = 10_000_000_000;
/// Assumed fixed time of a GPU's side of a hop: a copy is queued, and an event waited for.
pub const ASSUMED_GPU_HOP_MS: f64 = 0.03;
/// Assumed fixed time of a CPU device's side of a hop: one thread wakes another.
pub const ASSUMED_CPU_HOP_MS: f64 = 0.01;
/// The share of a theoretical memory rate that decoding reaches.
pub const MEMORY_EFFICIENCY: f64 = 0.7;
/// Rows of a prefill step: weights are read once for so many tokens.
pub const PREFILL_ROWS: f64 = 512.0;

/// What is known of a device's speed. `None`: the assumption for its kind holds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct DeviceRates {
    pub id: DeviceId,
    /// Theoretical, as vendors give it; decoding reaches [`MEMORY_EFFICIENCY`] of it.
    pub memory_bytes_per_s: Option<u64>,
    /// Arithmetic of prefilling, multiply and add counted as two.
    pub flops_per_s: Option<u64>,
    /// Between the host and its memory.
    pub link_bytes_per_s: Option<u64>,
    /// Fixed time of this device's side of a hop.
    pub hop_ms: Option<f64>,
    /// Takes parts only where a text puts them: `auto` does not use it.
    pub by_name_only: bool,
}

impl DeviceRates {
    pub const fn unknown(id: DeviceId) -> DeviceRates {
        DeviceRates {
            id,
            memory_bytes_per_s: None,
            flops_per_s: None,
            link_bytes_per_s: None,
            hop_ms: None,
            by_name_only: false,
        }
    }

    /// Known or assumed; never 0.
    pub fn memory_or_assumed(&self) -> u64 {
        self.known_or(self.memory_bytes_per_s, ASSUMED_CPU_MEMORY_BYTES_PER_S, ASSUMED_GPU_MEMORY_BYTES_PER_S)
    }

    fn flops_or_assumed(&self) -> f64 {
        self.known_or(self.flops_per_s, ASSUMED_CPU_FLOPS_PER_S, ASSUMED_GPU_FLOPS_PER_S) as f64
    }

    fn link_or_assumed(&self) -> f64 {
        self.known_or(self.link_bytes_per_s, ASSUMED_CPU_LINK_BYTES_PER_S, ASSUMED_GPU_LINK_BYTES_PER_S) as f64
    }

    fn hop_or_assumed(&self) -> f64 {
        self.hop_ms.filter(|&ms| usable(ms)).unwrap_or(match self.id.kind {
            DeviceKind::Cpu => ASSUMED_CPU_HOP_MS,
            DeviceKind::Cuda | DeviceKind::Rocm => ASSUMED_GPU_HOP_MS,
        })
    }

    /// Milliseconds of this device's side of moving `n_bytes` to or from it.
    fn transfer_ms(&self, n_bytes: u64) -> f64 {
        n_bytes as f64 / self.link_or_assumed() * 1e3
    }

    fn known_or(&self, known: Option<u64>, cpu: u64, gpu: u64) -> u64 {
        known.filter(|&rate| rate > 0).unwrap_or(match self.id.kind {
            DeviceKind::Cpu => cpu,
            DeviceKind::Cuda | DeviceKind::Rocm => gpu,
        })
    }
}

/// What one token costs in one part.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct PartWork {
    /// Read from memory for one decoded token: its weights (of experts only those in use, of the token table one row)
    /// and its KV cache at the length in question.
    pub read_bytes: u64,
    /// Arithmetic for one token, multiply and add counted as two.
    pub flops: u64,
}

/// What a forecast rests on.
#[derive(Clone, Copy)]
pub struct Costs<'a> {
    pub needs: Needs<'a>,
    pub work: &'a dyn Fn(Part, DeviceId) -> PartWork,
    /// Milliseconds of one decoded token in a part, where it was measured on that device. Parts that were not take the
    /// rate of those that were.
    pub measured_ms: &'a dyn Fn(Part, DeviceId) -> Option<f64>,
    /// Bytes of one token's activations that cross a boundary between devices.
    pub hop_bytes: u64,
    /// Devices work on micro-batches of one prompt at the same time, so the slowest sets the pace of a long one; else
    /// one after another.
    pub pipelined: bool,
    pub rates: &'a [DeviceRates],
}

impl Costs<'_> {
    /// A device that is not listed has nothing known.
    pub fn rates_of(&self, id: DeviceId) -> DeviceRates {
        self.rates.iter().find(|r| r.id == id).copied().unwrap_or(DeviceRates::unknown(id))
    }

    /// Bytes that a device reads per millisecond of decoding: as it has shown, else as its memory rate says.
    pub fn bytes_per_ms(&self, id: DeviceId, n_layer: u32) -> f64 {
        let by_rate = || self.rates_of(id).memory_or_assumed() as f64 * MEMORY_EFFICIENCY / 1e3;
        self.shown_bytes_per_ms(id, n_layer).unwrap_or_else(by_rate)
    }

    /// From every part that was ever measured there.
    fn shown_bytes_per_ms(&self, id: DeviceId, n_layer: u32) -> Option<f64> {
        let (mut n_bytes, mut total_ms) = (0.0, 0.0);
        for part in Part::all(n_layer) {
            if let Some(ms) = self.measured(part, id) {
                n_bytes += (self.work)(part, id).read_bytes as f64;
                total_ms += ms;
            }
        }
        (n_bytes > 0.0 && total_ms > 0.0).then(|| n_bytes / total_ms)
    }

    fn measured(&self, part: Part, id: DeviceId) -> Option<f64> {
        (self.measured_ms)(part, id).filter(|&ms| usable(ms))
    }
}

/// What a device's decode time rests on, best first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Basis {
    /// Every part there was measured there.
    Measured,
    /// Some parts were measured there; the others take their rate.
    PartlyMeasured,
    /// Its memory rate is known.
    Rate,
    /// Its memory rate is assumed for its kind.
    Assumed,
}

impl Basis {
    /// One word, for a table.
    pub const fn name(self) -> &'static str {
        match self {
            Basis::Measured => "measured",
            Basis::PartlyMeasured => "partly measured",
            Basis::Rate => "rate",
            Basis::Assumed => "assumed",
        }
    }
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub struct DeviceForecast {
    pub id: DeviceId,
    /// Weights and KV cache.
    pub held_bytes: u64,
    /// Read for one decoded token.
    pub read_bytes: u64,
    /// Its time in one decoded token.
    pub decode_ms: f64,
    /// Of a token's time, 0 to 1.
    pub decode_share: f64,
    /// Its time for one token of a long prompt.
    pub prefill_ms: f64,
    pub basis: Basis,
}

/// What takes most of a token's time.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Bottleneck {
    pub at: BottleneckAt,
    /// Of a token's time, 0 to 1.
    pub share: f64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BottleneckAt {
    Device(DeviceId),
    Hops,
}

impl fmt::Display for BottleneckAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BottleneckAt::Device(id) => write!(f, "{id}"),
            BottleneckAt::Hops => f.write_str("hops"),
        }
    }
}

#[derive(Clone, PartialEq, Debug)]
pub struct Forecast {
    /// Those used, in the order of their first part.
    pub devices: Vec<DeviceForecast>,
    pub n_hops: usize,
    /// All hops of one decoded token.
    pub hop_ms: f64,
    /// One decoded token: all devices, one after another, and the hops.
    pub token_ms: f64,
    pub decode_tokens_per_s: f64,
    pub prefill_tokens_per_s: f64,
    pub bottleneck: Bottleneck,
}

impl Forecast {
    /// What it rests on: of all devices used, the least certain.
    pub fn basis(&self) -> Basis {
        self.devices.iter().map(|d| d.basis).max().unwrap_or(Basis::Assumed)
    }
}

/// How fast `placement` would be.
pub fn forecast(placement: &Placement, costs: &Costs<'_>) -> Forecast {
    let mut devices: Vec<_> = placement
        .devices()
        .into_iter()
        .map(|id| device_forecast(id, &placement.parts_on(id), placement.n_layer(), costs))
        .collect();

    let segments = placement.segments();
    let n_hops = segments.len() - 1;
    let mut hop_ms = 0.0;
    for pair in segments.windows(2) {
        for side in [&pair[0], &pair[1]] {
            let rates = costs.rates_of(side.device);
            hop_ms += rates.hop_or_assumed() + rates.transfer_ms(costs.hop_bytes);
        }
    }

    let token_ms = devices.iter().map(|d| d.decode_ms).sum::<f64>() + hop_ms;
    let share = |ms: f64| if token_ms > 0.0 { ms / token_ms } else { 0.0 };
    let mut bottleneck = Bottleneck { at: BottleneckAt::Hops, share: share(hop_ms) };
    for d in &mut devices {
        d.decode_share = share(d.decode_ms);
        // Of equals a device: hops are never all there is.
        if d.decode_share > bottleneck.share
            || bottleneck.at == BottleneckAt::Hops && d.decode_share >= bottleneck.share
        {
            bottleneck = Bottleneck { at: BottleneckAt::Device(d.id), share: d.decode_share };
        }
    }

    // A prompt's hops move the same bytes per token; their fixed times are shared by a whole micro-batch.
    let prefill_hop_ms: f64 = segments
        .windows(2)
        .flat_map(|pair| [pair[0].device, pair[1].device])
        .map(|id| costs.rates_of(id).transfer_ms(costs.hop_bytes))
        .sum();
    let prefill_ms = if costs.pipelined {
        devices.iter().map(|d| d.prefill_ms).fold(prefill_hop_ms, f64::max)
    } else {
        devices.iter().map(|d| d.prefill_ms).sum::<f64>() + prefill_hop_ms
    };
    Forecast {
        devices,
        n_hops,
        hop_ms,
        token_ms,
        decode_tokens_per_s: per_second(token_ms),
        prefill_tokens_per_s: per_second(prefill_ms),
        bottleneck,
    }
}

fn device_forecast(id: DeviceId, parts: &[Part], n_layer: u32, costs: &Costs<'_>) -> DeviceForecast {
    let rates = costs.rates_of(id);
    let shown = costs.shown_bytes_per_ms(id, n_layer);
    let bytes_per_ms = costs.bytes_per_ms(id, n_layer);

    let (mut read_bytes, mut flops, mut decode_ms, mut n_measured) = (0u64, 0u64, 0.0, 0);
    for &part in parts {
        let work = (costs.work)(part, id);
        read_bytes = read_bytes.saturating_add(work.read_bytes);
        flops = flops.saturating_add(work.flops);
        let ms = costs.measured(part, id);
        n_measured += usize::from(ms.is_some());
        decode_ms += ms.unwrap_or(work.read_bytes as f64 / bytes_per_ms);
    }
    let held = costs.needs.sum(id, parts);
    // Every expert is read for some row of a micro-batch, so all weights are read once for it.
    let read_ms = held.weight_bytes as f64 / bytes_per_ms / PREFILL_ROWS;
    DeviceForecast {
        id,
        held_bytes: held.weight_bytes.saturating_add(held.kv_bytes),
        read_bytes,
        decode_ms,
        decode_share: 0.0,
        prefill_ms: read_ms.max(flops as f64 / rates.flops_or_assumed() * 1e3),
        basis: match (n_measured, shown, rates.memory_bytes_per_s) {
            (n, _, _) if n == parts.len() => Basis::Measured,
            (_, Some(_), _) => Basis::PartlyMeasured,
            (_, None, Some(1..)) => Basis::Rate,
            (_, None, _) => Basis::Assumed,
        },
    }
}

/// What a change would move.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ChangeForecast {
    pub n_parts: usize,
    /// From the file to their new devices, while the old placement answers.
    pub weight_bytes: u64,
    pub staging_s: f64,
    /// From device to device at the switch, when nothing is computed.
    pub kv_bytes: u64,
    pub stall_s: f64,
    pub from_tokens_per_s: f64,
    pub to_tokens_per_s: f64,
}

/// What going from `old` to `new` would move, and what it gains. Weights are taken to be in the page cache; `kv_used`
/// is the share of the context (0 to 1) that the KV cache holds.
///
/// # Panics
/// When the placements are of models with different numbers of layers.
pub fn forecast_change(old: &Placement, new: &Placement, kv_used: f64, costs: &Costs<'_>) -> ChangeForecast {
    let kv_used = if kv_used.is_finite() { kv_used.clamp(0.0, 1.0) } else { 1.0 };
    let moves = plan(old, new);
    let (mut weight_bytes, mut kv_bytes, mut staging_ms, mut stall_ms) = (0u64, 0u64, 0.0, 0.0);
    for m in &moves {
        let need = (costs.needs.part)(m.part, m.to);
        let kv = (need.kv_bytes as f64 * kv_used) as u64;
        weight_bytes = weight_bytes.saturating_add(need.weight_bytes);
        kv_bytes = kv_bytes.saturating_add(kv);
        staging_ms += costs.rates_of(m.to).transfer_ms(need.weight_bytes);
        stall_ms += costs.rates_of(m.from).transfer_ms(kv) + costs.rates_of(m.to).transfer_ms(kv);
    }
    ChangeForecast {
        n_parts: moves.len(),
        weight_bytes,
        staging_s: staging_ms / 1e3,
        kv_bytes,
        stall_s: stall_ms / 1e3,
        from_tokens_per_s: forecast(old, costs).decode_tokens_per_s,
        to_tokens_per_s: forecast(new, costs).decode_tokens_per_s,
    }
}

fn usable(ms: f64) -> bool {
    ms.is_finite() && ms >= 0.0
}

/// 0 when nothing takes time, which is no speed.
fn per_second(ms: f64) -> f64 {
    if ms > 0.0 { 1e3 / ms } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::placement::PartNeed;
    use crate::engine::placement::testing::*;

    const MB: u64 = 1_000_000;

    fn needs() -> Needs<'static> {
        Needs {
            part: &|part, _| match part {
                Part::Attn(_) => PartNeed { weight_bytes: 10 * MB, kv_bytes: 2 * MB },
                Part::Ffn(_) => PartNeed { weight_bytes: 40 * MB, kv_bytes: 0 },
                Part::Embed | Part::Head => PartNeed { weight_bytes: 20 * MB, kv_bytes: 0 },
            },
            scratch: &|_, _| MB,
            tied_bytes: &|_| 0,
        }
    }

    fn work(part: Part, _: DeviceId) -> PartWork {
        match part {
            Part::Embed => PartWork { read_bytes: 0, flops: 0 },
            Part::Attn(_) => PartWork { read_bytes: 10 * MB, flops: 20 * MB },
            Part::Ffn(_) => PartWork { read_bytes: 40 * MB, flops: 80 * MB },
            Part::Head => PartWork { read_bytes: 20 * MB, flops: 40 * MB },
        }
    }

    /// 1000 bytes/ns of theory so that decoding reads 700 MB per ms; the CPU a tenth of it.
    const RATES: [DeviceRates; 2] = [
        DeviceRates {
            id: CUDA0,
            memory_bytes_per_s: Some(1_000_000 * MB),
            flops_per_s: Some(10_000_000 * MB),
            link_bytes_per_s: Some(10_000 * MB),
            hop_ms: Some(0.05),
            by_name_only: false,
        },
        DeviceRates {
            id: CPU0,
            memory_bytes_per_s: Some(100_000 * MB),
            flops_per_s: Some(100_000 * MB),
            link_bytes_per_s: Some(20_000 * MB),
            hop_ms: Some(0.01),
            by_name_only: false,
        },
    ];

    fn costs(measured_ms: &dyn Fn(Part, DeviceId) -> Option<f64>) -> Costs<'_> {
        Costs { needs: needs(), work: &work, measured_ms, hop_bytes: MB, pipelined: true, rates: &RATES }
    }

    fn near(a: f64, b: f64) {
        assert!((a - b).abs() <= 1e-9 * b.abs().max(1.0), "{a} is not {b}");
    }

    #[test]
    fn bytes_over_rates_and_hops() {
        // Two layers of 50 MB and the head on the GPU, two on the CPU.
        let p = Placement::uniform(4, CUDA0).with_layers(1..3, CPU0);
        let f = forecast(&p, &costs(&|_, _| None));
        let [cuda, cpu] = &f.devices[..] else { panic!() };
        near(cuda.decode_ms, 120.0 / 700.0);
        near(cpu.decode_ms, 100.0 / 70.0);
        assert_eq!((cuda.held_bytes, cuda.read_bytes), (144 * MB, 120 * MB));
        assert_eq!(f.n_hops, 2);
        // Each hop: both fixed times, 1 MB at 10 and at 20 GB/s.
        near(f.hop_ms, 2.0 * (0.05 + 0.01 + 0.1 + 0.05));
        near(f.token_ms, cuda.decode_ms + cpu.decode_ms + f.hop_ms);
        near(f.decode_tokens_per_s, 1e3 / f.token_ms);
        assert_eq!(f.bottleneck.at, BottleneckAt::Device(CPU0));
        near(f.bottleneck.share, cpu.decode_ms / f.token_ms);
        assert_eq!((cuda.basis, cpu.basis), (Basis::Rate, Basis::Rate));
        // 200 Mflop at 100 Gflop/s; the GPU waits.
        near(cpu.prefill_ms, 2.0);
        near(f.prefill_tokens_per_s, 500.0);
        let serial = forecast(&p, &Costs { pipelined: false, ..costs(&|_, _| None) });
        near(serial.prefill_tokens_per_s, 1e3 / (2.0 + cuda.prefill_ms + 0.3));
    }

    #[test]
    fn what_was_measured_wins() {
        let p = Placement::uniform(2, CPU0);
        // The attention was measured at 1 ms for 10 MB: the FFN's 40 MB and the head's 20 MB follow.
        let measured = |part, id| matches!((part, id), (Part::Attn(_), CPU0)).then_some(1.0);
        let f = forecast(&p, &costs(&measured));
        near(f.devices[0].decode_ms, 2.0 + 2.0 * 4.0 + 2.0);
        assert_eq!(f.devices[0].basis, Basis::PartlyMeasured);
        // What was measured elsewhere says nothing.
        let f = forecast(&Placement::uniform(2, CUDA0), &costs(&measured));
        assert_eq!(f.devices[0].basis, Basis::Rate);
        let f = forecast(&p, &costs(&|_, _| Some(0.5)));
        near(f.token_ms, 3.0);
        assert_eq!(f.devices[0].basis, Basis::Measured);
        // No number at all is no measurement.
        let f = forecast(&p, &costs(&|_, _| Some(f64::NAN)));
        near(f.token_ms, 120.0 / 70.0);
    }

    #[test]
    fn hops_can_be_what_is_slow() {
        let p = Placement::from_fn(20, |part| if let Part::Ffn(_) = part { CPU0 } else { CUDA0 });
        let slow = |_, _| Some(0.001);
        let f = forecast(&p, &costs(&slow));
        assert_eq!((f.n_hops, f.bottleneck.at), (40, BottleneckAt::Hops));
        near(f.devices.iter().map(|d| d.decode_share).sum::<f64>() + f.bottleneck.share, 1.0);
    }

    #[test]
    fn nothing_known_is_assumed_by_kind() {
        let bare = Costs { rates: &[], ..costs(&|_, _| None) };
        let gpu = forecast(&Placement::uniform(4, ROCM0), &bare);
        let cpu = forecast(&Placement::uniform(4, CPU0), &bare);
        assert_eq!(gpu.devices[0].basis, Basis::Assumed);
        assert!(gpu.decode_tokens_per_s > cpu.decode_tokens_per_s);
        assert!(gpu.prefill_tokens_per_s > cpu.prefill_tokens_per_s);
        assert_eq!(gpu.hop_ms, 0.0);
        // A rate of zero is unknown, not a division by zero.
        let zero = [DeviceRates { memory_bytes_per_s: Some(0), ..DeviceRates::unknown(CPU0) }];
        assert_eq!(forecast(&Placement::uniform(4, CPU0), &Costs { rates: &zero, ..bare }), cpu);
    }

    #[test]
    fn a_model_without_work_has_no_speed() {
        let idle = Costs { work: &|_, _| PartWork::default(), ..costs(&|_, _| None) };
        let f = forecast(&Placement::uniform(0, CPU0), &idle);
        assert_eq!(f.decode_tokens_per_s, 0.0);
        assert!(f.bottleneck.share == 0.0 && f.devices[0].decode_share == 0.0);
    }

    #[test]
    fn a_change_moves_weights_up_and_kv_over() {
        let old = Placement::uniform(4, CPU0);
        let new = old.clone().with_layers(0..2, CUDA0);
        let c = forecast_change(&old, &new, 0.5, &costs(&|_, _| None));
        assert_eq!((c.n_parts, c.weight_bytes, c.kv_bytes), (4, 100 * MB, 2 * MB));
        near(c.staging_s, 0.01);
        near(c.stall_s, 2.0 / 20_000.0 + 2.0 / 10_000.0);
        assert!(c.to_tokens_per_s > c.from_tokens_per_s);
        let none = forecast_change(&old, &old, 1.0, &costs(&|_, _| None));
        assert_eq!((none.n_parts, none.weight_bytes, none.staging_s), (0, 0, 0.0));
    }
}
