//! Chat templates: messages in, prompt text out, as Hugging Face transformers renders them.
//!
//! The reference is jinja2's `ImmutableSandboxedEnvironment` with `trim_blocks`, `lstrip_blocks`, loop controls, a
//! plain-JSON `tojson`, `raise_exception` and `strftime_now`
//! (<https://huggingface.co/docs/transformers/chat_templating>). The renderer is minijinja; what it lacks is added
//! beside it, one fact a file:
//!
//! * `source`: a rewrite of the template text at load (`{% generation %}`, bounded assignments);
//! * `env`: the environment: syntax, filters, functions, limits;
//! * `markup`: text marked as safe;
//! * `methods`: Python's string, dict and list methods;
//! * `python` and `json`: values printed as Python and as `json.dumps` print them;
//! * `time`: `strftime_now`;
//! * `operators`: operators rewritten to filters;
//! * `counted`: lists and dicts that count how often they are walked;
//! * `limits`: what a template may use up. Templates come with model files, so they are untrusted.
//!
//! As in the reference, a template cannot change the lists and dicts it is given: `list.append` and its kind are
//! refused.
//!
//! Known to differ from jinja2: `text % values` and the conversions `%r` and `{!r}` are not there; `{{ +x }}` is a
//! syntax error; the escapes `\/`, `\U` and `\N` in quoted texts; the filters `wordcount` and `truncate`, `joiner` and
//! `cycler`; a float in scientific notation inside `~` prints as `1e16`; a loop over `none` is empty instead of an error.

mod chat_template;
mod counted;
mod env;
mod error;
mod input;
mod json;
mod limits;
mod markup;
mod methods;
mod operators;
mod python;
mod source;
mod time;

#[cfg(test)]
mod tests;

pub use chat_template::{ChatTemplate, DEFAULT_TEMPLATE};
pub use error::TemplateError;
pub use input::{Given, Message, RenderInput};
