//! Golden vectors of all vocabularies, and properties that hold for any text and any ids.

use std::path::PathBuf;
use std::sync::{Arc, LazyLock};

use proptest::prelude::*;
use serde_json::Value;

use super::test_gguf::read_vocab;
use super::*;

const VOCABS: &[(&str, &str)] = &[
    ("deepseek-coder", "ggml-vocab-deepseek-coder.gguf"),
    ("deepseek-llm", "ggml-vocab-deepseek-llm.gguf.gz"),
    ("falcon", "ggml-vocab-falcon.gguf.gz"),
    ("gpt-2", "ggml-vocab-gpt-2.gguf"),
    ("llama-bpe", "ggml-vocab-llama-bpe.gguf.gz"),
    ("llama-spm", "ggml-vocab-llama-spm.gguf"),
    ("mpt", "ggml-vocab-mpt.gguf"),
    ("phi-3", "ggml-vocab-phi-3.gguf"),
    ("qwen2", "ggml-vocab-qwen2.gguf.gz"),
    ("refact", "ggml-vocab-refact.gguf"),
    ("smollm2", "vocab-smollm2.gguf"),
    ("starcoder", "ggml-vocab-starcoder.gguf"),
];

const PLAIN: EncodeOptions = EncodeOptions { add_special: false, parse_special: false };
const PARSE: EncodeOptions = EncodeOptions { add_special: false, parse_special: true };
const ADD: EncodeOptions = EncodeOptions { add_special: true, parse_special: false };
const BOTH: EncodeOptions = EncodeOptions { add_special: true, parse_special: true };

fn golden_dir() -> PathBuf {
    std::env::var_os("LAYERCAKE_GOLDEN")
        .map(PathBuf::from)
        .unwrap_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared/golden"))
}

fn read(path: &str) -> String {
    let path = golden_dir().join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("golden data {}: {e}", path.display()))
}

fn source(name: &str) -> VocabSource {
    let (_, file) = VOCABS.iter().find(|(n, _)| *n == name).expect("a golden vocabulary");
    read_vocab(&golden_dir().join("tokenizers").join(file))
}

fn tokenizer(name: &str) -> Tokenizer {
    Tokenizer::new(source(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

fn ids(value: &Value) -> Vec<u32> {
    value.as_array().expect("ids").iter().map(|id| id.as_u64().expect("an id") as u32).collect()
}

/// Compares all cases before it fails, and shows the first few that differ.
struct Differences {
    n_cases: usize,
    found: Vec<String>,
}

impl Differences {
    fn new() -> Self {
        Differences { n_cases: 0, found: Vec::new() }
    }

    fn check<T: PartialEq + std::fmt::Debug>(&mut self, what: std::fmt::Arguments, found: T, expected: T) {
        self.n_cases += 1;
        if found != expected {
            self.found.push(format!("{what}\n     found {found:?}\n  expected {expected:?}"));
        }
    }

    #[track_caller]
    fn finish(self, at_least: usize) {
        let n = self.found.len();
        assert!(n == 0, "{n} of {} differ:\n{}", self.n_cases, self.found[..n.min(12)].join("\n"));
        assert!(self.n_cases >= at_least, "only {} cases", self.n_cases);
    }
}

#[test]
fn golden_inp_out() {
    let mut differences = Differences::new();
    for (name, file) in VOCABS.iter().filter(|(name, _)| *name != "smollm2") {
        let tokenizer = tokenizer(name);
        let stem = format!("tokenizers/{}", file.trim_end_matches(".gz"));
        let (inp, out) = (read(&format!("{stem}.inp")), read(&format!("{stem}.out")));
        let texts: Vec<&str> = inp.split("\n__ggml_vocab_test__\n").collect();
        let lines: Vec<&str> = out.lines().collect();
        // The last text is followed by a separator or the end of the file.
        let texts = if texts.len() > lines.len() { &texts[..lines.len()] } else { &texts[..] };
        assert_eq!(texts.len(), lines.len(), "{name}");
        for (text, line) in texts.iter().zip(lines) {
            let expected: Vec<u32> = line.split_whitespace().map(|id| id.parse().unwrap()).collect();
            differences.check(format_args!("{name} {text:?}"), tokenizer.encode(text, PLAIN), expected);
        }
    }
    differences.finish(11 * 40);
}

#[test]
fn golden_cases() {
    let mut differences = Differences::new();
    for (name, _) in VOCABS {
        let tokenizer = tokenizer(name);
        let golden: Value = serde_json::from_str(&read(&format!("tokenizers/{name}.extra.json"))).unwrap();
        let given = |key: &str| golden[key].as_i64().and_then(|id| u32::try_from(id).ok());
        let special = tokenizer.special_ids();
        differences.check(
            format_args!("{name} n_vocab"),
            tokenizer.n_vocab() as u64,
            golden["n_vocab"].as_u64().unwrap(),
        );
        differences.check(format_args!("{name} bos"), special.bos, given("bos"));
        differences.check(format_args!("{name} eos"), special.eos, given("eos"));
        differences.check(format_args!("{name} pad"), special.pad, given("pad"));
        differences.check(format_args!("{name} add_bos"), Some(tokenizer.add_bos()), golden["add_bos"].as_bool());
        differences.check(format_args!("{name} add_eos"), Some(tokenizer.add_eos()), golden["add_eos"].as_bool());
        differences.check(format_args!("{name} eog"), tokenizer.eog_ids().collect(), ids(&golden["eog"]));
        assert!(special.eot.is_none_or(|id| tokenizer.is_eog(id)));
        for case in golden["cases"].as_array().unwrap() {
            let text = case["text"].as_str().unwrap();
            for (key, options) in [("plain", PLAIN), ("parse_special", PARSE), ("add_special", ADD), ("both", BOTH)] {
                let found = tokenizer.encode(text, options);
                differences.check(format_args!("{name} {key} {text:?}"), found, ids(&case[key]));
            }
            for (key, encoded, show_special) in [
                ("detok_plain", "plain", true),
                ("detok_both", "both", true),
                ("detok_plain_remove_special", "plain", false),
                ("detok_both_remove_special", "both", false),
            ] {
                // Only stored where it differs from the one with special tokens.
                let expected = case.get(key).or_else(|| case.get(key.trim_end_matches("_remove_special"))).unwrap();
                let expected = match expected {
                    Value::String(text) => text.clone().into_bytes(),
                    other => {
                        let hex = other["hex"].as_str().unwrap();
                        let byte = |i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap();
                        (0..hex.len()).step_by(2).map(byte).collect()
                    }
                };
                let options = DecodeOptions { show_special, clean_up_spaces: true, strip_space_prefix: true };
                let ids = ids(&case[encoded]);
                let found = tokenizer.decode_bytes(&ids, options).unwrap();
                let mut stream = tokenizer.stream(options);
                let streamed = ids.iter().map(|&id| stream.push(id)).collect::<String>() + &stream.flush();
                assert_eq!(streamed, String::from_utf8_lossy(&found), "{name} {key} {text:?}");
                let [found, expected] = [found, expected].map(|b| String::from_utf8_lossy(&b).into_owned());
                differences.check(format_args!("{name} {key} {text:?} {ids:?}"), found, expected);
            }
        }
    }
    differences.finish(12 * 100 * 8);
}

#[test]
fn golden_chat_prompts() {
    let tokenizer = &*SMOLLM2;
    let golden: Value = serde_json::from_str(&read("smollm2/smollm2.json")).unwrap();
    let prompts = golden["prompts"].as_array().unwrap();
    assert_eq!(prompts.len(), 6);
    for prompt in prompts {
        let text = prompt["text"].as_str().unwrap();
        let ids = ids(&prompt["ids"]);
        assert_eq!(tokenizer.encode(text, PARSE), ids);
        let options = DecodeOptions { show_special: true, ..DecodeOptions::default() };
        assert_eq!(tokenizer.decode(&ids, options).unwrap(), text);
    }
}

static SMOLLM2: LazyLock<Tokenizer> = LazyLock::new(|| tokenizer("smollm2"));
/// Byte-level vocabularies with a token for every byte, one for each way of cutting text.
static BYTE_LEVEL: LazyLock<Vec<Tokenizer>> =
    LazyLock::new(|| ["smollm2", "gpt-2", "mpt", "starcoder", "qwen2", "llama-bpe"].map(tokenizer).into());
static ALL: LazyLock<Vec<Tokenizer>> = LazyLock::new(|| VOCABS.iter().map(|(name, _)| tokenizer(name)).collect());

const EXACT: DecodeOptions = DecodeOptions { show_special: true, clean_up_spaces: false, strip_space_prefix: true };

/// Text that the rules care about: letters of both cases, digits, marks, all kinds of space, special tokens.
fn any_text() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        4 => "\\PC{0,12}",
        2 => any::<String>(),
        4 => "[ \t\r\n\u{a0}\u{3000}'sStTrReEvVlLdD.,!?/0-9a-zA-Z]{0,20}",
        2 => "[\u{301}\u{4e2d}ʰǅÀé½٣😀▁Ġ]{0,8}",
        1 => prop_oneof![Just("<|im_start|>"), Just("<|endoftext|>"), Just("</s>"), Just("<|end|> "), Just("õ")]
            .prop_map(str::to_owned),
    ];
    proptest::collection::vec(part, 0..8).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn byte_level_text_comes_back(text in any_text()) {
        for tokenizer in BYTE_LEVEL.iter() {
            for options in [PLAIN, PARSE] {
                let ids = tokenizer.encode(&text, options);
                prop_assert_eq!(tokenizer.decode(&ids, EXACT).unwrap(), text.as_str());
            }
        }
    }

    #[test]
    fn sentencepiece_text_comes_back(text in any_text()) {
        let text = text.replace('▁', "");
        for tokenizer in ALL.iter().filter(|t| matches!(t.model, Model::Spm(_))) {
            let ids = tokenizer.encode(&text, PLAIN);
            // A user-defined token makes the text after it begin with a space again.
            prop_assume!(!text.contains("</s>"));
            prop_assert_eq!(tokenizer.decode(&ids, EXACT).unwrap(), text.as_str());
        }
    }

    #[test]
    fn unparsed_text_has_no_control_token(text in any_text()) {
        for tokenizer in ALL.iter() {
            for id in tokenizer.encode(&text, PLAIN) {
                prop_assert!(tokenizer.token_type(id).is_some_and(|kind| kind != TokenType::Control));
            }
        }
    }

    #[test]
    fn streamed_is_decoded(seed in proptest::collection::vec(any::<u32>(), 0..60), flags in 0..8u8) {
        let options = DecodeOptions {
            show_special: flags & 1 != 0,
            clean_up_spaces: flags & 2 != 0,
            strip_space_prefix: flags & 4 != 0,
        };
        for tokenizer in ALL.iter() {
            // Small ids are single bytes in many vocabularies: they make broken characters.
            let ids: Vec<u32> = seed.iter().map(|s| if s % 2 == 0 { s % 300 } else { s % tokenizer.n_vocab() as u32 }).collect();
            let mut stream = tokenizer.stream(options);
            let streamed = ids.iter().map(|&id| stream.push(id)).collect::<String>() + &stream.flush();
            prop_assert_eq!(streamed, tokenizer.decode(&ids, options).unwrap());
        }
    }

    #[test]
    fn words_seen_before_change_nothing(text in any_text()) {
        // A text twice, with a token between that ends words, is the ids of the text twice.
        for tokenizer in BYTE_LEVEL.iter() {
            let end = tokenizer.token_text(tokenizer.eos().unwrap()).unwrap();
            let once = tokenizer.encode(&text, PARSE);
            let twice = tokenizer.encode(&format!("{text}{end}{text}"), PARSE);
            prop_assert_eq!(&twice[..once.len()], &once[..]);
            prop_assert_eq!(&twice[once.len() + 1..], &once[..]);
        }
    }

    #[test]
    fn splitting_keeps_every_byte(text in any_text()) {
        for name in pre::known().split(", ") {
            let passes = pre::lookup(name).unwrap().passes;
            let mut end = 0;
            for piece in rules::split(&text, passes) {
                prop_assert_eq!(piece.start, end);
                prop_assert!(piece.end > piece.start && text.is_char_boundary(piece.end));
                end = piece.end;
            }
            prop_assert_eq!(end, text.len());
        }
    }
}

/// The pieces that the rules of a name cut `text` into.
fn pieces<'t>(name: &str, text: &'t str) -> Vec<&'t str> {
    rules::split(text, pre::lookup(name).unwrap().passes).into_iter().map(|range| &text[range]).collect()
}

#[test]
fn pre_tokenizers_without_golden_data() {
    // Cut by case, marks within words, contractions at their end, at most three digits.
    let text = "HelloWorld ABCdef I'm DON'T e\u{301}X 中文A 12345 //\n/x  y";
    let expected = [
        "Hello",
        "World",
        " ABCdef",
        " I'm",
        " DON'T",
        " e\u{301}",
        "X",
        " 中文",
        "A",
        " ",
        "123",
        "45",
        " //\n/",
        "x",
        " ",
        " y",
    ];
    assert_eq!(pieces("gpt-4o", text), expected);
    assert_eq!(pieces("minimax-m2", text), expected);
    assert_eq!(pieces("tekken", "I'm HTTPServer 42"), ["I", "'m", " HTTPServer", " ", "4", "2"]);
    // Marks are letters.
    assert_eq!(pieces("qwen35", "e\u{301}a 12"), ["e\u{301}a", " ", "1", "2"]);
    assert_eq!(pieces("qwen2", "e\u{301}a"), ["e", "\u{301}a"]);
    // Punctuation takes a word after it; Chinese and Japanese stand apart.
    assert_eq!(pieces("deepseek-v3", "a.b 中文x 1234!\n"), ["a", ".b", " ", "中文", "x", " ", "123", "4", "!\n"]);
    assert_eq!(pieces("default", "a+b 12345"), ["a", "+", "b", " ", "123", "45"]);
    assert_eq!(pieces("bloom", " a1(b, c"), [" a1", "(", "b", ",", " c"]);
    assert_eq!(pieces("seed-coder", "a!\n\nb"), ["a", "!", "\n\n", "b"]);
}

#[test]
fn special_tokens_only_when_parsed() {
    let tokenizer = &*SMOLLM2;
    assert_eq!(tokenizer.encode("<|im_start|>", PARSE), [1]);
    assert!(tokenizer.encode("<|im_start|>", PLAIN).len() > 1);
    assert_eq!(tokenizer.decode(&[1], DecodeOptions::default()).unwrap(), "");
    assert_eq!(tokenizer.decode(&[1], EXACT).unwrap(), "<|im_start|>");
    assert_eq!((tokenizer.token_id("<|im_end|>"), tokenizer.token_text(2)), (Some(2), Some("<|im_end|>")));
    assert_eq!(tokenizer.special_ids().eot, Some(2));
}

#[test]
fn ids_outside_the_vocabulary() {
    let tokenizer = &*SMOLLM2;
    let n_vocab = tokenizer.n_vocab();
    for id in [n_vocab as u32, u32::MAX] {
        let error = tokenizer.decode(&[5, id], EXACT).unwrap_err();
        assert_eq!(error, TokenizerError::IdOutOfRange { id, n_vocab });
        assert_eq!((tokenizer.token_bytes(id), tokenizer.token_text(id), tokenizer.is_eog(id)), (None, None, false));
        assert_eq!(tokenizer.stream(EXACT).push(id), "");
    }
}

#[test]
fn a_stream_holds_incomplete_characters_back() {
    let tokenizer = Arc::new(tokenizer("gpt-2"));
    let ids = tokenizer.encode("🦙", PLAIN);
    assert!(ids.len() > 1);
    let mut stream = StreamDecoder::new(Arc::clone(&tokenizer), EXACT);
    let (last, first) = ids.split_last().unwrap();
    assert!(first.iter().all(|&id| stream.push(id).is_empty()));
    assert_eq!(stream.push(*last), "🦙");
    assert_eq!(stream.push(first[0]), "");
    assert_eq!(stream.flush(), "\u{fffd}");
    assert_eq!(stream.flush(), "");
}

#[test]
fn long_words_come_back() {
    // Text that makes one word of everything, or as many as there can be: quadratic work would not end here.
    let units = ["a", " ", "\n", " \n", "7", "'", "aB", "\u{301}A", "😀", "中", "<|im_start", "Ωx"];
    for unit in units {
        let text = unit.repeat((32 << 10) / unit.len());
        for tokenizer in [&BYTE_LEVEL[0], &BYTE_LEVEL[4], &ALL[5]] {
            let ids = tokenizer.encode(&text, PARSE);
            assert!(tokenizer.decode(&ids, EXACT).unwrap() == text, "{unit:?} {tokenizer:?}");
        }
    }
    for name in pre::known().split(", ") {
        for unit in units {
            let text = unit.repeat((32 << 10) / unit.len()) + "x";
            assert_eq!(pieces(name, &text).concat().len(), text.len(), "{name} {unit:?}");
        }
    }
}

#[test]
fn is_shared_between_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<Tokenizer>();
}

/// `a`, `b`, `ab`, and `c` without a token.
fn tiny() -> VocabSource {
    VocabSource {
        model: "gpt2".into(),
        pre: Some("gpt-2".into()),
        tokens: ["a", "b", "ab", "<e>"].map(str::to_owned).into(),
        token_types: Some(vec![1, 1, 1, 3]),
        merges: Some(vec!["a b".into(), "ab c".into()]),
        ..VocabSource::default()
    }
}

#[test]
fn vocabularies_with_holes() {
    let tokenizer = Tokenizer::new(tiny()).unwrap();
    // "abc" merges to what is no token: its bytes are said, and `c` has none.
    assert_eq!(tokenizer.encode("abab abc", PLAIN), [2, 2, 0, 1]);
    let empty =
        Tokenizer::new(VocabSource { tokens: vec![], token_types: None, merges: Some(vec![]), ..tiny() }).unwrap();
    assert!(empty.encode("text <e>", BOTH).is_empty());
    // Empty texts match nowhere; ids outside count as absent.
    let odd = VocabSource {
        tokens: vec!["".into(), "a".into(), "a".into()],
        token_types: Some(vec![4, 1, 3]),
        merges: Some(vec![]),
        bos: Some(3),
        add_bos: Some(true),
        pad: Some(u32::MAX),
        ..tiny()
    };
    let odd = Tokenizer::new(odd).unwrap();
    assert_eq!((odd.encode("ab", BOTH), odd.bos(), odd.special_ids().pad), (vec![2], None, None));
    assert_eq!(odd.encode("ab", PLAIN), [1]);
}

#[test]
fn damaged_vocabularies_are_refused() {
    let error = |source| Tokenizer::new(source).unwrap_err().to_string();
    let message = error(VocabSource { model: "t5".into(), ..tiny() });
    assert_eq!(message, "tokenizer.ggml.model is `t5`, which is not supported; known: gpt2, llama");
    let message = error(VocabSource { pre: Some("new".into()), ..tiny() });
    assert!(message.contains("`new`") && message.contains("llama-bpe, ") && message.contains("qwen2"), "{message}");
    assert!(error(VocabSource { merges: None, ..tiny() }).contains("tokenizer.ggml.merges is missing"));
    assert!(error(VocabSource { token_types: Some(vec![1]), ..tiny() }).contains("has 1 entries"));
    for merge in ["ab", "", " ", "a ", "ab "] {
        let message = error(VocabSource { merges: Some(vec!["a b".into(), merge.into()]), ..tiny() });
        assert!(message.contains("merges[1]"), "{message}");
    }
    assert!(error(VocabSource { model: "llama".into(), ..tiny() }).contains("tokenizer.ggml.scores is missing"));
    let short = VocabSource { model: "llama".into(), scores: Some(vec![0.0]), ..tiny() };
    assert!(error(short).contains("tokenizer.ggml.scores has 1 entries"));
}

#[test]
fn sentencepiece_without_byte_tokens_says_unknown() {
    let source = VocabSource {
        model: "llama".into(),
        tokens: ["<unk>", "▁", "a", "▁a", "aa"].map(str::to_owned).into(),
        scores: Some(vec![0.0, -3.0, -4.0, -2.0, -1.0]),
        token_types: Some(vec![2, 1, 1, 1, 1]),
        add_bos: Some(false),
        ..VocabSource::default()
    };
    let tokenizer = Tokenizer::new(source).unwrap();
    // The higher score wins: "aa" before "▁a".
    assert_eq!(tokenizer.encode("aa a", BOTH), [1, 4, 3]);
    assert_eq!(tokenizer.encode("b", PLAIN), [1, 0]);
    assert_eq!(tokenizer.decode(&[1, 4, 3], EXACT).unwrap(), "aa a");
    let goes_on = DecodeOptions { strip_space_prefix: false, ..EXACT };
    assert_eq!(tokenizer.decode(&[3], goes_on).unwrap(), " a");
}
