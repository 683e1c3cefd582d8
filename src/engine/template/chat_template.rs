//! A loaded chat template.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

use minijinja::{Environment, Value};

use super::error::{TemplateError, from_minijinja};
use super::input::{Context, RenderInput, to_context};
use super::limits::{self, LimitedOutput};
use super::{env, source};

/// What a model without a template of its own gets: ChatML, which many models were trained on. The caller should say
/// that it is used.
pub const DEFAULT_TEMPLATE: &str = "\
{%- for message in messages %}
{{- '<|im_start|>' ~ message.role ~ '\\n' ~ message.content ~ '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
{{- '<|im_start|>assistant\\n' }}
{%- endif %}
";

const NAME: &str = "chat_template";

/// A chat template, checked and compiled. It can be shared between threads, and renderings do not affect each other.
#[derive(Debug)]
pub struct ChatTemplate {
    env: Environment<'static>,
    bos_token: String,
    eos_token: String,
}

impl ChatTemplate {
    /// Loads a template.
    ///
    /// `bos_token` and `eos_token` are the texts that the template's variables of those names stand for; empty when
    /// the model has none.
    ///
    /// # Errors
    /// [`TemplateError::Syntax`] with the line, or [`TemplateError::SourceTooLong`].
    pub fn new(source: &str, bos_token: &str, eos_token: &str) -> Result<Self, TemplateError> {
        if source.len() > limits::MAX_SOURCE_BYTES {
            return Err(TemplateError::SourceTooLong { source_bytes: source.len() });
        }
        let source = source::rewrite(source)?;
        let env = on_big_stack(move || {
            let mut env = env::environment()?;
            env.add_template_owned(NAME, source)?;
            Ok(env)
        })?;
        Ok(Self { env, bos_token: bos_token.to_string(), eos_token: eos_token.to_string() })
    }

    /// The template for a model that has none: see [`DEFAULT_TEMPLATE`].
    ///
    /// # Errors
    /// None that depend on the input; the type is that of [`ChatTemplate::new`].
    pub fn default_for_missing() -> Result<Self, TemplateError> {
        Self::new(DEFAULT_TEMPLATE, "", "")
    }

    /// The prompt for a conversation.
    ///
    /// # Errors
    /// [`TemplateError::Raised`] when the template refuses the conversation in its own words; otherwise what failed
    /// and on which line. A template that takes too much time, memory or output ends with an error too.
    pub fn render(&self, input: &RenderInput) -> Result<String, TemplateError> {
        let Context { mut variables, budget, fuel, input_bytes } = to_context(input, &self.bos_token, &self.eos_token)?;
        let limit_bytes = limits::output_bytes(input_bytes);
        let mut env = self.env.clone();
        env.set_fuel(Some(fuel));
        variables.push(("strftime_now".to_string(), env::strftime_now(input.now)));
        let result = on_big_stack(move || {
            let mut bytes = Vec::new();
            let context = Value::from_pairs(variables);
            env.get_template(NAME)?.render_captured_to(context, LimitedOutput { bytes: &mut bytes, limit_bytes })?;
            Ok(bytes)
        });
        // Lists looked empty then, so neither the text nor another error means anything.
        if budget.is_used_up() {
            return Err(TemplateError::TooMuchWork { line: None });
        }
        let bytes = result?;
        String::from_utf8(bytes).map_err(|e| TemplateError::Internal { message: e.to_string() })
    }
}

/// Runs `work` on a thread of its own with a stack for the deepest nesting that the limits allow. Panics of the
/// renderer become errors.
fn on_big_stack<T: Send>(work: impl FnOnce() -> Result<T, minijinja::Error> + Send) -> Result<T, TemplateError> {
    let internal = |message: &str| TemplateError::Internal { message: message.to_string() };
    thread::scope(|scope| {
        let worker = thread::Builder::new()
            .name("chat-template".to_string())
            .stack_size(limits::STACK_BYTES)
            .spawn_scoped(scope, || {
                catch_unwind(AssertUnwindSafe(work)).map(|result| result.map_err(|e| from_minijinja(&e)))
            })
            .map_err(|e| internal(&e.to_string()))?;
        match worker.join() {
            Ok(Ok(result)) => result,
            Ok(Err(_)) | Err(_) => Err(internal("the renderer stopped with a fault")),
        }
    })
}
