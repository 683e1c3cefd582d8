//! Metadata values and their types.

use super::{Array, StrArray};
use std::fmt;

macro_rules! value_types {
    ($($variant:ident = $id:literal, $name:literal;)*) => {
        /// The type of a metadata value.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum ValueType { $($variant),* }

        impl ValueType {
            /// All types in order of their ids.
            pub const ALL: &[ValueType] = &[$(ValueType::$variant),*];

            pub(super) fn from_id(id: u32) -> Option<ValueType> {
                match id { $($id => Some(ValueType::$variant),)* _ => None }
            }

            /// Its id in a file.
            pub fn id(self) -> u32 {
                match self { $(ValueType::$variant => $id),* }
            }

            pub fn name(self) -> &'static str {
                match self { $(ValueType::$variant => $name),* }
            }
        }
    };
}

value_types! {
    U8 = 0, "u8";
    I8 = 1, "i8";
    U16 = 2, "u16";
    I16 = 3, "i16";
    U32 = 4, "u32";
    I32 = 5, "i32";
    F32 = 6, "f32";
    Bool = 7, "bool";
    Str = 8, "str";
    Array = 9, "array";
    U64 = 10, "u64";
    I64 = 11, "i64";
    F64 = 12, "f64";
}

impl ValueType {
    /// The least bytes that a value takes in a file.
    pub(super) fn min_bytes(self) -> u64 {
        match self {
            ValueType::U8 | ValueType::I8 | ValueType::Bool => 1,
            ValueType::U16 | ValueType::I16 => 2,
            ValueType::U32 | ValueType::I32 | ValueType::F32 => 4,
            ValueType::U64 | ValueType::I64 | ValueType::F64 => 8,
            // A length and no text.
            ValueType::Str => 8,
            // The type of the entries, a count, and no entries.
            ValueType::Array => 12,
        }
    }
}

impl fmt::Display for ValueType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A metadata value.
#[derive(Clone, PartialEq, Debug)]
pub enum Value {
    U8(u8),
    I8(i8),
    U16(u16),
    I16(i16),
    U32(u32),
    I32(i32),
    F32(f32),
    Bool(bool),
    Str(Box<str>),
    Array(Array),
    U64(u64),
    I64(i64),
    F64(f64),
}

impl Value {
    pub fn value_type(&self) -> ValueType {
        match self {
            Value::U8(_) => ValueType::U8,
            Value::I8(_) => ValueType::I8,
            Value::U16(_) => ValueType::U16,
            Value::I16(_) => ValueType::I16,
            Value::U32(_) => ValueType::U32,
            Value::I32(_) => ValueType::I32,
            Value::F32(_) => ValueType::F32,
            Value::Bool(_) => ValueType::Bool,
            Value::Str(_) => ValueType::Str,
            Value::Array(_) => ValueType::Array,
            Value::U64(_) => ValueType::U64,
            Value::I64(_) => ValueType::I64,
            Value::F64(_) => ValueType::F64,
        }
    }

    /// What it is, for a message: `u32`, or `array of 3 str`.
    pub fn describe(&self) -> String {
        match self {
            Value::Array(array) => format!("array of {} {}", array.len(), array.entry_type()),
            _ => self.value_type().name().to_string(),
        }
    }

    /// The value of any integer type.
    pub fn as_integer(&self) -> Option<i128> {
        match *self {
            Value::U8(n) => Some(n.into()),
            Value::I8(n) => Some(n.into()),
            Value::U16(n) => Some(n.into()),
            Value::I16(n) => Some(n.into()),
            Value::U32(n) => Some(n.into()),
            Value::I32(n) => Some(n.into()),
            Value::U64(n) => Some(n.into()),
            Value::I64(n) => Some(n.into()),
            Value::F32(_) | Value::F64(_) | Value::Bool(_) | Value::Str(_) | Value::Array(_) => None,
        }
    }

    /// The value of any number type, as a float.
    pub fn as_f32(&self) -> Option<f32> {
        match *self {
            Value::F32(x) => Some(x),
            Value::F64(x) => Some(x as f32),
            _ => self.as_integer().map(|n| n as f32),
        }
    }
}

macro_rules! from {
    ($($from:ty => $variant:ident),* $(,)?) => {
        $(impl From<$from> for Value {
            fn from(value: $from) -> Value { Value::$variant(value.into()) }
        })*
    };
}

from! {
    u8 => U8, i8 => I8, u16 => U16, i16 => I16, u32 => U32, i32 => I32, u64 => U64, i64 => I64, f32 => F32, f64 => F64,
    bool => Bool, &str => Str, String => Str, Array => Array,
}

macro_rules! from_array {
    ($($from:ty => $variant:ident),* $(,)?) => {
        $(impl From<$from> for Value {
            fn from(entries: $from) -> Value { Value::Array(Array::$variant(entries)) }
        })*
    };
}

from_array! {
    Vec<u32> => U32, Vec<i32> => I32, Vec<f32> => F32, Vec<bool> => Bool, StrArray => Str,
}

impl fmt::Display for Value {
    /// Numbers as they are, text quoted, long arrays and texts shortened; control characters escaped.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::U8(n) => n.fmt(f),
            Value::I8(n) => n.fmt(f),
            Value::U16(n) => n.fmt(f),
            Value::I16(n) => n.fmt(f),
            Value::U32(n) => n.fmt(f),
            Value::I32(n) => n.fmt(f),
            Value::F32(n) => n.fmt(f),
            Value::Bool(b) => b.fmt(f),
            Value::Str(text) => write!(f, "\"{}\"", super::Name::new(text)),
            Value::Array(array) => array.fmt(f),
            Value::U64(n) => n.fmt(f),
            Value::I64(n) => n.fmt(f),
            Value::F64(n) => n.fmt(f),
        }
    }
}

impl fmt::Display for Array {
    /// The first entries and how many there are: `[1, 2, 3, ... 50257 i32]`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 6;
        fn list(f: &mut fmt::Formatter<'_>, array: &Array, shown: &[String]) -> fmt::Result {
            write!(f, "[{}", shown.join(", "))?;
            if array.len() > shown.len() {
                write!(f, ", ... {} {}", array.len(), array.entry_type())?;
            }
            f.write_str("]")
        }
        fn first<T: ToString>(entries: &[T]) -> Vec<String> {
            entries.iter().take(SHOWN).map(T::to_string).collect()
        }
        let shown = match self {
            Array::U8(a) => first(a),
            Array::I8(a) => first(a),
            Array::U16(a) => first(a),
            Array::I16(a) => first(a),
            Array::U32(a) => first(a),
            Array::I32(a) => first(a),
            Array::F32(a) => first(a),
            Array::Bool(a) => first(a),
            Array::Str(a) => a.iter().take(SHOWN).map(|s| format!("\"{}\"", super::Name::new(s))).collect(),
            Array::Array(a) => first(a),
            Array::U64(a) => first(a),
            Array::I64(a) => first(a),
            Array::F64(a) => first(a),
        };
        list(f, self, &shown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_name_types() {
        for &value_type in ValueType::ALL {
            assert_eq!(ValueType::from_id(value_type.id()), Some(value_type));
        }
        assert_eq!(ValueType::from_id(13), None);
    }

    #[test]
    fn shows_values() {
        let words: StrArray = ["a\u{1b}[1m", "b"].iter().collect();
        for (value, shown) in [
            (Value::from(7u32), "7"),
            (Value::from("x\ny"), "\"x\\ny\""),
            (Value::from(words), "[\"a\\u{1b}[1m\", \"b\"]"),
            (Value::from((0..9).collect::<Vec<i32>>()), "[0, 1, 2, 3, 4, 5, ... 9 i32]"),
        ] {
            assert_eq!(value.to_string(), shown);
        }
    }
}
