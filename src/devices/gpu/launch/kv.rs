//! Appending to the KV cache: one launch for K and V.

use super::{Arg, Launch, LaunchError, Shape};
use crate::devices::gpu::unit::{Source, Unit};
use crate::devices::quant::DType;
use crate::devices::{KvSpec, Op, Rows};

const BLOCK: u32 = 256;

/// The `LC_KV` constant of kernels that touch a cache.
pub(super) fn dtype_define(kv: &KvSpec) -> Result<(&'static str, i64), LaunchError> {
    match kv.dtype {
        DType::F32 | DType::F16 | DType::Q8_0 => Ok(("LC_KV", i64::from(kv.dtype.id()))),
        other => Err(LaunchError::Unsupported(format!("{other} is no type of a KV cache; use f32, f16 or q8_0"))),
    }
}

/// The kernels' `of_outputs`: whether rows are the step's outputs.
pub(super) fn of_outputs(shape: &Shape<'_>) -> Arg {
    match shape.program.rows {
        Rows::Batch => Arg::U32(0),
        Rows::Outputs => Arg::U32(1),
    }
}

pub fn launches(op: &Op, shape: &Shape<'_>, to: &mut Vec<Launch>) -> Result<(), LaunchError> {
    let Op::KvAppend { k, v } = op else {
        return Err(LaunchError::Unsupported("not an append to the KV cache".into()));
    };
    let kv = shape.kv()?;
    // Each head takes whole Q8_0 blocks of threads.
    let width = kv.head_dim_k.max(kv.head_dim_v).next_multiple_of(32) * kv.n_kv_head;
    to.push(Launch {
        unit: Unit::new(Source::Kv, &[dtype_define(&kv)?]),
        entry: "kv_append",
        grid: [width.div_ceil(BLOCK), shape.n_rows(), 2],
        block: BLOCK,
        args: vec![
            Arg::Step,
            Arg::Slot(*k),
            Arg::Slot(*v),
            Arg::KvK,
            Arg::KvV,
            Arg::U32(kv.n_kv_head),
            Arg::U32(kv.head_dim_k),
            Arg::U32(kv.head_dim_v),
            Arg::U32(kv.n_ctx),
            of_outputs(shape),
        ],
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::devices::gpu::chip::{Arch, Chip};
    use crate::devices::{Program, Slot};

    #[test]
    fn one_launch_covers_all_elements_of_k_and_v() {
        let chip = Chip { arch: Arch::Gfx(0x90a), wave_size: 64, n_multiprocessors: 104 };
        let op = Op::KvAppend { k: Slot(1), v: Slot(2) };
        let mut program = Program { name: "t".into(), rows: Rows::Batch, weights: vec![], ops: vec![op.clone()] };
        let kv = |dtype| KvSpec { dtype, head_dim_k: 80, head_dim_v: 33, n_kv_head: 3, n_ctx: 100 };
        let make = |program: &Program, kv| {
            let shape = Shape { program, kv, chip: &chip, n_tokens: 7, n_outputs: 2, n_positions: 64 };
            let mut to = vec![];
            launches(&op, &shape, &mut to).map(|()| to)
        };
        let of_q8 = make(&program, Some(kv(DType::Q8_0))).unwrap();
        assert_eq!(of_q8.len(), 1);
        assert_eq!(of_q8[0].grid, [2, 7, 2]);
        assert_eq!(of_q8[0].unit.defines, [("LC_KV", 8)]);
        assert_eq!(of_q8[0].args.len(), 10);
        assert_eq!(of_q8[0].args.last(), Some(&Arg::U32(0)));
        program.rows = Rows::Outputs;
        let of_f16 = make(&program, Some(kv(DType::F16))).unwrap();
        assert_eq!((of_f16[0].grid[1], of_f16[0].args.last()), (2, Some(&Arg::U32(1))));
        assert_eq!(make(&program, None), Err(LaunchError::NoKv));
        assert!(matches!(make(&program, Some(kv(DType::Q4_0))), Err(LaunchError::Unsupported(_))));
    }
}
