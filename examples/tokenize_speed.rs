//! How fast text becomes token ids, per vocabulary and kind of text, at two lengths: linear means the same rate twice.
//!
//! `cargo run --release --example tokenize_speed [FOLDER with the golden vocabularies]`

use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use layercake::engine::gguf::parse_header;
use layercake::engine::tokenizer::{DecodeOptions, EncodeOptions, Tokenizer, VocabSource};

const VOCABS: [&str; 6] = [
    "vocab-smollm2.gguf",
    "ggml-vocab-llama-spm.gguf",
    "ggml-vocab-qwen2.gguf.gz",
    "ggml-vocab-deepseek-llm.gguf.gz",
    "ggml-vocab-mpt.gguf",
    "ggml-vocab-llama-bpe.gguf.gz",
];
const MIB: usize = 1 << 20;

fn main() {
    let folder = std::env::args_os().nth(1).map(PathBuf::from).unwrap_or_else(|| {
        let golden = std::env::var_os("LAYERCAKE_GOLDEN").map(PathBuf::from);
        let beside = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared/golden");
        golden.unwrap_or_else(beside).join("tokenizers")
    });
    let english = std::fs::read_to_string(folder.join("../smollm2/ppl_text.txt")).unwrap_or_else(|e| {
        eprintln!("no English text beside {}: {e}; this program's own source instead", folder.display());
        include_str!("tokenize_speed.rs").to_owned()
    });
    let texts = [
        ("English", english),
        // Few words twice: the memory of words seen is of no use.
        ("random words", random_words(MIB)),
        ("one letter", "a".to_owned()),
        ("letter pairs", "ab".to_owned()),
        ("random letters", random_words(4 * MIB).replace(' ', "")),
        ("spaces", " ".to_owned()),
        ("newlines", "\n".to_owned()),
        ("space, newline", " \n".to_owned()),
        ("digits", "1234567890".to_owned()),
        ("apostrophes", "'".to_owned()),
        ("CJK", "你好世界今天天气怎么样日本語の文章한국어문장".to_owned()),
        ("emoji", "😀👍🏽🦙".to_owned()),
        ("specials", "<|endoftext|>".to_owned()),
        ("half specials", "<|endoftext".to_owned()),
    ];
    let options = EncodeOptions { add_special: true, parse_special: true };
    for vocab in VOCABS {
        let source = read_vocab(&folder.join(vocab));
        let start = Instant::now();
        let tokenizer = Tokenizer::new(source).unwrap_or_else(|e| panic!("{vocab}: {e}"));
        println!("{vocab}: made in {:.0} ms", start.elapsed().as_secs_f64() * 1e3);
        println!("  {:<16}{:>12}{:>12}{:>14}{:>12}", "text", "1 MiB ms", "4 MiB ms", "MB/s (4 MiB)", "decode ms");
        for (name, unit) in &texts {
            let [(small, _), (large, ids)] = [MIB, 4 * MIB].map(|bytes| {
                let text = repeated(unit, bytes);
                best_of_3(|| tokenizer.encode(&text, options))
            });
            let (decode, _) = best_of_3(|| tokenizer.decode(&ids, DecodeOptions::default()).expect("own ids"));
            let [small_ms, large_ms, decode_ms] = [small, large, decode].map(|d| d.as_secs_f64() * 1e3);
            let rate = 4.0 * MIB as f64 / 1e6 / large.as_secs_f64();
            println!("  {name:<16}{small_ms:>12.0}{large_ms:>12.0}{rate:>14.1}{decode_ms:>12.0}");
        }
    }
}

fn best_of_3<T>(work: impl Fn() -> T) -> (Duration, T) {
    let timed = || {
        let start = Instant::now();
        let made = work();
        (start.elapsed(), made)
    };
    [timed(), timed(), timed()].into_iter().min_by_key(|(time, _)| *time).expect("three runs")
}

fn repeated(unit: &str, bytes: usize) -> String {
    let mut text = unit.repeat(bytes / unit.len() + 1);
    let mut bytes = bytes;
    while !text.is_char_boundary(bytes) {
        bytes -= 1;
    }
    text.truncate(bytes);
    text
}

/// Words of 1 to 12 letters.
fn random_words(bytes: usize) -> String {
    let mut state = 1u64;
    let mut random = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize
    };
    let mut text = String::with_capacity(bytes + 16);
    while text.len() < bytes {
        for _ in 0..random() % 12 + 1 {
            text.push(char::from(b"etaoinshrdlucmfwypvbgkjqxz"[random() % 26]));
        }
        text.push(' ');
    }
    text
}

/// The vocabulary of a GGUF file, gzip-compressed or not.
fn read_vocab(path: &Path) -> VocabSource {
    let mut bytes = std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    if path.extension().is_some_and(|e| e == "gz") {
        let packed = std::mem::take(&mut bytes);
        flate2::read::GzDecoder::new(packed.as_slice()).read_to_end(&mut bytes).expect("gzip data");
    }
    let header = parse_header(&bytes, bytes.len() as u64).expect("a GGUF header");
    VocabSource::from_metadata(&header.metadata).expect("a vocabulary")
}
