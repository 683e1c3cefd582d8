//! The header of one file: metadata and tensor records.

use super::cursor::{Cursor, What};
use super::{
    Array, DEFAULT_ALIGNMENT, GgufError, GgufErrorKind, MAGIC, MAX_DIMS, Metadata, Shape, StrArray, TensorInfo,
};
use super::{Value, ValueType};
use crate::devices::quant::DType;

/// The longest key or tensor name, in bytes.
const MAX_NAME_BYTES: u64 = 65_535;

/// How deep arrays may hold arrays.
const MAX_ARRAY_DEPTH: usize = 4;

/// The least bytes of a key with its value: length, type, one byte.
const MIN_ENTRY_BYTES: u64 = 8 + 4 + 1;

/// The least bytes of a tensor record: length, dimension count, one dimension, type, offset.
const MIN_TENSOR_BYTES: u64 = 8 + 4 + 8 + 4 + 8;

/// What the header of one file says, checked: every tensor lies inside the file, aligned, and none overlap.
pub struct Header {
    pub version: u32,
    /// Of the tensor data, in bytes: a power of two from 8 on.
    pub alignment: u64,
    pub metadata: Metadata,
    /// In the order of the file; `shard` is 0.
    pub tensors: Vec<TensorInfo>,
    /// Where the tensor data starts, in bytes from the start of the file.
    pub data_start: u64,
}

/// Reads a header from the first bytes of a file of `file_bytes`. All of the file may be given, or as much as there
/// is: the tensor data is not looked at.
///
/// # Errors
/// Whatever is wrong with the header. Memory taken is bounded by a small multiple of `bytes`, whatever they claim.
pub fn parse_header(bytes: &[u8], file_bytes: u64) -> Result<Header, GgufError> {
    header(&mut Cursor::new(bytes, file_bytes), file_bytes)
}

fn header(cursor: &mut Cursor, file_bytes: u64) -> Result<Header, GgufError> {
    let magic: [u8; 4] = cursor.array(What::Header)?;
    if magic != MAGIC {
        return Err(GgufErrorKind::Magic(magic.to_vec()).into());
    }
    let version = match cursor.u32(What::Header)? {
        version @ (2 | 3) => version,
        version if version & 0xffff == 0 && version != 0 => return Err(GgufErrorKind::BigEndian.into()),
        version => return Err(GgufErrorKind::Version(version).into()),
    };
    let n_tensors = cursor.u64(What::Header)?;
    let n_entries = cursor.u64(What::Header)?;

    let n_entries = cursor.count(n_entries, MIN_ENTRY_BYTES, || "metadata keys".into())?;
    let mut entries = Vec::with_capacity(n_entries);
    for i in 0..n_entries {
        let key = cursor.name(MAX_NAME_BYTES, What::Key(i as u64))?;
        entries.push((Box::from(key), value(cursor, key)?));
    }
    let metadata = Metadata::new(entries)?;
    let alignment = alignment(&metadata)?;

    let n_tensors = cursor.count(n_tensors, MIN_TENSOR_BYTES, || "tensors".into())?;
    let mut tensors = Vec::with_capacity(n_tensors);
    for i in 0..n_tensors {
        tensors.push(tensor(cursor, i as u64, alignment)?);
    }
    // No overflow: the cursor is inside a slice and the alignment is at most 2^63.
    let data_start = cursor.offset().next_multiple_of(alignment);
    place(&mut tensors, data_start, file_bytes)?;
    Ok(Header { version, alignment, metadata, tensors, data_start })
}

/// `general.alignment`, checked. Eight or more, as the format asks, so that the data of any type may be read in place.
fn alignment(metadata: &Metadata) -> Result<u64, GgufErrorKind> {
    match metadata.get("general.alignment").map(|value| (value, value.as_integer())) {
        None => Ok(DEFAULT_ALIGNMENT),
        Some((_, Some(n))) => match u32::try_from(n) {
            Ok(n) if n.is_power_of_two() && n >= 8 => Ok(n.into()),
            _ => Err(GgufErrorKind::Alignment(n.clamp(0, u64::MAX.into()) as u64)),
        },
        Some((value, None)) => Err(GgufErrorKind::WrongType {
            key: "general.alignment".into(),
            wanted: "an integer",
            found: value.describe(),
        }),
    }
}

fn value(cursor: &mut Cursor, key: &str) -> Result<Value, GgufErrorKind> {
    let what = What::Value(key);
    Ok(match value_type(cursor, key)? {
        ValueType::U8 => Value::U8(u8::from_le_bytes(cursor.array(what)?)),
        ValueType::I8 => Value::I8(i8::from_le_bytes(cursor.array(what)?)),
        ValueType::U16 => Value::U16(u16::from_le_bytes(cursor.array(what)?)),
        ValueType::I16 => Value::I16(i16::from_le_bytes(cursor.array(what)?)),
        ValueType::U32 => Value::U32(u32::from_le_bytes(cursor.array(what)?)),
        ValueType::I32 => Value::I32(i32::from_le_bytes(cursor.array(what)?)),
        ValueType::F32 => Value::F32(f32::from_le_bytes(cursor.array(what)?)),
        ValueType::Bool => Value::Bool(boolean(u8::from_le_bytes(cursor.array(what)?), key)?),
        ValueType::Str => Value::Str(cursor.text(what)?.into()),
        ValueType::Array => Value::Array(array(cursor, key, 1)?),
        ValueType::U64 => Value::U64(u64::from_le_bytes(cursor.array(what)?)),
        ValueType::I64 => Value::I64(i64::from_le_bytes(cursor.array(what)?)),
        ValueType::F64 => Value::F64(f64::from_le_bytes(cursor.array(what)?)),
    })
}

fn value_type(cursor: &mut Cursor, key: &str) -> Result<ValueType, GgufErrorKind> {
    let id = cursor.u32(What::Value(key))?;
    ValueType::from_id(id).ok_or_else(|| GgufErrorKind::UnknownValueType { key: key.into(), id })
}

fn boolean(byte: u8, key: &str) -> Result<bool, GgufErrorKind> {
    match byte {
        0 => Ok(false),
        1 => Ok(true),
        byte => Err(GgufErrorKind::Bool { key: key.into(), byte }),
    }
}

fn array(cursor: &mut Cursor, key: &str, depth: usize) -> Result<Array, GgufErrorKind> {
    if depth > MAX_ARRAY_DEPTH {
        return Err(GgufErrorKind::Depth { key: key.into(), limit: MAX_ARRAY_DEPTH });
    }
    let what = What::Value(key);
    let entry_type = value_type(cursor, key)?;
    let count = cursor.u64(what)?;
    let n =
        cursor.count(count, entry_type.min_bytes(), || format!("entries in the array {}", super::Name::new(key)))?;
    Ok(match entry_type {
        ValueType::U8 => Array::U8(numbers(cursor, n, what, u8::from_le_bytes)?),
        ValueType::I8 => Array::I8(numbers(cursor, n, what, i8::from_le_bytes)?),
        ValueType::U16 => Array::U16(numbers(cursor, n, what, u16::from_le_bytes)?),
        ValueType::I16 => Array::I16(numbers(cursor, n, what, i16::from_le_bytes)?),
        ValueType::U32 => Array::U32(numbers(cursor, n, what, u32::from_le_bytes)?),
        ValueType::I32 => Array::I32(numbers(cursor, n, what, i32::from_le_bytes)?),
        ValueType::F32 => Array::F32(numbers(cursor, n, what, f32::from_le_bytes)?),
        ValueType::U64 => Array::U64(numbers(cursor, n, what, u64::from_le_bytes)?),
        ValueType::I64 => Array::I64(numbers(cursor, n, what, i64::from_le_bytes)?),
        ValueType::F64 => Array::F64(numbers(cursor, n, what, f64::from_le_bytes)?),
        ValueType::Bool => {
            let bytes = cursor.take(n as u64, what)?;
            Array::Bool(bytes.iter().map(|&byte| boolean(byte, key)).collect::<Result<_, _>>()?)
        }
        ValueType::Str => {
            let mut strings = StrArray::with_capacity(n);
            for _ in 0..n {
                strings.push(cursor.text(what)?);
            }
            strings.shrink();
            Array::Str(strings)
        }
        ValueType::Array => {
            let mut arrays = Vec::with_capacity(n);
            for _ in 0..n {
                arrays.push(array(cursor, key, depth + 1)?);
            }
            Array::Array(arrays)
        }
    })
}

fn numbers<T, const N: usize>(
    cursor: &mut Cursor,
    n: usize,
    what: What,
    from_le_bytes: impl Fn([u8; N]) -> T,
) -> Result<Vec<T>, GgufErrorKind> {
    // No overflow: `n` entries fit in the rest of the file.
    let (chunks, _) = cursor.take((n * N) as u64, what)?.as_chunks::<N>();
    Ok(chunks.iter().map(|&chunk| from_le_bytes(chunk)).collect())
}

/// A tensor's record, with its offset still counted from the start of the data.
fn tensor(cursor: &mut Cursor, i: u64, alignment: u64) -> Result<TensorInfo, GgufErrorKind> {
    let name = cursor.name(MAX_NAME_BYTES, What::TensorName(i))?;
    let what = What::Tensor(name);
    let n_dims = cursor.u32(what)?;
    if !(1..=MAX_DIMS as u32).contains(&n_dims) {
        return Err(GgufErrorKind::Dims { tensor: name.into(), n_dims: n_dims.into() });
    }
    let mut dims = [1; MAX_DIMS];
    let dims = &mut dims[..n_dims as usize];
    for (i, dim) in dims.iter_mut().enumerate() {
        *dim = cursor.u64(what)?;
        if *dim == 0 {
            return Err(GgufErrorKind::ZeroDim { tensor: name.into(), dim: i });
        }
    }
    let id = cursor.u32(what)?;
    let offset = cursor.u64(what)?;
    let dtype = DType::from_id(id).ok_or_else(|| GgufErrorKind::UnknownDType { tensor: name.into(), id })?;
    let shape = Shape::new(dims).ok_or_else(|| GgufErrorKind::SizeOverflow { tensor: name.into() })?;
    let n_bytes = tensor_bytes(name, shape, dtype)?;
    if !offset.is_multiple_of(alignment) {
        return Err(GgufErrorKind::Unaligned { tensor: name.into(), offset, alignment });
    }
    Ok(TensorInfo { name: name.to_string(), shape, dtype, shard: 0, offset, n_bytes })
}

/// The size of a tensor's data, in bytes. A row must fill whole blocks: rows are what is computed with.
pub(super) fn tensor_bytes(name: &str, shape: Shape, dtype: DType) -> Result<u64, GgufErrorKind> {
    if !shape.dim(0).is_multiple_of(dtype.block_len() as u64) {
        return Err(GgufErrorKind::PartialBlock { tensor: name.into(), shape, dtype });
    }
    dtype.bytes_of(shape.n_elements()).ok_or_else(|| GgufErrorKind::SizeOverflow { tensor: name.into() })
}

/// Makes the offsets absolute and checks that the tensors lie inside the file and apart.
fn place(tensors: &mut [TensorInfo], data_start: u64, file_bytes: u64) -> Result<(), GgufErrorKind> {
    for tensor in tensors.iter_mut() {
        let start = data_start.checked_add(tensor.offset);
        match start.and_then(|start| start.checked_add(tensor.n_bytes)) {
            None => return Err(GgufErrorKind::SizeOverflow { tensor: tensor.name.as_str().into() }),
            Some(end) if end > file_bytes => {
                return Err(GgufErrorKind::PastEnd { tensor: tensor.name.as_str().into(), end, file_bytes });
            }
            Some(end) => tensor.offset = end - tensor.n_bytes,
        }
    }
    let mut by_offset: Vec<u32> = (0..tensors.len() as u32).collect();
    by_offset.sort_unstable_by_key(|&i| tensors[i as usize].offset);
    for pair in by_offset.windows(2) {
        let (first, second) = (&tensors[pair[0] as usize], &tensors[pair[1] as usize]);
        if first.offset + first.n_bytes > second.offset {
            return Err(GgufErrorKind::Overlap {
                first: first.name.as_str().into(),
                second: second.name.as_str().into(),
            });
        }
    }
    Ok(())
}
