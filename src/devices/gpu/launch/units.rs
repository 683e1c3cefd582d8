//! All units that running programs may need, before any of them runs.

use std::collections::BTreeSet;

use super::{Launch, LaunchError, Shape, launches};
use crate::devices::gpu::chip::Chip;
use crate::devices::gpu::unit::Unit;
use crate::devices::{KvSpec, Op, Program, ProgramShape, Rows};

/// Row counts around which launches choose another kernel: at and behind powers of two.
const ROWS: [u32; 18] = [1, 2, 3, 4, 5, 8, 9, 16, 17, 32, 33, 64, 65, 128, 129, 256, 257, 512];

/// All units that running these programs with 1 to `max_rows` rows may need, at any position of their caches. Sorted,
/// each once.
///
/// # Errors
/// Of the first op that cannot be launched.
pub fn program_units(programs: &[ProgramShape<'_>], max_rows: usize, chip: &Chip) -> Result<Vec<Unit>, LaunchError> {
    collect(programs, max_rows, chip, launches)
}

/// [`program_units`] over another way to launch.
fn collect(
    programs: &[ProgramShape<'_>],
    max_rows: usize,
    chip: &Chip,
    launches: impl Fn(&Op, &Shape<'_>, &mut Vec<Launch>) -> Result<(), LaunchError>,
) -> Result<Vec<Unit>, LaunchError> {
    let max_rows = u32::try_from(max_rows).unwrap_or(u32::MAX);
    let mut units = BTreeSet::new();
    let mut of_op = Vec::new();
    for &ProgramShape { program, kv } in distinct(programs) {
        for n_tokens in row_counts(max_rows) {
            for n_outputs in output_counts(program.rows, n_tokens) {
                for n_positions in positions(n_tokens, kv) {
                    let shape = Shape { program, kv, chip, n_tokens, n_outputs, n_positions };
                    for op in &program.ops {
                        launches(op, &shape, &mut of_op)?;
                        units.extend(of_op.drain(..).map(|launch| launch.unit));
                    }
                }
            }
        }
    }
    Ok(units.into_iter().collect())
}

/// One program of each shape: most layers of a model differ in nothing but the names of their weights.
fn distinct<'a, 'p>(programs: &'a [ProgramShape<'p>]) -> Vec<&'a ProgramShape<'p>> {
    let mut distinct: Vec<&ProgramShape<'_>> = Vec::new();
    for shape in programs {
        if !distinct.iter().any(|known| known.kv == shape.kv && is_alike(known.program, shape.program)) {
            distinct.push(shape);
        }
    }
    distinct
}

fn is_alike(a: &Program, b: &Program) -> bool {
    let weights = || a.weights.iter().zip(&b.weights);
    a.rows == b.rows
        && a.weights.len() == b.weights.len()
        && weights().all(|(a, b)| (a.dtype, &a.shape, a.role) == (b.dtype, &b.shape, b.role))
        && a.ops == b.ops
}

fn row_counts(max_rows: u32) -> impl Iterator<Item = u32> {
    // Doubling on, should steps become that large.
    let last = ROWS[ROWS.len() - 1];
    let larger = std::iter::successors(last.checked_mul(2), |n| n.checked_mul(2));
    let counts = ROWS.into_iter().chain(larger).take_while(move |n| *n < max_rows);
    counts.chain((max_rows > 0).then_some(max_rows))
}

fn output_counts(rows: Rows, n_tokens: u32) -> Vec<u32> {
    match rows {
        // Their ops have a row for each token.
        Rows::Batch => vec![n_tokens],
        Rows::Outputs => row_counts(n_tokens).collect(),
    }
}

/// Positions after the step: the fewest, the most, and powers of two between.
fn positions(n_tokens: u32, kv: Option<KvSpec>) -> Vec<u32> {
    let n_ctx = kv.map_or(n_tokens, |kv| kv.n_ctx.max(n_tokens));
    let between = std::iter::successors(Some(1u32), |n| n.checked_mul(2));
    let between = between.skip_while(|n| *n <= n_tokens).take_while(|n| *n < n_ctx);
    let mut positions: Vec<_> = std::iter::once(n_tokens).chain(between).chain([n_ctx]).collect();
    positions.dedup();
    positions
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;
    use crate::devices::gpu::chip::Arch;
    use crate::devices::gpu::unit::Source;
    use crate::devices::op::WeightRole;
    use crate::devices::quant::DType;
    use crate::devices::{Slot, WeightSpec};

    const CHIP: Chip = Chip { arch: Arch::Sm(80), wave_size: 32, n_multiprocessors: 8 };

    fn program(name: &str, rows: Rows, width: u32) -> Program {
        let weight = WeightSpec {
            name: format!("{name}.weight"),
            dtype: DType::F32,
            shape: vec![u64::from(width)],
            role: WeightRole::Vector,
        };
        let op = Op::TakeOutputs { x: Slot(0), width, out: Slot(1) };
        Program { name: name.to_owned(), rows, weights: vec![weight], ops: vec![op] }
    }

    fn kv(n_ctx: u32) -> KvSpec {
        KvSpec { dtype: DType::F16, head_dim_k: 64, head_dim_v: 64, n_kv_head: 1, n_ctx }
    }

    fn launch(defines: &[(&'static str, i64)]) -> Launch {
        Launch { unit: Unit::new(Source::Rows, defines), entry: "x", grid: [1; 3], block: 32, args: vec![] }
    }

    #[test]
    fn units_of_all_rows_outputs_and_positions_are_found_once() {
        let (batch, outputs) = (program("a", Rows::Batch, 64), program("b", Rows::Outputs, 64));
        let with_kv = ProgramShape { program: &batch, kv: Some(kv(1000)) };
        let shapes = [with_kv, ProgramShape { program: &outputs, kv: None }, with_kv];
        let by_size = |_: &Op, shape: &Shape<'_>, to: &mut Vec<Launch>| {
            // As kernels might be chosen.
            let is_output = i64::from(shape.program.rows == Rows::Outputs);
            let is_long = i64::from(shape.n_positions >= 512);
            to.push(launch(&[("O", is_output), ("LONG", is_long), ("FEW", i64::from(shape.n_rows() <= 8))]));
            Ok(())
        };
        let units = collect(&shapes, 128, &CHIP, by_size).unwrap();
        let expected = [(0, 0, 0), (0, 0, 1), (0, 1, 0), (1, 0, 0), (1, 0, 1), (1, 1, 0)];
        let expected = expected.map(|(few, long, is_output)| [("FEW", few), ("LONG", long), ("O", is_output)]);
        assert_eq!(units, expected.map(|defines| Unit::new(Source::Rows, &defines)));
    }

    #[test]
    fn programs_that_differ_in_names_only_are_looked_at_once() {
        let all = [
            program("1", Rows::Batch, 64),
            program("2", Rows::Batch, 64),
            program("3", Rows::Batch, 128),
            program("4", Rows::Outputs, 64),
        ];
        let shapes: Vec<_> = all.iter().map(|program| ProgramShape { program, kv: None }).collect();
        let seen = RefCell::new(BTreeSet::new());
        let note = |_: &Op, shape: &Shape<'_>, _: &mut Vec<Launch>| {
            seen.borrow_mut().insert(shape.program.name.clone());
            Ok(())
        };
        collect(&shapes, 4, &CHIP, note).unwrap();
        assert_eq!(seen.into_inner().into_iter().collect::<Vec<_>>(), ["1", "3", "4"]);
        let refuse = |_: &Op, _: &Shape<'_>, _: &mut Vec<Launch>| Err(LaunchError::NoKv);
        assert_eq!(collect(&shapes, 4, &CHIP, refuse), Err(LaunchError::NoKv));
    }

    #[test]
    fn counts_end_with_the_most_there_can_be() {
        let rows = |most| row_counts(most).collect::<Vec<_>>();
        assert!(rows(0).is_empty());
        assert_eq!(rows(1), [1]);
        assert_eq!(rows(7), [1, 2, 3, 4, 5, 7]);
        assert_eq!(rows(17), [1, 2, 3, 4, 5, 8, 9, 16, 17]);
        assert_eq!(rows(3000).split_off(17), [512, 1024, 2048, 3000]);
        assert_eq!(positions(3, None), [3]);
        assert_eq!(positions(4, Some(kv(40))), [4, 8, 16, 32, 40]);
        assert_eq!(positions(64, Some(kv(64))), [64]);
        assert_eq!(*positions(1, Some(kv(u32::MAX))).last().unwrap(), u32::MAX);
    }
}
