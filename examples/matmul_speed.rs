//! Measures the CPU's matrix products on one thread: GFLOP/s, and GB/s of packed weights, for each tensor type.
//!
//! `cargo run --release --example matmul_speed [n_in n_out [type ...]]`

use std::time::{Duration, Instant};

use layercake::devices::WeightSpec;
use layercake::devices::cpu::matmul::{
    ActivationFormat, GROUP_ROWS, Input, MatrixLayout, Output, RowPair, input_row_bytes, matmul, prepare_input,
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

/// The shortest run in seconds, of as many as fit in a second. Runs of about a millisecond find moments at which
/// nothing else runs on a shared machine.
fn shortest(mut run: impl FnMut(usize)) -> f64 {
    let begin = Instant::now();
    let mut best = f64::INFINITY;
    let mut n = 0;
    while n < 3 || begin.elapsed() < Duration::from_secs(1) {
        let start = Instant::now();
        run(n);
        best = best.min(start.elapsed().as_secs_f64());
        n += 1;
    }
    best
}

fn read_speed() -> f64 {
    let buffer = Aligned::new(1 << 30);
    let part = 16 << 20;
    let parts: Vec<_> = buffer.bytes().chunks_exact(part).collect();
    let mut sum = 0u64;
    let seconds = shortest(|n| {
        let (words, _) = parts[n % parts.len()].as_chunks::<8>();
        sum ^= words.iter().fold(0, |a: u64, w| a.wrapping_add(u64::from_ne_bytes(*w)));
    });
    std::hint::black_box(sum);
    part as f64 / seconds / 1e9
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

    /// GFLOP/s of `n_rows` with some groups at a time: of one expert after the other where `cold`, else the same ones.
    fn speed(&self, simd: Simd, wanted: ActivationFormat, n_rows: usize, cold: bool) -> f64 {
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
        let n_groups = if cold { self.layout.n_groups() } else { self.layout.n_groups().min(32) };
        let seconds = shortest(|n| {
            let expert = if cold { n % n_expert } else { 0 };
            // SAFETY: `out` has all rows, and only this thread writes it.
            unsafe { matmul(simd, &self.layout, self.packed.bytes(), expert, &input, &rows, 0..n_groups, &output) };
        });
        (2 * n_in * n_groups * GROUP_ROWS * n_rows) as f64 / seconds / 1e9
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
        for simd in Simd::available() {
            let one = bench.speed(simd, ActivationFormat::Int8, 1, true);
            let many = bench.speed(simd, ActivationFormat::Int8, 128, false);
            let exact = bench.speed(simd, ActivationFormat::F32, 1, true);
            let exact_many = bench.speed(simd, ActivationFormat::F32, 128, false);
            let bytes_per_flop = (bench.layout.group_bytes() as f64) / (2 * n_in * GROUP_ROWS) as f64;
            println!(
                "{:6} {:10} {:11.1} {:15.1} {:17.1} {:9.1} {:11.1} {:11.2}",
                dtype.name(),
                format!("{simd:?}"),
                one * bytes_per_flop,
                one,
                many,
                exact,
                exact_many,
                bench.pack_bytes_per_s / 1e9,
            );
        }
    }
}
