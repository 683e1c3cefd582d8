//! What one rendering may use up. A template comes with a model file, so it may be hostile.
//!
//! minijinja's fuel counts instructions, items visited and bytes made (one unit of fuel for 64 bytes), so it bounds
//! time and memory alike. Nesting and sharing need bounds of their own, because values are compared, printed and freed
//! by recursion, which is charged only afterwards: see [`super::counted`].

use std::io;

use super::error::Cause;

/// Longest template text read. Real ones reach about 40 kB.
pub const MAX_SOURCE_BYTES: usize = 512 * 1024;

/// Most tokens (names, numbers, operators, texts) in one `{{ }}` or `{% %}`: bounds what one expression can nest.
pub const MAX_TAG_TOKENS: usize = 2_000;

/// Deepest nesting of lists and dicts that is read, kept in a variable or printed.
pub const MAX_VALUE_DEPTH: usize = 128;

/// Most spaces of indentation that `tojson(indent=n)` accepts.
pub const MAX_JSON_INDENT: usize = 64;

/// minijinja's own measure: a macro call counts about 10, a loop or condition 1.
pub const RECURSION: usize = 400;

/// Stack of the thread that renders. Only touched pages take memory.
pub const STACK_BYTES: usize = 64 << 20;

/// Fuel for a conversation of `input_bytes` in `n_messages`: some templates look at every message once per message.
pub fn fuel(input_bytes: usize, n_messages: usize) -> u64 {
    let pairs = (n_messages as u64).saturating_mul(n_messages as u64);
    2_000_000 + 2 * input_bytes as u64 + pairs.saturating_mul(30).min(30_000_000)
}

/// Visits of list and dict items, on top of fuel: see [`super::counted`].
pub fn n_visits(input_bytes: usize, n_messages: usize) -> u64 {
    2 * fuel(input_bytes, n_messages)
}

/// Longest prompt for a conversation of `input_bytes`.
pub fn output_bytes(input_bytes: usize) -> usize {
    (4 << 20) + input_bytes.saturating_mul(16)
}

/// A byte buffer that refuses to grow past its limit.
pub struct LimitedOutput<'a> {
    pub bytes: &'a mut Vec<u8>,
    pub limit_bytes: usize,
}

impl io::Write for LimitedOutput<'_> {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        if data.len() > self.limit_bytes.saturating_sub(self.bytes.len()) {
            return Err(io::Error::other(Cause::OutputTooLong { limit_bytes: self.limit_bytes }));
        }
        self.bytes.extend_from_slice(data);
        Ok(data.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
