//! The packed layout of each quantised format.
//!
//! 16 rows x one block of the file become: the rows' scales, then for each 32 values the codes as [`planes`] packs them.
//! Everything is as large as in the file. All formats mean `value = scale * (code - OFFSET) - minimum`.

use super::planes::{self, Codes};
use crate::devices::quant::{f16, q2_k, q3_k, q4_0, q4_1, q4_k, q5_0, q5_1, q5_k, q6_k};

/// Output rows that are computed together.
pub const ROWS: usize = 16;
/// Values of one row that share an activation scale.
pub const STEP: usize = 32;

/// Scales and minima of 16 rows x 32 values: of the first and the last 16 values.
/// Where a format has one for 32, both are the same.
#[derive(Clone, Copy)]
pub struct Scales {
    pub scale: [[f32; ROWS]; 2],
    pub minimum: [[f32; ROWS]; 2],
}

/// A quantised format, its layout in the file and the packed one.
pub trait Format {
    /// Values of one block of one row.
    const BLOCK_LEN: usize;
    /// Bytes of one block of one row, in the file as here.
    const BLOCK_BYTES: usize;
    /// Bits of a code.
    const BITS: usize;
    /// Subtracted from a code.
    const OFFSET: i32;
    /// Whether values have a minimum.
    const HAS_MINIMUM: bool;
    /// Whether each 16 values have their own scale.
    const HALVES: bool;

    /// Bytes of 16 rows x one block.
    const PACKED_BYTES: usize = ROWS * Self::BLOCK_BYTES;
    /// Groups of 32 values in one block.
    const STEPS: usize = Self::BLOCK_LEN / STEP;
    /// Bytes of packed codes of 16 rows x 32 values.
    const CODES_BYTES: usize = planes::packed_bytes(Self::BITS);
    /// Bytes of the scales in front of the codes.
    const HEADER_BYTES: usize = Self::PACKED_BYTES - Self::STEPS * Self::CODES_BYTES;

    /// Codes of one block of the file, `[BLOCK_LEN]`.
    fn codes(block: &[u8], out: &mut [u8]);

    /// Packs the scales of 16 rows, given one block of each.
    fn pack_scales(rows: &[&[u8]; ROWS], header: &mut [u8]);

    /// Scales of values `32 * step..32 * (step + 1)` of the block.
    fn scales(header: &[u8], step: usize) -> Scales;

    /// Packs one block of each of 16 rows.
    fn pack(rows: &[&[u8]; ROWS], packed: &mut [u8]) {
        let (header, mut rest) = packed[..Self::PACKED_BYTES].split_at_mut(Self::HEADER_BYTES);
        Self::pack_scales(rows, header);
        let mut codes = [[0; 256]; ROWS];
        rows.iter().zip(&mut codes).for_each(|(row, codes)| Self::codes(row, &mut codes[..Self::BLOCK_LEN]));
        for step in 0..Self::STEPS {
            let mut interleaved: Codes = [0; 512];
            for (r, codes) in codes.iter().enumerate() {
                let (words, _) = codes[STEP * step..STEP * (step + 1)].as_chunks::<4>();
                for (word, register) in words.iter().zip(interleaved.as_chunks_mut::<{ planes::REGISTER }>().0) {
                    register[4 * r..4 * (r + 1)].copy_from_slice(word);
                }
            }
            match Self::BITS {
                2 => planes::pack::<2>(&interleaved, rest),
                3 => planes::pack::<3>(&interleaved, rest),
                4 => planes::pack::<4>(&interleaved, rest),
                5 => planes::pack::<5>(&interleaved, rest),
                6 => planes::pack::<6>(&interleaved, rest),
                _ => planes::pack::<8>(&interleaved, rest),
            }
            rest = &mut rest[Self::CODES_BYTES..];
        }
    }

    /// Codes of values `32 * step..32 * (step + 1)` of a packed block.
    #[inline(always)]
    fn unpack(packed: &[u8], step: usize, codes: &mut Codes) {
        let packed = &packed[Self::HEADER_BYTES + step * Self::CODES_BYTES..];
        match Self::BITS {
            2 => planes::unpack::<2>(packed, codes),
            3 => planes::unpack::<3>(packed, codes),
            4 => planes::unpack::<4>(packed, codes),
            5 => planes::unpack::<5>(packed, codes),
            6 => planes::unpack::<6>(packed, codes),
            _ => planes::unpack::<8>(packed, codes),
        }
    }
}

// What kernels use is written with loops: closures given to `array::from_fn` are not compiled for the instruction set of
// the kernel.

/// 16 halves from `at`.
#[inline(always)]
fn halves(header: &[u8], at: usize) -> [f32; ROWS] {
    let (bytes, _) = header[at..at + 2 * ROWS].as_chunks::<2>();
    let mut out = [0.0; ROWS];
    for r in 0..ROWS {
        out[r] = f16::to_f32(u16::from_le_bytes(bytes[r]));
    }
    out
}

/// Copies the half at `from` of each row's block to `to`.
fn copy_halves(rows: &[&[u8]; ROWS], from: usize, header: &mut [u8], to: usize) {
    for (r, row) in rows.iter().enumerate() {
        header[to + 2 * r..to + 2 * r + 2].copy_from_slice(&row[from..from + 2]);
    }
}

/// 16 numbers of 6 bits of each of 16 rows in 192 bytes: byte `16 j + r` holds the low nibbles of row `r`'s numbers `2 j`
/// (low) and `2 j + 1` (high); byte `128 + 16 t + r` the upper 2 bits of its numbers `4 t + i` at bit `2 i`.
fn pack_six_bits(rows: &[[u8; 16]; ROWS], out: &mut [u8]) {
    for (r, row) in rows.iter().enumerate() {
        for j in 0..8 {
            out[16 * j + r] = row[2 * j] & 0xf | row[2 * j + 1] << 4;
        }
        for t in 0..4 {
            out[128 + 16 * t + r] = (0..4).map(|i| row[4 * t + i] >> 4 << (2 * i)).fold(0, |a, b| a | b);
        }
    }
}

/// Numbers `2 j` and `2 j + 1` of each of the 16 rows.
#[inline(always)]
fn six_bits(packed: &[u8], j: usize) -> [[u8; ROWS]; 2] {
    let (low, high) = (&packed[16 * j..16 * j + 16], &packed[128 + 16 * (j / 2)..128 + 16 * (j / 2) + 16]);
    let shift = 4 * (j % 2);
    let mut out = [[0; ROWS]; 2];
    for r in 0..ROWS {
        out[0][r] = low[r] & 0xf | (high[r] >> shift & 3) << 4;
        out[1][r] = low[r] >> 4 | (high[r] >> (shift + 2) & 3) << 4;
    }
    out
}

#[inline(always)]
fn times(d: &[f32; ROWS], by: &[u8; ROWS], offset: i32) -> [f32; ROWS] {
    let mut out = [0.0; ROWS];
    for r in 0..ROWS {
        out[r] = d[r] * (i32::from(by[r]) - offset) as f32;
    }
    out
}

const NONE: [[f32; ROWS]; 2] = [[0.0; ROWS]; 2];

/// A format of 32 values with one scale and maybe one minimum, which the file adds.
macro_rules! simple_format {
    ($name:ident, $bytes:literal, $bits:literal, $offset:expr, $has_minimum:literal, $codes:expr) => {
        pub struct $name;

        impl Format for $name {
            const BLOCK_LEN: usize = 32;
            const BLOCK_BYTES: usize = $bytes;
            const BITS: usize = $bits;
            const OFFSET: i32 = $offset;
            const HAS_MINIMUM: bool = $has_minimum;
            const HALVES: bool = false;

            fn codes(block: &[u8], out: &mut [u8]) {
                let codes: fn(&[u8; $bytes], &mut [u8; 32]) = $codes;
                if let (Some(block), Some(out)) = (block.first_chunk(), out.first_chunk_mut()) {
                    codes(block, out);
                }
            }

            fn pack_scales(rows: &[&[u8]; ROWS], header: &mut [u8]) {
                copy_halves(rows, 0, header, 0);
                if $has_minimum {
                    copy_halves(rows, 2, header, 2 * ROWS);
                }
            }

            #[inline(always)]
            fn scales(header: &[u8], _: usize) -> Scales {
                let scale = halves(header, 0);
                let mut minimum = [0.0; ROWS];
                if $has_minimum {
                    let added = halves(header, 2 * ROWS);
                    for r in 0..ROWS {
                        minimum[r] = -added[r];
                    }
                }
                Scales { scale: [scale; 2], minimum: [minimum; 2] }
            }
        }
    };
}

simple_format!(Q4_0, 18, 4, q4_0::OFFSET, false, q4_0::codes);
simple_format!(Q4_1, 20, 4, 0, true, q4_1::codes);
simple_format!(Q5_0, 22, 5, q5_0::OFFSET, false, q5_0::codes);
simple_format!(Q5_1, 24, 5, 0, true, q5_1::codes);
// Signed codes become unsigned ones with an offset: dot products take unsigned by signed bytes.
simple_format!(Q8_0, 34, 8, 128, false, |block, out| {
    out.iter_mut().zip(&block[2..]).for_each(|(c, q)| *c = q ^ 0x80);
});

/// Q4_K and Q5_K: `d` and `dmin` of the rows, then (scale, minimum) of each 32 values in 6 bits.
macro_rules! k_format {
    ($name:ident, $module:ident, $bytes:literal, $bits:literal) => {
        pub struct $name;

        impl Format for $name {
            const BLOCK_LEN: usize = 256;
            const BLOCK_BYTES: usize = $bytes;
            const BITS: usize = $bits;
            const OFFSET: i32 = 0;
            const HAS_MINIMUM: bool = true;
            const HALVES: bool = false;

            fn codes(block: &[u8], out: &mut [u8]) {
                if let (Some(block), Some(out)) = (block.first_chunk(), out.first_chunk_mut()) {
                    $module::codes(block, out);
                }
            }

            fn pack_scales(rows: &[&[u8]; ROWS], header: &mut [u8]) {
                copy_halves(rows, 0, header, 0);
                copy_halves(rows, 2, header, 2 * ROWS);
                let numbers = rows.map(|row| {
                    let (scales, minima) = row.first_chunk().map($module::scales).unwrap_or_default();
                    std::array::from_fn(|i| if i % 2 == 0 { scales[i / 2] } else { minima[i / 2] })
                });
                pack_six_bits(&numbers, &mut header[4 * ROWS..]);
            }

            #[inline(always)]
            fn scales(header: &[u8], step: usize) -> Scales {
                let [scale, minimum] = six_bits(&header[4 * ROWS..], step);
                let scale = times(&halves(header, 0), &scale, 0);
                let minimum = times(&halves(header, 2 * ROWS), &minimum, 0);
                Scales { scale: [scale; 2], minimum: [minimum; 2] }
            }
        }
    };
}

k_format!(Q4K, q4_k, 144, 4);
k_format!(Q5K, q5_k, 176, 5);

/// Q6_K: `d` of the rows, then byte `16 j + r`: scale of row `r` for values `16 j..16 (j + 1)`.
pub struct Q6K;

impl Format for Q6K {
    const BLOCK_LEN: usize = 256;
    const BLOCK_BYTES: usize = 210;
    const BITS: usize = 6;
    const OFFSET: i32 = q6_k::OFFSET;
    const HAS_MINIMUM: bool = false;
    const HALVES: bool = true;

    fn codes(block: &[u8], out: &mut [u8]) {
        if let (Some(block), Some(out)) = (block.first_chunk(), out.first_chunk_mut()) {
            q6_k::codes(block, out);
        }
    }

    fn pack_scales(rows: &[&[u8]; ROWS], header: &mut [u8]) {
        copy_halves(rows, 208, header, 0);
        for (r, row) in rows.iter().enumerate() {
            let scales = row.first_chunk().map(q6_k::scales).copied().unwrap_or_default();
            (0..16).for_each(|j| header[2 * ROWS + 16 * j + r] = scales[j]);
        }
    }

    #[inline(always)]
    fn scales(header: &[u8], step: usize) -> Scales {
        let d = halves(header, 0);
        let mut scale = NONE;
        let (bytes, _) = header[2 * ROWS + 32 * step..].as_chunks::<ROWS>();
        for (scale, bytes) in scale.iter_mut().zip(bytes) {
            for r in 0..ROWS {
                scale[r] = d[r] * f32::from(bytes[r] as i8);
            }
        }
        Scales { scale, minimum: NONE }
    }
}

/// Q3_K: `d` of the rows, then the scales of each 16 values in 6 bits.
pub struct Q3K;

impl Format for Q3K {
    const BLOCK_LEN: usize = 256;
    const BLOCK_BYTES: usize = 110;
    const BITS: usize = 3;
    const OFFSET: i32 = q3_k::OFFSET;
    const HAS_MINIMUM: bool = false;
    const HALVES: bool = true;

    fn codes(block: &[u8], out: &mut [u8]) {
        if let (Some(block), Some(out)) = (block.first_chunk(), out.first_chunk_mut()) {
            q3_k::codes(block, out);
        }
    }

    fn pack_scales(rows: &[&[u8]; ROWS], header: &mut [u8]) {
        copy_halves(rows, 108, header, 0);
        let numbers = rows.map(|row| row.first_chunk().map(q3_k::scales).unwrap_or_default());
        pack_six_bits(&numbers, &mut header[2 * ROWS..]);
    }

    #[inline(always)]
    fn scales(header: &[u8], step: usize) -> Scales {
        let d = halves(header, 0);
        let [first, last] = six_bits(&header[2 * ROWS..], step);
        let scale = [times(&d, &first, q3_k::SCALE_OFFSET), times(&d, &last, q3_k::SCALE_OFFSET)];
        Scales { scale, minimum: NONE }
    }
}

/// Q2_K: `d` and `dmin` of the rows, then byte `16 j + r`: scale (low nibble) and minimum (high nibble) of row `r` for
/// values `16 j..16 (j + 1)`.
pub struct Q2K;

impl Format for Q2K {
    const BLOCK_LEN: usize = 256;
    const BLOCK_BYTES: usize = 84;
    const BITS: usize = 2;
    const OFFSET: i32 = 0;
    const HAS_MINIMUM: bool = true;
    const HALVES: bool = true;

    fn codes(block: &[u8], out: &mut [u8]) {
        if let (Some(block), Some(out)) = (block.first_chunk(), out.first_chunk_mut()) {
            q2_k::codes(block, out);
        }
    }

    fn pack_scales(rows: &[&[u8]; ROWS], header: &mut [u8]) {
        copy_halves(rows, 80, header, 0);
        copy_halves(rows, 82, header, 2 * ROWS);
        for (r, row) in rows.iter().enumerate() {
            let scales = row.first_chunk().map(q2_k::scales).copied().unwrap_or_default();
            (0..16).for_each(|j| header[4 * ROWS + 16 * j + r] = scales[j]);
        }
    }

    #[inline(always)]
    fn scales(header: &[u8], step: usize) -> Scales {
        let (d, dmin) = (halves(header, 0), halves(header, 2 * ROWS));
        let (mut scale, mut minimum) = (NONE, NONE);
        let (bytes, _) = header[4 * ROWS + 32 * step..].as_chunks::<ROWS>();
        for half in 0..2 {
            for r in 0..ROWS {
                scale[half][r] = d[r] * f32::from(bytes[half][r] & 0xf);
                minimum[half][r] = dmin[r] * f32::from(bytes[half][r] >> 4);
            }
        }
        Scales { scale, minimum }
    }
}
