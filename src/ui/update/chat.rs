//! What the user does with the conversation.

use super::super::hits::PanelId;
use super::super::msg::Effect;
use super::super::state::{Level, State};
use super::super::text::Document;
use super::{Effects, answer, notice};
use crate::sessions::{Message, MessageId, Record, Role};

/// Sends what the input holds.
pub fn send(state: &mut State, fx: &mut Effects) {
    if state.chat.editor.text().trim().is_empty() {
        return;
    }
    if let Some(why) = answer::busy(state) {
        return notice(state, Level::Warn, why);
    }
    let text = state.chat.editor.take();
    fx.push(Effect::RememberPrompt(text.clone()));
    state.chat.editor.push_history(&text);
    let parent = match state.chat.editing.take() {
        Some(edited) => state.chat.session.conversation.get(edited).and_then(|m| m.parent),
        None => state.chat.session.conversation.leaf(),
    };
    let draft = std::mem::take(&mut state.chat.draft);
    state.chat.editor.set_text(&draft);
    let message = Message { parent, at: state.clock, ..Message::new(Role::User, text) };
    let id = state.chat.session.conversation.add(message);
    state.chat.chosen = None;
    answer::save_message(state, id, fx);
    answer::ask(state, id, fx);
}

/// The message that an action is about: the chosen one, else the last.
fn subject(state: &State) -> Option<MessageId> {
    state.chat.chosen.or_else(|| state.chat.session.conversation.leaf())
}

/// The chosen answer, else the last one.
fn subject_answer(state: &State) -> Option<MessageId> {
    let path = state.chat.session.conversation.path();
    let chosen = state.chat.chosen.and_then(|id| path.iter().position(|m| m.id == id));
    let upto = chosen.map_or(path.len(), |i| (i + 2).min(path.len()));
    path.get(..upto)?.iter().rev().find(|m| m.role == Role::Assistant).map(|m| m.id)
}

/// Answers the same question anew, in a branch.
pub fn regenerate(state: &mut State, fx: &mut Effects) {
    if let Some(why) = answer::busy(state) {
        return notice(state, Level::Warn, why);
    }
    let conversation = &state.chat.session.conversation;
    let subject = subject(state).and_then(|id| conversation.get(id));
    let question = match (subject, subject_answer(state).and_then(|id| conversation.get(id))) {
        // One that never got an answer.
        (Some(last), _) if last.role == Role::User && conversation.leaf() == Some(last.id) => Some(last.id),
        (_, Some(answer)) => answer.parent,
        (_, None) => None,
    };
    let Some(question) = question else { return notice(state, Level::Info, "there is no answer yet") };
    state.chat.session.conversation.set_leaf(question);
    state.chat.chosen = None;
    answer::ask(state, question, fx);
}

/// Goes on with the last answer.
pub fn go_on(state: &mut State, fx: &mut Effects) {
    if let Some(why) = answer::busy(state) {
        return notice(state, Level::Warn, why);
    }
    let last = state.chat.session.conversation.leaf().and_then(|id| state.chat.session.conversation.get(id));
    match last {
        Some(message) if message.role == Role::Assistant && !message.text.is_empty() => {
            let id = message.id;
            answer::go_on(state, id, fx);
        }
        Some(message) if message.role == Role::User => {
            let id = message.id;
            answer::ask(state, id, fx);
        }
        Some(_) => regenerate(state, fx),
        None => notice(state, Level::Info, "there is no answer yet"),
    }
}

/// Takes a message of the user into the input; what is sent then is a branch beside it.
pub fn edit(state: &mut State) {
    let path = state.chat.session.conversation.path();
    let upto = state.chat.chosen.and_then(|id| path.iter().position(|m| m.id == id)).map_or(path.len(), |i| i + 1);
    let message = path.get(..upto).and_then(|p| p.iter().rev().find(|m| m.role == Role::User));
    let Some((id, text)) = message.map(|m| (m.id, m.text.clone())) else {
        return notice(state, Level::Info, "there is no message of yours to edit");
    };
    if state.chat.editing.is_none() {
        state.chat.draft = state.chat.editor.text().to_owned();
    }
    state.chat.editing = Some(id);
    state.chat.editor.set_text(&text);
    state.focus = PanelId::Input;
}

/// Gives the edited message up. Whether there was one.
pub fn stop_editing(state: &mut State) -> bool {
    let Some(edited) = state.chat.editing.take() else { return false };
    let text = state.chat.editor.text().to_owned();
    if state.chat.session.conversation.get(edited).is_none_or(|m| m.text != text) {
        // What was changed can be fetched from the history.
        state.chat.editor.push_history(&text);
    }
    let draft = std::mem::take(&mut state.chat.draft);
    state.chat.editor.set_text(&draft);
    true
}

pub fn show_branch(state: &mut State, step: isize, fx: &mut Effects) {
    if state.chat.streaming.is_some() {
        return notice(state, Level::Warn, "an answer is streaming: stop it first (esc)");
    }
    let conversation = &state.chat.session.conversation;
    let branches = |id: &MessageId| conversation.siblings(*id).is_some_and(|(_, n)| n > 1);
    // The chosen message, else the nearest branch from the end.
    let at = subject(state).filter(branches).or_else(|| conversation.path().iter().rev().map(|m| m.id).find(branches));
    let Some(id) = at else { return notice(state, Level::Info, "this conversation has one branch") };
    let index = conversation.siblings(id).map_or(0, |(index, _)| index);
    match state.chat.session.conversation.show_sibling(id, step) {
        Some(leaf) => {
            fx.push(Effect::Record(Record::Leaf { id: leaf }));
            let path = state.chat.session.conversation.path();
            // The message that took the other one's place stays chosen.
            let parent = state.chat.session.conversation.get(id).and_then(|m| m.parent);
            state.chat.chosen = path.iter().find(|m| m.parent == parent).map(|m| m.id);
        }
        None => {
            let end = if step < 0 { "first" } else { "last" };
            notice(state, Level::Info, format!("this is the {end} of its branches ({})", index + 1));
        }
    }
}

pub fn copy_message(state: &mut State, fx: &mut Effects) {
    match subject(state).and_then(|id| state.chat.session.conversation.get(id)) {
        Some(message) => fx.push(Effect::Copy(message.text.clone())),
        None => notice(state, Level::Info, "there is nothing to copy yet"),
    }
}

/// Copies a code block of the message; asked again, the one after it.
pub fn copy_code(state: &mut State, fx: &mut Effects) {
    let Some(id) = subject_answer(state).or_else(|| subject(state)) else {
        return notice(state, Level::Info, "there is nothing to copy yet");
    };
    let next = match state.chat.copied_block {
        Some((message, block)) if message == id => block + 1,
        Some(_) | None => 0,
    };
    copy_block(state, id, next, true, fx);
}

/// Copies one code block. `around`: past the last comes the first.
pub fn copy_block(state: &mut State, id: MessageId, block: usize, around: bool, fx: &mut Effects) {
    let blocks = code_blocks(state, id);
    let block = if around && block >= blocks.len() { 0 } else { block };
    match blocks.into_iter().nth(block) {
        Some(text) => {
            state.chat.copied_block = Some((id, block));
            fx.push(Effect::Copy(text));
        }
        None => notice(state, Level::Info, "this message has no code block"),
    }
}

fn code_blocks(state: &State, id: MessageId) -> Vec<String> {
    use super::super::text::{Piece, split_thinking};
    let Some(message) = state.chat.session.conversation.get(id) else { return vec![] };
    let mut blocks = vec![];
    for piece in split_thinking(&message.text, message.thinks_first, true) {
        if let Piece::Answer { text } = piece {
            let mut document = Document::new();
            document.layout(&message.text[text], 80, &state.look.theme.text_styles(), 0, true);
            blocks.extend(document.code_blocks().iter().map(|b| b.text.clone()));
        }
    }
    blocks
}

/// Folds or unfolds the thoughts of the chosen or last answer.
pub fn fold_thinking(state: &mut State) {
    if let Some(id) = subject_answer(state) {
        fold(state, id);
    }
}

pub fn fold(state: &mut State, id: MessageId) {
    if !state.chat.unfolded.remove(&id) {
        state.chat.unfolded.insert(id);
    }
}

/// Chooses the message `step` places on, and shows it.
pub fn choose(state: &mut State, step: isize) {
    let messages = &state.metrics.chat.messages;
    let at = state.chat.chosen.and_then(|id| messages.iter().position(|(m, _)| *m == id));
    let next = match at {
        Some(at) => at.saturating_add_signed(step).min(messages.len().saturating_sub(1)),
        None => messages.len().saturating_sub(1),
    };
    let Some((id, lines)) = messages.get(next) else { return };
    state.chat.chosen = Some(*id);
    let (top, height) = (state.metrics.chat.top, state.metrics.chat.height.max(1));
    // A message that is longer than the window shows its side that one comes from.
    let wanted = if lines.start < top || lines.len() > height && step < 0 {
        Some(lines.start.min(lines.end.saturating_sub(if step < 0 && lines.len() > height { height } else { 0 })))
    } else if lines.end > top + height {
        Some(if lines.len() > height { lines.start } else { lines.end - height })
    } else {
        None
    };
    if let Some(wanted) = wanted {
        scroll_to(state, wanted);
    }
}

pub fn scroll(state: &mut State, lines: isize) {
    let top = state.metrics.chat.top.saturating_add_signed(lines);
    scroll_to(state, top);
}

/// At the end of the text it is followed again.
pub fn scroll_to(state: &mut State, top: usize) {
    let last = state.metrics.chat.last_top();
    state.chat.top = (top < last).then_some(top);
    // Until the next picture several steps may come.
    state.metrics.chat.top = top.min(last);
}
