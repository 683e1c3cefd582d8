//! `cargo +nightly fuzz run gguf`: the GGUF reader on bytes that libFuzzer makes.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../check_gguf.rs"]
mod check;

fuzz_target!(|bytes: &[u8]| {
    check::check_gguf(bytes, bytes.len() as u64);
    // As if tensor data followed.
    check::check_gguf(bytes, bytes.len() as u64 + (1 << 20));
});
