//! The op tests: every op in odd shapes with what it must give, for any device.
//!
//! A [`Case`] is a program of one or a few ops, its weights, KV cache and inputs, and the result in F64. A device's
//! tests run [`all`] through [`Case::check`].

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::op::{Activation, Gating, Projection, RopeFrequencies, RopePairing, WeightRole};
use super::quant::{DType, q8_0};
use super::{
    Bindings, BoundProgram, Device, DeviceError, KvCache, KvSpec, Op, Program, Rows, Scratch, Slot, Step, WeightRef,
    WeightSpec,
};

/// Sums of squares of errors over those of values, for F32 arithmetic in any order.
pub const F32_NMSE: f64 = 1e-11;
/// With activations rounded to 8 bits.
pub const INT8_NMSE: f64 = 2e-4;
/// KV rounded to F16, where the expected values are not.
pub const F16_NMSE: f64 = 1e-6;
/// KV rounded to Q8_0, where the expected values are not.
pub const Q8_NMSE: f64 = 1e-4;

/// Bytes between slots: a slot that is written past its end would not go unnoticed.
const GAP_BYTES: u64 = 128;
const GAP_BYTE: u8 = 0xc5;

/// Numbers that look random.
pub struct Noise(u64);

impl Noise {
    pub fn new(seed: u64) -> Noise {
        Noise(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x1234_5678)
    }

    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 ^ (self.0 >> 29)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 24
    }

    /// Between -1 and 1.
    pub fn value(&mut self) -> f32 {
        (self.bits() & 0xff_ffff) as f32 / 8_388_608.0 - 1.0
    }

    pub fn values(&mut self, n: usize) -> Vec<f32> {
        (0..n).map(|_| self.value()).collect()
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.bits() % n as u64) as usize
    }
}

/// A weight in the file's layout, with its exact values.
#[derive(Clone)]
pub struct TestWeight {
    pub spec: WeightSpec,
    pub bytes: Vec<u8>,
    pub values: Vec<f64>,
}

/// Values of about 1 in any supported type.
pub fn weight(noise: &mut Noise, dtype: DType, shape: &[usize], role: WeightRole) -> TestWeight {
    let n: usize = shape.iter().product();
    let mut bytes: Vec<u8> = match dtype {
        DType::F32 => noise.values(n).iter().flat_map(|x| x.to_le_bytes()).collect(),
        DType::F16 => noise.values(n).iter().flat_map(|x| half::f16::from_f32(*x).to_le_bytes()).collect(),
        DType::BF16 => noise.values(n).iter().flat_map(|x| half::bf16::from_f32(*x).to_le_bytes()).collect(),
        _ => (0..n / dtype.block_len() * dtype.block_bytes()).map(|_| noise.bits() as u8).collect(),
    };
    // Random bytes are good codes, but scales must be sane.
    let (fields, scale): (&[usize], f32) = match dtype {
        DType::Q4_0 => (&[0], 0.1),
        DType::Q4_1 => (&[0, 2], 0.1),
        DType::Q8_0 => (&[0], 0.008),
        DType::Q4_K => (&[0, 2], 0.002),
        DType::Q6_K => (&[208], 0.0005),
        _ => (&[], 0.0),
    };
    for block in bytes.chunks_exact_mut(dtype.block_bytes()) {
        for &at in fields {
            let d = half::f16::from_f32(scale * (1.0 + 0.5 * noise.value()));
            block[at..at + 2].copy_from_slice(&d.to_le_bytes());
        }
    }
    let mut values = vec![0.0; n];
    dtype.dequantise(&bytes, &mut values).unwrap();
    let shape: Vec<u64> = shape.iter().map(|&d| d as u64).collect();
    let spec = WeightSpec { name: format!("{role:?}.{dtype}"), dtype, shape, role };
    TestWeight { spec, bytes, values: values.into_iter().map(f64::from).collect() }
}

/// What a slot must hold after the run.
#[derive(Clone, Debug)]
pub enum Expected {
    /// `[width, rows]` within an error, which is larger where matrices are multiplied with int8 activations.
    Near { values: Vec<f64>, nmse: f64, nmse_int8: f64 },
    /// u32, exactly.
    Ids(Vec<u32>),
}

impl Expected {
    fn near(values: Vec<f64>) -> Expected {
        Expected::Near { values, nmse: F32_NMSE, nmse_int8: F32_NMSE }
    }
}

/// K or V of a cache that a case starts with, `[head_dim, n_ctx, n_kv_head]` in F32.
#[derive(Clone)]
pub struct KvValues {
    pub k: Vec<f32>,
    pub v: Vec<f32>,
}

/// One program and what it must give.
#[derive(Clone)]
pub struct Case {
    pub name: String,
    pub program: Program,
    pub weights: Vec<TestWeight>,
    pub kv: Option<(KvSpec, KvValues)>,
    /// Width of each slot.
    pub widths: Vec<usize>,
    pub inputs: Vec<(Slot, Vec<f32>)>,
    pub step: Step,
    pub expected: Vec<(Slot, Expected)>,
    /// The cache after the run, where the program appends to it, and the error allowed.
    pub expected_kv: Option<(KvValues, f64)>,
}

/// What a run left.
#[derive(Clone, PartialEq)]
pub struct Outcome {
    /// Bits of each slot's rows.
    pub slots: Vec<Vec<u32>>,
    pub k: Vec<u8>,
    pub v: Vec<u8>,
}

impl Case {
    /// Runs the case from nothing.
    pub fn run(&self, device: &dyn Device) -> Result<Outcome, DeviceError> {
        let n_rows = self.step.tokens.len();
        let mut offsets = vec![];
        let mut n_bytes = GAP_BYTES;
        for width in &self.widths {
            offsets.push(Some(n_bytes));
            n_bytes += (width * n_rows * 4) as u64 + GAP_BYTES;
        }
        let scratch = device.alloc("scratch", n_bytes)?;
        let mut image = vec![GAP_BYTE; n_bytes as usize];
        for (slot, values) in &self.inputs {
            let at = offsets[usize::from(slot.0)].unwrap() as usize;
            let bytes: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
            image[at..at + bytes.len()].copy_from_slice(&bytes);
        }
        device.upload(&scratch, 0, &image)?;
        let weights = self.weights.iter().map(|w| device.load_weight(&w.spec, &w.bytes));
        let kv = match &self.kv {
            None => None,
            Some((spec, values)) => {
                let (k, v) = (device.alloc("K", spec.k_bytes())?, device.alloc("V", spec.v_bytes())?);
                device.upload(&k, 0, &encode(spec.dtype, spec.head_dim_k as usize, &values.k))?;
                device.upload(&v, 0, &encode(spec.dtype, spec.head_dim_v as usize, &values.v))?;
                Some(KvCache { spec: *spec, k, v })
            }
        };
        let bindings = Bindings {
            weights: weights.collect::<Result<_, _>>()?,
            kv,
            scratch: Scratch { buffer: scratch.clone(), slot_offsets: offsets.clone().into() },
        };
        let bound = BoundProgram { program: &self.program, bindings: &bindings };
        device.run(&[bound], &self.step, &AtomicBool::new(false))?;
        device.download(&scratch, 0, &mut image)?;
        let slots = self.widths.iter().zip(&offsets).map(|(width, offset)| {
            let start = offset.unwrap() as usize;
            let end = start + width * n_rows * 4;
            let gap = &image[end..end + GAP_BYTES as usize];
            assert!(gap.iter().all(|&b| b == GAP_BYTE), "{}: wrote past the end of a slot", self.name);
            image[start..end].as_chunks::<4>().0.iter().map(|b| u32::from_le_bytes(*b)).collect()
        });
        let mut outcome = Outcome { slots: slots.collect(), k: vec![], v: vec![] };
        if let Some(kv) = &bindings.kv {
            outcome.k = vec![0; kv.k.n_bytes() as usize];
            outcome.v = vec![0; kv.v.n_bytes() as usize];
            device.download(&kv.k, 0, &mut outcome.k)?;
            device.download(&kv.v, 0, &mut outcome.v)?;
        }
        Ok(outcome)
    }

    /// Runs the case and compares with what is expected. `int8`: the device rounds activations to 8 bits.
    pub fn check(&self, device: &dyn Device, int8: bool) -> Outcome {
        let outcome = self.run(device).unwrap_or_else(|error| panic!("{}: {error}", self.name));
        for (slot, expected) in &self.expected {
            let actual = &outcome.slots[usize::from(slot.0)];
            match expected {
                Expected::Ids(ids) => assert_eq!(&actual[..ids.len()], ids, "{}: slot {}", self.name, slot.0),
                Expected::Near { values, nmse, nmse_int8 } => {
                    let limit = if int8 { *nmse_int8 } else { *nmse };
                    let actual = actual[..values.len()].iter().map(|b| f64::from(f32::from_bits(*b)));
                    assert_near(&format!("{}: slot {}", self.name, slot.0), actual, values, limit);
                }
            }
        }
        if let (Some((values, limit)), Some((spec, _))) = (&self.expected_kv, &self.kv) {
            for (name, bytes, dim, expected) in
                [("K", &outcome.k, spec.head_dim_k, &values.k), ("V", &outcome.v, spec.head_dim_v, &values.v)]
            {
                let actual = decode(spec.dtype, dim as usize, bytes);
                let expected: Vec<f64> = expected.iter().map(|&x| f64::from(x)).collect();
                assert_near(&format!("{}: {name}", self.name), actual.iter().map(|&x| f64::from(x)), &expected, *limit);
            }
        }
        outcome
    }

    /// The same for some of the rows alone. Only for programs over [`Rows::Batch`].
    pub fn of_rows(&self, rows: std::ops::Range<usize>) -> Case {
        assert_eq!(self.program.rows, Rows::Batch);
        let mut case = self.clone();
        case.name = format!("{}, rows {rows:?} alone", self.name);
        case.step.tokens = self.step.tokens[rows.clone()].to_vec();
        case.step.first_position += rows.start as u32;
        case.step.outputs = 0..0;
        for (slot, values) in &mut case.inputs {
            let width = self.widths[usize::from(slot.0)];
            *values = values[rows.start * width..rows.end * width].to_vec();
        }
        case.expected.clear();
        case.expected_kv = None;
        case
    }

    /// Asserts that rows have the same bits alone, in any part of the batch, and in the whole.
    pub fn check_rows_are_independent(&self, device: &dyn Device) {
        let whole = self.run(device).unwrap();
        let n = self.step.tokens.len();
        let mut parts: Vec<_> = (0..n.min(4)).map(|r| r..r + 1).collect();
        parts.extend([0..n.div_ceil(2), n / 2..n, n - 1..n]);
        for rows in parts {
            let part = self.of_rows(rows.clone());
            let outcome = part.run(device).unwrap();
            for (slot, _) in &self.expected {
                let width = self.widths[usize::from(slot.0)];
                let of_whole = &whole.slots[usize::from(slot.0)][rows.start * width..rows.end * width];
                assert!(outcome.slots[usize::from(slot.0)] == of_whole, "{}: other bits", part.name);
            }
        }
    }
}

fn assert_near(name: &str, actual: impl Iterator<Item = f64>, expected: &[f64], limit: f64) {
    let (mut error, mut size, mut n) = (0.0, 0.0, 0);
    for (a, e) in actual.zip(expected) {
        error += (a - e) * (a - e);
        size += e * e;
        n += 1;
    }
    assert_eq!(n, expected.len(), "{name}");
    let nmse = if error == 0.0 { 0.0 } else { error / size };
    assert!(nmse <= limit, "{name}: NMSE {nmse:e} is above {limit:e}");
}

/// Rows of `dim` in a KV cache's type; the last block of a row is padded with zeros.
pub fn encode(dtype: DType, dim: usize, values: &[f32]) -> Vec<u8> {
    match dtype {
        DType::F32 => values.iter().flat_map(|x| x.to_le_bytes()).collect(),
        DType::F16 => values.iter().flat_map(|x| half::f16::from_f32(*x).to_le_bytes()).collect(),
        DType::Q8_0 => {
            let encode_row = |row: &[f32]| {
                let mut padded = row.to_vec();
                padded.resize(dim.next_multiple_of(32), 0.0);
                let mut out = vec![0; padded.len() / 32 * 34];
                q8_0::quantise_row(&padded, &mut out);
                out
            };
            values.chunks(dim).flat_map(encode_row).collect()
        }
        other => panic!("{other} is no type of a KV cache"),
    }
}

/// The inverse of [`encode`].
pub fn decode(dtype: DType, dim: usize, bytes: &[u8]) -> Vec<f32> {
    let padded = dim.next_multiple_of(dtype.block_len());
    let row_bytes = padded / dtype.block_len() * dtype.block_bytes();
    let decode_row = |row: &[u8]| {
        let mut out = vec![0.0; padded];
        dtype.dequantise(row, &mut out).unwrap();
        out.truncate(dim);
        out
    };
    bytes.chunks(row_bytes).flat_map(decode_row).collect()
}

/// Puts a case together: slots are numbered as they are added.
struct Builder {
    case: Case,
    noise: Noise,
}

impl Builder {
    fn new(name: impl Debug, n_rows: usize, first_position: u32) -> Builder {
        let name = format!("{name:?}, {n_rows} rows at {first_position}");
        let seed = name.bytes().fold(7, |h: u64, b| h.wrapping_mul(31).wrapping_add(u64::from(b)));
        let program = Program { name: "test".into(), rows: Rows::Batch, weights: vec![], ops: vec![] };
        let step = Step { tokens: vec![0; n_rows], first_position, outputs: 0..0 };
        let case = Case {
            name,
            program,
            weights: vec![],
            kv: None,
            widths: vec![],
            inputs: vec![],
            step,
            expected: vec![],
            expected_kv: None,
        };
        Builder { case, noise: Noise::new(seed) }
    }

    fn n_rows(&self) -> usize {
        self.case.step.tokens.len()
    }

    /// A slot with nothing in it.
    fn slot(&mut self, width: usize) -> Slot {
        self.case.widths.push(width);
        Slot(self.case.widths.len() as u8 - 1)
    }

    /// A slot with values of about `size`.
    fn input(&mut self, width: usize, size: f32) -> (Slot, Vec<f64>) {
        let values: Vec<f32> = self.noise.values(width * self.n_rows()).iter().map(|x| x * size).collect();
        self.input_of(width, values)
    }

    fn input_of(&mut self, width: usize, values: Vec<f32>) -> (Slot, Vec<f64>) {
        let slot = self.slot(width);
        let exact = values.iter().map(|&x| f64::from(x)).collect();
        self.case.inputs.push((slot, values));
        (slot, exact)
    }

    fn weight(&mut self, dtype: DType, shape: &[usize], role: WeightRole) -> (WeightRef, Vec<f64>) {
        let weight = weight(&mut self.noise, dtype, shape, role);
        let values = weight.values.clone();
        self.case.program.weights.push(weight.spec.clone());
        self.case.weights.push(weight);
        (WeightRef(self.case.weights.len() as u16 - 1), values)
    }

    fn op(&mut self, op: Op) {
        self.case.program.ops.push(op);
    }

    fn expect(&mut self, slot: Slot, expected: Expected) {
        self.case.expected.push((slot, expected));
    }

    /// A cache with values everywhere, also past the step: they must not matter.
    fn kv(&mut self, spec: KvSpec) -> KvValues {
        let n = spec.n_ctx as usize * spec.n_kv_head as usize;
        let k = self.noise.values(n * spec.head_dim_k as usize);
        let v = self.noise.values(n * spec.head_dim_v as usize);
        let rounded = |dim: u32, x: &[f32]| decode(spec.dtype, dim as usize, &encode(spec.dtype, dim as usize, x));
        let values = KvValues { k: rounded(spec.head_dim_k, &k), v: rounded(spec.head_dim_v, &v) };
        self.case.kv = Some((spec, KvValues { k, v }));
        values
    }
}

const F32: DType = DType::F32;

/// `[n_out]` of one row: `weight [n_in, n_out]`.
fn product(weight: &[f64], x: &[f64]) -> Vec<f64> {
    weight.chunks(x.len()).map(|w| w.iter().zip(x).map(|(w, x)| w * x).sum()).collect()
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

fn embed(dtype: DType, n_embd: usize, n_vocab: usize, n_rows: usize) -> Case {
    let mut b = Builder::new(("embed", dtype, n_embd), n_rows, 0);
    let (table, values) = b.weight(dtype, &[n_embd, n_vocab], WeightRole::Table);
    let out = b.slot(n_embd);
    for r in 0..n_rows {
        b.case.step.tokens[r] = if r == 0 { n_vocab as u32 - 1 } else { b.noise.below(n_vocab) as u32 };
    }
    let rows = b.case.step.tokens.iter().flat_map(|&t| values[t as usize * n_embd..][..n_embd].to_vec()).collect();
    b.expect(out, Expected::Near { values: rows, nmse: 0.0, nmse_int8: 0.0 });
    b.op(Op::Embed { table, n_embd: n_embd as u32, out });
    b.case
}

fn take_outputs(width: usize, n_rows: usize, outputs: std::ops::Range<u32>) -> Case {
    let mut b = Builder::new(("take outputs", width, &outputs), n_rows, 3);
    b.case.program.rows = Rows::Outputs;
    let (x, values) = b.input(width, 1.0);
    let out = b.slot(width);
    let taken = values[outputs.start as usize * width..outputs.end as usize * width].to_vec();
    b.case.step.outputs = outputs;
    b.expect(out, Expected::Near { values: taken, nmse: 0.0, nmse_int8: 0.0 });
    b.op(Op::TakeOutputs { x, width: width as u32, out });
    b.case
}

fn rms_norm(width: usize, n_groups: usize, in_place: bool, n_rows: usize) -> Case {
    let mut b = Builder::new(("norm", width, n_groups, in_place), n_rows, 0);
    let (x, values) = b.input(width * n_groups, 3.0);
    let (weight, scale) = b.weight(F32, &[width], WeightRole::Vector);
    let out = if in_place { x } else { b.slot(width * n_groups) };
    let eps = 1e-5f32;
    let norm = |group: &[f64]| {
        let mean = group.iter().map(|x| x * x).sum::<f64>() / width as f64;
        let factor = 1.0 / (mean + f64::from(eps)).sqrt();
        group.iter().zip(&scale).map(|(x, w)| x * factor * w).collect::<Vec<_>>()
    };
    b.expect(out, Expected::near(values.chunks(width).flat_map(norm).collect()));
    b.op(Op::RmsNorm { x, weight, width: width as u32, n_groups: n_groups as u32, eps, out });
    b.case
}

/// What a product is added to.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Add {
    None,
    Other,
    InPlace,
}

fn matmul(n_in: usize, matrices: &[(DType, usize, bool, Add)], n_rows: usize) -> Case {
    let mut b = Builder::new(("matmul", n_in, matrices), n_rows, 0);
    let (x, values) = b.input(n_in, 1.0);
    let mut projections = vec![];
    for &(dtype, n_out, with_bias, added) in matrices {
        let (weight, matrix) = b.weight(dtype, &[n_in, n_out], WeightRole::Matrix);
        let bias = with_bias.then(|| b.weight(F32, &[n_out], WeightRole::Vector));
        let (add, add_values) = match added {
            Add::None => (None, vec![0.0; n_out * n_rows]),
            _ => {
                let (slot, values) = b.input(n_out, 1.0);
                (Some(slot), values)
            }
        };
        let out = match (added, add) {
            (Add::InPlace, Some(add)) => add,
            _ => b.slot(n_out),
        };
        let mut expected: Vec<f64> = values.chunks(n_in).flat_map(|x| product(&matrix, x)).collect();
        for (i, e) in expected.iter_mut().enumerate() {
            *e += add_values[i] + bias.as_ref().map_or(0.0, |(_, values)| values[i % n_out]);
        }
        let nmse_int8 = if dtype.block_len() > 1 { INT8_NMSE } else { F32_NMSE };
        b.expect(out, Expected::Near { values: expected, nmse: F32_NMSE, nmse_int8 });
        projections.push(Projection { weight, bias: bias.map(|(w, _)| w), n_out: n_out as u32, out, add });
    }
    b.op(Op::MatMul { x, n_in: n_in as u32, projections });
    b.case
}

fn rope(
    (n_head, head_dim, n_rot): (usize, usize, usize),
    pairing: RopePairing,
    with_factors: bool,
    n_rows: usize,
    first_position: u32,
) -> Case {
    let mut b = Builder::new(("rope", n_head, head_dim, n_rot, pairing, with_factors), n_rows, first_position);
    let (x, mut values) = b.input(n_head * head_dim, 1.0);
    let n_pairs = n_rot / 2;
    let inv_freq: Arc<[f32]> = (0..n_pairs).map(|i| 10_000f32.powf(-(i as f32) / n_pairs as f32)).collect();
    let factors = with_factors.then(|| b.weight(F32, &[n_pairs], WeightRole::Vector));
    let magnitude = 1.25f32;
    for (row, x) in values.chunks_mut(n_head * head_dim).enumerate() {
        for head in x.chunks_mut(head_dim) {
            for i in 0..n_pairs {
                let position = f64::from(first_position) + row as f64;
                let factor = factors.as_ref().map_or(1.0, |(_, f)| f[i]);
                let angle = position * f64::from(inv_freq[i]) / factor;
                let (c, s) = (angle.cos() * f64::from(magnitude), angle.sin() * f64::from(magnitude));
                let (j, k) = match pairing {
                    RopePairing::Adjacent => (2 * i, 2 * i + 1),
                    RopePairing::Halves => (i, i + n_pairs),
                };
                (head[j], head[k]) = (head[j] * c - head[k] * s, head[j] * s + head[k] * c);
            }
        }
    }
    b.expect(x, Expected::near(values));
    b.op(Op::Rope {
        x,
        n_head: n_head as u32,
        head_dim: head_dim as u32,
        n_rot: n_rot as u32,
        pairing,
        frequencies: RopeFrequencies { inv_freq, magnitude },
        factors: factors.map(|(w, _)| w),
    });
    b.case
}

fn kv_append(dtype: DType, dims: (u32, u32), n_rows: usize, first_position: u32) -> Case {
    let mut b = Builder::new(("append", dtype, dims), n_rows, first_position);
    let n_ctx = first_position + n_rows as u32 + 1;
    let spec = KvSpec { dtype, head_dim_k: dims.0, head_dim_v: dims.1, n_kv_head: 3, n_ctx };
    let mut after = b.kv(spec);
    let (k, k_values) = b.input(dims.0 as usize * 3, 1.0);
    let (v, v_values) = b.input(dims.1 as usize * 3, 1.0);
    for (cache, values, dim) in [(&mut after.k, k_values, dims.0), (&mut after.v, v_values, dims.1)] {
        for (i, row) in values.chunks(dim as usize).enumerate() {
            let (row_index, head) = (i / 3, i % 3);
            let at = (head * n_ctx as usize + first_position as usize + row_index) * dim as usize;
            cache[at..at + row.len()].iter_mut().zip(row).for_each(|(c, x)| *c = *x as f32);
        }
    }
    let limit = match dtype {
        DType::F32 => 0.0,
        DType::F16 => F16_NMSE,
        _ => Q8_NMSE,
    };
    b.case.expected_kv = Some((after, limit));
    b.op(Op::KvAppend { k, v });
    b.case
}

/// `[dim_v * n_head]` of one row that sees `n_keys`.
fn attention_row(spec: &KvSpec, kv: &KvValues, q: &[f64], n_head: usize, scale: f64, n_keys: usize) -> Vec<f64> {
    let (dim_k, dim_v, n_ctx) = (spec.head_dim_k as usize, spec.head_dim_v as usize, spec.n_ctx as usize);
    let group = n_head / spec.n_kv_head as usize;
    let of_head = |h: usize| {
        let first = h / group * n_ctx;
        let q = &q[h * dim_k..(h + 1) * dim_k];
        let score = |key: usize| {
            let k = &kv.k[(first + key) * dim_k..(first + key + 1) * dim_k];
            scale * q.iter().zip(k).map(|(q, k)| q * f64::from(*k)).sum::<f64>()
        };
        let scores: Vec<f64> = (0..n_keys).map(score).collect();
        let max = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = scores.iter().map(|s| (s - max).exp()).sum();
        let mut out = vec![0.0; dim_v];
        for (key, s) in scores.iter().enumerate() {
            let v = &kv.v[(first + key) * dim_v..(first + key + 1) * dim_v];
            out.iter_mut().zip(v).for_each(|(o, v)| *o += (s - max).exp() / sum * f64::from(*v));
        }
        out
    };
    (0..n_head).flat_map(of_head).collect()
}

fn attention(
    dtype: DType,
    dims: (u32, u32),
    (n_head, n_kv_head): (usize, u32),
    n_rows: usize,
    first_position: u32,
) -> Case {
    let mut b = Builder::new(("attention", dtype, dims, n_head, n_kv_head), n_rows, first_position);
    let n_ctx = first_position + n_rows as u32 + 5;
    let spec = KvSpec { dtype, head_dim_k: dims.0, head_dim_v: dims.1, n_kv_head, n_ctx };
    let kv = b.kv(spec);
    let width = n_head * dims.0 as usize;
    // Large enough that some keys matter more than others.
    let (q, values) = b.input(width, 3.0);
    let out = b.slot(n_head * dims.1 as usize);
    let scale = 0.25f32;
    let row = |(r, q): (usize, &[f64])| {
        attention_row(&spec, &kv, q, n_head, f64::from(scale), first_position as usize + r + 1)
    };
    b.expect(out, Expected::near(values.chunks(width).enumerate().flat_map(row).collect()));
    b.op(Op::Attention { q, n_head: n_head as u32, scale, out });
    b.case
}

/// Which slot takes the result.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Out {
    Other,
    First,
    Second,
}

fn gated_activation(width: usize, place: Out, n_rows: usize) -> Case {
    let mut b = Builder::new(("activation", width, place), n_rows, 0);
    let (gate, gates) = b.input(width, 20.0);
    let (up, ups) = b.input(width, 1.0);
    let out = match place {
        Out::Other => b.slot(width),
        Out::First => gate,
        Out::Second => up,
    };
    b.expect(out, Expected::near(gates.iter().zip(&ups).map(|(g, u)| g * sigmoid(*g) * u).collect()));
    b.op(Op::GatedActivation { gate, up, activation: Activation::Silu, width: width as u32, out });
    b.case
}

fn route(
    (n_used, n_expert): (usize, usize),
    gating: Gating,
    with_bias: bool,
    normalise: bool,
    ties: bool,
    n_rows: usize,
) -> Case {
    let mut b = Builder::new(("route", n_used, n_expert, gating, with_bias, normalise, ties), n_rows, 0);
    let mut logits = b.noise.values(n_expert * n_rows);
    if ties {
        logits.iter_mut().for_each(|x| *x = (*x * 2.0).round());
    }
    let (logits, values) = b.input_of(n_expert, logits);
    let bias = with_bias.then(|| b.weight(F32, &[n_expert], WeightRole::Vector));
    let (ids, weights) = (b.slot(n_used), b.slot(n_used));
    let scale = 2.5f32;
    let (mut expected_ids, mut expected_weights) = (vec![], vec![]);
    for row in values.chunks(n_expert) {
        let sum: f64 = row.iter().map(|x| x.exp()).sum();
        let probability = |x: &f64| match gating {
            Gating::Softmax => x.exp() / sum,
            Gating::Sigmoid => sigmoid(*x),
        };
        let probabilities: Vec<f64> = row.iter().map(probability).collect();
        let merit = |i: usize| probabilities[i] + bias.as_ref().map_or(0.0, |(_, bias)| bias[i]);
        let mut order: Vec<usize> = (0..n_expert).collect();
        // Stable: ties keep the lower index first.
        order.sort_by(|&a, &b| merit(b).total_cmp(&merit(a)));
        let chosen: f64 = order[..n_used].iter().map(|&i| probabilities[i]).sum();
        let factor = f64::from(scale) / if normalise { chosen } else { 1.0 };
        expected_ids.extend(order[..n_used].iter().map(|&i| i as u32));
        expected_weights.extend(order[..n_used].iter().map(|&i| probabilities[i] * factor));
    }
    b.expect(ids, Expected::Ids(expected_ids));
    b.expect(weights, Expected::near(expected_weights));
    b.op(Op::Route {
        logits,
        bias: bias.map(|(w, _)| w),
        gating,
        n_expert: n_expert as u32,
        n_used: n_used as u32,
        normalise,
        scale,
        ids,
        weights,
    });
    b.case
}

fn expert_matmul(
    (n_in, n_expert, n_used): (usize, usize, usize),
    matrices: &[(DType, usize)],
    x_per_expert: bool,
    n_rows: usize,
) -> Case {
    let mut b = Builder::new(("experts", n_in, n_expert, n_used, matrices, x_per_expert), n_rows, 0);
    let x_rows = if x_per_expert { n_used } else { 1 };
    let (x, values) = b.input(n_in * x_rows, 1.0);
    let mut chosen = vec![];
    for _ in 0..n_rows {
        // Distinct, and never the last one.
        let start = b.noise.below(n_expert - 1);
        chosen.extend((0..n_used).map(|u| ((start + u * 2) % (n_expert - 1)) as u32));
    }
    let (ids, _) = b.input_of(n_used, chosen.iter().map(|&id| f32::from_bits(id)).collect());
    let mut projections = vec![];
    for &(dtype, n_out) in matrices {
        let (weight, stack) = b.weight(dtype, &[n_in, n_out, n_expert], WeightRole::Matrix);
        let out = b.slot(n_out * n_used);
        let of_choice = |(i, &id): (usize, &u32)| {
            let x = if x_per_expert { i } else { i / n_used };
            product(&stack[id as usize * n_in * n_out..][..n_in * n_out], &values[x * n_in..(x + 1) * n_in])
        };
        let expected = chosen.iter().enumerate().flat_map(of_choice).collect();
        let nmse_int8 = if dtype.block_len() > 1 { INT8_NMSE } else { F32_NMSE };
        b.expect(out, Expected::Near { values: expected, nmse: F32_NMSE, nmse_int8 });
        projections.push(Projection { weight, bias: None, n_out: n_out as u32, out, add: None });
    }
    b.op(Op::ExpertMatMul {
        x,
        x_per_expert,
        ids,
        n_in: n_in as u32,
        n_expert: n_expert as u32,
        n_used: n_used as u32,
        projections,
    });
    b.case
}

fn expert_combine(width: usize, n_used: usize, in_place: bool, n_rows: usize) -> Case {
    let mut b = Builder::new(("combine", width, n_used, in_place), n_rows, 0);
    let (x, values) = b.input(width * n_used, 1.0);
    let (weights, factors) = b.input(n_used, 1.0);
    let (add, mut sums) = b.input(width, 1.0);
    let out = if in_place { add } else { b.slot(width) };
    for (i, sum) in sums.iter_mut().enumerate() {
        let (row, column) = (i / width, i % width);
        *sum +=
            (0..n_used).map(|u| factors[row * n_used + u] * values[(row * n_used + u) * width + column]).sum::<f64>();
    }
    b.expect(out, Expected::near(sums));
    b.op(Op::ExpertCombine { x, weights, width: width as u32, n_used: n_used as u32, add, out });
    b.case
}

/// Norm, projections, rope, append, attention, projection back, gated feed-forward: the ops of a layer one after
/// another, where one that starts before the one before it has ended gives something else.
fn layer(dtype: DType, n_rows: usize, first_position: u32) -> Case {
    let (n_embd, n_head, n_kv_head, dim, n_ff) = (96, 6, 2, 16, 160);
    let mut b = Builder::new(("layer", dtype), n_rows, first_position);
    let n_ctx = first_position + n_rows as u32;
    let spec = KvSpec { dtype: F32, head_dim_k: dim as u32, head_dim_v: dim as u32, n_kv_head, n_ctx };
    let mut kv = b.kv(spec);
    let (h, mut hidden) = b.input(n_embd, 1.0);
    let widths = [n_embd, n_head * dim, n_kv_head as usize * dim, n_kv_head as usize * dim, n_head * dim, n_ff, n_ff];
    let [x, q, k, v, attended, gate, up] = widths.map(|width| b.slot(width));
    let mut matrix = |n_in: usize, n_out: usize| {
        // So small that values stay of one size.
        let (weight, values) = b.weight(dtype, &[n_in, n_out], WeightRole::Matrix);
        (weight, values, n_in, n_out)
    };
    let wq = matrix(n_embd, widths[1]);
    let (wk, wv) = (matrix(n_embd, widths[2]), matrix(n_embd, widths[3]));
    let wo = matrix(widths[4], n_embd);
    let (wg, wu, wd) = (matrix(n_embd, n_ff), matrix(n_embd, n_ff), matrix(n_ff, n_embd));
    let (norm, norm_values) = b.weight(F32, &[n_embd], WeightRole::Vector);
    let inv_freq: Arc<[f32]> = (0..dim / 2).map(|i| 100f32.powf(-(i as f32) / 8.0)).collect();
    let scale = 0.01f32;

    let to = |m: &(WeightRef, Vec<f64>, usize, usize), out: Slot, add: Option<Slot>| Projection {
        weight: m.0,
        bias: None,
        n_out: m.3 as u32,
        out,
        add,
    };
    let norm_op = Op::RmsNorm { x: h, weight: norm, width: n_embd as u32, n_groups: 1, eps: 1e-6, out: x };
    let turn = |x: Slot, n: usize| Op::Rope {
        x,
        n_head: n as u32,
        head_dim: dim as u32,
        n_rot: dim as u32,
        pairing: RopePairing::Halves,
        frequencies: RopeFrequencies { inv_freq: inv_freq.clone(), magnitude: 1.0 },
        factors: None,
    };
    let n_in = n_embd as u32;
    b.op(norm_op.clone());
    b.op(Op::MatMul { x, n_in, projections: vec![to(&wq, q, None), to(&wk, k, None), to(&wv, v, None)] });
    b.op(turn(q, n_head));
    b.op(turn(k, n_kv_head as usize));
    b.op(Op::KvAppend { k, v });
    b.op(Op::Attention { q, n_head: n_head as u32, scale, out: attended });
    b.op(Op::MatMul { x: attended, n_in: widths[4] as u32, projections: vec![to(&wo, h, Some(h))] });
    b.op(norm_op);
    b.op(Op::MatMul { x, n_in, projections: vec![to(&wg, gate, None), to(&wu, up, None)] });
    b.op(Op::GatedActivation { gate, up, activation: Activation::Silu, width: n_ff as u32, out: gate });
    b.op(Op::MatMul { x: gate, n_in: n_ff as u32, projections: vec![to(&wd, h, Some(h))] });

    let norm_row = |x: &[f64]| -> Vec<f64> {
        let factor = 1.0 / (x.iter().map(|x| x * x).sum::<f64>() / n_embd as f64 + 1e-6f32 as f64).sqrt();
        x.iter().zip(&norm_values).map(|(x, w)| x * factor * w).collect()
    };
    let turn_row = |x: &mut [f64], position: usize| {
        for head in x.chunks_mut(dim) {
            for i in 0..dim / 2 {
                let (s, c) = (position as f64 * f64::from(inv_freq[i])).sin_cos();
                (head[i], head[i + 8]) = (head[i] * c - head[i + 8] * s, head[i] * s + head[i + 8] * c);
            }
        }
    };
    for (r, h) in hidden.chunks_mut(n_embd).enumerate() {
        let position = first_position as usize + r;
        let x = norm_row(h);
        let (mut q, mut k, v) = (product(&wq.1, &x), product(&wk.1, &x), product(&wv.1, &x));
        turn_row(&mut q, position);
        turn_row(&mut k, position);
        for head in 0..n_kv_head as usize {
            let at = (head * n_ctx as usize + position) * dim;
            for i in 0..dim {
                kv.k[at + i] = k[head * dim + i] as f32;
                kv.v[at + i] = v[head * dim + i] as f32;
            }
        }
        let attended = attention_row(&spec, &kv, &q, n_head, f64::from(scale), position + 1);
        h.iter_mut().zip(product(&wo.1, &attended)).for_each(|(h, o)| *h += o);
        let x = norm_row(h);
        let gated: Vec<f64> =
            product(&wg.1, &x).iter().zip(product(&wu.1, &x)).map(|(g, u)| g * sigmoid(*g) * u).collect();
        h.iter_mut().zip(product(&wd.1, &gated)).for_each(|(h, o)| *h += o);
    }
    // Several products follow one another: errors add up.
    b.expect(h, Expected::Near { values: hidden, nmse: 20.0 * F32_NMSE, nmse_int8: 20.0 * INT8_NMSE });
    b.case
}

/// Every op in shapes that are not round.
pub fn all() -> Vec<Case> {
    let mut cases = vec![];
    for (dtype, n_embd) in
        [(F32, 7), (DType::F16, 33), (DType::BF16, 5), (DType::Q4_0, 64), (DType::Q8_0, 96), (DType::Q4_K, 512)]
    {
        cases.extend([embed(dtype, n_embd, 37, 1), embed(dtype, n_embd, 37, 6)]);
    }
    cases.extend([take_outputs(13, 5, 4..5), take_outputs(64, 9, 2..7), take_outputs(3, 4, 0..4)]);
    cases.push(take_outputs(3, 4, 2..2));
    for (width, n_groups) in [(1, 1), (7, 1), (8, 3), (64, 9), (129, 2), (576, 1)] {
        for in_place in [false, true] {
            cases.extend([rms_norm(width, n_groups, in_place, 1), rms_norm(width, n_groups, in_place, 11)]);
        }
    }
    for n_rows in [1, 2, 5, 37, 300] {
        use Add::{InPlace, Other};
        cases.push(matmul(64, &[(F32, 5, false, Add::None)], n_rows));
        cases.push(matmul(33, &[(DType::F16, 40, true, Other), (DType::BF16, 17, false, InPlace)], n_rows));
        cases.push(matmul(96, &[(DType::Q4_0, 48, false, Add::None), (DType::Q8_0, 33, true, InPlace)], n_rows));
        cases.push(matmul(64, &[(DType::Q4_1, 50, true, Add::None), (F32, 50, true, Other)], n_rows));
        cases.push(matmul(512, &[(DType::Q4_K, 30, true, Other), (DType::Q6_K, 20, false, Add::None)], n_rows));
    }
    for pairing in [RopePairing::Adjacent, RopePairing::Halves] {
        for (n_rows, position) in [(1, 0), (1, 12345), (9, 100_000)] {
            cases.push(rope((3, 64, 64), pairing, false, n_rows, position));
            cases.push(rope((2, 80, 34), pairing, true, n_rows, position));
            cases.push(rope((1, 5, 2), pairing, false, n_rows, position));
        }
    }
    for dtype in [F32, DType::F16, DType::Q8_0] {
        for dims in [(64, 64), (80, 33), (1, 7)] {
            cases.extend([kv_append(dtype, dims, 1, 0), kv_append(dtype, dims, 1, 19), kv_append(dtype, dims, 7, 3)]);
        }
        for (n_rows, position) in [(1, 0), (1, 63), (1, 64), (2, 510), (3, 1700), (70, 0), (70, 480)] {
            cases.push(attention(dtype, (64, 64), (9, 3), n_rows, position));
            cases.push(attention(dtype, (40, 33), (4, 4), n_rows, position));
        }
        cases.push(attention(dtype, (192, 128), (8, 1), 5, 100));
        cases.push(attention(dtype, (3, 1), (14, 2), 4, 1030));
        cases.push(attention(dtype, (16, 16), (2, 1), 1, 9000));
    }
    for width in [1, 8, 19, 160] {
        for place in [Out::Other, Out::First, Out::Second] {
            cases.extend([gated_activation(width, place, 1), gated_activation(width, place, 5)]);
        }
    }
    for gating in [Gating::Softmax, Gating::Sigmoid] {
        for (used, of) in [(1, 1), (2, 8), (8, 128), (5, 5)] {
            cases.push(route((used, of), gating, false, true, false, 1));
            cases.push(route((used, of), gating, true, false, false, 9));
            cases.push(route((used, of), gating, false, false, true, 9));
        }
    }
    for n_rows in [1, 3, 40] {
        for x_per_expert in [false, true] {
            cases.push(expert_matmul((64, 9, 3), &[(DType::Q4_0, 40), (DType::Q8_0, 17)], x_per_expert, n_rows));
            cases.push(expert_matmul((33, 5, 2), &[(F32, 20)], x_per_expert, n_rows));
        }
        cases.extend([expert_combine(33, 3, false, n_rows), expert_combine(64, 2, true, n_rows)]);
    }
    for (n_rows, position) in [(1, 0), (1, 700), (23, 40)] {
        cases.extend([layer(F32, n_rows, position), layer(DType::Q8_0, n_rows, position)]);
    }
    cases
}
