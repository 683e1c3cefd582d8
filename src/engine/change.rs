//! A live change: what was asked, and how far it is.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::engine::load::LoadedModel;
use crate::engine::measured::Measured;
use crate::engine::model::Devices;
use crate::engine::placement::Placement;
use crate::engine::preview::preview;
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
pub fn check_change(
    text: &str,
    loaded: &LoadedModel,
    devices: &Devices,
    measured: &Measured,
) -> Result<(Placement, ChangeState), String> {
    let (to, preview) = preview(text, loaded, devices, measured);
    match preview.refused {
        Some(message) => Err(message),
        None => Ok((to, ChangeState::Checked { n_moves: preview.n_moves, move_bytes: preview.weight_bytes })),
    }
}
