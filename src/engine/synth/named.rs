//! A made model by its name alone, without a file: `synth:llama-3-8b@Q4_K_M`.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::{SynthError, SynthQuant, SynthShape, SynthTensor, fill_tensor, metadata, tensors};
use crate::engine::gguf::{Gguf, GgufBuilder};

/// What such a name begins with.
pub const PREFIX: &str = "synth:";

/// The text of a path that names a made model.
pub fn synth_name(path: &Path) -> Option<&str> {
    path.to_str().filter(|text| text.starts_with(PREFIX))
}

/// `synth:SHAPE@QUANT`, with `#SEED` behind it or not (0).
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SynthName {
    pub shape: &'static SynthShape,
    pub quant: SynthQuant,
    pub seed: u64,
}

impl SynthName {
    pub fn parse(text: &str) -> Result<SynthName, SynthError> {
        let form = || SynthError::Form { text: text.to_owned() };
        let rest = text.strip_prefix(PREFIX).ok_or_else(form)?;
        let (rest, seed) = match rest.split_once('#') {
            Some((rest, seed)) => (rest, seed.parse().map_err(|_| form())?),
            None => (rest, 0),
        };
        let (shape, quant) = rest.split_once('@').ok_or_else(form)?;
        Ok(SynthName { shape: SynthShape::from_name(shape)?, quant: SynthQuant::from_name(quant)?, seed })
    }

    /// What the model's file would say, and what its tensors would hold.
    pub fn open(self, path: PathBuf) -> Result<(Gguf, MadeWeights), SynthError> {
        let tensors = tensors(self.shape, self.quant);
        let mut builder = GgufBuilder::new();
        for (key, value) in metadata(self.shape, self.quant) {
            builder.set(&key, value);
        }
        for tensor in &tensors {
            builder.tensor(&tensor.name, tensor.shape.dims(), tensor.dtype).map_err(SynthError::Gguf)?;
        }
        let data_bytes = builder.data_bytes();
        let mut header = Vec::new();
        builder.start(&mut header).map_err(SynthError::Gguf)?;
        let gguf = Gguf::without_data(path, &header, data_bytes).map_err(SynthError::Gguf)?;
        let by_name = tensors.into_iter().map(|tensor| (tensor.name.clone(), tensor)).collect();
        Ok((gguf, MadeWeights { by_name, seed: self.seed }))
    }
}

/// Tensors that are made when they are asked for.
pub struct MadeWeights {
    by_name: HashMap<String, SynthTensor>,
    seed: u64,
}

impl MadeWeights {
    /// All data of a tensor; `None`: there is no such tensor, or its type cannot be made.
    pub fn data(&self, name: &str) -> Option<Vec<u8>> {
        let tensor = self.by_name.get(name)?;
        let mut data = vec![0; tensor.n_bytes() as usize];
        fill_tensor(tensor, self.seed, 0, &mut data).ok()?;
        Some(data)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ops::ControlFlow;

    #[test]
    fn names_are_read() {
        let name = SynthName::parse("synth:llama-3-1b@q4_k_m#7").unwrap();
        assert_eq!((name.shape.name, name.quant.name(), name.seed), ("llama-3-1b", "Q4_K_M", 7));
        for text in ["synth:", "synth:llama-3-1b", "llama-3-1b@Q4_K_M", "synth:llama-3-1b@Q4_K_M#x", "synth:@"] {
            assert!(SynthName::parse(text).is_err(), "{text}");
        }
        let unknown = SynthName::parse("synth:llama-99b@Q4_K_M").unwrap_err().to_string();
        assert!(unknown.contains("llama-3-8b"), "{unknown}");
    }

    /// The same as the file of that shape, without it.
    #[test]
    fn a_named_model_is_the_written_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.gguf");
        let name = SynthName::parse("synth:smollm2-135m@Q4_0#3").unwrap();
        super::super::write(name.shape, name.quant, 3, &path, &mut |_, _| ControlFlow::Continue(())).unwrap();
        let written = Gguf::open(&path).unwrap();
        let (gguf, weights) = name.open("synth:smollm2-135m@Q4_0#3".into()).unwrap();
        assert_eq!(gguf.file_bytes(), written.file_bytes());
        assert_eq!(gguf.tensors(), written.tensors());
        for tensor in written.tensors().iter().filter(|t| t.name.contains("blk.0") || t.name.contains("norm")) {
            assert!(weights.data(&tensor.name).unwrap() == written.data(tensor), "{}", tensor.name);
        }
        assert!(weights.data("none.weight").is_none());
    }
}
