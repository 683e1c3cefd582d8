//! Shows on stderr how far the fetch of the demo model is: a bar on a terminal, a few plain lines elsewhere.

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use indicatif::{HumanBytes, ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::models::{self, ModelsError, Progress};

/// Pause between plain lines of one stage.
const PLAIN_PAUSE: Duration = Duration::from_secs(10);

/// Fetches the demo model where it is missing and shows the progress on stderr. Silent when it is there.
///
/// # Errors
/// As [`models::fetch_demo`].
pub fn fetch_demo() -> Result<PathBuf, ModelsError> {
    if io::stderr().is_terminal() {
        let mut bar = Bar::default();
        let fetched = models::fetch_demo(&mut |progress| bar.show(progress));
        bar.clear();
        fetched
    } else {
        let mut lines = Lines { out: io::stderr(), last: None };
        models::fetch_demo(&mut |progress| lines.show(progress))
    }
}

/// What is going on; each has its own bar and its own lines.
#[derive(Clone, Copy, PartialEq)]
enum Stage {
    Wait,
    Download,
    Check,
    Unpack,
}

impl Stage {
    fn of(progress: Progress<'_>) -> Stage {
        match progress {
            Progress::Waiting { .. } => Stage::Wait,
            Progress::Downloading { .. } => Stage::Download,
            Progress::Checking { .. } => Stage::Check,
            Progress::Unpacking { .. } => Stage::Unpack,
        }
    }

    fn title(self) -> &'static str {
        match self {
            Stage::Wait => "waiting for another process that fetches the demo model",
            Stage::Download => "downloading the demo model",
            Stage::Check => "checking the download",
            Stage::Unpack => "unpacking the model",
        }
    }
}

/// Bytes done and in all; `None` where they are not known (yet).
fn bytes(progress: Progress<'_>) -> Option<(u64, u64)> {
    match progress {
        Progress::Waiting { .. } | Progress::Downloading { done_bytes: 0, .. } => None,
        Progress::Downloading { done_bytes, total_bytes, .. }
        | Progress::Checking { done_bytes, total_bytes }
        | Progress::Unpacking { done_bytes, total_bytes } => Some((done_bytes, total_bytes)),
    }
}

#[derive(Default)]
struct Bar {
    /// The bar that is drawn, its stage, and whether it counts bytes.
    drawn: Option<(ProgressBar, Stage, bool)>,
}

impl Bar {
    fn show(&mut self, progress: Progress<'_>) {
        let (stage, counted) = (Stage::of(progress), bytes(progress));
        if self.drawn.as_ref().is_none_or(|(_, s, counts)| *s != stage || *counts != counted.is_some()) {
            self.clear();
            self.drawn = Some((new_bar(counted.map(|(_, total)| total)), stage, counted.is_some()));
        }
        let Some((bar, _, _)) = &self.drawn else { return };
        bar.set_message(match progress {
            Progress::Downloading { done_bytes: 0, last_line, .. } if !last_line.is_empty() => {
                format!("{}: {last_line}", stage.title())
            }
            _ => stage.title().to_owned(),
        });
        match counted {
            Some((done_bytes, _)) => bar.set_position(done_bytes),
            None => bar.tick(),
        }
    }

    fn clear(&mut self) {
        if let Some((bar, _, _)) = self.drawn.take() {
            bar.finish_and_clear();
        }
    }
}

/// A bar where the bytes are known, else a spinner with the time.
fn new_bar(total_bytes: Option<u64>) -> ProgressBar {
    let template = match total_bytes {
        Some(_) => "{msg} [{wide_bar}] {bytes}/{total_bytes} {eta}",
        None => "{spinner} {elapsed} {wide_msg}",
    };
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    let bar = ProgressBar::with_draw_target(total_bytes, ProgressDrawTarget::stderr());
    bar.set_style(style.progress_chars("=> ").tick_chars("|/-\\ "));
    bar
}

/// One line when a stage begins and one now and then while it lasts.
struct Lines<W> {
    out: W,
    last: Option<(Stage, Instant)>,
}

impl<W: Write> Lines<W> {
    fn show(&mut self, progress: Progress<'_>) {
        let stage = Stage::of(progress);
        let begins = self.last.is_none_or(|(last, _)| last != stage);
        if !begins && self.last.is_some_and(|(_, at)| at.elapsed() < PLAIN_PAUSE) {
            return;
        }
        self.last = Some((stage, Instant::now()));
        // The words are a courtesy: a closed stderr must not stop the fetch.
        let _ = match (bytes(progress), progress) {
            (Some((done, total)), _) if !begins => {
                writeln!(self.out, "{}: {} of {}", stage.title(), HumanBytes(done), HumanBytes(total))
            }
            (Some((_, total)), _) => writeln!(self.out, "{} ({})", stage.title(), HumanBytes(total)),
            (None, Progress::Downloading { elapsed, last_line, .. }) if !begins => {
                writeln!(self.out, "{}: {} s, {last_line}", stage.title(), elapsed.as_secs())
            }
            (None, _) => writeln!(self.out, "{}", stage.title()),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines_of(progress: &[Progress<'_>], pause: Duration) -> Vec<String> {
        let mut lines = Lines { out: Vec::new(), last: None };
        for p in progress {
            lines.show(*p);
            // As if so much time had passed.
            lines.last = lines.last.and_then(|(stage, at)| Some((stage, at.checked_sub(pause)?)));
        }
        String::from_utf8(lines.out).expect("utf-8").lines().map(str::to_owned).collect()
    }

    fn downloading(done_bytes: u64, last_line: &str) -> Progress<'_> {
        Progress::Downloading { done_bytes, total_bytes: 2048, elapsed: Duration::from_secs(12), last_line }
    }

    #[test]
    fn a_stage_is_one_line_when_it_is_quick() {
        let all = [
            Progress::Waiting { elapsed: Duration::ZERO },
            downloading(0, "Collecting x"),
            downloading(1024, "Collecting x"),
            Progress::Checking { done_bytes: 1024, total_bytes: 2048 },
            Progress::Checking { done_bytes: 2048, total_bytes: 2048 },
            Progress::Unpacking { done_bytes: 4096, total_bytes: 4096 },
        ];
        let expected = [
            "waiting for another process that fetches the demo model",
            "downloading the demo model",
            "checking the download (2.00 KiB)",
            "unpacking the model (4.00 KiB)",
        ];
        assert_eq!(lines_of(&all, Duration::ZERO), expected);
    }

    #[test]
    fn a_slow_download_is_told_of_now_and_then() {
        let all = [downloading(0, ""), downloading(0, "Collecting x"), downloading(1024, "Collecting x")];
        let expected = [
            "downloading the demo model",
            "downloading the demo model: 12 s, Collecting x",
            "downloading the demo model: 1.00 KiB of 2.00 KiB",
        ];
        assert_eq!(lines_of(&all, PLAIN_PAUSE), expected);
    }

    #[test]
    fn the_bar_changes_with_the_stage_and_with_what_is_known() {
        let mut bar = Bar::default();
        let drawn = |bar: &Bar| bar.drawn.as_ref().map(|(b, _, counts)| (b.position(), b.length(), *counts));
        bar.show(downloading(0, "Collecting x"));
        assert_eq!(drawn(&bar), Some((0, None, false)));
        bar.show(downloading(1024, "Collecting x"));
        assert_eq!(drawn(&bar), Some((1024, Some(2048), true)));
        bar.show(Progress::Unpacking { done_bytes: 5, total_bytes: 9 });
        assert_eq!(drawn(&bar), Some((5, Some(9), true)));
        bar.clear();
        assert_eq!(drawn(&bar), None);
    }
}
