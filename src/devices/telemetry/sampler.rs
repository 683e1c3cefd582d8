//! The thread that looks at the devices again and again. Whoever shows them takes the latest snapshot.

use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::{Finding, Reading, Telemetry, TelemetryConfig};

/// How long dropping waits for a look that is going on. A driver that hangs must not keep the program from ending.
const PATIENCE: Duration = Duration::from_millis(500);

/// All devices at one moment.
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub at: Instant,
    /// Counted from 1; 0 before the first look.
    pub n_samples: u64,
    pub readings: Vec<Reading>,
    /// What became of the sources.
    pub findings: Vec<Finding>,
}

/// Looks at the devices once a period in a thread of its own, until it is dropped.
pub struct Sampler {
    latest: watch::Receiver<Arc<Snapshot>>,
    control: Arc<Control>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Control {
    wish: Mutex<Wish>,
    changed: Condvar,
}

#[derive(Clone, Copy, Default)]
struct Wish {
    is_paused: bool,
    is_stopped: bool,
    has_ended: bool,
}

impl Sampler {
    /// Four looks a second.
    pub const PERIOD: Duration = Duration::from_millis(250);

    /// # Errors
    /// When the system gives no thread.
    pub fn start(config: TelemetryConfig, period: Duration) -> io::Result<Sampler> {
        let empty = Snapshot { at: Instant::now(), n_samples: 0, readings: Vec::new(), findings: Vec::new() };
        let (sender, latest) = watch::channel(Arc::new(empty));
        let control = Arc::new(Control::default());
        let of_thread = control.clone();
        let run = move || {
            look_until_stopped(&config, period, &of_thread, &sender);
            of_thread.change(|wish| wish.has_ended = true);
        };
        let thread = std::thread::Builder::new().name("telemetry".into()).spawn(run)?;
        Ok(Sampler { latest, control, thread: Some(thread) })
    }

    pub fn latest(&self) -> Arc<Snapshot> {
        self.latest.borrow().clone()
    }

    /// Another end for the same snapshots; it is closed when the sampler has stopped.
    pub fn subscribe(&self) -> watch::Receiver<Arc<Snapshot>> {
        self.latest.clone()
    }

    /// While nobody looks at the screen, nothing needs to be measured. Going on begins with a look at once.
    pub fn set_paused(&self, is_paused: bool) {
        self.control.change(|wish| wish.is_paused = is_paused);
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.control.change(|wish| wish.is_stopped = true);
        let wish = self.control.lock();
        let ended = self.control.changed.wait_timeout_while(wish, PATIENCE, |wish| !wish.has_ended);
        let has_ended = ended.unwrap_or_else(PoisonError::into_inner).0.has_ended;
        if let Some(thread) = self.thread.take().filter(|_| has_ended) {
            // It ended: joining takes no time. A panic in it has been printed already.
            thread.join().ok();
        }
    }
}

impl Control {
    fn lock(&self) -> std::sync::MutexGuard<'_, Wish> {
        self.wish.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut Wish)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }

    /// Waits for the next look: until `due`, and until not paused. False: stop.
    fn wait_until(&self, due: Instant) -> bool {
        let mut wish = self.lock();
        loop {
            let left = due.saturating_duration_since(Instant::now());
            if wish.is_stopped {
                return false;
            } else if wish.is_paused {
                wish = self.changed.wait(wish).unwrap_or_else(PoisonError::into_inner);
            } else if left.is_zero() {
                return true;
            } else {
                wish = self.changed.wait_timeout(wish, left).unwrap_or_else(PoisonError::into_inner).0;
            }
        }
    }
}

fn look_until_stopped(
    config: &TelemetryConfig,
    period: Duration,
    control: &Control,
    sender: &watch::Sender<Arc<Snapshot>>,
) {
    let mut telemetry = Telemetry::open(config);
    let mut findings = Vec::new();
    let mut states = Vec::new();
    let mut due = Instant::now();
    for n_samples in 1.. {
        if !control.wait_until(due) {
            return;
        }
        let at = Instant::now();
        let readings = telemetry.sample();
        // Findings change only when a device comes, goes, sleeps or wakes.
        let now: Vec<_> = readings.iter().map(|reading| (reading.id, reading.state)).collect();
        if now != states {
            (findings, states) = (telemetry.findings(), now);
        }
        sender.send_replace(Arc::new(Snapshot { at, n_samples, readings, findings: findings.clone() }));
        // A look that took long is not made up for.
        due = (due + period).max(Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{TestCard, Tree};
    use super::*;

    fn wait_for(sampler: &Sampler, what: impl Fn(&Snapshot) -> bool) -> Arc<Snapshot> {
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            let latest = sampler.latest();
            if what(&latest) {
                return latest;
            }
            assert!(Instant::now() < deadline, "{latest:?}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    #[test]
    fn it_looks_again_and_again_and_sees_changes() {
        let tree = Tree::new();
        let sampler = Sampler::start(tree.config(), Duration::from_millis(5)).unwrap();
        let first = wait_for(&sampler, |snapshot| snapshot.n_samples >= 3);
        assert_eq!(first.readings.len(), 1);
        assert_eq!(first.findings.len(), 3);
        tree.card(&TestCard { index: 0, folder: "0000:03:00.0", files: &[("mem_info_vram_total", "1000\n")] });
        let second = wait_for(&sampler, |snapshot| snapshot.readings.len() == 2);
        assert!(second.at > first.at);
        let found = |snapshot: &Snapshot| snapshot.findings.iter().any(|finding| finding.what.starts_with("rocm0"));
        assert!(found(&second) && !found(&first));
    }

    #[test]
    fn it_pauses_and_goes_on_at_once() {
        let tree = Tree::new();
        let sampler = Sampler::start(tree.config(), Duration::from_millis(5)).unwrap();
        wait_for(&sampler, |snapshot| snapshot.n_samples >= 1);
        sampler.set_paused(true);
        // A look that was going on may still come.
        std::thread::sleep(Duration::from_millis(200));
        let paused = sampler.latest().n_samples;
        std::thread::sleep(Duration::from_millis(100));
        assert_eq!(sampler.latest().n_samples, paused);
        sampler.set_paused(false);
        wait_for(&sampler, |snapshot| snapshot.n_samples > paused);
    }

    #[test]
    fn it_stops_when_dropped_even_while_it_waits_or_is_paused() {
        for is_paused in [false, true] {
            let tree = Tree::new();
            let sampler = Sampler::start(tree.config(), Duration::from_secs(3600)).unwrap();
            wait_for(&sampler, |snapshot| snapshot.n_samples == 1);
            sampler.set_paused(is_paused);
            let other = sampler.subscribe();
            assert!(other.has_changed().is_ok());
            drop(sampler);
            // The thread held the sending end.
            assert!(other.has_changed().is_err());
        }
    }
}
