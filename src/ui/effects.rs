//! Does what the state asks for. Everything that takes time runs in a thread and answers with a message.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command as Process, Stdio};
use std::sync::Arc;

use super::msg::{DemoProgress, Effect, Msg, OpenedSession, SessionRow};
use super::run::{Input, Post};
use super::terminal::Terminal;
use crate::devices::telemetry::{Sampler, TelemetryConfig, examine};
use crate::engine::inventory::Examined;
use crate::engine::protocol::CommandSender;
use crate::engine::synth::synth_name;
use crate::models;
use crate::models::library::{LibraryRoots, scan};
use crate::sessions::{PromptHistory, SessionError, SessionStore, SessionWriter};

/// Says of a model file what it is and whether it fits this machine.
pub type Judge = Arc<dyn Fn(&Path) -> Examined + Send + Sync>;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flow {
    Continue,
    Quit,
}

pub struct Hands {
    pub engine: CommandSender,
    pub post: Post,
    pub store: Option<SessionStore>,
    /// The session that is open. `None`: the next record begins one.
    pub writer: Option<SessionWriter>,
    pub history: Option<PromptHistory>,
    pub roots: LibraryRoots,
    pub judge: Judge,
    pub telemetry: TelemetryConfig,
    pub sampler: Option<Sampler>,
    /// The user's editor.
    pub editor: Option<String>,
}

impl Hands {
    pub fn perform(&mut self, effect: Effect, terminal: &mut Terminal, input: &Input) -> Flow {
        match effect {
            Effect::Engine(command) => self.engine.send(command),
            Effect::Record(record) => self.record(&record),
            Effect::CloseSession => self.writer = None,
            Effect::RememberPrompt(prompt) => {
                if let Some(Err(error)) = self.history.as_mut().map(|h| h.append(&prompt)) {
                    self.post.send(Msg::SessionError(error.to_string()));
                }
            }
            Effect::ListSessions { query } => self.list(&query),
            Effect::OpenSession(id) => self.open(&id),
            Effect::RenameSession { id, title } => {
                self.with_store(|store| store.rename(&id, &title));
                self.list("");
            }
            Effect::DeleteSession(id) => {
                self.with_store(|store| store.delete(&id));
                self.list("");
            }
            Effect::Export { text, extension, title } => {
                let written = export(&text, extension, &title);
                self.post.send(match written {
                    Ok(path) => Msg::Exported(path),
                    Err(error) => Msg::SessionError(error),
                });
            }
            Effect::Copy(text) => self.copy(text, terminal),
            Effect::ExternalEditor(text) => {
                input.pause();
                terminal.pause();
                let edited = edit(self.editor.as_deref(), &text);
                let resumed = terminal.resume();
                input.resume();
                if resumed.is_err() {
                    return Flow::Quit;
                }
                self.post.send(Msg::Edited(edited));
            }
            Effect::Suspend => {
                input.pause();
                terminal.pause();
                suspend();
                let resumed = terminal.resume();
                input.resume();
                if resumed.is_err() {
                    return Flow::Quit;
                }
                self.post.send(Msg::Resumed);
            }
            Effect::ScanLibrary => self.scan(),
            Effect::Resolve(typed) => self.resolve(&typed),
            Effect::FetchDemo => self.fetch_demo(),
            Effect::Examine => {
                let (post, config) = (self.post.clone(), self.telemetry.clone());
                let latest = self.sampler.as_ref().map(|s| s.latest());
                spawn("doctor", move || {
                    let readings = latest.as_ref().map_or(&[][..], |s| &s.readings);
                    let mut findings = latest.as_ref().map_or_else(Vec::new, |s| s.findings.clone());
                    findings.extend(examine(&config, readings));
                    post.send(Msg::Findings(findings));
                });
            }
            Effect::MouseCapture(on) => {
                if terminal.set_mouse(on).is_err() {
                    return Flow::Quit;
                }
            }
            Effect::Watch(watched) => {
                if let Some(sampler) = &self.sampler {
                    sampler.set_paused(!watched);
                }
            }
            Effect::Redraw => {
                if terminal.redraw().is_err() {
                    return Flow::Quit;
                }
            }
            Effect::Quit => return Flow::Quit,
        }
        Flow::Continue
    }

    fn record(&mut self, record: &crate::sessions::Record) {
        let Some(store) = &self.store else { return };
        let writer = self.writer.get_or_insert_with(|| store.create().1);
        let had_file = writer.has_file();
        let written = writer.append(record);
        if let Err(error) = written {
            self.post.send(Msg::SessionError(error.to_string()));
        } else if !had_file && writer.has_file() {
            self.post.send(Msg::SessionFile(writer.id().clone()));
        }
    }

    fn with_store(&self, act: impl FnOnce(&SessionStore) -> Result<(), SessionError>) {
        if let Some(Err(error)) = self.store.as_ref().map(act) {
            self.post.send(Msg::SessionError(error.to_string()));
        }
    }

    fn list(&self, query: &str) {
        let Some(store) = self.store.clone() else { return };
        let (post, query) = (self.post.clone(), query.to_owned());
        spawn("sessions", move || {
            let rows = if query.trim().is_empty() {
                store.list().map(|l| l.sessions.into_iter().map(|head| SessionRow { head, snippet: None }).collect())
            } else {
                store.search(&query).map(|l| {
                    let row = |f: crate::sessions::Found| SessionRow { head: f.head, snippet: Some(f.snippet) };
                    l.sessions.into_iter().map(row).collect()
                })
            };
            post.send(Msg::Sessions { query, rows: rows.map_err(|e| e.to_string()) });
        });
    }

    /// One that another program has open is opened as a copy.
    fn open(&mut self, id: &crate::sessions::SessionId) {
        let Some(store) = &self.store else { return };
        let opened = match store.open(id) {
            Err(SessionError::InUse { .. }) => store.open_copy(id),
            other => other,
        };
        let msg = match opened {
            Ok((session, writer)) => {
                let model_is_there =
                    session.model.as_ref().is_some_and(|m| m.path.exists() || synth_name(&m.path).is_some());
                let id = writer.id().clone();
                self.writer = Some(writer);
                Msg::SessionOpened(Ok(Box::new(OpenedSession { id, session, model_is_there })))
            }
            Err(error) => Msg::SessionOpened(Err(error.to_string())),
        };
        self.post.send(msg);
    }

    fn copy(&self, text: String, terminal: &mut Terminal) {
        let by_terminal = terminal.copy(&text);
        let post = self.post.clone();
        spawn("clipboard", move || {
            let by_program = clipboard_programs().into_iter().find(|program| pipe_to(program, &text));
            post.send(Msg::Copied(match (by_program, by_terminal) {
                (Some(program), _) => Ok(program[0]),
                (None, Ok(())) => Ok("through the terminal"),
                (None, Err(error)) => Err(format!("nothing was copied: {error}")),
            }));
        });
    }

    fn scan(&self) {
        let (post, roots, judge) = (self.post.clone(), self.roots.clone(), self.judge.clone());
        spawn("library", move || {
            let entries = scan(&roots);
            post.send(Msg::Library(entries.clone()));
            for entry in entries {
                let examined = Box::new(judge(&entry.path));
                post.send(Msg::LibraryFacts { path: entry.path, examined });
            }
        });
    }

    fn resolve(&self, typed: &str) {
        let text = match (typed.strip_prefix("~/"), etcetera::home_dir()) {
            (Some(rest), Ok(home)) => home.join(rest).to_string_lossy().into_owned(),
            _ => typed.to_owned(),
        };
        self.post.send(Msg::Resolved(models::resolve(&text).map_err(|e| e.to_string())));
    }

    fn fetch_demo(&self) {
        let post = self.post.clone();
        spawn("demo model", move || {
            let fetched = models::fetch_demo(&mut |progress| {
                use models::Progress;
                let told = match progress {
                    Progress::Waiting { .. } => DemoProgress::Words("another program is fetching it".to_owned()),
                    Progress::Downloading { done_bytes: 0, last_line, .. } if !last_line.is_empty() => {
                        DemoProgress::Words(last_line.to_owned())
                    }
                    Progress::Downloading { done_bytes, total_bytes, .. }
                    | Progress::Checking { done_bytes, total_bytes }
                    | Progress::Unpacking { done_bytes, total_bytes } => {
                        DemoProgress::Bytes { done_bytes, total_bytes: Some(total_bytes) }
                    }
                };
                post.send(Msg::Demo(told));
            });
            post.send(Msg::Demo(match fetched {
                Ok(path) => DemoProgress::Ready(path),
                Err(error) => DemoProgress::Failed(error.to_string()),
            }));
        });
    }
}

/// A thread that answers by message. Where the system gives none, there is no answer, and nothing else is lost.
fn spawn(name: &str, work: impl FnOnce() + Send + 'static) {
    if let Err(error) = std::thread::Builder::new().name(name.to_owned()).spawn(work) {
        tracing::warn!(%error, name, "no thread");
    }
}

/// A file in the current folder that does not exist yet, named after the title.
fn export(text: &str, extension: &str, title: &str) -> Result<PathBuf, String> {
    let mut stem = String::new();
    for c in title.chars().take(60) {
        match c {
            c if c.is_alphanumeric() => stem.extend(c.to_lowercase()),
            _ if stem.ends_with('-') || stem.is_empty() => {}
            _ => stem.push('-'),
        }
    }
    let stem = stem.trim_end_matches('-');
    let stem = if stem.is_empty() { "chat" } else { stem };
    for n in 1..1000 {
        let name = if n == 1 { format!("{stem}.{extension}") } else { format!("{stem}-{n}.{extension}") };
        let path = PathBuf::from(name);
        match std::fs::File::create_new(&path) {
            Ok(mut file) => {
                file.write_all(text.as_bytes()).map_err(|e| format!("cannot write {}: {e}", path.display()))?;
                return Ok(path);
            }
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(e) => return Err(format!("cannot write {}: {e}", path.display())),
        }
    }
    Err(format!("there are too many files named {stem}*.{extension} here"))
}

/// Programs that put their input on the clipboard, those of this desktop only.
fn clipboard_programs() -> Vec<&'static [&'static str]> {
    let is_set = |name| std::env::var_os(name).is_some_and(|v| !v.is_empty());
    let mut programs: Vec<&'static [&'static str]> = vec![];
    if cfg!(target_os = "macos") {
        programs.push(&["pbcopy"]);
    }
    if is_set("WAYLAND_DISPLAY") {
        programs.push(&["wl-copy"]);
    }
    if is_set("DISPLAY") {
        programs.push(&["xclip", "-selection", "clipboard"]);
        programs.push(&["xsel", "--clipboard", "--input"]);
    }
    programs
}

fn pipe_to(program: &[&str], text: &str) -> bool {
    let Some((name, args)) = program.split_first() else { return false };
    let mut process = Process::new(name);
    process.args(args).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let Ok(mut child) = process.spawn() else { return false };
    let written = child.stdin.take().is_some_and(|mut stdin| stdin.write_all(text.as_bytes()).is_ok());
    written && child.wait().is_ok_and(|status| status.success())
}

/// Lets the user write in an editor of their own; what it leaves in the file comes back.
fn edit(editor: Option<&str>, text: &str) -> Result<String, String> {
    let editor = editor.filter(|e| !e.trim().is_empty()).ok_or("no editor is set: export EDITOR=nano, for example")?;
    let folder = std::env::temp_dir();
    let stamp = std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(0, |d| d.as_nanos());
    let path = folder.join(format!("layercake-{}-{stamp}.md", std::process::id()));
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600);
    }
    let failed = |what: &str, e: std::io::Error| format!("cannot {what} {}: {e}", path.display());
    let mut file = options.open(&path).map_err(|e| failed("write", e))?;
    file.write_all(text.as_bytes()).map_err(|e| failed("write", e))?;
    drop(file);
    // The variable may hold arguments, and quotes around them: that is the shell's affair.
    let status = if cfg!(unix) {
        Process::new("sh").arg("-c").arg(format!("{editor} \"$1\"")).arg("sh").arg(&path).status()
    } else {
        Process::new(editor).arg(&path).status()
    };
    let edited = match status {
        Ok(status) if status.success() => std::fs::read_to_string(&path).map_err(|e| failed("read", e)),
        Ok(status) => Err(format!("{editor} ended with {status}; the text is as it was")),
        Err(error) => Err(format!("cannot run {editor}: {error}")),
    };
    let _ = std::fs::remove_file(&path);
    edited
}

/// Stops the process as Ctrl-Z does; comes back when the shell continues it.
#[cfg(unix)]
fn suspend() {
    let _ = signal_hook::low_level::emulate_default_handler(signal_hook::consts::SIGTSTP);
}

#[cfg(not(unix))]
fn suspend() {}
