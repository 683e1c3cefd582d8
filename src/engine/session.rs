//! Which tokens the KV cache holds.

/// **Invariant**: position `i` of every layer's KV cache was computed from `tokens[..=i]`.
#[derive(Default)]
pub struct Session {
    tokens: Vec<u32>,
}

impl Session {
    pub fn n_past(&self) -> u32 {
        self.tokens.len() as u32
    }

    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    pub fn clear(&mut self) {
        self.tokens.clear();
    }

    /// Keeps what the cache has in common with a prompt and forgets the rest; gives how many tokens that is. The
    /// prompt's last token is always left to compute, because its logits are wanted.
    pub fn keep_common(&mut self, prompt: &[u32]) -> usize {
        let common = self.tokens.iter().zip(prompt).take_while(|(a, b)| a == b).count();
        let kept = common.min(prompt.len().saturating_sub(1));
        self.tokens.truncate(kept);
        kept
    }

    /// Takes note of a step that was computed. One that does not follow on the cache's end is ignored: it was computed
    /// over positions that failed. Says whether it was taken.
    pub fn append(&mut self, first_position: u32, tokens: &[u32]) -> bool {
        let follows = first_position == self.n_past();
        if follows {
            self.tokens.extend_from_slice(tokens);
        }
        follows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_common_beginning_but_never_the_whole_prompt() {
        let mut session = Session::default();
        assert!(session.append(0, &[1, 2, 3, 4]));
        assert!(!session.append(7, &[9]));
        assert_eq!(session.keep_common(&[1, 2, 3, 4]), 3);
        assert!(session.append(3, &[4]));
        assert_eq!(session.keep_common(&[1, 2, 9, 4, 5]), 2);
        assert_eq!(session.n_past(), 2);
        assert_eq!(session.keep_common(&[7]), 0);
    }
}
