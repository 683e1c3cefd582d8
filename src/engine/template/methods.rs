//! Python's methods of strings, dicts and lists, where minijinja's own do not do or differ.

use minijinja::value::{Rest, ValueKind, from_args};
use minijinja::{Error, ErrorKind, State, Value};

/// The methods that would change what they are called on, which the reference's sandbox refuses.
const MUTATING: [(ValueKind, &[&str]); 2] = [
    (ValueKind::Seq, &["append", "clear", "extend", "insert", "pop", "remove", "reverse", "sort"]),
    (ValueKind::Map, &["clear", "pop", "popitem", "setdefault", "update"]),
];

/// minijinja asks here for every method that the value's own type does not have.
pub fn call(state: &mut State, value: &Value, method: &str, args: &[Value]) -> Result<Value, Error> {
    if MUTATING.iter().any(|(kind, names)| value.kind() == *kind && names.contains(&method)) {
        let message = format!("`{method}` would change a value in place, which chat templates may not do");
        return Err(Error::new(ErrorKind::InvalidOperation, message));
    }
    if let Some(text) = value.as_str()
        && let Some(result) = string_method(state, text, method, args)?
    {
        return Ok(result);
    }
    if value.kind() == ValueKind::Map
        && let Some(result) = dict_method(value, method, args)?
    {
        return Ok(result);
    }
    if matches!(value.kind(), ValueKind::Seq)
        && let Some(result) = list_method(state, value, method, args)?
    {
        return Ok(result);
    }
    minijinja_contrib::pycompat::unknown_method_callback(state, value, method, args)
}

/// White space as Python's `str.strip()` and `str.split()` see it: Unicode's, and the four ASCII separators.
fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

fn string_method(state: &State, text: &str, method: &str, args: &[Value]) -> Result<Option<Value>, Error> {
    let result = match method {
        "strip" | "lstrip" | "rstrip" => {
            let (chars,): (Option<&str>,) = from_args(args)?;
            let matches = |c: char| chars.map_or_else(|| is_space(c), |chars| chars.contains(c));
            Value::from(match method {
                "strip" => text.trim_matches(matches),
                "lstrip" => text.trim_start_matches(matches),
                _ => text.trim_end_matches(matches),
            })
        }
        "split" | "rsplit" => {
            let (separator, max_splits) = split_arguments(args)?;
            split(text, separator.as_deref(), max_splits, method == "rsplit")?
        }
        "removeprefix" => {
            let (prefix,): (&str,) = from_args(args)?;
            Value::from(text.strip_prefix(prefix).unwrap_or(text))
        }
        "removesuffix" => {
            let (suffix,): (&str,) = from_args(args)?;
            Value::from(text.strip_suffix(suffix).unwrap_or(text))
        }
        "partition" | "rpartition" => {
            let (separator,): (&str,) = from_args(args)?;
            if separator.is_empty() {
                return Err(Error::new(ErrorKind::InvalidOperation, "empty separator"));
            }
            let from_start = method == "partition";
            let found = if from_start { text.split_once(separator) } else { text.rsplit_once(separator) };
            let parts = match found {
                Some((before, after)) => [before, separator, after],
                None if from_start => [text, "", ""],
                None => ["", "", text],
            };
            Value::from(minijinja::value::Tuple::from(parts.map(Value::from)))
        }
        "index" | "rindex" => {
            let (what,): (&str,) = from_args(args)?;
            let found = if method == "index" { text.find(what) } else { text.rfind(what) };
            match found {
                Some(at) => Value::from(text[..at].chars().count()),
                None => return Err(Error::new(ErrorKind::InvalidOperation, "substring not found")),
            }
        }
        "title" => {
            let () = from_args(args)?;
            Value::from(title(text))
        }
        "swapcase" => {
            let () = from_args(args)?;
            let swap = |c: char| -> String {
                if c.is_uppercase() { c.to_lowercase().collect() } else { c.to_uppercase().collect() }
            };
            Value::from(text.chars().map(swap).collect::<String>())
        }
        "casefold" => {
            let () = from_args(args)?;
            Value::from(text.to_lowercase().replace('ß', "ss"))
        }
        "isspace" => {
            let () = from_args(args)?;
            Value::from(!text.is_empty() && text.chars().all(is_space))
        }
        "ljust" | "rjust" | "center" | "zfill" => {
            let (width, fill): (usize, Option<&str>) = from_args(args)?;
            let missing = width.saturating_sub(text.chars().count());
            state.consume_fuel(missing as u64 / 16)?;
            Value::from(pad(text, missing, method, fill.unwrap_or(" "))?)
        }
        "format" => {
            // Widths and precisions are written as digits, and cost before the text exists.
            let widths = text.split(|c: char| !c.is_ascii_digit()).filter(|digits| !digits.is_empty());
            let width = |digits: &str| digits.parse::<u64>().unwrap_or(u64::MAX);
            state.consume_fuel(widths.map(width).fold(0u64, u64::saturating_add) / 16)?;
            return Ok(None);
        }
        "splitlines" => {
            let (keep_ends,): (Option<bool>,) = from_args(args)?;
            splitlines(text, keep_ends.unwrap_or(false))
        }
        _ => return Ok(None),
    };
    Ok(Some(result))
}

/// `split(sep=None, maxsplit=-1)`, by position or by name.
fn split_arguments(args: &[Value]) -> Result<(Option<String>, usize), Error> {
    let (positional, kwargs) = minijinja::value::from_args::<(Rest<Value>, minijinja::value::Kwargs)>(args)?;
    let argument = |index: usize, name: &str| -> Result<Option<Value>, Error> {
        let named: Option<Value> = kwargs.get(name)?;
        Ok(named.or_else(|| positional.get(index).cloned()).filter(|v| !v.is_none()))
    };
    let separator = argument(0, "sep")?;
    let max_splits = argument(1, "maxsplit")?;
    kwargs.assert_all_used()?;
    let separator = match separator {
        None => None,
        Some(value) => match value.as_str() {
            Some("") => return Err(Error::new(ErrorKind::InvalidOperation, "empty separator")),
            Some(text) => Some(text.to_string()),
            None => return Err(Error::new(ErrorKind::InvalidOperation, "split: the separator must be a text")),
        },
    };
    let max_splits = match max_splits {
        None => usize::MAX,
        Some(value) => match value.as_i64() {
            Some(n) => usize::try_from(n).unwrap_or(usize::MAX),
            None => return Err(Error::new(ErrorKind::InvalidOperation, "split: maxsplit must be a whole number")),
        },
    };
    Ok((separator, max_splits))
}

fn split(text: &str, separator: Option<&str>, max_splits: usize, from_end: bool) -> Result<Value, Error> {
    let n_parts = max_splits.saturating_add(1);
    let mut parts: Vec<&str> = Vec::new();
    match (separator, from_end) {
        (Some(separator), false) => parts.extend(text.splitn(n_parts, separator)),
        (Some(separator), true) => {
            parts.extend(text.rsplitn(n_parts, separator));
            parts.reverse();
        }
        (None, false) => {
            let mut rest = text.trim_start_matches(is_space);
            while !rest.is_empty() {
                if parts.len() == max_splits {
                    parts.push(rest);
                    break;
                }
                let end = rest.find(is_space).unwrap_or(rest.len());
                parts.push(&rest[..end]);
                rest = rest[end..].trim_start_matches(is_space);
            }
        }
        (None, true) => {
            let mut rest = text.trim_end_matches(is_space);
            while !rest.is_empty() {
                if parts.len() == max_splits {
                    parts.push(rest);
                    break;
                }
                let start =
                    rest.char_indices().rev().find(|(_, c)| is_space(*c)).map_or(0, |(at, c)| at + c.len_utf8());
                parts.push(&rest[start..]);
                rest = rest[..start].trim_end_matches(is_space);
            }
            parts.reverse();
        }
    }
    Ok(Value::from(parts.into_iter().map(Value::from).collect::<Vec<_>>()))
}

/// A letter after a letter in lower case, any other in upper case.
fn title(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut after_letter = false;
    for c in text.chars() {
        if after_letter {
            out.extend(c.to_lowercase());
        } else {
            // `ß` becomes `Ss`: only the first character of what it expands to is a capital.
            let mut upper = c.to_uppercase();
            out.extend(upper.next());
            out.extend(upper.flat_map(char::to_lowercase));
        }
        after_letter = c.is_lowercase() || c.is_uppercase();
    }
    out
}

fn pad(text: &str, missing: usize, method: &str, fill: &str) -> Result<String, Error> {
    let mut characters = fill.chars();
    let (Some(fill), None) = (characters.next(), characters.next()) else {
        return Err(Error::new(ErrorKind::InvalidOperation, "the fill character must be exactly one character long"));
    };
    let repeat = |c: char, n: usize| std::iter::repeat_n(c, n);
    Ok(match method {
        "ljust" => text.chars().chain(repeat(fill, missing)).collect(),
        "rjust" => repeat(fill, missing).chain(text.chars()).collect(),
        "zfill" => {
            let sign = text.starts_with(['+', '-']) as usize;
            text[..sign].chars().chain(repeat('0', missing)).chain(text[sign..].chars()).collect()
        }
        // Python puts the odd one on the left when the final width is odd.
        _ => {
            let width = missing + text.chars().count();
            let left = missing / 2 + (missing & width & 1);
            repeat(fill, left).chain(text.chars()).chain(repeat(fill, missing - left)).collect()
        }
    })
}

fn splitlines(text: &str, keep_ends: bool) -> Value {
    let is_break = |c: char| {
        matches!(c, '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{1c}'..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}')
    };
    let mut lines = Vec::new();
    let mut rest = text;
    while let Some((at, c)) = rest.char_indices().find(|(_, c)| is_break(*c)) {
        let end = at + if rest[at..].starts_with("\r\n") { 2 } else { c.len_utf8() };
        lines.push(Value::from(&rest[..if keep_ends { end } else { at }]));
        rest = &rest[end..];
    }
    if !rest.is_empty() {
        lines.push(Value::from(rest));
    }
    Value::from(lines)
}

fn dict_method(value: &Value, method: &str, args: &[Value]) -> Result<Option<Value>, Error> {
    Ok(match method {
        "copy" => {
            let () = from_args(args)?;
            Some(value.clone())
        }
        _ => None,
    })
}

fn list_method(state: &State, value: &Value, method: &str, args: &[Value]) -> Result<Option<Value>, Error> {
    Ok(match method {
        "copy" => {
            let () = from_args(args)?;
            Some(value.clone())
        }
        "index" => {
            let (what,): (&Value,) = from_args(args)?;
            for (index, item) in value.try_iter()?.checked().enumerate() {
                state.consume_fuel(1)?;
                if item? == *what {
                    return Ok(Some(Value::from(index)));
                }
            }
            return Err(Error::new(ErrorKind::InvalidOperation, "the value is not in the list"));
        }
        _ => None,
    })
}
