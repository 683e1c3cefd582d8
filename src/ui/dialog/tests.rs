use super::*;
use crate::engine::kv::KvType;
use crate::sessions::SessionHead;

fn session(name: &str, title: &str) -> SessionRow {
    let head = SessionHead {
        id: name.parse().expect("an id"),
        path: name.into(),
        title: title.to_owned(),
        created: chrono::DateTime::UNIX_EPOCH,
        changed: chrono::DateTime::UNIX_EPOCH,
        model: None,
        n_messages: 1,
        bytes: 0,
    };
    SessionRow { head, snippet: None }
}

/// Keys as they are written, one after the other; what came of the last.
fn press(dialog: &mut Dialog, keys: &str) -> DialogOutcome {
    let keymap = Keymap::default();
    let sessions = [session("a", "One"), session("b", "Two"), session("c", "")];
    let context = DialogContext { keymap: &keymap, sessions: &sessions };
    let mut outcome = DialogOutcome::Stay;
    for key in keys.split(' ') {
        let chord = key.parse().unwrap_or_else(|e| panic!("{e}"));
        let input = dialog.understand(chord, &keymap).unwrap_or_else(|| panic!("{key} means nothing"));
        outcome = dialog.input(input, &context);
    }
    outcome
}

fn settings(values: &ChatSettings) -> Dialog {
    Dialog::Settings(Box::new(Settings::new(values, &default_settings())))
}

fn applied(outcome: DialogOutcome) -> ChatSettings {
    match outcome {
        DialogOutcome::SetSettings(values) => *values,
        other => panic!("{other:?}"),
    }
}

#[test]
fn escape_closes_every_dialog() {
    let id: SessionId = "a".parse().expect("an id");
    let dialogs = [
        Dialog::Help(Help::default()),
        Dialog::Doctor(Doctor::default()),
        Dialog::Palette(Palette::default()),
        settings(&default_settings()),
        Dialog::System(System::new(Some("x"))),
        Dialog::Sessions(Sessions::default()),
        Dialog::Details(Details::new("cpu0".parse().expect("an id"))),
        Dialog::Rename(Rename::new(id.clone(), "x")),
        Dialog::Confirm(Confirm::new("?", "", Confirmed::DeleteSession(id))),
    ];
    for mut dialog in dialogs {
        assert_eq!(press(&mut dialog, "esc"), DialogOutcome::Close, "{dialog:?}");
    }
}

#[test]
fn d_in_the_help_opens_the_doctor_unless_something_is_typed() {
    let help = || Dialog::Help(Help::default());
    assert_eq!(press(&mut help(), "d"), DialogOutcome::Run(Action::Doctor));
    assert_eq!(press(&mut help(), "?"), DialogOutcome::Close);
    let n_groups = |dialog: &Dialog| match dialog {
        Dialog::Help(help) => help.groups(&Keymap::default()).len(),
        _ => 0,
    };
    let mut dialog = help();
    assert_eq!(n_groups(&dialog), Context::ALL.len());
    assert_eq!(press(&mut dialog, "/ d r a f t"), DialogOutcome::Stay);
    assert_eq!(n_groups(&dialog), 1);
    press(&mut dialog, "backspace backspace backspace backspace backspace");
    assert_eq!(dialog, help());
    let mut dialog = help();
    press(&mut dialog, "u n d o");
    assert_eq!(n_groups(&dialog), 2, "of the input and of the layers");
}

#[test]
fn the_palette_runs_what_is_nearest_or_chosen() {
    let palette = || Dialog::Palette(Palette::default());
    assert_eq!(press(&mut palette(), "t h e m e enter"), DialogOutcome::Run(Action::NextTheme));
    assert_eq!(press(&mut palette(), "enter"), DialogOutcome::Run(Action::Help));
    assert_eq!(press(&mut palette(), "down down up enter"), DialogOutcome::Run(Action::Palette));
    assert!(matches!(press(&mut palette(), "end enter"), DialogOutcome::Run(action) if action != Action::Help));
    assert_eq!(press(&mut palette(), "z z z z enter"), DialogOutcome::Stay);
    // A filter that is deleted gives the whole list again, from its start.
    assert_eq!(press(&mut palette(), "t down ctrl+u enter"), DialogOutcome::Run(Action::Help));
}

#[test]
fn only_a_palette_action_is_listed() {
    let keymap = Keymap::default();
    let rows = Palette::default().rows(&keymap);
    assert!(rows.iter().all(|(info, _)| info.in_palette));
    assert!(rows.iter().any(|(info, chords)| info.action == Action::ExportJson && chords.is_empty()));
}

#[test]
fn numbers_are_typed_stepped_and_given_back() {
    let mut form = settings(&default_settings());
    // Temperature: the first digit replaces, the next one follows.
    let values = applied(press(&mut form, "1 . 2 5 enter"));
    assert_eq!(values.sampling.temperature, 1.25);
    let values = applied(press(&mut form, "left left right enter"));
    assert_eq!(values.sampling.temperature, 1.2);
    let values = applied(press(&mut form, "delete enter"));
    assert_eq!(values, default_settings());
    // A step from the edge goes nowhere, and 0 is shown as 0.
    let values = applied(press(&mut form, "0 left enter"));
    assert_eq!(values.sampling.temperature.to_bits(), 0);
}

#[test]
fn words_for_none_can_be_left_and_come_back() {
    let at = |name: &str| SETTINGS.iter().position(|s| s.name == name).expect(name);
    let mut form = settings(&default_settings());
    let mut go = |name: &str, keys: &str| {
        press(&mut form, "home");
        (0..at(name)).for_each(|_| _ = press(&mut form, "down"));
        press(&mut form, keys)
    };
    assert_eq!(applied(go("seed", "4 2 enter")).seed, Some(42));
    assert_eq!(applied(go("seed", "backspace backspace backspace delete enter")).seed, None);
    assert_eq!(applied(go("max_tokens", "right right enter")).max_tokens, Some(128));
    assert_eq!(applied(go("max_tokens", "left left left enter")).max_tokens, None);
    assert_eq!(applied(go("kv", "right enter")).kv, KvType::Q8_0);
    assert_eq!(applied(go("kv", "left left 7 enter")).kv, KvType::F32);
    let values = applied(go("mirostat.tau", "right enter"));
    assert_eq!(values.sampling.mirostat.map(|m| m.tau), Some(5.0));
    assert_eq!(applied(go("mirostat.tau", "0 left enter")).sampling.mirostat, None);
}

#[test]
fn a_wrong_value_is_named_in_its_place_and_applies_nothing() {
    let mut form = settings(&default_settings());
    let wrong = |form: &Dialog| match form {
        Dialog::Settings(settings) => settings.values().err().map(|(at, words)| (SETTINGS[at].name, words)),
        _ => None,
    };
    assert_eq!(press(&mut form, "- 1 down enter"), DialogOutcome::Stay);
    assert_eq!(wrong(&form), Some(("temperature", "must be 0 or more".to_owned())));
    let Dialog::Settings(settings) = &form else { unreachable!() };
    assert_eq!(settings.chosen(), 0, "back at what is wrong");
    press(&mut form, ". . enter");
    assert_eq!(wrong(&form), Some(("temperature", "must be a number".to_owned())));
    assert!(matches!(press(&mut form, "delete enter"), DialogOutcome::SetSettings(_)));
}

#[test]
fn every_setting_is_written_as_it_is_read_and_named_as_the_sampler_does() {
    let mut values = default_settings();
    values.sampling.mirostat = Some(crate::engine::sampler::Mirostat { tau: 3.5, eta: 0.25 });
    values.sampling.dry_sequence_breakers = vec!["x".to_owned()];
    values.system = Some("kept".to_owned());
    (values.seed, values.max_tokens, values.n_ctx) = (Some(u64::MAX), Some(7), Some(4096));
    assert_eq!(applied(press(&mut settings(&values), "enter")), values);
    let fields = serde_json::to_value(&values.sampling).expect("JSON");
    let known: Vec<_> = SETTINGS.iter().map(|s| s.name.split('.').next().unwrap_or_default()).collect();
    for (name, _) in fields.as_object().expect("an object") {
        assert!(known.contains(&name.as_str()) || name == "dry_sequence_breakers", "{name} is not in the form");
    }
}

#[test]
fn stepping_never_leaves_what_is_valid() {
    for (i, setting) in SETTINGS.iter().enumerate() {
        for key in ["left", "right"] {
            let mut form = settings(&default_settings());
            (0..i).for_each(|_| _ = press(&mut form, "down"));
            for _ in 0..150 {
                press(&mut form, key);
                let Dialog::Settings(settings) = &form else { unreachable!() };
                assert_eq!(settings.values().err(), None, "{} after {key}", setting.name);
            }
        }
    }
}

#[test]
fn the_system_prompt_is_a_text() {
    let mut dialog = Dialog::System(System::new(None));
    let set = |text: &str| DialogOutcome::SetSystem(Some(text.to_owned()));
    assert_eq!(press(&mut dialog, "B e alt+enter b ctrl+j enter"), set("Be\nb"));
    assert_eq!(press(&mut dialog, "up up ctrl+k enter"), set("b"));
    let mut dialog = Dialog::System(System::new(Some("x")));
    assert_eq!(press(&mut dialog, "backspace enter"), DialogOutcome::SetSystem(None));
}

#[test]
fn sessions_are_opened_searched_renamed_and_deleted_after_a_question() {
    let id = |name: &str| name.parse::<SessionId>().expect("an id");
    let mut dialog = Dialog::Sessions(Sessions::default());
    assert_eq!(press(&mut dialog, "down enter"), DialogOutcome::OpenSession(id("b")));
    let DialogOutcome::Open(mut question) = press(&mut dialog, "delete") else { panic!("no question") };
    assert_eq!(press(&mut question, "enter"), DialogOutcome::Close, "no is chosen at first");
    assert_eq!(press(&mut question, "left enter"), DialogOutcome::DeleteSession(id("b")));
    assert_eq!(press(&mut question, "right n"), DialogOutcome::Close);
    assert_eq!(press(&mut question, "y"), DialogOutcome::DeleteSession(id("b")));
    let DialogOutcome::Open(mut rename) = press(&mut dialog, "ctrl+e") else { panic!("nothing to rename with") };
    let renamed = DialogOutcome::RenameSession { id: id("b"), title: "Twx".to_owned() };
    assert_eq!(press(&mut rename, "backspace x space enter"), renamed);
    assert_eq!(press(&mut dialog, "s"), DialogOutcome::SearchSessions("s".to_owned()));
    assert_eq!(press(&mut dialog, "backspace"), DialogOutcome::SearchSessions(String::new()));
    assert_eq!(press(&mut dialog, "enter"), DialogOutcome::OpenSession(id("a")), "a search begins at the first");
}

#[test]
fn without_sessions_keys_do_nothing() {
    let keymap = Keymap::default();
    let context = DialogContext { keymap: &keymap, sessions: &[] };
    for action in [Action::Choose, Action::DeleteItem, Action::RenameItem, Action::ItemDown] {
        let mut dialog = Dialog::Sessions(Sessions::default());
        assert_eq!(dialog.input(DialogInput::Action(action), &context), DialogOutcome::Stay);
    }
}

#[test]
fn keys_of_elsewhere_are_left_to_elsewhere() {
    let keymap = Keymap::default();
    let dialog = Dialog::Palette(Palette::default());
    for key in ["ctrl+q", "f2", "ctrl+c"] {
        assert_eq!(dialog.understand(key.parse().expect(key), &keymap), None, "{key}");
    }
    let page = DialogInput::Action(Action::PageDown);
    assert_eq!(dialog.understand("pagedown".parse().expect("a key"), &keymap), Some(page));
}

#[test]
fn a_page_that_is_scrolled_ends_where_its_text_ends() {
    let mut dialog = Dialog::Doctor(Doctor::default());
    let top = |dialog: &Dialog| match dialog {
        Dialog::Doctor(doctor) => doctor.scroll.top,
        _ => 0,
    };
    press(&mut dialog, "down");
    assert_eq!(top(&dialog), 0, "nothing was drawn yet");
    dialog.drawn(&Drawn { cursor: None, page: 10, most: 25 });
    press(&mut dialog, "pagedown down");
    assert_eq!(top(&dialog), 10);
    press(&mut dialog, "end pagedown");
    assert_eq!(top(&dialog), 25);
    dialog.drawn(&Drawn { cursor: None, page: 30, most: 5 });
    assert_eq!(top(&dialog), 5);
}
