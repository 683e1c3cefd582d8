//! Reading numbers and texts from bytes that may end anywhere.

use super::GgufErrorKind;
use std::fmt;

/// What is being read, for messages.
#[derive(Clone, Copy)]
pub(super) enum What<'a> {
    Header,
    Key(u64),
    Value(&'a str),
    TensorName(u64),
    Tensor(&'a str),
}

impl fmt::Display for What<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            What::Header => f.write_str("the header"),
            What::Key(i) => write!(f, "the name of key {i}"),
            What::Value(key) => write!(f, "the value of key {}", super::Name::new(key)),
            What::TensorName(i) => write!(f, "the name of tensor {i}"),
            What::Tensor(name) => write!(f, "the record of tensor {}", super::Name::new(name)),
        }
    }
}

/// A place in the bytes of a file.
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
    file_bytes: u64,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a [u8], file_bytes: u64) -> Cursor<'a> {
        Cursor { bytes, at: 0, file_bytes }
    }

    pub(super) fn offset(&self) -> u64 {
        self.at as u64
    }

    fn rest_bytes(&self) -> u64 {
        (self.bytes.len() - self.at) as u64
    }

    pub(super) fn take(&mut self, n_bytes: u64, what: What) -> Result<&'a [u8], GgufErrorKind> {
        if n_bytes > self.rest_bytes() {
            return Err(GgufErrorKind::Truncated {
                what: what.to_string(),
                offset: self.offset(),
                n_bytes,
                file_bytes: self.file_bytes,
            });
        }
        let start = self.at;
        self.at += n_bytes as usize;
        Ok(&self.bytes[start..self.at])
    }

    pub(super) fn array<const N: usize>(&mut self, what: What) -> Result<[u8; N], GgufErrorKind> {
        let mut bytes = [0; N];
        bytes.copy_from_slice(self.take(N as u64, what)?);
        Ok(bytes)
    }

    pub(super) fn u32(&mut self, what: What) -> Result<u32, GgufErrorKind> {
        self.array(what).map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self, what: What) -> Result<u64, GgufErrorKind> {
        self.array(what).map(u64::from_le_bytes)
    }

    pub(super) fn text(&mut self, what: What) -> Result<&'a str, GgufErrorKind> {
        let n_bytes = self.u64(what)?;
        std::str::from_utf8(self.take(n_bytes, what)?).map_err(|_| GgufErrorKind::NotUtf8 { what: what.to_string() })
    }

    /// A name of at most `limit` bytes.
    pub(super) fn name(&mut self, limit: u64, what: What) -> Result<&'a str, GgufErrorKind> {
        let name = self.text(what)?;
        match name.len() as u64 {
            n_bytes if n_bytes > limit => Err(GgufErrorKind::NameLength { what: what.to_string(), n_bytes, limit }),
            _ => Ok(name),
        }
    }

    /// `count` as a number of things that take at least `min_bytes` each, so that room for them may be reserved: a
    /// count that the rest of the file cannot hold is an error here. Never more than `u32` numbers.
    pub(super) fn count(
        &self,
        count: u64,
        min_bytes: u64,
        what: impl FnOnce() -> String,
    ) -> Result<usize, GgufErrorKind> {
        let fits = (self.rest_bytes() / min_bytes).min(u32::MAX.into());
        if count > fits {
            return Err(GgufErrorKind::Count { what: what(), count, rest_bytes: self.rest_bytes(), fits });
        }
        Ok(count as usize)
    }
}
