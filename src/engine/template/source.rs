//! A small rewrite of a template's text at load. Lines stay where they are, so that errors name the right one.
//!
//! * `{% generation %}` ... `{% endgeneration %}` marks the assistant's words for training. It becomes
//!   `{% with %}` ... `{% endwith %}`, which has the same scope and does nothing.
//! * Each value that gets a name (`set`, `for`, `with`, parameters) goes through the filter [`super::counted::keep`]:
//!   `{% set name = value %}` becomes `{% set name = (value)|keep %}`. It bounds nesting, since values are printed,
//!   compared and freed by recursion, and sharing, since a walk over shared values could go on for ever. A namespace's
//!   attribute moreover must not hold a namespace, which could be itself.
//! * Some operators become filters: see [`super::operators`].
//! * A tag with too many tokens is refused, which bounds what one expression can nest.

use super::error::TemplateError;
use super::limits::MAX_TAG_TOKENS;
use super::{markup, operators};

/// The filter around a variable's value. The name cannot be written by accident.
pub const KEEP_FILTER: &str = "layercake_keep";
/// The filter around a namespace attribute's value.
pub const KEEP_ATTRIBUTE_FILTER: &str = "layercake_keep_attribute";

/// The text to compile for a template's text.
///
/// # Errors
/// [`TemplateError::Syntax`] for a tag with too many tokens. Other errors are left to the compiler.
pub fn rewrite(source: &str) -> Result<String, TemplateError> {
    // jinja2 reads every line end as `\n`.
    let source = &source.replace("\r\n", "\n").replace('\r', "\n");
    let has_markup = markup::is_used(source);
    let mut out = String::with_capacity(source.len() + source.len() / 8);
    let mut rest = source.as_str();
    while let Some(start) = find_tag(rest) {
        out.push_str(&rest[..start]);
        let tag = &rest[start..];
        let kind = tag.as_bytes()[1];
        if kind == b'#' {
            let length = tag.find("#}").map_or(tag.len(), |end| end + 2);
            out.push_str(&tag[..length]);
            rest = &tag[length..];
            continue;
        }
        let scan = scan_tag(tag, if kind == b'{' { "}}" } else { "%}" });
        if scan.n_tokens > MAX_TAG_TOKENS {
            let line = 1 + source[..source.len() - tag.len()].matches('\n').count();
            let message = format!("one tag has more than {MAX_TAG_TOKENS} words and signs");
            return Err(TemplateError::Syntax { line, message });
        }
        if !scan.is_closed {
            // The compiler says what is wrong, and where.
            out.push_str(tag);
            return Ok(out);
        }
        let (opening, body, closing) = split_control(&tag[..scan.length]);
        out.push_str(opening);
        let is_statement = kind == b'%';
        let body = operators::rewrite(body, is_statement, has_markup);
        if is_statement {
            rewrite_statement(&body, &mut out)
        } else {
            out.push_str(&body)
        }
        out.push_str(closing);
        rest = &tag[scan.length..];
        if is_statement && body.trim() == "raw" {
            let length = raw_length(rest);
            out.push_str(&rest[..length]);
            rest = &rest[length..];
        }
    }
    out.push_str(rest);
    Ok(out)
}

/// Where the next `{{`, `{%` or `{#` begins.
fn find_tag(text: &str) -> Option<usize> {
    text.as_bytes().windows(2).position(|pair| pair[0] == b'{' && matches!(pair[1], b'{' | b'%' | b'#'))
}

struct TagScan {
    /// Bytes from the opening to the end of the closing bracket, or to the end of the text.
    length: usize,
    is_closed: bool,
    n_tokens: usize,
}

/// Reads one tag, stepping over quoted texts and over braces of dicts.
fn scan_tag(tag: &str, closing: &str) -> TagScan {
    let bytes = tag.as_bytes();
    let mut scan = TagScan { length: bytes.len(), is_closed: false, n_tokens: 0 };
    let mut depth = 0usize;
    let mut i = 2;
    while i < bytes.len() {
        if depth == 0 && bytes[i..].starts_with(closing.as_bytes()) {
            scan.length = i + 2;
            scan.is_closed = true;
            return scan;
        }
        let byte = bytes[i];
        match byte {
            b'"' | b'\'' => {
                i += 1;
                while i < bytes.len() && bytes[i] != byte {
                    i += if bytes[i] == b'\\' { 2 } else { 1 };
                }
            }
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        let is_word = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b >= 0x80;
        let continues_word = is_word(byte) && is_word(bytes[i - 1]);
        if !byte.is_ascii_whitespace() && !continues_word {
            scan.n_tokens += 1;
        }
        i += 1;
    }
    scan
}

/// The length of the text of a raw block, up to and with `{% endraw %}`.
fn raw_length(text: &str) -> usize {
    let mut offset = 0;
    while let Some(start) = text[offset..].find("{%") {
        let start = offset + start;
        let Some(end) = text[start..].find("%}") else { break };
        let end = start + end + 2;
        if end - start >= 4 && split_control(&text[start..end]).1.trim() == "endraw" {
            return end;
        }
        offset = start + 2;
    }
    text.len()
}

/// A closed tag as opening bracket, body and closing bracket; the signs that control white space go with the brackets.
fn split_control(tag: &str) -> (&str, &str, &str) {
    let inner = &tag[2..tag.len() - 2];
    let from = if inner.starts_with(['-', '+']) { 3 } else { 2 };
    let body = &tag[from..tag.len() - 2];
    let to = tag.len() - if body.ends_with(['-', '+']) { 3 } else { 2 };
    (&tag[..from], &tag[from..to], &tag[to..])
}

/// `body` is what stands between the brackets of a `{% %}`; what is written ends before the closing bracket.
fn rewrite_statement(body: &str, out: &mut String) {
    let word = body.trim_start();
    let word_end = word.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(word.len());
    let (word, rest) = word.split_at(word_end);
    match word {
        "generation" => out.push_str(&[" with", rest].concat()),
        "endgeneration" => out.push_str(&[" endwith", rest].concat()),
        "set" => out.push_str(&[" set", &keep_assigned(rest)].concat()),
        "with" => {
            let bindings: Vec<_> = split_top_level(rest).into_iter().map(keep_assigned).collect();
            out.push_str(&[" with", &bindings.join(",")].concat());
        }
        "for" => {
            out.push_str(body);
            let targets = rest.find(" in ").map_or("", |end| &rest[..end]);
            keep_names(targets, out);
        }
        "macro" | "call" => {
            let parameters = bracketed(rest).filter(|(from, _)| word == "macro" || rest[..*from].trim() == "(");
            let Some((from, to)) = parameters else { return out.push_str(body) };
            let parameters: Vec<_> = split_top_level(&rest[from..to]).into_iter().map(keep_assigned).collect();
            out.push_str(&[" ", word, &rest[..from], &parameters.join(","), &rest[to..]].concat());
            for parameter in split_top_level(&rest[from..to]) {
                keep_names(parameter.split('=').next().unwrap_or_default(), out);
            }
        }
        _ => out.push_str(body),
    }
}

/// `target = value` with the value kept; anything else as it is.
fn keep_assigned(text: &str) -> String {
    let at = top_level(text).into_iter().find(|(at, byte)| *byte == b'=' && !text[at + 1..].starts_with('='));
    let Some((at, _)) = at else { return text.to_string() };
    let (target, value) = (&text[..at], &text[at + 1..]);
    let filter = if target.contains('.') { KEEP_ATTRIBUTE_FILTER } else { KEEP_FILTER };
    [target, "= (", value, ")|", filter, " "].concat()
}

/// Ends the tag and appends one `{% set name = (name)|keep %}` for each name, the last one without its end.
fn keep_names(names: &str, out: &mut String) {
    for name in names.split(|c: char| !(c.is_alphanumeric() || c == '_')).filter(|name| !name.is_empty()) {
        out.push_str(&[" %}{% set ", name, " = (", name, ")|", KEEP_FILTER, " "].concat());
    }
}

/// The bytes outside quoted texts and brackets, with their places.
fn top_level(text: &str) -> Vec<(usize, u8)> {
    let bytes = text.as_bytes();
    let (mut found, mut depth, mut i) = (Vec::new(), 0usize, 0);
    while i < bytes.len() {
        match bytes[i] {
            quote @ (b'"' | b'\'') => {
                i += 1;
                while i < bytes.len() && bytes[i] != quote {
                    i += if bytes[i] == b'\\' { 2 } else { 1 };
                }
            }
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            byte if depth == 0 => found.push((i, byte)),
            _ => {}
        }
        i += 1;
    }
    found
}

/// The parts between the commas outside quoted texts and brackets.
fn split_top_level(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut from = 0;
    for (at, _) in top_level(text).into_iter().filter(|(_, byte)| *byte == b',') {
        parts.push(&text[from..at]);
        from = at + 1;
    }
    parts.push(&text[from..]);
    parts
}

/// Where the content of the first round brackets begins and ends.
fn bracketed(text: &str) -> Option<(usize, usize)> {
    let from = text.find('(')? + 1;
    let (mut depth, mut i) = (1usize, from);
    let bytes = text.as_bytes();
    while i < bytes.len() {
        match bytes[i] {
            quote @ (b'"' | b'\'') => {
                i += 1;
                while i < bytes.len() && bytes[i] != quote {
                    i += if bytes[i] == b'\\' { 2 } else { 1 };
                }
            }
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => {
                depth -= 1;
                if depth == 0 {
                    return Some((from, i));
                }
            }
            _ => {}
        }
        i += 1;
    }
    None
}
