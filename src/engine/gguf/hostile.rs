//! Files made to break the reader.

use super::testing::sample;
use super::{Header, parse_header};
use proptest::prelude::*;

fn parse(bytes: &[u8]) -> Result<Header, String> {
    parse_header(bytes, bytes.len() as u64).map_err(|error| error.to_string())
}

/// A file put together by hand, lies and all.
#[derive(Default)]
struct Raw {
    bytes: Vec<u8>,
}

impl Raw {
    fn new(n_tensors: u64, n_entries: u64) -> Raw {
        Raw::default().bytes(b"GGUF").u32(3).u64(n_tensors).u64(n_entries)
    }
    fn bytes(mut self, bytes: &[u8]) -> Raw {
        self.bytes.extend(bytes);
        self
    }
    fn u32(self, n: u32) -> Raw {
        self.bytes(&n.to_le_bytes())
    }
    fn u64(self, n: u64) -> Raw {
        self.bytes(&n.to_le_bytes())
    }
    fn text(self, text: &str) -> Raw {
        self.u64(text.len() as u64).bytes(text.as_bytes())
    }
    fn tensor(mut self, name: &str, dims: &[u64], dtype: u32, offset: u64) -> Raw {
        self = self.text(name).u32(dims.len() as u32);
        for &dim in dims {
            self = self.u64(dim);
        }
        self.u32(dtype).u64(offset)
    }
    fn data(mut self, n_bytes: usize) -> Raw {
        self.bytes.resize(self.bytes.len().next_multiple_of(32) + n_bytes, 0);
        self
    }
    fn refused(self, message: &str) {
        assert_eq!(parse(&self.bytes).err().as_deref(), Some(message));
    }
}

#[test]
fn not_a_file_of_ours() {
    Raw::default()
        .bytes(b"GGUF")
        .u32(1)
        .u64(0)
        .u64(0)
        .refused("is of GGUF version 1; versions 2 and 3 can be read, so convert the model again");
    Raw::default()
        .bytes(b"GGUF")
        .bytes(&3u32.to_be_bytes())
        .u64(0)
        .u64(0)
        .refused("is a big-endian GGUF file, which cannot be read; convert the model again as little-endian");
    Raw::default().bytes(b"GGML").u32(3).refused("is not a GGUF file: it starts with \"GGML\", not \"GGUF\"");
    assert!(parse(&Raw::default().bytes(b"GGUF").u32(2).u64(0).u64(0).bytes).is_ok());
}

#[test]
fn lying_counts() {
    Raw::new(0, u64::MAX).u64(0).refused(
        "claims 18446744073709551615 metadata keys, but the 8 bytes after that hold at most 0; the file is damaged",
    );
    Raw::new(1 << 60, 0)
        .u64(0)
        .refused("claims 1152921504606846976 tensors, but the 8 bytes after that hold at most 0; the file is damaged");
    Raw::new(0, 1).text("k").u32(9).u32(8).u64(1 << 61).u64(0).u64(0).refused(
        "claims 2305843009213693952 entries in the array k, but the 16 bytes after that hold at most 2; the file is damaged",
    );
    Raw::new(0, 1).text("k").u32(8).u64(u64::MAX).refused(
        "ends inside the value of key k: 18446744073709551615 bytes at offset 45 are needed and the file has 45; \
         download it again",
    );
}

#[test]
fn bad_metadata() {
    Raw::new(0, 1).text("k").u32(13).u32(0).refused("key k: unknown value type 13");
    Raw::new(0, 1).text("k").u32(7).bytes(&[2]).refused("key k: a boolean is the byte 2, only 0 and 1 are allowed");
    Raw::new(0, 1).text("k").u32(8).u64(1).bytes(&[0xff]).refused("the value of key k: the text is not UTF-8");
    Raw::new(0, 2).text("k").u32(0).bytes(&[1]).text("k").u32(0).bytes(&[1]).refused("key k is there twice");
    Raw::new(0, 1)
        .text(&"k".repeat(65_536))
        .u32(0)
        .bytes(&[1])
        .refused("the name of key 0: 65536 bytes long, the format allows 65535");
    let mut deep = Raw::new(0, 1).text("k\u{1b}").u32(9);
    for _ in 0..100_000 {
        deep = deep.u32(9).u64(1);
    }
    deep.refused("key k\\u{1b}: arrays are nested deeper than 4");
    for alignment in [0, 4, 24, u32::MAX] {
        Raw::new(0, 1)
            .text("general.alignment")
            .u32(4)
            .u32(alignment)
            .refused(&format!("general.alignment is {alignment}; it must be a power of two from 8 on"));
    }
    Raw::new(0, 1)
        .text("general.alignment")
        .u32(7)
        .bytes(&[1])
        .refused("key general.alignment: an integer expected, the file has bool");
}

#[test]
fn bad_tensors() {
    let one = |dims: &[u64], dtype, offset| Raw::new(1, 0).tensor("t", dims, dtype, offset).data(64);
    assert!(parse(&one(&[16], 0, 0).bytes).is_ok());
    one(&[], 0, 0).bytes(&[0; 8]).refused("tensor t: 0 dimensions, 1 to 4 are allowed");
    one(&[1, 1, 1, 1, 1], 0, 0).refused("tensor t: 5 dimensions, 1 to 4 are allowed");
    one(&[4, 0], 0, 0).refused("tensor t: dimension 1 is 0");
    one(&[1 << 32, 1 << 32], 0, 0).refused("tensor t: its size overflows 64 bits");
    one(&[1 << 62], 0, 0).refused("tensor t: its size overflows 64 bits");
    one(&[16], 4, 0).refused("tensor t: unknown type id 4; the file may need a newer layercake");
    one(&[16, 2], 2, 0).refused("tensor t: rows of 16 x 2 do not fill whole Q4_0 blocks of 32 elements");
    one(&[16], 0, 8).refused("tensor t: data offset 8 is not a multiple of the alignment 32");
    one(&[17], 0, 0).refused("tensor t: its data ends at byte 132 and the file has 128; download it again");
    one(&[16], 0, u64::MAX - 31).refused("tensor t: its size overflows 64 bits");
    let two = |name: &str, offset| Raw::new(2, 0).tensor(name, &[16], 0, offset).tensor("b", &[9], 0, 0).data(128);
    assert!(parse(&two("a", 64).bytes).is_ok());
    two("a", 32).refused("tensors b and a overlap in the file");
}

#[test]
fn same_tensor_twice() {
    let raw = Raw::new(2, 0).tensor("a", &[8], 0, 0).tensor("a", &[8], 0, 32).data(64);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.gguf");
    std::fs::write(&path, raw.bytes).unwrap();
    let error = super::Gguf::open(&path).unwrap_err().to_string();
    assert!(error.ends_with("tensor a is there twice"), "{error}");
}

#[test]
fn truncated_anywhere() {
    let bytes = sample();
    // The padding after the last tensor is not needed.
    let end = parse(&bytes).unwrap().tensors.iter().map(|t| t.offset + t.n_bytes).max().unwrap() as usize;
    for n_bytes in 0..end {
        let error = parse(&bytes[..n_bytes]).err().unwrap_or_else(|| panic!("{n_bytes} of {end} bytes were enough"));
        assert!(!error.contains('\n'), "{error}");
    }
    assert!(parse(&bytes[..end]).is_ok());
}

/// What holds for every header that the reader accepts.
fn check(header: &Header, file_bytes: u64) {
    let mut ranges: Vec<(u64, u64)> = header.tensors.iter().map(|t| (t.offset, t.offset + t.n_bytes)).collect();
    ranges.sort_unstable();
    assert!(ranges.iter().all(|&(start, end)| start >= header.data_start && start < end && end <= file_bytes));
    assert!(ranges.windows(2).all(|pair| pair[0].1 <= pair[1].0));
    for (key, value) in header.metadata.iter() {
        assert_eq!(header.metadata.get(key).map(ToString::to_string), Some(value.to_string()));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn mutated(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        n_bytes in any::<Option<prop::sample::Index>>(),
    ) {
        let mut bytes = sample();
        if let Some(n_bytes) = n_bytes {
            bytes.truncate(n_bytes.index(bytes.len()).max(1));
        }
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        match parse(&bytes) {
            Ok(header) => check(&header, bytes.len() as u64),
            Err(error) => prop_assert!(!error.contains(|c: char| c.is_control()), "{error:?}"),
        }
    }

    #[test]
    fn noise(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let bytes = [b"GGUF\x03\0\0\0", &bytes[..]].concat();
        if let Ok(header) = parse(&bytes) {
            check(&header, bytes.len() as u64);
        }
    }
}
