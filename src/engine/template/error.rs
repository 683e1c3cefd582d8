//! What can go wrong with a chat template.

use std::fmt;

use super::limits;

/// Why a chat template could not be loaded or rendered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// The template's text is longer than any sensible template.
    #[error(
        "the chat template is {source_bytes} bytes long and at most {} are read: give another template",
        limits::MAX_SOURCE_BYTES
    )]
    SourceTooLong { source_bytes: usize },
    /// The template's text is not valid Jinja.
    #[error("chat template, line {line}: {message}")]
    Syntax { line: usize, message: String },
    /// The template itself refused the conversation through `raise_exception`.
    #[error("the chat template refuses this conversation (line {line}): {}", one_line(message))]
    Raised { line: usize, message: String },
    /// An operation failed while rendering, such as joining text and a list.
    #[error("chat template, line {line}: {message}")]
    Render { line: usize, message: String },
    /// The template used up its budget of work and memory, on this line if that is known.
    #[error("the chat template does too much work for this conversation and was stopped{}: give another template",
            line.map_or(String::new(), |line| format!(" on line {line}")))]
    TooMuchWork { line: Option<usize> },
    /// The template wrote more than the conversation can explain.
    #[error(
        "the chat template writes more than {limit_bytes} bytes for this conversation and was stopped: give another template"
    )]
    OutputTooLong { limit_bytes: usize },
    /// A template argument has the name of one of the fixed inputs.
    #[error("`{name}` cannot be given as a template argument: it is one of the template's fixed inputs")]
    ReservedKwarg { name: String },
    /// The messages, tools, documents or arguments are nested too deeply.
    #[error("the messages, tools or template arguments are nested more than {} levels deep", limits::MAX_VALUE_DEPTH)]
    InputTooDeep,
    /// The messages are not a list.
    #[error("the messages must be a JSON list of objects, not {found}")]
    MessagesNotAList { found: &'static str },
    /// The renderer could not run, or failed in a way it should not.
    #[error("the chat template could not be rendered: {message}")]
    Internal { message: String },
}

impl TemplateError {
    /// The template's own words (`raise_exception`), or what the renderer says about the failing operation.
    pub fn message(&self) -> String {
        match self {
            Self::Syntax { message, .. }
            | Self::Raised { message, .. }
            | Self::Render { message, .. }
            | Self::Internal { message } => message.clone(),
            other => other.to_string(),
        }
    }
}

/// Carried as the source of a minijinja error, so that [`from_minijinja`] can tell these cases from others.
#[derive(Debug, Clone)]
pub(super) enum Cause {
    /// `raise_exception(message)` was called.
    Raised(String),
    /// The output limit was reached.
    OutputTooLong { limit_bytes: usize },
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Raised(message) => f.write_str(message),
            Self::OutputTooLong { limit_bytes } => write!(f, "more than {limit_bytes} bytes of output"),
        }
    }
}

impl std::error::Error for Cause {}

/// Turns minijinja's error, which can be a chain, into one typed error with one line of text.
pub(super) fn from_minijinja(error: &minijinja::Error) -> TemplateError {
    use minijinja::ErrorKind;
    let line = error.line().unwrap_or(0);
    let mut source: Option<&(dyn std::error::Error + 'static)> = Some(error);
    let mut innermost = error;
    while let Some(current) = source {
        if let Some(cause) = find_cause(current) {
            return match cause {
                Cause::Raised(message) => TemplateError::Raised { line, message },
                Cause::OutputTooLong { limit_bytes } => TemplateError::OutputTooLong { limit_bytes },
            };
        }
        if let Some(inner) = current.downcast_ref::<minijinja::Error>() {
            innermost = inner;
        }
        source = current.source();
    }
    let line = innermost.line().unwrap_or(line);
    let detail = innermost.detail().map(one_line);
    match innermost.kind() {
        ErrorKind::OutOfFuel => TemplateError::TooMuchWork { line: Some(line) },
        ErrorKind::SyntaxError | ErrorKind::BadEscape => {
            TemplateError::Syntax { line, message: detail.unwrap_or_else(|| innermost.kind().to_string()) }
        }
        // The reference says it in these words, and templates rely on filters that only some programs add.
        ErrorKind::UnknownFilter => {
            let name = detail.as_deref().and_then(|d| d.split_whitespace().nth(1)).unwrap_or("?").to_string();
            TemplateError::Render { line, message: format!("No filter named '{name}' found.") }
        }
        kind => TemplateError::Render {
            line,
            message: detail.map_or_else(|| kind.to_string(), |detail| format!("{kind}: {detail}")),
        },
    }
}

/// The [`Cause`] in this link of the chain; an I/O error keeps its own inside.
fn find_cause(error: &(dyn std::error::Error + 'static)) -> Option<Cause> {
    if let Some(cause) = error.downcast_ref::<Cause>() {
        return Some(cause.clone());
    }
    let inner = error.downcast_ref::<std::io::Error>()?.get_ref()?;
    inner.downcast_ref::<Cause>().cloned()
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
