//! Which units running programs takes.

use super::{LaunchError, Shape, launches};
use crate::devices::ProgramShape;
use crate::devices::gpu::chip::Chip;
use crate::devices::gpu::unit::Unit;

/// The units of all launches of `programs` with steps of up to `max_rows` rows, each once.
pub fn program_units(programs: &[ProgramShape<'_>], max_rows: usize, chip: &Chip) -> Result<Vec<Unit>, LaunchError> {
    let max_rows = u32::try_from(max_rows).unwrap_or(u32::MAX).max(1);
    let sizes = (0..32).map(|bit| 1u32 << bit).take_while(|n| *n < max_rows).chain([max_rows]);
    let mut launched = vec![];
    for n_tokens in sizes {
        for ProgramShape { program, kv } in programs {
            let n_ctx = kv.map_or(n_tokens, |kv| kv.n_ctx);
            for n_positions in [n_tokens, n_ctx] {
                let shape = Shape { program, kv: *kv, chip, n_tokens, n_outputs: n_tokens, n_positions };
                program.ops.iter().try_for_each(|op| launches(op, &shape, &mut launched))?;
            }
        }
    }
    let mut units: Vec<Unit> = launched.into_iter().map(|launch| launch.unit).collect();
    units.sort();
    units.dedup();
    Ok(units)
}
