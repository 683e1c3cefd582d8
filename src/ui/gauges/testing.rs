//! Devices for tests.

use std::time::Duration;

use super::Gauges;
use crate::devices::telemetry::{Link, LinkRate, PowerState, Reading, Source};
use crate::engine::protocol::{DeviceFacts, DeviceId, DeviceKind, DeviceStats, Part, Placement, Stats};

pub const CUDA0: DeviceId = DeviceId::new(DeviceKind::Cuda, 0);
pub const CUDA1: DeviceId = DeviceId::new(DeviceKind::Cuda, 1);
pub const ROCM0: DeviceId = DeviceId::new(DeviceKind::Rocm, 0);
pub const CPU0: DeviceId = DeviceId::cpu(0);
pub const CPU1: DeviceId = DeviceId::cpu(1);

pub fn mib(n: u64) -> u64 {
    n << 20
}

pub fn facts(id: DeviceId, name: &str, simulated: bool) -> DeviceFacts {
    DeviceFacts {
        id,
        name: name.to_owned(),
        simulated,
        n_threads: if id.kind == DeviceKind::Cpu || simulated { 8 } else { 0 },
        memory_bytes_per_s: Some(1_008_000_000_000).filter(|_| id.kind != DeviceKind::Cpu),
        link_bytes_per_s: Some(25_000_000_000).filter(|_| id.kind != DeviceKind::Cpu),
        gpu: None,
    }
}

/// A device of `total` MiB that holds weights, KV and scratch of these MiB, with 512 MiB taken by others.
pub fn device_stats(id: DeviceId, total: u64, [weight, kv, scratch]: [u64; 3]) -> DeviceStats {
    let ours = weight + kv + scratch;
    DeviceStats {
        id,
        total_bytes: mib(total),
        free_bytes: mib(total.saturating_sub(ours + 512)),
        ours_bytes: mib(ours),
        weight_bytes: mib(weight),
        kv_bytes: mib(kv),
        scratch_bytes: mib(scratch),
        n_parts: if ours > 0 { 10 } else { 0 },
        busy_total: Duration::ZERO,
        decode_ms_per_token: None,
        decode_share: None,
        wait_share: None,
        prefill_tokens_per_s: None,
    }
}

pub fn with_times(stats: DeviceStats, ms: f64, share: f64, wait: f64, prefill: f64) -> DeviceStats {
    DeviceStats {
        decode_ms_per_token: Some(ms),
        decode_share: Some(share),
        wait_share: Some(wait),
        prefill_tokens_per_s: Some(prefill),
        ..stats
    }
}

pub fn stats(devices: &[DeviceStats]) -> Stats {
    Stats {
        streaming: true,
        decode_tokens_per_s: Some(41.2),
        hop_share: Some(0.03),
        hop_bytes_per_s: Some(331_000.0),
        devices: devices.to_vec(),
        ..Stats::default()
    }
}

pub fn reading(id: DeviceId, name: &str, total: u64, used: u64) -> Reading {
    let source = match id.kind {
        DeviceKind::Cuda => Source::Nvml,
        DeviceKind::Rocm => Source::AmdgpuSysfs,
        DeviceKind::Cpu => Source::Host,
    };
    Reading {
        memory_total_bytes: Some(mib(total)),
        memory_used_bytes: Some(mib(used)),
        ..Reading::new(id, name.to_owned(), source)
    }
}

fn rtx_4090() -> Reading {
    Reading {
        pci: "0000:01:00.0".parse().ok(),
        utilisation: Some(0.87),
        power_w: Some(312.4),
        power_limit_w: Some(450.0),
        temperature_c: Some(71.0),
        clock_mhz: Some(2520),
        memory_clock_mhz: Some(10_501),
        fan: Some(0.45),
        link: Some(Link { current: rate(16.0), max: rate(16.0) }),
        driver: Some("NVIDIA 560.35.03".to_owned()),
        compute: Some("8.9".to_owned()),
        ..reading(CUDA0, "NVIDIA GeForce RTX 4090", 24_564, 18_637)
    }
}

fn rate(speed_gts: f32) -> LinkRate {
    LinkRate { speed_gts: Some(speed_gts), width: Some(16) }
}

fn rx_7900() -> Reading {
    Reading {
        pci: "0000:03:00.0".parse().ok(),
        utilisation: Some(0.41),
        power_w: Some(98.0),
        power_limit_w: Some(355.0),
        temperature_c: Some(64.0),
        clock_mhz: Some(960),
        link: Some(Link { current: rate(8.0), max: rate(16.0) }),
        driver: Some("amdgpu 6.12.12".to_owned()),
        compute: Some("gfx1100".to_owned()),
        ..reading(ROCM0, "AMD Radeon RX 7900 XTX", 24_560, 11_264)
    }
}

fn ryzen() -> Reading {
    let cores = (0..32u16).map(|i| f32::from(i * 7 % 32) / 31.0);
    Reading {
        utilisation: Some(0.12),
        temperature_c: Some(55.0),
        cores: cores.collect(),
        clock_mhz: Some(3400),
        swap_total_bytes: Some(mib(8192)),
        swap_used_bytes: Some(mib(300)),
        ours_bytes: Some(mib(2600)),
        ..reading(CPU0, "AMD Ryzen 9 5950X 16-Core Processor", 64_200, 9_318)
    }
}

/// A 4090, a 7900 XTX and a processor at work, after a minute.
pub fn real_rig() -> Gauges {
    let mut gauges = Gauges::new(&[
        facts(CUDA0, "NVIDIA GeForce RTX 4090", false),
        facts(ROCM0, "AMD Radeon RX 7900 XTX", false),
        facts(CPU0, "AMD Ryzen 9 5950X 16-Core Processor", false),
    ]);
    gauges.set_placement(Some(&three_ways(CUDA0, ROCM0, CPU0)));
    gauges.on_stats(Duration::ZERO, &stats(&three_stats([CUDA0, ROCM0, CPU0])));
    for i in 0..=120u16 {
        let wave = (f32::from(i) / 9.0).sin() * 0.12;
        let mut cards = [rtx_4090(), rx_7900(), ryzen()];
        for card in &mut cards {
            card.utilisation = card.utilisation.map(|u| if i == 120 { u } else { (u + wave).max(0.0) });
            card.memory_used_bytes = card.memory_used_bytes.map(|m| if i < 40 { m / 2 } else { m });
        }
        gauges.on_telemetry(Duration::from_millis(u64::from(i) * 500), &cards);
    }
    gauges
}

pub fn three_ways(first: DeviceId, second: DeviceId, third: DeviceId) -> Placement {
    Placement::uniform(48, first).with_layers(30..44, second).with_layers(44.., third).with(Part::Head, third)
}

pub fn three_stats([first, second, third]: [DeviceId; 3]) -> [DeviceStats; 3] {
    [
        with_times(device_stats(first, 24_564, [14_540, 2048, 1200]), 4.14, 0.62, 0.38, 812.0),
        with_times(device_stats(second, 24_560, [8_900, 960, 410]), 2.0, 0.30, 0.70, 1640.0),
        with_times(device_stats(third, 64_200, [2_100, 280, 96]), 0.4, 0.05, 0.95, 96.5),
    ]
}

/// Three simulated devices that answer.
pub fn simulated_rig() -> Gauges {
    let ids = [CUDA0, ROCM0, CPU0];
    let names = ["RTX 4090", "RX 7900 XTX", "Ryzen 9 5950X"];
    let all: Vec<_> = ids.iter().zip(names).map(|(id, name)| facts(*id, name, true)).collect();
    let mut gauges = Gauges::new(&all);
    gauges.set_placement(Some(&three_ways(CUDA0, ROCM0, CPU0)));
    for i in 0..=100u32 {
        let mut devices = three_stats(ids);
        for (device, ms) in devices.iter_mut().zip([60, 30, 5]) {
            device.busy_total = Duration::from_millis(ms) * i + Duration::from_millis(u64::from(i % 7) * 3);
        }
        gauges.on_stats(Duration::from_millis(100) * i, &stats(&devices));
    }
    gauges
}

/// One card at work and one that sleeps, which this program does not use.
pub fn sleeping_rig() -> Gauges {
    let mut gauges = Gauges::new(&[facts(CUDA0, "NVIDIA GeForce RTX 4090", false)]);
    gauges.set_placement(Some(&Placement::uniform(48, CUDA0)));
    gauges.on_stats(Duration::ZERO, &stats(&three_stats([CUDA0, ROCM0, CPU0])[..1]));
    let asleep = Reading {
        state: PowerState::Asleep,
        memory_total_bytes: Some(mib(24_560)),
        ..Reading::new(ROCM0, "AMD Radeon RX 7900 XTX".to_owned(), Source::AmdgpuSysfs)
    };
    let other =
        Reading { temperature_c: Some(38.0), utilisation: Some(0.0), ..reading(CUDA1, "Quadro P400", 2048, 300) };
    gauges.on_telemetry(Duration::from_millis(500), &[rtx_4090(), asleep, other, ryzen()]);
    gauges
}

/// Eight cards of one kind.
pub fn eight_cards() -> Gauges {
    let ids: Vec<_> = (0..8).map(|i| DeviceId::new(DeviceKind::Cuda, i)).collect();
    let all: Vec<_> = ids.iter().map(|id| facts(*id, "NVIDIA H100 80GB HBM3", false)).collect();
    let mut gauges = Gauges::new(&all);
    let placement = Placement::from_fn(80, |part| ids[(part.index(80) * 8 / Part::count(80)).min(7)]);
    gauges.set_placement(Some(&placement));
    let stats_of =
        |id: &DeviceId| with_times(device_stats(*id, 81_559, [17_000, 3000, 900]), 1.9, 0.125, 0.875, 9200.0);
    gauges.on_stats(Duration::ZERO, &stats(&ids.iter().map(stats_of).collect::<Vec<_>>()));
    let cards: Vec<_> = ids
        .iter()
        .map(|id| Reading {
            utilisation: Some(1.0),
            power_w: Some(680.0),
            temperature_c: Some(100.0),
            ..reading(*id, "NVIDIA H100 80GB HBM3", 81_559, 22_000)
        })
        .collect();
    gauges.on_telemetry(Duration::from_millis(500), &cards);
    gauges
}
