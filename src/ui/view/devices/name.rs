//! Product names without what every one of their kind has.

use std::borrow::Cow;

use crate::ui::text::width::{truncate_with, width};

/// Words that tell no device of a rig from another.
const NOISE: &[&str] = &[
    "NVIDIA",
    "GeForce",
    "AMD",
    "Radeon",
    "Intel",
    "Intel(R)",
    "Corporation",
    "Core(TM)",
    "Xeon(R)",
    "(R)",
    "(TM)",
    "CPU",
    "Processor",
    "Graphics",
    "with",
    "@",
];

/// `RTX 4090` of `NVIDIA GeForce RTX 4090`, `Ryzen 5950X` of `AMD Ryzen 9 5950X 16-Core Processor`. A name that would
/// lose everything stays as it is.
pub fn short_name(name: &str) -> String {
    let is_noise = |word: &&str| {
        NOISE.contains(word) || word.ends_with("-Core") || (word.ends_with("GHz") && word.starts_with(char::is_numeric))
    };
    let mut words: Vec<_> = name.split_whitespace().filter(|word| !is_noise(word)).collect();
    // The model's number says its class, too.
    if let [series, class, number, ..] = words[..]
        && series == "Ryzen"
        && class.len() == 1
        && number.starts_with(|c: char| c.is_ascii_digit())
    {
        words.remove(1);
    }
    if words.is_empty() { name.trim().to_owned() } else { words.join(" ") }
}

/// A name in at most `columns`: cut between words where that leaves something, so that no number is cut.
pub(super) fn fitted<'a>(name: &'a str, columns: usize, mark: &str) -> Cow<'a, str> {
    if width(name) <= columns {
        return Cow::Borrowed(name);
    }
    let room = columns.saturating_sub(width(mark));
    let ends = name.char_indices().filter(|(_, c)| *c == ' ').map(|(at, _)| &name[..at]);
    match ends.rev().find(|start| width(start) <= room) {
        Some(start) => Cow::Owned(format!("{start}{mark}")),
        None => truncate_with(name, columns, mark),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_tells_them_apart_stays() {
        for (name, short) in [
            ("NVIDIA GeForce RTX 4090", "RTX 4090"),
            ("AMD Radeon RX 7900 XTX", "RX 7900 XTX"),
            ("AMD Instinct MI300X", "Instinct MI300X"),
            ("NVIDIA H100 80GB HBM3", "H100 80GB HBM3"),
            ("AMD Ryzen 9 5950X 16-Core Processor", "Ryzen 5950X"),
            ("AMD Ryzen AI 9 HX 370 w/ Radeon 890M", "Ryzen AI 9 HX 370 w/ 890M"),
            ("Intel(R) Core(TM) i7-9700K CPU @ 3.60GHz", "i7-9700K"),
            ("AMD Radeon Graphics", "AMD Radeon Graphics"),
            ("  ", ""),
        ] {
            assert_eq!(short_name(name), short, "{name}");
        }
    }
    #[test]
    fn names_are_cut_between_words() {
        assert_eq!(fitted("RX 7900 XTX", 11, "…"), "RX 7900 XTX");
        assert_eq!(fitted("RX 7900 XTX", 10, "…"), "RX 7900…");
        assert_eq!(fitted("RX 7900 XTX", 7, "…"), "RX…");
        assert_eq!(fitted("Threadripper", 7, "..."), "Thre...");
        assert_eq!(fitted("RX 7900 XTX", 0, "…"), "");
    }
}
