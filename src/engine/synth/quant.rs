//! Which type each weight gets.

use super::{SynthError, SynthShape};
use crate::devices::quant::DType;

/// A quantisation of a model.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SynthQuant {
    /// Every matrix in one type, where its rows fill whole blocks.
    Pure(DType),
    /// Better types where they help most.
    Mix(Mix),
}

/// The mixtures of llama.cpp's `llama-quantize`, by the same rules.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(non_camel_case_types)]
pub enum Mix {
    Q4_K_S,
    Q4_K_M,
    Q5_K_M,
    Q6_K,
}

impl Mix {
    const ALL: [Mix; 4] = [Mix::Q4_K_S, Mix::Q4_K_M, Mix::Q5_K_M, Mix::Q6_K];

    fn name(self) -> &'static str {
        match self {
            Mix::Q4_K_S => "Q4_K_S",
            Mix::Q4_K_M => "Q4_K_M",
            Mix::Q5_K_M => "Q5_K_M",
            Mix::Q6_K => "Q6_K",
        }
    }

    fn base(self) -> DType {
        match self {
            Mix::Q4_K_S | Mix::Q4_K_M => DType::Q4_K,
            Mix::Q5_K_M => DType::Q5_K,
            Mix::Q6_K => DType::Q6_K,
        }
    }
}

/// What a matrix is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Role {
    TokenEmbd,
    Output,
    AttnQ,
    AttnK,
    AttnV,
    AttnOutput,
    FfnGate,
    FfnUp,
    FfnDown,
}

impl SynthQuant {
    /// By name, whatever the case of its letters: a mixture, or a type for every matrix.
    ///
    /// # Errors
    /// A name that is not known; the message lists those that are.
    pub fn from_name(name: &str) -> Result<SynthQuant, SynthError> {
        if let Some(mix) = Mix::ALL.into_iter().find(|mix| mix.name().eq_ignore_ascii_case(name)) {
            return Ok(SynthQuant::Mix(mix));
        }
        match DType::from_name(name).filter(|dtype| dtype.is_supported()) {
            Some(dtype) => Ok(SynthQuant::Pure(dtype)),
            None => Err(SynthError::UnknownQuant { name: name.to_string() }),
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            SynthQuant::Pure(dtype) => dtype.name(),
            SynthQuant::Mix(mix) => mix.name(),
        }
    }

    /// All names.
    pub fn names() -> Vec<&'static str> {
        let pure = DType::ALL.iter().filter(|dtype| dtype.is_supported() && **dtype != DType::Q6_K);
        pure.map(|dtype| dtype.name()).chain(Mix::ALL.map(Mix::name)).collect()
    }

    /// The value of `general.file_type`: llama.cpp's number for the nearest of its own mixtures.
    pub(super) fn file_type(self) -> u32 {
        match self {
            SynthQuant::Mix(Mix::Q4_K_S) | SynthQuant::Pure(DType::Q4_K) => 14,
            SynthQuant::Mix(Mix::Q4_K_M) => 15,
            SynthQuant::Mix(Mix::Q5_K_M) => 17,
            SynthQuant::Mix(Mix::Q6_K) | SynthQuant::Pure(DType::Q6_K) => 18,
            SynthQuant::Pure(DType::F32) => 0,
            SynthQuant::Pure(DType::F16) => 1,
            SynthQuant::Pure(DType::Q4_0) => 2,
            SynthQuant::Pure(DType::Q4_1) => 3,
            SynthQuant::Pure(DType::Q8_0) => 7,
            SynthQuant::Pure(DType::Q5_0) => 8,
            SynthQuant::Pure(DType::Q5_1) => 9,
            SynthQuant::Pure(DType::Q2_K) => 10,
            SynthQuant::Pure(DType::Q3_K) => 11,
            SynthQuant::Pure(DType::Q5_K) => 16,
            SynthQuant::Pure(DType::BF16) => 32,
            // Guessed: unsupported types are not made.
            SynthQuant::Pure(_) => 1024,
        }
    }

    /// The type of a matrix whose rows have `n_in` elements, in layer `layer` where it is in one.
    pub(super) fn dtype(self, shape: &SynthShape, role: Role, layer: u64, n_in: u64) -> DType {
        let wanted = match self {
            SynthQuant::Pure(dtype) => dtype,
            SynthQuant::Mix(mix) => mixed(mix, shape, role, layer),
        };
        fitting(wanted, n_in)
    }
}

fn mixed(mix: Mix, shape: &SynthShape, role: Role, layer: u64) -> DType {
    let n_layer = shape.n_layer;
    // With eight experts attention is a small part of the model, so that it is kept better.
    let eight_experts = shape.experts.is_some_and(|experts| experts.n_expert == 8);
    match role {
        Role::Output => DType::Q6_K,
        Role::TokenEmbd if shape.tied_head => DType::Q6_K,
        Role::AttnV | Role::AttnK if eight_experts => DType::Q8_0,
        Role::AttnV => match mix {
            Mix::Q4_K_M | Mix::Q5_K_M if more_bits(layer, n_layer) => DType::Q6_K,
            // The 70B models share each V head between eight query heads: little to store, much to lose.
            Mix::Q4_K_M if n_layer == 80 => DType::Q5_K,
            Mix::Q4_K_S if layer < 4 || n_layer == 80 => DType::Q5_K,
            Mix::Q4_K_S | Mix::Q4_K_M | Mix::Q5_K_M | Mix::Q6_K => mix.base(),
        },
        Role::FfnDown => match mix {
            Mix::Q4_K_M | Mix::Q5_K_M if more_bits(layer, n_layer) => DType::Q6_K,
            Mix::Q4_K_S if layer < n_layer / 8 => DType::Q5_K,
            Mix::Q4_K_S | Mix::Q4_K_M | Mix::Q5_K_M | Mix::Q6_K => mix.base(),
        },
        Role::AttnOutput if eight_experts && mix.base() == DType::Q4_K => DType::Q5_K,
        Role::TokenEmbd | Role::AttnQ | Role::AttnK | Role::AttnOutput | Role::FfnGate | Role::FfnUp => mix.base(),
    }
}

/// The first and the last eighth of the layers, and every third between.
fn more_bits(layer: u64, n_layer: u64) -> bool {
    layer < n_layer / 8 || layer >= 7 * n_layer / 8 || (layer - n_layer / 8) % 3 == 2
}

/// The type nearest to `wanted` whose blocks fill rows of `n_in` elements.
fn fitting(wanted: DType, n_in: u64) -> DType {
    let fits = |dtype: DType| n_in.is_multiple_of(dtype.block_len() as u64);
    let near = match wanted {
        dtype if fits(dtype) => dtype,
        DType::Q2_K | DType::Q3_K => DType::Q4_0,
        DType::Q4_K => DType::Q5_0,
        DType::Q5_K => DType::Q5_1,
        DType::Q6_K => DType::Q8_0,
        _ => DType::F16,
    };
    if fits(near) { near } else { DType::F16 }
}
