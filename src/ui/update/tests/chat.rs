//! Questions, answers, branches.

use super::script::*;
use crate::engine::protocol::*;
use crate::sessions::{MessageEnd, Record, Role};
use crate::ui::hits::PanelId;
use crate::ui::msg::{Effect, Msg};
use crate::ui::state::Level;

fn stops(effects: &[Effect]) -> usize {
    commands(effects).iter().filter(|c| matches!(c, Command::Stop { .. })).count()
}

#[test]
fn a_question_is_asked_answered_and_kept() {
    let mut s = Script::loaded();
    s.state.chat.settings.system = Some("Be brief.".into());
    s.type_text("What is  rust?");
    s.keys("enter");
    let effects = s.take();
    let (id, request) = generate(&effects);
    assert_eq!(asked(&request), (vec![("system", "Be brief."), ("user", "What is  rust?")], false));
    assert!(effects.iter().any(|e| matches!(e, Effect::RememberPrompt(p) if p == "What is  rust?")));
    // What the session is about comes before its first message.
    match &records(&effects)[..] {
        [Record::Model(model), Record::Placement { text }, Record::Settings(settings), Record::Message(question)] => {
            assert_eq!((model.name.as_str(), text.as_str()), ("A model", PLACEMENT));
            assert_eq!(settings.system.as_deref(), Some("Be brief."));
            assert_eq!((question.role, question.text.as_str()), (Role::User, "What is  rust?"));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(s.input(), "");

    s.engine(Event::PrefillStarted { id, prompt_ids: vec![1; 9], n_cached: 0, thinks_first: false });
    s.token(id, "A lan");
    s.token(RequestId(9999), "nonsense");
    s.token(id, "guage.");
    assert_eq!(s.texts(), ["What is  rust?", "A language."]);
    s.finish(id, StopReason::Eog);
    let effects = s.take();
    match &records(&effects)[..] {
        [Record::Message(answer)] => {
            assert_eq!((answer.role, answer.text.as_str()), (Role::Assistant, "A language."));
            assert_eq!(answer.end, MessageEnd::Complete);
            assert_eq!(answer.figures.expect("figures").n_tokens, 4);
        }
        other => panic!("{other:?}"),
    }
    // The next one has all of it before it.
    let (_, request) = s.ask("More?");
    let texts: Vec<_> = asked(&request).0.into_iter().map(|(_, text)| text).collect();
    assert_eq!(texts, ["Be brief.", "What is  rust?", "A language.", "More?"]);
}

#[test]
fn seeds_differ_from_answer_to_answer_unless_one_is_set() {
    let mut s = Script::loaded();
    let (id, first) = s.ask("a");
    s.finish(id, StopReason::Eog);
    s.take();
    let (id, second) = s.ask("b");
    s.finish(id, StopReason::Eog);
    s.take();
    assert_ne!(first.sampling.seed, second.sampling.seed);
    s.state.chat.settings.seed = Some(7);
    assert_eq!(s.ask("c").1.sampling.seed, 7);
}

#[test]
fn an_answer_is_written_twice_a_second_with_what_was_added() {
    let mut s = Script::loaded();
    let (id, _) = s.ask("q");
    let mut added = vec![];
    for i in 0..20 {
        s.wait(100);
        s.token(id, &format!("{i} "));
        for record in records(&s.take()) {
            match record {
                Record::Partial(partial) => added.push(partial.added.clone()),
                other => panic!("{other:?}"),
            }
        }
    }
    assert_eq!(added, ["0 1 2 3 ", "4 5 6 7 8 ", "9 10 11 12 13 ", "14 15 16 17 18 "]);
    // Who quits in the middle loses nothing.
    s.token(id, "the last words");
    s.keys("ctrl+q");
    match &s.take()[..] {
        [Effect::Record(Record::Partial(partial)), Effect::Quit] => assert_eq!(partial.added, "19 the last words"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn esc_stops_once_and_what_came_stays() {
    let mut s = Script::loaded();
    let (id, _) = s.ask("q");
    s.token(id, "half an");
    s.keys("esc esc");
    assert_eq!(stops(&s.take()), 1);
    s.token(id, " answer");
    s.finish(id, StopReason::Stopped);
    let effects = s.take();
    match &records(&effects)[..] {
        [Record::Message(m)] => assert_eq!((m.text.as_str(), &m.end), ("half an answer", &MessageEnd::Stopped)),
        other => panic!("{other:?}"),
    }
    // Nothing is left to be stopped.
    s.keys("esc");
    assert_eq!(stops(&s.take()), 0);
    // Esc elsewhere leads back to the input; asked for by name, it stops from everywhere.
    s.ask("r");
    s.keys("alt+d esc alt+d ctrl+p");
    assert_eq!(stops(&s.take()), 0);
    s.type_text("stop the answer");
    s.keys("enter");
    assert_eq!(stops(&s.take()), 1);
}

#[test]
fn nothing_is_sent_while_an_answer_streams_and_nothing_is_lost() {
    let mut s = Script::loaded();
    let (id, _) = s.ask("first");
    s.token(id, "x");
    s.type_text("second");
    s.keys("enter");
    assert!(commands(&s.take()).is_empty());
    assert_eq!(s.input(), "second");
    assert!(s.notices().iter().any(|n| n.contains("stop it first")), "{:?}", s.notices());
    s.finish(id, StopReason::Eog);
    s.take();
    s.keys("enter");
    assert_eq!(asked(&generate(&s.take()).1).0.last(), Some(&("user", "second")));
}

#[test]
fn a_failed_answer_keeps_its_text() {
    let mut s = Script::loaded();
    let (id, _) = s.ask("q");
    s.token(id, "so far");
    s.take();
    s.engine(Event::Failed { id, message: "cuda0: lost".into() });
    let effects = s.take();
    match &records(&effects)[..] {
        [Record::Message(m)] => {
            assert_eq!((m.text.as_str(), &m.end), ("so far", &MessageEnd::Failed("cuda0: lost".into())));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!((s.input(), s.notices()), ("", vec!["cuda0: lost"]));
    assert!(s.state.chat.streaming.is_none());
}

#[test]
fn a_question_that_got_nothing_comes_back_and_is_not_asked_twice() {
    let mut s = Script::loaded();
    s.turn("hello", "hi");
    let (id, _) = s.ask("far too long");
    s.engine(Event::Failed { id, message: "the prompt is longer than the context".into() });
    assert_eq!(s.input(), "far too long");
    s.take();
    s.keys("backspace enter");
    let (id, request) = generate(&s.take());
    let texts: Vec<_> = asked(&request).0.into_iter().map(|(_, text)| text.to_owned()).collect();
    assert_eq!(texts, ["hello", "hi", "far too lon"]);
    assert_eq!(s.input(), "");
    // Where something else was begun meanwhile, that stays.
    s.type_text("meanwhile");
    s.engine(Event::Failed { id, message: "no".into() });
    assert_eq!(s.input(), "meanwhile");
}

#[test]
fn an_answer_made_anew_is_a_branch_and_both_are_reached() {
    let mut s = Script::loaded();
    s.turn("q", "first");
    s.keys("alt+c r");
    let (id, request) = generate(&s.take());
    assert_eq!(asked(&request), (vec![("user", "q")], false));
    s.token(id, "second");
    s.finish(id, StopReason::Eog);
    assert_eq!(s.texts(), ["q", "second"]);
    s.take();
    s.keys("left");
    assert_eq!(s.texts(), ["q", "first"]);
    assert!(matches!(records(&s.take())[..], [Record::Leaf { .. }]));
    s.keys("right");
    assert_eq!(s.texts(), ["q", "second"]);
    s.keys("right");
    assert_eq!(s.texts(), ["q", "second"]);
    assert!(s.notices().iter().any(|n| n.contains("last of its branches")));
}

#[test]
fn a_failed_try_beside_an_answer_leaves_the_input_alone() {
    let mut s = Script::loaded();
    s.turn("q", "first");
    s.keys("alt+c r");
    let (id, _) = generate(&s.take());
    s.engine(Event::Failed { id, message: "no".into() });
    assert_eq!(s.input(), "");
    assert_eq!(s.state.chat.editing, None);
}

#[test]
fn the_last_question_without_an_answer_is_the_one_that_is_answered() {
    let mut s = Script::loaded();
    s.turn("q", "a");
    let leaf = s.state.chat.session.conversation.leaf();
    let lost = crate::sessions::Message { parent: leaf, ..crate::sessions::Message::new(Role::User, "lost") };
    s.state.chat.session.conversation.add(lost);
    s.draw();
    s.keys("alt+c r");
    assert_eq!(asked(&generate(&s.take()).1).0.last(), Some(&("user", "lost")));
}

#[test]
fn an_earlier_message_is_edited_in_a_branch_and_the_draft_comes_back() {
    let mut s = Script::loaded();
    s.turn("one", "1");
    s.turn("two", "2");
    s.type_text("not yet sent");
    s.keys("alt+c up up up up e");
    assert_eq!((s.input(), s.state.focus), ("one", PanelId::Input));
    s.type_text("!");
    s.keys("enter");
    let (id, request) = generate(&s.take());
    assert_eq!(asked(&request), (vec![("user", "one!")], false));
    assert_eq!(s.input(), "not yet sent");
    s.token(id, "1!");
    s.finish(id, StopReason::Eog);
    assert_eq!(s.texts(), ["one!", "1!"]);
    s.keys("alt+c h");
    assert_eq!(s.texts(), ["one", "1", "two", "2"]);
}

#[test]
fn editing_is_given_up_with_esc_or_ctrl_c_and_the_draft_comes_back() {
    for key in ["esc", "ctrl+c"] {
        let mut s = Script::loaded();
        s.turn("one", "1");
        s.type_text("draft");
        s.keys("alt+c e");
        assert_eq!(s.input(), "one");
        s.type_text("!");
        s.keys(key);
        assert_eq!((s.input(), s.state.chat.editing), ("draft", None), "{key}");
        // What was changed is not lost.
        s.keys("up");
        assert_eq!(s.input(), "one!", "{key}");
    }
}

#[test]
fn an_answer_goes_on_where_it_ended() {
    let mut s = Script::loaded();
    let (id, _) = s.ask("q");
    s.token(id, "half");
    s.finish(id, StopReason::MaxTokens);
    s.take();
    let before = s.state.chat.session.conversation.leaf();
    s.keys("alt+c g");
    let (id, request) = generate(&s.take());
    assert_eq!(asked(&request), (vec![("user", "q"), ("assistant", "half")], true));
    s.wait(600);
    s.token(id, " whole");
    match &records(&s.take())[..] {
        [Record::Partial(partial)] => assert_eq!(partial.added, " whole"),
        other => panic!("{other:?}"),
    }
    s.finish(id, StopReason::Eog);
    assert_eq!(s.state.chat.session.conversation.leaf(), before);
    assert_eq!(s.texts(), ["q", "half whole"]);
    match &records(&s.take())[..] {
        [Record::Message(m)] => {
            assert_eq!((m.end.clone(), m.figures.expect("figures").n_tokens), (MessageEnd::Complete, 8))
        }
        other => panic!("{other:?}"),
    }
    // One that fails before its first token leaves the input alone: there is an answer.
    s.keys("alt+c g");
    let (id, _) = generate(&s.take());
    s.engine(Event::Failed { id, message: "no".into() });
    assert_eq!((s.input(), s.texts()), ("", vec!["q".to_owned(), "half whole".into()]));
}

#[test]
fn a_context_that_is_nearly_full_is_told_once() {
    let mut s = Script::loaded();
    let told = |s: &Script| s.notices().iter().filter(|n| n.contains("of the context is used")).count();
    s.turn("q", "a");
    let stats = |n_past| Msg::Stats(Box::new(Stats { n_past, n_ctx: N_CTX, ..Stats::default() }));
    s.send(stats(500));
    assert_eq!(told(&s), 0);
    s.send(stats(950));
    assert_eq!(told(&s), 1);
    s.wait(10_000);
    assert_eq!(told(&s), 0);
    s.turn("q", "a");
    s.send(stats(970));
    assert_eq!(told(&s), 0);
}

#[test]
fn a_full_context_is_told_and_shown() {
    let mut s = Script::loaded();
    let (id, _) = s.ask("q");
    s.token(id, "a");
    s.finish(id, StopReason::Context);
    assert!(s.state.chat.context_full);
    let full = |s: &Script| {
        s.state.notices.iter().filter(|n| n.level == Level::Bad && n.text.contains("context is full")).count()
    };
    assert_eq!(full(&s), 1);
    s.keys("ctrl+n");
    assert!(!s.state.chat.context_full);
    assert_eq!(full(&s), 0);
}

#[test]
fn thoughts_are_timed() {
    let mut s = Script::loaded();
    let (id, _) = s.ask("q");
    s.engine(Event::PrefillStarted { id, prompt_ids: vec![1; 9], n_cached: 0, thinks_first: true });
    s.token(id, "hm");
    s.wait(1500);
    s.token(id, "</think>");
    s.wait(900);
    s.token(id, "yes");
    s.finish(id, StopReason::Eog);
    let effects = s.take();
    let last = records(&effects).into_iter().next_back();
    match last {
        Some(Record::Message(m)) => {
            assert!(m.thinks_first);
            assert_eq!(m.figures.and_then(|f| f.thinking_ms), Some(1500.0));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn messages_and_code_are_copied() {
    let mut s = Script::loaded();
    s.turn("q", "a\n\n```sh\nls\n```\n\n```sh\npwd\n```\n");
    let copied = |s: &mut Script, keys: &str| {
        s.take();
        s.keys(keys);
        match &s.take()[..] {
            [Effect::Copy(text)] => text.trim_end().to_owned(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(copied(&mut s, "alt+c c"), "ls");
    assert_eq!(copied(&mut s, "c"), "pwd");
    assert_eq!(copied(&mut s, "c"), "ls");
    assert!(copied(&mut s, "y").starts_with("a\n"));
    s.keys("up up");
    assert_eq!(copied(&mut s, "y"), "q");
}
