//! What a model takes of each device, before anything is taken: the numbers behind `plan`, loading and live changes.

use crate::devices::op::WeightRole;
use crate::devices::{Device, DeviceId};
use crate::engine::forecast::{Costs, DeviceRates, PartWork};
use crate::engine::model::{Devices, Model};
use crate::engine::part::Part;
use crate::engine::placement::parse::NamedParts;
use crate::engine::placement::{
    AutoError, AutoInput, DeviceBudget, Fit, FitError, Needs, PartNeed, Placement, PlacementError, auto, fit,
    fit_change,
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

/// A placement with what it takes, whether it fits or not, and words on why it is as it is.
pub struct MemoryPlan {
    pub placement: Placement,
    pub fit: Fit,
    pub notes: Vec<String>,
}

/// Left free on each device: 2 % of its memory, at most this.
const MAX_MARGIN_BYTES: u64 = 256 << 20;

/// Reads the placement text (`None`: `auto`; parts that it does not name follow `auto`) and adds up its memory.
pub fn plan_memory(model: &Model, devices: &Devices, text: Option<&str>) -> Result<MemoryPlan, ChoiceError> {
    with_costs(model, devices, |costs, budgets| {
        let named = match text {
            Some(text) => NamedParts::parse(text, model.n_layer(), &devices.ids())?,
            None => NamedParts::parse("auto", model.n_layer(), &devices.ids())?,
        };
        let (placement, notes) = match named.complete() {
            Some(placement) => (placement, vec![]),
            None => {
                let input = AutoInput { n_layer: model.n_layer(), is_moe: model.is_moe(), costs, budgets };
                let auto = auto(&input)?;
                (named.or(&auto.placement), auto.notes)
            }
        };
        let fit = fit(&placement, &costs.needs, budgets);
        Ok(MemoryPlan { placement, fit, notes })
    })
}

/// As [`plan_memory`], for a placement that must fit.
pub fn choose_placement(model: &Model, devices: &Devices, text: Option<&str>) -> Result<MemoryPlan, ChoiceError> {
    let plan = plan_memory(model, devices, text)?;
    plan.fit.check()?;
    Ok(plan)
}

/// Whether a change fits while the old placement stands. The error is one line with device, buffer and MiB short.
pub fn check_change(model: &Model, devices: &Devices, from: &Placement, to: &Placement) -> Result<(), String> {
    with_costs(model, devices, |costs, budgets| {
        fit_change(from, to, &costs.needs, budgets).check().map_err(|e| e.to_string())
    })
}

/// What is free on each device now.
fn budgets(devices: &Devices) -> Vec<DeviceBudget> {
    let budget = |device: &dyn Device| {
        let memory = device.memory();
        DeviceBudget {
            id: device.facts().id,
            free_bytes: memory.free_bytes,
            total_bytes: memory.total_bytes,
            margin_bytes: (memory.total_bytes / 50).min(MAX_MARGIN_BYTES),
        }
    };
    devices.0.iter().map(|d| budget(&**d)).collect()
}

/// Hands `then` everything that placement and forecast ask of a model and its devices.
fn with_costs<T>(model: &Model, devices: &Devices, then: impl FnOnce(&Costs<'_>, &[DeviceBudget]) -> T) -> T {
    let device = |id: DeviceId| devices.get(id).map(|d| &**d);
    let part_need = |part: Part, id: DeviceId| device(id).map_or(PartNeed::default(), |d| model.part_need(part, d));
    let scratch = |id: DeviceId, parts: &[Part]| device(id).map_or(0, |d| model.scratch_bytes(d, parts));
    let work = |part: Part, _: DeviceId| part_work(model, part);
    let rates: Vec<_> = devices
        .0
        .iter()
        .map(|d| {
            let facts = d.facts();
            DeviceRates {
                memory_bytes_per_s: facts.memory_bytes_per_s,
                link_bytes_per_s: facts.link_bytes_per_s,
                ..DeviceRates::unknown(facts.id)
            }
        })
        .collect();
    let tied_bytes = |id: DeviceId| device(id).map_or(0, |d| model.tied_bytes(d));
    let needs = Needs { part: &part_need, scratch: &scratch, tied_bytes: &tied_bytes };
    let costs = Costs {
        needs,
        work: &work,
        measured_ms: &|_, _| None,
        hop_bytes: 4 * u64::from(model.programs.spec.n_embd),
        pipelined: true,
        rates: &rates,
    };
    then(&costs, &budgets(devices))
}

/// What one decoded token reads and computes in a part, at an empty cache.
fn part_work(model: &Model, part: Part) -> PartWork {
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
    work
}
