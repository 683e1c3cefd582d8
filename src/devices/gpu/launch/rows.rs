//! Embedding, and what works on rows element by element. Kernels: `embed.cu`, `rows.cu`.

use super::{Arg, Launch, LaunchError, Shape};
use crate::devices::Op;
use crate::devices::gpu::unit::{Source, Unit};
use crate::devices::op::Activation;

const BLOCK: u32 = 256;

/// Embed, TakeOutputs and GatedActivation.
pub fn launches(op: &Op, shape: &Shape<'_>, to: &mut Vec<Launch>) -> Result<(), LaunchError> {
    let n_rows = shape.n_rows();
    let rows = |width: u32| [width.div_ceil(BLOCK), n_rows, 1];
    to.push(match op {
        Op::Embed { table, n_embd, out } => {
            let weight = shape.weight(*table)?;
            let n_vocab = weight.shape.get(1).copied().unwrap_or(1);
            let n_vocab =
                u32::try_from(n_vocab).map_err(|_| LaunchError::Unsupported("a table is too large".into()))?;
            Launch {
                unit: Unit::new(Source::Embed, &[("LC_DTYPE", i64::from(weight.dtype.id()))]),
                entry: "embed",
                grid: rows(*n_embd),
                block: BLOCK,
                args: vec![Arg::Step, Arg::Weight(*table), Arg::U32(*n_embd), Arg::U32(n_vocab), Arg::Slot(*out)],
            }
        }
        Op::TakeOutputs { x, width, out } => Launch {
            unit: Unit::new(Source::Rows, &[]),
            entry: "take_outputs",
            grid: rows(*width),
            block: BLOCK,
            args: vec![Arg::Step, Arg::Slot(*x), Arg::U32(*width), Arg::Slot(*out)],
        },
        Op::GatedActivation { gate, up, activation: Activation::Silu, width, out } => Launch {
            unit: Unit::new(Source::Rows, &[]),
            entry: "silu_gate",
            grid: rows(*width),
            block: BLOCK,
            args: vec![Arg::Slot(*gate), Arg::Slot(*up), Arg::U32(*width), Arg::Slot(*out)],
        },
        other => return Err(LaunchError::Unsupported(format!("not an op over rows: {other:?}"))),
    });
    Ok(())
}
