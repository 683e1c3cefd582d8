//! Runs `pip download`: finds a Python that has pip, follows what pip says, and turns its failure into one line.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use super::{ModelsError, printable};

/// Tried in this order.
const PYTHONS: [&str; 2] = ["python3", "python"];

/// How often the caller hears from a running pip.
const TICK: Duration = Duration::from_millis(100);

/// How pip is called. The default is what the user has: their search path, their pip settings.
#[derive(Default)]
pub(super) struct Pip {
    /// Searched for Python in place of `$PATH`.
    pub path: Option<OsString>,
    /// Added to pip's command line.
    pub options: Vec<OsString>,
}

impl Pip {
    /// Downloads the wheel that `requirement` names into the folder `into`, with pip's own temporary files in
    /// `temp`; both must exist. `tick` gets pip's last line about ten times a second.
    ///
    /// # Errors
    /// `NoPython`, `NoPip`, or `Pip` with the line in which pip says why.
    pub fn download(
        &self,
        requirement: &str,
        into: &Path,
        temp: &Path,
        tick: &mut dyn FnMut(&str),
    ) -> Result<(), ModelsError> {
        let python = self.find_python()?;
        let failed = |reason: String| ModelsError::Pip { requirement: requirement.to_owned(), reason };
        let mut command = self.command(python);
        command
            .args(["download", "--no-input", "--no-deps", "--only-binary=:all:", "--no-cache-dir"])
            // Nothing of the package is run, so the Python versions that it is for do not matter.
            .args(["--ignore-requires-python", "--disable-pip-version-check", "--progress-bar=off"])
            .args(&self.options)
            .arg("--dest")
            .arg(into)
            .arg(requirement)
            .env("PYTHONUNBUFFERED", "1")
            .env("PYTHONIOENCODING", "utf-8");
        for variable in ["TMPDIR", "TEMP", "TMP"] {
            command.env(variable, temp);
        }
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut running = Running(child.map_err(|e| failed(e.to_string()))?);

        let said = Arc::new(Mutex::new(Said::default()));
        let stdout = running.0.stdout.take().map(|pipe| follow(pipe, &said));
        let stderr = running.0.stderr.take().map(|pipe| follow(pipe, &said));
        let status = loop {
            match running.0.try_wait().map_err(|e| failed(e.to_string()))? {
                Some(status) => break status,
                None => {
                    let line = lock(&said).last.clone();
                    tick(&line);
                    thread::sleep(TICK);
                }
            }
        };
        for reader in [stdout, stderr].into_iter().flatten() {
            // A reader ends with its pipe and cannot panic.
            let _ = reader.join();
        }
        if status.success() { Ok(()) } else { Err(failed(lock(&said).reason(&status.to_string()))) }
    }

    /// The first Python that has pip.
    fn find_python(&self) -> Result<&'static str, ModelsError> {
        let mut without_pip = None;
        for python in PYTHONS {
            // An `Err` here is a Python that is not there or may not be run: the next is tried.
            let Ok(output) = self.command(python).arg("--version").output() else { continue };
            if output.status.success() {
                return Ok(python);
            }
            let mut said = Said::default();
            String::from_utf8_lossy(&output.stderr).lines().for_each(|line| said.hear(line));
            without_pip.get_or_insert((python, said.reason(&output.status.to_string())));
        }
        Err(match without_pip {
            Some((python, reason)) => ModelsError::NoPip { python: python.to_owned(), reason },
            None => ModelsError::NoPython { tried: PYTHONS.join(", ") },
        })
    }

    fn command(&self, python: &str) -> Command {
        let mut command = Command::new(python);
        command.args(["-m", "pip"]).stdin(Stdio::null());
        if let Some(path) = &self.path {
            command.env("PATH", path);
        }
        command
    }
}

/// A process that does not outlive its owner, also when the owner unwinds.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail only on a process that has ended, which is what is wanted.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What pip said so far.
#[derive(Default)]
struct Said {
    last: String,
    last_error: Option<String>,
    retried: bool,
}

impl Said {
    fn hear(&mut self, line: &str) {
        let line = printable(line.trim());
        if line.is_empty() {
            return;
        }
        self.retried |= line.contains("Retrying (");
        if let Some(error) = line.strip_prefix("ERROR:") {
            self.last_error = Some(error.trim().to_owned());
        }
        self.last = line;
    }

    /// Why it failed, in pip's words; `status` where it said nothing.
    fn reason(&self, status: &str) -> String {
        let words = match (&self.last_error, self.last.as_str()) {
            (Some(error), _) => error,
            (None, "") => status,
            (None, last) => last,
        };
        // pip's last error after a lost connection is only that it found no version.
        let network = if self.retried { " (the package index could not be reached; is the network up?)" } else { "" };
        format!("{words}{network}")
    }
}

fn follow(pipe: impl Read + Send + 'static, said: &Arc<Mutex<Said>>) -> thread::JoinHandle<()> {
    let said = Arc::clone(said);
    thread::spawn(move || {
        for line in BufReader::new(pipe).split(b'\n').map_while(Result::ok) {
            lock(&said).hear(&String::from_utf8_lossy(&line));
        }
    })
}

fn lock(said: &Mutex<Said>) -> std::sync::MutexGuard<'_, Said> {
    // The words are whole at every moment, so a panic elsewhere spoils nothing.
    said.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason_of(lines: &[&str]) -> String {
        let mut said = Said::default();
        lines.iter().for_each(|line| said.hear(line));
        said.reason("exit status: 1")
    }

    #[test]
    fn the_reason_is_the_last_error_line() {
        assert_eq!(reason_of(&["Collecting x", "ERROR: one", "ERROR: two", "[notice] newer pip"]), "two");
        assert_eq!(reason_of(&["Collecting x", "Killed \u{1b}[0m", ""]), "Killed \u{fffd}[0m");
        assert_eq!(reason_of(&[]), "exit status: 1");
    }

    #[test]
    fn a_lost_network_is_said() {
        let lines = ["WARNING: Retrying (Retry(total=0)) after connection broken", "ERROR: No matching distribution"];
        let reason = reason_of(&lines);
        assert!(reason.starts_with("No matching distribution (the package index could not be reached"), "{reason}");
    }

    #[test]
    fn no_python_on_the_search_path_says_what_to_install() {
        let empty = tempfile::tempdir().expect("temp folder");
        let pip = Pip { path: Some(empty.path().into()), options: Vec::new() };
        let error = pip.download("x==1", empty.path(), empty.path(), &mut |_| {}).expect_err("no python");
        let text = error.to_string();
        assert!(matches!(error, ModelsError::NoPython { .. }), "{text}");
        assert!(text.contains("python3, python") && text.contains("install Python 3 with pip"), "{text}");
    }

    /// A real Python that is told to leave out site-packages, where pip lives.
    #[cfg(unix)]
    #[test]
    fn a_python_without_pip_says_what_to_install() {
        use std::os::unix::fs::PermissionsExt;
        let python =
            Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output().expect("python3");
        let python = String::from_utf8(python.stdout).expect("utf-8");
        let dir = tempfile::tempdir().expect("temp folder");
        let script = dir.path().join("python3");
        std::fs::write(&script, format!("#!/bin/sh\nexec '{}' -I -S \"$@\"\n", python.trim())).expect("script");
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).expect("mode");
        let pip = Pip { path: Some(dir.path().into()), options: Vec::new() };
        let error = pip.download("x==1", dir.path(), dir.path(), &mut |_| {}).expect_err("no pip");
        let text = error.to_string();
        assert!(matches!(error, ModelsError::NoPip { .. }), "{text}");
        assert!(text.contains("No module named pip") && text.contains("python3 -m ensurepip"), "{text}");
    }
}
