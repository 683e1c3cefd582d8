//! Norms. Kernels: `norm.cu`.

use super::{Arg, Launch, LaunchError, Shape};
use crate::devices::Op;
use crate::devices::gpu::unit::{Source, Unit};

const BLOCK: u32 = 256;
/// Groups up to so wide are one wave's work: heads, mostly.
const MAX_WAVE_WIDTH: u32 = 512;

/// RmsNorm.
pub fn launches(op: &Op, shape: &Shape<'_>, to: &mut Vec<Launch>) -> Result<(), LaunchError> {
    let Op::RmsNorm { x, weight, width, n_groups, eps, out } = op else {
        return Err(LaunchError::Unsupported(format!("not a norm: {op:?}")));
    };
    let n_groups = n_groups * shape.n_rows();
    let (entry, n_blocks) = match *width <= MAX_WAVE_WIDTH {
        true => ("rms_norm_wave", n_groups.div_ceil(BLOCK / shape.chip.wave_size)),
        false => ("rms_norm_block", n_groups),
    };
    to.push(Launch {
        unit: Unit::new(Source::Norm, &[]),
        entry,
        grid: [n_blocks, 1, 1],
        block: BLOCK,
        args: vec![
            Arg::Slot(*x),
            Arg::Weight(*weight),
            Arg::U32(*width),
            Arg::U32(n_groups),
            Arg::F32(*eps),
            Arg::Slot(*out),
        ],
    });
    Ok(())
}
