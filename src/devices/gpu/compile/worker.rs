//! The compiling process: it reads requests, a line each, and answers each with a line. It is this program's own
//! executable with a hidden command, so that a compiler that aborts or hangs takes nobody along.

use std::collections::HashMap;
use std::io::{self, BufRead, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::{Deserialize, Serialize};

use super::kind::CompilerKind;
use super::rtc::{Refused, Rtc};
use super::{CompileError, Job};
use crate::devices::gpu::chip::Arch;

/// The arguments that make the program a worker.
pub const ARGUMENTS: [&str; 2] = ["kernels", "worker"];

/// Answers begin with it: compilers print to the same stream.
pub(super) const MARK: &str = "layercake-answer:";

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Request {
    /// Which compiler there is for a chip.
    Identify { arch: String },
    /// `limit_ms`: after this the worker ends itself, in case that nobody is left to end it.
    Compile { job: Job, limit_ms: u64 },
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Reply {
    Compiler(CompilerInfo),
    NoCompiler {
        why: String,
        looked: Vec<String>,
        hint: String,
    },
    Image {
        base64: String,
    },
    /// The compiler's log.
    Refused {
        log: String,
    },
}

/// A compiler that was found.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CompilerInfo {
    /// With its version, for people.
    pub name: String,
    /// Part of the names of cached images: differs between compilers that may make different ones.
    pub identity: String,
    pub file: PathBuf,
}

/// Compilers, loaded when first needed.
#[derive(Default)]
pub struct Workshop {
    loaded: HashMap<Arch, Arc<Rtc>>,
}

impl Workshop {
    /// # Errors
    /// [`CompileError::NoCompiler`].
    pub fn compiler(&mut self, arch: Arch) -> Result<Arc<Rtc>, CompileError> {
        if let Some(rtc) = self.loaded.get(&arch) {
            return Ok(rtc.clone());
        }
        let rtc = Arc::new(Rtc::find(arch)?);
        self.loaded.insert(arch, rtc.clone());
        Ok(rtc)
    }

    pub fn answer(&mut self, request: &Request) -> Reply {
        let refused = |log| Reply::Refused { log };
        let (arch, job) = match request {
            Request::Identify { arch } => (arch, None),
            Request::Compile { job, .. } => (&job.arch, Some(job)),
        };
        let rtc = match arch.parse::<Arch>().map(|arch| self.compiler(arch)) {
            Ok(Ok(rtc)) => rtc,
            Ok(Err(CompileError::NoCompiler { why, looked, hint, .. })) => {
                return Reply::NoCompiler { why, looked, hint };
            }
            Ok(Err(error)) => return refused(format!("error: {error}")),
            Err(words) => return refused(format!("error: {words}")),
        };
        match job.map(|job| rtc.compile(job)) {
            None => Reply::Compiler(CompilerInfo {
                name: rtc.name(),
                identity: rtc.identity(),
                file: rtc.file().to_owned(),
            }),
            Some(Ok(image)) => Reply::Image { base64: BASE64_STANDARD.encode(image) },
            Some(Err(Refused { log })) => refused(log),
        }
    }
}

impl Reply {
    /// What it says, for one who asked for a chip's compiler or an image.
    pub(super) fn no_compiler(arch: Arch, why: String, looked: Vec<String>, hint: String) -> CompileError {
        CompileError::NoCompiler { arch, compiler: CompilerKind::of(arch).name(), why, looked, hint }
    }
}

/// Answers requests until there are no more.
///
/// # Errors
/// Of reading and writing, and requests that make no sense.
pub fn serve(input: impl BufRead, mut output: impl Write) -> io::Result<()> {
    let mut workshop = Workshop::default();
    let watchdog = Watchdog::start();
    for line in input.lines() {
        let request: Request = serde_json::from_str(&line?)?;
        let reply = match &request {
            Request::Identify { .. } => workshop.answer(&request),
            Request::Compile { limit_ms, .. } => {
                watchdog.watch(Duration::from_millis(*limit_ms), || workshop.answer(&request))
            }
        };
        let reply = serde_json::to_string(&reply)?;
        // A compiler may have left a line open.
        write!(output, "\n{MARK}{reply}\n")?;
        output.flush()?;
    }
    Ok(())
}

/// Aborts the process when a job takes far too long. Who waits for the job has ended the process before, if there still
/// is anybody.
struct Watchdog {
    /// The limit of a job that begins; `None` where one ends.
    to: Sender<Option<Duration>>,
}

impl Watchdog {
    const GRACE: Duration = Duration::from_secs(10);

    fn start() -> Watchdog {
        let (to, jobs) = channel::<Option<Duration>>();
        std::thread::spawn(move || {
            while let Ok(begun) = jobs.recv() {
                let Some(limit) = begun else { continue };
                if let Err(RecvTimeoutError::Timeout) = jobs.recv_timeout(limit.saturating_add(Watchdog::GRACE)) {
                    std::process::abort();
                }
            }
        });
        Watchdog { to }
    }

    fn watch<T>(&self, limit: Duration, work: impl FnOnce() -> T) -> T {
        // Without its thread, which does not end before this does, nobody watches.
        let _ = self.to.send(Some(limit));
        let made = work();
        let _ = self.to.send(None);
        made
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers(requests: &str) -> io::Result<Vec<Reply>> {
        let mut output = Vec::new();
        serve(requests.as_bytes(), &mut output)?;
        let text = String::from_utf8(output).unwrap();
        Ok(text.lines().filter_map(|line| line.strip_prefix(MARK)).map(|r| serde_json::from_str(r).unwrap()).collect())
    }

    #[test]
    fn a_request_is_a_line_and_so_is_its_answer() {
        let request = Request::Identify { arch: "sparc".into() };
        let line = serde_json::to_string(&request).unwrap();
        let all = answers(&format!("{line}\n{line}\n")).unwrap();
        let expected = Reply::Refused { log: "error: 'sparc' is not a chip such as sm_89, gfx90a or gfx1100".into() };
        assert_eq!(all, [expected.clone(), expected]);
        assert!(answers("hello\n").is_err());
        assert_eq!(answers("").unwrap(), []);
    }
}
