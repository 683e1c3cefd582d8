//! Keys, text and focus.

use std::time::Duration;

use super::script::*;
use crate::engine::protocol::*;
use crate::ui::action::Action;
use crate::ui::dialog::Dialog;
use crate::ui::hits::{PanelId, Target};
use crate::ui::msg::{Effect, Msg};
use crate::ui::state::Screen;

#[test]
fn enter_submits_and_the_other_enters_do_not() {
    let mut s = Script::loaded();
    s.type_text("a");
    s.keys("shift+enter");
    s.type_text("b");
    s.keys("alt+enter");
    s.type_text("c");
    s.keys("ctrl+j");
    s.type_text("d");
    assert!(commands(&s.take()).is_empty());
    assert_eq!(s.input(), "a\nb\nc\nd");
    s.keys("enter");
    assert_eq!(asked(&generate(&s.take()).1).0, [("user", "a\nb\nc\nd")]);
}

#[test]
fn pasted_text_is_never_sent() {
    for focus in ["alt+i", "alt+c", "alt+d", "alt+l"] {
        let mut s = Script::loaded();
        s.keys(focus);
        s.send(Msg::Paste("one\r\ntwo\n\u{1b}[31m".into()));
        assert!(s.take().is_empty(), "{focus}");
        assert_eq!((s.input(), s.state.focus), ("one\ntwo\n[31m", PanelId::Input), "{focus}");
    }
    // In dialogs it goes to the text there, if there is one.
    for dialog in ["ctrl+p", "ctrl+r", "ctrl+s", "f9", "ctrl+o"] {
        let mut s = Script::loaded();
        s.type_text("mine");
        s.keys(dialog);
        s.take();
        s.send(Msg::Paste("quit\n\n".into()));
        let done = s.take();
        assert!(done.iter().all(|e| matches!(e, Effect::ListSessions { .. })), "{dialog}: {done:?}");
        assert_eq!(s.input(), "mine", "{dialog}");
    }
}

#[test]
fn letters_are_text_in_the_input_and_keys_elsewhere() {
    let mut s = Script::loaded();
    s.type_text("r?e g");
    assert_eq!(s.input(), "r?e g");
    assert!(s.state.dialogs.is_empty());
    s.keys("alt+d ?");
    assert!(matches!(s.state.dialogs[..], [Dialog::Help(_)]));
    assert_eq!(s.input(), "r?e g");
}

#[test]
fn earlier_prompts_come_with_up_and_what_was_typed_with_down() {
    let mut s = Script::loaded();
    s.turn("just now", "a");
    s.type_text("draft");
    let mut seen = vec![];
    for key in ["up", "up", "up", "up", "down", "down", "down"] {
        s.keys(key);
        seen.push(s.input().to_owned());
    }
    let (older, newest) = ("an older prompt", "the newest prompt");
    assert_eq!(seen, ["just now", newest, older, older, newest, "just now", "draft"]);
}

#[test]
fn ctrl_c_stops_then_clears_then_quits() {
    let mut s = Script::loaded();
    let (id, _) = s.ask("q");
    s.token(id, "a");
    s.type_text("typed");
    s.keys("ctrl+c");
    assert!(matches!(commands(&s.take())[..], [Command::Stop { .. }]));
    assert_eq!(s.input(), "typed");
    s.finish(id, StopReason::Stopped);
    s.keys("ctrl+c");
    assert_eq!(s.input(), "");
    s.keys("up");
    assert_eq!(s.input(), "typed");
    s.keys("ctrl+c");
    s.take();
    s.keys("ctrl+c");
    assert!(s.take().is_empty());
    s.wait(3000);
    s.keys("ctrl+c");
    assert!(s.take().is_empty(), "too late to be the second");
    s.keys("ctrl+c");
    assert!(matches!(s.take()[..], [Effect::Quit]));
}

#[test]
fn tab_goes_through_the_panels_and_the_layers_items() {
    let mut s = Script::loaded();
    let mut seen = vec![];
    for _ in 0..9 {
        s.keys("tab");
        seen.push((s.state.focus, s.state.layers.as_ref().expect("a map").map.is_at_edge()));
    }
    let layers = |edge| (PanelId::Layers, edge);
    // Three blocks with two edges between them.
    let expected = [
        (PanelId::Devices, false),
        layers(false),
        layers(true),
        layers(false),
        layers(true),
        layers(false),
        (PanelId::Chat, false),
        (PanelId::Input, false),
        (PanelId::Devices, false),
    ];
    assert_eq!(seen, expected);
    // Again from their beginning, and backwards from their end.
    s.keys("tab tab");
    assert_eq!(s.state.focus, PanelId::Layers);
    assert!(s.state.layers.as_ref().expect("a map").map.is_at_edge());
    s.keys("shift+tab shift+tab");
    assert_eq!(s.state.focus, PanelId::Devices);
}

#[test]
fn the_help_leads_to_the_doctor() {
    let mut s = Script::loaded();
    s.keys("alt+c ? d");
    assert!(matches!(s.state.dialogs[..], [Dialog::Doctor(_)]));
    assert!(matches!(s.take()[..], [Effect::Examine]));
    s.keys("esc");
    assert!(s.state.dialogs.is_empty());
}

#[test]
fn the_palette_does_what_is_chosen() {
    let mut s = Script::loaded();
    s.keys("ctrl+p");
    s.type_text("give the mouse");
    s.keys("enter");
    assert!(s.state.dialogs.is_empty());
    assert!(matches!(s.take()[..], [Effect::MouseCapture(false)]));
}

#[test]
fn a_dialog_opens_once_and_keeps_what_lies_below_from_harm() {
    let mut s = Script::loaded();
    s.type_text("mine");
    s.keys("ctrl+p ctrl+p ctrl+r ctrl+p");
    assert!(matches!(s.state.dialogs[..], [Dialog::Sessions(_), Dialog::Palette(_)]));
    // Neither the input nor the focus below changes unseen.
    s.keys("tab");
    assert_eq!(s.state.focus, PanelId::Input);
    s.keys("ctrl+c ctrl+c");
    assert!(s.state.dialogs.is_empty());
    assert_eq!(s.input(), "mine");
    s.keys("ctrl+p ctrl+o");
    assert_eq!((s.state.dialogs.len(), s.state.screen), (0, Screen::Picker));
}

#[test]
fn settings_count_from_the_next_answer_on_and_are_written() {
    let mut s = Script::loaded();
    s.turn("q", "a");
    s.keys("ctrl+s");
    let at = crate::ui::dialog::SETTINGS.iter().position(|x| x.name == "temperature").expect("it is one");
    for _ in 0..at {
        s.keys("down");
    }
    s.type_text("0.3");
    s.keys("enter");
    assert!(s.state.dialogs.is_empty());
    match &records(&s.take())[..] {
        [crate::sessions::Record::Settings(settings)] => {
            let written: SamplerSettings = serde_json::from_value(settings.sampling.clone()).expect("settings");
            assert_eq!(written.temperature, 0.3);
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(s.ask("r").1.sampling.temperature, 0.3);
}

#[test]
fn the_system_prompt_is_written_in_a_dialog_or_in_the_users_editor() {
    let mut s = Script::loaded();
    s.type_text("mine");
    s.keys("ctrl+p");
    s.type_text("system prompt");
    s.keys("enter");
    assert!(matches!(s.state.dialogs[..], [Dialog::System(_)]));
    s.type_text("Be");
    s.take();
    s.keys("ctrl+g");
    assert!(matches!(&s.take()[..], [Effect::ExternalEditor(text)] if text == "Be"));
    s.send(Msg::Edited(Ok("Be brief.\n".into())));
    s.draw();
    assert_eq!(s.input(), "mine");
    // The word for it in the dialog's frame can be clicked, too.
    let send = s.place(|t| *t == Target::Button(Action::Send));
    s.click(send);
    assert!(s.state.dialogs.is_empty());
    s.keys("enter");
    assert_eq!(asked(&generate(&s.take()).1).0, [("system", "Be brief."), ("user", "mine")]);
}

#[test]
fn the_users_editor_gives_the_input_back() {
    let mut s = Script::loaded();
    s.type_text("a");
    s.keys("ctrl+g");
    assert!(matches!(&s.take()[..], [Effect::ExternalEditor(text)] if text == "a"));
    s.send(Msg::Edited(Err("no editor is set".into())));
    assert_eq!(s.input(), "a");
    s.send(Msg::Edited(Ok("b\nc\n".into())));
    assert_eq!(s.input(), "b\nc");
    assert!(s.take().is_empty());
}

#[test]
fn the_mouse_is_released_and_taken_back() {
    let mut s = Script::loaded();
    s.keys("f2");
    assert!(matches!(s.take()[..], [Effect::MouseCapture(false)]));
    s.keys("f2");
    assert!(matches!(s.take()[..], [Effect::MouseCapture(true)]));
}

#[test]
fn nobody_looks_and_somebody_looks_again() {
    let mut s = Script::loaded();
    s.send(Msg::Focus(false));
    assert!(matches!(s.take()[..], [Effect::Watch(false)]));
    assert!(!s.state.watched);
    s.send(Msg::Focus(true));
    assert!(matches!(s.take()[..], [Effect::Watch(true)]));
}

#[test]
fn errors_stay_until_a_key_other_words_for_a_while() {
    let mut s = Script::loaded();
    s.send(Msg::SessionError("cannot write".into()));
    s.send(Msg::Exported("chat.md".into()));
    assert_eq!(s.notices(), ["cannot write", "saved chat.md"]);
    s.wait(Duration::from_secs(7).as_millis() as u64);
    assert_eq!(s.notices(), ["cannot write"]);
    s.keys("left");
    assert!(s.notices().is_empty());
}
