//! SentencePiece byte-pair encoding (`tokenizer.ggml.model` = `llama`).
//!
//! Kudo and Richardson, SentencePiece (2018): spaces become `▁`, the neighbours whose joint text is the token of the
//! highest score are joined first, and characters without a token are written as byte tokens.

use foldhash::{HashMap, HashMapExt};

use super::merge::{MAX_WORD_BYTES, Merge, MergeTable, NONE, Scratch, Symbol};
use super::specials::Fragment;
use super::vocab::{SPACE_MARK, Vocab};
use super::words::Output;

pub(super) struct Spm {
    pieces: HashMap<Box<[u8]>, Merge>,
    n_priorities: usize,
    max_piece_bytes: usize,
    /// No token goes on after a word into the space before the next one, so that words are merged on their own.
    words_are_apart: bool,
    /// Text at the beginning and after a special token gets a space before it.
    space_prefix: bool,
    /// The tokens for one byte, [`NONE`] if there is none.
    byte_tokens: [u32; 256],
    unk: Option<u32>,
}

impl MergeTable for Spm {
    fn n_priorities(&self) -> usize {
        self.n_priorities
    }

    fn merge(&self, word: &[u8], left: Symbol, right: Symbol) -> Option<Merge> {
        let (start, len) = (left.start as usize, left.len as usize + right.len as usize);
        if len > self.max_piece_bytes {
            return None;
        }
        self.pieces.get(&word[start..start + len]).copied()
    }
}

/// Part of the text after spaces were marked.
enum Piece {
    Text(usize, usize),
    Token(u32),
}

impl Spm {
    pub(super) fn new(vocab: &Vocab, scores: &[f32], space_prefix: bool) -> Spm {
        let (priorities, n_priorities) = priorities(scores);
        let mut pieces = HashMap::with_capacity(vocab.len());
        let mut words_are_apart = true;
        let mut max_piece_bytes = 0;
        for (id, text) in vocab.ordinary() {
            let priority = priorities.get(id as usize).copied().unwrap_or(0);
            max_piece_bytes = max_piece_bytes.max(text.len());
            words_are_apart &= !text.trim_start_matches(SPACE_MARK).contains(SPACE_MARK);
            pieces.entry(text.as_bytes().into()).or_insert(Merge { priority, id });
        }
        let byte_tokens = std::array::from_fn(|byte| {
            let byte = byte as u8;
            let plain = || pieces.get([byte].as_slice()).map(|merge: &Merge| merge.id);
            vocab.id(&format!("<0x{byte:02X}>")).or_else(plain).unwrap_or(NONE)
        });
        Spm {
            pieces,
            n_priorities,
            max_piece_bytes,
            words_are_apart,
            space_prefix,
            byte_tokens,
            unk: vocab.special.unk,
        }
    }

    /// Appends the ids of the fragments of `text` to `ids`.
    pub(super) fn encode(&self, text: &str, fragments: &[Fragment], ids: Vec<u32>) -> Vec<u32> {
        let mut marked = String::with_capacity(text.len() + text.len() / 2);
        let mut pieces = Vec::with_capacity(fragments.len());
        let mut after_special = true;
        for fragment in fragments {
            match fragment {
                Fragment::Token(id) => {
                    pieces.push(Piece::Token(*id));
                    after_special = true;
                }
                Fragment::Text(range) => {
                    let start = marked.len();
                    if self.space_prefix && after_special {
                        marked.push(SPACE_MARK);
                    }
                    marked.extend(text[range.clone()].chars().map(|c| if c == ' ' { SPACE_MARK } else { c }));
                    pieces.push(Piece::Text(start, marked.len()));
                    after_special = false;
                }
            }
        }
        let mut out = Output::after(ids);
        for piece in pieces {
            match piece {
                Piece::Token(id) => out.ids.push(id),
                Piece::Text(start, end) => {
                    let mut rest = &marked[start..end];
                    while !rest.is_empty() {
                        let word;
                        (word, rest) = rest.split_at(self.word_bytes(rest));
                        out.word(word.as_bytes(), |ids, scratch| self.encode_word(word, ids, scratch));
                    }
                }
            }
        }
        out.ids
    }

    /// The length of the first word: `▁` in any number and what follows up to the next one.
    fn word_bytes(&self, text: &str) -> usize {
        let end = if self.words_are_apart {
            let body = text.trim_start_matches(SPACE_MARK);
            text.len() - body.len() + body.find(SPACE_MARK).unwrap_or(body.len())
        } else {
            text.len()
        };
        let mut end = end.min(MAX_WORD_BYTES);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        end
    }

    fn encode_word(&self, word: &str, ids: &mut Vec<u32>, scratch: &mut Scratch) {
        let bytes = word.as_bytes();
        scratch.symbols.clear();
        scratch.symbols.extend(word.char_indices().map(|(start, c)| {
            let len = c.len_utf8();
            let id = self.pieces.get(&bytes[start..start + len]).map_or(NONE, |piece| piece.id);
            Symbol { start: start as u32, len: len as u32, id }
        }));
        scratch.merge(bytes, self);
        for symbol in scratch.symbols.iter().filter(|s| s.len > 0) {
            if symbol.id != NONE {
                ids.push(symbol.id);
                continue;
            }
            for &byte in &bytes[symbol.start as usize..(symbol.start + symbol.len) as usize] {
                let token = Some(self.byte_tokens[byte as usize]).filter(|&id| id != NONE);
                ids.extend(token.or(self.unk));
            }
        }
    }
}

/// The place of each score among all in falling order, and the number of places; equal scores share a place.
fn priorities(scores: &[f32]) -> (Vec<u32>, usize) {
    // A score that is no number comes last; adding zero makes -0.0 equal to 0.0.
    let score = |i: u32| {
        let score = scores[i as usize];
        if score.is_nan() { f32::NEG_INFINITY } else { score + 0.0 }
    };
    let mut falling: Vec<u32> = (0..scores.len() as u32).collect();
    falling.sort_unstable_by(|&a, &b| score(b).total_cmp(&score(a)));
    let mut places = vec![0; scores.len()];
    let mut place = 0;
    for (n, &i) in falling.iter().enumerate() {
        if n > 0 && score(i) != score(falling[n - 1]) {
            place += 1;
        }
        places[i as usize] = place;
    }
    (places, place as usize + 1)
}

#[cfg(test)]
mod tests {
    use super::priorities;

    #[test]
    fn higher_scores_come_first() {
        let scores = [-1000.0, 0.0, 2.0, f32::NAN, -0.0, f32::INFINITY, 1.5, f32::NEG_INFINITY, f32::MIN];
        assert_eq!(priorities(&scores), (vec![4, 3, 1, 6, 3, 0, 2, 6, 5], 7));
        assert_eq!(priorities(&[]), (vec![], 1));
    }
}
