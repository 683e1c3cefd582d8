//! Golden models on small simulated devices.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use super::*;
use crate::devices::cpu::matmul::ActivationFormat;
use crate::devices::cpu::{CpuConfig, CpuDevice};
use crate::devices::{Device, DeviceId, DeviceKind};
use crate::engine::budget::plan_memory;
use crate::engine::golden_dir;

fn golden(path: &str) -> PathBuf {
    let path = golden_dir().join(path);
    assert!(path.exists(), "golden data is missing: {}", path.display());
    path
}

/// Simulated devices, the first the fastest, with so many bytes each.
fn devices(memories: &[u64]) -> Devices {
    let device = |(i, memory_bytes): (usize, &u64)| {
        let config = CpuConfig {
            id: DeviceId::new(DeviceKind::Cuda, i as u16),
            name: "test".into(),
            simulated: true,
            n_threads: 1,
            memory_bytes: Some(*memory_bytes),
            activations: ActivationFormat::Int8,
            memory_bytes_per_s: Some(1_000_000_000_000 >> (3 * i)),
            link_bytes_per_s: Some(1_000_000_000),
        };
        Arc::new(CpuDevice::new(config).expect("device")) as Arc<dyn Device>
    };
    Devices(memories.iter().enumerate().map(device).collect())
}

fn verdict(path: &Path, memories: &[u64]) -> Verdict {
    examine(path, &devices(memories), Some(512), KvType::F16).verdict
}

const ROOMY: u64 = 1 << 30;

#[test]
fn facts_are_what_the_golden_files_say() {
    let llama = facts(&golden("models/llama.gguf")).expect("readable");
    assert_eq!((llama.name.as_str(), llama.arch.as_str(), llama.n_layer), ("tiny-llama", "llama", Some(2)));
    assert_eq!(llama.n_expert, None);
    assert_eq!(llama.file_bytes, std::fs::metadata(golden("models/llama.gguf")).expect("size").len());
    let moe = facts(&golden("models/qwen3moe.gguf")).expect("readable");
    assert_eq!((moe.arch.as_str(), moe.n_expert), ("qwen3moe", Some(8)));
    assert!(moe.n_expert_used.is_some_and(|n| n > 0 && n < 8), "{moe:?}");

    // Every one, whether its architecture can be run or not.
    let mut n_files = 0;
    for item in std::fs::read_dir(golden("models")).expect("folder") {
        let path = item.expect("item").path();
        if path.extension().is_some_and(|e| e == "gguf") {
            let facts = facts(&path).expect("readable");
            assert!(facts.n_layer.is_some_and(|n| n > 0) && facts.n_ctx_train.is_some_and(|n| n > 0), "{facts:?}");
            assert!(facts.n_params > 1000 && !facts.arch.is_empty() && facts.quant != "no tensors", "{facts:?}");
            n_files += 1;
        }
    }
    assert!(n_files > 25, "only {n_files} golden models");
}

#[test]
fn a_split_model_has_the_facts_of_the_whole() {
    let whole = facts(&golden("models/llama.gguf")).expect("readable");
    let split = facts(&golden("shards/llama-shard-00001-of-00003.gguf")).expect("readable");
    assert_eq!((split.n_params, &split.quant, split.n_layer), (whole.n_params, &whole.quant, whole.n_layer));
    assert!(split.file_bytes > whole.file_bytes, "three headers instead of one");
}

#[test]
fn the_quantisation_is_named_by_file_type_else_by_the_commonest_type() {
    use crate::devices::quant::DType;
    use crate::engine::gguf::GgufBuilder;
    let folder = tempfile::tempdir().expect("temp folder");
    let quant_of = |file_type: Option<u32>| {
        let mut builder = GgufBuilder::new();
        builder.set("general.architecture", "some\u{1b}thing");
        if let Some(file_type) = file_type {
            builder.set("general.file_type", file_type);
        }
        let tensors = [("a", DType::F32, 32), ("b", DType::Q8_0, 320), ("c", DType::Q4_0, 64)];
        for (name, dtype, n) in tensors {
            builder.tensor(name, &[n], dtype).expect("tensor");
        }
        let path = folder.path().join("m.bin");
        let mut writer = builder.start(std::fs::File::create(&path).expect("file")).expect("header");
        for (_, dtype, n) in tensors {
            writer.write(&vec![0; dtype.bytes_of(n).expect("whole blocks") as usize]).expect("data");
        }
        writer.finish().expect("whole");
        // The name of a blob has no `.gguf`.
        facts(&path).expect("readable")
    };
    assert_eq!(quant_of(Some(15)).quant, "Q4_K_M");
    assert_eq!(quant_of(None).quant, "Q8_0");
    let guessed = quant_of(Some(1024));
    assert_eq!((guessed.quant.as_str(), guessed.n_params), ("Q8_0", 416));
    assert_eq!((guessed.name.as_str(), guessed.arch.as_str(), guessed.n_layer), ("m", "some\u{fffd}thing", None));
}

#[test]
fn what_fits_depends_on_the_devices() {
    let path = golden("models/llama.gguf");
    let cuda = |index| DeviceId::new(DeviceKind::Cuda, index);
    let model = Model::open(&path, Some(512), LoadOptions::DEFAULT_CTX, KvType::F16).expect("model");
    let plan = plan_memory(&model, &devices(&[ROOMY]), Some("cuda0=all")).expect("plan");
    let need = plan.fit.devices[0].taken_bytes();
    // 2 % are left free.
    let enough = need * 100 / 97;

    assert_eq!(verdict(&path, &[enough]), Verdict::Fits { on: cuda(0) });
    assert_eq!(verdict(&path, &[enough, enough]), Verdict::Fits { on: cuda(0) });
    assert_eq!(verdict(&path, &[need * 8 / 10, need * 8 / 10]), Verdict::FitsSplit { over: vec![cuda(0), cuda(1)] });
    let Verdict::TooLarge { short_bytes } = verdict(&path, &[need / 2]) else { panic!("half is too little") };
    assert!(short_bytes > need * 4 / 10 && short_bytes < need * 6 / 10, "{short_bytes} of {need}");
    assert!(matches!(verdict(&path, &[]), Verdict::Unsupported { why } if why.contains("no device")));
    // A longer context takes more.
    let long = examine(&path, &devices(&[enough]), Some(1 << 20), KvType::F16).verdict;
    assert!(matches!(long, Verdict::TooLarge { .. }), "{long:?}");
}

#[test]
fn what_cannot_run_says_why_and_keeps_its_facts() {
    for (file, words) in [
        ("models/starcoder2.gguf", "architecture 'starcoder2' is not supported"),
        ("quant/llama256-IQ2_S.gguf", "which is not supported yet"),
    ] {
        let path = golden(file);
        let Examined { facts, verdict } = examine(&path, &devices(&[ROOMY]), None, KvType::F16);
        assert!(facts.is_some_and(|f| f.n_params > 0), "{file}");
        let Verdict::Unsupported { why } = verdict else { panic!("{file}: {verdict:?}") };
        assert!(why.contains(words) && !why.contains(&*path.to_string_lossy()), "{why}");
    }
}

#[test]
fn what_cannot_be_read_says_why() {
    let folder = tempfile::tempdir().expect("temp folder");
    let path = folder.path().join("m.gguf");
    let why = |path: &Path| match examine(path, &devices(&[ROOMY]), None, KvType::F16) {
        Examined { facts: None, verdict: Verdict::Unreadable { why } } => why,
        other => panic!("{other:?}"),
    };
    std::fs::write(&path, b"PK\x03\x04").expect("file");
    assert_eq!(why(&path), "is not a GGUF file: it starts with \"PK\\x03\\x04\", not \"GGUF\"");
    let whole = std::fs::read(golden("models/llama.gguf")).expect("model");
    std::fs::write(&path, &whole[..whole.len() - 100]).expect("file");
    assert!(why(&path).contains("download it again"), "{}", why(&path));
    let shard = folder.path().join("s-00001-of-00003.gguf");
    std::fs::copy(golden("shards/llama-shard-00001-of-00003.gguf"), &shard).expect("shard");
    assert!(why(&shard).starts_with("s-00002-of-00003.gguf: is missing"), "{}", why(&shard));
    assert!(why(&folder.path().join("gone.gguf")).contains("cannot be opened"));
}

#[test]
fn a_blob_without_the_ending_is_a_model() {
    let folder = tempfile::tempdir().expect("temp folder");
    let path = folder.path().join(format!("sha256-{}", "a".repeat(64)));
    std::fs::copy(golden("models/qwen3.gguf"), &path).expect("blob");
    assert!(matches!(verdict(&path, &[ROOMY]), Verdict::Fits { .. }));
}

#[test]
fn a_look_touches_only_the_header() {
    // 2 TiB of zeros that are nowhere: reading the data would not end.
    use crate::devices::quant::DType;
    use crate::engine::gguf::GgufBuilder;
    let folder = tempfile::tempdir().expect("temp folder");
    let path = folder.path().join("vast.gguf");
    let mut builder = GgufBuilder::new();
    builder.set("general.architecture", "vast").tensor("a", &[1 << 39], DType::F32).expect("tensor");
    let n_bytes = builder.data_bytes();
    let file = std::fs::File::create(&path).expect("file");
    drop(builder.start(&file).expect("header"));
    let header_bytes = file.metadata().expect("size").len();
    if file.set_len(header_bytes + n_bytes).is_err() {
        eprintln!("this file system has no files of 2 TiB");
        return;
    }
    let started = Instant::now();
    assert_eq!(facts(&path).expect("readable").n_params, 1 << 39);
    assert!(started.elapsed().as_secs() < 5, "{:?}", started.elapsed());
}

mod hostile {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]
        /// Whatever a file holds, a look at it ends in a verdict.
        #[test]
        fn a_damaged_header_is_a_verdict(
            changes in proptest::collection::vec((0.0..1.0f64, any::<u8>()), 1..4),
            cut in proptest::option::of(0.0..1.0f64),
        ) {
            let mut bytes = std::fs::read(golden("models/llama.gguf")).expect("model");
            let gguf = Gguf::open(&golden("models/llama.gguf")).expect("model");
            let header_bytes = gguf.tensors().iter().map(|t| t.offset).min().expect("tensors") as f64;
            for (at, byte) in changes {
                bytes[(at * header_bytes) as usize] = byte;
            }
            if let Some(cut) = cut {
                bytes.truncate((cut * bytes.len() as f64) as usize);
            }
            let folder = tempfile::tempdir().expect("temp folder");
            let path = folder.path().join("m.gguf");
            std::fs::write(&path, bytes).expect("file");
            let Examined { facts, verdict } = examine(&path, &devices(&[ROOMY, 1 << 20]), None, KvType::F16);
            let is_unreadable = matches!(verdict, Verdict::Unreadable { .. });
            prop_assert_eq!(facts.is_none(), is_unreadable, "{:?}", verdict);
        }
    }
}
