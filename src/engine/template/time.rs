//! `strftime_now(format)`: the time of the rendering in C's `strftime` notation.

use std::fmt::Write;

use chrono::NaiveDateTime;
use chrono::format::{Item, StrftimeItems};
use minijinja::{Error, ErrorKind};

/// Longest format read.
const MAX_FORMAT_BYTES: usize = 1024;

/// `now` written as `format` says. There is no time zone, so `%z` and `%Z` give nothing, as for Python's naive times.
pub fn strftime(now: NaiveDateTime, format: &str) -> Result<String, Error> {
    let refuse = |why: &str| Error::new(ErrorKind::InvalidOperation, format!("strftime_now: {why}"));
    if format.len() > MAX_FORMAT_BYTES {
        return Err(refuse("the format is too long"));
    }
    let format = format.replace("%z", "").replace("%Z", "");
    let items: Vec<Item> = StrftimeItems::new(&format).collect();
    if items.contains(&Item::Error) {
        return Err(refuse(&format!("`{format}` is not a valid format")));
    }
    let mut text = String::new();
    write!(text, "{}", now.format_with_items(items.iter()))
        .map_err(|_| refuse(&format!("`{format}` asks for what a date and time do not have")))?;
    Ok(text)
}
