//! How a command fails: the line for the user and the exit code.

use std::fmt;

use crate::cli::printable::printable;

/// Any error of the layers below, or words of a command's own.
#[derive(Debug)]
pub enum CliError {
    /// The command line makes no sense.
    Usage(String),
    Failed(String),
    /// Who reads our output has gone.
    BrokenPipe,
}

impl CliError {
    pub fn usage(message: impl Into<String>) -> CliError {
        CliError::Usage(message.into())
    }

    pub fn failed(message: impl Into<String>) -> CliError {
        CliError::Failed(message.into())
    }

    pub fn exit_code(&self) -> u8 {
        match self {
            CliError::Usage(_) => 2,
            CliError::Failed(_) | CliError::BrokenPipe => 1,
        }
    }

    pub fn is_broken_pipe(&self) -> bool {
        matches!(self, CliError::BrokenPipe)
    }
}

impl fmt::Display for CliError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // It may quote a file, a template or a model: none of them may command the terminal.
            CliError::Usage(message) | CliError::Failed(message) => f.write_str(&printable(message)),
            CliError::BrokenPipe => f.write_str("output was closed"),
        }
    }
}

impl<E: std::error::Error + 'static> From<E> for CliError {
    fn from(error: E) -> CliError {
        let any: &dyn std::error::Error = &error;
        match any.downcast_ref::<std::io::Error>() {
            Some(io) if io.kind() == std::io::ErrorKind::BrokenPipe => CliError::BrokenPipe,
            _ => CliError::Failed(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_text_cannot_command_the_terminal() {
        assert_eq!(CliError::failed("bad \x1b]0;owned\x07 name").to_string(), "bad ]0;owned name");
    }
}
