//! Writing a GGUF file as a stream: first all that the header says, then the data of the tensors, in order and in
//! pieces of any size. Nothing but the header is held in memory.

use super::read::tensor_bytes;
use super::{Array, DEFAULT_ALIGNMENT, GgufError, GgufErrorKind, MAGIC, Shape, StrArray, TensorInfo, Value};
use crate::devices::quant::DType;
use std::io::Write;

/// The longest tensor name that llama.cpp loads, in bytes.
const MAX_TENSOR_NAME_BYTES: u64 = 63;

/// What the header of a file will say.
#[derive(Default)]
pub struct GgufBuilder {
    entries: Vec<(String, Value)>,
    tensors: Vec<TensorInfo>,
    /// Where the next tensor's data starts, from the start of the data.
    data_bytes: u64,
}

impl GgufBuilder {
    pub fn new() -> GgufBuilder {
        GgufBuilder::default()
    }

    /// Adds a key, or replaces its value. The alignment is always the default: `general.alignment` is not for setting.
    pub fn set(&mut self, key: &str, value: impl Into<Value>) -> &mut GgufBuilder {
        let value = value.into();
        match self.entries.iter_mut().find(|(known, _)| known == key) {
            Some(entry) => entry.1 = value,
            None => self.entries.push((key.to_string(), value)),
        }
        self
    }

    /// Adds a tensor; its data is written in the order in which the tensors were added. `dims` is fastest first.
    ///
    /// # Errors
    /// A name that is there already or is too long, or dimensions that are no shape of that type.
    pub fn tensor(&mut self, name: &str, dims: &[u64], dtype: DType) -> Result<(), GgufError> {
        let n_name_bytes = name.len() as u64;
        if n_name_bytes > MAX_TENSOR_NAME_BYTES {
            let what = format!("the name of tensor {}", super::Name::new(name));
            let limit = MAX_TENSOR_NAME_BYTES;
            return Err(GgufErrorKind::NameLength { what, n_bytes: n_name_bytes, limit }.into());
        }
        let shape =
            Shape::new(dims).ok_or_else(|| GgufErrorKind::Dims { tensor: name.into(), n_dims: dims.len() as u64 })?;
        let n_bytes = tensor_bytes(name, shape, dtype)?;
        let offset = self.data_bytes;
        self.data_bytes = offset
            .checked_add(n_bytes)
            .and_then(|end| end.checked_next_multiple_of(DEFAULT_ALIGNMENT))
            .ok_or_else(|| GgufErrorKind::SizeOverflow { tensor: name.into() })?;
        self.tensors.push(TensorInfo { name: name.to_string(), shape, dtype, shard: 0, offset, n_bytes });
        Ok(())
    }

    /// The size of the tensors' data with padding, in bytes.
    pub fn data_bytes(&self) -> u64 {
        self.data_bytes
    }

    /// Writes the header.
    ///
    /// # Errors
    /// A tensor name that is there twice, a failure of `out`.
    pub fn start<W: Write>(mut self, mut out: W) -> Result<GgufWriter<W>, GgufError> {
        super::index::NameIndex::new(self.tensors.len(), |i| &self.tensors[i].name)
            .map_err(|i| GgufErrorKind::DuplicateTensor(self.tensors[i].name.as_str().into()))?;
        let mut header = Vec::new();
        header.extend(MAGIC);
        header.extend(3u32.to_le_bytes());
        header.extend((self.tensors.len() as u64).to_le_bytes());
        header.extend((self.entries.len() as u64).to_le_bytes());
        for (key, value) in &self.entries {
            put_text(&mut header, key);
            header.extend(value.value_type().id().to_le_bytes());
            put_value(&mut header, value);
        }
        for tensor in &self.tensors {
            put_text(&mut header, &tensor.name);
            header.extend((tensor.shape.dims().len() as u32).to_le_bytes());
            for dim in tensor.shape.dims() {
                header.extend(dim.to_le_bytes());
            }
            header.extend(tensor.dtype.id().to_le_bytes());
            header.extend(tensor.offset.to_le_bytes());
        }
        header.resize(header.len().next_multiple_of(DEFAULT_ALIGNMENT as usize), 0);
        out.write_all(&header).map_err(GgufErrorKind::Write)?;
        let data_start = header.len() as u64;
        for tensor in &mut self.tensors {
            tensor.offset += data_start;
        }
        Ok(GgufWriter { out, tensors: self.tensors, next: 0, done_bytes: 0, written_bytes: data_start })
    }
}

/// A file whose header is written and whose data is being written.
pub struct GgufWriter<W: Write> {
    out: W,
    tensors: Vec<TensorInfo>,
    /// The tensor that takes the next data, and how much of it is written.
    next: usize,
    done_bytes: u64,
    written_bytes: u64,
}

impl<W: Write> GgufWriter<W> {
    /// The tensor that takes the next data; `None` when all are written.
    pub fn next_tensor(&self) -> Option<&TensorInfo> {
        self.tensors.get(self.next)
    }

    /// All tensors, with the offsets they have in the file.
    pub fn tensors(&self) -> &[TensorInfo] {
        &self.tensors
    }

    /// Bytes of the file written so far.
    pub fn written_bytes(&self) -> u64 {
        self.written_bytes
    }

    /// Appends data to the next tensor: all of it or a piece, never more than it lacks.
    ///
    /// # Errors
    /// More data than the tensor lacks, data after the last tensor, a failure of the output.
    pub fn write(&mut self, data: &[u8]) -> Result<(), GgufError> {
        if data.is_empty() {
            return Ok(());
        }
        let tensor = self.tensors.get(self.next).ok_or(GgufErrorKind::WriteAfterEnd)?;
        let (got, wanted) = (data.len() as u64, tensor.n_bytes - self.done_bytes);
        if got > wanted {
            return Err(GgufErrorKind::WriteSize { tensor: tensor.name.as_str().into(), got, wanted }.into());
        }
        self.out.write_all(data).map_err(GgufErrorKind::Write)?;
        self.done_bytes += got;
        self.written_bytes += got;
        if got == wanted {
            let n_padding = self.written_bytes.next_multiple_of(DEFAULT_ALIGNMENT) - self.written_bytes;
            let padding = [0; DEFAULT_ALIGNMENT as usize];
            self.out.write_all(&padding[..n_padding as usize]).map_err(GgufErrorKind::Write)?;
            self.written_bytes += n_padding;
            self.next += 1;
            self.done_bytes = 0;
        }
        Ok(())
    }

    /// Ends the file.
    ///
    /// # Errors
    /// A tensor that lacks data, a failure of the output.
    pub fn finish(mut self) -> Result<W, GgufError> {
        if let Some(tensor) = self.tensors.get(self.next) {
            let wanted = tensor.n_bytes - self.done_bytes;
            return Err(GgufErrorKind::WriteSize { tensor: tensor.name.as_str().into(), got: 0, wanted }.into());
        }
        self.out.flush().map_err(GgufErrorKind::Write)?;
        Ok(self.out)
    }
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as u64).to_le_bytes());
    out.extend(text.as_bytes());
}

fn put_value(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::U8(n) => out.extend(n.to_le_bytes()),
        Value::I8(n) => out.extend(n.to_le_bytes()),
        Value::U16(n) => out.extend(n.to_le_bytes()),
        Value::I16(n) => out.extend(n.to_le_bytes()),
        Value::U32(n) => out.extend(n.to_le_bytes()),
        Value::I32(n) => out.extend(n.to_le_bytes()),
        Value::F32(n) => out.extend(n.to_le_bytes()),
        Value::Bool(b) => out.push((*b).into()),
        Value::Str(text) => put_text(out, text),
        Value::Array(array) => put_array(out, array),
        Value::U64(n) => out.extend(n.to_le_bytes()),
        Value::I64(n) => out.extend(n.to_le_bytes()),
        Value::F64(n) => out.extend(n.to_le_bytes()),
    }
}

fn put_array(out: &mut Vec<u8>, array: &Array) {
    out.extend(array.entry_type().id().to_le_bytes());
    out.extend((array.len() as u64).to_le_bytes());
    fn numbers<T: Copy, const N: usize>(out: &mut Vec<u8>, entries: &[T], to_le_bytes: impl Fn(T) -> [u8; N]) {
        out.reserve(entries.len() * N);
        entries.iter().for_each(|&n| out.extend(to_le_bytes(n)));
    }
    match array {
        Array::U8(a) => numbers(out, a, u8::to_le_bytes),
        Array::I8(a) => numbers(out, a, i8::to_le_bytes),
        Array::U16(a) => numbers(out, a, u16::to_le_bytes),
        Array::I16(a) => numbers(out, a, i16::to_le_bytes),
        Array::U32(a) => numbers(out, a, u32::to_le_bytes),
        Array::I32(a) => numbers(out, a, i32::to_le_bytes),
        Array::F32(a) => numbers(out, a, f32::to_le_bytes),
        Array::U64(a) => numbers(out, a, u64::to_le_bytes),
        Array::I64(a) => numbers(out, a, i64::to_le_bytes),
        Array::F64(a) => numbers(out, a, f64::to_le_bytes),
        Array::Bool(a) => numbers(out, a, |b| [u8::from(b)]),
        Array::Str(a) => StrArray::iter(a).for_each(|text| put_text(out, text)),
        Array::Array(arrays) => arrays.iter().for_each(|array| put_array(out, array)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::gguf::{Metadata, parse_header};
    use proptest::prelude::*;

    fn read(bytes: &[u8]) -> crate::engine::gguf::Header {
        parse_header(bytes, bytes.len() as u64).unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn data_comes_back_whatever_the_pieces() {
        let mut builder = GgufBuilder::new();
        builder.set("general.architecture", "llama").set("n", 1u32).set("n", 2u32);
        builder.tensor("a", &[3, 5], DType::F32).unwrap();
        builder.tensor("b", &[32, 2], DType::Q8_0).unwrap();
        let data_bytes = builder.data_bytes();
        let mut writer = builder.start(Vec::new()).unwrap();
        let (a, b): (Vec<u8>, Vec<u8>) = ((0..60).collect(), (0..68).rev().collect());
        for piece in a.chunks(7) {
            assert_eq!(writer.next_tensor().unwrap().name, "a");
            writer.write(piece).unwrap();
        }
        writer.write(&b).unwrap();
        assert!(writer.next_tensor().is_none());
        let bytes = writer.finish().unwrap();
        let header = read(&bytes);
        assert_eq!(header.data_start + data_bytes, bytes.len() as u64);
        assert_eq!(header.metadata.u32("n").unwrap(), 2);
        for (tensor, data) in header.tensors.iter().zip([a, b]) {
            assert_eq!(bytes[tensor.offset as usize..][..tensor.n_bytes as usize], data);
        }
    }

    #[test]
    fn mistakes_of_the_caller_are_errors() {
        let start = || {
            let mut builder = GgufBuilder::new();
            builder.tensor("a", &[4], DType::F32).unwrap();
            builder.start(Vec::new()).unwrap()
        };
        let message = |error: GgufError| error.to_string();
        assert_eq!(message(start().write(&[0; 17]).unwrap_err()), "tensor a: 17 bytes of data written where 16 remain");
        assert_eq!(message(start().finish().unwrap_err()), "tensor a: 0 bytes of data written where 16 remain");
        let mut writer = start();
        writer.write(&[0; 16]).unwrap();
        assert_eq!(message(writer.write(&[0]).unwrap_err()), "data written after the last tensor");

        let mut builder = GgufBuilder::new();
        assert_eq!(
            message(builder.tensor("q", &[33], DType::Q4_0).unwrap_err()),
            "tensor q: rows of 33 do not fill whole Q4_0 blocks of 32 elements"
        );
        assert!(builder.tensor(&"n".repeat(64), &[1], DType::F32).is_err());
        builder.tensor("twice", &[1], DType::F32).unwrap();
        builder.tensor("twice", &[1], DType::F32).unwrap();
        assert_eq!(message(builder.start(Vec::new()).err().unwrap()), "tensor twice is there twice");
    }

    fn array() -> impl Strategy<Value = Array> {
        use prop::collection::vec;
        let leaf = prop_oneof![
            vec(any::<u8>(), 0..9).prop_map(Array::U8),
            vec(any::<i8>(), 0..9).prop_map(Array::I8),
            vec(any::<u16>(), 0..9).prop_map(Array::U16),
            vec(any::<i16>(), 0..9).prop_map(Array::I16),
            vec(any::<u32>(), 0..9).prop_map(Array::U32),
            vec(any::<i32>(), 0..9).prop_map(Array::I32),
            vec(-1e9f32..1e9, 0..9).prop_map(Array::F32),
            vec(any::<bool>(), 0..9).prop_map(Array::Bool),
            vec(any::<String>(), 0..9).prop_map(|a| Array::Str(a.iter().collect())),
            vec(any::<u64>(), 0..9).prop_map(Array::U64),
            vec(any::<i64>(), 0..9).prop_map(Array::I64),
            vec(-1e99f64..1e99, 0..9).prop_map(Array::F64),
        ];
        leaf.prop_recursive(3, 40, 4, |inner| vec(inner, 0..4).prop_map(Array::Array))
    }

    fn value() -> impl Strategy<Value = Value> {
        prop_oneof![
            any::<u8>().prop_map(Value::U8),
            any::<i8>().prop_map(Value::I8),
            any::<u16>().prop_map(Value::U16),
            any::<i16>().prop_map(Value::I16),
            any::<u32>().prop_map(Value::U32),
            any::<i32>().prop_map(Value::I32),
            (-1e30f32..1e30).prop_map(Value::F32),
            any::<bool>().prop_map(Value::Bool),
            any::<String>().prop_map(|s| Value::Str(s.into())),
            array().prop_map(Value::Array),
            any::<u64>().prop_map(Value::U64),
            any::<i64>().prop_map(Value::I64),
            (-1e300f64..1e300).prop_map(Value::F64),
        ]
    }

    proptest! {
        #[test]
        fn metadata_comes_back(entries in prop::collection::vec((".{1,20}", value()), 0..12)) {
            let mut builder = GgufBuilder::new();
            for (key, value) in &entries {
                builder.set(key, value.clone());
            }
            let written = builder.entries.clone();
            let bytes = builder.start(Vec::new()).unwrap().finish().unwrap();
            let metadata: Metadata = read(&bytes).metadata;
            let read: Vec<(String, Value)> = metadata.iter().map(|(k, v)| (k.to_string(), v.clone())).collect();
            prop_assert_eq!(read, written);
        }
    }
}
