//! Why there is no image.

use std::path::PathBuf;
use std::time::Duration;

use crate::devices::gpu::chip::Arch;

#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum CompileError {
    #[error(
        "kernels for {arch} need {compiler}, which was not found ({why}); looked in {}; {hint}", .looked.join(", ")
    )]
    NoCompiler {
        arch: Arch,
        compiler: &'static str,
        /// The loader's words.
        why: String,
        /// Places, for people.
        looked: Vec<String>,
        /// What brings it.
        hint: String,
    },
    #[error("{compiler} cannot compile {unit} for {arch}: {}{}", first_error(.log), whole_log(.log_file))]
    Failed {
        unit: String,
        arch: Arch,
        compiler: String,
        /// The compiler's words, shortened to some lines.
        log: String,
        /// All of them.
        log_file: Option<PathBuf>,
    },
    #[error("{compiler} was stopped: it had compiled {unit} for {arch} for more than {:.3} s", .limit.as_secs_f64())]
    TimedOut { unit: String, arch: Arch, compiler: String, limit: Duration },
    #[error(
        "{compiler} crashed ({how}) while it compiled {unit} for {arch}; \
         it may be too old for this chip: {}{}", first_error(.log), whole_log(.log_file)
    )]
    Aborted { unit: String, arch: Arch, compiler: String, how: String, log: String, log_file: Option<PathBuf> },
    #[error("stopped")]
    Cancelled,
    #[error("{what}: {message}")]
    Io { what: String, message: String },
}

impl CompileError {
    pub(super) fn io(what: impl Into<String>, error: &std::io::Error) -> CompileError {
        CompileError::Io { what: what.into(), message: error.to_string() }
    }
}

/// The line of a log that says most.
fn first_error(log: &str) -> &str {
    let lines = || log.lines().map(str::trim).filter(|line| !line.is_empty());
    lines().find(|line| line.contains("error")).or_else(|| lines().next()).unwrap_or("it gave no reason")
}

fn whole_log(file: &Option<PathBuf>) -> String {
    file.as_ref().map(|path| format!(" (all of it: {})", path.display())).unwrap_or_default()
}

/// At most this many lines of a log are kept in an error.
const MAX_LOG_LINES: usize = 20;
const MAX_LOG_LINE_CHARS: usize = 400;

/// The lines around a log's first error, without control characters.
pub(super) fn shorten_log(log: &str) -> String {
    let lines: Vec<_> = log.lines().filter(|line| !line.trim().is_empty()).collect();
    let first = lines.iter().position(|line| line.contains("error")).unwrap_or(0);
    // Two before it say where it is.
    let from = first.saturating_sub(2);
    let kept = lines.iter().skip(from).take(MAX_LOG_LINES);
    let clean = |line: &&str| line.chars().filter(|c| !c.is_control()).take(MAX_LOG_LINE_CHARS).collect::<String>();
    kept.map(clean).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_log_keeps_its_first_error() {
        let log = (0..500).map(|i| format!("note {i}\n")).collect::<String>() + "x.cu(3): error: no\u{1b}[1m\n\nmore";
        let short = shorten_log(&log);
        assert_eq!(short, "note 498\nnote 499\nx.cu(3): error: no[1m\nmore");
        assert_eq!(first_error(&short), "x.cu(3): error: no[1m");
        assert_eq!(shorten_log(&"a\n".repeat(100)).lines().count(), MAX_LOG_LINES);
        assert_eq!(first_error(" \n"), "it gave no reason");
    }
}
