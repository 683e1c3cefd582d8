use super::*;
use crate::engine::inventory::{Examined, ModelFacts, Verdict};
use crate::engine::protocol::DeviceId;
use crate::models::library::{LibraryEntry, Origin};
use crate::ui::dialog::DialogInput;
use crate::ui::theme::ColourDepth;
use crate::ui::view::dialogs::tests::picture;

const SIZES: [(u16, u16); 3] = [(80, 24), (120, 40), (200, 60)];

struct Shown<'a> {
    ascii: bool,
    loaded: Option<&'a Path>,
    error: Option<&'a str>,
}

const START: Shown<'_> = Shown { ascii: false, loaded: None, error: None };

fn draw(picker: &Picker, shown: &Shown<'_>, (columns, rows): (u16, u16)) -> (String, Hits, Drawn) {
    let area = Rect::new(0, 0, columns, rows);
    let (mut buf, mut hits) = (Buffer::empty(area), Hits::default());
    let theme = Theme::named("dark", &[], ColourDepth::True, shown.ascii).0;
    let data = PickerData { theme: &theme, keymap: &Keymap::default(), loaded: shown.loaded, error: shown.error };
    let drawn = draw_picker(picker, &data, area, &mut buf, &mut hits);
    (picture(&buf), hits, drawn)
}

fn entry(name: &str, origin: Origin, mib: u64) -> LibraryEntry {
    let path = format!("/home/ada/models/{}", name.replace(": ", "/")).into();
    LibraryEntry { path, name: name.to_owned(), origin, file_bytes: mib << 20, n_shards: 1 }
}

fn facts(arch: &str, quant: &str, n_params: u64, n_ctx: u32) -> Option<ModelFacts> {
    Some(ModelFacts {
        name: "A model".to_owned(),
        arch: arch.to_owned(),
        quant: quant.to_owned(),
        size_label: None,
        n_params,
        n_layer: Some(48),
        n_ctx_train: Some(n_ctx),
        n_expert: (arch == "qwen3moe").then_some(128),
        n_expert_used: (arch == "qwen3moe").then_some(8),
        file_bytes: 1,
    })
}

fn device(id: &str) -> DeviceId {
    id.parse().expect("a device")
}

fn library() -> Picker {
    let mut picker = Picker::new(Some("/home/ada/models/SmolLM2-135M.gguf".into()));
    let entries = vec![
        entry("Qwen3-4B-Instruct-2507-Q8_0.gguf", Origin::ModelFolder, 4083),
        entry("unsloth/Qwen3-30B-A3B-Instruct-2507-GGUF: Q4_K_M", Origin::HuggingFace, 17_700),
        entry("MiniMax-M2: UD-Q4_K_XL", Origin::HuggingFace, 131_000),
        entry("lmstudio-community/gemma-3-12b-it-GGUF: Q4_0", Origin::LmStudio, 6900),
        entry("llama3:latest", Origin::Ollama, 4445),
        entry("ggml-org_tiny\u{1b}[31m.gguf", Origin::LlamaCpp, 0),
        entry("new.gguf", Origin::CurrentFolder, 900),
    ];
    let paths: Vec<_> = entries.iter().map(|entry| entry.path.clone()).collect();
    picker.found(entries);
    let mut verdicts = [
        (facts("qwen3", "Q8_0", 4_022_468_096, 262_144), Verdict::Fits { on: device("cuda0") }),
        (
            facts("qwen3moe", "Q4_K_M", 30_532_122_624, 262_144),
            Verdict::FitsSplit { over: vec![device("cuda0"), device("rocm0")] },
        ),
        (facts("minimax-m2", "Q4_K_M", 228_689_764_864, 196_608), Verdict::TooLarge { short_bytes: 84 << 30 }),
        (
            facts("gemma3", "Q4_0", 11_765_788_416, 131_072),
            Verdict::Unsupported { why: "architecture 'gemma3' is not known".to_owned() },
        ),
        (facts("llama", "Q4_0", 8_030_261_248, 8192), Verdict::Fits { on: device("cuda0") }),
        (None, Verdict::Unreadable { why: "it does not begin with GGUF".to_owned() }),
    ]
    .into_iter();
    for path in paths {
        if let Some((facts, verdict)) = verdicts.next() {
            picker.examined(path, Examined { facts, verdict });
        }
    }
    picker
}

#[test]
fn pictures_of_a_library() {
    let mut picker = library();
    for size in SIZES {
        insta::assert_snapshot!(format!("library_{}x{}", size.0, size.1), draw(&picker, &START, size).0);
    }
    picker.input(DialogInput::Action(Action::ItemDown));
    let path = "/home/ada/models/Qwen3-4B-Instruct-2507-Q8_0.gguf";
    let dialog = Shown { loaded: Some(Path::new(path)), ..START };
    insta::assert_snapshot!("dialog_120x40", draw(&picker, &dialog, (120, 40)).0);
    let ascii = Shown { ascii: true, ..dialog };
    let text = draw(&picker, &ascii, (80, 24)).0;
    assert!(text.replace('\u{fffd}', "").is_ascii(), "{text}");
    insta::assert_snapshot!("ascii_80x24", text);
}

#[test]
fn pictures_of_little() {
    let size = (80, 24);
    let mut picker = Picker::new(Some("/home/ada/models/SmolLM2-135M.gguf".into()));
    insta::assert_snapshot!("scanning_80x24", draw(&picker, &START, size).0);
    picker.found(vec![]);
    insta::assert_snapshot!("none_80x24", draw(&picker, &START, size).0);
    picker.demo_progress(DemoProgress::Bytes { done_bytes: 41 << 20, total_bytes: Some(93 << 20) });
    insta::assert_snapshot!("fetching_80x24", draw(&picker, &START, size).0);
    picker.demo_progress(DemoProgress::Failed("pip could not download layercake-demo: no network".to_owned()));
    let failed = Shown { error: Some("cannot load new.gguf: cuda0 is 3.1 GiB short"), ..START };
    insta::assert_snapshot!("failed_80x24", draw(&picker, &failed, size).0);
    let mut picker = library();
    picker.input(DialogInput::Paste("qwen"));
    insta::assert_snapshot!("filtered_80x24", draw(&picker, &START, size).0);
    picker.input(DialogInput::Paste("zzz"));
    insta::assert_snapshot!("no_match_80x24", draw(&picker, &START, size).0);
    let mut picker = library();
    picker.input(DialogInput::Paste("~/models/other.gguf"));
    insta::assert_snapshot!("path_80x24", draw(&picker, &START, size).0);
}

#[test]
fn no_size_is_too_small_and_nothing_commands_the_terminal() {
    for mut picker in [library(), Picker::new(None)] {
        for loaded in [None, Some(Path::new("/x"))] {
            for columns in (0..=14).chain([22, 30, 47, 70, 100]) {
                for rows in 0..=10 {
                    let (text, _, drawn) = draw(&picker, &Shown { loaded, ..START }, (columns, rows));
                    assert!(!text.contains(|c: char| c.is_control() && c != '\n'));
                    assert!(drawn.cursor.is_none_or(|at| at.x < columns && at.y < rows));
                }
            }
            picker.input(DialogInput::Paste("a rather long filter, 日本語, \u{202e}"));
        }
    }
}

#[test]
fn a_long_list_shows_the_line_with_the_cursor_and_clicks_hit_it() {
    let mut picker = Picker::new(None);
    picker.found((0..500).map(|i| entry(&format!("model-{i:03}"), Origin::ModelFolder, 1)).collect());
    for _ in 0..250 {
        picker.input(DialogInput::Action(Action::ItemDown));
    }
    let (text, hits, drawn) = draw(&picker, &START, (80, 24));
    let y = text.lines().position(|line| line.contains("▸  model-250")).expect("the line") as u16;
    assert_eq!(hits.at(5, y)[0].1, Target::Item(250));
    picker.drawn(&drawn);
    picker.input(DialogInput::Action(Action::PageDown));
    let text = draw(&picker, &START, (80, 24)).0;
    assert!(text.contains(&format!("▸  model-{}", 250 + drawn.page - 1)), "{text}");
}
