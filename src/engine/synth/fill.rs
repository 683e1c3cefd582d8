//! The data of a tensor, made from nothing but its description, a seed and the position in it.

use super::blocks::{self, Stream};
use super::{RopeScaling, SynthError};
use crate::devices::quant::DType;
use crate::engine::gguf::Shape;
use half::f16;
use half::slice::HalfFloatSliceExt;

/// A tensor of a made model.
#[derive(Clone, PartialEq, Debug)]
pub struct SynthTensor {
    pub name: String,
    pub shape: Shape,
    pub dtype: DType,
    pub fill: Fill,
}

impl SynthTensor {
    /// Blocks of its type in all its data.
    pub fn n_blocks(&self) -> u64 {
        self.shape.n_elements() / self.dtype.block_len() as u64
    }

    pub fn n_bytes(&self) -> u64 {
        self.n_blocks() * self.dtype.block_bytes() as u64
    }
}

/// What a tensor is filled with.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Fill {
    /// Mean 0, standard deviation `1/sqrt(n_in)`.
    Weight,
    /// Mean 1, standard deviation 0.1.
    Norm,
    /// Mean 0, standard deviation 0.1.
    Bias,
    /// The divisors that Llama 3 applies to the frequencies of its rotation: computed, not random.
    RopeFreqs { scaling: RopeScaling, freq_base: f32 },
}

/// Makes the blocks of a tensor from `first_block` on: as many as `out` holds.
///
/// # Errors
/// A type that is not supported (see [`DType::is_supported`]), or an `out` that does not hold whole blocks.
pub fn fill_tensor(tensor: &SynthTensor, seed: u64, first_block: u64, out: &mut [u8]) -> Result<(), SynthError> {
    let dtype = tensor.dtype;
    if !out.len().is_multiple_of(dtype.block_bytes()) {
        return Err(SynthError::PartialBlock { dtype, n_bytes: out.len() });
    }
    let stream = Stream::new(seed, &tensor.name);
    let (mean, std) = match tensor.fill {
        Fill::Weight => (0.0, 1.0 / (tensor.shape.dim(0) as f32).sqrt()),
        Fill::Norm => (1.0, 0.1),
        Fill::Bias => (0.0, 0.1),
        Fill::RopeFreqs { scaling, freq_base } => {
            let n_freqs = tensor.shape.dim(0);
            return floats(dtype, first_block, out, |first, elements| {
                (first..).zip(elements).for_each(|(i, x)| *x = rope_divisor(&scaling, freq_base, i, n_freqs));
            });
        }
    };
    match dtype {
        DType::F32 | DType::F16 | DType::BF16 => floats(dtype, first_block, out, |first, elements| {
            stream.bells(first, elements);
            elements.iter_mut().for_each(|x| *x = mean + std * *x);
        }),
        // Norms and biases are never quantised, so the mean is 0 here.
        _ => blocks::fill(dtype, stream, std, first_block, out),
    }
}

/// Elements from `first` on, made by `make` as f32 a few at a time.
fn floats(dtype: DType, first: u64, out: &mut [u8], make: impl Fn(u64, &mut [f32])) -> Result<(), SynthError> {
    const N_AT_ONCE: usize = 256;
    fn each<const N: usize>(
        mut first: u64,
        out: &mut [u8],
        make: impl Fn(u64, &mut [f32]),
        convert: impl Fn(&[f32], &mut [[u8; N]]),
    ) {
        let mut elements = [0.0; N_AT_ONCE];
        for out in out.as_chunks_mut().0.chunks_mut(N_AT_ONCE) {
            let elements = &mut elements[..out.len()];
            make(first, elements);
            convert(elements, out);
            first += elements.len() as u64;
        }
    }
    match dtype {
        DType::F32 => {
            each(first, out, make, |from, to| to.iter_mut().zip(from).for_each(|(to, x)| *to = x.to_le_bytes()))
        }
        DType::F16 => each(first, out, make, |from, to| {
            // As a slice: then the processor's own conversion is used where it has one.
            let mut halves = [f16::ZERO; N_AT_ONCE];
            halves[..from.len()].convert_from_f32_slice(from);
            to.iter_mut().zip(halves).for_each(|(to, x)| *to = x.to_le_bytes());
        }),
        DType::BF16 => each(first, out, make, |from, to| {
            to.iter_mut().zip(from).for_each(|(to, &x)| *to = bf16_bits(x).to_le_bytes())
        }),
        _ => return Err(SynthError::Unsupported(dtype)),
    }
    Ok(())
}

/// A finite number rounded to the nearest bf16, without the branch for NaN that keeps `half` from being vectorised.
fn bf16_bits(x: f32) -> u16 {
    let bits = x.to_bits();
    ((bits + 0x7fff + (bits >> 16 & 1)) >> 16) as u16
}

/// By what frequency `i` of `n_freqs` is divided: 1 for fast ones, `factor` for slow ones, smooth between.
/// Source: `rope_scaling` of type `llama3` in Hugging Face transformers.
fn rope_divisor(scaling: &RopeScaling, freq_base: f32, i: u64, n_freqs: u64) -> f32 {
    let freq = freq_base.powf(-(i as f32) / n_freqs as f32);
    let wavelength = 2.0 * std::f32::consts::PI / freq;
    // How many of its waves fit in the context that the model was first trained with.
    let n_waves = scaling.n_ctx_orig / wavelength;
    if n_waves > scaling.high_freq_factor {
        1.0
    } else if n_waves < scaling.low_freq_factor {
        scaling.factor
    } else {
        let range = scaling.high_freq_factor - scaling.low_freq_factor;
        let smooth = (n_waves - scaling.low_freq_factor) / range;
        1.0 / ((1.0 - smooth) / scaling.factor + smooth)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bf16_is_rounded_as_by_half() {
        for i in -3000..3000 {
            let x = i as f32 * 0.000_437_1;
            assert_eq!(bf16_bits(x), half::bf16::from_f32(x).to_bits(), "{x}");
        }
    }

    #[test]
    fn rope_divisors_run_from_one_to_the_factor() {
        let scaling = RopeScaling { factor: 32.0, low_freq_factor: 1.0, high_freq_factor: 4.0, n_ctx_orig: 8192.0 };
        let divisors: Vec<f32> = (0..32).map(|i| rope_divisor(&scaling, 500_000.0, i, 32)).collect();
        assert!(divisors.is_sorted());
        assert_eq!((divisors[0], divisors[31]), (1.0, 32.0));
        assert!(divisors.iter().filter(|&&d| d > 1.0 && d < 32.0).count() >= 2, "{divisors:?}");
    }
}
