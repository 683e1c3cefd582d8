//! What a live change would do. Touches nothing; the change itself is checked by the same function.

use crate::engine::budget::{self, Known, budgets_beside, budgets_without_ours, change_target, with_costs};
use crate::engine::forecast::{DeviceForecast, forecast, forecast_change};
use crate::engine::load::LoadedModel;
use crate::engine::measured::{Measured, SegmentTimes};
use crate::engine::model::Devices;
use crate::engine::placement::{ChangeUse, DeviceUse, Placement, fit, fit_change};
use crate::engine::protocol::{DevicePreview, Preview};

/// Looks at the change to `text` from the present placement, as if no other change were under way. Gives the placement
/// it leads to, too; that of a text that cannot be read is the present one.
pub fn preview(text: &str, loaded: &LoadedModel, devices: &Devices, measured: &Measured) -> (Placement, Preview) {
    let (model, from, n_past) = (&*loaded.model, &loaded.resident.placement, loaded.session.n_past());
    let without_ours = budgets_without_ours(devices);
    with_costs(model, devices, Known { n_past, measured }, |costs| {
        let target = change_target(text, model, from, costs, &without_ours);
        let (to, notes, unreadable) = match target {
            Ok((to, notes)) => (to, notes, None),
            Err(error) => (from.clone(), vec![], Some(error.to_string())),
        };
        let beside = budgets_beside(&fit(from, &costs.needs, &without_ours), &without_ours);
        let change_fit = fit_change(from, &to, &costs.needs, &beside);
        let after = fit(&to, &costs.needs, &without_ours);
        let speed = forecast(&to, costs);
        let change = forecast_change(from, &to, f64::from(n_past) / f64::from(model.n_ctx.max(1)), costs);
        let device = |(used, change): (&DeviceUse, &ChangeUse)| {
            let speed: Option<&DeviceForecast> = speed.devices.iter().find(|d| d.id == used.id);
            DevicePreview {
                id: used.id,
                n_parts: to.parts_on(used.id).len(),
                held_bytes_after: used.taken_bytes(),
                weight_bytes: used.weight_bytes,
                kv_bytes: used.kv_bytes,
                scratch_bytes: used.scratch_bytes,
                total_bytes: used.total_bytes,
                short_bytes: change.short_bytes,
                decode_ms: speed.map_or(0.0, |d| d.decode_ms),
                decode_share: speed.map_or(0.0, |d| d.decode_share),
                read_bytes: speed.map_or(0, |d| d.read_bytes),
                basis: speed.map(|d| d.basis),
            }
        };
        let preview = Preview {
            placement: to.to_string(),
            refused: unreadable.or_else(|| change_fit.check().err().map(|error| error.to_string())),
            devices: after.devices.iter().zip(&change_fit.devices).map(device).collect(),
            n_moves: change.n_parts,
            weight_bytes: change.weight_bytes,
            staging_s: change.staging_s,
            kv_bytes: change.kv_bytes,
            stall_s: change.stall_s,
            from_tokens_per_s: change.from_tokens_per_s,
            to_tokens_per_s: change.to_tokens_per_s,
            prefill_tokens_per_s: speed.prefill_tokens_per_s,
            n_hops: speed.n_hops,
            hop_ms: speed.hop_ms,
            bottleneck: speed.bottleneck,
            basis: speed.basis(),
            notes,
        };
        (to, preview)
    })
}

/// Notes what decoding through the present segments took, for forecasts to come.
pub fn note_measured(measured: &mut Measured, loaded: &LoadedModel, times: &SegmentTimes) {
    // The cache grew while they were measured: its mean length counts.
    let n_past = loaded.session.n_past().saturating_sub(times.n_tokens as u32 / 2);
    let read_bytes = |part| budget::part_work(&loaded.model, part, n_past).read_bytes;
    measured.note(&loaded.resident.placement, times, &read_bytes);
}
