//! One tensor of a file.

use super::Shape;
use crate::devices::quant::DType;

/// Where a tensor's data lies. Made by the reader, which has checked that it lies inside its file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TensorInfo {
    pub name: String,
    pub shape: Shape,
    pub dtype: DType,
    /// Which of the model's files, counted from 0.
    pub shard: usize,
    /// From the start of that file, in bytes; a multiple of the alignment.
    pub offset: u64,
    pub n_bytes: u64,
}
