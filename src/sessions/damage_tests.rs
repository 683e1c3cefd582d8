//! What becomes of sessions when files are damaged, programs killed and two want the same one.

use std::collections::BTreeSet;
use std::path::PathBuf;

use proptest::prelude::*;

use super::line::write_line;
use super::*;

fn message(id: u64, parent: Option<u64>, role: Role, text: &str) -> Message {
    Message { id: MessageId(id), parent: parent.map(MessageId), ..Message::new(role, text) }
}

/// Messages 1 to `n`, each following the one before.
fn chat(n: u64) -> Vec<Record> {
    let message = |id: u64| {
        let role = if id % 2 == 1 { Role::User } else { Role::Assistant };
        Record::Message(message(id, (id > 1).then(|| id - 1), role, &format!("text {id} \u{1b}[2J é\nend")))
    };
    (1..=n).map(message).collect()
}

fn state(bytes: &[u8]) -> SessionState {
    SessionState::parse("test".parse().unwrap(), bytes)
}

fn ids(state: &SessionState) -> BTreeSet<u64> {
    state.conversation.messages().map(|m| m.id.0).collect()
}

struct Folder {
    _temp: tempfile::TempDir,
    store: SessionStore,
}

fn folder() -> Folder {
    let temp = tempfile::tempdir().unwrap();
    Folder { store: SessionStore::new(temp.path().join("sessions")), _temp: temp }
}

/// A session of these texts, said in turn.
fn say(store: &SessionStore, texts: &[&str]) -> (SessionState, SessionWriter) {
    let (mut state, mut writer) = store.create();
    for (i, text) in texts.iter().enumerate() {
        let role = if i % 2 == 0 { Role::User } else { Role::Assistant };
        let at = state.created + chrono::TimeDelta::milliseconds(i as i64);
        let parent = state.conversation.leaf();
        let id = state.conversation.add(Message { parent, at, ..Message::new(role, *text) });
        writer.append(&Record::Message(state.conversation.get(id).unwrap().clone())).unwrap();
    }
    (state, writer)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// A changed byte costs its line; a changed line break costs the two lines that it stood between.
    #[test]
    fn a_changed_byte_costs_its_line_alone(n in 1..8_u64, at in any::<prop::sample::Index>(), flip in 1..=255_u8) {
        let lines: Vec<String> = chat(n).iter().map(|r| write_line(r).unwrap()).collect();
        let mut bytes = lines.concat().into_bytes();
        let at = at.index(bytes.len());
        bytes[at] ^= flip;
        let mut start = 0;
        let mut expected = BTreeSet::new();
        for (i, line) in lines.iter().enumerate() {
            let end = start + line.len();
            let is_after_lost_break = i > 0 && at + 1 == start;
            if !(start..end).contains(&at) && !is_after_lost_break {
                expected.insert(i as u64 + 1);
            }
            start = end;
        }
        let damaged = state(&bytes);
        let left = ids(&damaged);
        prop_assert!(left.is_superset(&expected), "{left:?} {expected:?}");
        let n_lost = n as usize - left.len();
        prop_assert!(n_lost == 0 || damaged.n_damaged_lines >= 1, "what is lost is reported");
        let whole = state(lines.concat().as_bytes());
        for m in damaged.conversation.messages() {
            let original = whole.conversation.get(m.id).expect("no message is made up");
            prop_assert_eq!(&m.text, &original.text);
        }
        prop_assert_eq!(damaged.conversation.path().len(), left.len(), "all of them are still reached");
    }

    #[test]
    fn cut_lines_cost_themselves(n in 1..8_u64, cuts in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 0..4)) {
        let mut lines: Vec<Vec<u8>> =
            chat(n).iter().map(|r| write_line(r).unwrap().trim_end().as_bytes().to_vec()).collect();
        let mut expected: BTreeSet<u64> = (1..=n).collect();
        for (line, at) in cuts {
            let line = line.index(lines.len());
            if lines[line].len() > 1 {
                let end = 1 + at.index(lines[line].len() - 1);
                lines[line].truncate(end);
                expected.remove(&(line as u64 + 1));
            }
        }
        let damaged = state(&lines.join(&b'\n'));
        prop_assert_eq!(ids(&damaged), expected.clone());
        prop_assert_eq!(damaged.n_damaged_lines, n as usize - expected.len());
    }

    #[test]
    fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(state(&bytes).conversation.is_empty());
    }
}

#[test]
fn a_kill_at_any_byte_loses_at_most_the_line_being_written() {
    let Folder { store, _temp } = folder();
    let (state, writer) = say(&store, &["q1", "a1", "q2", "a2"]);
    let (id, path): (_, PathBuf) = (state.id, writer.path().to_owned());
    drop(writer);
    let whole = std::fs::read(&path).unwrap();
    for n in 0..=whole.len() {
        std::fs::write(&path, &whole[..n]).unwrap();
        let n_whole = whole[..n].iter().filter(|&&b| b == b'\n').count();
        let (mut state, mut writer) = store.open(&id).unwrap();
        let n_messages = state.conversation.n_messages();
        // A line that only lacks its break is whole.
        let expected = n_whole.saturating_sub(1);
        assert!(n_messages == expected || (n_messages == expected + 1 && whole[n] == b'\n'), "{n}");
        assert!(state.n_damaged_lines <= 1);

        let parent = state.conversation.leaf();
        let new = state.conversation.add(Message { parent, ..Message::new(Role::User, "after the kill") });
        writer.append(&Record::Message(state.conversation.get(new).unwrap().clone())).unwrap();
        drop(writer);
        let again = store.read(&id).unwrap();
        assert_eq!(again.conversation, state.conversation, "{n}");
        assert_eq!(again.n_damaged_lines, state.n_damaged_lines, "{n}");
    }
}

#[test]
fn two_writers_cannot_have_one_session() {
    let Folder { store, _temp } = folder();
    let (first, mut writer) = say(&store, &["question", "answer"]);
    let refused = store.open(&first.id).unwrap_err();
    assert!(matches!(refused, SessionError::InUse { .. }), "{refused}");
    assert_eq!(
        refused.to_string(),
        format!("session {} is open in another program; close it there, or open a copy", first.id)
    );
    assert!(matches!(store.rename(&first.id, "x"), Err(SessionError::InUse { .. })));
    assert!(matches!(store.delete(&first.id), Err(SessionError::InUse { .. })));
    assert_eq!(store.read(&first.id).unwrap().conversation, first.conversation, "reading is free");

    let (copy, mut copy_writer) = store.open_copy(&first.id).unwrap();
    assert_eq!((&copy.conversation, copy.title.as_deref()), (&first.conversation, Some("question (copy)")));
    assert_eq!(store.list().unwrap().sessions.len(), 1, "an unused copy leaves no file");
    let added = |text: &str| Record::Message(message(3, Some(2), Role::User, text));
    copy_writer.append(&added("in the copy")).unwrap();
    writer.append(&added("in the first")).unwrap();
    let last = |id: &SessionId| store.read(id).unwrap().conversation.path().last().unwrap().text.clone();
    assert_eq!((last(copy_writer.id()), last(&first.id)), ("in the copy".to_owned(), "in the first".to_owned()));

    drop(writer);
    assert_eq!(store.open(&first.id).unwrap().0.conversation.n_messages(), 3);
}

#[test]
fn lists_renames_and_deletes() {
    let Folder { store, _temp } = folder();
    assert!(store.list().unwrap().sessions.is_empty(), "a missing folder is empty");
    let (a, mut writer) = say(&store, &["first question\nmore", "answer", "second"]);
    let model = ModelRef { path: "m.gguf".into(), name: "M".to_owned(), n_ctx: 512, kv: "f16".to_owned() };
    writer.append(&Record::Model(model)).unwrap();
    drop(writer);
    let (b, _) = say(&store, &["another"]);
    let later = Message { at: b.created + chrono::TimeDelta::seconds(9), ..message(2, Some(1), Role::Assistant, "x") };
    store.open(&b.id).unwrap().1.append(&Record::Message(later.clone())).unwrap();
    std::fs::write(store.folder().join("notes.txt"), "x").unwrap();
    std::fs::create_dir(store.folder().join("folder.jsonl")).unwrap();

    let listed = store.list().unwrap();
    assert_eq!(listed.unreadable.len(), 1, "{:?}", listed.unreadable);
    let heads = listed.sessions;
    assert_eq!(heads.iter().map(|h| &h.id).collect::<Vec<_>>(), [&b.id, &a.id], "newest first");
    assert_eq!((heads[1].title.as_str(), heads[1].n_messages), ("first question", 3));
    assert_eq!((heads[1].model.as_deref(), heads[0].model.as_deref()), (Some("M"), None));
    assert_eq!((heads[1].created, heads[0].changed), (a.created, later.at));
    assert_eq!(heads[1].bytes, std::fs::metadata(&heads[1].path).unwrap().len());

    store.rename(&a.id, "Of rain").unwrap();
    let title = || store.list().unwrap().sessions[1].title.clone();
    assert_eq!((title(), store.read(&a.id).unwrap().shown_title()), ("Of rain".into(), "Of rain".into()));
    store.rename(&a.id, "").unwrap();
    assert_eq!(title(), "first question");

    store.delete(&b.id).unwrap();
    assert_eq!(store.list().unwrap().sessions.len(), 1);
    for gone in [store.delete(&b.id), store.rename(&b.id, "x"), store.read(&b.id).map(drop)] {
        assert!(matches!(gone, Err(SessionError::NotFound { .. })), "{gone:?}");
    }
}

#[test]
fn search_wants_every_word_in_whichever_case() {
    let Folder { store, _temp } = folder();
    let (a, _) = say(&store, &["Why does it rain in ÜBERLINGEN?", "Clouds,\n\u{1b}[2J of course."]);
    let (b, _) = say(&store, &["Clouds?"]);
    let found = |query: &str| {
        let found = store.search(query).unwrap().sessions;
        found.into_iter().map(|f| (f.head.id, f.snippet)).collect::<Vec<_>>()
    };
    assert_eq!(found("überlingen  cloud").len(), 1);
    assert_eq!(found("COURSE"), [(a.id.clone(), "Clouds, \u{1b}[2J of course.".to_owned())]);
    assert_eq!(found("clouds").len(), 2);
    assert_eq!(found("").len(), 2);
    assert!(found("clouds snow").is_empty());
    store.rename(&b.id, "Snow").unwrap();
    assert_eq!(found("clouds snow"), [(b.id.clone(), "Clouds?".to_owned())]);
    assert_eq!(found("snow"), [(b.id, String::new())], "only the title has it");
}
