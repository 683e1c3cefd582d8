//! The choice of a model, and loading it.

use super::script::*;
use crate::engine::inventory::{Examined, Verdict};
use crate::engine::protocol::*;
use crate::models::library::{LibraryEntry, Origin};
use crate::sessions::Record;
use crate::ui::action::Action;
use crate::ui::gauges::testing::{CUDA0, mib};
use crate::ui::hits::Target;
use crate::ui::msg::{DemoProgress, Effect, Msg};
use crate::ui::state::{ModelState, Screen};

fn found(s: &mut Script) {
    let entry = |name: &str| LibraryEntry {
        path: format!("/models/{name}.gguf").into(),
        name: name.into(),
        origin: Origin::Configured,
        file_bytes: mib(700),
        n_shards: 1,
    };
    s.take();
    s.send(Msg::Library(vec![entry("alpha"), entry("beta"), entry("gamma")]));
    let broken = Verdict::Unreadable { why: "it is no GGUF file".into() };
    for (name, verdict) in [("alpha", broken), ("beta", Verdict::Fits { on: CUDA0 })] {
        let path = format!("/models/{name}.gguf").into();
        s.send(Msg::LibraryFacts { path, examined: Box::new(Examined { facts: None, verdict }) });
    }
    s.draw();
}

fn is_unload(effects: &[Effect]) -> RequestId {
    match &commands(effects)[..] {
        [Command::Unload { id }] => *id,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_model_is_chosen_and_loaded() {
    let mut s = Script::picker();
    assert!(s.take().iter().any(|e| matches!(e, Effect::ScanLibrary)));
    found(&mut s);
    s.keys("enter");
    assert!(s.take().is_empty(), "a file that cannot be run stays closed");
    s.keys("down enter");
    let (id, options) = load(&s.take());
    assert_eq!(options.path.to_str(), Some("/models/beta.gguf"));
    s.engine(Event::LoadProgress { id, done_bytes: mib(10), total_bytes: mib(700), devices: vec![] });
    s.draw();
    s.engine(Event::Loaded { id, info: Box::new(model("/models/beta.gguf")) });
    assert_eq!(s.state.screen, Screen::Main);
    assert!(s.draw().contains("A model"));
    assert_eq!(asked(&s.ask("q").1).0, [("user", "q")]);
}

#[test]
fn a_click_loads_and_letters_filter() {
    let mut s = Script::picker();
    found(&mut s);
    s.type_text("gam");
    let first = s.place(|t| *t == Target::Item(0));
    s.click(first);
    assert_eq!(load(&s.take()).1.path.to_str(), Some("/models/gamma.gguf"));
}

#[test]
fn a_path_can_be_typed() {
    let mut s = Script::picker();
    found(&mut s);
    s.type_text("~/x.gguf");
    s.keys("enter");
    assert!(matches!(&s.take()[..], [Effect::Resolve(text)] if text == "~/x.gguf"));
    s.send(Msg::Resolved(Err("there is no such file".into())));
    assert_eq!(s.notices(), ["there is no such file"]);
    s.send(Msg::Resolved(Ok("/home/x.gguf".into())));
    assert_eq!(load(&s.take()).1.path.to_str(), Some("/home/x.gguf"));
}

#[test]
fn the_demo_model_is_fetched_and_loaded() {
    let mut s = Script::picker();
    s.take();
    s.send(Msg::Library(vec![]));
    s.draw();
    s.keys("enter");
    assert!(matches!(s.take()[..], [Effect::FetchDemo]));
    s.keys("enter");
    assert!(s.take().is_empty(), "it is on its way");
    s.send(Msg::Demo(DemoProgress::Bytes { done_bytes: mib(1), total_bytes: Some(mib(100)) }));
    s.send(Msg::Demo(DemoProgress::Failed("no network".into())));
    assert_eq!(s.notices(), ["no network"]);
    s.keys("enter");
    assert!(matches!(s.take()[..], [Effect::FetchDemo]));
    s.send(Msg::Demo(DemoProgress::Ready("/models/demo.gguf".into())));
    assert_eq!(load(&s.take()).1.path.to_str(), Some("/models/demo.gguf"));
}

#[test]
fn a_demo_model_that_comes_late_does_not_push_in() {
    let mut s = Script::loaded();
    s.send(Msg::Demo(DemoProgress::Ready("/models/demo.gguf".into())));
    assert!(commands(&s.take()).is_empty());
}

#[test]
fn a_load_that_fails_says_why_and_another_can_be_chosen() {
    let mut s = Script::picker();
    found(&mut s);
    s.keys("down enter");
    let id = load_id(&s.take());
    s.engine(Event::Failed { id, message: "it is truncated".into() });
    assert!(s.draw().contains("it is truncated"));
    assert_eq!(s.state.screen, Screen::Picker);
    s.keys("down enter");
    assert_eq!(load(&s.take()).1.path.to_str(), Some("/models/gamma.gguf"));
}

#[test]
fn esc_or_a_click_gives_a_load_up() {
    for by_mouse in [false, true] {
        let mut s = Script::picker();
        found(&mut s);
        s.keys("down enter");
        let load = load_id(&s.take());
        if by_mouse {
            let close = s.place(|t| *t == Target::Button(Action::Close));
            s.click(close);
        } else {
            s.keys("esc");
        }
        let unload = is_unload(&s.take());
        s.engine(Event::Failed { id: load, message: "cancelled".into() });
        s.engine(Event::Done { id: unload });
        // That is no failure.
        assert_eq!(s.notices(), ["loading was given up"]);
        assert!(matches!(s.state.model, ModelState::None));
        s.draw();
        s.keys("enter");
        assert_eq!(load_id(&s.take()).0, unload.0 + 1);
    }
}

#[test]
fn a_load_that_ended_just_before_it_was_given_up_leaves_no_model() {
    let mut s = Script::picker();
    found(&mut s);
    s.keys("down enter");
    let load = load_id(&s.take());
    s.keys("esc");
    let unload = is_unload(&s.take());
    s.engine(Event::Loaded { id: load, info: Box::new(model("/models/beta.gguf")) });
    s.engine(Event::Done { id: unload });
    assert!(matches!(s.state.model, ModelState::None) && s.state.layers.is_none());
    assert_eq!(s.state.screen, Screen::Picker);
}

#[test]
fn a_load_into_the_chat_is_given_up_with_esc_too() {
    let mut s = Script::begin(crate::ui::Start::Load(Box::new(options("/models/a.gguf"))));
    let load = load_id(&s.take());
    s.keys("esc");
    let unload = is_unload(&s.take());
    s.engine(Event::Failed { id: load, message: "cancelled".into() });
    s.engine(Event::Done { id: unload });
    assert!(matches!(s.state.model, ModelState::None));
}

#[test]
fn another_model_ends_what_was_said_of_the_first() {
    let mut s = Script::loaded();
    let (id, _) = s.ask("q");
    s.token(id, "a");
    s.finish(id, StopReason::Context);
    s.keys("ctrl+o");
    assert!(s.state.picker.is_scanning());
    found(&mut s);
    s.keys("down enter");
    let id = load_id(&s.take());
    // What the engine still says of the old one is not of the new one.
    s.send(Msg::Stats(Box::new(Stats { n_past: 990, decode_tokens_per_s: Some(40.0), ..Stats::default() })));
    s.engine(Event::Loaded { id, info: Box::new(model("/models/beta.gguf")) });
    assert!(!s.state.chat.context_full);
    assert_eq!((s.state.chat.n_past, s.state.chat.decode_tokens_per_s), (0, None));
    assert_eq!(s.texts(), ["q", "a"]);
    match &records(&s.take())[..] {
        [Record::Model(model)] => assert_eq!(model.path.to_str(), Some("/models/beta.gguf")),
        other => panic!("{other:?}"),
    }
}

#[test]
fn no_model_is_opened_over_an_answer_that_streams() {
    let mut s = Script::loaded();
    s.ask("q");
    s.keys("ctrl+o");
    found(&mut s);
    s.keys("down enter");
    assert!(commands(&s.take()).is_empty());
    assert!(s.notices().iter().any(|n| n.contains("stop it first")));
}

#[test]
fn esc_leads_back_to_where_words_are_else_out() {
    let mut s = Script::picker();
    found(&mut s);
    s.type_text("x");
    s.keys("esc");
    assert!(s.take().is_empty(), "the filter is emptied first");
    s.keys("esc");
    assert!(matches!(s.take()[..], [Effect::Quit]));
    let mut s = Script::loaded();
    s.keys("ctrl+o esc");
    assert_eq!(s.state.screen, Screen::Main);
    // With a chat that has no model any more, too.
    s.turn("q", "a");
    s.send(Msg::Resolved(Ok("/models/b.gguf".into())));
    let id = load_id(&s.take());
    s.engine(Event::Failed { id, message: "no".into() });
    s.keys("ctrl+o");
    s.take();
    s.keys("esc");
    assert!(s.take().is_empty());
    assert_eq!((s.state.screen, s.texts()), (Screen::Main, vec!["q".to_owned(), "a".into()]));
}

#[test]
fn ctrl_c_at_the_picker_leaves_the_input_behind_it_alone() {
    let mut s = Script::loaded();
    s.type_text("mine");
    s.keys("ctrl+o");
    s.take();
    s.keys("ctrl+c ctrl+c");
    assert!(matches!(s.take()[..], [Effect::Quit]));
    assert_eq!(s.input(), "mine");
}
