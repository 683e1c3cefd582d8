//! The metadata of a model, with getters whose errors say which key is wrong and how.

use super::index::NameIndex;
use super::{Array, GgufError, GgufErrorKind, StrArray, Value};
use std::borrow::Cow;
use std::path::PathBuf;

/// Keys and values in the order of the file.
pub struct Metadata {
    /// Named in errors.
    path: Option<PathBuf>,
    entries: Vec<(Box<str>, Value)>,
    by_key: NameIndex,
}

impl Metadata {
    /// # Errors
    /// A key that is there twice.
    pub fn new(entries: Vec<(Box<str>, Value)>) -> Result<Metadata, GgufError> {
        let by_key = NameIndex::new(entries.len(), |i| &entries[i].0)
            .map_err(|i| GgufErrorKind::DuplicateKey((&*entries[i].0).into()))?;
        Ok(Metadata { path: None, entries, by_key })
    }

    pub(super) fn set_path(&mut self, path: PathBuf) {
        self.path = Some(path);
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// In the order of the file.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Value)> {
        self.entries.iter().map(|(key, value)| (&**key, value))
    }

    pub fn get(&self, key: &str) -> Option<&Value> {
        self.by_key.find(key, |i| &self.entries[i].0).map(|i| &self.entries[i].1)
    }

    /// Any integer type, where the value fits.
    pub fn u32(&self, key: &str) -> Result<u32, GgufError> {
        self.need(key, self.opt_u32(key)?)
    }

    pub fn opt_u32(&self, key: &str) -> Result<Option<u32>, GgufError> {
        self.integer(key, "u32")
    }

    /// Any integer type, where the value fits.
    pub fn u64(&self, key: &str) -> Result<u64, GgufError> {
        self.need(key, self.opt_u64(key)?)
    }

    pub fn opt_u64(&self, key: &str) -> Result<Option<u64>, GgufError> {
        self.integer(key, "u64")
    }

    /// Any number type.
    pub fn f32(&self, key: &str) -> Result<f32, GgufError> {
        self.need(key, self.opt_f32(key)?)
    }

    pub fn opt_f32(&self, key: &str) -> Result<Option<f32>, GgufError> {
        self.typed(key, "a number", Value::as_f32)
    }

    pub fn bool(&self, key: &str) -> Result<bool, GgufError> {
        self.need(key, self.opt_bool(key)?)
    }

    pub fn opt_bool(&self, key: &str) -> Result<Option<bool>, GgufError> {
        self.typed(key, "bool", |value| if let Value::Bool(b) = value { Some(*b) } else { None })
    }

    pub fn str(&self, key: &str) -> Result<&str, GgufError> {
        self.need(key, self.opt_str(key)?)
    }

    pub fn opt_str(&self, key: &str) -> Result<Option<&str>, GgufError> {
        self.typed(key, "str", |value| if let Value::Str(text) = value { Some(&**text) } else { None })
    }

    pub fn str_array(&self, key: &str) -> Result<&StrArray, GgufError> {
        self.need(key, self.opt_str_array(key)?)
    }

    pub fn opt_str_array(&self, key: &str) -> Result<Option<&StrArray>, GgufError> {
        self.typed(key, "array of str", |value| match value {
            Value::Array(Array::Str(strings)) => Some(strings),
            _ => None,
        })
    }

    /// An array of floats; one of f64 is rounded.
    pub fn opt_f32_array(&self, key: &str) -> Result<Option<Cow<'_, [f32]>>, GgufError> {
        self.typed(key, "array of f32", |value| match value {
            Value::Array(Array::F32(floats)) => Some(Cow::Borrowed(&floats[..])),
            Value::Array(Array::F64(floats)) => Some(floats.iter().map(|&x| x as f32).collect()),
            _ => None,
        })
    }

    /// An array of any integer type, where all its entries fit.
    pub fn opt_i32_array(&self, key: &str) -> Result<Option<Cow<'_, [i32]>>, GgufError> {
        match self.get(key) {
            Some(Value::Array(Array::I32(entries))) => Ok(Some(Cow::Borrowed(entries))),
            _ => self.integers(key, "array of i32", "i32").map(|entries| entries.map(Cow::Owned)),
        }
    }

    /// An array of any integer type, where all its entries fit.
    pub fn opt_u32_array(&self, key: &str) -> Result<Option<Cow<'_, [u32]>>, GgufError> {
        match self.get(key) {
            Some(Value::Array(Array::U32(entries))) => Ok(Some(Cow::Borrowed(entries))),
            _ => self.integers(key, "array of u32", "u32").map(|entries| entries.map(Cow::Owned)),
        }
    }

    /// An array of booleans.
    pub fn opt_bool_array(&self, key: &str) -> Result<Option<&[bool]>, GgufError> {
        self.typed(key, "array of bool", |value| match value {
            Value::Array(Array::Bool(entries)) => Some(&entries[..]),
            _ => None,
        })
    }

    /// A value for each of `n` layers: the file has an integer that all of them share, or an array of `n`.
    pub fn u32_or_array(&self, key: &str, n: usize) -> Result<Vec<u32>, GgufError> {
        self.need(key, self.opt_u32_or_array(key, n)?)
    }

    pub fn opt_u32_or_array(&self, key: &str, n: usize) -> Result<Option<Vec<u32>>, GgufError> {
        if !matches!(self.get(key), Some(Value::Array(_))) {
            return Ok(self.opt_u32(key)?.map(|value| vec![value; n]));
        }
        let entries = self.need(key, self.opt_u32_array(key)?)?.into_owned();
        match entries.len() {
            found if found != n => Err(self.error(GgufErrorKind::ArrayLength { key: key.into(), wanted: n, found })),
            _ => Ok(Some(entries)),
        }
    }

    fn error(&self, kind: GgufErrorKind) -> GgufError {
        GgufError { path: self.path.clone(), kind: Box::new(kind) }
    }

    fn need<T>(&self, key: &str, value: Option<T>) -> Result<T, GgufError> {
        value.ok_or_else(|| self.error(GgufErrorKind::MissingKey(key.into())))
    }

    fn typed<'a, T>(
        &'a self,
        key: &str,
        wanted: &'static str,
        convert: impl Fn(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, GgufError> {
        let Some(value) = self.get(key) else { return Ok(None) };
        match convert(value) {
            Some(value) => Ok(Some(value)),
            None => Err(self.error(GgufErrorKind::WrongType { key: key.into(), wanted, found: value.describe() })),
        }
    }

    fn integer<T: TryFrom<i128>>(&self, key: &str, wanted: &'static str) -> Result<Option<T>, GgufError> {
        let Some(value) = self.typed(key, wanted, Value::as_integer)? else { return Ok(None) };
        self.fits(key, value, wanted).map(Some)
    }

    fn integers<T: TryFrom<i128>>(
        &self,
        key: &str,
        wanted: &'static str,
        entry: &'static str,
    ) -> Result<Option<Vec<T>>, GgufError> {
        let entries = self.typed(key, wanted, |value| match value {
            Value::Array(array) => array.integers(),
            _ => None,
        })?;
        let Some(entries) = entries else { return Ok(None) };
        entries.into_iter().map(|value| self.fits(key, value, entry)).collect::<Result<_, _>>().map(Some)
    }

    fn fits<T: TryFrom<i128>>(&self, key: &str, value: i128, wanted: &'static str) -> Result<T, GgufError> {
        T::try_from(value)
            .map_err(|_| self.error(GgufErrorKind::OutOfRange { key: key.into(), value: value.to_string(), wanted }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata() -> Metadata {
        let words: StrArray = ["a", "b"].iter().collect();
        let entries: Vec<(&str, Value)> = vec![
            ("small", 3u8.into()),
            ("big", (1u64 << 40).into()),
            ("negative", (-1i32).into()),
            ("half", 0.5f32.into()),
            ("wide", 0.25f64.into()),
            ("yes", true.into()),
            ("name", "tiny".into()),
            ("words", words.into()),
            ("floats", vec![1.0f32, 2.0].into()),
            ("per_layer", Value::Array(Array::I64(vec![4, 2, 0]))),
        ];
        let entries = entries.into_iter().map(|(key, value)| (key.into(), value)).collect();
        let mut metadata = Metadata::new(entries).unwrap();
        metadata.set_path("m.gguf".into());
        metadata
    }

    #[test]
    fn converts_what_fits() {
        let m = metadata();
        assert_eq!(m.u32("small").unwrap(), 3);
        assert_eq!(m.u64("big").unwrap(), 1 << 40);
        assert_eq!(m.opt_u32("absent").unwrap(), None);
        assert_eq!((m.f32("half").unwrap(), m.f32("wide").unwrap(), m.f32("small").unwrap()), (0.5, 0.25, 3.0));
        assert!(m.bool("yes").unwrap());
        assert_eq!(m.str("name").unwrap(), "tiny");
        assert_eq!(m.str_array("words").unwrap().iter().collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(&*m.opt_f32_array("floats").unwrap().unwrap(), [1.0, 2.0]);
        assert_eq!(&*m.opt_i32_array("per_layer").unwrap().unwrap(), [4, 2, 0]);
        assert_eq!(m.u32_or_array("per_layer", 3).unwrap(), [4, 2, 0]);
        assert_eq!(m.u32_or_array("small", 2).unwrap(), [3, 3]);
    }

    #[test]
    fn errors_say_what_is_wrong() {
        let m = metadata();
        for (error, message) in [
            (m.u32("absent").err(), "m.gguf: the file has no key absent, which its architecture needs"),
            (m.u32("big").err(), "m.gguf: key big: 1099511627776 is out of range for u32"),
            (m.u32("negative").err(), "m.gguf: key negative: -1 is out of range for u32"),
            (m.u32("half").err(), "m.gguf: key half: u32 expected, the file has f32"),
            (m.str("words").err(), "m.gguf: key words: str expected, the file has array of 2 str"),
            (m.opt_bool("small").err(), "m.gguf: key small: bool expected, the file has u8"),
            (m.u32_or_array("per_layer", 2).err(), "m.gguf: key per_layer: 2 entries expected, the file has 3"),
            (m.u32_or_array("words", 2).err(), "m.gguf: key words: array of u32 expected, the file has array of 2 str"),
        ] {
            assert_eq!(error.expect(message).to_string(), message);
        }
    }
}
