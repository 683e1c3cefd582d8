//! Ids of words: each word that stands more than once in a text is merged once.

use std::ops::Range;

use foldhash::HashMap;

use super::merge::Scratch;

/// Longer words seldom come again.
const MAX_REMEMBERED_BYTES: usize = 48;
/// Bounds the memory of one call.
const MAX_REMEMBERED: usize = 1 << 16;

/// Output of one `encode` call, with what it has seen.
#[derive(Default)]
pub(super) struct Output<'t> {
    pub(super) ids: Vec<u32>,
    pub(super) scratch: Scratch,
    /// Where in `ids` the ids of a word are.
    seen: HashMap<&'t [u8], Range<usize>>,
}

impl<'t> Output<'t> {
    /// Goes on after `ids`.
    pub(super) fn after(ids: Vec<u32>) -> Self {
        Output { ids, ..Output::default() }
    }

    /// Appends the ids of `word`, which `encode` appends if they are not known yet. `encode` must depend on the bytes of
    /// the word alone.
    pub(super) fn word(&mut self, word: &'t [u8], encode: impl FnOnce(&mut Vec<u32>, &mut Scratch)) {
        if word.len() <= 1 || word.len() > MAX_REMEMBERED_BYTES {
            return encode(&mut self.ids, &mut self.scratch);
        }
        if let Some(range) = self.seen.get(word) {
            return self.ids.extend_from_within(range.clone());
        }
        let start = self.ids.len();
        encode(&mut self.ids, &mut self.scratch);
        if self.seen.len() < MAX_REMEMBERED {
            self.seen.insert(word, start..self.ids.len());
        }
    }
}
