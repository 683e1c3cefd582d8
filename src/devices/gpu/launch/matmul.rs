//! Products with matrices. Kernels: `matmul.cu`, `dot.cuh`.

use super::{Arg, Launch, LaunchError, Shape};
use crate::devices::gpu::unit::{Source, Unit};
use crate::devices::op::{Op, Slot};
use crate::devices::quant::DType;

const BLOCK: u32 = 256;
/// So many rows are multiplied one output at a time; more are cut in tiles.
pub const MAX_FEW_ROWS: u32 = 8;
const TILE: u32 = 64;
/// Elements of a block of rounded activations, and its bytes.
const X_BLOCK: u64 = 32;
const X_BLOCK_BYTES: u64 = 40;

/// Whether products with this type round activations to 8 bits, where rows are few.
pub fn rounds_activations(dtype: DType) -> bool {
    dtype.block_len() > 1
}

/// Bytes of rounded activations.
pub fn rounded_bytes(n_in: u32, n_rows: u64) -> u64 {
    u64::from(n_in).div_ceil(X_BLOCK) * X_BLOCK_BYTES * n_rows
}

/// Rounds `x [n_in, n_rows]` to the start of the working memory.
pub fn quantise(unit: Unit, x: Slot, n_in: u32, n_rows: u32) -> Launch {
    Launch {
        unit,
        entry: "quantise_rows",
        grid: [n_in.div_ceil(BLOCK), n_rows, 1],
        block: BLOCK,
        args: vec![Arg::Slot(x), Arg::U32(n_in), Arg::Work(0)],
    }
}

/// MatMul.
pub fn launches(op: &Op, shape: &Shape<'_>, to: &mut Vec<Launch>) -> Result<(), LaunchError> {
    let Op::MatMul { x, n_in, projections } = op else {
        return Err(LaunchError::Unsupported(format!("not a product: {op:?}")));
    };
    let n_rows = shape.n_rows();
    let mut is_rounded = false;
    for p in projections {
        let dtype = shape.weight(p.weight)?.dtype;
        let few = n_rows <= MAX_FEW_ROWS;
        let type_id = ("LC_DTYPE", i64::from(dtype.id()));
        let unit = match few {
            true => Unit::new(Source::Matmul, &[type_id, ("LC_ROWS", i64::from(n_rows.next_power_of_two()))]),
            false => Unit::new(Source::Matmul, &[type_id]),
        };
        let rounded = few && rounds_activations(dtype);
        if rounded && !is_rounded {
            to.push(quantise(unit.clone(), *x, *n_in, n_rows));
            is_rounded = true;
        }
        let input = if rounded { Arg::Work(0) } else { Arg::Slot(*x) };
        let (entry, grid) = match few {
            true => ("matvec", [p.n_out.div_ceil(BLOCK / shape.chip.wave_size), 1, 1]),
            false => ("matmul", [p.n_out.div_ceil(TILE), n_rows.div_ceil(TILE), 1]),
        };
        let args = vec![
            Arg::Weight(p.weight),
            input,
            Arg::U32(*n_in),
            Arg::U32(p.n_out),
            Arg::U32(n_rows),
            p.bias.map_or(Arg::Null, Arg::Weight),
            p.add.map_or(Arg::Null, Arg::Slot),
            Arg::Slot(p.out),
        ];
        to.push(Launch { unit, entry, grid, block: BLOCK, args });
    }
    Ok(())
}

pub fn work_bytes(op: &Op, shape: &Shape<'_>) -> u64 {
    let Op::MatMul { n_in, projections, .. } = op else { return 0 };
    let rounds = projections.iter().any(|p| shape.weight(p.weight).is_ok_and(|w| rounds_activations(w.dtype)));
    if rounds { rounded_bytes(*n_in, u64::from(shape.n_rows().min(MAX_FEW_ROWS))) } else { 0 }
}
