//! What was typed before, over all sessions.

use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::files::{append_options, make_folder};
use super::line::{Line, lines, read_file, read_line, write_line};
use super::{SessionError, state_folder};

/// The prompts typed last, in a file of JSON Lines.
#[derive(Clone, Debug)]
pub struct PromptHistory {
    path: PathBuf,
    /// Oldest first.
    prompts: Vec<String>,
}

/// Prompts that are kept.
pub const MAX_PROMPTS: usize = 1000;

#[derive(Serialize, Deserialize)]
struct Typed {
    prompt: String,
}

impl PromptHistory {
    /// Of the user, over all sessions.
    pub fn of_user() -> Result<PromptHistory, SessionError> {
        PromptHistory::load(state_folder()?.join("history.jsonl"))
    }

    /// A missing file is an empty history; damaged lines are passed over.
    pub fn load(path: impl Into<PathBuf>) -> Result<PromptHistory, SessionError> {
        let path = path.into();
        let bytes = match read_file(&path) {
            Ok(bytes) => bytes,
            Err(SessionError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(e) => return Err(e),
        };
        let mut history = PromptHistory { path, prompts: Vec::new() };
        let mut n_lines = 0;
        for line in lines(&bytes) {
            n_lines += 1;
            match read_line(line) {
                Line::Good(Typed { prompt }) => history.remember(&prompt),
                Line::Unknown | Line::Damaged => false,
            };
        }
        if n_lines > 2 * MAX_PROMPTS {
            history.rewrite()?;
        }
        Ok(history)
    }

    /// Oldest first; no two in a row are the same.
    pub fn prompts(&self) -> &[String] {
        &self.prompts
    }

    /// Adds a prompt to the file too, unless it is blank or the last one again.
    ///
    /// # Errors
    /// Of writing; the prompt is still in [`prompts`](PromptHistory::prompts).
    pub fn append(&mut self, prompt: &str) -> Result<(), SessionError> {
        if !self.remember(prompt) {
            return Ok(());
        }
        make_folder(self.path.parent().unwrap_or(Path::new(".")))?;
        self.write_last(prompt).map_err(SessionError::io("write", &self.path))
    }

    /// False: there is nothing to remember.
    fn remember(&mut self, prompt: &str) -> bool {
        if prompt.trim().is_empty() || self.prompts.last().is_some_and(|last| last == prompt) {
            return false;
        }
        if self.prompts.len() >= MAX_PROMPTS {
            self.prompts.remove(0);
        }
        self.prompts.push(prompt.to_owned());
        true
    }

    fn write_last(&self, prompt: &str) -> io::Result<()> {
        let mut file = append_options().create(true).open(&self.path)?;
        let mut text = String::new();
        // Half a line of a program that was killed.
        if file.seek(SeekFrom::End(0))? > 0 {
            let mut last = [0];
            file.seek(SeekFrom::End(-1))?;
            file.read_exact(&mut last)?;
            if last != *b"\n" {
                text.push('\n');
            }
        }
        text.push_str(&write_line(&Typed { prompt: prompt.to_owned() })?);
        file.write_all(text.as_bytes())
    }

    /// Leaves in the file only what is remembered.
    fn rewrite(&self) -> Result<(), SessionError> {
        let new = self.path.with_extension(format!("{}.new", std::process::id()));
        let write = || -> io::Result<()> {
            let mut text = String::new();
            for prompt in &self.prompts {
                text.push_str(&write_line(&Typed { prompt: prompt.clone() })?);
            }
            append_options().create(true).open(&new)?.write_all(text.as_bytes())?;
            std::fs::rename(&new, &self.path)
        };
        write().map_err(|e| {
            let _ = std::fs::remove_file(&new);
            SessionError::io("shorten", &self.path)(e)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompts_are_kept_once_in_a_row() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state/history.jsonl");
        let mut history = PromptHistory::load(&path).unwrap();
        assert!(history.prompts().is_empty());
        for prompt in ["a", "a", " ", "b\nc", "a"] {
            history.append(prompt).unwrap();
        }
        assert_eq!(history.prompts(), ["a", "b\nc", "a"]);
        assert_eq!(PromptHistory::load(&path).unwrap().prompts(), ["a", "b\nc", "a"]);
        assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), 3);
    }

    #[test]
    fn damaged_lines_are_passed_over() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("history.jsonl");
        std::fs::write(&path, "{\"prompt\":\"a\"}\n\u{1b}garbage\n{\"prompt\":\"b\"}\n{\"prompt\":\"half").unwrap();
        let mut history = PromptHistory::load(&path).unwrap();
        assert_eq!(history.prompts(), ["a", "b"]);
        history.append("c").unwrap();
        assert_eq!(PromptHistory::load(&path).unwrap().prompts(), ["a", "b", "c"]);
    }

    #[test]
    fn the_file_does_not_grow_for_ever() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("history.jsonl");
        let n = 2 * MAX_PROMPTS + 1;
        let text: String = (0..n).map(|i| format!("{{\"prompt\":\"{i}\"}}\n")).collect();
        std::fs::write(&path, text).unwrap();
        let history = PromptHistory::load(&path).unwrap();
        assert_eq!(history.prompts().len(), MAX_PROMPTS);
        assert_eq!(history.prompts().last().unwrap(), &(n - 1).to_string());
        assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), MAX_PROMPTS);
        assert_eq!(PromptHistory::load(&path).unwrap().prompts(), history.prompts());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
