//! From ids to text as they come: whole characters only.

use std::borrow::Borrow;

use super::Tokenizer;

/// How ids become text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DecodeOptions {
    /// Control and unknown tokens show their names instead of nothing.
    pub show_special: bool,
    /// Vocabularies that ask for it lose the space before `?!.,`, around a lone `'`, and before `'s 'm 're 've`.
    /// The text is then not what was encoded.
    pub clean_up_spaces: bool,
    /// The ids begin a text, so a space that encoding put before it is taken away. False for what goes on after a prompt.
    pub strip_space_prefix: bool,
}

impl Default for DecodeOptions {
    fn default() -> Self {
        DecodeOptions { show_special: false, clean_up_spaces: false, strip_space_prefix: true }
    }
}

/// Turns ids into text one by one: a character comes when all its bytes are there. Bytes that are not UTF-8 become
/// U+FFFD. The pieces together are what [`Tokenizer::decode`] gives.
///
/// `T` is a reference to a tokenizer or an `Arc` of one.
#[derive(Debug, Clone)]
pub struct StreamDecoder<T: Borrow<Tokenizer>> {
    tokenizer: T,
    bytes: ByteDecoder,
    utf8: Utf8,
}

impl<T: Borrow<Tokenizer>> StreamDecoder<T> {
    pub fn new(tokenizer: T, options: DecodeOptions) -> Self {
        let bytes = ByteDecoder::new(tokenizer.borrow(), options);
        StreamDecoder { tokenizer, bytes, utf8: Utf8::default() }
    }

    /// The text that is certain after this id, often that of the id, sometimes nothing yet. An id outside the vocabulary
    /// (models pad their output) has no text.
    pub fn push(&mut self, id: u32) -> String {
        let mut bytes = Vec::new();
        self.bytes.push(self.tokenizer.borrow(), id, &mut bytes);
        self.utf8.push(&bytes)
    }

    /// What is still held back at the end; the decoder can then begin another text.
    pub fn flush(&mut self) -> String {
        let mut bytes = Vec::new();
        self.bytes.flush(&mut bytes);
        let mut text = self.utf8.push(&bytes);
        text.push_str(&self.utf8.flush());
        text
    }
}

/// The bytes of ids, cleaned up where wanted.
#[derive(Debug, Clone)]
pub(super) struct ByteDecoder {
    options: DecodeOptions,
    at_start: bool,
    clean_up: Option<[Replacer; 3]>,
}

impl ByteDecoder {
    pub(super) fn new(tokenizer: &Tokenizer, options: DecodeOptions) -> ByteDecoder {
        let clean_up = (options.clean_up_spaces && tokenizer.clean_spaces).then(|| CLEAN_UP.map(Replacer::new));
        ByteDecoder { options, at_start: true, clean_up }
    }

    pub(super) fn push(&mut self, tokenizer: &Tokenizer, id: u32, out: &mut Vec<u8>) {
        let mut piece = tokenizer.piece(id, self.options.show_special);
        if std::mem::take(&mut self.at_start) && self.options.strip_space_prefix && tokenizer.space_prefix {
            piece = piece.strip_prefix(b" ").unwrap_or(piece);
        }
        match &mut self.clean_up {
            None => out.extend_from_slice(piece),
            Some([first, second, third]) => {
                for &byte in piece {
                    first.push(byte, &mut |b| second.push(b, &mut |b| third.push(b, &mut |b| out.push(b))));
                }
            }
        }
    }

    pub(super) fn flush(&mut self, out: &mut Vec<u8>) {
        self.at_start = true;
        if let Some([first, second, third]) = &mut self.clean_up {
            first.flush(&mut |b| second.push(b, &mut |b| third.push(b, &mut |b| out.push(b))));
            second.flush(&mut |b| third.push(b, &mut |b| out.push(b)));
            third.flush(&mut |b| out.push(b));
        }
    }
}

/// A text and what stands for it, which is an end or the middle of it.
type Replacement = (&'static [u8], &'static [u8]);

/// The three passes of the clean-up.
const CLEAN_UP: [&[Replacement]; 3] = [
    &[(b" ?", b"?"), (b" !", b"!"), (b" .", b"."), (b" ,", b",")],
    &[(b" ' ", b"'")],
    &[(b" 's", b"'s"), (b" 'm", b"'m"), (b" 're", b"'re"), (b" 've", b"'ve")],
];

/// Replaces texts in a stream of bytes, holding back what may become one of them. No text may begin with another.
#[derive(Debug, Clone)]
struct Replacer {
    replacements: &'static [Replacement],
    held: Vec<u8>,
}

impl Replacer {
    fn new(replacements: &'static [Replacement]) -> Replacer {
        Replacer { replacements, held: Vec::new() }
    }

    fn push(&mut self, byte: u8, out: &mut impl FnMut(u8)) {
        self.held.push(byte);
        while !self.held.is_empty() {
            if let Some((_, by)) = self.replacements.iter().find(|(text, _)| *text == self.held) {
                by.iter().for_each(|&b| out(b));
                self.held.clear();
            } else if self.replacements.iter().any(|(text, _)| text.starts_with(&self.held)) {
                return;
            } else {
                out(self.held.remove(0));
            }
        }
    }

    fn flush(&mut self, out: &mut impl FnMut(u8)) {
        self.held.drain(..).for_each(out);
    }
}

/// Bytes to characters; holds back the bytes of an incomplete one.
#[derive(Debug, Clone, Default)]
struct Utf8 {
    held: Vec<u8>,
}

impl Utf8 {
    fn push(&mut self, bytes: &[u8]) -> String {
        self.held.extend_from_slice(bytes);
        let mut text = String::new();
        let mut complete = 0;
        for chunk in self.held.utf8_chunks() {
            text.push_str(chunk.valid());
            complete += chunk.valid().len();
            let invalid = chunk.invalid();
            if invalid.is_empty() {
                continue;
            }
            let at_end = complete + invalid.len() == self.held.len();
            if at_end && std::str::from_utf8(invalid).is_err_and(|e| e.error_len().is_none()) {
                break;
            }
            text.push(char::REPLACEMENT_CHARACTER);
            complete += invalid.len();
        }
        self.held.drain(..complete);
        text
    }

    fn flush(&mut self) -> String {
        let text = String::from_utf8_lossy(&self.held).into_owned();
        self.held.clear();
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clean(text: &str) -> String {
        let mut bytes = text.as_bytes().to_vec();
        for pass in CLEAN_UP {
            let mut replacer = Replacer::new(pass);
            let mut out = Vec::new();
            bytes.iter().for_each(|&b| replacer.push(b, &mut |b| out.push(b)));
            replacer.flush(&mut |b| out.push(b));
            bytes = out;
        }
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn clean_up_removes_spaces() {
        assert_eq!(clean("Hello , world ! I 'm it 's we 're they 've"), "Hello, world! I'm it's we're they've");
        assert_eq!(clean("a ' b ' ' c"), "a'b'' c");
        assert_eq!(clean("  .  'x 'll 't  "), " .  'x 'll 't  ");
    }

    proptest::proptest! {
        #[test]
        fn clean_up_is_replacement_in_passes(text in "[ '.!?,smrevx]{0,40}") {
            let mut expected = text.clone();
            for pass in CLEAN_UP {
                // The texts of one pass cannot overlap, except that the end of " ' " begins the next one.
                for (text, by) in pass {
                    let [text, by] = [text, by].map(|s| std::str::from_utf8(s).unwrap());
                    expected = expected.replace(text, by);
                }
            }
            proptest::prop_assert_eq!(clean(&text), expected);
        }

        #[test]
        fn utf8_in_pieces_is_utf8_at_once(
            pieces in proptest::collection::vec(
                proptest::prop_oneof![
                    proptest::collection::vec(proptest::num::u8::ANY, 0..4),
                    proptest::strategy::Strategy::prop_map("\\PC", String::into_bytes),
                ],
                0..20,
            ),
            cut in 1usize..4,
        ) {
            let bytes = pieces.concat();
            let mut utf8 = Utf8::default();
            let mut text = String::new();
            for chunk in bytes.chunks(cut) {
                text.push_str(&utf8.push(chunk));
                proptest::prop_assert!(utf8.held.len() < 4);
            }
            text.push_str(&utf8.flush());
            proptest::prop_assert_eq!(text, String::from_utf8_lossy(&bytes).into_owned());
        }
    }
}
