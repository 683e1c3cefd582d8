use std::path::Path;

use proptest::prelude::*;

use super::*;
use crate::engine::kv::KvType;

const FILE: &str = "/etc/layercake/config.toml";

fn around() -> Surroundings {
    Surroundings { home: Some(PathBuf::from("/home/me")), editor: Some("vi".to_owned()) }
}

fn parse(text: &str) -> (Config, Vec<String>) {
    let (config, warnings) = Config::parse(text, Path::new(FILE), &around()).unwrap_or_else(|e| panic!("{e}"));
    (config, warnings.iter().map(Warning::to_string).collect())
}

/// Everything, and nothing wrong.
const ALL: &str = r##"
theme = "mine"
colours = "256"
ascii = true
mouse = false
models = ["~/models", "more", "/abs"]
ctx = 16_384
kv = "q8_0"
place = "cpu0=embed,0-29,head"
threads = 8
editor = "nano -w"
system = """
Be "brief".
\u001b\u009b"""
telemetry_hz = 10

[sampling]
temperature = 0.7
top_k = 0
top_p = 1
min_p = 0.05
repeat_penalty = 1.1
seed = 42
max_tokens = 512

[keys]
"ctrl+s" = "stop"
apply = ["enter", "f5"]
"f6" = "stop"
quit = []

[themes.mine]
base = "okabe-ito"
text = "#e0e0e0"
border = "bright blue"
cuda0 = 0xd6
"##;

#[test]
fn every_key_is_read() {
    let (config, warnings) = parse(ALL);
    assert_eq!(warnings, [""; 0]);
    let expected = Config {
        theme: "mine".to_owned(),
        colours: Colours::Indexed256,
        ascii: Ascii::Always,
        mouse: false,
        models: ["/home/me/models", "/etc/layercake/more", "/abs"].map(PathBuf::from).to_vec(),
        ctx: Some(16_384),
        kv: KvType::Q8_0,
        place: Some("cpu0=embed,0-29,head".to_owned()),
        threads: Some(8),
        editor: Some("nano -w".to_owned()),
        system: Some("Be \"brief\".\n\u{1b}\u{9b}".to_owned()),
        telemetry_hz: 10,
        sampling: Sampling {
            temperature: Some(0.7),
            top_k: 0,
            top_p: 1.0,
            min_p: 0.05,
            repeat_penalty: 1.1,
            seed: Some(42),
            max_tokens: Some(512),
        },
        keys: [
            ("stop", &["ctrl+s"][..], 27),
            ("apply", &["enter", "f5"], 28),
            ("stop", &["f6"], 29),
            ("quit", &[], 30),
        ]
        .map(|(action, chords, line)| KeyBinding {
            action: action.to_owned(),
            chords: chords.iter().map(|c| c.to_string()).collect(),
            line,
        })
        .to_vec(),
        themes: vec![Theme {
            name: "mine".to_owned(),
            base: "okabe-ito".to_owned(),
            colours: [("text", "#e0e0e0", 34), ("border", "bright blue", 35), ("cuda0", "214", 36)]
                .map(|(name, value, line)| ThemeColour { name: name.to_owned(), value: value.to_owned(), line })
                .to_vec(),
        }],
    };
    assert_eq!(config, expected);
}

#[test]
fn nothing_means_the_defaults() {
    let (config, warnings) = parse("");
    assert_eq!(warnings, [""; 0]);
    assert_eq!(config, Config { editor: Some("vi".to_owned()), ..Config::default() });
    assert_eq!((config.theme.as_str(), config.telemetry_hz, config.mouse), ("dark", 4, true));
    assert_eq!((config.colours, config.ascii, config.kv), (Colours::Auto, Ascii::Auto, KvType::F16));
    let default = crate::engine::sampler::SamplerSettings::default();
    assert_eq!((config.sampling.top_k, config.sampling.top_p), (default.top_k, default.top_p));
}

#[test]
fn what_is_wrong_costs_its_own_key() {
    for (text, expected) in [
        ("themee = \"dark\"", "line 1: unknown key 'themee': did you mean 'theme'?"),
        ("Color = \"16\"", "line 1: unknown key 'Color': did you mean 'colours'?"),
        ("zzzzzz = 1", "line 1: unknown key 'zzzzzz'"),
        ("\"a\\u001b[2J\" = 1", "line 1: unknown key 'a\\u{1b}[2J'"),
        ("\n[sampling]\ntemp = 1", "line 3: unknown key 'sampling.temp': did you mean 'temperature'?"),
        ("[sampling]\ntopk = 1", "line 2: unknown key 'sampling.topk': did you mean 'top_k'?"),
        ("theme = \"drak\"", "line 1: there is no theme \"drak\": did you mean 'dark'?"),
        ("theme = \"mune\"\n[themes.mine]", "line 1: there is no theme \"mune\": did you mean 'mine'?"),
        ("theme = 3", "line 1: theme is 3: give the name of a theme"),
        ("colours = 24", "line 1: colours is 24: give \"auto\", \"none\", \"16\", \"256\" or \"true\""),
        ("ascii = \"yes\"", "line 1: ascii is \"yes\": give \"auto\", true or false"),
        ("mouse = \"off\"", "line 1: mouse is \"off\": give true or false"),
        ("models = \"a\"", "line 1: models is \"a\": give a list of folders"),
        ("models = [\"a\", 3]", "line 1: models is a list: give a list of folders"),
        ("ctx = 0", "line 1: ctx is 0: give a number of tokens above zero"),
        ("ctx = 4294967296", "line 1: ctx is 4294967296: give a number of tokens above zero"),
        ("kv = \"q4\"", "line 1: kv is \"q4\": give \"f16\", \"q8_0\" or \"f32\""),
        ("place = []", "line 1: place is a list: give a placement such as \"cpu0=embed,0-29,head\""),
        ("threads = -1", "line 1: threads is -1: give a number from 1 to 1024"),
        ("editor = \"\"", "line 1: editor is \"\": give a command"),
        ("system = 2026-12-01", "line 1: system is 2026-12-01: give a text"),
        ("telemetry_hz = 11", "line 1: telemetry_hz is 11: give a number from 1 to 10"),
        ("sampling = 1.5", "line 1: sampling is 1.5: give a table"),
        ("sampling.temperature = nan", "line 1: sampling.temperature is nan: give a number from 0"),
        ("sampling.top_p = 1.5", "line 1: sampling.top_p is 1.5: give a number from 0 to 1"),
        ("sampling.repeat_penalty = 0", "line 1: sampling.repeat_penalty is 0: give a number above 0"),
        ("sampling.seed = -3", "line 1: sampling.seed is -3: give a whole number from 0"),
        ("keys.a = 3", "line 1: keys.a is 3: give the name of an action, or a list of keys for one"),
        ("[keys]\n\"\" = \"stop\"", "line 2: a blank name in [keys]: give a key or the name of an action"),
        ("themes.a = 3", "line 1: themes.a is 3: give a table of colours"),
        ("[themes.a]\nbase = \"b\"", "line 2: base is \"b\": give one of \"dark\", \"light\", \"okabe-ito\", \"mono\""),
        (
            "[themes.a]\ntext = 256",
            "line 2: text is 256: give \"#rrggbb\", the name of a colour, or a number from 0 to 255",
        ),
        ("[themes.dark]", "line 1: theme \"dark\" is built in: give yours another name, and base = \"dark\""),
    ] {
        let (config, warnings) = parse(&format!("{text}\n"));
        assert_eq!(warnings, [expected], "{text}");
        let default = Config { editor: Some("vi".to_owned()), ..Config::default() };
        assert_eq!(Config { themes: Vec::new(), ..config }, default, "{text}");
    }
    let (config, warnings) = parse("kv = 3\nmous = 1\nctx = 512\n[sampling]\nx = 1\nseed = 7");
    assert_eq!((config.ctx, config.sampling.seed), (Some(512), Some(7)), "everything else still works");
    let lines: Vec<_> = warnings.iter().map(|w| w.split_once(':').unwrap().0).collect();
    assert_eq!(lines, ["line 1", "line 2", "line 5"]);
}

#[test]
fn a_text_that_is_no_toml_is_one_line_with_its_number() {
    let error = Config::parse("mouse = true\nctx = \n", Path::new(FILE), &around()).unwrap_err().to_string();
    assert!(error.starts_with("/etc/layercake/config.toml, line 2: "), "{error}");
    let twice = Config::parse("ctx = 1\n\nctx = 2\n", Path::new(FILE), &around()).unwrap_err().to_string();
    assert!(twice.contains("line 3: duplicate key"), "{twice}");
    assert!(!error.contains('\n') && !twice.contains('\n'));
}

#[test]
fn files_that_are_none() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config.toml");
    let (config, warnings) = Config::load(&path).unwrap();
    assert_eq!((Config { editor: None, ..config }, warnings), (Config::default(), vec![]), "missing: the defaults");
    std::fs::write(&path, b"mouse = true\n# \xff").unwrap();
    assert!(Config::load(&path).unwrap_err().to_string().ends_with("config.toml, line 2: not UTF-8"));
    std::fs::write(&path, vec![b'#'; MAX_FILE_BYTES as usize + 1]).unwrap();
    assert!(matches!(Config::load(&path), Err(ConfigError::TooLarge { .. })));
    assert!(matches!(Config::load(folder.path()), Err(ConfigError::Read { .. })));
}

#[test]
fn effective_values_are_a_file_that_means_the_same() {
    for text in [ALL, ""] {
        let (config, _) = parse(text);
        let written = config.to_toml();
        assert!(!written.contains(|c: char| c.is_control() && c != '\n'), "{written:?}");
        let (again, warnings) = parse(&written);
        assert_eq!(warnings, [""; 0], "{written}");
        assert_eq!(again.to_json(), config.to_json(), "{written}");
        assert_eq!((again.models, again.system, again.sampling), (config.models, config.system, config.sampling));
    }
    insta::assert_snapshot!(parse(ALL).0.to_toml(), @r##"
    theme = "mine"
    colours = "256"
    ascii = true
    mouse = false
    models = ["/home/me/models", "/etc/layercake/more", "/abs"]
    ctx = 16384
    kv = "q8_0"
    place = "cpu0=embed,0-29,head"
    threads = 8
    editor = "nano -w"
    system = "Be \"brief\".\n\u001b\u009b"
    telemetry_hz = 10

    [sampling]
    temperature = 0.7
    top_k = 0
    top_p = 1.0
    min_p = 0.05
    repeat_penalty = 1.1
    seed = 42
    max_tokens = 512

    [keys]
    stop = ["ctrl+s", "f6"]
    apply = ["enter", "f5"]
    quit = []

    [themes.mine]
    base = "okabe-ito"
    text = "#e0e0e0"
    border = "bright blue"
    cuda0 = "214"
    "##);
    insta::assert_snapshot!(Config::default().to_toml(), @r#"
    theme = "dark"
    colours = "auto"
    ascii = "auto"
    mouse = true
    models = []
    # ctx: the model's own, at most 8192
    kv = "f16"
    # place: auto
    # threads: physical cores
    # editor: none, as neither $VISUAL nor $EDITOR is set
    # system: none
    telemetry_hz = 4

    [sampling]
    # temperature: 0.8; the demo: 0
    top_k = 40
    top_p = 0.95
    min_p = 0.05
    repeat_penalty = 1.0
    # seed: a new one each time
    # max_tokens: until the answer or the context ends
    "#);
}

/// Lines that are nearly a configuration.
const LINES: &str = concat!(
    "(\\[(sampling|keys|themes\\.[a-z]|\\PC{0,5})\\]\n",
    "|(theme|models|ctx|kv|system|seed|top_p|base|\"\\PC{0,5}\") = ",
    "(\"(dark|f16|\\PC{0,9})\"|[0-9]{1,30}|-?[0-9]\\.[0-9]|\\[\\]|\\[\"\\PC{0,3}\"\\]|true|\\{a = 1\\})\n",
    "|\\PC{0,5}\n){0,9}",
);

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in LINES) {
        match Config::parse(&text, Path::new(FILE), &around()) {
            Ok((config, warnings)) => {
                for warning in warnings {
                    prop_assert!(!warning.to_string().contains(char::is_control), "{warning}");
                    prop_assert!((1..=text.lines().count()).contains(&warning.line), "{warning}");
                }
                let (again, _) = Config::parse(&config.to_toml(), Path::new(FILE), &around()).expect("valid TOML");
                prop_assert_eq!(again.to_json(), config.to_json());
            }
            Err(e) => prop_assert!(!e.to_string().contains(char::is_control), "{e}"),
        }
    }
}
