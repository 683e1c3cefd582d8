//! Fuzzes the GGUF reader on a stable compiler: `cargo run --release --example fuzz_gguf -- SECONDS FILE.gguf...`
//!
//! Mutates the headers of valid files at random and checks each result with the same function as the libFuzzer target
//! in `fuzz/`. A counting allocator measures each case: one allocation larger than a small multiple of the header, or
//! more than that in use at once, fails, as does a panic. A failing case is saved and its path printed.

use std::alloc::{GlobalAlloc, Layout, System};
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

#[path = "../fuzz/check_gguf.rs"]
mod check;

/// A case of `n` bytes may allocate this many times `n` at once, and in all, beyond `SLACK_BYTES`.
const MAX_FACTOR: usize = 8;
const SLACK_BYTES: usize = 64 << 10;

struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);
static LARGEST: AtomicUsize = AtomicUsize::new(0);

fn count(n_bytes: usize) {
    LARGEST.fetch_max(n_bytes, Relaxed);
    PEAK.fetch_max(LIVE.fetch_add(n_bytes, Relaxed) + n_bytes, Relaxed);
}

// SAFETY: every call goes to the system's allocator unchanged; the counters do not touch the memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller keeps to the contract of `alloc`, which is the system's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: `pointer` came from `alloc` or `realloc` above, so from the system's allocator, with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, n_bytes: usize) -> *mut u8 {
        count(n_bytes);
        LIVE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as for `dealloc`, and the caller keeps to the contract of `realloc`.
        unsafe { System.realloc(pointer, layout, n_bytes) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// SplitMix64: the cases of a seed are the same on every machine.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }
}

/// The header of a valid file, and how long the file is.
struct Seed {
    header: Vec<u8>,
    file_bytes: u64,
}

/// A place to change: the counts, keys and tensor records are few among the bytes of a vocabulary, so the start and
/// the end of the header get their share.
fn place(random: &mut Random, n_bytes: usize) -> usize {
    let edge = n_bytes.min(1200);
    match random.below(3) {
        0 => random.below(edge),
        1 => n_bytes - edge + random.below(edge),
        _ => random.below(n_bytes),
    }
}

fn mutate(random: &mut Random, bytes: &mut Vec<u8>) {
    const NUMBERS: [u64; 16] =
        [0, 1, 4, 5, 7, 8, 9, 12, 31, 255, 1 << 16, 1 << 31, u32::MAX as u64, 1 << 62, 1 << 63, u64::MAX];
    if bytes.is_empty() {
        return;
    }
    let at = place(random, bytes.len());
    let rest = bytes.len() - at;
    match random.below(8) {
        0 => bytes[at] ^= 1 << random.below(8),
        1 => bytes[at] = random.next() as u8,
        2 | 3 => {
            let number = match random.below(4) {
                0 => random.next() >> random.below(64),
                _ => NUMBERS[random.below(NUMBERS.len())],
            };
            let width = [2, 4, 8][random.below(3)].min(rest);
            bytes[at..at + width].copy_from_slice(&number.to_le_bytes()[..width]);
        }
        4 => {
            let n = random.below(rest.min(64)) + 1;
            bytes.drain(at..at + n);
        }
        5 => {
            let n = random.below(rest.min(200)) + 1;
            let copied = bytes[at..at + n].to_vec();
            let to = place(random, bytes.len());
            bytes.splice(to..to, copied);
        }
        6 => {
            let n = random.below(rest.min(32)) + 1;
            let from = place(random, bytes.len() - n + 1);
            bytes.copy_within(from..from + n, at);
        }
        _ => {
            // One more or less: what is next to right.
            let delta = if random.below(2) == 0 { 1 } else { u8::MAX };
            bytes[at] = bytes[at].wrapping_add(delta);
        }
    }
}

fn seeds(paths: &[String]) -> Result<Vec<Seed>, String> {
    let mut seeds = Vec::new();
    for path in paths {
        let mut bytes = std::fs::read(path).map_err(|error| format!("{path}: {error}"))?;
        let file_bytes = bytes.len() as u64;
        let header = layercake::engine::gguf::parse_header(&bytes, file_bytes).map_err(|e| format!("{path}: {e}"))?;
        bytes.truncate(header.data_start as usize);
        bytes.shrink_to_fit();
        seeds.push(Seed { header: bytes, file_bytes });
    }
    Ok(seeds)
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let Some((Ok(seconds), paths @ [_, ..])) = args.split_first().map(|(first, rest)| (first.parse::<u64>(), rest))
    else {
        eprintln!("usage: fuzz_gguf SECONDS FILE.gguf...");
        return ExitCode::from(2);
    };
    let seeds = match seeds(paths) {
        Ok(seeds) => seeds,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    let (small, large): (Vec<&Seed>, Vec<&Seed>) = seeds.iter().partition(|seed| seed.header.len() < 64 << 10);
    let mut random = Random(std::time::UNIX_EPOCH.elapsed().map_or(1, |time| time.as_nanos() as u64));
    println!("{} small and {} large headers, seed {}", small.len(), large.len(), random.0);

    let start = Instant::now();
    let limit = Duration::from_secs(seconds);
    let (mut n_cases, mut n_accepted, mut worst_largest, mut worst_peak) = (0u64, 0u64, 0f64, 0f64);
    while n_cases % 256 != 0 || start.elapsed() < limit {
        // Large ones take long: a few, for counts that only they have.
        let pool = if !large.is_empty() && (small.is_empty() || random.below(2000) == 0) { &large } else { &small };
        let seed = pool[random.below(pool.len())];
        let mut bytes = seed.header.clone();
        let mut n_rest = seed.file_bytes - bytes.len() as u64;
        for _ in 0..=random.below(6) {
            mutate(&mut random, &mut bytes);
        }
        match random.below(8) {
            0 => {
                bytes.truncate(random.below(bytes.len()));
                n_rest = 0;
            }
            1 => n_rest = random.next() % (n_rest + 1),
            _ => {}
        }
        let file_bytes = bytes.len() as u64 + n_rest;

        let before = LIVE.load(Relaxed);
        PEAK.store(before, Relaxed);
        LARGEST.store(0, Relaxed);
        let outcome = std::panic::catch_unwind(|| check::check_gguf(&bytes, file_bytes));
        let (largest, peak) = (LARGEST.load(Relaxed), PEAK.load(Relaxed) - before);
        let allowed = MAX_FACTOR * bytes.len() + SLACK_BYTES;
        if outcome.is_err() || largest > allowed || peak > allowed {
            let path = format!("gguf-case-{n_cases}.bin");
            let saved = std::fs::write(Path::new(&path), &bytes);
            eprintln!(
                "case {n_cases}: {} bytes of {file_bytes}, largest allocation {largest}, peak {peak}; saved as {path}: {saved:?}",
                bytes.len()
            );
            return ExitCode::FAILURE;
        }
        n_cases += 1;
        n_accepted += u64::from(outcome.is_ok_and(|accepted| accepted));
        let times = |n: usize| n.saturating_sub(SLACK_BYTES) as f64 / bytes.len().max(1) as f64;
        worst_largest = worst_largest.max(times(largest));
        worst_peak = worst_peak.max(times(peak));
    }
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "{n_cases} cases in {seconds:.0} s ({:.0} cases/s), {n_accepted} accepted, no panic; beyond 64 KiB the largest \
         allocation was {worst_largest:.2} and the peak {worst_peak:.2} times the header",
        n_cases as f64 / seconds
    );
    ExitCode::SUCCESS
}
