//! From load options to a model on its devices.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use crate::devices::{DeviceError, DeviceId};
use crate::engine::budget::{self, MemoryPlan};
use crate::engine::model::{Devices, Model, ModelError};
use crate::engine::protocol::{LoadOptions, ModelInfo, PartInfo};
use crate::engine::quant_name::quant_name;
use crate::engine::resident::{Resident, stage_order};
use crate::engine::session::Session;
use crate::engine::stage::{StageError, StageProgress, stage};
use crate::engine::text::TextModel;

#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error(transparent)]
    Model(#[from] ModelError),
    #[error(transparent)]
    Placement(#[from] budget::ChoiceError),
    #[error(transparent)]
    Stage(#[from] StageError),
    #[error(transparent)]
    Device(#[from] DeviceError),
}

/// A model that can run.
pub struct LoadedModel {
    pub model: Arc<Model>,
    pub resident: Resident,
    pub text: TextModel,
    pub session: Session,
    pub notices: Vec<String>,
    pub load_ms: f64,
}

/// Loading may use some threads of its own: packing weights is work.
const MAX_LOAD_THREADS: usize = 8;

pub fn load(
    options: &LoadOptions,
    devices: &Devices,
    cancel: &AtomicBool,
    progress: &(dyn Fn(StageProgress) + Sync),
) -> Result<LoadedModel, LoadError> {
    let started = Instant::now();
    let model = Model::open(&options.path, options.n_ctx, LoadOptions::DEFAULT_CTX, options.kv)?;
    let MemoryPlan { placement, mut notes, .. } =
        budget::choose_placement(&model, devices, options.placement.as_deref())?;
    let text = TextModel::from_gguf(&model.gguf);
    let n_threads = std::thread::available_parallelism().map_or(1, |n| n.get()).min(MAX_LOAD_THREADS);
    let order = stage_order(&model, None, &placement, n_threads);
    let staged = stage(&model, devices, &order, cancel, progress)?;
    notes.extend(text.notices.iter().cloned());
    Ok(LoadedModel {
        model: Arc::new(model),
        resident: Resident::from_staged(placement, staged),
        text,
        session: Session::default(),
        notices: notes,
        load_ms: started.elapsed().as_secs_f64() * 1e3,
    })
}

impl LoadedModel {
    pub fn info(&self, devices: &Devices) -> ModelInfo {
        let spec = &self.model.programs.spec;
        let used = self.resident.placement.devices();
        let device_bytes =
            used.into_iter().filter_map(|id: DeviceId| Some((id, devices.get(id)?.memory().ours_bytes))).collect();
        let parts = self.resident.placement.iter().map(|(part, id)| {
            let need = devices.get(id).map(|d| self.model.part_need(part, &**d)).unwrap_or_default();
            PartInfo { part, weight_bytes: need.weight_bytes, kv_bytes: need.kv_bytes }
        });
        ModelInfo {
            path: self.model.path.clone(),
            name: self.model.name(),
            arch: spec.arch.to_owned(),
            quant: quant_name(&self.model.gguf),
            n_layer: spec.n_layer(),
            n_vocab: spec.n_vocab,
            n_ctx: self.model.n_ctx,
            n_ctx_train: spec.n_ctx_train,
            n_params: self.model.n_params(),
            file_bytes: self.model.gguf.file_bytes(),
            kv: self.model.kv,
            is_moe: self.model.is_moe(),
            has_chat_template: self.model.gguf.metadata().get("tokenizer.chat_template").is_some(),
            placement: self.resident.placement.to_string(),
            parts: parts.collect(),
            device_bytes,
            load_ms: self.load_ms,
        }
    }
}
