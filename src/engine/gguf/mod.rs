//! GGUF model files: reading (memory-mapped, any number of shards) and writing.
//!
//! Format: <https://github.com/ggml-org/ggml/blob/master/docs/gguf.md>. Versions 2 and 3, little-endian. A file is
//! untrusted: whatever it holds, opening it gives a model or one line that says what is wrong with it.

mod array;
mod cursor;
mod error;
mod file;
mod index;
mod metadata;
mod read;
mod shape;
mod shards;
mod tensor;
mod value;
mod write;

pub use array::{Array, StrArray};
pub use error::{GgufError, GgufErrorKind, Name};
pub use file::Gguf;
pub use metadata::Metadata;
pub use read::{Header, parse_header};
pub use shape::{MAX_DIMS, Shape};
pub use shards::{ShardName, shard_path};
pub use tensor::TensorInfo;
pub use value::{Value, ValueType};
pub use write::{GgufBuilder, GgufWriter};

#[cfg(test)]
mod hostile;
#[cfg(test)]
pub(crate) mod testing;

/// The first four bytes of every GGUF file.
pub const MAGIC: [u8; 4] = *b"GGUF";

/// Where tensor data is aligned when `general.alignment` does not say otherwise, in bytes.
pub const DEFAULT_ALIGNMENT: u64 = 32;
