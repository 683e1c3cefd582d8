//! The executor over a driver in host memory: what it holds, moves, checks and launches.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::super::chip::Chip;
use super::super::fake::{Fake, Live};
use super::super::images::ImagesError;
use super::super::launch::{Arg, Launch, LaunchError, Shape};
use super::super::unit::{Source, Unit};
use super::*;
use crate::devices::op::{Activation, RopeFrequencies, RopePairing};
use crate::devices::{Bindings, DeviceKind, KvCache, KvSpec, Program, Rows, Scratch, Slot, WeightRef};

const MIB: u64 = 1 << 20;
const ID: DeviceId = DeviceId::new(DeviceKind::Rocm, 0);

/// Images that are the units' text.
#[derive(Default)]
struct Texts {
    n_made: AtomicUsize,
}

impl KernelImages for Texts {
    fn images(
        &self,
        _: &Chip,
        units: &[Unit],
        cancel: &AtomicBool,
        progress: &(dyn Fn(Prepared) + Sync),
    ) -> Result<Vec<Arc<[u8]>>, ImagesError> {
        if cancel.load(Ordering::Relaxed) {
            return Err(ImagesError::Stopped);
        }
        let n_total = units.len();
        (0..=n_total).for_each(|n_done| progress(Prepared { n_done, n_total }));
        self.n_made.fetch_add(n_total, Ordering::Relaxed);
        Ok(units.iter().map(|unit| unit.to_string().into_bytes().into()).collect())
    }
}

fn device_of(fake: &Arc<Fake>, ordinal: u16) -> GpuDevice {
    let id = DeviceId::new(DeviceKind::Rocm, ordinal);
    let info = fake.info(u32::from(ordinal)).unwrap();
    let mut device = GpuDevice::new(id, fake.clone(), info, Arc::new(Texts::default())).unwrap();
    device.recipe = Recipe { launches: test_launches, work_bytes: test_work_bytes };
    device
}

fn device(fake: &Arc<Fake>) -> GpuDevice {
    device_of(fake, 0)
}

/// A launch an op, with arguments of every kind.
fn test_launches(op: &Op, shape: &Shape<'_>, to: &mut Vec<Launch>) -> Result<(), LaunchError> {
    let (source, entry, args) = match op {
        Op::RmsNorm { x, weight, eps, out, .. } => {
            let args = vec![Arg::Step, Arg::Slot(*x), Arg::Weight(*weight), Arg::Slot(*out), Arg::Null, Arg::F32(*eps)];
            (Source::Norm, "norm", args)
        }
        Op::Rope { x, frequencies, .. } => {
            let args = vec![Arg::Slot(*x), Arg::Constants(frequencies.inv_freq.clone()), Arg::U32(shape.n_positions)];
            (Source::Rope, "rope", args)
        }
        Op::KvAppend { k, v } => {
            shape.kv()?;
            (Source::Kv, "append", vec![Arg::Slot(*k), Arg::Slot(*v), Arg::KvK, Arg::KvV, Arg::Work(16)])
        }
        Op::GatedActivation { .. } => (Source::Rows, "gate", vec![]),
        other => return Err(LaunchError::Unsupported(format!("{other:?}"))),
    };
    to.push(Launch { unit: Unit::new(source, &[("N", 3)]), entry, grid: [shape.n_rows(), 1, 1], block: 64, args });
    Ok(())
}

fn test_work_bytes(op: &Op, shape: &Shape<'_>) -> u64 {
    match op {
        Op::KvAppend { .. } => 1000 * u64::from(shape.n_tokens),
        _ => 0,
    }
}

fn weight(name: &str, dtype: DType, shape: &[u64], role: WeightRole) -> WeightSpec {
    WeightSpec { name: name.into(), dtype, shape: shape.to_vec(), role }
}

fn noise(n: usize) -> Vec<u8> {
    (0..n as u64).map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 37) as u8).collect()
}

#[test]
fn all_handles_are_freed_with_the_device_and_its_buffers() {
    let fake = Fake::new(256 * MIB);
    let device = device(&fake);
    assert_eq!(fake.live(), Live::default(), "opened before it is needed");
    let scratch = device.alloc("scratch", 5000).unwrap();
    let matrix = weight("w", DType::F16, &[64, 300], WeightRole::Matrix);
    let matrix = device.load_weight(&matrix, &noise(64 * 300 * 2)).unwrap();
    gate_programs(&device, 1).run(&device, &AtomicBool::new(false)).unwrap();
    assert!(fake.live().modules == 1 && fake.live().pinned > 0 && fake.live().contexts == 1);
    drop(device);
    assert!(fake.live().allocations > 0, "buffers outlive their device");
    drop((scratch, matrix));
    assert_eq!(fake.live(), Live::default());
}

#[test]
fn memory_is_zeroed_counted_and_given_back() {
    for separate in [false, true] {
        let fake = Fake::new(1024 * MIB);
        let device = if separate { device(&fake).with_separate_allocations() } else { device(&fake) };
        let before = device.memory();
        assert_eq!((before.total_bytes, before.ours_bytes), (1024 * MIB, 0));
        let mut held = vec![];
        let mut expected = 0;
        for n_bytes in [0, 1, 192, 193, 70_000, MIB, 3 * MIB, 0, 5000] {
            let buffer = device.alloc("test", n_bytes).unwrap();
            let mut data = vec![1; n_bytes as usize];
            device.download(&buffer, 0, &mut data).unwrap();
            assert!(data.iter().all(|&byte| byte == 0));
            expected += device.sizes.taken_bytes(n_bytes);
            assert_eq!(device.memory().ours_bytes, expected);
            held.push(buffer);
        }
        assert_eq!([192, 193].map(|n| device.sizes.taken_bytes(n)), [256, 512]);
        let during = device.memory();
        assert_eq!(during.free_bytes, during.total_bytes - expected, "slabs' rests are free");
        // In an order that joins free ranges from both sides.
        for index in [1, 0, 5, 2, 1, 3, 0, 1, 0] {
            held.remove(index);
        }
        assert_eq!(device.memory(), before);
        assert_eq!(fake.state().used_bytes, 0, "slabs are given back");
    }
}

#[test]
fn small_buffers_share_allocations_and_do_not_overlap() {
    let fake = Fake::new(1024 * MIB);
    let device = device(&fake);
    let buffers: Vec<_> = (0..100u8).map(|_| device.alloc("test", 1000).unwrap()).collect();
    assert_eq!(fake.live().allocations, 1);
    for (i, buffer) in buffers.iter().enumerate() {
        device.upload(buffer, 0, &[i as u8; 1000]).unwrap();
    }
    let kept: Vec<_> = (0u8..).zip(buffers).filter(|(i, _)| i % 2 == 1).collect();
    // Freed places are taken again, zeroed, beside what is kept.
    let again: Vec<_> = (0..50).map(|_| device.alloc("test", 1000).unwrap()).collect();
    assert_eq!((fake.live().allocations, again.len()), (1, 50));
    for (i, buffer) in &kept {
        let mut data = [0; 1000];
        device.download(buffer, 0, &mut data).unwrap();
        assert_eq!(data, [*i; 1000]);
    }
}

#[test]
fn what_does_not_fit_is_refused_with_the_figures() {
    let fake = Fake::new(9 * MIB + MIB / 2);
    let device = device(&fake);
    let taken_bytes = |n| device.sizes.taken_bytes(n);
    let held = device.alloc("scratch", 5 * MIB).unwrap();
    assert_eq!(taken_bytes(5 * MIB), 6 * MIB);
    let free_bytes = 3 * MIB + MIB / 2;
    let error = device.alloc("KV cache", 5 * MIB).unwrap_err();
    let needed_bytes = 6 * MIB;
    assert_eq!(error, DeviceError::OutOfMemory { device: ID, what: "KV cache".into(), needed_bytes, free_bytes });
    // A slab of 2 MiB fits once; after it, small pieces come one by one.
    let slab = device.alloc("a", 1000).unwrap();
    let rest = device.alloc("b", 1_048_000).unwrap();
    let single = device.alloc("c", 1_048_000).unwrap();
    assert_eq!(fake.live().allocations, 3);
    assert_eq!(fake.state().used_bytes, 6 * MIB + 2 * MIB + taken_bytes(1_048_000));
    drop((held, slab, rest, single));
    assert_eq!(fake.state().used_bytes, 0);
}

#[test]
fn weights_larger_than_the_ring_arrive_from_several_threads() {
    let fake = Fake::new(1024 * MIB);
    let device = device(&fake);
    // 16 chunks of 4 MiB, and odd rests.
    let sizes = [70 * MIB + 2, 9 * MIB + 4, 2, 4 * MIB, 5_000_000, 20 * MIB + 6];
    let weights: Vec<_> = sizes.iter().map(|n| weight("w", DType::F16, &[n / 2], WeightRole::Table)).collect();
    let data: Vec<_> = sizes.iter().enumerate().map(|(i, n)| noise(*n as usize + i)[i..].to_vec()).collect();
    let buffers: Vec<_> = weights.iter().map(|w| device.alloc_weight(w).unwrap()).collect();
    std::thread::scope(|scope| {
        for i in 0..sizes.len() {
            let (device, buffer, weight, data) = (&device, &buffers[i], &weights[i], &data[i]);
            scope.spawn(move || device.fill_weight(buffer, weight, data).unwrap());
        }
    });
    assert_eq!(fake.n_pending(), 0);
    for (buffer, expected) in buffers.iter().zip(&data) {
        let mut data = vec![0; expected.len()];
        device.download(buffer, 0, &mut data).unwrap();
        assert!(data == *expected, "{buffer:?}");
    }
    assert!(fake.live().pinned <= 16 + 2, "{:?}", fake.live());
    device.trim();
    assert_eq!(fake.live().pinned, 2, "staging memory is freed, transfers keep theirs");
}

#[test]
fn vectors_become_f32_and_planned_bytes_are_taken_bytes() {
    let fake = Fake::new(256 * MIB);
    let device = device(&fake);
    let spec = weight("norm", DType::F16, &[100], WeightRole::Vector);
    let bytes: Vec<u8> = (0..100).flat_map(|i| half::f16::from_f32(i as f32 / 4.0).to_le_bytes()).collect();
    let buffer = device.load_weight(&spec, &bytes).unwrap();
    assert_eq!((buffer.n_bytes(), device.memory().ours_bytes), (400, device.weight_bytes(&spec)));
    let mut data = vec![0; 400];
    device.download(&buffer, 0, &mut data).unwrap();
    let values: Vec<_> = data.as_chunks::<4>().0.iter().map(|b| f32::from_ne_bytes(*b)).collect();
    assert_eq!(values, (0..100).map(|i| i as f32 / 4.0).collect::<Vec<_>>());
}

#[test]
fn what_does_not_suit_is_refused() {
    let fake = Fake::new(256 * MIB);
    let (device, other) = (device(&fake), device_of(&fake, 1));
    let buffer = device.alloc("test", 100).unwrap();
    let wrong = DeviceError::WrongDevice { expected: other.id(), actual: ID };
    assert_eq!(other.upload(&buffer, 0, &[1]), Err(wrong.clone()));
    assert_eq!(other.download(&buffer, 0, &mut [1]), Err(wrong.clone()));
    let programs = gate_programs(&device, 1);
    assert_eq!(programs.run(&other, &AtomicBool::new(false)), Err(wrong));
    for (offset, n) in [(0, 101), (100, 1), (u64::MAX, 2)] {
        let error = device.upload(&buffer, offset, &vec![0; n]).unwrap_err();
        assert!(matches!(error, DeviceError::OutOfRange { buffer_bytes: 100, .. }), "{error}");
        assert!(device.download(&buffer, offset, &mut vec![0; n]).is_err());
    }
    device.upload(&buffer, 100, &[]).unwrap();

    let spec = weight("w", DType::Q8_0, &[64, 2], WeightRole::Matrix);
    let filled = device.alloc_weight(&spec).unwrap();
    assert!(device.fill_weight(&filled, &spec, &[0; 135]).is_err(), "a byte short");
    assert!(device.fill_weight(&buffer, &spec, &[0; 136]).is_err(), "not a weight's buffer");
    assert!(device.upload(&filled, 0, &[0]).is_err());
    let larger = weight("w", DType::Q8_0, &[64, 4], WeightRole::Matrix);
    assert!(device.fill_weight(&filled, &larger, &[0; 272]).is_err());
    let odd = weight("w", DType::Q8_0, &[63, 2], WeightRole::Matrix);
    assert!(matches!(device.alloc_weight(&odd), Err(DeviceError::Unsupported { .. })));
}

#[test]
fn large_transfers_arrive() {
    let fake = Fake::new(256 * MIB);
    let device = device(&fake);
    let data = noise(9_000_001);
    let buffer = device.alloc("KV cache", 9_000_101).unwrap();
    device.upload(&buffer, 50, &data).unwrap();
    let mut back = vec![0; data.len() + 100];
    device.download(&buffer, 0, &mut back).unwrap();
    assert!(back[..50] == [0; 50] && back[50..][..data.len()] == data && back[50 + data.len()..] == [0; 50]);
}

#[test]
fn a_lost_device_says_so_at_once_and_is_left_alone() {
    let fake = Fake::new(256 * MIB);
    let device = device(&fake);
    let buffer = device.alloc("test", 100).unwrap();
    let spec = weight("w", DType::F16, &[64, 300], WeightRole::Matrix);
    let filled = device.load_weight(&spec, &noise(64 * 300 * 2)).unwrap();
    let programs = gate_programs(&device, 2);
    programs.run(&device, &AtomicBool::new(false)).unwrap();
    fake.state().is_lost = true;
    let is_lost = |result| matches!(result, Err(DeviceError::Lost { device: ID, .. }));
    assert!(is_lost(device.upload(&buffer, 0, &[1])));
    let asked = fake.state().n_calls_when_lost;
    assert!(asked > 0);
    // Even when the driver seems to answer again, and without asking it.
    assert!(is_lost(device.download(&buffer, 0, &mut [1])));
    assert!(is_lost(device.alloc("more", 1).map(drop)));
    assert!(is_lost(device.fill_weight(&filled, &spec, &noise(64 * 300 * 2))));
    assert!(is_lost(programs.run(&device, &AtomicBool::new(false))));
    let memory = device.memory();
    assert!(memory.free_bytes == 0 && memory.ours_bytes > 0 && memory.total_bytes == 256 * MIB, "{memory:?}");
    device.trim();
    drop((buffer, filled, programs, device));
    assert_eq!(fake.state().n_calls_when_lost, asked, "drops ask nothing of a lost device");
    assert_eq!(fake.live().contexts, 0);
}

#[test]
fn peer_copies_are_made_where_offered() {
    let fake = Fake::new(256 * MIB);
    let (zero, one) = (device(&fake), device_of(&fake, 1));
    let (from, to) = (zero.alloc("KV cache", 3000).unwrap(), one.alloc("KV cache", 3000).unwrap());
    zero.upload(&from, 0, &noise(3000)).unwrap();
    assert_eq!(zero.copy_from_peer(&from, 0, &one, &to, 0, 10), Ok(false));
    assert_eq!(one.copy_from_peer(&to, 100, &zero, &from, 1000, 2000), Ok(true));
    let mut data = vec![0; 3000];
    one.download(&to, 0, &mut data).unwrap();
    assert!(data[..100] == [0; 100] && data[100..2100] == noise(3000)[1000..] && data[2100..] == [0; 900]);
    assert!(one.copy_from_peer(&to, 1001, &zero, &from, 0, 2000).is_err());
    assert!(one.copy_from_peer(&from, 0, &zero, &from, 0, 1).is_err());
    assert_eq!(zero.copy_from_peer(&from, 0, &zero, &from, 2000, 500), Ok(true));
    zero.download(&from, 0, &mut data).unwrap();
    assert!(data[..500] == noise(3000)[2000..2500]);
}

/// Programs with their memory.
struct Bound {
    programs: Vec<(Program, Bindings)>,
    step: Step,
}

impl Bound {
    fn run(&self, device: &GpuDevice, stop: &AtomicBool) -> Result<(), DeviceError> {
        let work: Vec<_> = self.programs.iter().map(|(program, bindings)| BoundProgram { program, bindings }).collect();
        device.run(&work, &self.step, stop)
    }
}

/// So many programs of one gated activation over two tokens.
fn gate_programs(device: &GpuDevice, n: usize) -> Bound {
    let (gate, up, out) = (Slot(0), Slot(1), Slot(1));
    let op = Op::GatedActivation { gate, up, activation: Activation::Silu, width: 8, out };
    let program = Program { name: "gate".into(), rows: Rows::Batch, weights: vec![], ops: vec![op] };
    let buffer = device.alloc("scratch", 256).unwrap();
    let scratch = Scratch { buffer, slot_offsets: vec![Some(0), Some(128)].into() };
    let bindings = Bindings { weights: vec![], kv: None, scratch };
    let step = Step { tokens: vec![5, 6], first_position: 0, outputs: 0..0 };
    Bound { programs: vec![(program, bindings); n], step }
}

#[test]
fn launches_get_their_arguments() {
    let fake = Fake::new(256 * MIB);
    let device = device(&fake);
    let spec = KvSpec { dtype: DType::F16, head_dim_k: 4, head_dim_v: 4, n_kv_head: 2, n_ctx: 300 };
    let inv_freq: Arc<[f32]> = vec![1.0, 0.5].into();
    let rope = |inv_freq: &Arc<[f32]>| Op::Rope {
        x: Slot(1),
        n_head: 2,
        head_dim: 4,
        n_rot: 4,
        pairing: RopePairing::Halves,
        frequencies: RopeFrequencies { inv_freq: inv_freq.clone(), magnitude: 1.0 },
        factors: None,
    };
    let norm = Op::RmsNorm { x: Slot(0), weight: WeightRef(0), width: 8, n_groups: 1, eps: 0.5, out: Slot(1) };
    let ops = vec![norm, rope(&inv_freq), rope(&inv_freq.to_vec().into()), Op::KvAppend { k: Slot(1), v: Slot(0) }];
    let weights = vec![weight("norm", DType::F32, &[8], WeightRole::Vector)];
    let program = Program { name: "attn 0".into(), rows: Rows::Batch, weights, ops };
    let values: Vec<u8> = (0..8).flat_map(|i| (i as f32).to_le_bytes()).collect();
    let scratch = device.alloc("scratch", 512).unwrap();
    let norm = device.load_weight(&program.weights[0], &values).unwrap();
    let kv =
        KvCache { spec, k: device.alloc("K", spec.k_bytes()).unwrap(), v: device.alloc("V", spec.v_bytes()).unwrap() };
    let address = |buffer: &Buffer| buffer.storage::<Stored>(ID).unwrap().piece.address().0;
    let (scratch_at, norm_at, k, v) = (address(&scratch), address(&norm), address(&kv.k), address(&kv.v));
    let scratch = Scratch { buffer: scratch, slot_offsets: vec![Some(32), Some(256)].into() };
    let bindings = Bindings { weights: vec![norm], kv: Some(kv), scratch };
    let step = Step { tokens: vec![7, 8, 9], first_position: 255, outputs: 2..3 };
    let bound = Bound { programs: vec![(program, bindings)], step };
    bound.run(&device, &AtomicBool::new(false)).unwrap();

    assert_eq!(fake.n_pending(), 0, "it has waited");
    let launched = fake.state().launched.clone();
    let names: Vec<_> = launched.iter().map(|l| l.name.as_str()).collect();
    let rope = "rope.cu N=3: rope";
    assert_eq!(names, ["norm.cu N=3: norm", rope, rope, "kv.cu N=3: append"]);
    assert!(launched.iter().all(|l| l.grid == [3, 1, 1] && l.block == 64));
    let params = &launched[0].params;
    let (x, y) = (scratch_at + 32, scratch_at + 256);
    assert_eq!(params[1..], [x, norm_at, y, 0, u64::from(0.5f32.to_bits())]);
    let block = fake.state().read(params[0], 44);
    let block: Vec<_> = block.as_chunks::<4>().0.iter().map(|b| u32::from_ne_bytes(*b)).collect();
    assert_eq!(block, [3, 255, 2, 1, 0, 0, 0, 0, 7, 8, 9]);
    // The same table by content is on the device once; positions are rounded up, and not past the cache.
    let table = launched[1].params[1];
    assert_eq!(launched[1].params, [y, table, 300]);
    assert_eq!(launched[2].params, launched[1].params);
    assert_eq!(fake.state().read(table, 8), [1.0f32.to_ne_bytes(), 0.5f32.to_ne_bytes()].concat());
    assert_eq!(launched[3].params[..4], [y, x, k, v]);
    // Working memory is kept, and freed by a trim.
    let before = device.memory().ours_bytes;
    bound.run(&device, &AtomicBool::new(false)).unwrap();
    assert_eq!(device.memory().ours_bytes, before);
    assert_eq!(fake.state().launched[7], launched[3]);
    device.trim();
    let shape = ProgramShape { program: &bound.programs[0].0, kv: Some(spec) };
    assert_eq!(before - device.memory().ours_bytes, device.work_bytes(&[shape], 3), "as planned");
}

#[test]
fn bindings_that_do_not_fit_are_refused_before_anything_is_launched() {
    let fake = Fake::new(256 * MIB);
    let device = device(&fake);
    let refused = |change: &dyn Fn(&mut Bound), expected: &str| {
        let mut bound = gate_programs(&device, 2);
        change(&mut bound);
        let error = bound.run(&device, &AtomicBool::new(false)).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}, not {expected}");
    };
    refused(&|b| b.programs[1].1.scratch.slot_offsets = vec![Some(0), Some(224)].into(), "outside a buffer of 256");
    refused(&|b| b.programs[1].1.scratch.slot_offsets = vec![Some(0), None].into(), "slot 1 has no memory");
    refused(&|b| b.programs[1].1.scratch.slot_offsets = vec![Some(0), Some(32)].into(), "overlaps");
    refused(&|b| b.programs[1].1.scratch.slot_offsets = vec![Some(0), Some(129)].into(), "not a multiple");
    refused(&|b| b.step.outputs = 1..3, "output rows 1..3");
    refused(&|b| b.step.tokens = vec![0; 5], "outside a buffer of 256");
    let spec = weight("w", DType::F32, &[8], WeightRole::Vector);
    refused(&|b| b.programs[1].0.weights.push(spec.clone()), "1 weights, 0 are bound");
    let buffer = device.alloc("scratch", 32).unwrap();
    refused(
        &|b| {
            b.programs[1].0.weights.push(spec.clone());
            b.programs[1].1.weights.push(buffer.clone());
        },
        "memory of another one",
    );
    let kv = KvSpec { dtype: DType::F16, head_dim_k: 4, head_dim_v: 4, n_kv_head: 2, n_ctx: 300 };
    let cache = |k: u64| KvCache { spec: kv, k: device.alloc("K", k).unwrap(), v: device.alloc("V", 4800).unwrap() };
    refused(&|b| b.programs[1].1.kv = Some(cache(4799)), "too small for 300 positions");
    refused(
        &|b| {
            b.programs[1].1.kv = Some(cache(4800));
            b.step.first_position = 299;
        },
        "position 301 is past",
    );
    assert_eq!(fake.state().launched, []);
}

#[test]
fn a_stop_is_heard_between_programs() {
    let fake = Fake::new(256 * MIB);
    let device = device(&fake);
    let programs = gate_programs(&device, 40);
    let stop = Arc::new(AtomicBool::new(false));
    programs.run(&device, &stop).unwrap();
    assert_eq!(fake.state().launched.len(), 40);
    let heard = stop.clone();
    fake.state().on_launch = Some(Box::new(move |n| heard.store(n == 40 + 15, Ordering::Relaxed)));
    assert_eq!(programs.run(&device, &stop), Err(DeviceError::Stopped));
    assert_eq!(fake.state().launched.len(), 40 + 15);
    assert_eq!(fake.n_pending(), 0, "what was queued has ended");
    assert_eq!(programs.run(&device, &AtomicBool::new(true)), Err(DeviceError::Stopped));
}

#[test]
fn only_so_many_programs_are_queued_ahead() {
    let fake = Fake::new(256 * MIB);
    let device = device(&fake);
    let programs = gate_programs(&device, 40);
    programs.run(&device, &AtomicBool::new(false)).unwrap();
    let before = fake.state().n_syncs;
    programs.run(&device, &AtomicBool::new(false)).unwrap();
    // Every program but the first eight waits for the one eight before it, and the run for the last.
    assert_eq!(fake.state().n_syncs - before, 40 - 8 + 1);
}

#[test]
fn kernels_are_made_once_and_a_stop_is_passed_on() {
    let fake = Fake::new(256 * MIB);
    let texts = Arc::new(Texts::default());
    let mut device = device(&fake);
    device.images = texts.clone();
    let programs = gate_programs(&device, 3);
    let open = device.open().unwrap();
    let units = [Unit::new(Source::Rows, &[("N", 3)]), Unit::new(Source::Norm, &[])];
    let stopped = open.kernels.prepare(&open.context, &units, &AtomicBool::new(true), &|_| {});
    assert_eq!(stopped, Err(DeviceError::Stopped));
    let reports = Mutex::new(vec![]);
    let go_on = AtomicBool::new(false);
    open.kernels.prepare(&open.context, &units[..1], &go_on, &|p| lock(&reports).push(p)).unwrap();
    open.kernels.prepare(&open.context, &units, &go_on, &|p| lock(&reports).push(p)).unwrap();
    let reports: Vec<_> = lock(&reports).iter().map(|p| (p.n_done, p.n_total)).collect();
    assert_eq!(reports, [(0, 1), (0, 1), (1, 1), (1, 2), (1, 2), (2, 2)]);
    programs.run(&device, &go_on).unwrap();
    assert_eq!((texts.n_made.load(Ordering::Relaxed), fake.live().modules), (2, 2), "the run found what it needs");
}
