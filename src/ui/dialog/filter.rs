//! Filters that forgive: what is typed needs to occur in order, not in one piece.

use nucleo_matcher::pattern::{CaseMatching, Normalization, Pattern};
use nucleo_matcher::{Config, Matcher, Utf32Str};

/// The places of the texts that match a query, the best first and equals in their own order. An empty query matches
/// all.
pub fn matching<'a>(query: &str, texts: impl IntoIterator<Item = &'a str>) -> Vec<usize> {
    let query = query.trim();
    let texts = texts.into_iter().enumerate();
    if query.is_empty() {
        return texts.map(|(i, _)| i).collect();
    }
    // Every character as it is: what a file is called may hold what elsewhere would be a sign of the query's syntax.
    let pattern =
        Pattern::new(query, CaseMatching::Smart, Normalization::Smart, nucleo_matcher::pattern::AtomKind::Fuzzy);
    let mut matcher = Matcher::new(Config::DEFAULT);
    let mut buffer = Vec::new();
    let mut found: Vec<(u32, usize)> = texts
        .filter_map(|(i, text)| Some((pattern.score(Utf32Str::new(text, &mut buffer), &mut matcher)?, i)))
        .collect();
    // Letters that are far apart in a long text are no match beside a good one.
    let best = found.iter().map(|(score, _)| *score).max().unwrap_or(0);
    found.retain(|(score, _)| *score >= best / 2);
    found.sort_by_key(|(score, i)| (std::cmp::Reverse(*score), *i));
    found.into_iter().map(|(_, i)| i).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_in_order_are_enough_and_the_nearest_comes_first() {
        let texts = ["Show the keys", "Open another model", "Go to the input", "Sampler settings"];
        assert_eq!(matching("", texts), [0, 1, 2, 3]);
        assert_eq!(matching("om", texts), [1]);
        assert_eq!(matching("mod open", texts), [1]);
        assert_eq!(matching("set", texts)[0], 3);
        assert!(matching("zzz", texts).is_empty());
        assert_eq!(matching("^x'", ["a^x'b", "axb"]), [0]);
        assert_eq!(matching("q4", ["Q4_K_M", "Q8_0"]), [0]);
    }
}
