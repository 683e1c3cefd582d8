//! An opened model: its file, programs, tokenizer and template. Nothing of it lies on a device yet.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::devices::op::SlotRows;
use crate::devices::{Device, DeviceId, KvSpec, Program, ProgramShape, WeightSpec};
use crate::engine::arch::{ArchError, ModelPrograms};
use crate::engine::exec::{BATCH_ROWS, OUTPUT_ROWS};
use crate::engine::gguf::{Gguf, GgufError};
use crate::engine::kv::{KvType, kv_spec};
use crate::engine::part::Part;
use crate::engine::placement::{PartNeed, Placement};
use crate::engine::synth::{MadeWeights, SynthError, SynthName, synth_name};

#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    #[error("{}: {source}", path.display())]
    Gguf { path: PathBuf, source: GgufError },
    #[error(transparent)]
    Synth(#[from] SynthError),
    #[error("{}: {source}", path.display())]
    Arch { path: PathBuf, source: ArchError },
    #[error("a context of {n_ctx} tokens is not possible: give 1 to {max}")]
    Context { n_ctx: u32, max: u32 },
    #[error("a {kv} KV cache needs heads that are a multiple of 32 wide, this model's are {head_dim} wide: use f16")]
    KvHead { kv: KvType, head_dim: u32 },
}

/// Longest context that can be asked for: positions are 32-bit.
const MAX_CTX: u32 = 1 << 26;

/// Where a model's weights come from.
enum Weights {
    File,
    Made(MadeWeights),
}

/// The header of a model: of its file, or of a made model (`synth:SHAPE@QUANT`).
pub fn open_gguf(path: &Path) -> Result<Gguf, ModelError> {
    Ok(open(path)?.0)
}

fn open(path: &Path) -> Result<(Gguf, Weights), ModelError> {
    if let Some(name) = synth_name(path) {
        let (gguf, made) = SynthName::parse(name)?.open(path.to_owned())?;
        return Ok((gguf, Weights::Made(made)));
    }
    let gguf = Gguf::open(path).map_err(|source| ModelError::Gguf { path: path.to_owned(), source })?;
    Ok((gguf, Weights::File))
}

/// A model's file and programs, with the sizes that were chosen for this run.
pub struct Model {
    pub path: PathBuf,
    pub gguf: Gguf,
    weights: Weights,
    pub programs: ModelPrograms,
    /// The programs again, each to be shared with workers. By [`Part::index`].
    pub shared_programs: Vec<Arc<Program>>,
    pub n_ctx: u32,
    pub kv: KvType,
}

impl Model {
    /// Opens the file and reads its header; no weight is touched. `n_ctx`: `None` takes the model's own, at most
    /// `default_ctx`.
    pub fn open(path: &Path, n_ctx: Option<u32>, default_ctx: u32, kv: KvType) -> Result<Model, ModelError> {
        let (gguf, weights) = open(path)?;
        let programs =
            ModelPrograms::from_gguf(&gguf).map_err(|source| ModelError::Arch { path: path.to_owned(), source })?;
        let n_ctx = n_ctx.unwrap_or(programs.spec.n_ctx_train.min(default_ctx));
        if n_ctx == 0 || n_ctx > MAX_CTX {
            return Err(ModelError::Context { n_ctx, max: MAX_CTX });
        }
        for head_dim in [programs.spec.head_dim_k, programs.spec.head_dim_v] {
            if !kv.fits_head(head_dim) {
                return Err(ModelError::KvHead { kv, head_dim });
            }
        }
        let shared_programs = programs.programs.iter().cloned().map(Arc::new).collect();
        Ok(Model { path: path.to_owned(), gguf, weights, programs, shared_programs, n_ctx, kv })
    }

    pub fn n_layer(&self) -> u32 {
        self.programs.n_layer()
    }

    pub fn parts(&self) -> impl Iterator<Item = Part> + use<> {
        Part::all(self.n_layer())
    }

    pub fn is_moe(&self) -> bool {
        self.programs.spec.experts.is_some()
    }

    pub fn n_params(&self) -> u64 {
        self.gguf.tensors().iter().map(|t| t.shape.n_elements()).sum()
    }

    /// `general.name`, else the file's name; without control characters, which a file can hold.
    pub fn name(&self) -> String {
        let named = self.gguf.metadata().opt_str("general.name").ok().flatten().map(str::to_owned);
        let name = named.unwrap_or_else(|| self.path.file_stem().unwrap_or_default().to_string_lossy().into_owned());
        name.chars().filter(|c| !c.is_control()).collect()
    }

    /// A weight's bytes in the file's layout: in the mapped file, or made now.
    pub fn weight_data(&self, weight: &WeightSpec) -> Result<Cow<'_, [u8]>, ArchError> {
        let data = match &self.weights {
            Weights::File => self.gguf.tensor(&weight.name).map(|tensor| Cow::Borrowed(self.gguf.data(tensor))),
            Weights::Made(made) => made.data(&weight.name).map(Cow::Owned),
        };
        data.ok_or_else(|| ArchError::MissingTensor { name: weight.name.clone() })
    }

    /// Memory that a part takes on a device. Pure.
    pub fn part_need(&self, part: Part, device: &dyn Device) -> PartNeed {
        let weights = &self.programs.program(part).weights;
        let weight_bytes = weights.iter().map(|w| device.weight_bytes(w)).sum();
        let kv_bytes = self.part_kv(part).map_or(0, |kv| kv.k_bytes() + kv.v_bytes());
        PartNeed { weight_bytes, kv_bytes }
    }

    /// Bytes that the embedding table and a tied head share where they lie on one device. Pure.
    pub fn tied_bytes(&self, device: &dyn Device) -> u64 {
        let (embed, head) = (self.programs.program(Part::Embed), self.programs.program(Part::Head));
        let shared = embed.weights.iter().filter(|w| head.weights.contains(w));
        shared.map(|w| device.weight_bytes(w)).sum()
    }

    /// Where each slot of the table lies in a device's scratch memory that serves `parts`, and its size in bytes.
    pub fn slot_layout(&self, parts: &[Part]) -> (Vec<Option<u64>>, u64) {
        let mut used: Vec<_> = parts.iter().flat_map(|p| self.programs.program(*p).slots()).collect();
        used.sort();
        used.dedup();
        let mut offsets = vec![None; self.programs.slots.len()];
        let mut end = 0;
        for slot in used {
            let index = usize::from(slot.0);
            let spec = &self.programs.slots[index];
            let rows = match spec.rows {
                SlotRows::Batch => BATCH_ROWS,
                SlotRows::Outputs => OUTPUT_ROWS,
            };
            offsets[index] = Some(end);
            end += (4 * u64::from(spec.width) * rows as u64).next_multiple_of(SLOT_ALIGN_BYTES);
        }
        (offsets, end)
    }

    /// Activation and working memory of a device that serves `parts`. Pure.
    pub fn scratch_bytes(&self, device: &dyn Device, parts: &[Part]) -> u64 {
        if parts.is_empty() {
            return 0;
        }
        self.slot_layout(parts).1 + device.work_bytes(&self.program_shapes(parts), BATCH_ROWS)
    }

    /// The parts' programs with the caches that they will have.
    pub fn program_shapes(&self, parts: &[Part]) -> Vec<ProgramShape<'_>> {
        let shape = |part: &Part| ProgramShape { program: self.programs.program(*part), kv: self.part_kv(*part) };
        parts.iter().map(shape).collect()
    }

    /// Shape of a part's KV cache, if it has one.
    pub fn part_kv(&self, part: Part) -> Option<KvSpec> {
        match part {
            Part::Attn(layer) => Some(kv_spec(&self.programs.spec, layer, self.kv, self.n_ctx)),
            Part::Embed | Part::Ffn(_) | Part::Head => None,
        }
    }
}

/// Slots start where the widest vector registers like it.
const SLOT_ALIGN_BYTES: u64 = 64;

/// The devices that a model can be placed on, in the order they are listed.
#[derive(Clone)]
pub struct Devices(pub Vec<Arc<dyn Device>>);

impl Devices {
    pub fn get(&self, id: DeviceId) -> Option<&Arc<dyn Device>> {
        self.0.iter().find(|d| d.facts().id == id)
    }

    /// Those that have not been lost.
    pub fn usable(&self) -> Devices {
        Devices(self.0.iter().filter(|d| !d.is_lost()).cloned().collect())
    }

    /// Frees what is left on devices that hold no part.
    pub fn trim_unused(&self, placement: &Placement) {
        let used = placement.devices();
        self.0.iter().filter(|d| !used.contains(&d.facts().id)).for_each(|d| d.trim());
    }

    pub fn ids(&self) -> Vec<DeviceId> {
        self.0.iter().map(|d| d.facts().id).collect()
    }
}
