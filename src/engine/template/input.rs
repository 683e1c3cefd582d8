//! What a template is rendered with.

use minijinja::Value;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::error::TemplateError;
use super::limits::MAX_VALUE_DEPTH;

/// One message of plain text. Richer messages (tool calls, content parts) are given as JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// `system`, `user`, `assistant`, or what else the template knows.
    pub role: String,
    /// The text.
    pub content: String,
}

impl Message {
    pub fn new(role: impl Into<String>, content: impl Into<String>) -> Self {
        Self { role: role.into(), content: content.into() }
    }

    /// The messages as the JSON list that [`RenderInput::messages`] takes.
    pub fn list_to_json(messages: &[Message]) -> Json {
        messages.iter().map(Message::to_json).collect()
    }

    /// `{"role": ..., "content": ...}`.
    pub fn to_json(&self) -> Json {
        serde_json::json!({"role": self.role, "content": self.content})
    }
}

/// An input that can be left out in two ways, which templates tell apart by `is defined` and `is none`.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub enum Given<'a> {
    /// Present with the value `none`, as transformers passes an input that its caller did not give.
    #[default]
    Null,
    /// Not there at all.
    Undefined,
    /// This value.
    Value(&'a Json),
}

impl<'a> From<Option<&'a Json>> for Given<'a> {
    fn from(value: Option<&'a Json>) -> Self {
        value.map_or(Self::Null, Self::Value)
    }
}

/// Everything one rendering depends on: the same input gives the same text.
#[derive(Debug, Clone)]
pub struct RenderInput<'a> {
    /// A list of objects with at least `role`; see [`Message::list_to_json`] for plain text.
    pub messages: &'a Json,
    /// A list of tool descriptions (OpenAI's function format).
    pub tools: Given<'a>,
    /// A list of documents, for templates that answer from sources.
    pub documents: Given<'a>,
    /// Whether the prompt ends with the opening of the assistant's answer.
    pub add_generation_prompt: bool,
    /// Further variables, such as `enable_thinking`. `bos_token` and `eos_token` here win over the template's own.
    pub kwargs: &'a serde_json::Map<String, Json>,
    /// What `strftime_now` prints.
    pub now: chrono::NaiveDateTime,
}

/// The names that [`RenderInput::kwargs`] must not hold.
const RESERVED: [&str; 4] = ["messages", "tools", "documents", "add_generation_prompt"];

/// The variables of a rendering, and the size of the conversation in bytes (roughly its length as JSON).
pub(super) fn to_context(
    input: &RenderInput,
    bos_token: &str,
    eos_token: &str,
) -> Result<(Vec<(String, Value)>, usize), TemplateError> {
    let mut reader = Reader { input_bytes: 0 };
    let Json::Array(_) = input.messages else {
        return Err(TemplateError::MessagesNotAList { found: json_kind(input.messages) });
    };
    let mut context = vec![
        ("messages".to_string(), reader.read(input.messages, 0)?),
        ("add_generation_prompt".to_string(), Value::from(input.add_generation_prompt)),
        ("bos_token".to_string(), Value::from(bos_token)),
        ("eos_token".to_string(), Value::from(eos_token)),
    ];
    for (name, given) in [("tools", input.tools), ("documents", input.documents)] {
        match given {
            Given::Null => context.push((name.to_string(), Value::from(()))),
            Given::Undefined => {}
            Given::Value(json) => context.push((name.to_string(), reader.read(json, 0)?)),
        }
    }
    for (name, json) in input.kwargs {
        if RESERVED.contains(&name.as_str()) {
            return Err(TemplateError::ReservedKwarg { name: name.clone() });
        }
        context.retain(|(existing, _)| existing != name);
        context.push((name.clone(), reader.read(json, 0)?));
    }
    Ok((context, reader.input_bytes))
}

struct Reader {
    input_bytes: usize,
}

impl Reader {
    fn read(&mut self, json: &Json, depth: usize) -> Result<Value, TemplateError> {
        if depth > MAX_VALUE_DEPTH {
            return Err(TemplateError::InputTooDeep);
        }
        self.input_bytes += 8;
        Ok(match json {
            Json::Null => Value::from(()),
            Json::Bool(b) => Value::from(*b),
            Json::Number(n) => match (n.as_i64(), n.as_u64(), n.as_f64()) {
                (Some(i), _, _) => Value::from(i),
                (None, Some(u), _) => Value::from(u),
                (None, None, f) => Value::from(f.unwrap_or(f64::NAN)),
            },
            Json::String(s) => {
                self.input_bytes += s.len();
                Value::from(s.as_str())
            }
            Json::Array(items) => {
                Value::from(items.iter().map(|item| self.read(item, depth + 1)).collect::<Result<Vec<_>, _>>()?)
            }
            Json::Object(map) => {
                let mut pairs = Vec::with_capacity(map.len());
                for (key, value) in map {
                    self.input_bytes += key.len();
                    pairs.push((key.as_str(), self.read(value, depth + 1)?));
                }
                Value::from_pairs(pairs)
            }
        })
    }
}

fn json_kind(json: &Json) -> &'static str {
    match json {
        Json::Null => "null",
        Json::Bool(_) => "a boolean",
        Json::Number(_) => "a number",
        Json::String(_) => "a text",
        Json::Array(_) => "a list",
        Json::Object(_) => "an object",
    }
}
