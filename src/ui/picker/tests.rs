use super::*;
use crate::models::library::Origin;

fn entry(name: &str) -> LibraryEntry {
    LibraryEntry {
        path: format!("/models/{name}").into(),
        name: name.to_owned(),
        origin: Origin::ModelFolder,
        file_bytes: 1,
        n_shards: 1,
    }
}

const DEMO: &str = "/models/demo.gguf";

fn picker(names: &[&str]) -> Picker {
    let mut picker = Picker::new(Some(DEMO.into()));
    picker.found(names.iter().map(|name| entry(name)).collect());
    picker
}

fn press(picker: &mut Picker, keys: &str) -> PickerOutcome {
    let keymap = Keymap::default();
    let mut outcome = PickerOutcome::Stay;
    for key in keys.split(' ') {
        let chord = key.parse().unwrap_or_else(|e| panic!("{e}"));
        let input = picker.understand(chord, &keymap).unwrap_or_else(|| panic!("{key} means nothing"));
        outcome = picker.input(input);
    }
    outcome
}

fn load(name: &str) -> PickerOutcome {
    PickerOutcome::Load(format!("/models/{name}").into())
}

#[test]
fn what_is_typed_filters_and_enter_loads() {
    let mut picker = picker(&["llama-8B-Q4_K_M.gguf", "qwen3-30B-Q4_K_M.gguf", "qwen3-4B-Q8_0.gguf"]);
    assert_eq!(press(&mut picker, "enter"), load("llama-8B-Q4_K_M.gguf"));
    assert_eq!(press(&mut picker, "q w q 8 enter"), load("qwen3-4B-Q8_0.gguf"));
    assert_eq!(press(&mut picker, "esc"), PickerOutcome::Stay);
    assert_eq!(picker.rows().len(), 4, "the filter is gone, and the demo is offered");
    assert_eq!(press(&mut picker, "esc"), PickerOutcome::Close);
}

#[test]
fn the_cursor_stays_on_its_model_when_others_arrive() {
    let mut picker = picker(&["b", "c"]);
    press(&mut picker, "down");
    picker.scanning();
    picker.found(["a", "b", "bb", "c"].map(entry).to_vec());
    assert_eq!(press(&mut picker, "enter"), load("c"));
    // It is gone: the first row is chosen again.
    picker.found(["x", "y"].map(entry).to_vec());
    assert_eq!(press(&mut picker, "enter"), load("x"));
    assert_eq!(press(&mut picker, "end up enter"), load("y"));
}

#[test]
fn what_cannot_run_stays_closed_and_what_is_too_large_may_be_tried() {
    let mut picker = picker(&["a", "b"]);
    let unknown = |verdict| Examined { facts: None, verdict };
    let unsupported = Verdict::Unsupported { why: "unknown architecture".to_owned() };
    picker.examined("/models/a".into(), unknown(unsupported));
    picker.examined("/models/b".into(), unknown(Verdict::TooLarge { short_bytes: 1 }));
    assert_eq!(press(&mut picker, "enter"), PickerOutcome::Stay);
    assert_eq!(press(&mut picker, "down enter"), load("b"));
    picker.found(vec![entry("b")]);
    picker.found(vec![entry("a"), entry("b")]);
    assert_eq!(press(&mut picker, "home enter"), load("a"), "what was known of a file that went is forgotten");
}

#[test]
fn the_demo_is_offered_until_it_is_there() {
    let mut picker = picker(&[]);
    assert_eq!(press(&mut picker, "enter"), PickerOutcome::FetchDemo);
    picker.demo_progress(DemoProgress::Bytes { done_bytes: 1, total_bytes: None });
    assert_eq!(press(&mut picker, "enter"), PickerOutcome::Stay, "it is being fetched");
    picker.demo_progress(DemoProgress::Failed("no network".to_owned()));
    assert_eq!(press(&mut picker, "enter"), PickerOutcome::FetchDemo);
    picker.found(vec![entry("demo.gguf")]);
    assert_eq!(picker.rows(), [Choice::Model(DEMO.into())]);
}

#[test]
fn a_path_is_offered_as_such() {
    let mut picker = picker(&["a"]);
    assert_eq!(press(&mut picker, "~ / x enter"), PickerOutcome::OpenTyped("~/x".to_owned()));
    assert_eq!(picker.rows(), [Choice::Typed("~/x".to_owned())]);
    for words in ["", "/", "a/b", ".", "~", "..", "q4.5", "é:/x"] {
        assert!(!is_like_a_path(words), "{words}");
    }
    for path in ["/a", "./a", "../a", "~/a", "C:\\a", "c:/a"] {
        assert!(is_like_a_path(path), "{path}");
    }
    let mut picker = Picker::default();
    picker.input(DialogInput::Paste("/tmp/a model.gguf\n"));
    assert_eq!(press(&mut picker, "enter"), PickerOutcome::OpenTyped("/tmp/a model.gguf".to_owned()));
}

#[test]
fn a_click_loads_its_line() {
    let mut picker = picker(&["a", "b"]);
    assert_eq!(picker.input(DialogInput::Click(1)), load("b"));
    assert_eq!(picker.input(DialogInput::Click(9)), PickerOutcome::Stay);
    picker.input(DialogInput::Wheel(-5));
    assert_eq!(press(&mut picker, "enter"), load("a"));
}
