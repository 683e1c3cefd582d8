//! How fast the CPU device attends: bytes of KV cache read in decode, operations in prefill.
//!
//! `cargo run --release --example attention_speed [THREADS] [f32|f16|q8_0] [decode|prefill]`

use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use layercake::devices::cpu::CpuDevice;
use layercake::devices::discover::cpu_devices;
use layercake::devices::quant::DType;
use layercake::devices::{
    Bindings, BoundProgram, Device, DeviceError, KvCache, KvSpec, Op, Program, Rows, Scratch, Slot, Step,
};

/// A model's attention.
struct Model {
    name: &'static str,
    n_head: u32,
    n_kv_head: u32,
    head_dim: u32,
    n_layer: usize,
}

const MODELS: [Model; 2] = [
    Model { name: "SmolLM2-135M", n_head: 9, n_kv_head: 3, head_dim: 64, n_layer: 30 },
    Model { name: "Llama-3-8B", n_head: 32, n_kv_head: 8, head_dim: 128, n_layer: 8 },
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let n_threads: usize = args.next().map_or(Ok(1), |text| text.parse())?;
    let dtype = args.next().map_or(Some(DType::F16), |name| DType::from_name(&name)).ok_or("no such type")?;
    let only = args.next();
    let wanted = |phase| only.as_deref().is_none_or(|only| only == phase);
    let device = CpuDevice::new(cpu_devices(1, Some(n_threads)).remove(0))?;
    println!("{} ({n_threads} threads), KV in {dtype}", device.facts().name);
    for model in MODELS {
        for depth in [256, 1024, 4095, 16_383].into_iter().filter(|_| wanted("decode")) {
            let time = measure(&device, &model, dtype, 1, depth)?;
            let n_bytes = model.n_layer as f64 * kv_bytes_per_position(&model, dtype) * f64::from(depth + 1);
            let rate = n_bytes / time.as_secs_f64() / 1e9;
            println!("{}: decode at {depth}: {:.3} ms a token, {rate:.2} GB/s of KV", model.name, ms(time));
        }
        for (n_rows, depth) in [(64, 0), (512, 0), (512, 3584)].into_iter().filter(|_| wanted("prefill")) {
            let time = measure(&device, &model, dtype, n_rows, depth)?;
            let n_pairs: f64 = (0..n_rows).map(|r| f64::from(depth + r + 1)).sum();
            let n_ops = 4.0 * f64::from(model.head_dim * model.n_head) * n_pairs * model.n_layer as f64;
            let rate = n_ops / time.as_secs_f64() / 1e9;
            println!("{}: {n_rows} rows at {depth}: {:.1} ms, {rate:.1} GFLOP/s", model.name, ms(time));
        }
    }
    Ok(())
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn kv_bytes_per_position(model: &Model, dtype: DType) -> f64 {
    let n_values = f64::from(2 * model.head_dim * model.n_kv_head);
    n_values / dtype.block_len() as f64 * dtype.block_bytes() as f64
}

/// Time of all layers' attention, each as fast as the fastest.
fn measure(
    device: &dyn Device,
    model: &Model,
    dtype: DType,
    n_rows: u32,
    first_position: u32,
) -> Result<Duration, DeviceError> {
    let width = u64::from(model.head_dim * model.n_head) * 4 * u64::from(n_rows);
    let (q, out) = (Slot(0), Slot(1));
    let program = Program {
        name: "attention".into(),
        rows: Rows::Batch,
        weights: vec![],
        ops: vec![Op::Attention { q, n_head: model.n_head, scale: 0.125, out }],
    };
    let scratch = device.alloc("scratch", 2 * width)?;
    device.upload(&scratch, 0, &values(width as usize / 4, DType::F32))?;
    let spec = KvSpec {
        dtype,
        head_dim_k: model.head_dim,
        head_dim_v: model.head_dim,
        n_kv_head: model.n_kv_head,
        n_ctx: first_position + n_rows,
    };
    let cache = values((spec.n_ctx * spec.n_kv_head * model.head_dim) as usize, dtype);
    let mut layers = vec![];
    for _ in 0..model.n_layer {
        let (k, v) = (device.alloc("KV cache", spec.k_bytes())?, device.alloc("KV cache", spec.v_bytes())?);
        device.upload(&k, 0, &cache)?;
        device.upload(&v, 0, &cache)?;
        layers.push(Bindings {
            weights: vec![],
            kv: Some(KvCache { spec, k, v }),
            scratch: Scratch { buffer: scratch.clone(), slot_offsets: vec![Some(0), Some(width)].into() },
        });
    }
    let step = Step { tokens: vec![0; n_rows as usize], first_position, outputs: 0..0 };
    // The best layer: on a busy machine a short run is more likely to have been alone.
    let mut best = Duration::MAX;
    for _ in 0..4 {
        for bindings in &layers {
            let work = [BoundProgram { program: &program, bindings }];
            let start = Instant::now();
            device.run(&work, &step, &AtomicBool::new(false))?;
            best = best.min(start.elapsed());
        }
    }
    Ok(best * model.n_layer as u32)
}

/// `n` values between -1 and 1 in a type of KV caches.
fn values(n: usize, dtype: DType) -> Vec<u8> {
    let value = |i: usize| ((i.wrapping_mul(2_654_435_761) >> 8) % 2000) as f32 / 1000.0 - 1.0;
    let values: Vec<f32> = (0..n).map(value).collect();
    match dtype {
        DType::F16 => values.iter().flat_map(|x| half::f16::from_f32(*x).to_le_bytes()).collect(),
        DType::Q8_0 => {
            let mut bytes = vec![0; n / 32 * 34];
            layercake::devices::quant::q8_0::quantise_row(&values, &mut bytes);
            bytes
        }
        _ => values.iter().flat_map(|x| x.to_le_bytes()).collect(),
    }
}
