//! Measures the CPU's matrix products on one thread: GFLOP/s, and GB/s of packed weights, for each tensor type.
//!
//! `cargo run --release --example matmul_speed [n_in n_out [type ...]]`

use std::time::Instant;

use layercake::devices::WeightSpec;
use layercake::devices::cpu::matmul::{
    ActivationFormat, Input, MatrixLayout, Output, RowPair, input_row_bytes, matmul, prepare_input,
};
use layercake::devices::cpu::simd::Simd;
use layercake::devices::op::WeightRole;
use layercake::devices::quant::DType;

/// Weights are read from memory, not from a cache: decoding reads each of a model's weights once per token.
const COLD_BYTES: usize = 512 << 20;

#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([u8; 64]);

struct Aligned(Vec<Line>);

impl Aligned {
    fn new(n_bytes: usize) -> Aligned {
        Aligned(vec![Line([1; 64]); n_bytes.div_ceil(64)])
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: lines are bytes.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr().cast(), 64 * self.0.len()) }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: lines are bytes.
        unsafe { std::slice::from_raw_parts_mut(self.0.as_mut_ptr().cast(), 64 * self.0.len()) }
    }
}

/// The shortest of several runs, in seconds.
fn best_of(n: usize, mut run: impl FnMut()) -> f64 {
    let once = |run: &mut dyn FnMut()| {
        let start = Instant::now();
        run();
        start.elapsed().as_secs_f64()
    };
    (0..n).map(|_| once(&mut run)).fold(f64::INFINITY, f64::min)
}

fn read_speed() -> f64 {
    let buffer = Aligned::new(1 << 30);
    let mut sum = 0u64;
    let seconds = best_of(3, || {
        let (words, _) = buffer.bytes().as_chunks::<8>();
        sum ^= words.iter().fold(0, |a: u64, w| a.wrapping_add(u64::from_ne_bytes(*w)));
    });
    std::hint::black_box(sum);
    (1u64 << 30) as f64 / seconds / 1e9
}

struct Bench {
    layout: MatrixLayout,
    packed: Aligned,
    pack_bytes_per_s: f64,
}

impl Bench {
    fn new(dtype: DType, n_in: usize, n_out: usize, n_expert: usize) -> Option<Bench> {
        let shape = vec![n_in as u64, n_out as u64, n_expert as u64];
        let layout = MatrixLayout::of(&WeightSpec { name: "w".into(), dtype, shape, role: WeightRole::Matrix })?;
        // Small codes and scales in any format.
        let file = vec![0x11; dtype.bytes_of((n_in * n_out) as u64)? as usize * n_expert];
        let mut packed = Aligned::new(layout.packed_bytes() as usize);
        let start = Instant::now();
        layout.pack(&file, packed.bytes_mut());
        let pack_bytes_per_s = file.len() as f64 / start.elapsed().as_secs_f64();
        Some(Bench { layout, packed, pack_bytes_per_s })
    }

    /// Seconds to multiply `n_rows` with every expert.
    fn time(&self, simd: Simd, wanted: ActivationFormat, n_rows: usize, n_times: usize) -> f64 {
        let MatrixLayout { n_in, n_out, n_expert, .. } = self.layout;
        let format = self.layout.input_format(wanted);
        let row_bytes = input_row_bytes(n_in, format);
        let x: Vec<f32> = (0..n_in).map(|i| (i as f32 * 0.37).sin()).collect();
        let mut prepared = Aligned::new(row_bytes * n_rows);
        for out in prepared.bytes_mut().chunks_exact_mut(row_bytes) {
            prepare_input(simd, format, &x, out);
        }
        let rows: Vec<_> = (0..n_rows as u32).map(|i| RowPair { input: i, output: i }).collect();
        let mut out = vec![0.0f32; n_rows * n_out];
        let output = Output { out: out.as_mut_ptr(), stride: n_out, bias: None, add: None };
        let input = Input { format, n_in, rows: prepared.bytes() };
        best_of(n_times, || {
            for expert in 0..n_expert {
                let groups = 0..self.layout.n_groups();
                // SAFETY: `out` has all rows, and only this thread writes it.
                unsafe { matmul(simd, &self.layout, self.packed.bytes(), expert, &input, &rows, groups, &output) };
            }
        })
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |i: usize, default: usize| arguments.get(i).and_then(|a| a.parse().ok()).unwrap_or(default);
    let (n_in, n_out) = (number(0, 2048), number(1, 8192));
    let named: Vec<DType> = arguments.iter().filter_map(|name| DType::from_name(name)).collect();
    println!("plain read of 1 GiB: {:.1} GB/s", read_speed());
    println!("[{n_in}, {n_out}], one thread; exact: F32 activations");
    println!("type   simd        1 row GB/s   1 row GFLOP/s  128 rows GFLOP/s   exact 1   exact 128   pack GB/s");
    for &dtype in DType::ALL.iter().filter(|t| named.is_empty() || named.contains(t)) {
        let bytes = dtype.bytes_of((n_in * n_out) as u64).unwrap_or(u64::MAX) as usize;
        let n_expert = COLD_BYTES.div_ceil(bytes);
        let Some(bench) = Bench::new(dtype, n_in, n_out, n_expert) else { continue };
        let Some(warm) = Bench::new(dtype, n_in, n_out, 1) else { continue };
        for simd in Simd::available() {
            let n_times = if simd == Simd::Portable { 1 } else { 5 };
            let flop = (2 * n_in * n_out) as f64;
            let cold = bench.time(simd, ActivationFormat::Int8, 1, n_times.min(2));
            let many = warm.time(simd, ActivationFormat::Int8, 128, n_times);
            let exact = warm.time(simd, ActivationFormat::F32, 1, n_times);
            let exact_many = warm.time(simd, ActivationFormat::F32, 128, n_times.min(2));
            println!(
                "{:6} {:10} {:11.1} {:15.1} {:17.1} {:9.1} {:11.1} {:11.2}",
                dtype.name(),
                format!("{simd:?}"),
                bench.layout.packed_bytes() as f64 / cold / 1e9,
                flop * n_expert as f64 / cold / 1e9,
                flop * 128.0 / many / 1e9,
                flop / exact / 1e9,
                flop * 128.0 / exact_many / 1e9,
                bench.pack_bytes_per_s / 1e9,
            );
        }
    }
}
