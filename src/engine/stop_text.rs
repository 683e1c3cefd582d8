//! Finds stop texts in streamed text.

/// Passes text on, holding back what could still become a stop text.
pub struct StopMatcher {
    stops: Vec<String>,
    held: String,
}

/// What became certain.
#[derive(Debug, PartialEq, Eq)]
pub struct Passed {
    pub text: String,
    /// A stop text came; it and what follows are dropped.
    pub stopped: bool,
}

impl StopMatcher {
    /// Empty stop texts are ignored.
    pub fn new(stops: &[String]) -> StopMatcher {
        StopMatcher { stops: stops.iter().filter(|s| !s.is_empty()).cloned().collect(), held: String::new() }
    }

    pub fn push(&mut self, text: &str) -> Passed {
        self.held.push_str(text);
        let first = self.stops.iter().filter_map(|s| self.held.find(s.as_str())).min();
        if let Some(at) = first {
            self.held.truncate(at);
            return Passed { text: std::mem::take(&mut self.held), stopped: true };
        }
        let keep = self.longest_beginning();
        let rest = self.held.split_off(self.held.len() - keep);
        Passed { text: std::mem::replace(&mut self.held, rest), stopped: false }
    }

    /// What is held back when nothing more comes.
    pub fn finish(&mut self) -> String {
        std::mem::take(&mut self.held)
    }

    /// Length of the longest end of `held` that begins a stop text.
    fn longest_beginning(&self) -> usize {
        let ends = self.held.char_indices().map(|(i, _)| &self.held[i..]);
        ends.into_iter().find(|end| self.stops.iter().any(|s| s.starts_with(end))).map_or(0, str::len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(stops: &[&str], pieces: &[&str]) -> (String, bool) {
        let stops: Vec<_> = stops.iter().map(|s| s.to_string()).collect();
        let mut matcher = StopMatcher::new(&stops);
        let mut out = String::new();
        for piece in pieces {
            let passed = matcher.push(piece);
            out += &passed.text;
            if passed.stopped {
                return (out, true);
            }
        }
        (out + &matcher.finish(), false)
    }

    #[test]
    fn stop_text_is_found_across_pieces_and_not_passed_on() {
        assert_eq!(run(&["END"], &["one E", "N", "D two"]), ("one ".into(), true));
        assert_eq!(run(&["END"], &["one E", "N", " two"]), ("one EN two".into(), false));
        assert_eq!(run(&["aab"], &["a", "a", "a", "b"]), ("a".into(), true));
        assert_eq!(run(&["xyz", "b"], &["aé", "bc"]), ("aé".into(), true));
        assert_eq!(run(&["", "é!"], &["é", "é", "!"]), ("é".into(), true));
        assert_eq!(run(&[], &["abc"]), ("abc".into(), false));
    }
}
