//! Sessions that speak of something.

use super::store::{Listed, SessionHead, SessionStore, head};
use super::{SessionError, SessionState};

/// A session that holds all words of a query.
#[derive(Clone, PartialEq, Debug)]
pub struct Found {
    pub head: SessionHead,
    /// One line around the first word; the title alone held it where this is empty. Not fit for a terminal as it is.
    pub snippet: String,
}

/// Characters of a snippet before and after the beginning of its word.
const BEFORE: usize = 30;
const AFTER: usize = 60;

impl SessionStore {
    /// Sessions in whose title and messages (of all branches) every word of the query occurs, in whichever case.
    /// Without a word: all of them.
    pub fn search(&self, query: &str) -> Result<Listed<Found>, SessionError> {
        let words: Vec<String> = query.split_whitespace().map(folded).collect();
        self.each(
            |id, path, bytes| {
                let state = SessionState::parse(id.clone(), bytes);
                let snippet = matching(&state, &words)?;
                Some(Found { head: head(id, path, bytes), snippet })
            },
            |found| &found.head,
        )
    }
}

/// The snippet, where all words occur.
fn matching(state: &SessionState, words: &[String]) -> Option<String> {
    let title = folded(&state.shown_title());
    let texts: Vec<(&str, String)> =
        state.conversation.messages().map(|m| (m.text.as_str(), folded(&m.text))).collect();
    let occurs = |word: &String| title.contains(word) || texts.iter().any(|(_, folded)| folded.contains(word));
    if !words.iter().all(occurs) {
        return None;
    }
    let place = words.iter().find_map(|word| {
        texts.iter().find_map(|(text, folded)| folded.split_once(word.as_str()).map(|(before, _)| (*text, before)))
    });
    Some(place.map_or_else(String::new, |(text, before)| snippet(text, before.chars().count())))
}

/// Character by character, so that the n-th stays the n-th.
fn folded(text: &str) -> String {
    text.chars().map(|c| c.to_lowercase().next().unwrap_or(c)).collect()
}

fn snippet(text: &str, n_before: usize) -> String {
    let start = n_before.saturating_sub(BEFORE);
    let part: String = text.chars().skip(start).take(n_before - start + AFTER).collect();
    let is_cut = text.chars().nth(n_before + AFTER).is_some();
    let line = part.split_whitespace().collect::<Vec<_>>().join(" ");
    format!("{}{line}{}", if start > 0 { "…" } else { "" }, if is_cut { "…" } else { "" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snippets_are_one_line_around_the_word() {
        assert_eq!(snippet("short\n  text", 0), "short text");
        let text = format!("{} Wörter über {}", "x".repeat(50), "y".repeat(90));
        let at = folded(&text).split_once("über").unwrap().0.chars().count();
        assert_eq!(snippet(&text, at), format!("…{} Wörter über {}…", "x".repeat(22), "y".repeat(55)));
    }

    #[test]
    fn folding_keeps_the_number_of_characters() {
        let text = "İSTANBUL ẞ Ǆ";
        assert_eq!(folded(text).chars().count(), text.chars().count());
        assert_eq!(folded("ÄRGER"), "ärger");
    }
}
