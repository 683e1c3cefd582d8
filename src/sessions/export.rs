//! Sessions for other programs and for reading.

use std::fmt::Write;

use chrono::{DateTime, SecondsFormat, Utc};
use serde_json::{Value, json};

use super::SessionState;
use super::record::{Figures, Message, MessageEnd, Role};

/// The shown branch as Markdown, without control characters.
pub fn export_markdown(state: &SessionState) -> String {
    let title = state.shown_title();
    let mut out = format!("# {}\n\n", if title.is_empty() { "Conversation" } else { &title });
    // Writing to a string does not fail.
    let _ = writeln!(out, "- Date: {}", state.created.format("%Y-%m-%d %H:%M UTC"));
    if let Some(model) = &state.model {
        let _ = writeln!(out, "- Model: {}", one_line(&model.name));
    }
    if let Some(placement) = &state.placement {
        let _ = writeln!(out, "- Placement: {}", one_line(placement));
    }
    if let Some(system) = state.settings.as_ref().and_then(|s| s.system.as_ref()) {
        let _ = write!(out, "\n## System\n\n{}\n", system.trim());
    }
    for message in state.conversation.path() {
        let name = match message.role {
            Role::User => "User",
            Role::Assistant => "Assistant",
        };
        let _ = write!(out, "\n## {name}\n\n{}\n", text_of(message));
        if let Some(note) = note_of(message) {
            let _ = write!(out, "\n*{note}*\n");
        }
    }
    out.chars().filter(|c| matches!(c, '\n' | '\t') || !is_hostile(*c)).collect()
}

/// All of a session: every branch, each message with the `parent` that it follows, and the `leaf` that is shown.
pub fn export_json(state: &SessionState) -> Value {
    let time = |at: DateTime<Utc>| at.to_rfc3339_opts(SecondsFormat::AutoSi, true);
    json!({
        "id": state.id.as_str(),
        "title": state.shown_title(),
        "created": time(state.created),
        "model": state.model,
        "placement": state.placement,
        "settings": state.settings,
        "messages": state.conversation.messages().collect::<Vec<_>>(),
        "leaf": state.conversation.leaf(),
        "damaged_lines": state.n_damaged_lines,
    })
}

fn text_of(message: &Message) -> String {
    let text = message.text.trim();
    // The template wrote the opening tag, so the text has only the closing one.
    let is_open = message.thinks_first && text.contains("</think>") && !text.contains("<think>");
    if is_open { format!("<think>\n{text}") } else { text.to_owned() }
}

fn note_of(message: &Message) -> Option<String> {
    let end = match &message.end {
        MessageEnd::Complete => None,
        MessageEnd::Stopped => Some("stopped".to_owned()),
        MessageEnd::MaxTokens => Some("cut at the token limit".to_owned()),
        MessageEnd::ContextFull => Some("cut as the context was full".to_owned()),
        MessageEnd::Failed(error) => Some(format!("failed: {}", one_line(error))),
        MessageEnd::Partial => Some("broken off".to_owned()),
    };
    let notes: Vec<String> = end.into_iter().chain(message.figures.as_ref().and_then(rate)).collect();
    (!notes.is_empty()).then(|| notes.join("; "))
}

fn rate(figures: &Figures) -> Option<String> {
    let Figures { n_tokens, decode_ms, .. } = *figures;
    let per_s = n_tokens as f64 * 1000.0 / decode_ms;
    (n_tokens > 0 && per_s.is_finite()).then(|| format!("{n_tokens} tokens, {per_s:.1} tokens/s"))
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Control characters and those that change the direction of text: who prints the export must not be commanded by it.
fn is_hostile(c: char) -> bool {
    c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sessions::{Conversation, MessageId, ModelRef, Settings};

    fn state() -> SessionState {
        let at: DateTime<Utc> = "2026-12-01T14:05:33.25Z".parse().unwrap();
        let message = |role, text: &str, parent: Option<u64>| Message {
            at,
            parent: parent.map(MessageId),
            ..Message::new(role, text)
        };
        let mut conversation = Conversation::default();
        conversation.add(message(Role::User, "Does it\u{1b}[2J rain?", None));
        conversation.add(message(Role::Assistant, "No.", Some(1)));
        let figures = Figures { n_prompt: 8, n_tokens: 4, prefill_ms: 3.5, decode_ms: 50.0, thinking_ms: Some(20.0) };
        conversation.add(Message {
            end: MessageEnd::Stopped,
            thinks_first: true,
            figures: Some(figures),
            ..message(Role::Assistant, "Clouds.\n</think>\n\nYes", Some(1))
        });
        SessionState {
            model: Some(ModelRef { path: "m/b.gguf".into(), name: "B 1B".into(), n_ctx: 4096, kv: "f16".into() }),
            placement: Some("cpu0=*".to_owned()),
            settings: Some(Settings {
                sampling: json!({ "seed": 7 }),
                system: Some("Be brief.".into()),
                max_tokens: None,
            }),
            conversation,
            n_damaged_lines: 1,
            ..SessionState::new("s".parse().unwrap(), at)
        }
    }

    #[test]
    fn markdown() {
        insta::assert_snapshot!(export_markdown(&state()), @r"
        # Does it[2J rain?

        - Date: 2026-12-01 14:05 UTC
        - Model: B 1B
        - Placement: cpu0=*

        ## System

        Be brief.

        ## User

        Does it[2J rain?

        ## Assistant

        <think>
        Clouds.
        </think>

        Yes

        *stopped; 4 tokens, 80.0 tokens/s*
        ");
    }

    #[test]
    fn markdown_of_nothing() {
        let empty = SessionState::new("s".parse().unwrap(), DateTime::UNIX_EPOCH);
        insta::assert_snapshot!(export_markdown(&empty), @r"
        # Conversation

        - Date: 1970-01-01 00:00 UTC
        ");
    }

    #[test]
    fn json_has_every_branch() {
        insta::assert_snapshot!(serde_json::to_string_pretty(&export_json(&state())).unwrap(), @r#"
        {
          "id": "s",
          "title": "Does it\u001b[2J rain?",
          "created": "2026-12-01T14:05:33.250Z",
          "model": {
            "path": "m/b.gguf",
            "name": "B 1B",
            "n_ctx": 4096,
            "kv": "f16"
          },
          "placement": "cpu0=*",
          "settings": {
            "sampling": {
              "seed": 7
            },
            "system": "Be brief.",
            "max_tokens": null
          },
          "messages": [
            {
              "id": 1,
              "parent": null,
              "role": "user",
              "text": "Does it\u001b[2J rain?",
              "at": "2026-12-01T14:05:33.250Z",
              "end": "complete"
            },
            {
              "id": 2,
              "parent": 1,
              "role": "assistant",
              "text": "No.",
              "at": "2026-12-01T14:05:33.250Z",
              "end": "complete"
            },
            {
              "id": 3,
              "parent": 1,
              "role": "assistant",
              "text": "Clouds.\n</think>\n\nYes",
              "at": "2026-12-01T14:05:33.250Z",
              "end": "stopped",
              "figures": {
                "n_prompt": 8,
                "n_tokens": 4,
                "prefill_ms": 3.5,
                "decode_ms": 50.0,
                "thinking_ms": 20.0
              },
              "thinks_first": true
            }
          ],
          "leaf": 3,
          "damaged_lines": 1
        }
        "#);
    }
}
