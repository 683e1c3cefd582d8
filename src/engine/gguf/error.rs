//! What can be wrong with a GGUF file, each in one line.

use super::Shape;
use crate::devices::quant::DType;
use std::fmt;
use std::path::{Path, PathBuf};

/// A file that cannot be used, and why.
#[derive(Debug)]
pub struct GgufError {
    /// The file, where it is known: bytes that are parsed from memory have none.
    pub path: Option<PathBuf>,
    pub kind: Box<GgufErrorKind>,
}

impl GgufError {
    pub(super) fn at(path: &Path, kind: GgufErrorKind) -> GgufError {
        GgufError { path: Some(path.to_path_buf()), kind: Box::new(kind) }
    }

    /// The same error, of this file unless it already names one.
    pub(super) fn of_file(mut self, path: &Path) -> GgufError {
        self.path.get_or_insert_with(|| path.to_path_buf());
        self
    }
}

impl From<GgufErrorKind> for GgufError {
    fn from(kind: GgufErrorKind) -> GgufError {
        GgufError { path: None, kind: Box::new(kind) }
    }
}

impl fmt::Display for GgufError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.path {
            Some(path) => write!(f, "{}: {}", path.display(), self.kind),
            None => self.kind.fmt(f),
        }
    }
}

// The message holds that of its cause, so there is no `source` to print a second time.
impl std::error::Error for GgufError {}

/// What is wrong.
#[derive(Debug, thiserror::Error)]
pub enum GgufErrorKind {
    #[error("cannot be opened: {0}")]
    Open(std::io::Error),
    #[error("is not a regular file; give the path of a .gguf file")]
    NotAFile,
    #[error("is not a GGUF file: it starts with \"{}\", not \"GGUF\"", .0.escape_ascii())]
    Magic(Vec<u8>),
    #[error("is a big-endian GGUF file, which cannot be read; convert the model again as little-endian")]
    BigEndian,
    #[error("is of GGUF version {0}; versions 2 and 3 can be read, so convert the model again")]
    Version(u32),
    #[error(
        "ends inside {what}: {n_bytes} bytes at offset {offset} are needed and the file has {file_bytes}; download it again"
    )]
    Truncated { what: String, offset: u64, n_bytes: u64, file_bytes: u64 },
    #[error("claims {count} {what}, but the {rest_bytes} bytes after that hold at most {fits}; the file is damaged")]
    Count { what: String, count: u64, rest_bytes: u64, fits: u64 },
    #[error("{what}: the text is not UTF-8")]
    NotUtf8 { what: String },
    #[error("{what}: {n_bytes} bytes long, the format allows {limit}")]
    NameLength { what: String, n_bytes: u64, limit: u64 },

    #[error("key {key}: unknown value type {id}")]
    UnknownValueType { key: Name, id: u32 },
    #[error("key {key}: arrays are nested deeper than {limit}")]
    Depth { key: Name, limit: usize },
    #[error("key {key}: a boolean is the byte {byte}, only 0 and 1 are allowed")]
    Bool { key: Name, byte: u8 },
    #[error("key {0} is there twice")]
    DuplicateKey(Name),
    #[error("general.alignment is {0}; it must be a power of two from 8 on")]
    Alignment(u64),

    #[error("the file has no key {0}, which its architecture needs")]
    MissingKey(Name),
    #[error("key {key}: {wanted} expected, the file has {found}")]
    WrongType { key: Name, wanted: &'static str, found: String },
    #[error("key {key}: {value} is out of range for {wanted}")]
    OutOfRange { key: Name, value: String, wanted: &'static str },
    #[error("key {key}: {wanted} entries expected, the file has {found}")]
    ArrayLength { key: Name, wanted: usize, found: usize },

    #[error("tensor {tensor}: {n_dims} dimensions, 1 to 4 are allowed")]
    Dims { tensor: Name, n_dims: u64 },
    #[error("tensor {tensor}: dimension {dim} is 0")]
    ZeroDim { tensor: Name, dim: usize },
    #[error("tensor {tensor}: its size overflows 64 bits")]
    SizeOverflow { tensor: Name },
    #[error("tensor {tensor}: unknown type id {id}; the file may need a newer layercake")]
    UnknownDType { tensor: Name, id: u32 },
    #[error("tensor {tensor}: rows of {shape} do not fill whole {dtype} blocks of {} elements", .dtype.block_len())]
    PartialBlock { tensor: Name, shape: Shape, dtype: DType },
    #[error("tensor {tensor}: data offset {offset} is not a multiple of the alignment {alignment}")]
    Unaligned { tensor: Name, offset: u64, alignment: u64 },
    #[error("tensor {tensor}: its data ends at byte {end} and the file has {file_bytes}; download it again")]
    PastEnd { tensor: Name, end: u64, file_bytes: u64 },
    #[error("tensors {first} and {second} overlap in the file")]
    Overlap { first: Name, second: Name },
    #[error("tensor {0} is there twice")]
    DuplicateTensor(Name),

    #[error(
        "is one of {count} shards, but is not named like NAME-00001-of-{count:05}.gguf, so the others cannot be found"
    )]
    ShardName { count: u32 },
    #[error("is named as one of {in_name} shards but says split.count {in_file}")]
    ShardCount { in_name: u32, in_file: u32 },
    #[error("says it is shard {in_file} of its model but is named as shard {in_name} (both counted from 1)")]
    ShardNo { in_name: u32, in_file: u32 },
    #[error("is missing or unreadable: shard {no} of {count}, all of which must lie in one folder: {source}")]
    ShardMissing { no: u32, count: u32, source: std::io::Error },
    #[error("the {n_shards} shards hold {found} tensors, split.tensors.count says {claimed}")]
    TensorCount { n_shards: usize, claimed: u64, found: u64 },

    #[error("cannot be written: {0}")]
    Write(std::io::Error),
    #[error("tensor {tensor}: {got} bytes of data written where {wanted} remain")]
    WriteSize { tensor: Name, got: u64, wanted: u64 },
    #[error("data written after the last tensor")]
    WriteAfterEnd,
}

/// A name from a file in an error message: shortened, and with control characters escaped, because whoever made the
/// file chose it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Name(Box<str>);

impl Name {
    const SHOWN_CHARS: usize = 80;

    pub fn new(name: &str) -> Name {
        let shown = match name.char_indices().nth(Self::SHOWN_CHARS) {
            Some((end, _)) => format!("{}...", name[..end].escape_debug()),
            None => name.escape_debug().to_string(),
        };
        Name(shown.into())
    }
}

impl From<&str> for Name {
    fn from(name: &str) -> Name {
        Name::new(name)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
