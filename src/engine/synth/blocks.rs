//! Random blocks of each quantised format: random bytes, with the scales set so that the weights have a mean of zero
//! and the standard deviation asked for. Nothing is quantised, so it is as fast as the random bytes are made.

use super::SynthError;
use crate::devices::quant::DType;
use half::f16;

/// Random words by position: SplitMix64, which is a counter put through a mixing function.
/// Source: Steele, Lea, Flood, "Fast splittable pseudorandom number generators" (2014).
#[derive(Clone, Copy)]
pub(super) struct Stream {
    key: u64,
}

impl Stream {
    /// The stream of a tensor: another one for each seed and name.
    pub(super) fn new(seed: u64, name: &str) -> Stream {
        // FNV-1a, then mixed with the seed.
        let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3));
        Stream { key: mix(hash ^ mix(seed)) }
    }

    #[inline]
    fn word(self, i: u64) -> u64 {
        mix(self.key.wrapping_add(i.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
    }

    /// Numbers with mean 0 and standard deviation 1, within 2.45, from number `first` on: each the sum of two uniform
    /// ones, and two from each word.
    pub(super) fn bells(self, first: u64, out: &mut [f32]) {
        let (odd, out) = out.split_at_mut(out.len().min((first % 2) as usize));
        odd.iter_mut().for_each(|number| *number = bell((self.word(first / 2) >> 32) as u32));
        let mut i = first.div_ceil(2);
        let (pairs, last) = out.as_chunks_mut::<2>();
        for pair in pairs {
            let word = self.word(i);
            *pair = [bell(word as u32), bell((word >> 32) as u32)];
            i += 1;
        }
        last.iter_mut().for_each(|number| *number = bell(self.word(i) as u32));
    }

    fn bytes(self, first_word: u64, out: &mut [u8]) {
        let (words, rest) = out.as_chunks_mut::<8>();
        let mut i = first_word;
        for word in words {
            *word = self.word(i).to_le_bytes();
            i += 1;
        }
        rest.copy_from_slice(&self.word(i).to_le_bytes()[..rest.len()]);
    }
}

#[inline]
fn bell(bits: u32) -> f32 {
    let sum = (bits & 0xffff) as i32 + (bits >> 16) as i32 - 0xffff;
    // The variance of the sum is 2 (2^32 - 1) / 12.
    sum as f32 * (1.0 / 26_754.96)
}

#[inline]
fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// The scales that blocks choose from, as f16 bits: they differ, because those of real blocks do.
struct Scales {
    scale: [u16; Scales::N],
    /// `scale` times the mean of the format's numbers: what is subtracted to make the mean of the weights 0.
    min: [u16; Scales::N],
}

impl Scales {
    const N: usize = 16;

    /// For weights of standard deviation `std`, in a format whose numbers, uniformly random, have the root mean square
    /// `rms` where they are signed, or the mean `mean` and `rms` around it where they are not.
    fn new(std: f32, rms: f32, mean: f32) -> Scales {
        let mut scales = Scales { scale: [0; Scales::N], min: [0; Scales::N] };
        for i in 0..Scales::N {
            // 0.7 to 1.3, with a root mean square of 1.0169.
            let factor = (0.7 + 0.04 * i as f32) / 1.0169;
            let scale = f16::from_f32(std * factor / rms);
            scales.scale[i] = scale.to_bits();
            scales.min[i] = f16::from_f32(scale.to_f32() * mean).to_bits();
        }
        scales
    }

    fn scale(&self, pick: u64) -> [u8; 2] {
        self.scale[pick as usize % Scales::N].to_le_bytes()
    }

    /// With a random sign: numbers such as -8..=7 have a mean of -1/2, which must not become one of the weights.
    fn signed_scale(&self, pick: u64) -> [u8; 2] {
        let sign = (pick >> 4) as u16 & 1;
        (self.scale[pick as usize % Scales::N] ^ (sign << 15)).to_le_bytes()
    }

    fn min(&self, pick: u64) -> [u8; 2] {
        self.min[pick as usize % Scales::N].to_le_bytes()
    }

    fn negative_min(&self, pick: u64) -> [u8; 2] {
        (self.min[pick as usize % Scales::N] ^ 0x8000).to_le_bytes()
    }
}

/// Fills `out` with blocks, of which the first is block `first` of the tensor.
pub(super) fn fill(dtype: DType, stream: Stream, std: f32, first: u64, out: &mut [u8]) -> Result<(), SynthError> {
    // The root mean square of `n` whole numbers in a row, around their mean.
    let spread = |n: f32| ((n * n - 1.0) / 12.0).sqrt();
    // The same for -n/2..n/2, around 0.
    let signed = |n: f32| ((n * n - 1.0) / 12.0 + 0.25).sqrt();
    match dtype {
        DType::Q4_0 => {
            let scales = Scales::new(std, signed(16.0), 0.0);
            each::<18>(stream, first, out, |block, pick| put(block, 0, scales.signed_scale(pick)));
        }
        DType::Q4_1 => {
            let scales = Scales::new(std, spread(16.0), 7.5);
            each::<20>(stream, first, out, |block, pick| {
                put(block, 0, scales.scale(pick));
                put(block, 2, scales.negative_min(pick));
            });
        }
        DType::Q5_0 => {
            let scales = Scales::new(std, signed(32.0), 0.0);
            each::<22>(stream, first, out, |block, pick| put(block, 0, scales.signed_scale(pick)));
        }
        DType::Q5_1 => {
            let scales = Scales::new(std, spread(32.0), 15.5);
            each::<24>(stream, first, out, |block, pick| {
                put(block, 0, scales.scale(pick));
                put(block, 2, scales.negative_min(pick));
            });
        }
        DType::Q8_0 => {
            let scales = Scales::new(std, signed(256.0), 0.0);
            each::<34>(stream, first, out, |block, pick| {
                // A quantiser never makes -128, and code may rely on that.
                block[2..].iter_mut().for_each(|q| *q = (*q as i8).max(-127) as u8);
                put(block, 0, scales.signed_scale(pick));
            });
        }
        DType::Q2_K => {
            // Sub-block scales are 8..=15, and each is its minimum's too.
            let scales = Scales::new(std, rms_of(8, 15) * spread(4.0), 1.5);
            each::<84>(stream, first, out, |block, pick| {
                block[..16].iter_mut().for_each(|b| *b = ((*b & 7) | 8) * 0x11);
                put(block, 80, scales.scale(pick));
                put(block, 82, scales.min(pick));
            });
        }
        DType::Q3_K => {
            // Any bits are sub-block scales of -32..=31.
            let scales = Scales::new(std, signed(64.0) * signed(8.0), 0.0);
            each::<110>(stream, first, out, |block, pick| put(block, 108, scales.signed_scale(pick)));
        }
        DType::Q4_K => {
            let scales = Scales::new(std, rms_of(32, 63) * spread(16.0), 7.5);
            each::<144>(stream, first, out, |block, pick| set_k_scales(block, &scales, pick));
        }
        DType::Q5_K => {
            let scales = Scales::new(std, rms_of(32, 63) * spread(32.0), 15.5);
            each::<176>(stream, first, out, |block, pick| set_k_scales(block, &scales, pick));
        }
        DType::Q6_K => {
            // Sub-block scales are 64..=127 of either sign.
            let scales = Scales::new(std, rms_of(64, 127) * signed(64.0), 0.0);
            each::<210>(stream, first, out, |block, pick| {
                block[192..208].iter_mut().for_each(|b| {
                    let magnitude = (*b & 0x3f) | 0x40;
                    *b = if *b & 0x80 == 0 { magnitude } else { magnitude.wrapping_neg() };
                });
                put(block, 208, scales.signed_scale(pick));
            });
        }
        _ => return Err(SynthError::Unsupported(dtype)),
    }
    Ok(())
}

/// Fills each block with random bytes and has `set` put its scales right.
#[inline]
fn each<const N: usize>(stream: Stream, first: u64, out: &mut [u8], set: impl Fn(&mut [u8; N], u64)) {
    let words_per_block = N.div_ceil(8) as u64 + 1;
    let (blocks, _) = out.as_chunks_mut::<N>();
    for (i, block) in (first..).zip(blocks) {
        let first_word = i * words_per_block;
        stream.bytes(first_word, block);
        set(block, stream.word(first_word + words_per_block - 1));
    }
}

fn put<const N: usize>(block: &mut [u8; N], at: usize, bytes: [u8; 2]) {
    block[at..at + 2].copy_from_slice(&bytes);
}

/// The scales of Q4_K and Q5_K: two f16, then eight 6-bit scales and eight 6-bit minima in 12 bytes. Scales are
/// 32..=63, and each is its minimum's too.
fn set_k_scales<const N: usize>(block: &mut [u8; N], scales: &Scales, pick: u64) {
    put(block, 0, scales.scale(pick));
    put(block, 2, scales.min(pick));
    for j in 0..4 {
        let (low, high) = ((block[4 + j] & 31) | 32, (block[8 + j] & 31) | 32);
        // The low 6 bits hold scale and minimum `j`, the high 2 bits the top of `j + 4`.
        let packed = low | (high >> 4) << 6;
        block[4 + j] = packed;
        block[8 + j] = packed;
        block[12 + j] = (high & 15) * 0x11;
    }
}

/// The root mean square of the whole numbers from `low` to `high`.
fn rms_of(low: i32, high: i32) -> f32 {
    let sum: i32 = (low..=high).map(|n| n * n).sum();
    (sum as f32 / (high - low + 1) as f32).sqrt()
}
