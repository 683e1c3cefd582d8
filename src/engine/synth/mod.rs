//! Models of real shapes with random weights: to measure a placement before downloading what would be placed, and to
//! test. The files follow what llama.cpp's converter writes for each architecture, so that it loads them too.
//!
//! Weights have a mean of zero and a standard deviation of `1/sqrt(n_in)`: activations keep their size from layer to
//! layer. They are made block by block from (seed, tensor name, block number) alone, so any part of any tensor can be
//! made at any time, straight into a device too, and the same seed gives the same weights on every machine.

mod blocks;
mod fill;
mod metadata;
mod named;
mod quant;
mod shapes;
mod tensors;
mod vocab;

pub use fill::{Fill, SynthTensor, fill_tensor};
pub use metadata::metadata;
pub use named::{MadeWeights, PREFIX, SynthName, synth_name};
pub use quant::{Mix, SynthQuant};
pub use shapes::{Experts, RopeScaling, SynthArch, SynthShape, shapes};
pub use tensors::tensors;

use crate::devices::quant::DType;
use crate::engine::gguf::{GgufBuilder, GgufError, GgufErrorKind};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

/// Why no model was made.
#[derive(Debug, thiserror::Error)]
pub enum SynthError {
    #[error("no model shape is named {name:?}; known are {}", known_shapes())]
    UnknownShape { name: String },
    #[error("no quantisation is named {name:?}; known are {}", SynthQuant::names().join(", "))]
    UnknownQuant { name: String },
    #[error("'{text}' is not of the form synth:SHAPE@QUANT, such as synth:llama-3-8b@Q4_K_M (#SEED may follow)")]
    Form { text: String },
    #[error("random weights cannot be made as {0}")]
    Unsupported(DType),
    #[error("{n_bytes} bytes are no whole number of {dtype} blocks of {} bytes", .dtype.block_bytes())]
    PartialBlock { dtype: DType, n_bytes: usize },
    #[error("{}: {source}", path.display())]
    Write { path: PathBuf, source: std::io::Error },
    #[error(transparent)]
    Gguf(GgufError),
    #[error("stopped; nothing was written")]
    Stopped,
}

fn known_shapes() -> String {
    shapes().iter().map(|shape| shape.name).collect::<Vec<_>>().join(", ")
}

/// What was written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SynthReport {
    pub file_bytes: u64,
    pub n_params: u64,
    pub n_tensors: usize,
}

/// How much is made and written at a time.
const CHUNK_BYTES: usize = 4 << 20;

/// Writes a model file of random weights. `progress` is called with the bytes written so far and those of the whole
/// file, often; when it breaks, the work stops. Under its own name the file appears complete or not at all.
///
/// # Errors
/// A path that cannot be written to, a full disk, or [`SynthError::Stopped`]; nothing is left behind.
pub fn write(
    shape: &SynthShape,
    quant: SynthQuant,
    seed: u64,
    out: &Path,
    progress: &mut dyn FnMut(u64, u64) -> ControlFlow<()>,
) -> Result<SynthReport, SynthError> {
    let mut part = out.as_os_str().to_os_string();
    part.push(".part");
    let part = PathBuf::from(part);
    let failed = |source| SynthError::Write { path: part.clone(), source };
    let file = File::create(&part).map_err(failed)?;
    let written = stream(shape, quant, seed, BufWriter::new(file), progress)
        .map_err(|error| match error {
            SynthError::Gguf(error) => match *error.kind {
                GgufErrorKind::Write(source) => failed(source),
                _ => SynthError::Gguf(error),
            },
            error => error,
        })
        .and_then(|report| {
            std::fs::rename(&part, out).map_err(|source| SynthError::Write { path: out.to_path_buf(), source })?;
            Ok(report)
        });
    if written.is_err() {
        // The first error is the one to tell; a part that cannot be removed is named `.part` for all to see.
        let _ = std::fs::remove_file(&part);
    }
    written
}

/// Writes a model to any output; see [`write`].
///
/// # Errors
/// A failure of `out` or [`SynthError::Stopped`].
pub fn stream(
    shape: &SynthShape,
    quant: SynthQuant,
    seed: u64,
    out: impl Write,
    progress: &mut dyn FnMut(u64, u64) -> ControlFlow<()>,
) -> Result<SynthReport, SynthError> {
    let tensors = tensors(shape, quant);
    let mut builder = GgufBuilder::new();
    for (key, value) in metadata(shape, quant) {
        builder.set(&key, value);
    }
    for tensor in &tensors {
        builder.tensor(&tensor.name, tensor.shape.dims(), tensor.dtype).map_err(SynthError::Gguf)?;
    }
    let data_bytes = builder.data_bytes();
    let mut writer = builder.start(out).map_err(SynthError::Gguf)?;
    let total_bytes = writer.written_bytes() + data_bytes;
    let mut chunk = vec![0; CHUNK_BYTES];
    for tensor in &tensors {
        let chunk_blocks = CHUNK_BYTES / tensor.dtype.block_bytes();
        let n_blocks = tensor.n_blocks();
        let mut first_block = 0;
        while first_block < n_blocks {
            let n = (n_blocks - first_block).min(chunk_blocks as u64);
            let piece = &mut chunk[..n as usize * tensor.dtype.block_bytes()];
            fill_tensor(tensor, seed, first_block, piece)?;
            writer.write(piece).map_err(SynthError::Gguf)?;
            first_block += n;
            if progress(writer.written_bytes(), total_bytes).is_break() {
                return Err(SynthError::Stopped);
            }
        }
    }
    let file_bytes = writer.written_bytes();
    writer.finish().map_err(SynthError::Gguf)?;
    let n_params = tensors.iter().map(|tensor| tensor.shape.n_elements()).sum();
    Ok(SynthReport { file_bytes, n_params, n_tensors: tensors.len() })
}

#[cfg(test)]
mod tests;
