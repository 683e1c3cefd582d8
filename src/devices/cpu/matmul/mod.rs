//! Products with weights: float and quantised matrices, packed for the CPU when they are loaded.
//!
//! 16 output rows are interleaved ([`format`], [`planes`]), so that one register holds 4 consecutive input values of 16
//! rows and a lane belongs to one output. Each output is summed in one fixed order, so its bits depend neither on how
//! many rows are computed nor on how the work is shared among threads.

#[cfg(target_arch = "aarch64")]
mod arm_neon;
pub mod format;
mod input;
mod planes;
mod portable;
#[cfg(target_arch = "x86_64")]
mod x86_avx2;
#[cfg(target_arch = "x86_64")]
mod x86_avx512;

#[cfg(test)]
mod tests;

use std::ops::Range;

use super::simd::Simd;
use crate::devices::op::WeightSpec;
use crate::devices::quant::{DType, bf16, f16};
use format::{Format, ROWS, STEP};
use portable::Float;

pub use input::input_row_bytes;

/// Outputs of one group: rows that are packed and computed together.
pub const GROUP_ROWS: usize = ROWS;
/// Most input rows that a kernel takes at once.
const TILE: usize = 16;
/// Packed weights that are kept in the second-level cache while several tiles of rows pass by.
const CHUNK_BYTES: usize = 256 << 10;
/// Alignment of groups.
const ALIGN: usize = 64;

/// How input rows are prepared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ActivationFormat {
    /// As they are: products are exact up to the rounding of F32 sums.
    F32,
    /// Rounded to 8 bits with a scale for each 32 values.
    Int8,
}

/// Shape and type of a matrix `[n_in, n_out]`, or of a stack of them `[n_in, n_out, n_expert]`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct MatrixLayout {
    pub dtype: DType,
    pub n_in: usize,
    pub n_out: usize,
    pub n_expert: usize,
}

impl MatrixLayout {
    /// `None` where the type cannot be computed with, the shape is not a matrix, or rows are not whole blocks.
    pub fn of(weight: &WeightSpec) -> Option<MatrixLayout> {
        let size = |i: usize| usize::try_from(*weight.shape.get(i)?).ok().filter(|n| *n > 0);
        let n_expert = match weight.shape.len() {
            2 => 1,
            3 => size(2)?,
            _ => return None,
        };
        let layout = MatrixLayout { dtype: weight.dtype, n_in: size(0)?, n_out: size(1)?, n_expert };
        let rows = layout.n_out.checked_next_multiple_of(GROUP_ROWS)?.checked_mul(n_expert)?;
        let row_bytes = layout.dtype.bytes_of(layout.n_in as u64)?.checked_add(ALIGN as u64)?;
        let fits = row_bytes.checked_mul(rows as u64)? <= isize::MAX as u64;
        (fits && layout.dtype.is_supported()).then_some(layout)
    }

    /// Groups of 16 outputs of one expert.
    pub fn n_groups(&self) -> usize {
        self.n_out.div_ceil(GROUP_ROWS)
    }

    /// Bytes of all packed experts: those of the file, with `n_out` padded to whole groups.
    pub fn packed_bytes(&self) -> u64 {
        (self.group_bytes() * self.n_groups() * self.n_expert) as u64
    }

    /// Bytes of one packed group, a multiple of 64.
    pub fn group_bytes(&self) -> usize {
        (GROUP_ROWS * self.row_bytes()).next_multiple_of(ALIGN)
    }

    /// Bytes of one row in the file.
    fn row_bytes(&self) -> usize {
        self.n_in / self.dtype.block_len() * self.dtype.block_bytes()
    }

    fn n_blocks(&self) -> usize {
        self.n_in / self.dtype.block_len()
    }

    /// The format that inputs must have where `wanted` is preferred: F32 for float weights.
    pub fn input_format(&self, wanted: ActivationFormat) -> ActivationFormat {
        match self.dtype {
            DType::F32 | DType::F16 | DType::BF16 => ActivationFormat::F32,
            _ => wanted,
        }
    }

    /// Packs the whole weight: `file` in the file's layout, `packed` of [`MatrixLayout::packed_bytes`].
    ///
    /// # Panics
    /// Where either is too small.
    pub fn pack(&self, file: &[u8], packed: &mut [u8]) {
        self.pack_range(file, 0..self.n_groups() * self.n_expert, packed);
    }

    /// Packs some groups, counted through all experts (`expert * n_groups + group`), to the front of `packed`: parts of a weight can be
    /// packed at the same time.
    ///
    /// # Panics
    /// Where `file` lacks a row of the groups, or `packed` is smaller than [`MatrixLayout::group_bytes`] for each.
    pub fn pack_range(&self, file: &[u8], groups: Range<usize>, packed: &mut [u8]) {
        let group_bytes = self.group_bytes();
        assert!(packed.len() >= groups.len() * group_bytes, "{} bytes for {} groups", packed.len(), groups.len());
        let padding = vec![0; self.row_bytes()];
        for (group, packed) in groups.zip(packed.chunks_exact_mut(group_bytes)) {
            let (expert, group) = (group / self.n_groups(), group % self.n_groups());
            let rows: [&[u8]; ROWS] = std::array::from_fn(|r| {
                let row = group * GROUP_ROWS + r;
                let start = (expert * self.n_out + row) * self.row_bytes();
                if row < self.n_out { &file[start..start + self.row_bytes()] } else { &padding }
            });
            let used = GROUP_ROWS * self.row_bytes();
            packed[used..].fill(0);
            with_kind!(self.dtype,
                float F => interleave(F::BYTES, &rows, packed),
                quantised F => pack_blocks::<F>(&rows, packed)
            );
        }
    }
}

/// Runs an expression with the type that stands for a tensor type.
macro_rules! with_kind {
    ($dtype:expr, float $float:ident => $on_float:expr, quantised $format:ident => $on_format:expr) => {{
        use $crate::devices::cpu::matmul::{Bf16Value, F16Value, F32Value, format};
        macro_rules! on_float {
            ($t:ty) => {{
                type $float = $t;
                $on_float
            }};
        }
        macro_rules! on_format {
            ($t:ty) => {{
                type $format = $t;
                $on_format
            }};
        }
        match $dtype {
            DType::F32 => on_float!(F32Value),
            DType::F16 => on_float!(F16Value),
            DType::BF16 => on_float!(Bf16Value),
            DType::Q4_0 => on_format!(format::Q4_0),
            DType::Q4_1 => on_format!(format::Q4_1),
            DType::Q5_0 => on_format!(format::Q5_0),
            DType::Q5_1 => on_format!(format::Q5_1),
            DType::Q8_0 => on_format!(format::Q8_0),
            DType::Q2_K => on_format!(format::Q2K),
            DType::Q3_K => on_format!(format::Q3K),
            DType::Q4_K => on_format!(format::Q4K),
            DType::Q5_K => on_format!(format::Q5K),
            DType::Q6_K => on_format!(format::Q6K),
            other => unreachable!("no layout has type {other}"),
        }
    }};
}
use with_kind;

fn interleave(n_bytes: usize, rows: &[&[u8]; ROWS], packed: &mut [u8]) {
    for (r, row) in rows.iter().enumerate() {
        for (k, value) in row.chunks_exact(n_bytes).enumerate() {
            packed[(k * ROWS + r) * n_bytes..][..n_bytes].copy_from_slice(value);
        }
    }
}

fn pack_blocks<F: Format>(rows: &[&[u8]; ROWS], packed: &mut [u8]) {
    for (block, packed) in packed.chunks_exact_mut(F::PACKED_BYTES).enumerate() {
        let at = block * F::BLOCK_BYTES;
        if at + F::BLOCK_BYTES <= rows[0].len() {
            F::pack(&rows.map(|row| &row[at..at + F::BLOCK_BYTES]), packed);
        }
    }
}

struct F32Value;
struct F16Value;
struct Bf16Value;

impl Float for F32Value {
    const KIND: DType = DType::F32;
    #[inline(always)]
    fn decode(bytes: &[u8]) -> f32 {
        f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
    }
}

impl Float for F16Value {
    const KIND: DType = DType::F16;
    #[inline(always)]
    fn decode(bytes: &[u8]) -> f32 {
        f16::to_f32(u16::from_le_bytes([bytes[0], bytes[1]]))
    }
}

impl Float for Bf16Value {
    const KIND: DType = DType::BF16;
    #[inline(always)]
    fn decode(bytes: &[u8]) -> f32 {
        bf16::to_f32(u16::from_le_bytes([bytes[0], bytes[1]]))
    }
}

/// Prepares one input row: `out` has [`input_row_bytes`] and is aligned to 64 bytes.
///
/// # Panics
/// Where `out` is too small or not aligned.
pub fn prepare_input(simd: Simd, format: ActivationFormat, x: &[f32], out: &mut [u8]) {
    match simd {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the instruction set is there, as just asked.
        Simd::Avx512Vnni if simd.is_available() => unsafe { x86_avx512::prepare(format, x, out) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Simd::Avx2 if simd.is_available() => unsafe { x86_avx2::prepare(format, x, out) },
        _ => input::prepare(format, x, out),
    }
}

/// Prepared input rows, [`input_row_bytes`] apart.
pub struct Input<'a> {
    pub format: ActivationFormat,
    pub n_in: usize,
    pub rows: &'a [u8],
}

/// Which input row gives which output row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RowPair {
    pub input: u32,
    pub output: u32,
}

/// Where results go: `out[row, column] = product (+ bias[column]) (+ add[row, column])`.
pub struct Output<'a> {
    /// First element of output row 0.
    pub out: *mut f32,
    /// F32s from one output row to the next.
    pub stride: usize,
    /// `[n_out]`
    pub bias: Option<&'a [f32]>,
    /// Same stride as `out`; may be `out`.
    pub add: Option<*const f32>,
}

/// Sums of one group for up to [`TILE`] rows: packed group, blocks (values for floats) of a row, rows, sums.
type Kernel = unsafe fn(&[u8], usize, &[*const u8], &mut [[f32; ROWS]]);

fn kernel(simd: Simd, dtype: DType, format: ActivationFormat) -> Kernel {
    with_kind!(dtype,
        float F => match simd {
            #[cfg(target_arch = "x86_64")]
            Simd::Avx512Vnni => x86_avx512::float::<F>,
            #[cfg(target_arch = "x86_64")]
            Simd::Avx2 => x86_avx2::float::<F>,
            #[cfg(target_arch = "aarch64")]
            Simd::Neon | Simd::NeonDot => arm_neon::float::<F>,
            _ => portable::float::<F, { cfg!(not(target_arch = "x86_64")) }>,
        },
        quantised F => match (simd, format) {
            #[cfg(target_arch = "x86_64")]
            (Simd::Avx512Vnni, ActivationFormat::F32) => x86_avx512::exact::<F>,
            #[cfg(target_arch = "x86_64")]
            (Simd::Avx512Vnni, ActivationFormat::Int8) => x86_avx512::int8::<F>,
            #[cfg(target_arch = "x86_64")]
            (Simd::Avx2, ActivationFormat::F32) => x86_avx2::exact::<F>,
            #[cfg(target_arch = "x86_64")]
            (Simd::Avx2, ActivationFormat::Int8) => x86_avx2::int8::<F>,
            #[cfg(target_arch = "aarch64")]
            (Simd::Neon | Simd::NeonDot, ActivationFormat::F32) => arm_neon::exact::<F>,
            #[cfg(target_arch = "aarch64")]
            (Simd::Neon, ActivationFormat::Int8) => arm_neon::int8::<F>,
            #[cfg(target_arch = "aarch64")]
            (Simd::NeonDot, ActivationFormat::Int8) => arm_neon::int8_dot::<F>,
            (_, ActivationFormat::F32) => portable::exact::<F, { cfg!(not(target_arch = "x86_64")) }>,
            (_, ActivationFormat::Int8) => portable::int8::<F>,
        }
    )
}

/// Computes the outputs of `groups` of one expert for all `rows`.
///
/// `packed` is the whole packed weight; `input` has the format that [`MatrixLayout::input_format`] gives.
///
/// # Panics
/// Where `packed`, `input` or `out.bias` is too small, or input rows are not aligned to 64 bytes.
///
/// # Safety
/// `simd` is available on this machine. `out.out` (and `out.add`) are valid for every output row of `rows`, and no other
/// thread touches the columns of `groups` in them.
#[allow(clippy::too_many_arguments)]
pub unsafe fn matmul(
    simd: Simd,
    layout: &MatrixLayout,
    packed: &[u8],
    expert: usize,
    input: &Input,
    rows: &[RowPair],
    groups: Range<usize>,
    out: &Output,
) {
    assert!(input.n_in == layout.n_in && input.format == layout.input_format(input.format));
    assert!(expert < layout.n_expert && groups.end <= layout.n_groups());
    let row_bytes = input_row_bytes(layout.n_in, input.format);
    let n_rows = input.rows.len() / row_bytes;
    assert!(rows.iter().all(|row| (row.input as usize) < n_rows), "an input row lies outside {n_rows} rows");
    assert!(input.rows.as_ptr().addr().is_multiple_of(ALIGN), "prepared rows are aligned to {ALIGN} bytes");
    let kernel = kernel(simd, layout.dtype, input.format);
    let group_bytes = layout.group_bytes();
    // Some groups at a time, so that they stay in the second-level cache while all rows pass by.
    let chunk = (CHUNK_BYTES / group_bytes).max(1);
    for start in groups.clone().step_by(chunk) {
        for tile in rows.chunks(TILE) {
            let mut pointers = [std::ptr::null(); TILE];
            for (pointer, row) in pointers.iter_mut().zip(tile) {
                *pointer = input.rows[row.input as usize * row_bytes..].as_ptr();
            }
            for group in start..groups.end.min(start + chunk) {
                let packed = &packed[(expert * layout.n_groups() + group) * group_bytes..][..group_bytes];
                let mut sums = [[0.0; ROWS]; TILE];
                // SAFETY: each row has `row_bytes`: as many values as the group's blocks; `simd` is available.
                unsafe { kernel(packed, layout.n_blocks(), &pointers[..tile.len()], &mut sums[..tile.len()]) };
                for (row, sums) in tile.iter().zip(&sums) {
                    // SAFETY: the caller's promise.
                    unsafe { store(layout.n_out, group, row.output as usize, sums, out) };
                }
            }
        }
    }
}

/// Writes 16 outputs of one row, or as many as there are.
///
/// # Safety
/// See [`matmul`].
#[inline(always)]
unsafe fn store(n_out: usize, group: usize, row: usize, sums: &[f32; ROWS], out: &Output) {
    let column = group * GROUP_ROWS;
    let n = GROUP_ROWS.min(n_out - column);
    let at = row * out.stride + column;
    let mut values = *sums;
    if let Some(bias) = out.bias {
        values[..n].iter_mut().zip(&bias[column..column + n]).for_each(|(v, b)| *v += b);
    }
    for (i, value) in values[..n].iter().enumerate() {
        // SAFETY: the caller's promise.
        unsafe {
            let add = out.add.map_or(0.0, |add| *add.add(at + i));
            *out.out.add(at + i) = value + add;
        }
    }
}

/// The exact values of output row `row` of one expert, from the packed weight: `out [n_in]`.
pub fn unpack_row(layout: &MatrixLayout, packed: &[u8], expert: usize, row: usize, out: &mut [f32]) {
    assert!(expert < layout.n_expert && row < layout.n_out && out.len() == layout.n_in);
    let group = expert * layout.n_groups() + row / GROUP_ROWS;
    let (packed, lane) = (&packed[group * layout.group_bytes()..][..layout.group_bytes()], row % GROUP_ROWS);
    with_kind!(layout.dtype,
        float F => out.iter_mut().enumerate().for_each(|(k, x)| *x = F::decode(&packed[(k * ROWS + lane) * F::BYTES..])),
        quantised F => {
            let mut weights = [[0.0; ROWS]; STEP];
            for (block, x) in out.chunks_exact_mut(F::BLOCK_LEN).enumerate() {
                for (step, x) in x.chunks_exact_mut(STEP).enumerate() {
                    portable::dequantise::<F>(&packed[block * F::PACKED_BYTES..], step, &mut weights);
                    x.iter_mut().zip(&weights).for_each(|(x, w)| *x = w[lane]);
                }
            }
        }
    );
}
