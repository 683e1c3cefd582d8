//! What a model file is, and whether it would run on these devices: from its header alone, before anything is loaded.

mod facts;
mod verdict;

use std::path::Path;

use super::gguf::{Gguf, GgufError};
use super::kv::KvType;
use super::model::{Devices, Model, ModelError};
use super::protocol::LoadOptions;
pub use facts::ModelFacts;
pub use verdict::Verdict;

/// A model file, looked at.
#[derive(Clone, PartialEq, Debug)]
pub struct Examined {
    /// `None` where the file cannot be read.
    pub facts: Option<ModelFacts>,
    pub verdict: Verdict,
}

/// Looks at a file for these devices as they are now. `n_ctx` and `kv` as in [`LoadOptions`]. Opens the file once where
/// its architecture is known, and reads no weight.
pub fn examine(path: &Path, devices: &Devices, n_ctx: Option<u32>, kv: KvType) -> Examined {
    match Model::open(path, n_ctx, LoadOptions::DEFAULT_CTX, kv) {
        Ok(model) => {
            Examined { facts: Some(ModelFacts::from_gguf(&model.gguf)), verdict: Verdict::of_model(&model, devices) }
        }
        Err(error @ ModelError::Synth(_)) => Examined { facts: None, verdict: Verdict::unsupported(&error, path) },
        Err(ModelError::Gguf { source, .. }) => Examined { facts: None, verdict: Verdict::unreadable(&source, path) },
        Err(error @ (ModelError::Arch { .. } | ModelError::Context { .. } | ModelError::KvHead { .. })) => {
            match facts(path) {
                Ok(facts) => Examined { facts: Some(facts), verdict: Verdict::unsupported(&error, path) },
                Err(error) => Examined { facts: None, verdict: Verdict::unreadable(&error, path) },
            }
        }
    }
}

/// What a file's header says, for architectures that cannot be run as well.
///
/// # Errors
/// A file that is no readable GGUF file, in one line that names it.
pub fn facts(path: &Path) -> Result<ModelFacts, GgufError> {
    Ok(ModelFacts::from_gguf(&Gguf::open(path)?))
}

/// A file's own words, fit for one line: without control characters and not long.
fn one_line(text: &str) -> String {
    const MAX_CHARS: usize = 300;
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).take(MAX_CHARS).collect()
}

#[cfg(test)]
mod tests;
