//! Rotary position embedding.

use super::{Arg, Launch, LaunchError, Shape, kv};
use crate::devices::Op;
use crate::devices::gpu::unit::{Source, Unit};
use crate::devices::op::RopePairing;

const BLOCK: u32 = 256;
/// Pairs that the kernel has room for.
const MAX_PAIRS: u32 = 1024;
/// Heads that share a block's cosines and sines.
const HEADS_PER_BLOCK: u32 = 8;

pub fn launches(op: &Op, shape: &Shape<'_>, to: &mut Vec<Launch>) -> Result<(), LaunchError> {
    let Op::Rope { x, n_head, head_dim, n_rot, pairing, frequencies, factors } = op else {
        return Err(LaunchError::Unsupported("not a rotary embedding".into()));
    };
    let n_pairs = n_rot / 2;
    if n_rot % 2 != 0 || n_rot > head_dim || n_pairs > MAX_PAIRS || frequencies.inv_freq.len() != n_pairs as usize {
        let n = frequencies.inv_freq.len();
        return Err(LaunchError::Unsupported(format!("rope of {n_rot} of {head_dim} elements with {n} frequencies")));
    }
    if n_pairs == 0 || *n_head == 0 {
        return Ok(());
    }
    if let Some(factors) = factors {
        shape.weight(*factors)?;
    }
    let pairing = match pairing {
        RopePairing::Adjacent => 0,
        RopePairing::Halves => 1,
    };
    to.push(Launch {
        unit: Unit::new(Source::Rope, &[("LC_PAIRING", pairing)]),
        entry: "rope",
        grid: [n_head.div_ceil(HEADS_PER_BLOCK), shape.n_rows(), 1],
        block: BLOCK,
        args: vec![
            Arg::Step,
            Arg::Slot(*x),
            Arg::Constants(frequencies.inv_freq.clone()),
            factors.map_or(Arg::Null, Arg::Weight),
            Arg::U32(*n_head),
            Arg::U32(*head_dim),
            Arg::U32(*n_rot),
            Arg::U32(HEADS_PER_BLOCK),
            Arg::F32(frequencies.magnitude),
            kv::of_outputs(shape),
        ],
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::devices::gpu::chip::{Arch, Chip};
    use crate::devices::op::RopeFrequencies;
    use crate::devices::{Program, Rows, Slot, WeightRef};

    fn make(n_rot: u32, n_frequencies: usize, factors: Option<WeightRef>) -> Result<Vec<Launch>, LaunchError> {
        let chip = Chip { arch: Arch::Sm(90), wave_size: 32, n_multiprocessors: 132 };
        let frequencies = RopeFrequencies { inv_freq: vec![0.5; n_frequencies].into(), magnitude: 1.5 };
        let pairing = RopePairing::Halves;
        let op = Op::Rope { x: Slot(3), n_head: 9, head_dim: 64, n_rot, pairing, frequencies, factors };
        let program = Program { name: "t".into(), rows: Rows::Batch, weights: vec![], ops: vec![] };
        let shape = Shape { program: &program, kv: None, chip: &chip, n_tokens: 5, n_outputs: 0, n_positions: 5 };
        let mut to = vec![];
        launches(&op, &shape, &mut to).map(|()| to)
    }

    #[test]
    fn blocks_cover_heads_and_rows() {
        let launches = make(34, 17, None).unwrap();
        assert_eq!(launches.len(), 1);
        assert_eq!(launches[0].grid, [2, 5, 1]);
        assert_eq!(launches[0].unit.defines, [("LC_PAIRING", 1)]);
        assert_eq!(launches[0].args[2], Arg::Constants(vec![0.5; 17].into()));
        assert_eq!((&launches[0].args[3], &launches[0].args[8]), (&Arg::Null, &Arg::F32(1.5)));
        assert_eq!(make(0, 0, None), Ok(vec![]));
    }

    #[test]
    fn odd_shapes_and_missing_factors_are_errors() {
        for (n_rot, n_frequencies) in [(33, 16), (66, 33), (34, 16)] {
            assert!(matches!(make(n_rot, n_frequencies, None), Err(LaunchError::Unsupported(_))), "{n_rot}");
        }
        assert_eq!(make(34, 17, Some(WeightRef(0))), Err(LaunchError::NoWeight(WeightRef(0))));
    }
}
