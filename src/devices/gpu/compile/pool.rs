//! Several compiling processes that share a list of jobs.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::worker::{ARGUMENTS, MARK, Reply, Request};
use super::{CompileError, Job};

/// Why there is no answer.
#[derive(Clone, PartialEq, Debug)]
pub enum Ended {
    Cancelled,
    TimedOut,
    /// The process ended.
    Died {
        how: String,
        /// The last that it printed.
        log: String,
    },
    /// It could not be started or spoken to.
    Io(CompileError),
}

/// How often waiting looks whether it is still wanted.
const POLL: Duration = Duration::from_millis(20);

/// Of what a process prints besides answers, so much is kept.
const MAX_PRINTED_BYTES: usize = 64 << 10;

/// What a process has printed.
#[derive(Clone, Default)]
struct Printed(Arc<Mutex<Vec<u8>>>);

impl Printed {
    fn add(&self, bytes: &[u8]) {
        let mut text = lock(&self.0);
        text.extend(bytes);
        let n_over = text.len().saturating_sub(MAX_PRINTED_BYTES);
        text.drain(..n_over);
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&lock(&self.0)).into_owned()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One compiling process.
pub struct Worker {
    child: Child,
    stdin: ChildStdin,
    replies: Receiver<Reply>,
    printed: Printed,
    readers: Vec<JoinHandle<()>>,
}

impl Worker {
    /// # Errors
    /// [`CompileError::Io`] where the program cannot be started.
    pub fn start(program: &Path) -> Result<Worker, CompileError> {
        let failed = |error| CompileError::io(format!("cannot start {} to compile", program.display()), &error);
        let mut command = Command::new(program);
        command.args(ARGUMENTS).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        #[cfg(unix)]
        {
            use std::os::unix::process::CommandExt;
            // A key that stops an answer is not meant for the compiler.
            command.process_group(0).arg0("layercake");
        }
        let mut child = command.spawn().map_err(failed)?;
        let (Some(stdin), Some(stdout), Some(mut stderr)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(failed(std::io::ErrorKind::BrokenPipe.into()));
        };
        let printed = Printed::default();
        let (to, replies) = channel();
        let beside = printed.clone();
        let of_stdout = std::thread::spawn(move || {
            let mut stdout = BufReader::new(stdout);
            let mut line = Vec::new();
            while stdout.read_until(b'\n', &mut line).is_ok_and(|n| n > 0) {
                match line.strip_prefix(MARK.as_bytes()).map(serde_json::from_slice) {
                    Some(Ok(reply)) => drop(to.send(reply)),
                    Some(Err(_)) | None => beside.add(&line),
                }
                line.clear();
            }
        });
        let beside = printed.clone();
        let of_stderr = std::thread::spawn(move || {
            let mut chunk = [0; 4096];
            while let Ok(n @ 1..) = stderr.read(&mut chunk) {
                beside.add(chunk.get(..n).unwrap_or_default());
            }
        });
        Ok(Worker { child, stdin, replies, printed, readers: vec![of_stdout, of_stderr] })
    }

    /// Whatever ends without an answer ends the worker.
    pub fn ask(&mut self, request: &Request, limit: Duration, is_cancelled: &dyn Fn() -> bool) -> Result<Reply, Ended> {
        let io = |message: String| Ended::Io(CompileError::Io { what: "cannot ask the compiler".to_owned(), message });
        let line = serde_json::to_string(request).map_err(|error| io(error.to_string()))? + "\n";
        let started = Instant::now();
        // Where the worker is dead already, its status says more than the broken pipe.
        let _ = self.stdin.write_all(line.as_bytes()).and_then(|()| self.stdin.flush());
        loop {
            let left = limit.saturating_sub(started.elapsed());
            match self.replies.recv_timeout(left.min(POLL)) {
                Ok(reply) => return Ok(reply),
                Err(RecvTimeoutError::Disconnected) => return Err(self.died()),
                Err(RecvTimeoutError::Timeout) if is_cancelled() => return Err(Ended::Cancelled),
                Err(RecvTimeoutError::Timeout) if left.is_zero() => return Err(Ended::TimedOut),
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    fn died(&mut self) -> Ended {
        let how = match self.child.wait() {
            Ok(status) => how_ended(status),
            Err(error) => error.to_string(),
        };
        // The last words; a process that it had started may hold its stderr for longer.
        let patience = Instant::now();
        while !self.readers.iter().all(JoinHandle::is_finished) && patience.elapsed() < Duration::from_millis(300) {
            std::thread::sleep(Duration::from_millis(5));
        }
        Ended::Died { how, log: self.printed.text() }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // It may be dead already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(unix)]
fn how_ended(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;
    match status.signal() {
        Some(4) => "SIGILL".to_owned(),
        Some(6) => "SIGABRT".to_owned(),
        Some(7) => "SIGBUS".to_owned(),
        Some(9) => "SIGKILL".to_owned(),
        Some(11) => "SIGSEGV".to_owned(),
        Some(signal) => format!("signal {signal}"),
        None => status.to_string(),
    }
}

#[cfg(not(unix))]
fn how_ended(status: ExitStatus) -> String {
    status.to_string()
}

/// How jobs are shared among processes.
#[derive(Clone, Copy, Debug)]
pub struct Sharing<'a> {
    pub program: &'a Path,
    pub n_workers: usize,
    /// Of one job.
    pub time_limit: Duration,
}

/// Compiles all jobs, each told of once it is done, from any thread.
///
/// # Errors
/// The first job that has no image, with its number. What is being compiled then is given up.
pub fn compile(
    sharing: Sharing<'_>,
    jobs: &[&Job],
    cancel: &AtomicBool,
    done: &(dyn Fn(usize, Reply) -> Result<(), ()> + Sync),
) -> Result<(), (usize, Ended)> {
    let next = AtomicUsize::new(0);
    let is_failed = AtomicBool::new(false);
    let failure = Mutex::new(None);
    let fail = |index: usize, ended: Ended| {
        is_failed.store(true, Ordering::Relaxed);
        // Others were only told to stop.
        lock(&failure).get_or_insert((index, ended));
    };
    let work = || {
        let is_cancelled = || cancel.load(Ordering::Relaxed) || is_failed.load(Ordering::Relaxed);
        let mut worker = None;
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(job) = jobs.get(index) else { return };
            if is_cancelled() {
                return fail(index, Ended::Cancelled);
            }
            let started = match worker.take().map_or_else(|| Worker::start(sharing.program), Ok) {
                Ok(started) => worker.insert(started),
                Err(error) => return fail(index, Ended::Io(error)),
            };
            let limit_ms = u64::try_from(sharing.time_limit.as_millis()).unwrap_or(u64::MAX / 2);
            let request = Request::Compile { job: (*job).clone(), limit_ms };
            match started.ask(&request, sharing.time_limit, &is_cancelled) {
                Ok(reply) => {
                    if done(index, reply).is_err() {
                        // The one who was told knows why.
                        is_failed.store(true, Ordering::Relaxed);
                        return;
                    }
                }
                Err(ended) => return fail(index, ended),
            }
        }
    };
    std::thread::scope(|scope| {
        let n_workers = sharing.n_workers.clamp(1, jobs.len().max(1));
        (0..n_workers).for_each(|_| drop(scope.spawn(work)));
    });
    failure.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
}

/// A program that takes the worker's place, in a folder of its own.
#[cfg(all(test, unix))]
pub(super) fn script(text: &str) -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("worker");
    // Another process writes it: while a file is open for writing in this one, or in what this one starts in another
    // thread at the same moment, it cannot be run.
    let mut shell = Command::new("sh");
    shell.args(["-c", r#"cat > "$0" && chmod 755 "$0""#]).arg(&path).stdin(Stdio::piped());
    let mut shell = shell.spawn().unwrap();
    write!(shell.stdin.take().unwrap(), "#!/bin/sh\n{text}\n").unwrap();
    assert!(shell.wait().unwrap().success());
    (folder, path)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    fn ask(text: &str, limit: Duration, is_cancelled: &dyn Fn() -> bool) -> Result<Reply, Ended> {
        let (_folder, path) = script(text);
        Worker::start(&path).unwrap().ask(&Request::Identify { arch: "sm_80".into() }, limit, is_cancelled)
    }

    const LONG: Duration = Duration::from_secs(20);

    #[test]
    fn an_answer_is_found_among_what_compilers_print() {
        let reply = ask(
            &format!(
                "read line; echo warming up; printf 'no newline'; printf '\\n{MARK}{{\"Refused\":{{\"log\":\"x\"}}}}\\n'; sleep 9"
            ),
            LONG,
            &|| false,
        );
        assert_eq!(reply, Ok(Reply::Refused { log: "x".into() }));
    }

    #[test]
    fn a_process_that_dies_is_reported_with_its_last_words() {
        let aborted = ask("read line; echo of the compiler >&2; kill -ABRT $$", LONG, &|| false);
        assert_eq!(aborted, Err(Ended::Died { how: "SIGABRT".into(), log: "of the compiler\n".into() }));
        let ended = ask("exit 3", LONG, &|| false).unwrap_err();
        assert!(matches!(&ended, Ended::Died { how, .. } if how.contains('3')), "{ended:?}");
        let noisy = ask("read line; yes | head -c 300000 >&2; kill -SEGV $$", LONG, &|| false).unwrap_err();
        assert!(matches!(&noisy, Ended::Died { how, log } if how == "SIGSEGV" && log.len() == MAX_PRINTED_BYTES));
    }

    #[test]
    fn a_process_that_hangs_is_given_up() {
        let started = Instant::now();
        assert_eq!(ask("exec sleep 60", Duration::from_millis(50), &|| false), Err(Ended::TimedOut));
        let asked = std::cell::Cell::new(0);
        let is_cancelled = || asked.replace(asked.get() + 1) > 1;
        assert_eq!(ask("exec sleep 60", LONG, &is_cancelled), Err(Ended::Cancelled));
        assert!(started.elapsed() < Duration::from_secs(10));
    }

    #[test]
    fn one_failure_stops_the_others() {
        // Answers two requests at once, then hangs.
        let refused = format!("echo '{MARK}{{\"Refused\":{{\"log\":\"\"}}}}'");
        let (_folder, path) = script(&format!("read a; {refused}; read a; exec sleep 60"));
        let job = |n: usize| {
            let (unit, file_name, arch) = (n.to_string(), String::new(), "sm_80".to_owned());
            Job { unit, file_name, text: String::new(), options: vec![], arch }
        };
        let jobs: Vec<_> = (0..8).map(job).collect();
        let jobs: Vec<_> = jobs.iter().collect();
        let n_done = AtomicUsize::new(0);
        let done = |_: usize, _: Reply| {
            n_done.fetch_add(1, Ordering::Relaxed);
            Ok(())
        };
        let sharing = Sharing { program: &path, n_workers: 2, time_limit: Duration::from_millis(500) };
        let started = Instant::now();
        let (index, ended) = compile(sharing, &jobs, &AtomicBool::new(false), &done).unwrap_err();
        assert!((1..=3).contains(&index) && ended == Ended::TimedOut, "{index} {ended:?}");
        assert_eq!(n_done.load(Ordering::Relaxed), 2);
        assert!(started.elapsed() < Duration::from_secs(10));
        let (_, ended) = compile(sharing, &jobs, &AtomicBool::new(true), &done).unwrap_err();
        assert_eq!(ended, Ended::Cancelled);
        let missing = Sharing { program: Path::new("/no/such/program"), ..sharing };
        let (_, ended) = compile(missing, &jobs, &AtomicBool::new(false), &done).unwrap_err();
        assert!(matches!(&ended, Ended::Io(error) if error.to_string().contains("/no/such/program")), "{ended:?}");
    }
}
