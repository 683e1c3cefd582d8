//! A live change: what was asked, and how far it is.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::engine::budget;
use crate::engine::load::LoadedModel;
use crate::engine::model::Devices;
use crate::engine::placement::{Placement, plan};
use crate::engine::protocol::{ChangeState, RequestId, When};
use crate::engine::stage::Staged;

pub struct Change {
    pub id: RequestId,
    pub placement: Placement,
    pub when: When,
    /// Looked at by the staging thread.
    pub cancel: Arc<AtomicBool>,
    pub phase: ChangePhase,
}

pub enum ChangePhase {
    Staging,
    Ready(Box<Staged>),
}

/// Parses the text and forecasts whether the change fits while the old placement stands. Touches nothing.
pub fn check_change(text: &str, loaded: &LoadedModel, devices: &Devices) -> Result<(Placement, ChangeState), String> {
    let from = &loaded.resident.placement;
    let to = Placement::parse(text, loaded.model.n_layer(), &devices.ids(), from).map_err(|e| e.to_string())?;
    budget::check_change(&loaded.model, devices, from, &to)?;
    let moves = plan(from, &to);
    let move_bytes =
        moves.iter().filter_map(|m| Some(loaded.model.part_need(m.part, &**devices.get(m.to)?).weight_bytes)).sum();
    Ok((to, ChangeState::Checked { n_moves: moves.len(), move_bytes }))
}
