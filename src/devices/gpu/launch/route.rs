//! The choice of experts. Kernel: `route.cu`.

use super::{Arg, Launch, LaunchError, Shape};
use crate::devices::Op;
use crate::devices::gpu::unit::{Source, Unit};
use crate::devices::op::Gating;

const BLOCK: u32 = 64;
/// Two F32 for each expert must fit into a block's shared memory.
const MAX_EXPERTS: u32 = 4096;

/// Route.
pub fn launches(op: &Op, shape: &Shape<'_>, to: &mut Vec<Launch>) -> Result<(), LaunchError> {
    let Op::Route { logits, bias, gating, n_expert, n_used, normalise, scale, ids, weights } = op else {
        return Err(LaunchError::Unsupported(format!("not a choice of experts: {op:?}")));
    };
    if *n_used == 0 || n_used > n_expert || *n_expert > MAX_EXPERTS {
        return Err(LaunchError::Unsupported(format!("{n_used} of {n_expert} experts cannot be chosen")));
    }
    let sigmoid = match gating {
        Gating::Softmax => 0,
        Gating::Sigmoid => 1,
    };
    to.push(Launch {
        unit: Unit::new(Source::Route, &[("LC_N_EXPERT", i64::from(*n_expert)), ("LC_SIGMOID", sigmoid)]),
        entry: "route",
        grid: [shape.n_rows(), 1, 1],
        block: BLOCK,
        args: vec![
            Arg::Slot(*logits),
            bias.map_or(Arg::Null, Arg::Weight),
            Arg::U32(*n_used),
            Arg::U32(u32::from(*normalise)),
            Arg::F32(*scale),
            Arg::Slot(*ids),
            Arg::Slot(*weights),
        ],
    });
    Ok(())
}
