//! The op cases on every instruction set, with both kinds of activations and several numbers of threads; and what a
//! device must refuse.

use super::*;
use crate::devices::op_cases::{self, Case, Noise};
use crate::devices::quant::DType;
use crate::devices::{Bindings, KvCache, KvSpec, ProgramShape, Rows, Scratch};

fn config(n_threads: usize, activations: ActivationFormat) -> CpuConfig {
    CpuConfig {
        id: DeviceId::cpu(0),
        name: "test".into(),
        simulated: false,
        n_threads,
        memory_bytes: None,
        activations,
        memory_bytes_per_s: None,
        link_bytes_per_s: None,
    }
}

fn device(n_threads: usize) -> CpuDevice {
    CpuDevice::new(config(n_threads, ActivationFormat::Int8)).unwrap()
}

#[test]
fn ops_give_what_they_must() {
    let cases = op_cases::all();
    for simd in Simd::available() {
        for activations in [ActivationFormat::F32, ActivationFormat::Int8] {
            let device = CpuDevice::with_simd(config(2, activations), simd).unwrap();
            for case in &cases {
                case.check(&device, activations == ActivationFormat::Int8);
            }
        }
    }
}

#[test]
fn bits_do_not_depend_on_the_number_of_threads() {
    for simd in Simd::available() {
        let devices = [1, 2, 3, 5].map(|n| CpuDevice::with_simd(config(n, ActivationFormat::Int8), simd).unwrap());
        for case in op_cases::all() {
            let one = case.run(&devices[0]).unwrap();
            for device in &devices[1..] {
                let n = device.facts.n_threads;
                assert!(case.run(device).unwrap() == one, "{}: other bits with {n} threads, {simd:?}", case.name);
            }
        }
    }
}

#[test]
fn bits_do_not_depend_on_other_rows() {
    let batches = |case: &Case| case.program.rows == Rows::Batch && case.step.tokens.len() > 1;
    for simd in Simd::available() {
        let device = CpuDevice::with_simd(config(2, ActivationFormat::Int8), simd).unwrap();
        // A layer's rows depend on those before them.
        for case in op_cases::all().iter().filter(|c| batches(c) && !c.name.contains("layer")) {
            case.check_rows_are_independent(&device);
        }
    }
}

/// A layer fed token by token leaves the same bits as in one batch.
#[test]
fn a_history_in_pieces_is_the_same_history() {
    let device = device(2);
    for case in op_cases::all().iter().filter(|c| c.name.contains("layer") && c.step.tokens.len() > 1) {
        let whole = case.run(&device).unwrap();
        let n = case.step.tokens.len();
        let (spec, _) = case.kv.clone().unwrap();
        let mut rows = vec![];
        let (mut k, mut v) = (None::<Vec<u8>>, None::<Vec<u8>>);
        for pieces in [0..1, 1..5, 5..6, 6..n] {
            let mut part = case.of_rows(pieces);
            if let (Some(k), Some(v)) = (k.take(), v.take()) {
                let dims = (spec.head_dim_k as usize, spec.head_dim_v as usize);
                let values = op_cases::KvValues {
                    k: op_cases::decode(spec.dtype, dims.0, &k),
                    v: op_cases::decode(spec.dtype, dims.1, &v),
                };
                part.kv = Some((spec, values));
            }
            let outcome = part.run(&device).unwrap();
            rows.extend_from_slice(&outcome.slots[0]);
            (k, v) = (Some(outcome.k), Some(outcome.v));
        }
        assert!(rows == whole.slots[0], "{}", case.name);
        assert!(k == Some(whole.k) && v == Some(whole.v), "{}", case.name);
    }
}

#[test]
fn weights_take_what_they_are_said_to_take() {
    let device = device(1);
    for case in op_cases::all() {
        for weight in &case.weights {
            let before = device.memory().ours_bytes;
            let buffer = device.load_weight(&weight.spec, &weight.bytes).unwrap();
            assert_eq!(device.memory().ours_bytes - before, device.weight_bytes(&weight.spec));
            assert_eq!(buffer.n_bytes(), device.weight_bytes(&weight.spec));
        }
    }
}

/// After a run, a device holds the working memory that it said, and no more than that.
#[test]
fn runs_take_the_working_memory_they_are_said_to_take() {
    for n_threads in [1, 3] {
        for case in op_cases::all() {
            let device = CpuDevice::new(config(n_threads, ActivationFormat::Int8)).unwrap();
            case.run(&device).unwrap();
            let said = device.work_bytes(
                &[ProgramShape { program: &case.program, kv: case.kv.as_ref().map(|(spec, _)| *spec) }],
                case.step.tokens.len(),
            );
            let held = device.memory().ours_bytes;
            // Attention alone does not say how large its heads are.
            assert!(held == said || case.name.contains("attention"), "{}: holds {held}, said {said}", case.name);
        }
    }
}

/// NaN and infinity anywhere neither panic nor lead outside.
#[test]
fn bad_numbers_do_no_harm() {
    let device = device(2);
    for (i, mut case) in op_cases::all().into_iter().enumerate() {
        let mut noise = Noise::new(i as u64);
        let is_ids = |slot: Slot| case.name.contains("experts") && slot == Slot(1);
        for (_, values) in case.inputs.iter_mut().filter(|(slot, _)| !is_ids(*slot)) {
            for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX] {
                let at = noise.below(values.len());
                values[at] = bad;
            }
        }
        let outcome = case.run(&device).unwrap();
        if let Some(Op::Route { n_expert, n_used, ids, .. }) = case.program.ops.first() {
            for row in outcome.slots[usize::from(ids.0)].chunks(*n_used as usize) {
                let mut distinct = row.to_vec();
                distinct.sort();
                distinct.dedup();
                assert!(distinct.len() == row.len() && row.iter().all(|id| id < n_expert), "{}: {row:?}", case.name);
            }
        }
    }
}

fn error_of(case: &Case) -> String {
    case.run(&device(2)).err().unwrap_or_else(|| panic!("{} was not refused", case.name)).to_string()
}

fn case(name: &str) -> Case {
    op_cases::all().into_iter().find(|c| c.name.contains(name) && c.step.tokens.len() > 1).unwrap()
}

#[test]
fn what_does_not_fit_together_is_refused() {
    let mut embed = case("embed");
    embed.step.tokens[1] = 37;
    assert!(error_of(&embed).contains("token 37"));

    let mut experts = case("experts");
    experts.inputs[1].1[2] = f32::from_bits(9);
    assert!(error_of(&experts).contains("expert 9"));

    let mut norm = case("norm");
    let Op::RmsNorm { width, .. } = &mut norm.program.ops[0] else { panic!() };
    *width += 1;
    assert!(error_of(&norm).contains("not a vector"));

    let mut matmul = case("matmul");
    let Op::MatMul { n_in, .. } = &mut matmul.program.ops[0] else { panic!() };
    *n_in -= 1;
    assert!(error_of(&matmul).contains("not a matrix"));

    let mut attention = case("attention");
    let Op::Attention { n_head, .. } = &mut attention.program.ops[0] else { panic!() };
    *n_head -= 1;
    assert!(error_of(&attention).contains("cannot share"));

    let mut attention = case("attention");
    attention.step.first_position += 6;
    assert!(error_of(&attention).contains("past the KV cache"));

    let mut activation = case("activation");
    let Op::GatedActivation { width, .. } = &mut activation.program.ops[0] else { panic!() };
    *width = 1 << 30;
    assert!(error_of(&activation).contains("outside a buffer"));

    let mut outputs = case("take outputs");
    outputs.step.outputs = 3..99;
    assert!(error_of(&outputs).contains("output rows"));
}

#[test]
fn overlapping_slots_and_foreign_or_shared_buffers_are_refused() {
    let device = device(2);
    let case = case("activation");
    let width = case.widths[0] as u64;
    let scratch = device.alloc("scratch", 1 << 16).unwrap();
    let run = |device: &CpuDevice, offsets: [u64; 3], scratch: &Buffer, kv: Option<KvCache>| {
        let slot_offsets = offsets.map(Some).to_vec().into();
        let scratch = Scratch { buffer: scratch.clone(), slot_offsets };
        let bindings = Bindings { weights: vec![], kv, scratch };
        let bound = BoundProgram { program: &case.program, bindings: &bindings };
        device.run(&[bound], &case.step, &AtomicBool::new(false))
    };
    let apart = [0, 1 << 13, 1 << 14];
    run(&device, apart, &scratch, None).unwrap();
    let error = run(&device, [0, 1 << 13, width * 4], &scratch, None).unwrap_err();
    assert!(error.to_string().contains("overlaps"), "{error}");
    let error = run(&device, [0, 1 << 13, (1 << 14) + 2], &scratch, None).unwrap_err();
    assert!(error.to_string().contains("multiple of 4"), "{error}");

    let other = CpuDevice::new(CpuConfig { id: DeviceId::cpu(1), ..config(1, ActivationFormat::F32) }).unwrap();
    assert!(matches!(run(&other, apart, &scratch, None), Err(DeviceError::WrongDevice { .. })));
    assert!(matches!(other.upload(&scratch, 0, &[1]), Err(DeviceError::WrongDevice { .. })));
    assert!(matches!(other.download(&scratch, 0, &mut [1]), Err(DeviceError::WrongDevice { .. })));

    let spec = KvSpec { dtype: DType::F16, head_dim_k: 4, head_dim_v: 4, n_kv_head: 1, n_ctx: 8 };
    let kv = KvCache { spec, k: scratch.clone(), v: scratch.clone() };
    let error = run(&device, apart, &scratch, Some(kv)).unwrap_err();
    assert!(error.to_string().contains("different buffers"), "{error}");
}

#[test]
fn transfers_stay_inside_their_buffer() {
    let device = device(1);
    let buffer = device.alloc("scratch", 100).unwrap();
    device.upload(&buffer, 96, &[1, 2, 3, 4]).unwrap();
    let mut back = [0; 5];
    device.download(&buffer, 95, &mut back).unwrap();
    assert_eq!(back, [0, 1, 2, 3, 4]);
    for offset in [97, 101, u64::MAX] {
        assert!(matches!(device.upload(&buffer, offset, &[0; 4]), Err(DeviceError::OutOfRange { .. })));
        assert!(matches!(device.download(&buffer, offset, &mut [0; 4]), Err(DeviceError::OutOfRange { .. })));
    }
    device.upload(&buffer, 100, &[]).unwrap();
}

#[test]
fn a_simulated_device_has_its_own_memory_and_link() {
    let config = CpuConfig {
        simulated: true,
        memory_bytes: Some(1 << 20),
        link_bytes_per_s: Some(10_000_000),
        ..config(1, ActivationFormat::Int8)
    };
    let device = CpuDevice::new(config).unwrap();
    assert_eq!(device.memory(), MemoryInfo { total_bytes: 1 << 20, free_bytes: 1 << 20, ours_bytes: 0 });
    let buffer = device.alloc("scratch", 500_000).unwrap();
    let copy = buffer.clone();
    assert!(matches!(device.alloc("KV cache", 600_000), Err(DeviceError::OutOfMemory { free_bytes: 548_576, .. })));
    let start = Instant::now();
    device.upload(&buffer, 0, &vec![1; 500_000]).unwrap();
    assert!(start.elapsed() >= Duration::from_millis(50));
    drop(buffer);
    assert_eq!(device.memory().ours_bytes, 500_000);
    drop(copy);
    assert_eq!(device.memory().ours_bytes, 0);
}

#[test]
fn a_stopped_run_says_so_and_leaves_the_device_usable() {
    let device = device(3);
    let case = case("layer");
    let stop = AtomicBool::new(true);
    assert_eq!(device.run(&[], &case.step, &stop), Err(DeviceError::Stopped));
    case.check(&device, true);
}

/// Threads that disagreed about stopping would wait for one another for ever.
#[test]
fn a_run_can_be_stopped_at_any_moment() {
    let device = device(3);
    let slots = |n: u64| [Some(0), Some(n), Some(2 * n)].to_vec().into();
    let scratch = Scratch { buffer: device.alloc("scratch", 3 << 12).unwrap(), slot_offsets: slots(1 << 12) };
    let bindings = Bindings { weights: vec![], kv: None, scratch };
    let (gate, up, out) = (Slot(0), Slot(1), Slot(2));
    let activation = crate::devices::op::Activation::Silu;
    let ops = vec![Op::GatedActivation { gate, up, activation, width: 256, out }];
    let program = Program { name: "test".into(), rows: Rows::Batch, weights: vec![], ops };
    let work = vec![BoundProgram { program: &program, bindings: &bindings }; 500];
    let step = Step { tokens: vec![0; 4], first_position: 0, outputs: 0..0 };
    let mut n_stopped = 0;
    for i in 0..60 {
        let stop = AtomicBool::new(false);
        let result = std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_micros(40 * i));
                stop.store(true, Relaxed);
            });
            device.run(&work, &step, &stop)
        });
        assert!(matches!(result, Ok(()) | Err(DeviceError::Stopped)), "{result:?}");
        n_stopped += usize::from(result.is_err());
    }
    assert!(n_stopped > 0);
}

#[test]
fn unsuitable_weights_are_refused() {
    let device = device(1);
    let spec = |dtype, shape: &[u64], role| WeightSpec { name: "w".into(), dtype, shape: shape.to_vec(), role };
    let refused = [
        spec(DType::IQ2_S, &[256, 4], WeightRole::Matrix),
        spec(DType::F32, &[64], WeightRole::Matrix),
        spec(DType::Q4_0, &[33, 32], WeightRole::Matrix),
        spec(DType::Q4_0, &[16, 2], WeightRole::Table),
        spec(DType::F32, &[], WeightRole::Vector),
        spec(DType::F32, &[0, 5], WeightRole::Table),
        spec(DType::F32, &[u64::MAX, 5], WeightRole::Table),
        spec(DType::F32, &[10], WeightRole::Vector),
    ];
    for spec in refused {
        let error = device.load_weight(&spec, &[0; 17]).unwrap_err();
        assert!(
            matches!(error, DeviceError::Unsupported { .. } | DeviceError::UnsupportedType { .. }),
            "{spec:?}: {error}"
        );
    }
    assert_eq!(device.memory().ours_bytes, 0);
}
