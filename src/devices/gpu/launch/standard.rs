//! The units of models of common shapes, for building kernels ahead without a model at hand.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::LaunchError;
use super::units::program_units;
use crate::devices::gpu::chip::Chip;
use crate::devices::gpu::unit::Unit;
use crate::devices::op::{Activation, Gating, Projection, RopeFrequencies, RopePairing, WeightRole};
use crate::devices::quant::DType;
use crate::devices::{KvSpec, Op, Program, ProgramShape, Rows, Slot, WeightRef, WeightSpec};

/// Rows of a step: more than the engine makes.
const MAX_ROWS: usize = 512;
/// Positions of the cache: a long one, so that kernels for few and for many positions are there.
const N_CTX: u32 = 131_072;

/// Sizes of heads of K and V.
const HEAD_DIMS: [(u32, u32); 7] = [(64, 64), (80, 80), (96, 96), (112, 112), (128, 128), (192, 128), (256, 256)];
/// How many heads share one of K and V.
const HEADS_PER_KV: [u32; 10] = [1, 2, 3, 4, 5, 6, 7, 8, 12, 16];
const KV_TYPES: [DType; 3] = [DType::F16, DType::Q8_0, DType::F32];
/// Widths of a model's activations: multiples of the largest block of weights, small and large.
const WIDTHS: [u32; 10] = [512, 768, 1024, 1536, 2048, 2560, 3072, 4096, 5120, 8192];
/// Experts, and how many of them a row uses.
const EXPERTS: [(u32, u32); 6] = [(8, 2), (16, 2), (32, 4), (64, 8), (128, 8), (256, 8)];
/// Widths of the products.
const N_IN: u32 = 1024;
const N_OUT: u32 = 512;

/// Every unit of the standard set for a chip: all weight formats, common head sizes, the types of the KV cache. Sorted,
/// each once.
///
/// What the kernels do not support for the chip is left out.
///
/// # Errors
/// Of ops that make no sense, which would be a mistake here.
pub fn standard_units(chip: &Chip) -> Result<Vec<Unit>, LaunchError> {
    let mut units = BTreeSet::new();
    for Case { program, kv } in cases() {
        match program_units(&[ProgramShape { program: &program, kv }], MAX_ROWS, chip) {
            Ok(of_case) => units.extend(of_case),
            Err(LaunchError::Unsupported(_)) => {}
            Err(error @ (LaunchError::NoWeight(_) | LaunchError::NoKv)) => return Err(error),
        }
    }
    Ok(units.into_iter().collect())
}

/// One op with what it needs.
struct Case {
    program: Program,
    kv: Option<KvSpec>,
}

const X: Slot = Slot(0);
const Y: Slot = Slot(1);
const Z: Slot = Slot(2);
const OUT: Slot = Slot(3);

fn case(op: Op, weights: Vec<WeightSpec>, kv: Option<KvSpec>) -> Case {
    let rows = if let Op::TakeOutputs { .. } = op { Rows::Outputs } else { Rows::Batch };
    Case { program: Program { name: "standard".to_owned(), rows, weights, ops: vec![op] }, kv }
}

fn weight(dtype: DType, shape: &[u32], role: WeightRole) -> WeightSpec {
    let shape = shape.iter().map(|n| u64::from(*n)).collect();
    WeightSpec { name: "standard".to_owned(), dtype, shape, role }
}

fn vector(n: u32) -> WeightSpec {
    weight(DType::F32, &[n], WeightRole::Vector)
}

fn formats() -> impl Iterator<Item = DType> {
    DType::ALL.iter().copied().filter(|dtype| dtype.is_supported())
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    rows_cases(&mut cases);
    for dtype in formats() {
        matmul_cases(dtype, &mut cases);
        expert_cases(dtype, &mut cases);
    }
    for (head_dim_k, head_dim_v) in HEAD_DIMS {
        rope_cases(head_dim_k, &mut cases);
        for dtype in KV_TYPES {
            attention_cases(dtype, head_dim_k, head_dim_v, &mut cases);
        }
    }
    EXPERTS.into_iter().for_each(|(n_expert, n_used)| route_cases(n_expert, n_used, &mut cases));
    cases
}

/// Embedding, norms, activations.
fn rows_cases(to: &mut Vec<Case>) {
    for dtype in formats() {
        let table = weight(dtype, &[N_IN, 1000], WeightRole::Table);
        to.push(case(Op::Embed { table: WeightRef(0), n_embd: N_IN, out: OUT }, vec![table], None));
    }
    let norm = |width, n_groups| {
        let op = Op::RmsNorm { x: X, weight: WeightRef(0), width, n_groups, eps: 1e-5, out: OUT };
        case(op, vec![vector(width)], None)
    };
    for width in WIDTHS {
        to.push(norm(width, 1));
        to.push(case(Op::TakeOutputs { x: X, width, out: OUT }, vec![], None));
        let activation = Activation::Silu;
        to.push(case(Op::GatedActivation { gate: X, up: Y, activation, width, out: OUT }, vec![], None));
    }
    to.extend(HEAD_DIMS.map(|(head_dim, _)| norm(head_dim, 8)));
}

fn projection(number: u16, bias: Option<WeightRef>, add: Option<Slot>) -> Projection {
    Projection { weight: WeightRef(number), bias, n_out: N_OUT, out: OUT, add }
}

/// One to three matrices of one input, with bias and addition.
fn matmul_cases(dtype: DType, to: &mut Vec<Case>) {
    let matrix = || weight(dtype, &[N_IN, N_OUT], WeightRole::Matrix);
    for n in 1..=3u16 {
        for (has_bias, add) in [(false, None), (true, None), (false, Some(OUT)), (true, Some(OUT))] {
            let biases = (0..n).filter(|_| has_bias).map(|_| vector(N_OUT));
            let weights = (0..n).map(|_| matrix()).chain(biases).collect();
            let of = |number| projection(number, has_bias.then_some(WeightRef(n + number)), add);
            to.push(case(Op::MatMul { x: X, n_in: N_IN, projections: (0..n).map(of).collect() }, weights, None));
        }
    }
}

fn expert_cases(dtype: DType, to: &mut Vec<Case>) {
    for (n_expert, n_used) in EXPERTS {
        for (x_per_expert, n) in [(false, 1), (false, 2), (true, 1)] {
            let matrix = weight(dtype, &[N_IN, N_OUT, n_expert], WeightRole::Matrix);
            let weights = (0..n).map(|_| matrix.clone()).collect();
            let projections = (0..n).map(|number| projection(number, None, None)).collect();
            let op = Op::ExpertMatMul { x: X, x_per_expert, ids: Y, n_in: N_IN, n_expert, n_used, projections };
            to.push(case(op, weights, None));
        }
    }
}

fn rope_cases(head_dim: u32, to: &mut Vec<Case>) {
    for pairing in [RopePairing::Adjacent, RopePairing::Halves] {
        for has_factors in [false, true] {
            // All of the head, or half of it.
            for n_rot in [head_dim, head_dim / 2] {
                let inv_freq = Arc::from(vec![1.0; n_rot as usize / 2]);
                let frequencies = RopeFrequencies { inv_freq, magnitude: 1.0 };
                let factors = has_factors.then_some(WeightRef(0));
                let weights = has_factors.then(|| vector(n_rot / 2)).into_iter().collect();
                let op = Op::Rope { x: X, n_head: 8, head_dim, n_rot, pairing, frequencies, factors };
                to.push(case(op, weights, None));
            }
        }
    }
}

fn attention_cases(dtype: DType, head_dim_k: u32, head_dim_v: u32, to: &mut Vec<Case>) {
    let is_whole = |head_dim: u32| (head_dim as usize).is_multiple_of(dtype.block_len());
    // Blocks of the cache do not straddle heads: the loader refuses such a cache.
    if !is_whole(head_dim_k) || !is_whole(head_dim_v) {
        return;
    }
    let n_kv_head = 2;
    let kv = Some(KvSpec { dtype, head_dim_k, head_dim_v, n_kv_head, n_ctx: N_CTX });
    to.push(case(Op::KvAppend { k: X, v: Y }, vec![], kv));
    for per_kv in HEADS_PER_KV {
        to.push(case(Op::Attention { q: X, n_head: n_kv_head * per_kv, scale: 0.125, out: OUT }, vec![], kv));
    }
}

fn route_cases(n_expert: u32, n_used: u32, to: &mut Vec<Case>) {
    for gating in [Gating::Softmax, Gating::Sigmoid] {
        for has_bias in [false, true] {
            for normalise in [false, true] {
                let bias = has_bias.then_some(WeightRef(0));
                let weights = has_bias.then(|| vector(n_expert)).into_iter().collect();
                let (ids, of_ids) = (Y, Z);
                let op = Op::Route {
                    logits: X,
                    bias,
                    gating,
                    n_expert,
                    n_used,
                    normalise,
                    scale: 1.0,
                    ids,
                    weights: of_ids,
                };
                to.push(case(op, weights, None));
            }
        }
    }
    for width in WIDTHS {
        to.push(case(Op::ExpertCombine { x: X, weights: Y, width, n_used, add: Z, out: OUT }, vec![], None));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_weight_is_there_and_fits_its_op() {
        for Case { program, kv } in cases() {
            for op in &program.ops {
                let weight = |weight: WeightRef| &program.weights[usize::from(weight.0)];
                match op {
                    Op::MatMul { projections, n_in, .. } => projections.iter().for_each(|p| {
                        assert_eq!(weight(p.weight).shape, [u64::from(*n_in), u64::from(p.n_out)]);
                        assert!(p.bias.is_none_or(|bias| weight(bias).shape == [u64::from(p.n_out)]));
                    }),
                    Op::ExpertMatMul { projections, n_expert, .. } => {
                        projections.iter().for_each(|p| assert_eq!(weight(p.weight).shape[2], u64::from(*n_expert)));
                    }
                    Op::Rope { factors, n_rot, frequencies, .. } => {
                        assert_eq!(frequencies.inv_freq.len() as u32, n_rot / 2);
                        assert!(factors.is_none_or(|f| weight(f).shape == [u64::from(n_rot / 2)]));
                    }
                    Op::RmsNorm { weight: w, width, .. } => assert_eq!(weight(*w).shape, [u64::from(*width)]),
                    Op::Embed { table, n_embd, .. } => assert_eq!(weight(*table).shape[0], u64::from(*n_embd)),
                    Op::Route { bias, n_expert, .. } => {
                        assert!(bias.is_none_or(|b| weight(b).shape == [u64::from(*n_expert)]));
                    }
                    Op::KvAppend { .. } | Op::Attention { .. } => assert!(kv.is_some()),
                    Op::TakeOutputs { .. } => assert_eq!(program.rows, Rows::Outputs),
                    Op::GatedActivation { .. } | Op::ExpertCombine { .. } => {}
                }
            }
            let whole = |w: &WeightSpec| w.shape[0].is_multiple_of(w.dtype.block_len() as u64);
            assert!(program.weights.iter().all(whole));
        }
    }

    #[test]
    fn all_formats_and_cache_types_are_among_the_cases() {
        let cases = cases();
        for dtype in formats() {
            let n = cases.iter().filter(|c| c.program.weights.iter().any(|w| w.dtype == dtype)).count();
            assert!(n >= 30, "{dtype}: {n}");
        }
        let kv = |dtype| cases.iter().filter_map(|c| c.kv).filter(move |kv| kv.dtype == dtype).map(|kv| kv.head_dim_k);
        let head_dims = |dtype| kv(dtype).collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>();
        assert_eq!(head_dims(DType::F16), [64, 80, 96, 112, 128, 192, 256]);
        assert_eq!(head_dims(DType::Q8_0), [64, 96, 128, 192, 256]);
    }
}
