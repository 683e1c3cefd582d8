//! A model on its devices: which memory each part has, and the segments that run it.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::devices::{Bindings, DeviceError, DeviceId, KvCache, Scratch};
use crate::engine::model::{Devices, Model};
use crate::engine::part::Part;
use crate::engine::placement::Placement;
use crate::engine::stage::{PartMemory, Present, StageOrder, Staged};
use crate::engine::worker::Segment;

/// **Invariant**: complete. Every part of the placement has its memory on its device.
pub struct Resident {
    pub placement: Placement,
    parts: Vec<PartMemory>,
    scratch: BTreeMap<DeviceId, Scratch>,
}

/// What must be staged to come from `from` (or from nothing) to `to`.
pub fn stage_order(model: &Model, from: Option<&Resident>, to: &Placement, n_threads: usize) -> StageOrder {
    let parts = model
        .parts()
        .filter(|p| from.is_none_or(|from| from.placement.get(*p) != to.get(*p)))
        .map(|p| (p, to.get(p)))
        .collect();
    let scratch = to
        .devices()
        .into_iter()
        .map(|id| (id, to.parts_on(id)))
        .filter(|(id, parts)| {
            let wanted = model.slot_layout(parts).0;
            let present = from.and_then(|from| from.scratch.get(id));
            // Memory that already has all the slots serves on.
            !present.is_some_and(|s| wanted.iter().zip(s.slot_offsets.iter()).all(|(w, p)| w.is_none() || p.is_some()))
        })
        .collect();
    let present = from.map(|from| from.weights_that_stay(model, to)).unwrap_or_default();
    StageOrder { parts, scratch, present, n_threads }
}

impl Resident {
    /// After loading: the order was for all parts.
    pub fn from_staged(placement: Placement, staged: Staged) -> Resident {
        let parts = staged.parts.into_iter().map(|(_, memory)| memory).collect();
        Resident { placement, parts, scratch: staged.scratch }
    }

    /// Weights of parts that a change leaves where they are.
    fn weights_that_stay(&self, model: &Model, to: &Placement) -> Present {
        let stay = model.parts().filter(|p| self.placement.get(*p) == to.get(*p));
        stay.flat_map(|part| {
            let memory = self.memory(part);
            let specs = model.programs.program(part).weights.iter();
            specs.zip(&memory.weights).map(|(spec, buffer)| ((memory.device, spec.clone()), buffer.clone()))
        })
        .collect()
    }

    fn memory(&self, part: Part) -> &PartMemory {
        &self.parts[part.index(self.placement.n_layer())]
    }

    /// This model after a change: staged parts and scratch replace those that were there, `n_past` positions of the
    /// moved layers' KV are copied. `self` is untouched. Gives the bytes of KV that were copied, too.
    pub fn switched(
        &self,
        placement: &Placement,
        staged: &Staged,
        n_past: u32,
        devices: &Devices,
    ) -> Result<(Resident, u64), DeviceError> {
        let mut parts = self.parts.clone();
        let mut kv_bytes = 0;
        for (part, memory) in &staged.parts {
            if let (Some(from), Some(to)) = (&self.memory(*part).kv, &memory.kv) {
                kv_bytes += copy_kv(from, to, n_past, devices)?;
            }
            parts[part.index(placement.n_layer())] = memory.clone();
        }
        let mut scratch = self.scratch.clone();
        scratch.extend(staged.scratch.iter().map(|(id, s)| (*id, s.clone())));
        let used = placement.devices();
        scratch.retain(|id, _| used.contains(id));
        Ok((Resident { placement: placement.clone(), parts, scratch }, kv_bytes))
    }

    /// Maximal runs of consecutive parts on one device, bound to their memory.
    pub fn segments(&self, model: &Model) -> Result<Vec<Arc<Segment>>, DeviceError> {
        let n_layer = model.n_layer();
        let row_bytes = |slots: &[crate::devices::Slot]| {
            slots.iter().map(|s| (*s, 4 * u64::from(model.programs.slots[usize::from(s.0)].width))).collect::<Vec<_>>()
        };
        let all: Vec<_> = model.parts().collect();
        let runs = all.chunk_by(|a, b| self.placement.get(*a) == self.placement.get(*b));
        let mut segments = vec![];
        for run in runs {
            let (Some(first), Some(last)) = (run.first(), run.last()) else { continue };
            let device = self.placement.get(*first);
            let scratch = self
                .scratch
                .get(&device)
                .ok_or_else(|| DeviceError::Failed { device, message: "it has no activation memory".into() })?;
            let programs = run
                .iter()
                .map(|part| {
                    let memory = self.memory(*part);
                    let bindings =
                        Bindings { weights: memory.weights.clone(), kv: memory.kv.clone(), scratch: scratch.clone() };
                    (model.shared_programs[part.index(n_layer)].clone(), bindings)
                })
                .collect();
            let live = &model.programs.live;
            segments.push(Arc::new(Segment {
                device,
                programs,
                inputs: row_bytes(&live[first.index(n_layer)]),
                outputs: row_bytes(&live[last.index(n_layer) + 1]),
                is_last: *last == Part::Head,
            }));
        }
        Ok(segments)
    }
}

/// Copies the first `n_past` positions of every head through host memory. Gives the bytes copied.
fn copy_kv(from: &KvCache, to: &KvCache, n_past: u32, devices: &Devices) -> Result<u64, DeviceError> {
    if n_past == 0 {
        return Ok(0);
    }
    let lost = |id| DeviceError::Failed { device: id, message: "it is not there any more".into() };
    let source = devices.get(from.k.device()).ok_or_else(|| lost(from.k.device()))?;
    let target = devices.get(to.k.device()).ok_or_else(|| lost(to.k.device()))?;
    let mut copied = 0;
    let mut bounce = vec![];
    let pairs = [(&from.k, &to.k, from.spec.k_row_bytes()), (&from.v, &to.v, from.spec.v_row_bytes())];
    for (from_buffer, to_buffer, row_bytes) in pairs {
        bounce.resize((row_bytes * u64::from(n_past)) as usize, 0);
        for head in 0..u64::from(from.spec.n_kv_head) {
            let offset = head * row_bytes * u64::from(from.spec.n_ctx);
            source.download(from_buffer, offset, &mut bounce)?;
            target.upload(to_buffer, offset, &bounce)?;
            copied += bounce.len() as u64;
        }
    }
    Ok(copied)
}
