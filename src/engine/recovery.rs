//! A model that has lost a device: its parts are placed anew on what is left, from the file. What its part of the KV
//! cache held is gone, so the whole cache counts as empty: the next prompt computes it again from the conversation.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use crate::devices::{DeviceError, DeviceId};
use crate::engine::budget::placement_without_lost;
use crate::engine::load::LoadedModel;
use crate::engine::model::Devices;
use crate::engine::placement::Placement;
use crate::engine::protocol::RequestId;
use crate::engine::stage::Staged;
use crate::engine::worker::Segment;

/// A recovery under way.
pub struct Recovery {
    /// The request during which the loss was found out.
    pub id: RequestId,
    pub lost: DeviceId,
    pub placement: Placement,
    /// Looked at by the staging thread.
    pub cancel: Arc<AtomicBool>,
    pub started: Instant,
}

/// A lost device that holds parts of the model, if there is one.
pub fn lost_device(loaded: &LoadedModel, devices: &Devices) -> Option<DeviceId> {
    let is_lost = |id: &DeviceId| devices.get(*id).is_none_or(|d| d.is_lost());
    loaded.resident.placement.devices().into_iter().find(is_lost)
}

/// Where the model goes without its lost devices: what lies elsewhere stays if it can.
///
/// # Errors
/// Words, when it does not fit on what is left.
pub fn new_placement(loaded: &LoadedModel, devices: &Devices) -> Result<Placement, String> {
    placement_without_lost(&loaded.model, &loaded.resident.placement, &devices.usable()).map_err(|e| e.to_string())
}

/// Puts what was staged in place. Gives the new segments.
pub fn install(
    loaded: &mut LoadedModel,
    placement: &Placement,
    staged: &Staged,
    devices: &Devices,
) -> Result<Vec<Arc<Segment>>, DeviceError> {
    loaded.session.clear();
    let (resident, _) = loaded.resident.switched(placement, staged, 0, devices)?;
    let segments = resident.segments(&loaded.model)?;
    loaded.resident = resident;
    Ok(segments)
}
