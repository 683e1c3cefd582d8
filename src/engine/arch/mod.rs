//! Architectures: one file each, from metadata and tensors to a [`Spec`] and the programs of the parts.
//!
//! **Invariant**: nothing outside this folder compares architecture names.

pub mod blocks;
pub mod spec;

mod llama;
mod minimax_m2;
mod qwen2;
mod qwen3;
mod qwen3moe;

use std::collections::HashMap;

use crate::devices::quant::DType;
use crate::devices::{Program, Slot, SlotSpec};
use crate::engine::gguf::{Gguf, GgufError};
use crate::engine::part::Part;

use blocks::Builder;
pub use spec::{ExpertSpec, LayerSpec, RopeSpec, Spec};

/// One architecture.
pub struct Arch {
    /// `general.architecture`
    pub name: &'static str,
    /// Reads the metadata. Which tensors exist decides optional features.
    pub spec: fn(&Source<'_>) -> Result<Spec, ArchError>,
    /// Appends the ops of one layer's attention: from HIDDEN to HIDDEN.
    pub attn: fn(&Spec, u32, &mut Builder<'_>) -> Result<(), ArchError>,
    /// Appends the ops of one layer's feed-forward network: from HIDDEN to HIDDEN.
    pub ffn: fn(&Spec, u32, &mut Builder<'_>) -> Result<(), ArchError>,
}

/// Every architecture that is known.
pub const ARCHES: &[&Arch] = &[&llama::ARCH, &qwen2::ARCH, &qwen3::ARCH, &qwen3moe::ARCH, &minimax_m2::ARCH];

#[derive(Debug, thiserror::Error)]
pub enum ArchError {
    #[error("architecture '{name}' is not supported (known: {known})")]
    Unknown { name: String, known: String },
    #[error(transparent)]
    Gguf(#[from] GgufError),
    #[error("tensor '{name}' is missing")]
    MissingTensor { name: String },
    #[error("tensor '{name}' has shape [{found}], expected [{expected}]")]
    Shape { name: String, found: String, expected: String },
    #[error("tensor '{name}' has type {dtype}, which is not supported yet (supported: {supported})")]
    Type { name: String, dtype: DType, supported: String },
    #[error("metadata '{key}': {message}")]
    Metadata { key: String, message: String },
}

/// What a file says, with the architecture's key prefix.
pub struct Source<'a> {
    pub gguf: &'a Gguf,
    pub arch: &'static str,
}

impl Source<'_> {
    /// `<arch>.<suffix>`
    pub fn key(&self, suffix: &str) -> String {
        format!("{}.{suffix}", self.arch)
    }

    pub fn u32(&self, suffix: &str) -> Result<u32, ArchError> {
        Ok(self.gguf.metadata().u32(&self.key(suffix))?)
    }

    pub fn opt_u32(&self, suffix: &str) -> Result<Option<u32>, ArchError> {
        Ok(self.gguf.metadata().opt_u32(&self.key(suffix))?)
    }

    pub fn opt_f32(&self, suffix: &str) -> Result<Option<f32>, ArchError> {
        Ok(self.gguf.metadata().opt_f32(&self.key(suffix))?)
    }

    pub fn opt_bool(&self, suffix: &str) -> Result<Option<bool>, ArchError> {
        Ok(self.gguf.metadata().opt_bool(&self.key(suffix))?)
    }

    pub fn error(&self, suffix: &str, message: impl Into<String>) -> ArchError {
        ArchError::Metadata { key: self.key(suffix), message: message.into() }
    }
}

/// A model as data: what it is and the program of every part, in order. No weight is read.
#[derive(Debug)]
pub struct ModelPrograms {
    pub spec: Spec,
    pub slots: Vec<SlotSpec>,
    /// By [`Part::index`].
    pub programs: Vec<Program>,
    /// `live[i]`: the slots whose values are needed from before part `i` on; what hops when part `i` lies elsewhere.
    /// One more than there are parts; the last is what the model gives: its logits.
    pub live: Vec<Vec<Slot>>,
}

impl ModelPrograms {
    /// Reads what the file says and writes the programs.
    pub fn from_gguf(gguf: &Gguf) -> Result<ModelPrograms, ArchError> {
        let name = gguf.metadata().str("general.architecture")?;
        let Some(arch) = ARCHES.iter().find(|a| a.name == name) else {
            let known: Vec<_> = ARCHES.iter().map(|a| a.name).collect();
            return Err(ArchError::Unknown { name: name.to_owned(), known: known.join(", ") });
        };
        let spec = (arch.spec)(&Source { gguf, arch: arch.name })?;
        let slots = blocks::slot_table(&spec);
        let tensors: HashMap<&str, _> = gguf.tensors().iter().map(|t| (t.name.as_str(), t)).collect();
        let mut programs = Vec::with_capacity(Part::count(spec.n_layer()));
        for part in Part::all(spec.n_layer()) {
            let mut builder = Builder::new(part.to_string(), &tensors);
            match part {
                Part::Embed => blocks::embed(&spec, &mut builder)?,
                Part::Attn(layer) => (arch.attn)(&spec, layer, &mut builder)?,
                Part::Ffn(layer) => (arch.ffn)(&spec, layer, &mut builder)?,
                Part::Head => blocks::head(&spec, &mut builder)?,
            }
            programs.push(builder.finish());
        }
        let live = liveness(&programs);
        Ok(ModelPrograms { spec, slots, programs, live })
    }

    pub fn n_layer(&self) -> u32 {
        self.spec.n_layer()
    }

    pub fn program(&self, part: Part) -> &Program {
        &self.programs[part.index(self.n_layer())]
    }
}

fn liveness(programs: &[Program]) -> Vec<Vec<Slot>> {
    let mut live = vec![vec![blocks::LOGITS]];
    for program in programs.iter().rev() {
        let written: Vec<_> = program.ops.iter().flat_map(|op| op.writes()).collect();
        let mut before = program.live_in();
        let after = live.last().into_iter().flatten();
        before.extend(after.filter(|s| !written.contains(s)));
        before.sort();
        before.dedup();
        live.push(before);
    }
    live.reverse();
    live
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_of_every_architecture() {
        for name in ["llama", "llama3-ropefreqs", "llama-moe", "qwen2", "qwen3", "qwen3moe", "minimax-m2"] {
            let path = crate::engine::golden_dir().join(format!("models/{name}.gguf"));
            let model = ModelPrograms::from_gguf(&Gguf::open(&path).unwrap()).unwrap();
            let parts = [Part::Embed, Part::Attn(1), Part::Ffn(1), Part::Head];
            let text: String = parts.iter().map(|p| model.program(*p).display(&model.slots).to_string()).collect();
            insta::assert_snapshot!(format!("program_{name}"), text);
            let hop: Vec<_> = model.live[1..model.live.len() - 1].iter().flatten().collect();
            assert!(hop.iter().all(|s| **s == blocks::HIDDEN), "only the hidden state hops in {name}");
            assert!(model.live[0].is_empty());
        }
    }

    #[test]
    fn unknown_architecture_is_named_with_the_known_ones() {
        let path = crate::engine::golden_dir().join("models/starcoder2.gguf");
        let error = ModelPrograms::from_gguf(&Gguf::open(&path).unwrap()).unwrap_err().to_string();
        assert_eq!(
            error,
            "architecture 'starcoder2' is not supported (known: llama, qwen2, qwen3, qwen3moe, minimax-m2)"
        );
    }

    #[test]
    fn unsupported_tensor_type_is_named() {
        let path = crate::engine::golden_dir().join("quant/llama256-IQ4_XS.gguf");
        let error = ModelPrograms::from_gguf(&Gguf::open(&path).unwrap()).unwrap_err().to_string();
        assert!(error.contains("IQ4_XS") && error.contains("Q4_K") && error.contains("token_embd.weight"), "{error}");
    }
}
