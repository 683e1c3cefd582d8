//! Model files as a user has them, and what is found of them; other lists that dialogs show.

use std::path::PathBuf;

use chrono::{DateTime, Duration, Utc};

use super::rig::{CPU0, CUDA0, ROCM0};
use super::stage::{Stage, Words};
use crate::devices::telemetry::Finding;
use crate::engine::inventory::{Examined, ModelFacts, Verdict};
use crate::models::library::{LibraryEntry, Origin};
use crate::sessions::SessionHead;
use crate::ui::msg::{Msg, SessionRow};

const MIB: u64 = 1 << 20;

struct File {
    name: &'static str,
    origin: Origin,
    mib: u64,
    n_shards: u32,
    quant: &'static str,
    arch: &'static str,
    params_m: u64,
    n_ctx_train: u32,
    n_expert: Option<(u32, u32)>,
    verdict: fn(Words) -> Verdict,
}

const fn file(name: &'static str, origin: Origin, mib: u64, verdict: fn(Words) -> Verdict) -> File {
    let (quant, arch) = ("Q4_K_M", "llama");
    File { name, origin, mib, n_shards: 1, quant, arch, params_m: 8030, n_ctx_train: 131_072, n_expert: None, verdict }
}

fn fits(_: Words) -> Verdict {
    Verdict::Fits { on: CUDA0 }
}

fn split(_: Words) -> Verdict {
    Verdict::FitsSplit { over: vec![CUDA0, ROCM0] }
}

fn split_three(_: Words) -> Verdict {
    Verdict::FitsSplit { over: vec![CUDA0, ROCM0, CPU0] }
}

const FILES: &[File] = &[
    File {
        params_m: 32_764,
        arch: "qwen2",
        ..file("Qwen2.5-32B-Instruct-Q4_K_M.gguf", Origin::ModelFolder, 18_932, fits)
    },
    File { quant: "Q8_0", ..file("Meta-Llama-3.1-8B-Instruct-Q8_0.gguf", Origin::ModelFolder, 8146, fits) },
    File {
        params_m: 30_532,
        arch: "qwen3moe",
        n_expert: Some((128, 8)),
        n_ctx_train: 262_144,
        ..file(
            "unsloth/Qwen3-30B-A3B-Instruct-2507-GGUF: Qwen3-30B-A3B-Instruct-2507-Q4_K_M.gguf",
            Origin::HuggingFace,
            17_697,
            fits,
        )
    },
    File {
        params_m: 70_554,
        ..file(
            "bartowski/Llama-3.3-70B-Instruct-GGUF: Llama-3.3-70B-Instruct-Q4_K_M.gguf",
            Origin::HuggingFace,
            40_550,
            split,
        )
    },
    File {
        params_m: 12_187,
        arch: "gemma3",
        quant: "Q6_K",
        ..file("lmstudio-community/gemma-3-12b-it-GGUF: gemma-3-12b-it-Q6_K.gguf", Origin::LmStudio, 9214, fits)
    },
    File { params_m: 3213, ..file("llama3.2:latest", Origin::Ollama, 1926, fits) },
    File {
        params_m: 14_770,
        arch: "phi3",
        ..file("phi4:14b", Origin::Ollama, 8635, |_| Verdict::Unsupported {
            why: "the architecture phi3 is not known yet".to_owned(),
        })
    },
    File {
        params_m: 7616,
        arch: "qwen2",
        quant: "Q5_K_M",
        ..file("ggml-org_Qwen2.5-Coder-7B-Q5_K_M.gguf", Origin::LlamaCpp, 5190, fits)
    },
    File {
        params_m: 122_110,
        arch: "llama4",
        n_shards: 3,
        n_expert: Some((16, 1)),
        ..file("Llama-4-Scout-17B-16E-Instruct-Q4_K_M-00001-of-00003.gguf", Origin::CurrentFolder, 62_130, split_three)
    },
    File {
        params_m: 671_026,
        arch: "deepseek2",
        n_shards: 9,
        n_expert: Some((256, 8)),
        ..file("DeepSeek-V3-0324-Q4_K_M-00001-of-00009.gguf", Origin::Configured, 386_000, |_| Verdict::TooLarge {
            short_bytes: 221_000 * MIB,
        })
    },
];

const BROKEN: &str = "unfinished-download.gguf";

fn path(words: Words, name: &str) -> PathBuf {
    format!("/home/ada/models/{}", words.of(name).replace(": ", "/")).into()
}

/// The library is found, and all but one of its files looked into.
pub fn tell_library(stage: &mut Stage) {
    let words = stage.setup.words;
    let of = |file: &File| LibraryEntry {
        path: path(words, file.name),
        name: words.of(file.name),
        origin: file.origin,
        file_bytes: file.mib * MIB,
        n_shards: file.n_shards,
    };
    let broken = file(BROKEN, Origin::CurrentFolder, 611, fits);
    let unread = file("still-to-be-read-Q8_0.gguf", Origin::CurrentFolder, 4368, fits);
    let entries = FILES.iter().chain([&broken, &unread]).map(of).collect();
    stage.send(Msg::Library(entries));
    for file in FILES {
        let facts = ModelFacts {
            name: words.of(file.name),
            arch: words.of(file.arch),
            quant: words.of(file.quant),
            size_label: None,
            n_params: file.params_m * 1_000_000,
            n_layer: Some(48),
            n_ctx_train: Some(file.n_ctx_train),
            n_expert: file.n_expert.map(|(n, _)| n),
            n_expert_used: file.n_expert.map(|(_, n)| n),
            file_bytes: file.mib * MIB,
        };
        let verdict = match (file.verdict)(words) {
            Verdict::Unsupported { why } => Verdict::Unsupported { why: words.of(&why) },
            other => other,
        };
        let examined = Box::new(Examined { facts: Some(facts), verdict });
        stage.send(Msg::LibraryFacts { path: path(words, file.name), examined });
    }
    let why = words.of("the file ends at 611 MiB, its tensors at 4368 MiB: download it again");
    let examined = Box::new(Examined { facts: None, verdict: Verdict::Unreadable { why } });
    stage.send(Msg::LibraryFacts { path: path(words, BROKEN), examined });
}

pub fn sessions(words: Words, now: DateTime<Utc>) -> Vec<SessionRow> {
    let row = |(name, title, hours, n_messages): (&str, &str, i64, usize)| {
        let changed = now - Duration::hours(hours);
        let id = format!("2026-11-{name}").parse().ok()?;
        let head = SessionHead {
            id,
            path: format!("/home/ada/.local/state/layercake/sessions/2026-11-{name}.jsonl").into(),
            title: words.of(title),
            created: changed,
            changed,
            model: Some(words.of("Qwen2.5 32B Instruct")),
            n_messages,
            bytes: 4096,
        };
        let snippet = title.contains("KV").then(|| words.of("the KV cache takes 128 MiB a layer at 32k"));
        Some(SessionRow { head, snippet })
    };
    let rows = [
        ("30-a", "Why is my boundary at layer 34?", 1, 8),
        ("29-b", "Sizing the KV cache", 3, 21),
        ("28-c", "A haiku about PCI Express", 22, 2),
        ("27-d", "量子化とは何ですか", 50, 6),
        ("26-e", "", 75, 1),
        ("11-f", "Compare Q4_K_M and Q5_K_M on my two cards, with a table of sizes and speeds for each", 500, 132),
    ];
    rows.into_iter().filter_map(row).collect()
}

pub fn findings(words: Words) -> Vec<Finding> {
    let places = |names: &[&str]| names.iter().map(|name| words.of(name)).collect();
    vec![
        Finding::ok(words.of("NVML"), places(&["libnvidia-ml.so.1"]), words.of("driver 570.86.15, 1 device")),
        Finding::warning(
            words.of("AMD: amdgpu sysfs"),
            places(&["/sys/class/drm/card1"]),
            words.of("card1: power1_average cannot be read: permission denied"),
            words.of("add yourself to the group render and log in again"),
        ),
        Finding::missing(
            words.of("ROCm SMI"),
            places(&["librocm_smi64.so", "librocm_smi64.so.7", "/opt/rocm/lib/librocm_smi64.so"]),
            words.of("it is not installed"),
            words.of("install rocm-smi-lib; without it some figures of AMD cards stay unknown"),
        ),
        Finding::ok(words.of("Host"), places(&["/proc"]), words.of("64 threads, 125.7 GiB of memory")),
    ]
}
