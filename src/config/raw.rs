//! The configuration as the file has it.

use std::path::Path;

use toml::de::{DeTable, DeValue};

use super::meaning::{Ascii, Colours};
use super::read::{Keys, Notes, in_order, integer, line_of, number, text, text_that_says_something, texts};
use super::{ConfigError, Warning};
use crate::engine::kv::KvType;

/// Each key of the file that is there and of the right type. Names of themes, keys and colours are not looked up.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct RawConfig {
    /// With its line.
    pub theme: Option<(String, usize)>,
    pub colours: Option<Colours>,
    pub ascii: Option<Ascii>,
    pub mouse: Option<bool>,
    pub models: Option<Vec<String>>,
    pub ctx: Option<u32>,
    pub kv: Option<KvType>,
    pub place: Option<String>,
    pub threads: Option<u16>,
    pub editor: Option<String>,
    pub system: Option<String>,
    pub telemetry_hz: Option<u32>,
    pub sampling: RawSampling,
    /// In the order of the file.
    pub keys: Vec<KeyBinding>,
    /// In the order of the file.
    pub themes: Vec<RawTheme>,
}

#[derive(Clone, PartialEq, Debug, Default)]
pub struct RawSampling {
    pub temperature: Option<f32>,
    pub top_k: Option<u32>,
    pub top_p: Option<f32>,
    pub min_p: Option<f32>,
    pub repeat_penalty: Option<f32>,
    pub seed: Option<u64>,
    pub max_tokens: Option<u32>,
}

/// One line of `[keys]`: `"chord" = "action"` or `action = ["chord", ...]`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeyBinding {
    pub action: String,
    /// None: the action has no key.
    pub chords: Vec<String>,
    /// Of the file, from 1.
    pub line: usize,
}

/// One table of `[themes]`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RawTheme {
    pub name: String,
    /// Of the table's name.
    pub line: usize,
    /// With its line.
    pub base: Option<(String, usize)>,
    pub colours: Vec<ThemeColour>,
}

/// A colour of a theme.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ThemeColour {
    /// What is coloured.
    pub name: String,
    /// `#rrggbb`, a name, or 0 to 255.
    pub value: String,
    /// Of the file, from 1.
    pub line: usize,
}

impl RawConfig {
    /// # Errors
    /// Only where the text is no TOML; `path` is for that line.
    pub fn parse(text: &str, path: &Path) -> Result<(RawConfig, Vec<Warning>), ConfigError> {
        let document = DeTable::parse(text).map_err(|e| ConfigError::Toml {
            path: path.to_owned(),
            line: line_of(text, e.span().map_or(0, |span| span.start)),
            // A message may quote the file, with line breaks and what else is in it.
            message: e.message().split(char::is_control).flat_map(str::split_whitespace).collect::<Vec<_>>().join(" "),
        })?;
        let mut notes = Notes::new(text);
        let raw = read(document.get_ref(), &mut notes);
        Ok((raw, notes.warnings))
    }
}

fn read(table: &DeTable<'_>, notes: &mut Notes<'_>) -> RawConfig {
    let mut keys = Keys::new("", table);
    let k = &mut keys;
    let theme_line = k.value("theme").map_or(0, |value| notes.line(value.span()));
    let raw = RawConfig {
        theme: k.get(notes, "theme", "the name of a theme", text).map(|name| (name, theme_line)),
        colours: k.get(notes, "colours", "\"auto\", \"none\", \"16\", \"256\" or \"true\"", read_colours),
        ascii: k.get(notes, "ascii", "\"auto\", true or false", read_ascii),
        mouse: k.get(notes, "mouse", "true or false", DeValue::as_bool),
        models: k.get(notes, "models", "a list of folders", texts),
        ctx: k.get(notes, "ctx", "a number of tokens above zero", u32_from(1)),
        kv: k.get(notes, "kv", "\"f16\", \"q8_0\" or \"f32\"", |v| v.as_str()?.parse().ok()),
        place: k.get(notes, "place", "a placement such as \"cpu0=embed,0-29,head\"", text_that_says_something),
        threads: k.get(notes, "threads", "a number from 1 to 1024", |v| {
            integer(1..=1024)(v).and_then(|n| u16::try_from(n).ok())
        }),
        editor: k.get(notes, "editor", "a command", text_that_says_something),
        system: k.get(notes, "system", "a text", text),
        telemetry_hz: k.get(notes, "telemetry_hz", "a number from 1 to 10", |v| {
            integer(1..=10)(v).and_then(|n| u32::try_from(n).ok())
        }),
        sampling: k
            .get(notes, "sampling", "a table", DeValue::as_table)
            .map_or_else(RawSampling::default, |table| read_sampling(table, notes)),
        keys: k.get(notes, "keys", "a table", DeValue::as_table).map_or_else(Vec::new, |t| read_keys(t, notes)),
        themes: k.get(notes, "themes", "a table", DeValue::as_table).map_or_else(Vec::new, |t| read_themes(t, notes)),
    };
    keys.finish(notes);
    raw
}

fn read_sampling(table: &DeTable<'_>, notes: &mut Notes<'_>) -> RawSampling {
    const SHARE: &str = "a number from 0 to 1";
    let mut keys = Keys::new("sampling.", table);
    let k = &mut keys;
    let raw = RawSampling {
        temperature: k.get(notes, "temperature", "a number from 0", number(0.0..=f32::MAX)),
        top_k: k.get(notes, "top_k", "a number of tokens, or 0 for all", u32_from(0)),
        top_p: k.get(notes, "top_p", SHARE, number(0.0..=1.0)),
        min_p: k.get(notes, "min_p", SHARE, number(0.0..=1.0)),
        repeat_penalty: k.get(notes, "repeat_penalty", "a number above 0", number(f32::MIN_POSITIVE..=f32::MAX)),
        // TOML's integers end there.
        seed: k.get(notes, "seed", "a whole number from 0", integer(0..=i64::MAX as u64)),
        max_tokens: k.get(notes, "max_tokens", "a number of tokens above zero", u32_from(1)),
    };
    keys.finish(notes);
    raw
}

fn read_keys(table: &DeTable<'_>, notes: &mut Notes<'_>) -> Vec<KeyBinding> {
    let mut bindings = Vec::new();
    for (key, value) in in_order(table) {
        let (name, line) = (key.get_ref().to_string(), notes.line(key.span()));
        if name.trim().is_empty() {
            notes.warn(key.span(), "a blank name in [keys]: give a key or the name of an action".to_owned());
        } else if let Some(action) = text_that_says_something(value.get_ref()) {
            bindings.push(KeyBinding { action, chords: vec![name], line });
        } else if let Some(chords) = texts(value.get_ref()) {
            bindings.push(KeyBinding { action: name, chords, line });
        } else {
            notes.expected(&format!("keys.{name}"), value, "the name of an action, or a list of keys for one");
        }
    }
    bindings
}

fn read_themes(table: &DeTable<'_>, notes: &mut Notes<'_>) -> Vec<RawTheme> {
    let mut themes = Vec::new();
    for (key, value) in in_order(table) {
        let name = key.get_ref().to_string();
        let Some(entries) = value.get_ref().as_table() else {
            notes.expected(&format!("themes.{name}"), value, "a table of colours");
            continue;
        };
        let mut theme = RawTheme { name, line: notes.line(key.span()), base: None, colours: Vec::new() };
        for (key, value) in in_order(entries) {
            let name = key.get_ref().to_string();
            let line = notes.line(value.span());
            if name == "base" {
                match text(value.get_ref()) {
                    Some(base) => theme.base = Some((base, line)),
                    None => notes.expected("base", value, "the name of a theme"),
                }
                continue;
            }
            let index = || integer(0..=255)(value.get_ref()).map(|n| n.to_string());
            match text_that_says_something(value.get_ref()).or_else(index) {
                Some(value) => theme.colours.push(ThemeColour { name, value, line }),
                None => notes.expected(&name, value, "\"#rrggbb\", the name of a colour, or a number from 0 to 255"),
            }
        }
        themes.push(theme);
    }
    themes
}

fn u32_from(lowest: u64) -> impl Fn(&DeValue<'_>) -> Option<u32> {
    move |value| integer(lowest..=u64::from(u32::MAX))(value).and_then(|n| u32::try_from(n).ok())
}

fn read_colours(value: &DeValue<'_>) -> Option<Colours> {
    let name = match value {
        DeValue::String(name) => name.to_string(),
        // What else could be meant?
        DeValue::Integer(number) => number.to_string(),
        DeValue::Boolean(true) => "true".to_owned(),
        DeValue::Boolean(false) | DeValue::Float(_) | DeValue::Datetime(_) | DeValue::Array(_) | DeValue::Table(_) => {
            return None;
        }
    };
    Colours::ALL.into_iter().find(|colours| colours.name() == name)
}

fn read_ascii(value: &DeValue<'_>) -> Option<Ascii> {
    match value {
        DeValue::Boolean(true) => Some(Ascii::Always),
        DeValue::Boolean(false) => Some(Ascii::Never),
        DeValue::String(text) if text == "auto" => Some(Ascii::Auto),
        _ => None,
    }
}
