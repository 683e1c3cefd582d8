use super::*;
use crate::devices::op::WeightRole;
use crate::devices::quant::{golden, q8_0};

const TYPES: [DType; 13] = [
    DType::F32,
    DType::F16,
    DType::BF16,
    DType::Q4_0,
    DType::Q4_1,
    DType::Q5_0,
    DType::Q5_1,
    DType::Q8_0,
    DType::Q2_K,
    DType::Q3_K,
    DType::Q4_K,
    DType::Q5_K,
    DType::Q6_K,
];

#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([u8; 64]);

/// Bytes aligned to 64.
struct Aligned(Vec<Line>, usize);

impl Aligned {
    fn new(n_bytes: usize) -> Aligned {
        Aligned(vec![Line([0xa5; 64]); n_bytes.div_ceil(64)], n_bytes)
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: lines are bytes, and there are enough.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr().cast(), self.1) }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts_mut(self.0.as_mut_ptr().cast(), self.1) }
    }
}

/// Numbers that look random.
struct Noise(u64);

impl Noise {
    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 ^ self.0 >> 29).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 16
    }

    /// Between -1 and 1.
    fn value(&mut self) -> f32 {
        (self.bits() & 0xff_ffff) as f32 / 8388608.0 - 1.0
    }

    fn values(&mut self, n: usize) -> Vec<f32> {
        (0..n).map(|_| self.value()).collect()
    }
}

/// Places of F16 scales in a block, and a size that makes values about 1.
fn scale_fields(dtype: DType) -> (&'static [usize], f32) {
    match dtype {
        DType::Q4_0 => (&[0], 0.1),
        DType::Q4_1 => (&[0, 2], 0.1),
        DType::Q5_0 => (&[0], 0.06),
        DType::Q5_1 => (&[0, 2], 0.06),
        DType::Q8_0 => (&[0], 0.008),
        DType::Q2_K => (&[80, 82], 0.03),
        DType::Q3_K => (&[108], 0.01),
        DType::Q4_K => (&[0, 2], 0.002),
        DType::Q5_K => (&[0, 2], 0.001),
        DType::Q6_K => (&[208], 0.0005),
        _ => (&[], 0.0),
    }
}

struct Matrix {
    layout: MatrixLayout,
    file: Vec<u8>,
    /// `[n_in, n_out, n_expert]`
    values: Vec<f32>,
    packed: Aligned,
}

impl Matrix {
    /// Random codes and scales.
    fn random(dtype: DType, n_in: usize, n_out: usize, n_expert: usize, noise: &mut Noise) -> Matrix {
        let n = n_in * n_out * n_expert;
        let file: Vec<u8> = match dtype {
            DType::F32 => noise.values(n).iter().flat_map(|x| x.to_le_bytes()).collect(),
            DType::F16 => noise.values(n).iter().flat_map(|x| half::f16::from_f32(*x).to_le_bytes()).collect(),
            DType::BF16 => noise.values(n).iter().flat_map(|x| half::bf16::from_f32(*x).to_le_bytes()).collect(),
            _ => {
                let mut file: Vec<u8> = (0..dtype.bytes_of(n as u64).unwrap()).map(|_| noise.bits() as u8).collect();
                let (fields, size) = scale_fields(dtype);
                for block in file.chunks_exact_mut(dtype.block_bytes()) {
                    for at in fields {
                        let scale = half::f16::from_f32(size * (1.0 + 0.5 * noise.value()));
                        block[*at..at + 2].copy_from_slice(&scale.to_le_bytes());
                    }
                }
                file
            }
        };
        Matrix::new(dtype, n_in, n_out, n_expert, file)
    }

    fn new(dtype: DType, n_in: usize, n_out: usize, n_expert: usize, file: Vec<u8>) -> Matrix {
        let shape = match n_expert {
            1 => vec![n_in as u64, n_out as u64],
            _ => vec![n_in as u64, n_out as u64, n_expert as u64],
        };
        let spec = WeightSpec { name: "w".into(), dtype, shape, role: WeightRole::Matrix };
        let layout = MatrixLayout::of(&spec).unwrap();
        let mut values = vec![0.0; n_in * n_out * n_expert];
        dtype.dequantise(&file, &mut values).unwrap();
        let mut packed = Aligned::new(layout.packed_bytes() as usize);
        layout.pack(&file, packed.bytes_mut());
        Matrix { layout, file, values, packed }
    }

    /// `[n_out, rows]` of one expert, in F64.
    fn reference(&self, expert: usize, x: &[f32]) -> Vec<f64> {
        let MatrixLayout { n_in, n_out, .. } = self.layout;
        let weights = &self.values[expert * n_in * n_out..(expert + 1) * n_in * n_out];
        let dot = |w: &[f32], x: &[f32]| w.iter().zip(x).map(|(w, x)| f64::from(*w) * f64::from(*x)).sum();
        x.chunks_exact(n_in).flat_map(|x| weights.chunks_exact(n_in).map(move |w| dot(w, x))).collect()
    }

    /// Mean square error of `actual`, relative to that of sums of terms with random signs: products that happen to
    /// cancel do not count for more.
    fn relative_error(&self, expert: usize, x: &[f32], actual: &[f32]) -> f64 {
        let MatrixLayout { n_in, n_out, .. } = self.layout;
        let square = |x: &[f32]| x.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>();
        let weights = square(&self.values[expert * n_in * n_out..(expert + 1) * n_in * n_out]);
        let expected = self.reference(expert, x);
        assert_eq!(actual.len(), expected.len());
        let error: f64 = actual.iter().zip(expected).map(|(a, e)| (f64::from(*a) - e).powi(2)).sum();
        error / (weights * square(x) / n_in as f64)
    }

    fn prepare(&self, simd: Simd, format: ActivationFormat, x: &[f32]) -> Aligned {
        let row_bytes = input_row_bytes(self.layout.n_in, format);
        let mut rows = Aligned::new(row_bytes * x.len() / self.layout.n_in);
        for (x, out) in x.chunks_exact(self.layout.n_in).zip(rows.bytes_mut().chunks_exact_mut(row_bytes)) {
            prepare_input(simd, format, x, out);
        }
        rows
    }

    /// `[n_out, rows]` of one expert.
    fn multiply(&self, simd: Simd, wanted: ActivationFormat, expert: usize, x: &[f32]) -> Vec<f32> {
        let MatrixLayout { n_in, n_out, .. } = self.layout;
        let format = self.layout.input_format(wanted);
        let prepared = self.prepare(simd, format, x);
        let input = Input { format, n_in, rows: prepared.bytes() };
        let n_rows = x.len() / n_in;
        let rows: Vec<_> = (0..n_rows as u32).map(|i| RowPair { input: i, output: i }).collect();
        let mut out = vec![f32::NAN; n_rows * n_out];
        let output = Output { out: out.as_mut_ptr(), stride: n_out, bias: None, add: None };
        let groups = 0..self.layout.n_groups();
        // SAFETY: `out` has all rows, and only this thread writes it.
        unsafe { matmul(simd, &self.layout, self.packed.bytes(), expert, &input, &rows, groups, &output) };
        out
    }
}

/// Shapes with odd edges: `n_in`, `n_out`, experts, rows.
fn shapes(dtype: DType) -> Vec<(usize, usize, usize, usize)> {
    match dtype.block_len() {
        1 => vec![(1, 1, 1, 1), (7, 17, 1, 3), (33, 16, 3, 5), (100, 40, 1, 21), (576, 31, 1, 16), (2100, 70, 1, 18)],
        32 => vec![(32, 1, 1, 1), (96, 17, 1, 3), (64, 16, 3, 5), (160, 40, 1, 21), (576, 31, 1, 16)],
        _ => vec![(256, 1, 1, 1), (768, 17, 1, 3), (256, 16, 3, 5), (512, 40, 1, 21), (1536, 31, 1, 16)],
    }
}

fn check_products(wanted: ActivationFormat, bound: f64) {
    let mut noise = Noise(7);
    for dtype in TYPES {
        for (n_in, n_out, n_expert, n_rows) in shapes(dtype) {
            let matrix = Matrix::random(dtype, n_in, n_out, n_expert, &mut noise);
            let x = noise.values(n_in * n_rows);
            for simd in Simd::available() {
                for expert in 0..n_expert {
                    let error = matrix.relative_error(expert, &x, &matrix.multiply(simd, wanted, expert, &x));
                    let what = format!("{dtype} {simd:?} [{n_in}, {n_out}, {n_expert}] x {n_rows}");
                    assert!(error <= bound, "{what} expert {expert}: error {error:e} above {bound:e}");
                }
            }
        }
    }
}

#[test]
fn exact_products_match_decoded_weights() {
    check_products(ActivationFormat::F32, 1e-12);
}

#[test]
fn int8_products_are_near() {
    // Rounding evenly spread values to steps of 1/127 costs 1.6e-5 on average; the smallest shape has one output only.
    check_products(ActivationFormat::Int8, 1e-4);
}

/// Products of signed 8-bit extremes must not saturate on their way.
#[test]
fn int8_extremes_do_not_saturate() {
    for dtype in TYPES.into_iter().filter(|t| t.block_len() > 1) {
        let (n_in, n_out) = (512, 16);
        let (fields, _) = scale_fields(dtype);
        let mut file = vec![0xff; dtype.bytes_of((n_in * n_out) as u64).unwrap() as usize];
        if dtype == DType::Q8_0 {
            // -128: the largest magnitude.
            file.fill(0x80);
        }
        for block in file.chunks_exact_mut(dtype.block_bytes()) {
            fields.iter().for_each(|at| block[*at..at + 2].copy_from_slice(&half::f16::ONE.to_le_bytes()));
        }
        let matrix = Matrix::new(dtype, n_in, n_out, 1, file);
        for x in [1.0, -1.0] {
            let x = vec![x; n_in];
            for simd in Simd::available() {
                let actual = matrix.multiply(simd, ActivationFormat::Int8, 0, &x);
                let error = matrix.relative_error(0, &x, &actual);
                assert!(error < 1e-12, "{dtype} {simd:?}: {error:e}");
            }
        }
    }
}

#[test]
fn int8_products_have_the_same_bits_with_every_instruction_set() {
    let mut noise = Noise(11);
    for dtype in TYPES.into_iter().filter(|t| t.block_len() > 1) {
        let matrix = Matrix::random(dtype, 768, 48, 1, &mut noise);
        let x = noise.values(768 * 19);
        let expected = matrix.multiply(Simd::Portable, ActivationFormat::Int8, 0, &x);
        for simd in Simd::available() {
            let actual = matrix.multiply(simd, ActivationFormat::Int8, 0, &x);
            let same = actual.iter().zip(&expected).all(|(a, e)| a.to_bits() == e.to_bits());
            assert!(same, "{dtype} {simd:?}");
        }
    }
}

/// Plain code for ARM rounds once too, so nothing differs.
#[cfg(target_arch = "aarch64")]
#[test]
fn exact_products_have_the_same_bits_with_every_instruction_set() {
    let mut noise = Noise(19);
    for dtype in TYPES {
        let matrix = Matrix::random(dtype, 768, 48, 1, &mut noise);
        let x = noise.values(768 * 19);
        let expected = matrix.multiply(Simd::Portable, ActivationFormat::F32, 0, &x);
        for simd in Simd::available() {
            let actual = matrix.multiply(simd, ActivationFormat::F32, 0, &x);
            let same = actual.iter().zip(&expected).all(|(a, e)| a.to_bits() == e.to_bits());
            assert!(same, "{dtype} {simd:?}");
        }
    }
}

#[test]
fn a_row_has_the_same_bits_alone_and_in_any_batch() {
    let mut noise = Noise(3);
    for dtype in TYPES {
        let n_in = 512;
        let matrix = Matrix::random(dtype, n_in, 40, 1, &mut noise);
        let x = noise.values(n_in * 37);
        for simd in Simd::available() {
            for wanted in [ActivationFormat::F32, ActivationFormat::Int8] {
                let alone: Vec<f32> = x.chunks_exact(n_in).flat_map(|x| matrix.multiply(simd, wanted, 0, x)).collect();
                for n_rows in [2, 3, 4, 5, 7, 8, 9, 13, 16, 17, 31, 37] {
                    let batch = matrix.multiply(simd, wanted, 0, &x[..n_in * n_rows]);
                    let same = batch.iter().zip(&alone).all(|(b, a)| b.to_bits() == a.to_bits());
                    assert!(same, "{dtype} {simd:?} {wanted:?} {n_rows} rows");
                }
            }
        }
    }
}

#[test]
fn groups_rows_bias_and_add_go_where_they_belong() {
    let mut noise = Noise(5);
    let (n_in, n_out, stride) = (64, 40, 45);
    let matrix = Matrix::random(DType::Q8_0, n_in, n_out, 2, &mut noise);
    let x = noise.values(n_in * 3);
    let bias = noise.values(n_out);
    let before = noise.values(stride * 5);
    for simd in Simd::available() {
        let product = matrix.multiply(simd, ActivationFormat::F32, 1, &x);
        let prepared = matrix.prepare(simd, ActivationFormat::F32, &x);
        let input = Input { format: ActivationFormat::F32, n_in, rows: prepared.bytes() };
        let rows = [RowPair { input: 2, output: 0 }, RowPair { input: 0, output: 4 }];
        let mut out = before.clone();
        let pointer = out.as_mut_ptr();
        let output = Output { out: pointer, stride, bias: Some(&bias), add: Some(pointer) };
        // SAFETY: `out` has 5 rows, and only this thread writes it.
        unsafe { matmul(simd, &matrix.layout, matrix.packed.bytes(), 1, &input, &rows, 1..3, &output) };
        for row in 0..5 {
            for column in 0..stride {
                let old = before[row * stride + column];
                let pair = rows.iter().find(|pair| pair.output as usize == row);
                let expected = match pair {
                    Some(pair) if (16..n_out).contains(&column) => {
                        product[pair.input as usize * n_out + column] + bias[column] + old
                    }
                    _ => old,
                };
                assert_eq!(out[row * stride + column], expected, "{simd:?} row {row} column {column}");
            }
        }
    }
}

#[test]
fn rows_come_back_from_the_packed_weight() {
    let mut noise = Noise(9);
    for dtype in TYPES {
        for (n_in, n_out, n_expert, _) in shapes(dtype) {
            let matrix = Matrix::random(dtype, n_in, n_out, n_expert, &mut noise);
            let mut row = vec![0.0; n_in];
            for (i, expected) in matrix.values.chunks_exact(n_in).enumerate() {
                unpack_row(&matrix.layout, matrix.packed.bytes(), i / n_out, i % n_out, &mut row);
                assert!(row.iter().zip(expected).all(|(a, e)| a.to_bits() == e.to_bits()), "{dtype} row {i}");
            }
        }
    }
}

#[test]
fn golden_blocks_come_back_from_the_packed_weight() {
    for dtype in TYPES.into_iter().filter(|t| *t != DType::F32) {
        let expected = golden::decoded(dtype);
        let n_in = dtype.block_len();
        let matrix = Matrix::new(dtype, n_in, expected.len() / n_in, 1, golden::blocks(dtype));
        let mut row = vec![0.0; n_in];
        for (i, expected) in expected.chunks_exact(n_in).enumerate() {
            unpack_row(&matrix.layout, matrix.packed.bytes(), 0, i, &mut row);
            assert!(row.iter().zip(expected).all(|(a, e)| a.to_bits() == e.to_bits()), "{dtype} block {i}");
        }
    }
}

#[test]
fn packing_in_parts_is_packing() {
    let mut noise = Noise(13);
    let matrix = Matrix::random(DType::Q4_K, 256, 40, 2, &mut noise);
    let group_bytes = matrix.layout.group_bytes();
    assert_eq!(matrix.layout.packed_bytes(), 6 * group_bytes as u64);
    for groups in [0..1, 2..5, 5..6] {
        let mut part = Aligned::new(groups.len() * group_bytes);
        matrix.layout.pack_range(&matrix.file, groups.clone(), part.bytes_mut());
        assert_eq!(part.bytes(), &matrix.packed.bytes()[groups.start * group_bytes..groups.end * group_bytes]);
    }
}

#[test]
fn broken_activations_are_not_hidden() {
    let matrix = Matrix::random(DType::Q8_0, 64, 16, 1, &mut Noise(1));
    for bad in [f32::NAN, f32::INFINITY] {
        let mut x = vec![0.5; 64];
        x[40] = bad;
        for simd in Simd::available() {
            let out = matrix.multiply(simd, ActivationFormat::Int8, 0, &x);
            assert!(out.iter().all(|y| y.is_nan()), "{simd:?} {bad}");
        }
    }
    let tiny = vec![1e-40; 64];
    assert!(matrix.multiply(Simd::detect(), ActivationFormat::Int8, 0, &tiny).iter().all(|y| *y == 0.0));
}

#[test]
fn an_encoded_row_multiplies_as_its_source() {
    let mut noise = Noise(17);
    let weights = noise.values(128 * 16);
    let mut file = vec![0; 128 * 16 / 32 * 34];
    q8_0::quantise_row(&weights, &mut file);
    let matrix = Matrix::new(DType::Q8_0, 128, 16, 1, file);
    let error: f64 = matrix.values.iter().zip(&weights).map(|(a, b)| f64::from(a - b).powi(2)).sum();
    assert!(error / (weights.len() as f64) < 1e-5);
}

#[test]
fn inputs_are_rounded_to_the_nearest_code() {
    let mut noise = Noise(19);
    let mut x: Vec<f32> = noise.values(70).iter().map(|x| x * 50.0).collect();
    // The largest is a code, so that others are exactly between two.
    (x[3], x[4], x[5], x[6]) = (127.0, 0.5, -1.5, -127.0);
    for simd in Simd::available() {
        let mut row = Aligned::new(input_row_bytes(x.len(), ActivationFormat::Int8));
        assert_eq!(row.bytes().len(), 3 * 64);
        prepare_input(simd, ActivationFormat::Int8, &x, row.bytes_mut());
        for (x, record) in x.chunks(32).zip(row.bytes().chunks_exact(64)) {
            let float = |at: usize| f32::from_le_bytes(record[at..at + 4].try_into().unwrap());
            let codes: Vec<i32> = record[..32].iter().map(|c| i32::from(*c as i8)).collect();
            let amax = x.iter().fold(0.0f32, |a, x| a.max(x.abs()));
            assert_eq!(float(32), amax / 127.0);
            for (x, code) in x.iter().zip(&codes) {
                assert_eq!((x * (127.0 / amax)).round_ties_even() as i32, *code, "{simd:?} {x}");
            }
            assert!(codes[x.len()..].iter().all(|c| *c == 0));
            assert_eq!(float(36), float(32) * codes.iter().sum::<i32>() as f32);
        }
    }
}

#[test]
fn what_cannot_be_multiplied_has_no_layout() {
    let of = |dtype, shape: &[u64]| {
        MatrixLayout::of(&WeightSpec { name: "w".into(), dtype, shape: shape.to_vec(), role: WeightRole::Matrix })
    };
    assert!(of(DType::Q4_K, &[256, 3]).is_some());
    assert!(of(DType::Q4_K, &[128, 3]).is_none());
    assert!(of(DType::IQ2_XS, &[256, 3]).is_none());
    assert!(of(DType::F32, &[256]).is_none());
    assert!(of(DType::F32, &[256, 0]).is_none());
    assert!(of(DType::F32, &[1 << 40, 1 << 40]).is_none());
    assert!(of(DType::F32, &[2, 2, 2, 2]).is_none());
}
