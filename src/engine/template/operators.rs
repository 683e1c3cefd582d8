//! Operators that the renderer does not do as needed, rewritten to filters at load.
//!
//! `a * b` becomes `(a)|layercake_multiply(b)`, see [`super::counted::multiply`]; in templates that mark text as safe
//! `a + b` becomes `(a)|layercake_add(b)`, see [`super::markup`]. Sums and products are taken from left to right; jinja2
//! reads `~` between the two (tighter than `+`, looser than `*`).

/// The filter that stands for `+`.
pub const ADD_FILTER: &str = "layercake_add";
/// The filter that stands for `*`.
pub const MULTIPLY_FILTER: &str = "layercake_multiply";

/// The words that end an operand and begin another. `is` does not: a test binds tighter than a sum.
const KEYWORDS: [&str; 8] = ["and", "or", "not", "in", "if", "else", "is", "recursive"];

/// One bracket's content while it is read: where in the output the present sum and product begin, and whether the
/// bracket of a filter is still to be closed.
struct Level {
    sum_start: usize,
    product_start: usize,
    sum_is_open: bool,
    product_is_open: bool,
}

impl Level {
    fn new(start: usize) -> Self {
        Self { sum_start: start, product_start: start, sum_is_open: false, product_is_open: false }
    }

    fn close_product(&mut self, out: &mut String) {
        if std::mem::take(&mut self.product_is_open) {
            out.push(')');
        }
    }

    fn close(&mut self, out: &mut String) {
        self.close_product(out);
        if std::mem::take(&mut self.sum_is_open) {
            out.push(')');
        }
    }
}

/// Makes a filter call of what stands in the output from `start` on.
fn open_filter(out: &mut String, start: usize, filter: &str) {
    out.insert(start, '(');
    out.push_str(")|");
    out.push_str(filter);
    out.push('(');
}

/// The body of a tag with its operators rewritten; sums only with `with_sums`.
pub fn rewrite(body: &str, is_statement: bool, with_sums: bool) -> String {
    let mut out = String::with_capacity(body.len() * 2);
    let mut outer = Vec::new();
    let mut level = Level::new(0);
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
                    level.close(&mut out);
                    level = Level::new(out.len() + length);
                }
                previous_word = word;
            }
            '(' | '[' | '{' => {
                outer.push(std::mem::replace(&mut level, Level::new(out.len() + 1)));
                after_operand = false;
            }
            ')' | ']' | '}' => {
                level.close(&mut out);
                level = outer.pop().unwrap_or(Level::new(out.len()));
                after_operand = true;
            }
            '*' if rest.starts_with("**") => {
                length = 2;
                after_operand = false;
            }
            '*' if after_operand => {
                level.close_product(&mut out);
                open_filter(&mut out, level.product_start, MULTIPLY_FILTER);
                level.product_is_open = true;
                after_operand = false;
                rest = &rest[length..];
                continue;
            }
            '/' | '%' => {
                level.close_product(&mut out);
                after_operand = false;
            }
            '~' => {
                level.close_product(&mut out);
                level.product_start = out.len() + 1;
                after_operand = false;
            }
            '+' if after_operand && with_sums => {
                level.close(&mut out);
                open_filter(&mut out, level.sum_start, ADD_FILTER);
                level.sum_is_open = true;
                level.product_start = out.len();
                after_operand = false;
                rest = &rest[length..];
                continue;
            }
            '+' | '-' if after_operand => {
                level.close(&mut out);
                level.product_start = out.len() + 1;
                after_operand = false;
            }
            ',' | ':' | '=' | '<' | '>' | '!' => {
                level.close(&mut out);
                level = Level::new(out.len() + 1);
                after_operand = false;
            }
            _ => after_operand = false,
        }
        out.push_str(&rest[..length]);
        rest = &rest[length..];
    }
    level.close(&mut out);
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
