//! Text marked as safe (`|safe`, `|escape`), which Python's markupsafe escapes other text into when it is added.
//!
//! jinja2 does that even without auto-escaping, and some templates (unknowingly) depend on it; minijinja does it only
//! with auto-escaping, which would change much else. So in templates that mark text at all, each sum `a + b` is
//! rewritten to the filter [`add`].

use minijinja::{Error, State, Value, context};

use super::python;

/// The filters that give text marked as safe.
const MARKING_FILTERS: [&str; 4] = ["safe", "escape", "e", "forceescape"];

/// Whether a template's text uses one of the filters that mark text.
pub fn is_used(source: &str) -> bool {
    source.split('|').skip(1).any(|after| {
        let word = after.trim_start();
        let end = word.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(word.len());
        MARKING_FILTERS.contains(&&word[..end])
    })
}

/// `left + right`, where adding a safe and another text escapes the other one.
pub fn add(state: &State, left: &Value, right: &Value) -> Result<Value, Error> {
    if let (Some(l), Some(r)) = (left.as_str(), right.as_str())
        && (left.is_safe() || right.is_safe())
    {
        let escaped = |value: &Value, text: &str| if value.is_safe() { text.to_string() } else { escape_text(text) };
        return Ok(Value::from_safe_string(escaped(left, l) + &escaped(right, r)));
    }
    state.env().compile_expression("left + right")?.eval(context! { left, right })
}

/// The filter `escape`, in markupsafe's notation.
pub fn escape(state: &State, value: &Value) -> Result<Value, Error> {
    if value.is_safe() {
        return Ok(value.clone());
    }
    force_escape(state, value)
}

/// The filter `forceescape`.
pub fn force_escape(state: &State, value: &Value) -> Result<Value, Error> {
    Ok(Value::from_safe_string(escape_text(&python::str_of(state, value)?)))
}

fn escape_text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '\'' => out.push_str("&#39;"),
            '"' => out.push_str("&#34;"),
            c => out.push(c),
        }
    }
    out
}
