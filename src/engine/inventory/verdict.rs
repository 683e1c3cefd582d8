//! Whether a model fits, by the planning that loads it.

use std::path::Path;

use super::one_line;
use crate::devices::DeviceId;
use crate::engine::arch::ArchError;
use crate::engine::budget::{ChoiceError, MemoryPlan, plan_memory};
use crate::engine::gguf::GgufError;
use crate::engine::model::{Devices, Model, ModelError};
use crate::engine::part::Part;
use crate::engine::placement::{AutoError, Placement};

/// What would come of loading a model now, with `auto` as its placement.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// The device that does most of the work could hold all of it (`auto` may still leave a small part elsewhere where
    /// that is no slower).
    Fits { on: DeviceId },
    /// In this order.
    FitsSplit { over: Vec<DeviceId> },
    /// By so much in total, after the try that was short of least.
    TooLarge { short_bytes: u64 },
    /// The file is whole, but cannot be run; one line.
    Unsupported { why: String },
    /// One line.
    Unreadable { why: String },
}

impl Verdict {
    /// Pure but for asking each device what is free.
    pub fn of_model(model: &Model, devices: &Devices) -> Verdict {
        match plan_memory(model, devices, None) {
            Ok(MemoryPlan { placement, .. }) => {
                let used = placement.devices();
                match (&used[..], busiest(&placement)) {
                    (&[on], _) => Verdict::Fits { on },
                    (_, Some(on)) if holds_all(model, devices, on) => Verdict::Fits { on },
                    _ => Verdict::FitsSplit { over: used },
                }
            }
            Err(ChoiceError::Auto(AutoError::DoesNotFit { best, .. })) => {
                Verdict::TooLarge { short_bytes: best.short_bytes() }
            }
            Err(error @ (ChoiceError::Auto(AutoError::NoDevice) | ChoiceError::Placement(_) | ChoiceError::Fit(_))) => {
                Verdict::Unsupported { why: one_line(&error.to_string()) }
            }
        }
    }

    pub(super) fn unreadable(error: &GgufError, path: &Path) -> Verdict {
        Verdict::Unreadable { why: of_file(error, path) }
    }

    pub(super) fn unsupported(error: &ModelError, path: &Path) -> Verdict {
        let why = match error {
            ModelError::Gguf { source, .. } | ModelError::Arch { source: ArchError::Gguf(source), .. } => {
                of_file(source, path)
            }
            ModelError::Arch { source, .. } => one_line(&source.to_string()),
            ModelError::Synth(_) | ModelError::Context { .. } | ModelError::KvHead { .. } => {
                one_line(&error.to_string())
            }
        };
        Verdict::Unsupported { why }
    }

    /// Whether it can be loaded.
    pub fn is_loadable(&self) -> bool {
        match self {
            Verdict::Fits { .. } | Verdict::FitsSplit { .. } => true,
            Verdict::TooLarge { .. } | Verdict::Unsupported { .. } | Verdict::Unreadable { .. } => false,
        }
    }
}

/// Without the path, which stands beside it; another shard is named by its file.
fn of_file(error: &GgufError, path: &Path) -> String {
    match &error.path {
        Some(other) if other != path => {
            one_line(&format!("{}: {}", other.file_name().unwrap_or_default().display(), error.kind))
        }
        _ => one_line(&error.kind.to_string()),
    }
}

/// The device of most layers' attention: it computes for every token, while experts may lie apart.
fn busiest(placement: &Placement) -> Option<DeviceId> {
    let n_attn = |id: DeviceId| placement.parts_on(id).iter().filter(|part| matches!(part, Part::Attn(_))).count();
    // Of equals the first.
    placement.devices().into_iter().rev().max_by_key(|id| n_attn(*id))
}

fn holds_all(model: &Model, devices: &Devices, id: DeviceId) -> bool {
    plan_memory(model, devices, Some(&format!("{id}=all"))).is_ok_and(|plan| plan.fit.fits())
}
