//! Text marked as safe (`|safe`, `|escape`), which Python's markupsafe escapes other text into when it is added.
//!
//! jinja2 does that even without auto-escaping, and some templates (unknowingly) depend on it; minijinja does it only
//! with auto-escaping, which would change much else. So in templates that mark text at all, each sum `a + b` is
//! rewritten to the filter [`add`].

use minijinja::{Error, State, Value, context};

use super::python;

/// The filter that stands for `+`.
pub const ADD_FILTER: &str = "layercake_add";

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

/// The words that end an operand and begin another. `is` does not: a test binds tighter than a sum.
const KEYWORDS: [&str; 8] = ["and", "or", "not", "in", "if", "else", "is", "recursive"];

/// One bracket's content while it is read.
struct Sum {
    /// Where in the output the present sum begins.
    start: usize,
    /// Whether the filter's bracket is still to be closed.
    is_open: bool,
}

impl Sum {
    fn close(&mut self, out: &mut String) {
        if std::mem::take(&mut self.is_open) {
            out.push(')');
        }
    }
}

/// The body of a tag with every `a + b` as `(a)|layercake_add(b)`, from left to right.
pub fn rewrite_sums(body: &str, is_statement: bool) -> String {
    let mut out = String::with_capacity(body.len() * 2);
    let mut sums = Vec::new();
    let mut sum = Sum { start: 0, is_open: false };
    let mut is_first_word = is_statement;
    // Whether the token before could end an operand, so that a sign after it joins two.
    let mut after_operand = false;
    let mut previous_word = "";
    let mut rest = body;
    while let Some(c) = rest.chars().next() {
        let mut length = c.len_utf8();
        match c {
            _ if c.is_whitespace() => {}
            '"' | '\'' => {
                length = text_length(rest);
                after_operand = true;
            }
            _ if c.is_alphanumeric() || c == '_' => {
                length = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
                let word = &rest[..length];
                let is_keyword = is_first_word || (KEYWORDS.contains(&word) && !out.ends_with('.'));
                is_first_word = false;
                let is_test = word == "is" || (word == "not" && previous_word == "is");
                after_operand = !is_keyword;
                if is_keyword && !is_test {
                    sum.close(&mut out);
                    sum.start = out.len() + length;
                }
                previous_word = word;
            }
            '(' | '[' | '{' => {
                sums.push(std::mem::replace(&mut sum, Sum { start: out.len() + 1, is_open: false }));
                after_operand = false;
            }
            ')' | ']' | '}' => {
                sum.close(&mut out);
                sum = sums.pop().unwrap_or(Sum { start: out.len(), is_open: false });
                after_operand = true;
            }
            '+' if after_operand => {
                sum.close(&mut out);
                out.insert(sum.start, '(');
                out.push_str(")|");
                out.push_str(ADD_FILTER);
                out.push('(');
                sum.is_open = true;
                after_operand = false;
                rest = &rest[length..];
                continue;
            }
            '-' if after_operand => {
                sum.close(&mut out);
                after_operand = false;
            }
            ',' | ':' | '=' | '<' | '>' | '!' => {
                sum.close(&mut out);
                sum.start = out.len() + 1;
                after_operand = false;
            }
            _ => after_operand = false,
        }
        out.push_str(&rest[..length]);
        rest = &rest[length..];
    }
    sum.close(&mut out);
    out
}

/// The length of the quoted text at the start of `text`.
fn text_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut i = 1;
    while i < bytes.len() && bytes[i] != bytes[0] {
        i += if bytes[i] == b'\\' { 2 } else { 1 };
    }
    // A backslash can stand before a character of several bytes, whose middle is not an end.
    let mut end = (i + 1).min(bytes.len());
    while !text.is_char_boundary(end) {
        end += 1;
    }
    end
}
