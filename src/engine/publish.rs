//! Stats as the interface gets them, from what the engine knows.

use std::sync::Arc;
use std::time::Duration;

use crate::devices::{Device, DeviceId};
use crate::engine::budget::{Known, budgets_without_ours, part_work, with_costs};
use crate::engine::load::LoadedModel;
use crate::engine::measured::Measured;
use crate::engine::model::Devices;
use crate::engine::placement::fit;
use crate::engine::protocol::{DeviceStats, Stats, Timings};

/// Memory of every device, asked of the devices: too slow for every token. Rates are left empty.
pub fn device_memory(devices: &Devices, loaded: Option<&LoadedModel>) -> Vec<DeviceStats> {
    let used = loaded.map(|loaded| {
        let known = Known { n_past: 0, measured: &Measured::default() };
        let budgets = budgets_without_ours(devices);
        with_costs(&loaded.model, devices, known, |costs| fit(&loaded.resident.placement, &costs.needs, &budgets))
    });
    let stats = |device: &Arc<dyn Device>| {
        let (id, memory) = (device.facts().id, device.memory());
        let used = used.as_ref().and_then(|fit| fit.devices.iter().find(|d| d.id == id));
        DeviceStats {
            id,
            total_bytes: memory.total_bytes,
            free_bytes: memory.free_bytes,
            ours_bytes: memory.ours_bytes,
            weight_bytes: used.map_or(0, |d| d.weight_bytes),
            kv_bytes: used.map_or(0, |d| d.kv_bytes),
            scratch_bytes: used.map_or(0, |d| d.scratch_bytes),
            n_parts: loaded.map_or(0, |loaded| loaded.resident.placement.parts_on(id).len()),
            busy_total: Duration::ZERO,
            decode_ms_per_token: None,
            decode_share: None,
            wait_share: None,
            prefill_tokens_per_s: None,
        }
    };
    devices.0.iter().map(stats).collect()
}

/// Decode times of the parts where they lie now, at the present length of the cache.
pub fn part_ms(loaded: &LoadedModel, measured: &Measured) -> Arc<[Option<f32>]> {
    let n_past = loaded.session.n_past();
    let ms = |(part, id)| {
        let read_bytes = part_work(&loaded.model, part, n_past).read_bytes;
        measured.decode_ms(part, id, read_bytes).map(|ms| ms as f32)
    };
    loaded.resident.placement.iter().map(ms).collect()
}

/// Fills in everything that follows from a generation's timings. `recent_tokens_per_s`: over its last tokens, while it
/// runs.
pub fn set_timings(
    stats: &mut Stats,
    timings: Timings,
    recent_tokens_per_s: Option<f64>,
    busy_total: impl Fn(DeviceId) -> Duration,
) {
    let share = |part: Duration, whole: Duration| (!whole.is_zero()).then(|| part.as_secs_f64() / whole.as_secs_f64());
    for device in &mut stats.devices {
        device.busy_total = busy_total(device.id);
        let times = timings.devices.iter().find(|t| t.id == device.id);
        let decode = times.filter(|_| timings.decode_tokens > 0).map(|t| t.decode_busy);
        device.decode_ms_per_token = decode.map(|busy| busy.as_secs_f64() * 1e3 / timings.decode_tokens as f64);
        device.decode_share = decode.and_then(|busy| share(busy, timings.decode));
        device.wait_share = times.and_then(|t| share(t.wait, t.busy + t.wait));
        device.prefill_tokens_per_s = times
            .filter(|t| timings.prefill_tokens > 0 && !t.prefill_busy.is_zero())
            .map(|t| timings.prefill_tokens as f64 / t.prefill_busy.as_secs_f64());
    }
    stats.decode_tokens_per_s = recent_tokens_per_s.or_else(|| timings.decode_tokens_per_s());
    stats.prefill_tokens_per_s = timings.prefill_tokens_per_s();
    stats.hop_share = (timings.decode_tokens > 0).then(|| share(timings.decode_hops, timings.decode)).flatten();
    let whole = timings.prefill + timings.decode;
    stats.hop_bytes_per_s = (!whole.is_zero()).then(|| timings.hop_bytes() as f64 / whole.as_secs_f64());
    stats.timings = timings;
}
