//! What a template is rendered with.

use minijinja::Value;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::counted::{self, BUDGET_VARIABLE, Budget};
use super::error::TemplateError;
use super::limits::{self, MAX_VALUE_DEPTH};

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

impl<'a> Given<'a> {
    fn value(self) -> Option<&'a Json> {
        match self {
            Self::Value(json) => Some(json),
            Self::Null | Self::Undefined => None,
        }
    }
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

/// What a rendering starts with.
pub(super) struct Context {
    pub variables: Vec<(String, Value)>,
    pub budget: Budget,
    pub fuel: u64,
    /// Size of the conversation, roughly its length as JSON.
    pub input_bytes: usize,
}

/// The variables of a rendering, and what it may use up.
pub(super) fn to_context(input: &RenderInput, bos_token: &str, eos_token: &str) -> Result<Context, TemplateError> {
    let Json::Array(messages) = input.messages else {
        return Err(TemplateError::MessagesNotAList { found: json_kind(input.messages) });
    };
    let input_bytes = [input.tools, input.documents].into_iter().filter_map(Given::value).chain([input.messages]);
    let input_bytes = input_bytes.chain(input.kwargs.values()).map(size_bytes).sum();
    let budget = Budget::new(limits::n_visits(input_bytes, messages.len()));
    let reader = Reader { budget: &budget };
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
    context.push((BUDGET_VARIABLE.to_string(), Value::from_object(budget.clone())));
    let fuel = limits::fuel(input_bytes, messages.len());
    Ok(Context { variables: context, budget, fuel, input_bytes })
}

/// Roughly the length as JSON. Looks no deeper than [`MAX_VALUE_DEPTH`] allows.
fn size_bytes(json: &Json) -> usize {
    fn at(json: &Json, depth: usize) -> usize {
        8 + match json {
            _ if depth > MAX_VALUE_DEPTH => 0,
            Json::String(text) => text.len(),
            Json::Array(items) => items.iter().map(|item| at(item, depth + 1)).sum(),
            Json::Object(map) => map.iter().map(|(key, item)| key.len() + at(item, depth + 1)).sum(),
            Json::Null | Json::Bool(_) | Json::Number(_) => 0,
        }
    }
    at(json, 0)
}

struct Reader<'a> {
    budget: &'a Budget,
}

impl Reader<'_> {
    fn read(&self, json: &Json, depth: usize) -> Result<Value, TemplateError> {
        if depth > MAX_VALUE_DEPTH {
            return Err(TemplateError::InputTooDeep);
        }
        Ok(match json {
            Json::Null => Value::from(()),
            Json::Bool(b) => Value::from(*b),
            Json::Number(n) => match (n.as_i64(), n.as_u64(), n.as_f64()) {
                (Some(i), _, _) => Value::from(i),
                (None, Some(u), _) => Value::from(u),
                (None, None, f) => Value::from(f.unwrap_or(f64::NAN)),
            },
            Json::String(s) => Value::from(s.as_str()),
            Json::Array(items) => {
                let items = items.iter().map(|item| self.read(item, depth + 1)).collect::<Result<Vec<_>, _>>()?;
                counted::list(items, false, self.budget).map_err(|_| TemplateError::InputTooDeep)?
            }
            Json::Object(map) => {
                let pair = |(key, item): (&String, &Json)| Ok((Value::from(key.as_str()), self.read(item, depth + 1)?));
                let pairs = map.iter().map(pair).collect::<Result<Vec<_>, TemplateError>>()?;
                counted::dict(pairs, self.budget).map_err(|_| TemplateError::InputTooDeep)?
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
