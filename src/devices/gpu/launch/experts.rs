//! Products with chosen experts, and their sum. Kernels: `experts.cu`, `dot.cuh`, `combine.cu`.
//!
//! Working memory: rounded activations, then the number of groups, then the groups.

use super::matmul::{quantise, rounded_bytes, rounds_activations};
use super::{Arg, Launch, LaunchError, Shape};
use crate::devices::gpu::unit::{Source, Unit};
use crate::devices::op::Op;

const BLOCK: u32 = 256;
/// Up to so many pairs of a row and an expert are computed each by itself.
const MAX_FEW_PAIRS: u32 = 16;
/// Pairs of one expert that are computed together.
const GROUP: u32 = 8;
const ALIGN_BYTES: u64 = 256;

/// ExpertMatMul and ExpertCombine.
pub fn launches(op: &Op, shape: &Shape<'_>, to: &mut Vec<Launch>) -> Result<(), LaunchError> {
    let n_rows = shape.n_rows();
    match op {
        Op::ExpertCombine { x, weights, width, n_used, add, out } => {
            to.push(Launch {
                unit: Unit::new(Source::Combine, &[]),
                entry: "expert_combine",
                grid: [width.div_ceil(BLOCK), n_rows, 1],
                block: BLOCK,
                args: vec![
                    Arg::Slot(*x),
                    Arg::Slot(*weights),
                    Arg::Slot(*add),
                    Arg::U32(*width),
                    Arg::U32(*n_used),
                    Arg::Slot(*out),
                ],
            });
            Ok(())
        }
        Op::ExpertMatMul { x, x_per_expert, ids, n_in, n_expert, n_used, projections } => {
            let n_pairs = n_rows * n_used;
            let group = if n_pairs <= MAX_FEW_PAIRS { 1 } else { GROUP };
            let n_x_rows = if *x_per_expert { n_pairs } else { n_rows };
            let layout = Layout::new(*n_in, n_x_rows);
            let n_groups = max_groups(n_pairs, *n_expert, group);
            let (mut is_rounded, mut is_grouped) = (false, group == 1);
            for p in projections {
                let dtype = shape.weight(p.weight)?.dtype;
                let unit = Unit::new(
                    Source::Experts,
                    &[
                        ("LC_DTYPE", i64::from(dtype.id())),
                        ("LC_N_EXPERT", i64::from(*n_expert)),
                        ("LC_ROWS", i64::from(group)),
                    ],
                );
                if !is_grouped {
                    is_grouped = true;
                    to.push(Launch {
                        unit: unit.clone(),
                        entry: "group_pairs",
                        grid: [1, 1, 1],
                        block: BLOCK,
                        args: vec![
                            Arg::Slot(*ids),
                            Arg::U32(n_pairs),
                            Arg::Work(layout.groups),
                            Arg::Work(layout.n_groups),
                        ],
                    });
                }
                let rounded = rounds_activations(dtype);
                if rounded && !is_rounded {
                    is_rounded = true;
                    to.push(quantise(unit.clone(), *x, *n_in, n_x_rows));
                }
                to.push(Launch {
                    unit,
                    entry: "expert_matvec",
                    grid: [p.n_out.div_ceil(BLOCK / shape.chip.wave_size), n_groups, 1],
                    block: BLOCK,
                    args: vec![
                        Arg::Weight(p.weight),
                        if rounded { Arg::Work(0) } else { Arg::Slot(*x) },
                        Arg::Slot(*ids),
                        if group == 1 { Arg::Null } else { Arg::Work(layout.groups) },
                        if group == 1 { Arg::Null } else { Arg::Work(layout.n_groups) },
                        Arg::U32(*n_in),
                        Arg::U32(p.n_out),
                        Arg::U32(*n_used),
                        Arg::U32(u32::from(*x_per_expert)),
                        Arg::Slot(p.out),
                    ],
                });
            }
            Ok(())
        }
        other => Err(LaunchError::Unsupported(format!("not an op of experts: {other:?}"))),
    }
}

/// Groups that pairs can make at most, however they are distributed.
fn max_groups(n_pairs: u32, n_expert: u32, group: u32) -> u32 {
    // Every expert has at most one group that is not full.
    n_pairs.min(n_pairs / group + n_expert)
}

/// Offsets in the working memory.
struct Layout {
    n_groups: u64,
    groups: u64,
}

impl Layout {
    fn new(n_in: u32, n_x_rows: u32) -> Layout {
        let n_groups = rounded_bytes(n_in, u64::from(n_x_rows)).next_multiple_of(ALIGN_BYTES);
        Layout { n_groups, groups: n_groups + ALIGN_BYTES }
    }
}

pub fn work_bytes(op: &Op, shape: &Shape<'_>) -> u64 {
    let Op::ExpertMatMul { x_per_expert, n_in, n_expert, n_used, .. } = op else { return 0 };
    let n_pairs = shape.n_rows() * n_used;
    let layout = Layout::new(*n_in, if *x_per_expert { n_pairs } else { shape.n_rows() });
    layout.groups + 4 * u64::from(GROUP + 1) * u64::from(max_groups(n_pairs, *n_expert, GROUP))
}
