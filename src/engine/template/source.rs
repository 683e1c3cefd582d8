//! A small rewrite of a template's text at load. Lines stay where they are, so that errors name the right one.
//!
//! * `{% generation %}` ... `{% endgeneration %}` marks the assistant's words for training. It becomes
//!   `{% with %}` ... `{% endwith %}`, which has the same scope and does nothing.
//! * `{% set name = value %}` becomes `{% set name = (value)|keep %}` with a filter that refuses values nested too
//!   deeply. Values are printed, compared and freed by recursion, so a loop that wraps a list in a list again and
//!   again would end in a stack overflow. A namespace's attribute gets a filter that also refuses namespaces, since
//!   one that holds itself would never end.
//! * Where a template marks text as safe, `a + b` becomes a filter: see [`super::markup`].
//! * A tag with too many tokens is refused, which bounds what one expression can nest.

use std::borrow::Cow;

use super::error::TemplateError;
use super::limits::MAX_TAG_TOKENS;
use super::markup;

/// The filter around a variable's value. The name cannot be written by accident.
pub const KEEP_FILTER: &str = "layercake_keep";
/// The filter around a namespace attribute's value.
pub const KEEP_ATTRIBUTE_FILTER: &str = "layercake_keep_attribute";

/// The text to compile for a template's text.
///
/// # Errors
/// [`TemplateError::Syntax`] for a tag with too many tokens. Other errors are left to the compiler.
pub fn rewrite(source: &str) -> Result<String, TemplateError> {
    let has_markup = markup::is_used(source);
    let mut out = String::with_capacity(source.len() + source.len() / 8);
    let mut rest = source;
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
        let body = if has_markup { Cow::Owned(markup::rewrite_sums(body, is_statement)) } else { Cow::Borrowed(body) };
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
        if !byte.is_ascii_whitespace() && !(is_word(byte) && is_word(bytes[i - 1])) {
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

/// `body` is what stands between the brackets of a `{% %}`.
fn rewrite_statement(body: &str, out: &mut String) {
    let word = body.trim_start();
    let word_end = word.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(word.len());
    let (word, rest) = word.split_at(word_end);
    match word {
        "generation" => out.push_str(&[" with", rest].concat()),
        "endgeneration" => out.push_str(&[" endwith", rest].concat()),
        "set" => match find_assignment(rest) {
            Some(at) => {
                let (target, value) = (&rest[..at], &rest[at + 1..]);
                let filter = if target.contains('.') { KEEP_ATTRIBUTE_FILTER } else { KEEP_FILTER };
                out.push_str(&[" set", target, "= (", value, ")|", filter, " "].concat());
            }
            None => out.push_str(body),
        },
        _ => out.push_str(body),
    }
}

/// Where a `set` has its `=`; the form that sets a block of text has none outside brackets.
fn find_assignment(text: &str) -> Option<usize> {
    let mut depth = 0usize;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            // A text before any `=` can only be a filter's argument.
            b'"' | b'\'' => return None,
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth = depth.saturating_sub(1),
            b'=' if depth == 0 => return Some(at),
            _ => {}
        }
    }
    None
}
