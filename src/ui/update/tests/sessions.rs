//! Sessions: listed, opened, renamed, deleted.

use super::script::*;
use crate::engine::protocol::*;
use crate::sessions::{Message, ModelRef, Record, Role, SessionId, SessionState, Settings};
use crate::ui::dialog::Dialog;
use crate::ui::msg::{Effect, Msg, OpenedSession, SessionRow};
use crate::ui::state::{ModelState, Screen};

fn id(text: &str) -> SessionId {
    text.parse().expect("an id")
}

fn row(name: &str) -> SessionRow {
    let at = "2026-11-30T08:00:00Z".parse().expect("a time");
    let head = crate::sessions::SessionHead {
        id: id(name),
        path: format!("/sessions/{name}.jsonl").into(),
        title: name.into(),
        created: at,
        changed: at,
        model: None,
        n_messages: 2,
        bytes: 100,
    };
    SessionRow { head, snippet: None }
}

/// With a question and its answer.
fn session(name: &str, model: &str, placement: &str) -> SessionState {
    let at = "2026-11-30T08:00:00Z".parse().expect("a time");
    let mut session = SessionState::new(id(name), at);
    let q = session.conversation.add(Message::new(Role::User, "then"));
    session.conversation.add(Message { parent: Some(q), ..Message::new(Role::Assistant, "now") });
    session.model =
        Some(ModelRef { path: model.into(), name: "A model".into(), n_ctx: N_CTX, kv: KvType::default().to_string() });
    session.placement = Some(placement.into());
    let sampling = SamplerSettings { temperature: 0.11, ..SamplerSettings::default() };
    session.settings = Some(Settings {
        sampling: serde_json::to_value(sampling).expect("settings"),
        system: Some("Rhyme.".into()),
        max_tokens: Some(99),
    });
    session
}

/// Chosen in the dialog.
fn choose(s: &mut Script, name: &str) {
    s.keys("ctrl+r");
    assert!(matches!(&s.take()[..], [Effect::ListSessions { query }] if query.is_empty()));
    s.send(Msg::Sessions { query: String::new(), rows: Ok(vec![row(name), row("other")]) });
    s.draw();
    s.keys("enter");
    assert!(matches!(&s.take()[..], [Effect::OpenSession(wanted)] if *wanted == id(name)));
    assert!(s.state.dialogs.is_empty());
}

fn opened(s: &mut Script, session: SessionState, model_is_there: bool) {
    let opened = OpenedSession { id: session.id.clone(), session, model_is_there };
    s.send(Msg::SessionOpened(Ok(Box::new(opened))));
    s.draw();
}

#[test]
fn a_session_of_the_same_model_brings_text_settings_and_placement_back() {
    let mut s = Script::loaded();
    s.turn("q", "a");
    s.type_text("not yet sent");
    choose(&mut s, "old");
    assert_eq!(s.texts(), ["q", "a"], "what is open stays until the other is here");
    let placement = "cuda0=embed,0-2; cpu0=3-11,head";
    opened(&mut s, session("old", "/models/a.gguf", placement), true);
    assert_eq!(s.texts(), ["then", "now"]);
    assert_eq!(s.input(), "not yet sent");
    match &commands(&s.take())[..] {
        [Command::Repartition { id, placement: wanted, when: When::NextPrefill }] => {
            assert_eq!(wanted, placement);
            s.engine(Event::Repartition { id: *id, state: switched(placement) });
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(s.now(), placement);
    s.take();
    s.keys("enter");
    let effects = s.take();
    let (_, request) = generate(&effects);
    assert_eq!((request.sampling.temperature, request.max_tokens), (0.11, Some(99)));
    let expected = vec![("system", "Rhyme."), ("user", "then"), ("assistant", "now"), ("user", "not yet sent")];
    assert_eq!(asked(&request), (expected, false));
    // All that is in the file already.
    assert!(matches!(records(&effects)[..], [Record::Message(_)]), "{effects:?}");
}

#[test]
fn a_session_where_the_layers_lie_as_they_lay_moves_nothing() {
    let mut s = Script::loaded();
    choose(&mut s, "old");
    // However it is written.
    opened(&mut s, session("old", "/models/a.gguf", "rocm0=6-9;cuda0=0-5,embed;cpu0=10-11,head"), true);
    assert!(commands(&s.take()).is_empty());
}

#[test]
fn a_placement_of_another_rig_or_model_is_not_used() {
    for placement in ["cuda7=embed,0-11,head", "cuda0=embed,0-99,head", "nonsense", "cuda0"] {
        let mut s = Script::loaded();
        choose(&mut s, "old");
        opened(&mut s, session("old", "/models/a.gguf", placement), true);
        assert!(commands(&s.take()).is_empty(), "{placement}");
        assert_eq!(s.texts(), ["then", "now"]);
    }
    for placement in ["cuda7=embed,0-11,head", "nonsense"] {
        let mut s = Script::loaded();
        choose(&mut s, "old");
        opened(&mut s, session("old", "/models/b.gguf", placement), true);
        assert_eq!(load(&s.take()).1.placement, None, "{placement}");
    }
}

#[test]
fn a_session_of_another_model_loads_it_where_it_lay() {
    let mut s = Script::loaded();
    choose(&mut s, "old");
    let placement = "cuda0=embed,0-2; cpu0=3-11,head";
    opened(&mut s, session("old", "/models/b.gguf", placement), true);
    let (load, options) = load(&s.take());
    assert_eq!((options.path.to_str(), options.n_ctx), (Some("/models/b.gguf"), Some(N_CTX)));
    assert_eq!(options.placement.as_deref(), Some(placement));
    // The text is there at once, the answer has to wait.
    assert_eq!(s.texts(), ["then", "now"]);
    s.type_text("more");
    s.keys("enter");
    assert!(s.notices().contains(&"the model is still loading"));
    assert_eq!(s.input(), "more");
    let info = ModelInfo { placement: placement.into(), ..model("/models/b.gguf") };
    s.engine(Event::Loaded { id: load, info: Box::new(info) });
    s.draw();
    s.take();
    s.keys("enter");
    assert_eq!(asked(&generate(&s.take()).1).0.last(), Some(&("user", "more")));
}

#[test]
fn a_session_with_another_kind_of_cache_is_loaded_anew() {
    let mut s = Script::loaded();
    choose(&mut s, "old");
    let mut old = session("old", "/models/a.gguf", PLACEMENT);
    if let Some(model) = &mut old.model {
        model.kv = "q8_0".into();
    }
    opened(&mut s, old, true);
    assert_eq!(load(&s.take()).1.kv, KvType::Q8_0);
}

#[test]
fn without_its_model_a_session_is_read_and_goes_on_with_another() {
    let mut s = Script::loaded();
    choose(&mut s, "old");
    opened(&mut s, session("old", "/models/gone.gguf", PLACEMENT), false);
    assert!(commands(&s.take()).is_empty());
    assert_eq!(s.texts(), ["then", "now"]);
    assert!(s.notices().iter().any(|n| n.contains("/models/gone.gguf is not there any more")));
    s.type_text("go on");
    s.keys("enter");
    let effects = s.take();
    assert!(matches!(records(&effects)[0], Record::Model(m) if m.path.to_str() == Some("/models/a.gguf")));
    generate(&effects);
}

#[test]
fn damage_is_told() {
    let mut s = Script::loaded();
    choose(&mut s, "old");
    opened(&mut s, SessionState { n_damaged_lines: 2, ..session("old", "/models/a.gguf", PLACEMENT) }, true);
    assert!(s.notices().iter().any(|n| n.contains("2 damaged lines were")));
}

#[test]
fn nothing_is_sent_into_a_session_that_is_not_here_yet() {
    let mut s = Script::loaded();
    s.turn("q", "a");
    choose(&mut s, "old");
    s.type_text("mine");
    s.keys("enter ctrl+n");
    assert!(s.take().is_empty());
    assert_eq!(s.input(), "mine");
    s.send(Msg::SessionOpened(Err("it is damaged".into())));
    assert!(s.notices().contains(&"it is damaged"));
    s.keys("enter");
    assert_eq!(asked(&generate(&s.take()).1).0.len(), 3);
}

#[test]
fn a_message_being_edited_is_given_up_with_its_session() {
    let mut s = Script::loaded();
    s.turn("q", "a");
    s.type_text("draft");
    s.keys("alt+c e");
    assert_eq!(s.input(), "q");
    s.keys("ctrl+n");
    assert_eq!((s.input(), s.texts().len()), ("draft", 0));
    s.take();
    s.keys("enter");
    assert_eq!(asked(&generate(&s.take()).1).0, [("user", "draft")]);
    assert_eq!(s.input(), "");
}

#[test]
fn a_new_session_leaves_the_old_ones_file() {
    let mut s = Script::loaded();
    s.turn("q", "a");
    s.send(Msg::SessionFile(id("mine")));
    let version = s.state.conversation_version;
    s.keys("ctrl+n");
    assert!(matches!(s.take()[..], [Effect::CloseSession]));
    assert!(s.texts().is_empty() && s.state.chat.id.is_none());
    assert_ne!(s.state.conversation_version, version);
    s.type_text("anew");
    s.keys("enter");
    // It says all of itself again.
    let effects = s.take();
    assert!(matches!(
        records(&effects)[..],
        [Record::Model(_), Record::Placement { .. }, Record::Settings(_), Record::Message(_)]
    ));
    assert_eq!(asked(&generate(&effects).1).0, [("user", "anew")]);
    s.keys("ctrl+n");
    assert!(s.take().is_empty(), "not while an answer streams");
}

/// In the dialog, with the session that is open as the first.
fn listed(s: &mut Script) {
    s.turn("q", "a");
    s.send(Msg::SessionFile(id("mine")));
    s.keys("ctrl+r");
    s.send(Msg::Sessions { query: String::new(), rows: Ok(vec![row("mine"), row("other")]) });
    s.draw();
    s.take();
}

#[test]
fn sessions_are_searched_and_late_rows_are_left_out() {
    let mut s = Script::loaded();
    listed(&mut s);
    s.type_text("xy");
    let queries: Vec<_> = s.take();
    assert!(
        matches!(&queries[..], [Effect::ListSessions { query: a }, Effect::ListSessions { query: b }] if a == "x" && b == "xy")
    );
    s.send(Msg::Sessions { query: "xy".into(), rows: Ok(vec![row("found")]) });
    s.send(Msg::Sessions { query: "x".into(), rows: Ok(vec![row("late")]) });
    assert_eq!(s.state.sessions, [row("found")]);
}

#[test]
fn sessions_are_renamed() {
    let mut s = Script::loaded();
    listed(&mut s);
    s.keys("ctrl+e ctrl+u");
    s.type_text("A title");
    s.keys("enter");
    let effects = s.take();
    assert!(matches!(&records(&effects)[..], [Record::Title { title }] if title == "A title"));
    assert!(effects.iter().any(|e| matches!(e, Effect::ListSessions { query } if query.is_empty())));
    assert_eq!(s.state.chat.session.shown_title(), "A title");
    assert!(matches!(s.state.dialogs[..], [Dialog::Sessions(_)]));
    s.keys("down ctrl+e ctrl+u");
    s.type_text("Another");
    s.keys("enter");
    let effects = s.take();
    assert!(matches!(&effects[0], Effect::RenameSession { id: i, title } if *i == id("other") && title == "Another"));
    assert!(records(&effects).is_empty());
}

#[test]
fn the_open_session_is_deleted_and_an_empty_one_follows() {
    let mut s = Script::loaded();
    listed(&mut s);
    s.type_text("q");
    s.send(Msg::Sessions { query: "q".into(), rows: Ok(vec![row("mine")]) });
    s.draw();
    s.take();
    s.keys("delete");
    assert!(s.take().is_empty(), "it is asked first");
    s.keys("y");
    match &s.take()[..] {
        // The file is let go first; then what was searched is listed without it.
        [Effect::CloseSession, Effect::DeleteSession(gone), Effect::ListSessions { query }] => {
            assert_eq!((gone, query.as_str()), (&id("mine"), "q"));
        }
        other => panic!("{other:?}"),
    }
    assert!(s.texts().is_empty() && s.state.chat.id.is_none());
}

#[test]
fn another_session_is_deleted_and_the_open_one_stays() {
    let mut s = Script::loaded();
    listed(&mut s);
    s.keys("down delete y");
    assert!(matches!(&s.take()[..], [Effect::DeleteSession(i), Effect::ListSessions { .. }] if *i == id("other")));
    assert_eq!(s.texts(), ["q", "a"]);
}

#[test]
fn a_session_is_not_deleted_while_its_answer_streams() {
    let mut s = Script::loaded();
    listed(&mut s);
    s.keys("esc");
    s.ask("more");
    s.keys("ctrl+r");
    s.take();
    s.keys("delete y");
    assert!(s.take().is_empty());
    assert_eq!(s.texts().len(), 4);
}

#[test]
fn the_program_may_begin_with_a_session() {
    let mut s = Script::begin(crate::ui::Start::Session(id("old")));
    assert!(s.take().iter().any(|e| matches!(e, Effect::OpenSession(i) if *i == id("old"))));
    opened(&mut s, session("old", "/models/a.gguf", PLACEMENT), true);
    assert_eq!(s.state.screen, Screen::Main);
    let (load, _) = load(&s.take());
    s.engine(Event::Loaded { id: load, info: Box::new(model("/models/a.gguf")) });
    assert!(matches!(s.state.model, ModelState::Loaded(_)));
    assert_eq!(s.now(), PLACEMENT);
}

#[test]
fn a_session_is_saved_as_text() {
    let mut s = Script::loaded();
    let save = |s: &mut Script| {
        s.keys("ctrl+p");
        s.type_text("as markdown");
        s.keys("enter");
        s.take()
    };
    assert!(save(&mut s).is_empty());
    assert!(s.notices().contains(&"there is nothing to save yet"));
    s.turn("q", "a");
    match &save(&mut s)[..] {
        [Effect::Export { text, extension: "md", title }] => {
            assert!(text.contains('q') && text.contains('a'));
            assert_eq!(title, "q");
        }
        other => panic!("{other:?}"),
    }
}
