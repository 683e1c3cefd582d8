//! Reads the vocabulary of a GGUF file, gzip-compressed or not, for tests: metadata only, little-endian, trusting.

use std::collections::HashMap;
use std::io::Read;
use std::path::Path;

use super::VocabSource;

enum Value {
    Unsigned(u64),
    Signed(i64),
    Float(f32),
    Bool(bool),
    Text(String),
    List(Vec<Value>),
    Other,
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let (head, rest) = self.0.split_first_chunk().expect("the file goes on");
        self.0 = rest;
        *head
    }

    fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.take())
    }

    fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.take())
    }

    fn text(&mut self) -> String {
        let len = usize::try_from(self.u64()).expect("a length");
        let (text, rest) = self.0.split_at(len);
        self.0 = rest;
        String::from_utf8(text.to_vec()).expect("UTF-8")
    }

    fn value(&mut self, kind: u32) -> Value {
        match kind {
            0 => Value::Unsigned(u64::from(self.take::<1>()[0])),
            1 => Value::Signed(i64::from(i8::from_le_bytes(self.take()))),
            2 => Value::Unsigned(u64::from(u16::from_le_bytes(self.take()))),
            3 => Value::Signed(i64::from(i16::from_le_bytes(self.take()))),
            4 => Value::Unsigned(u64::from(self.u32())),
            5 => Value::Signed(i64::from(i32::from_le_bytes(self.take()))),
            6 => Value::Float(f32::from_le_bytes(self.take())),
            7 => Value::Bool(self.take::<1>()[0] != 0),
            8 => Value::Text(self.text()),
            9 => {
                let kind = self.u32();
                let n = self.u64();
                Value::List((0..n).map(|_| self.value(kind)).collect())
            }
            10..=12 => {
                self.u64();
                Value::Other
            }
            _ => panic!("value type {kind}"),
        }
    }
}

/// The vocabulary that the file at `path` holds.
pub(crate) fn read_vocab(path: &Path) -> VocabSource {
    let mut bytes = std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    if path.extension().is_some_and(|e| e == "gz") {
        let packed = std::mem::take(&mut bytes);
        flate2::read::GzDecoder::new(packed.as_slice()).read_to_end(&mut bytes).expect("gzip data");
    }
    let mut reader = Reader(&bytes);
    assert_eq!(&reader.take::<4>(), b"GGUF");
    let _version = reader.u32();
    let _n_tensors = reader.u64();
    let n_values = reader.u64();
    let mut values = HashMap::new();
    for _ in 0..n_values {
        let key = reader.text();
        let kind = reader.u32();
        values.insert(key, reader.value(kind));
    }
    let mut take = |key: &str| values.remove(&format!("tokenizer.ggml.{key}"));
    let text = |value| if let Some(Value::Text(text)) = value { Some(text) } else { None };
    let flag = |value| if let Some(Value::Bool(flag)) = value { Some(flag) } else { None };
    fn list<T>(value: Option<Value>, item: fn(Value) -> Option<T>) -> Option<Vec<T>> {
        if let Some(Value::List(items)) = value { items.into_iter().map(item).collect() } else { None }
    }
    let texts = |value| list(value, |v| if let Value::Text(text) = v { Some(text) } else { None });
    let id = |value| if let Some(Value::Unsigned(id)) = value { u32::try_from(id).ok() } else { None };
    VocabSource {
        model: text(take("model")).expect("a model"),
        pre: text(take("pre")),
        tokens: texts(take("tokens")).expect("tokens"),
        scores: list(take("scores"), |v| if let Value::Float(x) = v { Some(x) } else { None }),
        token_types: list(take("token_type"), |v| if let Value::Signed(x) = v { i32::try_from(x).ok() } else { None }),
        merges: texts(take("merges")),
        bos: id(take("bos_token_id")),
        eos: id(take("eos_token_id")),
        eot: id(take("eot_token_id")),
        eom: id(take("eom_token_id")),
        unk: id(take("unknown_token_id")),
        sep: id(take("seperator_token_id")),
        pad: id(take("padding_token_id")),
        fim_pre: id(take("fim_pre_token_id")),
        fim_suf: id(take("fim_suf_token_id")),
        fim_mid: id(take("fim_mid_token_id")),
        fim_pad: id(take("fim_pad_token_id")),
        fim_rep: id(take("fim_rep_token_id")),
        fim_sep: id(take("fim_sep_token_id")),
        add_bos: flag(take("add_bos_token")),
        add_eos: flag(take("add_eos_token")),
        add_space_prefix: flag(take("add_space_prefix")),
    }
}
