//! Arrays among the metadata.

use super::ValueType;

/// An array: all its entries are of one type.
#[derive(Clone, PartialEq, Debug)]
pub enum Array {
    U8(Vec<u8>),
    I8(Vec<i8>),
    U16(Vec<u16>),
    I16(Vec<i16>),
    U32(Vec<u32>),
    I32(Vec<i32>),
    F32(Vec<f32>),
    Bool(Vec<bool>),
    Str(StrArray),
    Array(Vec<Array>),
    U64(Vec<u64>),
    I64(Vec<i64>),
    F64(Vec<f64>),
}

impl Array {
    pub fn len(&self) -> usize {
        match self {
            Array::U8(a) => a.len(),
            Array::I8(a) => a.len(),
            Array::U16(a) => a.len(),
            Array::I16(a) => a.len(),
            Array::U32(a) => a.len(),
            Array::I32(a) => a.len(),
            Array::F32(a) => a.len(),
            Array::Bool(a) => a.len(),
            Array::Str(a) => a.len(),
            Array::Array(a) => a.len(),
            Array::U64(a) => a.len(),
            Array::I64(a) => a.len(),
            Array::F64(a) => a.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The type of the entries.
    pub fn entry_type(&self) -> ValueType {
        match self {
            Array::U8(_) => ValueType::U8,
            Array::I8(_) => ValueType::I8,
            Array::U16(_) => ValueType::U16,
            Array::I16(_) => ValueType::I16,
            Array::U32(_) => ValueType::U32,
            Array::I32(_) => ValueType::I32,
            Array::F32(_) => ValueType::F32,
            Array::Bool(_) => ValueType::Bool,
            Array::Str(_) => ValueType::Str,
            Array::Array(_) => ValueType::Array,
            Array::U64(_) => ValueType::U64,
            Array::I64(_) => ValueType::I64,
            Array::F64(_) => ValueType::F64,
        }
    }

    /// The entries as `i128`, where they are integers.
    pub(super) fn integers(&self) -> Option<Vec<i128>> {
        fn wide<T: Copy + Into<i128>>(entries: &[T]) -> Option<Vec<i128>> {
            Some(entries.iter().map(|&n| n.into()).collect())
        }
        match self {
            Array::U8(a) => wide(a),
            Array::I8(a) => wide(a),
            Array::U16(a) => wide(a),
            Array::I16(a) => wide(a),
            Array::U32(a) => wide(a),
            Array::I32(a) => wide(a),
            Array::U64(a) => wide(a),
            Array::I64(a) => wide(a),
            Array::F32(_) | Array::F64(_) | Array::Bool(_) | Array::Str(_) | Array::Array(_) => None,
        }
    }
}

/// Many strings in two allocations: vocabularies have hundreds of thousands of short ones.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct StrArray {
    text: String,
    /// Where each string ends in `text`.
    ends: Vec<usize>,
}

impl StrArray {
    pub(super) fn with_capacity(n_strings: usize) -> StrArray {
        StrArray { text: String::new(), ends: Vec::with_capacity(n_strings) }
    }

    /// Gives back the room that was reserved for text to come.
    pub(super) fn shrink(&mut self) {
        self.text.shrink_to_fit();
    }

    pub fn push(&mut self, string: &str) {
        self.text.push_str(string);
        self.ends.push(self.text.len());
    }

    pub fn len(&self) -> usize {
        self.ends.len()
    }

    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    pub fn get(&self, i: usize) -> Option<&str> {
        let end = *self.ends.get(i)?;
        let start = if i == 0 { 0 } else { self.ends[i - 1] };
        Some(&self.text[start..end])
    }

    pub fn iter(&self) -> impl ExactSizeIterator<Item = &str> + Clone {
        let mut start = 0;
        self.ends.iter().map(move |&end| {
            let string = &self.text[start..end];
            start = end;
            string
        })
    }
}

impl<S: AsRef<str>> FromIterator<S> for StrArray {
    fn from_iter<I: IntoIterator<Item = S>>(strings: I) -> StrArray {
        let mut array = StrArray::default();
        for string in strings {
            array.push(string.as_ref());
        }
        array
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_come_back() {
        let strings = ["", "a", "", "Ġthe", "日本"];
        let array: StrArray = strings.iter().collect();
        assert_eq!(array.iter().collect::<Vec<_>>(), strings);
        assert_eq!((0..6).map(|i| array.get(i)).collect::<Vec<_>>(), [strings.map(Some).as_slice(), &[None]].concat());
    }
}
