//! The text form of a placement, the same in the command line, the configuration and on the screen.
//!
//! ```text
//! placement = "auto" | assignment { ";" assignment } [ ";" ]
//! assignment = device "=" item { "," item }
//! item = "embed" | "head" | "all" | "*" | [ "attn:" | "ffn:" ] layers
//! layers = N | N "-" N
//! ```
//!
//! `cuda0=embed,0-19; rocm0=20-61,head`: both ends of a range are part of it. Spaces and upper or lower case do not
//! matter. A device may have more than one assignment.
//!
//! - Layers without a prefix mean both parts of each. A prefix holds for the numbers after it, up to another prefix, a
//!   word or the end of the assignment: `cpu0=3,attn:5-6,8` is layer 3 whole and the attention of 5, 6 and 8.
//! - `ffn:` and `attn:` win over layers without a prefix, wherever they stand: `cuda0=embed,0-61,head; cpu0=ffn:40-61`
//!   has the attention of all layers on cuda0. Both win over `all` (or `*`): everything that no other item names.
//! - Two items of one rank must not name the same part, even for the same device.
//! - Parts that nothing names stay where the fallback has them; `auto` alone names none.

use std::fmt;

use super::Placement;
use crate::devices::DeviceId;
use crate::engine::part::Part;

/// Why a placement text cannot be used, and where.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("placement, character {position}: {kind}")]
pub struct PlacementError {
    /// Counted in characters from 1; one past the last when something is missing at the end.
    pub position: usize,
    pub kind: PlacementErrorKind,
}

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PlacementErrorKind {
    #[error("nothing is placed (write for example 'cpu0=all' or 'auto')")]
    Empty,
    #[error("{found} instead of {expected}")]
    Expected { expected: &'static str, found: String },
    #[error("'auto' stands alone: leave out what is to follow it")]
    AutoNotAlone,
    #[error("there is no device {name} ({})", list(.have))]
    UnknownDevice { name: String, have: Vec<DeviceId> },
    #[error("layer {layer} does not exist ({})", layers_of(*.n_layer))]
    NoSuchLayer { layer: String, n_layer: u32 },
    #[error("the range {first}-{last} is reversed (write {last}-{first})")]
    Reversed { first: u32, last: u32 },
    #[error("{what} is already placed on {on}")]
    Twice { what: Named, on: DeviceId },
}

/// What an item names, for messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Named {
    Part(Part),
    Layer(u32),
    Rest,
}

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Named::Part(part) => write!(f, "{part}"),
            Named::Layer(l) => write!(f, "layer {l}"),
            Named::Rest => f.write_str("the rest ('all')"),
        }
    }
}

/// The parts that a text names, before a fallback fills the others.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NamedParts {
    n_layer: u32,
    /// In the order of [`Part::all`].
    devices: Vec<Option<DeviceId>>,
}

impl NamedParts {
    /// Reads a text for a model with `n_layer` layers on `devices`.
    pub fn parse(text: &str, n_layer: u32, devices: &[DeviceId]) -> Result<NamedParts, PlacementError> {
        Parser { tokens: tokens(text), next: 0, devices, claims: Claims::new(n_layer) }.placement()
    }

    /// The parts of a placement that lie on devices of which `stays` holds; the others are unnamed.
    pub fn that_stay(placement: &Placement, stays: impl Fn(DeviceId) -> bool) -> NamedParts {
        let devices = placement.devices.iter().map(|&id| Some(id).filter(|&id| stays(id))).collect();
        NamedParts { n_layer: placement.n_layer, devices }
    }

    /// Whether every part is named, so that no fallback is needed.
    pub fn complete(&self) -> Option<Placement> {
        let devices = self.devices.iter().copied().collect::<Option<Vec<_>>>()?;
        Some(Placement { n_layer: self.n_layer, devices })
    }

    /// Whether the text puts a part on this device.
    pub fn uses(&self, id: DeviceId) -> bool {
        self.devices.contains(&Some(id))
    }

    /// Whether no part is named: the text is `auto`.
    pub fn is_auto(&self) -> bool {
        self.devices.iter().all(Option::is_none)
    }

    /// Where the text puts a part; `None`: it does not say.
    ///
    /// # Panics
    /// When the model has no such layer.
    pub fn get(&self, part: Part) -> Option<DeviceId> {
        assert!(part.layer().is_none_or(|l| l < self.n_layer), "{part} of a model with {} layers", self.n_layer);
        self.devices[part.index(self.n_layer)]
    }

    /// The named parts where the text puts them, the others where `fallback` has them.
    ///
    /// # Panics
    /// When the fallback is for a model with another number of layers.
    pub fn or(&self, fallback: &Placement) -> Placement {
        assert_eq!(self.n_layer, fallback.n_layer, "a fallback for another model");
        let devices =
            self.devices.iter().zip(&fallback.devices).map(|(named, &other)| named.unwrap_or(other)).collect();
        Placement { n_layer: self.n_layer, devices }
    }
}

impl Placement {
    /// Reads the text form (see [`super::parse`]) for a model with `n_layer` layers on `devices`; parts that it does
    /// not name stay where `fallback` has them.
    ///
    /// # Panics
    /// When the fallback is for a model with another number of layers.
    pub fn parse(
        text: &str,
        n_layer: u32,
        devices: &[DeviceId],
        fallback: &Placement,
    ) -> Result<Placement, PlacementError> {
        Ok(NamedParts::parse(text, n_layer, devices)?.or(fallback))
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Token<'a> {
    Word(&'a str),
    Mark(char),
    End,
}

impl Token<'_> {
    fn is_word(self, word: &str) -> bool {
        matches!(self, Token::Word(w) if w.eq_ignore_ascii_case(word))
    }

    /// In words, for messages: short and without control characters.
    fn found(self) -> String {
        match self {
            Token::Word(word) => quoted(word),
            Token::Mark(c) => quoted(c.encode_utf8(&mut [0; 4])),
            Token::End => "the end".to_string(),
        }
    }
}

/// Words (runs of letters and digits) and single other characters with their positions; spaces only separate.
fn tokens(text: &str) -> Vec<(usize, Token<'_>)> {
    let mut tokens = Vec::new();
    let mut chars = text.char_indices().enumerate().peekable();
    let mut n_chars = 0;
    while let Some((n, (start, c))) = chars.next() {
        n_chars = n + 1;
        if c.is_whitespace() {
            continue;
        }
        if !c.is_alphanumeric() {
            tokens.push((n + 1, Token::Mark(c)));
            continue;
        }
        let mut end = start + c.len_utf8();
        while let Some((m, (at, c))) = chars.next_if(|(_, (_, c))| c.is_alphanumeric()) {
            n_chars = m + 1;
            end = at + c.len_utf8();
        }
        tokens.push((n + 1, Token::Word(&text[start..end])));
    }
    tokens.push((n_chars + 1, Token::End));
    tokens
}

/// Which parts of a layer a number means.
#[derive(Clone, Copy)]
enum Prefix {
    Both,
    Attn,
    Ffn,
}

/// What has been named so far, by rank.
struct Claims {
    n_layer: u32,
    /// `ffn:` and `attn:`.
    explicit: Vec<Option<DeviceId>>,
    /// Layers without a prefix, embed and head.
    plain: Vec<Option<DeviceId>>,
    rest: Option<DeviceId>,
}

impl Claims {
    fn new(n_layer: u32) -> Claims {
        let none = vec![None; Part::count(n_layer)];
        Claims { n_layer, explicit: none.clone(), plain: none, rest: None }
    }

    fn part(&mut self, part: Part, id: DeviceId) -> Result<(), PlacementErrorKind> {
        claim(&mut self.plain[part.index(self.n_layer)], id, Named::Part(part))
    }

    fn layer(&mut self, l: u32, prefix: Prefix, id: DeviceId) -> Result<(), PlacementErrorKind> {
        let (attn, ffn) = (Part::Attn(l), Part::Ffn(l));
        match prefix {
            // Attn and Ffn are always named together at this rank.
            Prefix::Both => {
                claim(&mut self.plain[attn.index(self.n_layer)], id, Named::Layer(l))?;
                claim(&mut self.plain[ffn.index(self.n_layer)], id, Named::Layer(l))
            }
            Prefix::Attn => claim(&mut self.explicit[attn.index(self.n_layer)], id, Named::Part(attn)),
            Prefix::Ffn => claim(&mut self.explicit[ffn.index(self.n_layer)], id, Named::Part(ffn)),
        }
    }

    fn finish(self) -> NamedParts {
        let ranks = self.explicit.into_iter().zip(self.plain);
        let devices = ranks.map(|(explicit, plain)| explicit.or(plain).or(self.rest)).collect();
        NamedParts { n_layer: self.n_layer, devices }
    }
}

fn claim(place: &mut Option<DeviceId>, id: DeviceId, what: Named) -> Result<(), PlacementErrorKind> {
    match *place {
        Some(on) => Err(PlacementErrorKind::Twice { what, on }),
        None => {
            *place = Some(id);
            Ok(())
        }
    }
}

struct Parser<'a> {
    /// Ends with [`Token::End`].
    tokens: Vec<(usize, Token<'a>)>,
    next: usize,
    devices: &'a [DeviceId],
    claims: Claims,
}

const AN_ITEM: &str = "what to place there (embed, head, all, layers such as 3 or 0-19, ffn:0-19, attn:0-19)";

impl<'a> Parser<'a> {
    fn placement(mut self) -> Result<NamedParts, PlacementError> {
        if self.peek().1 == Token::End {
            return Err(PlacementError { position: self.peek().0, kind: PlacementErrorKind::Empty });
        }
        if self.peek().1.is_word("auto") {
            self.take();
            return match self.peek() {
                (_, Token::End) => Ok(self.claims.finish()),
                (position, _) => Err(PlacementError { position, kind: PlacementErrorKind::AutoNotAlone }),
            };
        }
        loop {
            self.assignment()?;
            // A ';' may end the text.
            if self.peek().1 == Token::End {
                return Ok(self.claims.finish());
            }
        }
    }

    /// With the ';' after it.
    fn assignment(&mut self) -> Result<(), PlacementError> {
        let id = self.device()?;
        self.mark('=', "'=' and what to place there")?;
        let mut prefix = Prefix::Both;
        loop {
            self.item(id, &mut prefix)?;
            match self.take() {
                (_, Token::Mark(',')) => {}
                (_, Token::Mark(';') | Token::End) => return Ok(()),
                other => return Err(expected("',' or ';'", other)),
            }
        }
    }

    fn device(&mut self) -> Result<DeviceId, PlacementError> {
        let (position, token) = self.take();
        let error = |kind| Err(PlacementError { position, kind });
        let Token::Word(word) = token else {
            return Err(expected("a device id such as cpu0 or cuda0", (position, token)));
        };
        if word.eq_ignore_ascii_case("auto") {
            return error(PlacementErrorKind::AutoNotAlone);
        }
        match word.to_ascii_lowercase().parse::<DeviceId>() {
            Ok(id) if self.devices.contains(&id) => Ok(id),
            _ => error(PlacementErrorKind::UnknownDevice { name: quoted(word), have: self.devices.to_vec() }),
        }
    }

    fn item(&mut self, id: DeviceId, prefix: &mut Prefix) -> Result<(), PlacementError> {
        let (position, token) = self.take();
        let at = |kind| PlacementError { position, kind };
        let word = match token {
            Token::Word(word) => word,
            Token::Mark('*') => "all",
            other => return Err(expected(AN_ITEM, (position, other))),
        };
        if word.starts_with(|c: char| c.is_ascii_digit()) {
            return self.layers(position, word, *prefix, id);
        }
        match word.to_ascii_lowercase().as_str() {
            "embed" => {
                *prefix = Prefix::Both;
                self.claims.part(Part::Embed, id).map_err(at)
            }
            "head" => {
                *prefix = Prefix::Both;
                self.claims.part(Part::Head, id).map_err(at)
            }
            "all" => {
                *prefix = Prefix::Both;
                claim(&mut self.claims.rest, id, Named::Rest).map_err(at)
            }
            name @ ("attn" | "ffn") => {
                *prefix = if name == "attn" { Prefix::Attn } else { Prefix::Ffn };
                self.mark(':', "':' and layers such as 3 or 0-19")?;
                match self.take() {
                    (position, Token::Word(word)) if word.starts_with(|c: char| c.is_ascii_digit()) => {
                        self.layers(position, word, *prefix, id)
                    }
                    other => Err(expected("a layer", other)),
                }
            }
            _ => Err(expected(AN_ITEM, (position, token))),
        }
    }

    /// A layer or a range that starts with `word`.
    fn layers(&mut self, position: usize, word: &str, prefix: Prefix, id: DeviceId) -> Result<(), PlacementError> {
        let first = self.layer(position, word)?;
        let mut last = first;
        if self.peek().1 == Token::Mark('-') {
            self.take();
            last = match self.take() {
                (position, Token::Word(word)) => self.layer(position, word)?,
                other => return Err(expected("the range's last layer", other)),
            };
            if last < first {
                return Err(PlacementError { position, kind: PlacementErrorKind::Reversed { first, last } });
            }
        }
        for l in first..=last {
            self.claims.layer(l, prefix, id).map_err(|kind| PlacementError { position, kind })?;
        }
        Ok(())
    }

    fn layer(&self, position: usize, word: &str) -> Result<u32, PlacementError> {
        let n_layer = self.claims.n_layer;
        if !word.bytes().all(|b| b.is_ascii_digit()) {
            return Err(expected("a layer's number", (position, Token::Word(word))));
        }
        // A number too large for u32 is certainly no layer.
        word.parse().ok().filter(|&l: &u32| l < n_layer).ok_or_else(|| PlacementError {
            position,
            kind: PlacementErrorKind::NoSuchLayer { layer: shortened(word), n_layer },
        })
    }

    fn mark(&mut self, mark: char, what: &'static str) -> Result<(), PlacementError> {
        match self.take() {
            (_, Token::Mark(c)) if c == mark => Ok(()),
            other => Err(expected(what, other)),
        }
    }

    fn peek(&self) -> (usize, Token<'a>) {
        // The last token is the end, and `take` stays on it.
        self.tokens[self.next]
    }

    fn take(&mut self) -> (usize, Token<'a>) {
        let token = self.peek();
        self.next = (self.next + 1).min(self.tokens.len() - 1);
        token
    }
}

fn expected(expected: &'static str, (position, token): (usize, Token<'_>)) -> PlacementError {
    PlacementError { position, kind: PlacementErrorKind::Expected { expected, found: token.found() } }
}

fn quoted(text: &str) -> String {
    format!("'{}'", shortened(text).escape_debug())
}

fn shortened(text: &str) -> String {
    const MAX_CHARS: usize = 24;
    match text.char_indices().nth(MAX_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_string(),
    }
}

fn list(have: &[DeviceId]) -> String {
    if have.is_empty() {
        return "there are none".to_string();
    }
    let names: Vec<_> = have.iter().map(DeviceId::to_string).collect();
    format!("there {} {}", if names.len() == 1 { "is" } else { "are" }, names.join(", "))
}

fn layers_of(n_layer: u32) -> String {
    match n_layer {
        0 => "the model has none".to_string(),
        1 => "the model has layer 0 only".to_string(),
        n => format!("the model has layers 0-{}", n - 1),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::testing::*;
    use super::*;

    const N: u32 = 62;

    fn parse(text: &str) -> Result<Placement, PlacementError> {
        Placement::parse(text, N, &DEVICES, &Placement::uniform(N, CPU1))
    }

    fn ok(text: &str) -> Placement {
        parse(text).unwrap_or_else(|e| panic!("{text}: {e}"))
    }

    fn error(text: &str) -> String {
        parse(text).expect_err(text).to_string()
    }

    #[test]
    fn ranges_words_and_fallback() {
        let p = ok("cuda0=embed,0-19; rocm0=20-61,head");
        let expected = Placement::uniform(N, CUDA0).with_layers(20.., ROCM0).with(Part::Head, ROCM0);
        assert_eq!(p, expected);
        assert_eq!(ok(" CUDA0 = Embed , 0 - 19 ;\n Rocm0=20-61,HEAD; "), expected);
        assert_eq!(ok("auto"), Placement::uniform(N, CPU1));
        assert_eq!(ok(" AUTO "), Placement::uniform(N, CPU1));
        let p = ok("cuda0=7,9-10");
        assert_eq!(p.parts_on(CUDA0), [7, 9, 10].map(|l| [Part::Attn(l), Part::Ffn(l)]).concat());
        assert_eq!(p.get(Part::Embed), CPU1);
    }

    #[test]
    fn a_prefix_wins_over_plain_layers_in_any_order() {
        let expected = Placement::from_fn(N, |part| match part {
            Part::Ffn(40..) => CPU0,
            _ => CUDA0,
        });
        for text in
            ["cuda0=embed,0-61,head; cpu0=ffn:40-61", "cpu0=ffn:40-61; cuda0=embed,0-61,head", "cpu0=ffn:40-61;cuda0=*"]
        {
            assert_eq!(ok(text), expected, "{text}");
        }
        // The same device may name a part at two ranks.
        assert_eq!(ok("cuda0=all,0-61,ffn:3"), Placement::uniform(N, CUDA0));
    }

    #[test]
    fn a_prefix_holds_up_to_a_word() {
        let p = ok("cpu0=all; cuda0=3,attn:5-6,8,ffn:9,head,11");
        let on = [Part::Attn(3), Part::Ffn(3), Part::Attn(5), Part::Attn(6), Part::Attn(8), Part::Ffn(9)];
        let expected: Vec<_> = on.into_iter().chain([Part::Attn(11), Part::Ffn(11), Part::Head]).collect();
        assert_eq!(p.parts_on(CUDA0), expected);
    }

    #[test]
    fn all_is_what_nothing_else_names() {
        assert_eq!(ok("cuda0=0-19; cpu0=all"), Placement::uniform(N, CPU0).with_layers(0..20, CUDA0));
        assert_eq!(ok("cpu0=*"), Placement::uniform(N, CPU0));
        assert_eq!(ok("cpu0=all;cuda0=embed").get(Part::Embed), CUDA0);
    }

    #[test]
    fn named_parts_know_what_is_missing() {
        let named = NamedParts::parse("cuda0=embed,0-1", 3, &DEVICES).unwrap();
        assert_eq!(named.complete(), None);
        assert_eq!((named.get(Part::Ffn(1)), named.get(Part::Ffn(2))), (Some(CUDA0), None));
        let named = NamedParts::parse("cuda0=embed,0-1; cpu0=2,head", 3, &DEVICES).unwrap();
        assert_eq!(named.complete().unwrap(), named.or(&Placement::uniform(3, ROCM0)));
    }

    #[test]
    fn errors_point_at_the_character() {
        for (text, expected) in [
            ("", "placement, character 1: nothing is placed (write for example 'cpu0=all' or 'auto')"),
            ("  ", "placement, character 3: nothing is placed (write for example 'cpu0=all' or 'auto')"),
            ("cuda0=embed,0-70", "placement, character 15: layer 70 does not exist (the model has layers 0-61)"),
            (
                "cuda0=99999999999999999999999999",
                "placement, character 7: layer 999999999999999999999999… does not exist (the model has layers 0-61)",
            ),
            ("cuda0=19-3", "placement, character 7: the range 19-3 is reversed (write 3-19)"),
            (
                "cuda7=3",
                "placement, character 1: there is no device 'cuda7' (there are cuda0, cuda1, rocm0, cpu0, cpu1)",
            ),
            ("cpu0=0-5;cuda0=5-7", "placement, character 16: layer 5 is already placed on cpu0"),
            ("cpu0=3,3", "placement, character 8: layer 3 is already placed on cpu0"),
            ("cpu0=ffn:3,attn:3,ffn:3", "placement, character 23: ffn 3 is already placed on cpu0"),
            ("cpu0=embed;cpu1=embed", "placement, character 17: embed is already placed on cpu0"),
            ("cpu0=all;cpu1=*", "placement, character 15: the rest ('all') is already placed on cpu0"),
            ("auto;cpu0=3", "placement, character 5: 'auto' stands alone: leave out what is to follow it"),
            ("cpu0=3;auto", "placement, character 8: 'auto' stands alone: leave out what is to follow it"),
            ("cpu0", "placement, character 5: the end instead of '=' and what to place there"),
            ("cpu0=3 4", "placement, character 8: '4' instead of ',' or ';'"),
            ("cpu0=3-", "placement, character 8: the end instead of the range's last layer"),
            ("cpu0=3x", "placement, character 6: '3x' instead of a layer's number"),
            ("cpu0=ffn", "placement, character 9: the end instead of ':' and layers such as 3 or 0-19"),
            ("cpu0=ffn:head", "placement, character 10: 'head' instead of a layer"),
            ("é=3", "placement, character 1: there is no device 'é' (there are cuda0, cuda1, rocm0, cpu0, cpu1)"),
            (";", "placement, character 1: ';' instead of a device id such as cpu0 or cuda0"),
            ("cpu0=3;;", "placement, character 8: ';' instead of a device id such as cpu0 or cuda0"),
        ] {
            assert_eq!(error(text), expected, "{text}");
        }
        for (text, position) in
            [("cpu0=", 6), ("cpu0=,3", 6), ("cpu0=3,", 8), ("cpu0=é,\u{1b}[2J", 6), ("cpu0=3,\u{1b}", 8)]
        {
            let error = parse(text).unwrap_err();
            assert_eq!(error.position, position, "{text}");
            assert!(!error.to_string().contains(char::is_control), "{error}");
        }
    }

    #[test]
    fn a_model_without_layers() {
        let fallback = Placement::uniform(0, CPU0);
        assert_eq!(Placement::parse("cuda0=embed", 0, &DEVICES, &fallback).unwrap().devices(), [CUDA0, CPU0]);
        let error = Placement::parse("cuda0=0", 0, &DEVICES, &fallback).unwrap_err();
        assert_eq!(error.to_string(), "placement, character 7: layer 0 does not exist (the model has none)");
    }

    fn holds(text: &str, n_layer: u32) -> Result<(), TestCaseError> {
        match NamedParts::parse(text, n_layer, &DEVICES) {
            Ok(named) => {
                let p = named.or(&Placement::uniform(n_layer, CPU1));
                prop_assert_eq!(p.iter().count(), Part::count(n_layer));
            }
            Err(e) => {
                prop_assert!((1..=text.chars().count() + 1).contains(&e.position), "{text:?}: {e}");
                let line = e.to_string();
                prop_assert!(!line.contains(char::is_control), "{line:?}");
                prop_assert!(line.chars().count() < 300, "{line}");
            }
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in any::<String>(), n_layer in 0u32..70) {
            holds(&text, n_layer)?;
        }

        #[test]
        fn text_of_the_right_characters(
            text in "([a-z]{1,5}|cpu[0-2]|cuda[01]|ffn:|attn:|[0-9]{1,3}|[=,;:*-]| ){0,24}",
        ) {
            holds(&text, N)?;
        }

        #[test]
        fn a_valid_text_with_a_change(
            p in any_placement(),
            at in any::<prop::sample::Index>(),
            c in any::<char>(),
            how in 0..3,
        ) {
            let mut chars: Vec<char> = p.to_string().chars().collect();
            let i = at.index(chars.len());
            match how {
                0 => chars[i] = c,
                1 => chars.insert(i, c),
                _ => drop(chars.remove(i)),
            }
            holds(&chars.into_iter().collect::<String>(), p.n_layer())?;
        }
    }
}
