//! Values printed as Python's `str` and `repr` print them.

use minijinja::value::ValueKind;
use minijinja::{Error, ErrorKind, State, Value};

use super::counted::{self, TooDeep};
use super::limits::MAX_VALUE_DEPTH;

/// `str(value)`: text as it is, an undefined value as nothing, everything else as [`repr`] has it.
pub fn str_of(state: &State, value: &Value) -> Result<String, Error> {
    let mut out = String::new();
    match value.as_str() {
        Some(text) => out.push_str(text),
        None if value.is_undefined() => {}
        None => write_repr(state, value, &mut out, 0)?,
    }
    Ok(out)
}

/// `repr(value)`.
pub fn repr_of(state: &State, value: &Value) -> Result<String, Error> {
    let mut out = String::new();
    write_repr(state, value, &mut out, 0)?;
    Ok(out)
}

fn write_repr(state: &State, value: &Value, out: &mut String, depth: usize) -> Result<(), Error> {
    if depth > MAX_VALUE_DEPTH {
        return Err(too_deep());
    }
    state.consume_fuel(1)?;
    match value.kind() {
        ValueKind::Undefined => out.push_str("Undefined"),
        ValueKind::String => {
            let text = value.as_str().unwrap_or_default();
            state.consume_fuel(text.len() as u64 / 64)?;
            write_str_repr(text, out);
        }
        ValueKind::Number => out.push_str(&number_of(value)),
        ValueKind::Seq if counted::is_tuple(value) => {
            out.push('(');
            let n_items = write_items(state, value, out, depth)?;
            out.push_str(if n_items == 1 { ",)" } else { ")" });
        }
        // A generator prints its address in Python; the items it would give say more.
        ValueKind::Seq | ValueKind::Iterable => {
            if value.len().is_none() {
                out.push_str(&value.to_string());
                return Ok(());
            }
            out.push('[');
            write_items(state, value, out, depth)?;
            out.push(']');
        }
        ValueKind::Map => {
            out.push('{');
            for (i, key) in value.try_iter()?.enumerate() {
                if i > 0 {
                    out.push_str(", ");
                }
                write_repr(state, &key, out, depth + 1)?;
                out.push_str(": ");
                write_repr(state, &value.get_item(&key)?, out, depth + 1)?;
            }
            out.push('}');
        }
        _ => out.push_str(&value.to_string()),
    }
    Ok(())
}

fn write_items(state: &State, value: &Value, out: &mut String, depth: usize) -> Result<usize, Error> {
    let mut n_items = 0;
    for item in value.try_iter()?.checked() {
        if n_items > 0 {
            out.push_str(", ");
        }
        write_repr(state, &item?, out, depth + 1)?;
        n_items += 1;
    }
    Ok(n_items)
}

pub fn too_deep() -> Error {
    Error::new(ErrorKind::InvalidOperation, TooDeep.to_string())
}

/// The digits of a number: integers as they are, floats as Python's `repr` writes them.
pub fn number_of(value: &Value) -> String {
    if value.is_integer() {
        return value.to_string();
    }
    match f64::try_from(value.clone()) {
        Ok(number) => float_repr(number),
        Err(_) => value.to_string(),
    }
}

/// Python's `repr(float)`: the shortest digits that read back equal, with an exponent below 1e-4 and from 1e16 on.
pub fn float_repr(number: f64) -> String {
    if number.is_nan() {
        return "nan".to_string();
    }
    if number.is_infinite() {
        return if number > 0.0 { "inf" } else { "-inf" }.to_string();
    }
    // Rust's `{:e}` gives the same shortest digits as `d.ddde±x`; only the layout differs.
    let scientific = format!("{number:e}");
    let Some((mantissa, exponent)) = scientific.split_once('e') else { return scientific };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if number != 0.0 && !(-4..16).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{mantissa}e{sign}{:02}", exponent.abs());
    }
    let plain = number.to_string();
    if plain.contains('.') { plain } else { plain + ".0" }
}

/// `repr(str)`: single quotes unless the text has some and no double ones.
fn write_str_repr(text: &str, out: &mut String) {
    use std::fmt::Write;
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.push(quote);
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c == quote => {
                out.push('\\');
                out.push(c);
            }
            // Writing to a `String` cannot fail.
            c if (c as u32) < 0x20 || (0x7f..=0xa0).contains(&(c as u32)) || c == '\u{ad}' => {
                let _ = write!(out, "\\x{:02x}", c as u32);
            }
            c if is_unprintable(c) => {
                let code = c as u32;
                let _ = if code > 0xffff { write!(out, "\\U{code:08x}") } else { write!(out, "\\u{code:04x}") };
            }
            c => out.push(c),
        }
    }
    out.push(quote);
}

/// The separators, format characters and private-use ranges that `str.isprintable` denies and texts really hold.
fn is_unprintable(c: char) -> bool {
    matches!(c as u32,
        0x600..=0x605 | 0x61c | 0x6dd | 0x70f | 0x1680 | 0x180e | 0x2000..=0x200f | 0x2028..=0x202f
        | 0x205f..=0x206f | 0x3000 | 0xe000..=0xf8ff | 0xfeff | 0xfff9..=0xfffb | 0xfffe..=0xffff
        | 0xe0000..=0xe0fff | 0xf0000..=0x10ffff)
}
