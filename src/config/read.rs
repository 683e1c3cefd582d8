//! Takes typed values out of a TOML table, with a warning for each that is not as it should be.

use std::borrow::Cow;
use std::ops::{Range, RangeInclusive};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::Warning;

pub type Value<'i> = Spanned<DeValue<'i>>;

/// Collects warnings on a text.
pub struct Notes<'t> {
    text: &'t str,
    pub warnings: Vec<Warning>,
}

impl<'t> Notes<'t> {
    pub fn new(text: &'t str) -> Notes<'t> {
        Notes { text, warnings: Vec::new() }
    }

    pub fn line(&self, span: Range<usize>) -> usize {
        line_of(self.text, span.start)
    }

    pub fn warn(&mut self, span: Range<usize>, message: String) {
        let line = self.line(span);
        self.warnings.push(Warning { line, message });
    }

    /// For a value that is none of what its key may have.
    pub fn expected(&mut self, key: &str, value: &Value<'_>, expected: &str) {
        self.warn(value.span(), format!("{} is {}: give {expected}", shortened(key), shown(value.get_ref())));
    }
}

/// A table whose keys are taken one by one; those that are left over are unknown.
pub struct Keys<'a, 'i> {
    /// How the table is named before its keys, e.g. `sampling.`.
    prefix: &'static str,
    known: Vec<&'static str>,
    table: &'a DeTable<'i>,
}

impl<'a, 'i> Keys<'a, 'i> {
    pub fn new(prefix: &'static str, table: &'a DeTable<'i>) -> Keys<'a, 'i> {
        Keys { prefix, known: Vec::new(), table }
    }

    /// The value of a key, if it has one.
    pub fn value(&mut self, key: &'static str) -> Option<&'a Value<'i>> {
        self.known.push(key);
        self.table.iter().find(|(k, _)| k.get_ref() == key).map(|(_, value)| value)
    }

    /// As `read` makes it of the value; `None`: it is missing, or not as `expected`.
    pub fn get<T>(
        &mut self,
        notes: &mut Notes<'_>,
        key: &'static str,
        expected: &str,
        read: impl FnOnce(&'a DeValue<'i>) -> Option<T>,
    ) -> Option<T> {
        let value = self.value(key)?;
        let read = read(value.get_ref());
        if read.is_none() {
            notes.expected(&format!("{}{key}", self.prefix), value, expected);
        }
        read
    }

    /// Tells of the keys that nobody asked for.
    pub fn finish(self, notes: &mut Notes<'_>) {
        for key in self.table.keys().filter(|k| !self.known.iter().any(|known| k.get_ref() == known)) {
            let near = nearest_note(key.get_ref(), self.known.iter().copied());
            let name = format!("{}{}", self.prefix, shortened(key.get_ref()));
            notes.warn(key.span(), format!("unknown key '{name}'{near}"));
        }
    }
}

/// Entries in the order of the file, which the parser's map does not keep.
pub fn in_order<'a, 'i>(table: &'a DeTable<'i>) -> Vec<(&'a Spanned<Cow<'i, str>>, &'a Value<'i>)> {
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    entries
}

pub fn text(value: &DeValue<'_>) -> Option<String> {
    value.as_str().map(str::to_owned)
}

pub fn text_that_says_something(value: &DeValue<'_>) -> Option<String> {
    text(value).filter(|text| !text.trim().is_empty())
}

pub fn integer(range: RangeInclusive<u64>) -> impl Fn(&DeValue<'_>) -> Option<u64> {
    move |value| {
        let integer = value.as_integer()?;
        u64::from_str_radix(integer.as_str(), integer.radix()).ok().filter(|n| range.contains(n))
    }
}

/// A number, also one without a point.
pub fn number(range: RangeInclusive<f32>) -> impl Fn(&DeValue<'_>) -> Option<f32> {
    move |value| {
        let number = match value {
            DeValue::Float(number) => number.as_str().parse().ok()?,
            DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix()).ok()? as f32,
            _ => return None,
        };
        // A NaN is in no range.
        range.contains(&number).then_some(number)
    }
}

/// All of a list, if it is one of texts.
pub fn texts(value: &DeValue<'_>) -> Option<Vec<String>> {
    value.as_array()?.iter().map(|item| text_that_says_something(item.get_ref())).collect()
}

pub fn line_of(text: &str, at: usize) -> usize {
    1 + text.bytes().take(at).filter(|&b| b == b'\n').count()
}

/// `: did you mean 'x'?`, where one of these is near enough to help.
pub fn nearest_note<'n>(name: &str, known: impl Iterator<Item = &'n str>) -> String {
    const MAX_CHARS: usize = 64;
    let name: String = name.chars().take(MAX_CHARS).flat_map(char::to_lowercase).collect();
    // The beginning of a name, or more than it, is near.
    let is_short_for = |known: &str| name.len() > 2 && (known.starts_with(&*name) || name.starts_with(known));
    let distance = |known: &str| if is_short_for(known) { 1 } else { strsim::osa_distance(&name, known) };
    match known.map(|known| (distance(known), known)).min() {
        // Further away than half of its letters, a name is no help.
        Some((distance, known)) if distance <= known.len() / 2 => format!(": did you mean '{}'?", shortened(known)),
        _ => String::new(),
    }
}

/// A value as the file has it, shortened to one line without control characters.
pub fn shown(value: &DeValue<'_>) -> String {
    match value {
        DeValue::Table(_) => "a table".to_owned(),
        DeValue::Array(_) => "a list".to_owned(),
        DeValue::String(text) => format!("\"{}\"", shortened(text)),
        DeValue::Integer(number) => shortened(&number.to_string()),
        DeValue::Float(number) => shortened(&number.to_string()),
        DeValue::Boolean(value) => value.to_string(),
        DeValue::Datetime(time) => time.to_string(),
    }
}

pub fn shortened(text: &str) -> String {
    const MAX_CHARS: usize = 40;
    let short: String = text
        .chars()
        .take(MAX_CHARS)
        .flat_map(|c| if matches!(c, '"' | '\'') { vec![c] } else { c.escape_debug().collect() })
        .collect();
    if text.chars().nth(MAX_CHARS).is_some() { format!("{short}…") } else { short }
}
