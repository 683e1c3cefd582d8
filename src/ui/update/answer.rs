//! An answer from its prompt to its end.

use std::collections::VecDeque;
use std::time::Duration;

use super::super::hits::PanelId;
use super::super::msg::Effect;
use super::super::state::{Asked, Level, ModelState, State, Streaming};
use super::super::text::{Piece, split_thinking};
use super::super::view::NEARLY_FULL;
use super::{Effects, layers, notice, session};
use crate::engine::protocol::{
    ChatMessage, Command, GenerateRequest, Prompt, RequestId, SamplerSettings, StopReason, Summary,
};
use crate::sessions::{Figures, Message, MessageEnd, MessageId, Record, Role};

/// At most so much of an answer is lost when the program is killed.
const SAVE_PERIOD: Duration = Duration::from_millis(500);
/// The rate that is shown is that of the tokens of this time.
const RATE_WINDOW: Duration = Duration::from_secs(2);

impl Streaming {
    /// Tokens a second of the last moments. `None` until there are some.
    pub fn rate(&self, now: Duration) -> Option<f64> {
        let first = *self.recent.front()?;
        let n = self.recent.len();
        let seconds = now.saturating_sub(first).as_secs_f64();
        (n >= 3 && seconds > 0.0).then(|| (n - 1) as f64 / seconds)
    }
}

/// Why nothing can be asked now, if so.
pub fn busy(state: &State) -> Option<&'static str> {
    if state.chat.opening {
        return Some("a session is being opened");
    }
    match (&state.model, &state.chat.streaming) {
        (_, Some(_)) => Some("an answer is streaming: stop it first (esc)"),
        (ModelState::Loaded(_), None) => None,
        (ModelState::Loading(_), None) => Some("the model is still loading"),
        (ModelState::None | ModelState::Failed { .. }, None) => Some("no model is open (ctrl+o opens one)"),
    }
}

/// Asks for an answer to the message `to`.
pub fn ask(state: &mut State, to: MessageId, fx: &mut Effects) {
    let answer = Message { parent: Some(to), ..Message::new(Role::Assistant, "") };
    let answer = state.chat.session.conversation.add(Message { at: state.clock, ..answer });
    let prompt = Prompt::Chat(messages(state, to));
    start(state, answer, prompt, fx);
}

/// Goes on with an answer that came to an end too early.
pub fn go_on(state: &mut State, answer: MessageId, fx: &mut Effects) {
    let prompt = Prompt::Continue(messages(state, answer));
    start(state, answer, prompt, fx);
}

/// The conversation up to a message, as the engine takes it.
fn messages(state: &State, last: MessageId) -> Vec<ChatMessage> {
    let system = state.chat.settings.system.iter().filter(|s| !s.trim().is_empty());
    let mut messages: Vec<_> =
        system.map(|text| ChatMessage { role: "system".into(), content: text.clone() }).collect();
    for message in state.chat.session.conversation.path() {
        messages.push(ChatMessage { role: message.role.name().into(), content: message.text.clone() });
        if message.id == last {
            break;
        }
    }
    messages
}

fn start(state: &mut State, answer: MessageId, prompt: Prompt, fx: &mut Effects) {
    let request = state.requests.new_id(Asked::Generate);
    let seed = state.chat.settings.seed.unwrap_or_else(|| state.next_seed());
    let generate = GenerateRequest {
        prompt,
        sampling: SamplerSettings { seed, ..state.chat.settings.sampling.clone() },
        stop: vec![],
        max_tokens: state.chat.settings.max_tokens,
        ignore_eog: false,
        reuse_cache: true,
    };
    fx.push(Effect::Engine(Command::Generate { id: request, request: Box::new(generate) }));
    let n_bytes = state.chat.session.conversation.get(answer).map_or(0, |m| m.text.len());
    state.chat.streaming = Some(Streaming {
        request,
        message: answer,
        since: state.now,
        stopping: false,
        prefill: None,
        n_cached: 0,
        n_tokens: 0,
        first_token_at: None,
        recent: VecDeque::new(),
        saved_at: state.now,
        saved_len: n_bytes,
        thinking_ended_at: None,
    });
    state.chat.top = None;
    state.chat.context_full = false;
    layers::restart_count(state);
}

fn streaming(state: &mut State, id: RequestId) -> Option<&mut Streaming> {
    state.chat.streaming.as_mut().filter(|s| s.request == id)
}

pub fn prefill_started(state: &mut State, id: RequestId, n_cached: usize, n_prompt: usize, thinks_first: bool) {
    let Some(streaming) = streaming(state, id) else { return };
    streaming.n_cached = n_cached;
    streaming.prefill = Some((n_cached, n_prompt));
    let message = streaming.message;
    let is_new = streaming.saved_len == 0;
    if is_new {
        state.chat.session.conversation.update(message, |m| m.thinks_first = thinks_first);
    }
}

pub fn prefill(state: &mut State, id: RequestId, n_done: usize, n_total: usize) {
    if let Some(streaming) = streaming(state, id) {
        streaming.prefill = Some((n_done, n_total));
    }
}

pub fn token(state: &mut State, id: RequestId, text: &str, fx: &mut Effects) {
    let now = state.now;
    let Some(streaming) = streaming(state, id) else { return };
    streaming.prefill = None;
    streaming.n_tokens += 1;
    streaming.first_token_at.get_or_insert(now);
    streaming.recent.push_back(now);
    while streaming.recent.len() > 2 && streaming.recent.front().is_some_and(|t| now.saturating_sub(*t) > RATE_WINDOW) {
        streaming.recent.pop_front();
    }
    let message = streaming.message;
    let watch_thought = streaming.thinking_ended_at.is_none();
    state.chat.session.conversation.append_text(message, text);
    layers::count_token(state);
    // A closing tag ends in one of these; without one there is nothing to look for.
    if watch_thought
        && text.contains(['>', ']'])
        && ends_thought(state, message)
        && let Some(streaming) = &mut state.chat.streaming
    {
        streaming.thinking_ended_at = Some(now);
    }
    save_when_due(state, fx);
}

/// Whether the text holds a thought that has ended. Looked at until it has.
fn ends_thought(state: &State, message: MessageId) -> bool {
    let Some(message) = state.chat.session.conversation.get(message) else { return false };
    split_thinking(&message.text, message.thinks_first, true)
        .iter()
        .any(|piece| matches!(piece, Piece::Thinking { closed: true, .. }))
}

/// Writes what came since the last time, when that is long enough ago.
pub fn save_when_due(state: &mut State, fx: &mut Effects) {
    let due = |s: &Streaming| state.now.saturating_sub(s.saved_at) >= SAVE_PERIOD;
    if state.chat.streaming.as_ref().is_some_and(due) {
        save_partial(state, fx);
    }
}

/// Writes what came since the last time.
pub fn save_partial(state: &mut State, fx: &mut Effects) {
    let now = state.now;
    let Some(streaming) = &mut state.chat.streaming else { return };
    let Some(message) = state.chat.session.conversation.get(streaming.message) else { return };
    let added = message.text.get(streaming.saved_len..).unwrap_or_default();
    if added.is_empty() {
        return;
    }
    fx.push(Effect::Record(Record::Partial(message.partial(added))));
    streaming.saved_at = now;
    streaming.saved_len = message.text.len();
}

pub fn finished(state: &mut State, id: RequestId, summary: Summary, fx: &mut Effects) {
    let Some(streaming) = state.chat.streaming.take_if(|s| s.request == id) else { return };
    let end = match summary.stop {
        StopReason::Eog | StopReason::StopText => MessageEnd::Complete,
        StopReason::MaxTokens => MessageEnd::MaxTokens,
        StopReason::Context => MessageEnd::ContextFull,
        StopReason::Stopped => MessageEnd::Stopped,
    };
    let thinking_ms = streaming
        .thinking_ended_at
        .zip(streaming.first_token_at)
        .map(|(to, from)| to.saturating_sub(from).as_secs_f64() * 1e3);
    let timings = &summary.timings;
    let full = end == MessageEnd::ContextFull;
    state.chat.session.conversation.update(streaming.message, |message| {
        let before = message.figures.unwrap_or_default();
        message.end = end;
        message.figures = Some(Figures {
            n_prompt: before.n_prompt + timings.prefill_tokens as u64,
            n_tokens: before.n_tokens + summary.ids.len() as u64,
            prefill_ms: before.prefill_ms + timings.prefill.as_secs_f64() * 1e3,
            decode_ms: before.decode_ms + timings.decode.as_secs_f64() * 1e3,
            thinking_ms: before.thinking_ms.or(thinking_ms),
        });
    });
    save_message(state, streaming.message, fx);
    if full {
        state.chat.context_full = true;
        notice(state, Level::Bad, "the context is full: ctrl+n starts a new session, --ctx makes it larger");
    } else {
        warn_when_nearly_full(state);
    }
}

pub fn warn_when_nearly_full(state: &mut State) {
    let Some(info) = state.model.info() else { return };
    let share = f64::from(state.chat.n_past) / f64::from(info.n_ctx.max(1));
    if share < NEARLY_FULL {
        state.chat.warned_nearly_full = false;
    } else if !state.chat.warned_nearly_full {
        state.chat.warned_nearly_full = true;
        notice(
            state,
            Level::Warn,
            format!("{:.0} % of the context is used: long answers may not fit any more", share * 100.0),
        );
    }
}

/// An answer that failed keeps what it had; a question that got nothing goes back to the input.
pub fn failed(state: &mut State, id: RequestId, error: String, fx: &mut Effects) {
    let Some(streaming) = state.chat.streaming.take_if(|s| s.request == id) else { return };
    notice(state, Level::Bad, error.clone());
    state.chat.session.conversation.update(streaming.message, |m| m.end = MessageEnd::Failed(error));
    save_message(state, streaming.message, fx);
    if !state.chat.editor.is_empty() || state.chat.editing.is_some() {
        return;
    }
    let conversation = &state.chat.session.conversation;
    let Some(answer) = conversation.get(streaming.message).filter(|m| m.text.is_empty()) else { return };
    let has_others = conversation.siblings(answer.id).is_some_and(|(_, n)| n > 1);
    let question = answer.parent.filter(|_| !has_others).and_then(|id| conversation.get(id));
    if let Some((id, text)) = question.map(|m| (m.id, m.text.clone())) {
        // Sent again it takes the place of the one that got nothing.
        state.chat.editing = Some(id);
        state.chat.editor.set_text(&text);
        state.focus = PanelId::Input;
    }
}

pub fn save_message(state: &mut State, id: MessageId, fx: &mut Effects) {
    session::describe(state, fx);
    if let Some(message) = state.chat.session.conversation.get(id) {
        fx.push(Effect::Record(Record::Message(message.clone())));
    }
}

pub fn stop(state: &mut State, fx: &mut Effects) {
    if let Some(streaming) = &mut state.chat.streaming
        && !streaming.stopping
    {
        streaming.stopping = true;
        super::tell(state, fx, |id| Command::Stop { id });
    }
}
