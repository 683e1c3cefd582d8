//! What a model takes of each device, before anything is taken: the numbers behind `plan`, loading and live changes.

use crate::devices::op::WeightRole;
use crate::devices::{Device, DeviceFacts, DeviceId, DeviceKind};
use crate::engine::forecast::{Costs, DeviceRates, Forecast, PartWork, forecast};
use crate::engine::kv::kv_spec;
use crate::engine::measured::Measured;
use crate::engine::model::{Devices, Model};
use crate::engine::part::Part;
use crate::engine::placement::parse::NamedParts;
use crate::engine::placement::{
    AutoError, AutoInput, DeviceBudget, Fit, FitError, Needs, PartNeed, Placement, PlacementError, auto, fit,
};

#[derive(Debug, thiserror::Error)]
pub enum ChoiceError {
    #[error(transparent)]
    Placement(#[from] PlacementError),
    #[error(transparent)]
    Auto(#[from] AutoError),
    #[error(transparent)]
    Fit(#[from] FitError),
}

/// A placement with what it takes, whether it fits or not, how fast it would be, and words on why it is as it is.
pub struct MemoryPlan {
    pub placement: Placement,
    pub fit: Fit,
    /// With an empty cache.
    pub forecast: Forecast,
    pub notes: Vec<String>,
}

/// What has been learnt of a model since it was loaded.
#[derive(Clone, Copy)]
pub struct Known<'a> {
    /// Positions that the KV cache holds.
    pub n_past: u32,
    pub measured: &'a Measured,
}

/// Left free on each device: 2 % of its memory, at most this.
const MAX_MARGIN_BYTES: u64 = 256 << 20;

/// Reads the placement text (`None`: `auto`; parts that it does not name follow `auto`) and adds up its memory.
pub fn plan_memory(model: &Model, devices: &Devices, text: Option<&str>) -> Result<MemoryPlan, ChoiceError> {
    let known = Known { n_past: 0, measured: &Measured::default() };
    let budgets = budgets(devices);
    with_costs(model, devices, known, |costs| {
        let named = NamedParts::parse(text.unwrap_or("auto"), model.n_layer(), &devices.ids())?;
        let (placement, notes) = match named.complete() {
            Some(placement) => (placement, vec![]),
            None => ask_auto(model, costs, &budgets, &named)?,
        };
        let fit = fit(&placement, &costs.needs, &budgets);
        let forecast = forecast(&placement, costs);
        Ok(MemoryPlan { placement, fit, forecast, notes })
    })
}

/// As [`plan_memory`], for a placement that must fit.
pub fn choose_placement(model: &Model, devices: &Devices, text: Option<&str>) -> Result<MemoryPlan, ChoiceError> {
    let plan = plan_memory(model, devices, text)?;
    plan.fit.check()?;
    Ok(plan)
}

/// Where a change leads from `from`, with notes. Parts that the text does not name stay; `auto` is asked anew, with
/// what `budgets` gives for a model of which nothing is loaded.
pub fn change_target(
    text: &str,
    model: &Model,
    from: &Placement,
    costs: &Costs<'_>,
    budgets: &[DeviceBudget],
) -> Result<(Placement, Vec<String>), ChoiceError> {
    let ids: Vec<_> = budgets.iter().map(|b| b.id).collect();
    let named = NamedParts::parse(text, model.n_layer(), &ids)?;
    if named.is_auto() { ask_auto(model, costs, budgets, &named) } else { Ok((named.or(from), vec![])) }
}

/// A placement on `devices` alone that fits: parts of `from` that lie on them stay where that is possible.
pub fn placement_without_lost(model: &Model, from: &Placement, devices: &Devices) -> Result<Placement, ChoiceError> {
    let known = Known { n_past: 0, measured: &Measured::default() };
    let budgets = budgets_without_ours(devices);
    let ids = devices.ids();
    with_costs(model, devices, known, |costs| {
        let of = |named: &NamedParts| -> Result<Placement, ChoiceError> {
            let (placement, _) = ask_auto(model, costs, &budgets, named)?;
            fit(&placement, &costs.needs, &budgets).check()?;
            Ok(placement)
        };
        of(&NamedParts::that_stay(from, |id| ids.contains(&id)))
            .or_else(|_| of(&NamedParts::that_stay(from, |_| false)))
    })
}

fn ask_auto(
    model: &Model,
    costs: &Costs<'_>,
    budgets: &[DeviceBudget],
    named: &NamedParts,
) -> Result<(Placement, Vec<String>), ChoiceError> {
    let asked_for = |b: &&DeviceBudget| !costs.rates_of(b.id).by_name_only || named.uses(b.id);
    let mut wanted: Vec<_> = budgets.iter().filter(asked_for).copied().collect();
    if wanted.is_empty() {
        // Better an integrated GPU than none at all.
        wanted = budgets.to_vec();
    }
    let budgets = &wanted[..];
    let input = AutoInput { n_layer: model.n_layer(), is_moe: model.is_moe(), costs, budgets, named: Some(named) };
    let auto = auto(&input)?;
    Ok((named.or(&auto.placement), auto.notes))
}

/// What is free on each device now.
fn budgets(devices: &Devices) -> Vec<DeviceBudget> {
    devices.0.iter().map(|d| budget(&**d, d.memory().free_bytes)).collect()
}

/// What would be free on each device if it held nothing of this program's.
pub fn budgets_without_ours(devices: &Devices) -> Vec<DeviceBudget> {
    let free = |d: &dyn Device| {
        let memory = d.memory();
        memory.free_bytes.saturating_add(memory.ours_bytes).min(memory.total_bytes)
    };
    devices.0.iter().map(|d| budget(&**d, free(&**d))).collect()
}

fn budget(device: &dyn Device, free_bytes: u64) -> DeviceBudget {
    let total_bytes = device.memory().total_bytes;
    let margin_bytes = (total_bytes / 50).min(MAX_MARGIN_BYTES);
    DeviceBudget { id: device.facts().id, free_bytes, total_bytes, margin_bytes }
}

/// What is left of `without_ours` beside a placement: what a change that replaces any other change can take. What is
/// staged for that one does not count, because it is given back first.
pub fn budgets_beside(present: &Fit, without_ours: &[DeviceBudget]) -> Vec<DeviceBudget> {
    let taken = |id: DeviceId| present.devices.iter().find(|d| d.id == id).map_or(0, |d| d.taken_bytes());
    let beside = |b: &DeviceBudget| DeviceBudget { free_bytes: b.free_bytes.saturating_sub(taken(b.id)), ..*b };
    without_ours.iter().map(beside).collect()
}

/// Hands `then` everything that placement and forecast ask of a model and its devices.
pub fn with_costs<T>(model: &Model, devices: &Devices, known: Known<'_>, then: impl FnOnce(&Costs<'_>) -> T) -> T {
    let device = |id: DeviceId| devices.get(id).map(|d| &**d);
    let scratch = |id: DeviceId, parts: &[Part]| device(id).map_or(0, |d| model.scratch_bytes(d, parts));
    // Asked for once: fits and forecasts add them up many times.
    let n_layer = model.n_layer();
    let works: Vec<_> = model.parts().map(|part| part_work(model, part, known.n_past)).collect();
    let work = |part: Part, _: DeviceId| works[part.index(n_layer)];
    let computes_here = |facts: &&DeviceFacts| facts.simulated || facts.id.kind == DeviceKind::Cpu;
    let of_processor: Vec<_> = devices.0.iter().map(|d| d.facts()).filter(computes_here).map(|f| f.id).collect();
    type OfDevice = (DeviceId, Vec<(PartNeed, Option<f64>)>);
    let of_devices: Vec<OfDevice> = devices
        .0
        .iter()
        .map(|d| {
            let id = d.facts().id;
            let measured = |part: Part| {
                let on = |id| known.measured.decode_ms(part, id, works[part.index(n_layer)].read_bytes);
                // CPU and simulated devices all compute on this processor: what one has shown, the others will.
                let others = || of_processor.iter().filter(|_| of_processor.contains(&id));
                let elsewhere = || others().find_map(|&other| on(other));
                on(id).or_else(elsewhere)
            };
            (id, model.parts().map(|part| (model.part_need(part, &**d), measured(part))).collect())
        })
        .collect();
    let of = |part: Part, id: DeviceId| {
        let of_device = of_devices.iter().find(|(other, _)| *other == id);
        of_device.map_or((PartNeed::default(), None), |(_, parts)| parts[part.index(n_layer)])
    };
    let part_need = |part: Part, id: DeviceId| of(part, id).0;
    let measured_ms = |part: Part, id: DeviceId| of(part, id).1;
    let rates: Vec<_> = devices
        .0
        .iter()
        .map(|d| {
            let facts = d.facts();
            DeviceRates {
                memory_bytes_per_s: facts.memory_bytes_per_s,
                link_bytes_per_s: facts.link_bytes_per_s,
                by_name_only: facts.gpu.as_ref().is_some_and(|gpu| gpu.is_integrated),
                ..DeviceRates::unknown(facts.id)
            }
        })
        .collect();
    let tied_bytes = |id: DeviceId| device(id).map_or(0, |d| model.tied_bytes(d));
    let needs = Needs { part: &part_need, scratch: &scratch, tied_bytes: &tied_bytes };
    let costs = Costs {
        needs,
        work: &work,
        measured_ms: &measured_ms,
        hop_bytes: 4 * u64::from(model.programs.spec.n_embd),
        pipelined: true,
        rates: &rates,
    };
    then(&costs)
}

/// What one decoded token reads and computes in a part, when the cache holds `n_past` positions.
pub fn part_work(model: &Model, part: Part, n_past: u32) -> PartWork {
    let used_of = |elements: u64, shape: &[u64]| match (&model.programs.spec.experts, shape.len()) {
        (Some(experts), 3) => elements / u64::from(experts.n_expert) * u64::from(experts.n_used),
        _ => elements,
    };
    let mut work = PartWork::default();
    for weight in &model.programs.program(part).weights {
        match weight.role {
            WeightRole::Table => {
                work.read_bytes += weight.file_bytes() / weight.shape.last().copied().unwrap_or(1).max(1)
            }
            WeightRole::Matrix => {
                work.read_bytes += used_of(weight.file_bytes(), &weight.shape);
                work.flops += 2 * used_of(weight.n_elements(), &weight.shape);
            }
            WeightRole::Vector => work.read_bytes += weight.file_bytes(),
        }
    }
    if let Part::Attn(layer) = part {
        let kv = kv_spec(&model.programs.spec, layer, model.kv, n_past);
        work.read_bytes += kv.k_bytes() + kv.v_bytes();
    }
    work
}
