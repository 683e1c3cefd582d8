//! What the lines of a session add up to.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};

use super::SessionId;
use super::conversation::Conversation;
use super::line::{Line, lines, read_line};
use super::record::{Message, MessageEnd, MessageId, ModelRef, Partial, Record, Role, Settings};
use super::store::TITLE_CHARS;

/// A session as it was left.
#[derive(Clone, PartialEq, Debug)]
pub struct SessionState {
    pub id: SessionId,
    /// Of its first message, should the header be lost.
    pub created: DateTime<Utc>,
    /// Given by the user.
    pub title: Option<String>,
    pub model: Option<ModelRef>,
    /// Placement text.
    pub placement: Option<String>,
    pub settings: Option<Settings>,
    pub conversation: Conversation,
    /// Lines that could not be read; each is lost alone.
    pub n_damaged_lines: usize,
    /// Lines of a later version, passed over. They stay in the file.
    pub n_unknown_lines: usize,
}

impl SessionState {
    /// One without a line.
    pub fn new(id: SessionId, created: DateTime<Utc>) -> SessionState {
        SessionState {
            id,
            created,
            title: None,
            model: None,
            placement: None,
            settings: None,
            conversation: Conversation::default(),
            n_damaged_lines: 0,
            n_unknown_lines: 0,
        }
    }

    /// Adds up the bytes of a file. Nothing of them is trusted, so this cannot fail.
    pub fn parse(id: SessionId, bytes: &[u8]) -> SessionState {
        let mut fold = Fold {
            state: SessionState::new(id, DateTime::UNIX_EPOCH),
            has_created: false,
            messages: BTreeMap::new(),
            shown: Vec::new(),
        };
        for line in lines(bytes) {
            match read_line(line) {
                Line::Good(record) => fold.add(record),
                Line::Unknown => fold.state.n_unknown_lines += 1,
                Line::Damaged => fold.state.n_damaged_lines += 1,
            }
        }
        fold.finish()
    }

    /// The title to show: the user's, or the beginning of the first question, or nothing. One line; still not fit
    /// for a terminal as it is.
    pub fn shown_title(&self) -> String {
        let first = self.conversation.messages().find(|m| m.role == Role::User);
        shown_title(self.title.as_deref(), first.map(|m| m.text.as_str()))
    }

    /// Records that add up to this.
    pub fn records(&self) -> Vec<Record> {
        let mut records = vec![Record::header(self.created)];
        records.extend(self.title.clone().map(|title| Record::Title { title }));
        records.extend(self.model.clone().map(Record::Model));
        records.extend(self.placement.clone().map(|text| Record::Placement { text }));
        records.extend(self.settings.clone().map(Record::Settings));
        records.extend(self.conversation.messages().cloned().map(Record::Message));
        records.extend(self.conversation.leaf().map(|id| Record::Leaf { id }));
        records
    }
}

/// See [`SessionState::shown_title`].
pub(super) fn shown_title(title: Option<&str>, first_question: Option<&str>) -> String {
    let text = title.or(first_question).unwrap_or_default();
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    match line.char_indices().nth(TITLE_CHARS) {
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or(line).trim_end()),
        None => line.to_owned(),
    }
}

/// Beyond it, JSON readers disagree on numbers, and the next one could not be counted.
const MAX_ID: MessageId = MessageId(1 << 53);

struct Fold {
    state: SessionState,
    has_created: bool,
    messages: BTreeMap<MessageId, Message>,
    /// Leaves in the order in which they were shown.
    shown: Vec<MessageId>,
}

impl Fold {
    fn add(&mut self, record: Record) {
        match record {
            Record::Header { version: _, created } => (self.state.created, self.has_created) = (created, true),
            Record::Title { title } => self.state.title = (!title.trim().is_empty()).then_some(title),
            Record::Model(model) => self.state.model = Some(model),
            Record::Placement { text } => self.state.placement = Some(text),
            Record::Settings(settings) => self.state.settings = Some(settings),
            Record::Message(Message { id, .. }) | Record::Partial(Partial { id, .. }) if id > MAX_ID => {
                self.state.n_damaged_lines += 1;
            }
            Record::Message(message) => {
                let id = message.id;
                if self.messages.insert(id, message).is_none() {
                    self.shown.push(id);
                }
            }
            Record::Partial(partial) => self.add_partial(partial),
            Record::Leaf { id } => self.shown.push(id),
        }
    }

    fn add_partial(&mut self, partial: Partial) {
        let Partial { id, parent, at, added, thinks_first } = partial;
        let shown = &mut self.shown;
        let message = self.messages.entry(id).or_insert_with(|| {
            shown.push(id);
            Message { id, parent, at, thinks_first, ..Message::new(Role::Assistant, "") }
        });
        message.text.push_str(&added);
        message.end = MessageEnd::Partial;
    }

    fn finish(self) -> SessionState {
        let mut state = self.state;
        if let (false, Some(first)) = (self.has_created, self.messages.values().next()) {
            state.created = first.at;
        }
        state.conversation = Conversation::rebuilt(self.messages, &self.shown);
        state
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sessions::line::write_line;
    use crate::sessions::record::now;

    fn id() -> SessionId {
        "test".parse().unwrap()
    }

    fn message(id: u64, parent: Option<u64>, role: Role, text: &str) -> Message {
        Message { id: MessageId(id), parent: parent.map(MessageId), ..Message::new(role, text) }
    }

    fn parse(records: &[Record]) -> SessionState {
        let text: String = records.iter().map(|r| write_line(r).unwrap()).collect();
        SessionState::parse(id(), text.as_bytes())
    }

    fn texts(state: &SessionState) -> Vec<String> {
        state.conversation.path().iter().map(|m| m.text.clone()).collect()
    }

    #[test]
    fn a_finished_message_replaces_its_partials_and_a_crash_leaves_them() {
        let question = Record::Message(message(1, None, Role::User, "q"));
        let answer = message(2, Some(1), Role::Assistant, "");
        let partials = ["It ", "rains "].map(|added| Record::Partial(answer.partial(added)));
        let crashed = [std::slice::from_ref(&question), &partials[..]].concat();
        let state = parse(&crashed);
        assert_eq!(texts(&state), ["q", "It rains "]);
        assert_eq!(state.conversation.get(MessageId(2)).unwrap().end, MessageEnd::Partial);

        let whole = Message { text: "It rains much.".to_owned(), ..answer.clone() };
        let finished = [&crashed[..], &[Record::Message(whole.clone())]].concat();
        let state = parse(&finished);
        assert_eq!(texts(&state), ["q", "It rains much."]);
        assert_eq!(state.conversation.get(MessageId(2)), Some(&whole));

        // Continued, and killed again.
        let continued = [&finished[..], &[Record::Partial(answer.partial(" Take"))]].concat();
        let state = parse(&continued);
        assert_eq!(texts(&state), ["q", "It rains much. Take"]);
        assert_eq!(state.conversation.get(MessageId(2)).unwrap().end, MessageEnd::Partial);

        // Without its first partial, the rest still stands where it belongs.
        let state = parse(&[question, partials[1].clone()]);
        assert_eq!(texts(&state), ["q", "rains "]);
    }

    #[test]
    fn a_lost_message_leaves_the_others_in_their_order() {
        let records: Vec<_> =
            (1..=6).map(|n| Record::Message(message(n, (n > 1).then(|| n - 1), Role::User, &n.to_string()))).collect();
        assert_eq!(texts(&parse(&records)), ["1", "2", "3", "4", "5", "6"]);
        let mut lost = records.clone();
        lost.drain(2..4);
        assert_eq!(texts(&parse(&lost)), ["1", "2", "5", "6"]);
        lost.remove(0);
        assert_eq!(texts(&parse(&lost)), ["2", "5", "6"]);
    }

    #[test]
    fn the_last_of_each_fact_counts() {
        let title = |title: &str| Record::Title { title: title.to_owned() };
        let settings = |max_tokens| {
            Record::Settings(Settings {
                sampling: serde_json::json!({ "temperature": 0.5, "seed": u64::MAX }),
                system: None,
                max_tokens,
            })
        };
        let state = parse(&[settings(None), title("a"), settings(Some(3)), title("b")]);
        assert_eq!(state.title.as_deref(), Some("b"));
        let settings = state.settings.unwrap();
        assert_eq!((settings.max_tokens, &settings.sampling["seed"]), (Some(3), &serde_json::json!(u64::MAX)));
        assert_eq!(parse(&[title("a"), title(" ")]).title, None);
    }

    #[test]
    fn shown_titles_are_short_and_one_line() {
        assert_eq!(shown_title(None, Some("\n  How are you?\nFine")), "How are you?");
        assert_eq!(shown_title(Some("Rain"), Some("How")), "Rain");
        assert_eq!(shown_title(None, None), "");
        assert_eq!(shown_title(None, Some(&"é".repeat(200))), format!("{}…", "é".repeat(TITLE_CHARS)));
    }

    #[test]
    fn records_add_up_to_the_same_session() {
        let sampling = serde_json::json!({ "temperature": 0.5 });
        let figures = crate::sessions::Figures { n_tokens: 3, decode_ms: 12.125, ..Default::default() };
        let mut answer = message(2, Some(1), Role::Assistant, "a");
        (answer.figures, answer.thinks_first, answer.end) = (Some(figures), true, MessageEnd::Failed("x".to_owned()));
        let model = ModelRef { path: "a/b.gguf".into(), name: "b".to_owned(), n_ctx: 4096, kv: "f16".to_owned() };
        let state = parse(&[
            Record::header(now()),
            Record::Title { title: "t".to_owned() },
            Record::Model(model.clone()),
            Record::Placement { text: "cpu0=*".to_owned() },
            Record::Settings(Settings { sampling, system: Some("s".to_owned()), max_tokens: Some(9) }),
            Record::Message(message(1, None, Role::User, "q")),
            Record::Message(answer.clone()),
            Record::Message(message(3, Some(1), Role::Assistant, "b")),
            Record::Leaf { id: MessageId(2) },
        ]);
        assert_eq!((&state.model, state.conversation.get(MessageId(2))), (&Some(model), Some(&answer)));
        assert_eq!((texts(&state), state.n_damaged_lines), (vec!["q".to_owned(), "a".to_owned()], 0));
        assert_eq!(parse(&state.records()), state);
    }

    #[test]
    fn absurd_numbers_are_damage() {
        let state = parse(&[Record::Message(message(u64::MAX, None, Role::User, "q"))]);
        assert_eq!((state.n_damaged_lines, state.conversation.is_empty()), (1, true));
        let nameless = SessionState::parse(id(), b"{\"kind\":\"mood\"}\n\xff\xfe\n\n{}");
        assert_eq!((nameless.n_unknown_lines, nameless.n_damaged_lines), (1, 2));
    }
}
