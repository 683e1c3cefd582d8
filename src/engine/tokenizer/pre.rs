//! The pre-tokenizers: how text is cut into words before byte pairs are merged, by the names of `tokenizer.ggml.pre`.
//!
//! Each is data: passes of rules, and what else its name implies. The regular expressions in the comments are those of
//! the models' own `tokenizer.json`.

use super::classes::*;
use super::rules::{Case, Lead, Pass, Rule, Set};

/// What a name in `tokenizer.ggml.pre` means.
#[derive(Debug)]
pub(super) struct Pre {
    pub(super) names: &'static [&'static str],
    pub(super) passes: &'static [Pass],
    /// A word that is a token is taken whole, without merging.
    pub(super) ignore_merges: bool,
    /// Whether BOS is added when the file does not say.
    pub(super) add_bos: bool,
    /// Decoding for display removes the space before punctuation and some contractions.
    pub(super) clean_spaces: bool,
}

/// The pre-tokenizer of that name.
pub(super) fn lookup(name: &str) -> Option<&'static Pre> {
    PRES.iter().find(|pre| pre.names.contains(&name))
}

/// All known names, for messages.
pub(super) fn known() -> String {
    let names: Vec<&str> = PRES.iter().flat_map(|pre| pre.names).copied().collect();
    names.join(", ")
}

const fn run(lead: Lead, body: Set) -> Rule {
    Rule::Run { lead, body, min: 1, max: usize::MAX, tail: Set::EMPTY }
}

const fn run_with_tail(lead: Lead, body: Set, tail: Set) -> Rule {
    Rule::Run { lead, body, min: 1, max: usize::MAX, tail }
}

const fn up_to(max: usize, body: Set) -> Rule {
    Rule::Run { lead: Lead::None, body, min: 1, max, tail: Set::EMPTY }
}

const NEWLINES: Set = Set::of(NEWLINE);
const SPACE_FIRST: Lead = Lead::Optional(Set::of(BLANK));
const ANY_SPACE_FIRST: Lead = Lead::Optional(Set::of(SPACE));
/// `[^\r\n\p{L}\p{N}]?`
const SIGN_FIRST: Lead = Lead::Optional(SIGN);
const SIGN: Set = Set::of(except(NEWLINE | LETTER | NUMBER));

// Passes.

/// `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)`
const GPT2: Pass = &[
    Rule::Contraction(Case::Lower),
    run(SPACE_FIRST, Set::of(LETTER)),
    run(SPACE_FIRST, Set::of(NUMBER)),
    run(SPACE_FIRST, Set::of(except(SPACE | LETTER | NUMBER))),
    Rule::SpaceBeforeSpace,
];

/// `(?i:'s|..)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,DIGITS}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
const fn llama3_like(digits: usize) -> [Rule; 7] {
    [
        Rule::Contraction(Case::Any),
        run(SIGN_FIRST, Set::of(LETTER)),
        up_to(digits, Set::of(NUMBER)),
        run_with_tail(SPACE_FIRST, Set::of(except(SPACE | LETTER | NUMBER)), NEWLINES),
        Rule::ThroughLastNewline,
        Rule::SpaceBeforeSpace,
        run(Lead::None, Set::of(SPACE)),
    ]
}
const LLAMA3: Pass = &llama3_like(3);
const QWEN2: Pass = &llama3_like(1);

/// As [`QWEN2`], but marks count as letters:
/// `..|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|..`
const QWEN35: Pass = &[
    Rule::Contraction(Case::Any),
    run(SIGN_FIRST, Set::of(LETTER | MARK)),
    up_to(1, Set::of(NUMBER)),
    run_with_tail(SPACE_FIRST, Set::of(except(SPACE | LETTER | MARK | NUMBER)), NEWLINES),
    Rule::ThroughLastNewline,
    Rule::SpaceBeforeSpace,
    run(Lead::None, Set::of(SPACE)),
];

/// As [`QWEN2`], but newlines never follow punctuation in one word.
const SEED_CODER: Pass = &[
    Rule::Contraction(Case::Any),
    run(SIGN_FIRST, Set::of(LETTER)),
    up_to(1, Set::of(NUMBER)),
    run(SPACE_FIRST, Set::of(except(SPACE | LETTER | NUMBER))),
    Rule::ThroughLastNewline,
    Rule::SpaceBeforeSpace,
    run(Lead::None, Set::of(SPACE)),
];

/// Words cut by case; `\p{N}{1,DIGITS}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`
const fn gpt4o_like(contraction: bool, digits: usize) -> [Rule; 6] {
    [
        Rule::CasedWord { lead: SIGN, contraction },
        up_to(digits, Set::of(NUMBER)),
        run_with_tail(SPACE_FIRST, Set::of(except(SPACE | LETTER | NUMBER)), Set::with(NEWLINE, &[('/', '/')])),
        Rule::ThroughLastNewline,
        Rule::SpaceBeforeSpace,
        run(Lead::None, Set::of(SPACE)),
    ]
}
const GPT4O: Pass = &gpt4o_like(true, 3);
const TEKKEN: Pass = &gpt4o_like(false, 1);

const NUMBERS: Pass = &[run(Lead::None, Set::of(NUMBER))];
const EACH_NUMBER: Pass = &[up_to(1, Set::of(NUMBER))];
const UP_TO_3_NUMBERS: Pass = &[up_to(3, Set::of(NUMBER))];
/// `[0-9][0-9][0-9]`
const THREE_DIGITS: Pass = &[Rule::Run { lead: Lead::None, body: Set::of(DIGIT), min: 3, max: 3, tail: Set::EMPTY }];
const EACH_NEWLINE: Pass = &[up_to(1, NEWLINES)];

/// `` [\p{P}\$\+<=>\^~\|`]+ ``
const FALCON_PUNCTUATION: Pass = &[run(
    Lead::None,
    Set::with(PUNCTUATION, &[('$', '$'), ('+', '+'), ('<', '>'), ('^', '^'), ('`', '`'), ('|', '|'), ('~', '~')]),
)];
/// The same without the backtick.
const DEFAULT_PUNCTUATION: Pass = &[run(
    Lead::None,
    Set::with(PUNCTUATION, &[('$', '$'), ('+', '+'), ('<', '>'), ('^', '^'), ('|', '|'), ('~', '~')]),
)];

/// ` ?[^(\s|.,!?…。，、।۔،)]+`
const BLOOM: Pass = &[run(
    SPACE_FIRST,
    Set::without(
        SPACE,
        &[
            ('!', '!'),
            ('(', ')'),
            (',', ','),
            ('.', '.'),
            ('?', '?'),
            ('|', '|'),
            ('\u{60C}', '\u{60C}'),
            ('\u{6D4}', '\u{6D4}'),
            ('\u{964}', '\u{964}'),
            ('\u{2026}', '\u{2026}'),
            ('\u{3001}', '\u{3002}'),
            ('\u{FF0C}', '\u{FF0C}'),
        ],
    ),
)];

/// `[一-龥ࠀ-一가-퟿]+`
const DEEPSEEK_CJK: Pass = &[run(Lead::None, Set::with(0, &[('\u{800}', '\u{9FA5}'), ('\u{AC00}', '\u{D7FF}')]))];
/// `\s?[A-Za-zµ..]+`
const DEEPSEEK_WORDS: Pass = &[run(ANY_SPACE_FIRST, Set::with(0, DEEPSEEK_LETTERS))];
/// `\s?[!-/:-~！-／：-～‘-‟　-。]+`
const DEEPSEEK_PUNCTUATION: Pass = &[run(
    ANY_SPACE_FIRST,
    Set::with(
        0,
        &[
            ('!', '/'),
            (':', '~'),
            ('\u{2018}', '\u{201F}'),
            ('\u{3000}', '\u{3002}'),
            ('\u{FF01}', '\u{FF0F}'),
            ('\u{FF1A}', '\u{FF5E}'),
        ],
    ),
)];
const TRAILING_SPACE: Pass = &[Rule::TrailingSpace];
/// `\s?\p{L}+`
const SPACED_LETTERS: Pass = &[run(ANY_SPACE_FIRST, Set::of(LETTER))];
/// `\s?\p{P}+`
const SPACED_PUNCTUATION: Pass = &[run(ANY_SPACE_FIRST, Set::of(PUNCTUATION))];
/// `[一-龥぀-ゟ゠-ヿ]+`
const DEEPSEEK3_CJK: Pass = &[run(Lead::None, Set::with(0, &[('\u{3040}', '\u{30FF}'), ('\u{4E00}', '\u{9FA5}')]))];
/// `[!-~ without letters and digits][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+`
/// `|\s+(?!\S)|\s+`
const DEEPSEEK3_WORDS: Pass = &[
    run(
        Lead::Required(Set::with(0, &[('!', '/'), (':', '@'), ('[', '`'), ('{', '~')])),
        Set::with(0, &[('A', 'Z'), ('a', 'z')]),
    ),
    run(Lead::Optional(Set::of(except(NEWLINE | LETTER | PUNCTUATION | SYMBOL))), Set::of(LETTER | MARK)),
    run_with_tail(SPACE_FIRST, Set::of(PUNCTUATION | SYMBOL), NEWLINES),
    Rule::ThroughLastNewline,
    Rule::SpaceBeforeSpace,
    run(Lead::None, Set::of(SPACE)),
];

const fn plain(names: &'static [&'static str], passes: &'static [Pass]) -> Pre {
    Pre { names, passes, ignore_merges: false, add_bos: false, clean_spaces: true }
}

const fn exact(names: &'static [&'static str], passes: &'static [Pass]) -> Pre {
    Pre { names, passes, ignore_merges: false, add_bos: false, clean_spaces: false }
}

static PRES: &[Pre] = &[
    plain(&["default"], &[DEFAULT_PUNCTUATION, GPT2, NUMBERS, THREE_DIGITS]),
    plain(&["gpt-2", "phi-2", "gigachat", "a.x-4.0", "mellum", "exaone4", "mpt", "olmo", "jais"], &[GPT2]),
    exact(&["trillion", "granite-docling"], &[GPT2]),
    plain(&["starcoder", "refact", "codeshell", "exaone", "minerva-7b", "mellum2"], &[EACH_NUMBER, GPT2]),
    exact(&["smollm", "command-r"], &[EACH_NUMBER, GPT2]),
    plain(&["falcon"], &[FALCON_PUNCTUATION, GPT2, THREE_DIGITS]),
    Pre {
        names: &["llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2"],
        passes: &[LLAMA3],
        ignore_merges: true,
        add_bos: true,
        clean_spaces: true,
    },
    plain(&["dbrx", "smaug-bpe", "glm4", "chatglm-bpe"], &[LLAMA3]),
    plain(&["stablelm2", "megrez"], &[QWEN2]),
    exact(
        &[
            "qwen2",
            "deepseek-r1-qwen",
            "kormo",
            "hunyuan",
            "solar-open",
            "grok-2",
            "bailingmoe",
            "bailingmoe2",
            "llada-moe",
        ],
        &[QWEN2],
    ),
    exact(&["qwen35"], &[QWEN35]),
    exact(&["seed-coder"], &[SEED_CODER]),
    exact(&["gpt-4o", "llama4", "kanana2", "minimax-m2"], &[GPT4O]),
    Pre { names: &["tekken"], passes: &[TEKKEN], ignore_merges: true, add_bos: true, clean_spaces: false },
    exact(
        &["deepseek-llm"],
        &[EACH_NEWLINE, DEEPSEEK_WORDS, DEEPSEEK_PUNCTUATION, TRAILING_SPACE, DEEPSEEK_CJK, NUMBERS],
    ),
    exact(&["deepseek-coder"], &[EACH_NEWLINE, SPACED_LETTERS, SPACED_PUNCTUATION, DEEPSEEK_CJK, EACH_NUMBER]),
    exact(&["deepseek-v3", "hunyuan-dense", "joyai-llm"], &[UP_TO_3_NUMBERS, DEEPSEEK3_CJK, DEEPSEEK3_WORDS]),
    plain(&["bloom", "gpt3-finnish"], &[BLOOM]),
    exact(&["poro-chat"], &[BLOOM]),
    exact(&["viking"], &[BLOOM, EACH_NUMBER]),
];

/// The cased letters that deepseek-llm's word rule lists.
const DEEPSEEK_LETTERS: &[(char, char)] = &[
    ('\u{41}', '\u{5A}'),
    ('\u{61}', '\u{7A}'),
    ('\u{B5}', '\u{B5}'),
    ('\u{C0}', '\u{D6}'),
    ('\u{D8}', '\u{F6}'),
    ('\u{F8}', '\u{1BA}'),
    ('\u{1BC}', '\u{1BF}'),
    ('\u{1C4}', '\u{293}'),
    ('\u{295}', '\u{2AF}'),
    ('\u{370}', '\u{373}'),
    ('\u{376}', '\u{376}'),
    ('\u{377}', '\u{377}'),
    ('\u{37B}', '\u{37D}'),
    ('\u{37F}', '\u{37F}'),
    ('\u{386}', '\u{386}'),
    ('\u{388}', '\u{38A}'),
    ('\u{38C}', '\u{38C}'),
    ('\u{38E}', '\u{3A1}'),
    ('\u{3A3}', '\u{3F5}'),
    ('\u{3F7}', '\u{481}'),
    ('\u{48A}', '\u{52F}'),
    ('\u{531}', '\u{556}'),
    ('\u{10A0}', '\u{10C5}'),
    ('\u{13A0}', '\u{13F5}'),
    ('\u{13F8}', '\u{13FD}'),
    ('\u{1C90}', '\u{1CBA}'),
    ('\u{1CBD}', '\u{1CBF}'),
    ('\u{1D00}', '\u{1D2B}'),
    ('\u{1D6B}', '\u{1D77}'),
    ('\u{1D79}', '\u{1D9A}'),
    ('\u{1E00}', '\u{1F15}'),
    ('\u{1F18}', '\u{1F1D}'),
    ('\u{1F20}', '\u{1F45}'),
    ('\u{1F48}', '\u{1F4D}'),
    ('\u{1F50}', '\u{1F57}'),
    ('\u{1F59}', '\u{1F59}'),
    ('\u{1F5B}', '\u{1F5B}'),
    ('\u{1F5D}', '\u{1F5D}'),
    ('\u{1F5F}', '\u{1F7D}'),
    ('\u{1F80}', '\u{1FB4}'),
    ('\u{1FB6}', '\u{1FBC}'),
    ('\u{1FBE}', '\u{1FBE}'),
    ('\u{1FC2}', '\u{1FC4}'),
    ('\u{1FC6}', '\u{1FCC}'),
    ('\u{1FD0}', '\u{1FD3}'),
    ('\u{1FD6}', '\u{1FDB}'),
    ('\u{1FE0}', '\u{1FEC}'),
    ('\u{1FF2}', '\u{1FF4}'),
    ('\u{1FF6}', '\u{1FFC}'),
    ('\u{2102}', '\u{2102}'),
    ('\u{2107}', '\u{2107}'),
    ('\u{210A}', '\u{2113}'),
    ('\u{2115}', '\u{2115}'),
    ('\u{2119}', '\u{211D}'),
    ('\u{2124}', '\u{2124}'),
    ('\u{2126}', '\u{2126}'),
    ('\u{2128}', '\u{2128}'),
    ('\u{212A}', '\u{212D}'),
    ('\u{212F}', '\u{2134}'),
    ('\u{2139}', '\u{2139}'),
    ('\u{213C}', '\u{213F}'),
    ('\u{2145}', '\u{2149}'),
    ('\u{214E}', '\u{214E}'),
    ('\u{2183}', '\u{2183}'),
    ('\u{2184}', '\u{2184}'),
    ('\u{2C00}', '\u{2C7B}'),
    ('\u{2C7E}', '\u{2CE4}'),
    ('\u{2CEB}', '\u{2CEE}'),
    ('\u{2CF2}', '\u{2CF2}'),
    ('\u{2CF3}', '\u{2CF3}'),
    ('\u{A640}', '\u{A66D}'),
    ('\u{A680}', '\u{A69B}'),
    ('\u{A722}', '\u{A76F}'),
    ('\u{A771}', '\u{A787}'),
    ('\u{A78B}', '\u{A78E}'),
    ('\u{AB70}', '\u{ABBF}'),
    ('\u{FB00}', '\u{FB06}'),
    ('\u{FB13}', '\u{FB17}'),
    ('\u{FF21}', '\u{FF3A}'),
    ('\u{FF41}', '\u{FF5A}'),
    ('\u{10400}', '\u{1044F}'),
    ('\u{104B0}', '\u{104D3}'),
    ('\u{104D8}', '\u{104FB}'),
    ('\u{10C80}', '\u{10CB2}'),
    ('\u{10CC0}', '\u{10CF2}'),
    ('\u{118A0}', '\u{118DF}'),
    ('\u{1E900}', '\u{1E943}'),
];
