//! Reads the vocabulary of a GGUF file, gzip-compressed or not, for tests.

use std::io::Read;
use std::path::Path;

use super::VocabSource;
use crate::engine::gguf::parse_header;

/// The vocabulary that the file at `path` holds.
pub(crate) fn read_vocab(path: &Path) -> VocabSource {
    let mut bytes = std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    if path.extension().is_some_and(|e| e == "gz") {
        let packed = std::mem::take(&mut bytes);
        flate2::read::GzDecoder::new(packed.as_slice()).read_to_end(&mut bytes).expect("gzip data");
    }
    let header = parse_header(&bytes, bytes.len() as u64).expect("a GGUF header");
    VocabSource::from_metadata(&header.metadata).expect("a vocabulary")
}
