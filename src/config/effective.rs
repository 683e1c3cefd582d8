//! The configuration written out again.

use std::fmt::Write;

use serde_json::{Map, Value, json};

use super::Config;
use super::meaning::Ascii;

/// What it means that one of these is not set.
const UNSET: [(&str, &str); 8] = [
    ("ctx", "the model's own, at most 8192"),
    ("place", "auto"),
    ("threads", "physical cores"),
    ("editor", "none, as neither $VISUAL nor $EDITOR is set"),
    ("system", "none"),
    ("temperature", "0.8; the demo: 0"),
    ("seed", "a new one each time"),
    ("max_tokens", "until the answer or the context ends"),
];

impl Config {
    /// The effective values under the file's keys; null where nothing is set.
    pub fn to_json(&self) -> Value {
        let ascii = match self.ascii {
            Ascii::Auto => json!("auto"),
            Ascii::Always => json!(true),
            Ascii::Never => json!(false),
        };
        let models: Vec<_> = self.models.iter().map(|folder| folder.to_string_lossy()).collect();
        let sampling = &self.sampling;
        let mut keys = Map::new();
        for binding in &self.keys {
            let chords = keys.entry(binding.action.clone()).or_insert_with(|| json!([]));
            if let Some(chords) = chords.as_array_mut() {
                chords.extend(binding.chords.iter().map(|chord| json!(chord)));
            }
        }
        let themes: Map<String, Value> = self
            .themes
            .iter()
            .map(|theme| {
                let colours = theme.colours.iter().map(|c| (c.name.clone(), json!(c.value)));
                let base = ("base".to_owned(), json!(theme.base));
                (theme.name.clone(), Value::Object(std::iter::once(base).chain(colours).collect()))
            })
            .collect();
        json!({
            "theme": self.theme,
            "colours": self.colours.name(),
            "ascii": ascii,
            "mouse": self.mouse,
            "models": models,
            "ctx": self.ctx,
            "kv": self.kv.name(),
            "place": self.place,
            "threads": self.threads,
            "editor": self.editor,
            "system": self.system,
            "telemetry_hz": self.telemetry_hz,
            "sampling": {
                "temperature": sampling.temperature.map(decimal),
                "top_k": sampling.top_k,
                "top_p": decimal(sampling.top_p),
                "min_p": decimal(sampling.min_p),
                "repeat_penalty": decimal(sampling.repeat_penalty),
                "seed": sampling.seed,
                "max_tokens": sampling.max_tokens,
            },
            "keys": keys,
            "themes": themes,
        })
    }

    /// The effective values as a file that means the same. What is not set is a comment.
    pub fn to_toml(&self) -> String {
        let mut out = String::new();
        if let Value::Object(entries) = self.to_json() {
            write_table(&mut out, "", &entries);
        }
        out
    }
}

/// Its short form: 0.8, not 0.800000011920929.
fn decimal(number: f32) -> Value {
    number.to_string().parse::<f64>().map_or(Value::Null, Value::from)
}

/// The entries of a table, and then its tables.
fn write_table(out: &mut String, name: &str, entries: &Map<String, Value>) {
    // Writing to a string does not fail.
    for (key, value) in entries {
        let _ = match value {
            Value::Object(_) => Ok(()),
            Value::Null => {
                let meaning = UNSET.iter().find(|(unset, _)| unset == key).map_or("not set", |(_, meaning)| meaning);
                writeln!(out, "# {key}: {meaning}")
            }
            value => writeln!(out, "{} = {}", toml_key(key), toml_value(value)),
        };
    }
    for (key, value) in entries {
        if let Value::Object(entries) = value
            && !entries.is_empty()
        {
            let name = if name.is_empty() { toml_key(key) } else { format!("{name}.{}", toml_key(key)) };
            if entries.values().any(|value| !value.is_object()) {
                let _ = writeln!(out, "\n[{name}]");
            }
            write_table(out, &name, entries);
        }
    }
}

fn toml_value(value: &Value) -> String {
    match value {
        Value::String(text) => quoted(text),
        Value::Array(items) => format!("[{}]", items.iter().map(toml_value).collect::<Vec<_>>().join(", ")),
        // Alike in both.
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => value.to_string(),
    }
}

fn toml_key(key: &str) -> String {
    let is_bare = !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
    if is_bare { key.to_owned() } else { quoted(key) }
}

/// On one line and without control characters.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            // Those that change the direction of text, too.
            c if c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}') => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
