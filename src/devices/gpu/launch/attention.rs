//! Attention: few rows divide the history among blocks, many rows are computed in tiles.

use super::{Arg, Launch, LaunchError, Shape, kv};
use crate::devices::gpu::unit::{Source, Unit};
use crate::devices::{KvSpec, Op};

const BLOCK: u32 = 256;
/// Steps of up to so many rows divide the history.
const MAX_DIVIDED_ROWS: u32 = 8;
/// Query heads that one block computes at most.
const MAX_HEADS: u32 = 8;
/// Keys that the kernel scores together: splits are whole multiples.
const KEYS: u32 = 256;
/// Rows of a tile.
const TILE_ROWS: u32 = 64;
/// Elements of V that a block of the tiled kernel computes.
const V_PART: u32 = 256;
/// Largest head.
const MAX_HEAD_DIM: u32 = 576;
/// What partial results may take before splits are made longer.
const MAX_PARTIAL_BYTES: u64 = 32 << 20;

/// How the history is cut. Depends on the cache and the model, never on the step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Splits {
    /// Keys of a split.
    len: u32,
    /// Splits of a full cache.
    n: u32,
}

impl Splits {
    fn new(kv: &KvSpec, n_head: u32) -> Splits {
        let mut len = KEYS;
        loop {
            let splits = Splits { len, n: kv.n_ctx.div_ceil(len).max(1) };
            if splits.n == 1 || splits.work_bytes(kv, n_head, MAX_DIVIDED_ROWS) <= MAX_PARTIAL_BYTES {
                return splits;
            }
            len = len.saturating_mul(2);
        }
    }

    /// Bytes of the partial outputs; their statistics follow.
    fn out_bytes(&self, kv: &KvSpec, n_head: u32, n_rows: u32) -> u64 {
        self.n_partials(n_head, n_rows) * u64::from(kv.head_dim_v) * 4
    }

    fn work_bytes(&self, kv: &KvSpec, n_head: u32, n_rows: u32) -> u64 {
        self.out_bytes(kv, n_head, n_rows) + self.n_partials(n_head, n_rows) * 8
    }

    fn n_partials(&self, n_head: u32, n_rows: u32) -> u64 {
        u64::from(self.n) * u64::from(n_head) * u64::from(n_rows)
    }
}

pub fn launches(op: &Op, shape: &Shape<'_>, to: &mut Vec<Launch>) -> Result<(), LaunchError> {
    let Op::Attention { q, n_head, scale, out } = op else {
        return Err(LaunchError::Unsupported("not an attention".into()));
    };
    let (kv, n_head, n_rows) = (shape.kv()?, *n_head, shape.n_rows());
    if n_head == 0 || kv.n_kv_head == 0 || !n_head.is_multiple_of(kv.n_kv_head) {
        let n_kv_head = kv.n_kv_head;
        return Err(LaunchError::Unsupported(format!("{n_head} heads cannot share {n_kv_head} KV heads evenly")));
    }
    let dims = [kv.head_dim_k, kv.head_dim_v];
    if dims.iter().any(|dim| *dim == 0 || *dim > MAX_HEAD_DIM) {
        let [k, v] = dims;
        return Err(LaunchError::Unsupported(format!("heads of {k} and {v} elements: at most {MAX_HEAD_DIM} work")));
    }
    let group = n_head / kv.n_kv_head;
    // Groups of more heads are divided as evenly as can be.
    let n_chunks = group.div_ceil(MAX_HEADS);
    let heads = group.div_ceil(n_chunks);
    let unit = Unit::new(
        Source::Attention,
        &[
            kv::dtype_define(&kv)?,
            ("LC_HEAD_DIM_K", i64::from(kv.head_dim_k)),
            ("LC_HEAD_DIM_V", i64::from(kv.head_dim_v)),
            ("LC_HEADS", i64::from(heads)),
        ],
    );
    let of_outputs = kv::of_outputs(shape);
    if n_rows > MAX_DIVIDED_ROWS {
        to.push(Launch {
            unit,
            entry: "attention_tile",
            grid: [n_head, n_rows.div_ceil(TILE_ROWS), kv.head_dim_v.div_ceil(V_PART)],
            block: BLOCK,
            args: vec![
                Arg::Step,
                Arg::Slot(*q),
                Arg::KvK,
                Arg::KvV,
                Arg::Slot(*out),
                Arg::U32(n_head),
                Arg::U32(group),
                Arg::U32(kv.n_ctx),
                Arg::F32(*scale),
                of_outputs,
            ],
        });
        return Ok(());
    }
    let splits = Splits::new(&kv, n_head);
    let n_launched = shape.n_positions.div_ceil(splits.len).clamp(1, splits.n);
    let (partial_out, partial_stats) = (Arg::Work(0), Arg::Work(splits.out_bytes(&kv, n_head, n_rows)));
    to.push(Launch {
        unit: unit.clone(),
        entry: "attention_split",
        grid: [n_launched, kv.n_kv_head * group.div_ceil(heads), n_rows],
        block: BLOCK,
        args: vec![
            Arg::Step,
            Arg::Slot(*q),
            Arg::KvK,
            Arg::KvV,
            partial_out.clone(),
            partial_stats.clone(),
            Arg::U32(n_head),
            Arg::U32(group),
            Arg::U32(kv.n_ctx),
            Arg::U32(splits.len),
            Arg::U32(splits.n),
            Arg::F32(*scale),
            of_outputs.clone(),
        ],
    });
    to.push(Launch {
        unit,
        entry: "attention_combine",
        grid: [n_head, n_rows, 1],
        block: BLOCK,
        args: vec![
            Arg::Step,
            partial_out,
            partial_stats,
            Arg::Slot(*out),
            Arg::U32(n_head),
            Arg::U32(splits.len),
            Arg::U32(splits.n),
            of_outputs,
        ],
    });
    Ok(())
}

/// Partial results of as many rows as divide the history.
pub fn work_bytes(op: &Op, shape: &Shape<'_>) -> u64 {
    let (Op::Attention { n_head, .. }, Some(kv)) = (op, shape.kv) else { return 0 };
    let n_rows = shape.n_tokens.max(shape.n_outputs).min(MAX_DIVIDED_ROWS);
    Splits::new(&kv, *n_head).work_bytes(&kv, *n_head, n_rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::devices::gpu::chip::{Arch, Chip};
    use crate::devices::quant::DType;
    use crate::devices::{Program, Rows, Slot};

    fn spec(dims: (u32, u32), n_kv_head: u32, n_ctx: u32) -> KvSpec {
        KvSpec { dtype: DType::F16, head_dim_k: dims.0, head_dim_v: dims.1, n_kv_head, n_ctx }
    }

    fn make(kv: KvSpec, n_head: u32, n_tokens: u32, n_positions: u32) -> (Result<Vec<Launch>, LaunchError>, u64) {
        let chip = Chip { arch: Arch::Gfx(0x1100), wave_size: 32, n_multiprocessors: 48 };
        let program = Program { name: "t".into(), rows: Rows::Batch, weights: vec![], ops: vec![] };
        let op = Op::Attention { q: Slot(0), n_head, scale: 0.125, out: Slot(1) };
        let shape = Shape { program: &program, kv: Some(kv), chip: &chip, n_tokens, n_outputs: 0, n_positions };
        let mut to = vec![];
        let result = launches(&op, &shape, &mut to).map(|()| to);
        (result, work_bytes(&op, &shape))
    }

    #[test]
    fn few_rows_divide_the_history() {
        let (launches, _) = make(spec((64, 64), 3, 5000), 9, 2, 600);
        let launches = launches.unwrap();
        assert_eq!(launches.iter().map(|l| l.entry).collect::<Vec<_>>(), ["attention_split", "attention_combine"]);
        assert_eq!(launches[0].grid, [3, 3, 2]);
        assert_eq!(launches[1].grid, [9, 2, 1]);
        let expected = [("LC_HEADS", 3), ("LC_HEAD_DIM_K", 64), ("LC_HEAD_DIM_V", 64), ("LC_KV", 1)];
        let mut defines = launches[0].unit.defines.clone();
        defines.sort_by_key(|(name, _)| expected.iter().position(|(n, _)| n == name));
        assert_eq!(defines, expected);
        // More positions than the cache has launch no more splits than it has.
        assert_eq!(make(spec((64, 64), 3, 5000), 9, 1, 90_000).0.unwrap()[0].grid, [20, 3, 1]);
    }

    #[test]
    fn large_groups_are_divided_evenly() {
        for (n_head, heads, n_blocks) in [(14, 7, 2), (18, 5, 4), (16, 8, 2), (2, 1, 2), (128, 8, 16)] {
            let launches = make(spec((16, 16), 2, 100), n_head, 1, 100).0.unwrap();
            assert!(launches[0].unit.defines.contains(&("LC_HEADS", heads)), "{n_head}");
            assert_eq!(launches[0].grid[1], n_blocks, "{n_head}");
        }
    }

    #[test]
    fn many_rows_are_tiles() {
        let launches = make(spec((576, 512), 1, 5000), 16, 130, 130).0.unwrap();
        assert_eq!(launches.len(), 1);
        assert_eq!((launches[0].entry, launches[0].grid), ("attention_tile", [16, 3, 2]));
    }

    #[test]
    fn working_memory_covers_what_launches_touch_and_is_bounded() {
        for (n_ctx, n_head, dim) in [(1, 1, 1), (4096, 32, 128), (92_000, 64, 128), (1 << 20, 128, 576)] {
            let kv = spec((dim, dim), 1, n_ctx);
            for n_rows in [1, 3, 8] {
                let (launches, n_bytes) = make(kv, n_head, n_rows, n_ctx);
                let splits = Splits::new(&kv, n_head);
                assert!(splits.len.is_multiple_of(KEYS) && splits.len * splits.n >= n_ctx);
                let launches = launches.unwrap();
                let n_partials = u64::from(launches[0].grid[0] * n_head * n_rows);
                let Arg::Work(stats) = launches[0].args[5] else { panic!("no statistics") };
                assert!(stats >= n_partials * u64::from(dim) * 4 && n_bytes >= stats + n_partials * 8);
                assert!(n_bytes <= MAX_PARTIAL_BYTES, "{n_ctx}: {n_bytes}");
                // A larger batch may be followed by a smaller step.
                assert!(make(kv, n_head, 512, n_ctx).1 >= n_bytes);
            }
        }
    }

    #[test]
    fn what_does_not_fit_is_an_error() {
        for (kv, n_head) in [(spec((64, 64), 3, 9), 8), (spec((64, 64), 3, 9), 0), (spec((640, 64), 1, 9), 8)] {
            assert!(matches!(make(kv, n_head, 1, 9).0, Err(LaunchError::Unsupported(_))));
        }
    }
}
