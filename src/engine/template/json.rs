//! `tojson` as transformers has it: Python's `json.dumps` with `ensure_ascii=False`, keys in the order given and no
//! HTML escapes.

use minijinja::value::{Kwargs, Rest, ValueKind};
use minijinja::{Error, ErrorKind, State, Value};

use super::limits::{MAX_JSON_INDENT, MAX_VALUE_DEPTH};
use super::python::{float_repr, too_deep};

/// The filter: `tojson(ensure_ascii=false, indent=none, separators=none, sort_keys=false)`.
pub fn tojson(state: &State, value: &Value, positional: Rest<Value>, kwargs: Kwargs) -> Result<String, Error> {
    let argument = |index: usize, name: &str| -> Result<Option<Value>, Error> {
        let named: Option<Value> = kwargs.get(name)?;
        Ok(named.or_else(|| positional.get(index).cloned()).filter(|v| !v.is_none() && !v.is_undefined()))
    };
    if positional.len() > 4 {
        return Err(Error::new(ErrorKind::TooManyArguments, "tojson takes at most 4 arguments"));
    }
    let ensure_ascii = argument(0, "ensure_ascii")?.is_some_and(|v| v.is_true());
    let indent = argument(1, "indent")?.as_ref().map(indent_of).transpose()?;
    let separators = argument(2, "separators")?;
    let sort_keys = argument(3, "sort_keys")?.is_some_and(|v| v.is_true());
    kwargs.assert_all_used()?;
    let (item_separator, key_separator) = match &separators {
        Some(pair) => (text_item(pair, 0)?, text_item(pair, 1)?),
        None if indent.is_some() => (",".to_string(), ": ".to_string()),
        None => (", ".to_string(), ": ".to_string()),
    };
    let mut writer =
        Writer { state, out: String::new(), paid: 0, ensure_ascii, indent, item_separator, key_separator, sort_keys };
    writer.value(value, 0)?;
    Ok(writer.out)
}

/// `indent=4` or `indent="\t"`; a negative number means no spaces, as in Python.
fn indent_of(value: &Value) -> Result<String, Error> {
    let indent = match value.as_str() {
        Some(text) => text.to_string(),
        None => match value.as_i64() {
            Some(n) => " ".repeat(n.clamp(0, MAX_JSON_INDENT as i64 + 1) as usize),
            None => return Err(Error::new(ErrorKind::InvalidOperation, "tojson: indent must be a number or a text")),
        },
    };
    if indent.len() > MAX_JSON_INDENT {
        let message = format!("tojson: indent is more than {MAX_JSON_INDENT} characters");
        return Err(Error::new(ErrorKind::InvalidOperation, message));
    }
    Ok(indent)
}

fn text_item(pair: &Value, index: usize) -> Result<String, Error> {
    let item = pair.get_item_by_index(index)?;
    item.as_str()
        .map(str::to_string)
        .ok_or_else(|| Error::new(ErrorKind::InvalidOperation, "tojson: separators must be two texts"))
}

struct Writer<'a, 'b, 'c> {
    state: &'a State<'b, 'c>,
    out: String,
    /// Bytes of `out` that fuel was taken for.
    paid: usize,
    ensure_ascii: bool,
    indent: Option<String>,
    item_separator: String,
    key_separator: String,
    sort_keys: bool,
}

impl Writer<'_, '_, '_> {
    fn value(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        if depth > MAX_VALUE_DEPTH {
            return Err(too_deep());
        }
        self.pay()?;
        match value.kind() {
            ValueKind::None => self.out.push_str("null"),
            ValueKind::Bool => self.out.push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number => self.number(value),
            ValueKind::String => self.text(value.as_str().unwrap_or_default()),
            ValueKind::Seq => self.list(value, depth)?,
            // Results of `map`, `select` and `items` are generators in jinja2, which json.dumps refuses. Here they
            // are written as lists: that is what such a template means.
            ValueKind::Iterable => self.list(value, depth)?,
            ValueKind::Map => self.dict(value, depth)?,
            kind => {
                let message = format!("Object of type {kind} is not JSON serializable");
                return Err(Error::new(ErrorKind::BadSerialization, message));
            }
        }
        Ok(())
    }

    fn list(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        self.out.push('[');
        let mut is_empty = true;
        for item in value.try_iter()?.checked() {
            self.next_item(is_empty, depth + 1);
            is_empty = false;
            self.value(&item?, depth + 1)?;
        }
        self.close(']', is_empty, depth);
        Ok(())
    }

    fn dict(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        self.out.push('{');
        let mut keys = value.try_iter()?.checked().collect::<Result<Vec<_>, _>>()?;
        if self.sort_keys {
            self.state.consume_fuel(keys.len() as u64 * 16)?;
            keys.sort();
        }
        let mut is_empty = true;
        for key in keys {
            self.next_item(is_empty, depth + 1);
            is_empty = false;
            match key.kind() {
                ValueKind::String => self.text(key.as_str().unwrap_or_default()),
                ValueKind::None | ValueKind::Bool | ValueKind::Number => {
                    self.out.push('"');
                    self.value(&key, depth + 1)?;
                    self.out.push('"');
                }
                kind => {
                    let message = format!("keys must be str, int, float, bool or None, not {kind}");
                    return Err(Error::new(ErrorKind::BadSerialization, message));
                }
            }
            self.out.push_str(&self.key_separator);
            self.value(&value.get_item(&key)?, depth + 1)?;
        }
        self.close('}', is_empty, depth);
        Ok(())
    }

    fn next_item(&mut self, is_first: bool, depth: usize) {
        if !is_first {
            self.out.push_str(&self.item_separator);
        }
        self.new_line(depth);
    }

    fn close(&mut self, bracket: char, is_empty: bool, depth: usize) {
        if !is_empty {
            self.new_line(depth);
        }
        self.out.push(bracket);
    }

    fn new_line(&mut self, depth: usize) {
        if let Some(indent) = &self.indent {
            self.out.push('\n');
            for _ in 0..depth {
                self.out.push_str(indent);
            }
        }
    }

    fn number(&mut self, value: &Value) {
        match f64::try_from(value.clone()) {
            Ok(number) if !value.is_integer() => self.out.push_str(&match number {
                n if n.is_nan() => "NaN".to_string(),
                n if n.is_infinite() => if n > 0.0 { "Infinity" } else { "-Infinity" }.to_string(),
                n => float_repr(n),
            }),
            _ => self.out.push_str(&value.to_string()),
        }
    }

    fn text(&mut self, text: &str) {
        use std::fmt::Write;
        self.out.push('"');
        for c in text.chars() {
            match c {
                '"' => self.out.push_str("\\\""),
                '\\' => self.out.push_str("\\\\"),
                '\n' => self.out.push_str("\\n"),
                '\r' => self.out.push_str("\\r"),
                '\t' => self.out.push_str("\\t"),
                '\u{8}' => self.out.push_str("\\b"),
                '\u{c}' => self.out.push_str("\\f"),
                c if (c as u32) < 0x20 || (self.ensure_ascii && (c as u32) > 0x7e) => {
                    let mut units = [0u16; 2];
                    for unit in c.encode_utf16(&mut units) {
                        // Writing to a `String` cannot fail.
                        let _ = write!(self.out, "\\u{unit:04x}");
                    }
                }
                c => self.out.push(c),
            }
        }
        self.out.push('"');
    }

    /// Takes fuel for what was written since the last time, so that a value that holds itself many times over is
    /// stopped while it is written.
    fn pay(&mut self) -> Result<(), Error> {
        let bytes = self.out.len() - self.paid;
        self.paid = self.out.len();
        self.state.consume_fuel(1 + bytes as u64 / 64)
    }
}
