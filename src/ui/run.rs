//! The loop: messages in, state changed, effects done, pictures drawn when something changed and somebody looks.

use std::io;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crossterm::event::{self, Event as TerminalEvent, MouseEventKind};
use tokio::sync::watch;

use super::effects::{Flow, Hands};
use super::hits::Hits;
use super::msg::Msg;
use super::state::{ModelState, State};
use super::terminal::Terminal;
use super::update::update;
use super::view::{Caches, Drawn, draw};
use crate::devices::telemetry::Snapshot;
use crate::engine::protocol::{Event, Stats};

/// Pictures that answer the user are at least so far apart.
const FRAME: Duration = Duration::from_millis(12);
/// Pictures of news alone: what streams is read, and no eye reads faster.
const NEWS_FRAME: Duration = Duration::from_millis(25);
/// While something goes on that shows the time.
const TICK: Duration = Duration::from_millis(250);
/// Messages taken in before a picture at most: a flood must not stop the picture.
const MAX_BATCH: usize = 4096;

/// Takes terminal events while it is not paused.
pub struct Input {
    gate: Arc<Gate>,
}

#[derive(Default)]
struct Gate {
    state: Mutex<GateState>,
    changed: Condvar,
}

#[derive(Clone, Copy, Default)]
struct GateState {
    paused: bool,
    /// The thread is not reading.
    rests: bool,
}

impl Input {
    fn start(to: Sender<Wake>) -> io::Result<Input> {
        let gate = Arc::new(Gate::default());
        let of_thread = gate.clone();
        std::thread::Builder::new().name("terminal input".into()).spawn(move || {
            loop {
                of_thread.rest_while_paused();
                match event::poll(Duration::from_millis(50)) {
                    Ok(false) => continue,
                    Ok(true) => {}
                    Err(_) => break,
                }
                let Ok(event) = event::read() else { break };
                if to.send(Wake::Terminal(event)).is_err() {
                    break;
                }
            }
            // The terminal is gone, or nobody listens; who pauses a reader that has ended need not wait for it.
            of_thread.lock().rests = true;
            of_thread.changed.notify_all();
            let _ = to.send(Wake::Hangup);
        })?;
        Ok(Input { gate })
    }

    /// Stops reading, so that another program can; comes back when that holds.
    pub fn pause(&self) {
        let mut state = self.gate.lock();
        state.paused = true;
        while !state.rests {
            state = self.gate.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    pub fn resume(&self) {
        self.gate.lock().paused = false;
        self.gate.changed.notify_all();
    }
}

impl Gate {
    fn lock(&self) -> std::sync::MutexGuard<'_, GateState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn rest_while_paused(&self) {
        let mut state = self.lock();
        while state.paused {
            state.rests = true;
            self.changed.notify_all();
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.rests = false;
    }
}

/// What wakes the loop.
pub enum Wake {
    Terminal(TerminalEvent),
    Msg(Msg),
    /// The terminal has gone, or the system asks the program to end.
    Hangup,
}

/// Where other threads put what happened.
#[derive(Clone)]
pub struct Post(Sender<Wake>);

impl Post {
    /// Nobody takes it any more when the loop has ended.
    pub fn send(&self, msg: Msg) {
        let _ = self.0.send(Wake::Msg(msg));
    }
}

/// A queue for the loop; other threads get the [`Post`].
pub struct Mailbox {
    sender: Sender<Wake>,
    wakes: Receiver<Wake>,
}

impl Default for Mailbox {
    fn default() -> Mailbox {
        let (sender, wakes) = mpsc::channel();
        Mailbox { sender, wakes }
    }
}

impl Mailbox {
    pub fn post(&self) -> Post {
        Post(self.sender.clone())
    }
}

/// What the engine and telemetry tell.
pub struct News {
    pub events: Receiver<Event>,
    pub stats: watch::Receiver<Stats>,
    pub telemetry: watch::Receiver<Arc<Snapshot>>,
}

struct Screen {
    caches: Caches,
    hits: Hits,
    drawn_at: Option<Instant>,
    /// The user did something that no picture shows yet.
    is_awaited: bool,
    conversation_version: u64,
}

/// Runs until the user quits. The terminal is taken here and given back at the end.
pub fn run(
    mut state: State,
    first: Vec<super::msg::Effect>,
    mailbox: Mailbox,
    news: News,
    mut hands: Hands,
) -> io::Result<()> {
    let started = Instant::now();
    let mut terminal = Terminal::take()?;
    let size = terminal.screen.size()?;
    state.size = (size.width, size.height);
    let input = Input::start(mailbox.sender.clone())?;
    watch_signals(mailbox.sender.clone())?;
    // The first code block of an answer would wait for the grammars otherwise.
    std::thread::Builder::new().name("grammars".into()).spawn(super::text::highlight::preload)?;
    let News { events, mut stats, mut telemetry } = news;
    forward(events, mailbox.post())?;
    let mut screen = Screen {
        caches: Caches::default(),
        hits: Hits::default(),
        drawn_at: None,
        is_awaited: true,
        conversation_version: 0,
    };

    for effect in first {
        if hands.perform(effect, &mut terminal, &input) == Flow::Quit {
            return Ok(());
        }
    }
    let mut dirty = true;
    loop {
        if dirty && screen.is_due(&state) {
            let drawn = screen.draw(&state, &mut terminal)?;
            update(&mut state, Msg::Drawn(Box::new(drawn)));
            dirty = false;
        }
        let first = match mailbox.wakes.recv_timeout(screen.patience(&state, dirty)) {
            Ok(wake) => Some(wake),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        };
        let time = Msg::Time { now: started.elapsed(), clock: crate::sessions::now() };
        for effect in update(&mut state, time) {
            if hands.perform(effect, &mut terminal, &input) == Flow::Quit {
                return Ok(());
            }
        }
        // A tick without news still moves the clocks that are shown.
        dirty |= first.is_none() && state_shows_time(&state);
        let rest = std::iter::from_fn(|| mailbox.wakes.try_recv().ok());
        for wake in first.into_iter().chain(rest).take(MAX_BATCH) {
            let msg = match wake {
                Wake::Terminal(event) => match screen.message(event) {
                    Some(msg) => {
                        screen.is_awaited = true;
                        msg
                    }
                    None => continue,
                },
                Wake::Msg(msg) => msg,
                Wake::Hangup => Msg::Hangup,
            };
            dirty = true;
            for effect in update(&mut state, msg) {
                if hands.perform(effect, &mut terminal, &input) == Flow::Quit {
                    return Ok(());
                }
            }
        }
        if stats.has_changed().unwrap_or(false) {
            let latest = stats.borrow_and_update().clone();
            update(&mut state, Msg::Stats(Box::new(latest)));
            dirty = true;
        }
        if telemetry.has_changed().unwrap_or(false) {
            let readings = telemetry.borrow_and_update().readings.clone();
            update(&mut state, Msg::Telemetry(readings));
            dirty = true;
        }
    }
}

impl Screen {
    fn message(&self, event: TerminalEvent) -> Option<Msg> {
        Some(match event {
            TerminalEvent::Key(key) => Msg::Key(key),
            TerminalEvent::Mouse(event) => {
                // Moves and drags come in floods and mean something only through what lies under them.
                let under = self.hits.at(event.column, event.row);
                if event.kind == MouseEventKind::Moved && under.is_empty() {
                    return None;
                }
                Msg::Mouse { event, under }
            }
            TerminalEvent::Paste(text) => Msg::Paste(text),
            TerminalEvent::Resize(columns, rows) => Msg::Resize(columns, rows),
            TerminalEvent::FocusGained => Msg::Focus(true),
            TerminalEvent::FocusLost => Msg::Focus(false),
        })
    }

    /// Whether a picture may be drawn now.
    fn is_due(&self, state: &State) -> bool {
        let Some(at) = self.drawn_at else { return true };
        self.period(state).is_some_and(|period| at.elapsed() >= period)
    }

    /// How long to wait for the next message at most.
    fn patience(&self, state: &State, dirty: bool) -> Duration {
        const LONG: Duration = Duration::from_secs(3600);
        let Some(period) = self.period(state) else { return LONG };
        let since = self.drawn_at.map_or(period, |at| at.elapsed());
        if dirty {
            period.saturating_sub(since)
        } else if state.watched || state_shows_time(state) {
            // Telemetry and clocks are looked at so often.
            TICK.max(period)
        } else {
            LONG
        }
    }

    /// Time between two pictures; `None`: none is wanted.
    fn period(&self, state: &State) -> Option<Duration> {
        // A window without the focus can still be resized.
        let answer = self.is_awaited.then_some(FRAME);
        answer.or(state.watched.then_some(NEWS_FRAME))
    }

    fn draw(&mut self, state: &State, terminal: &mut Terminal) -> io::Result<super::view::Metrics> {
        if self.conversation_version != state.conversation_version {
            self.conversation_version = state.conversation_version;
            self.caches.chat.clear();
        }
        let mut drawn = None;
        terminal.screen.draw(|frame| {
            let area = frame.area();
            let picture: Drawn = draw(state, &mut self.caches, area, frame.buffer_mut());
            if let Some(cursor) = picture.cursor {
                frame.set_cursor_position(cursor);
            }
            drawn = Some(picture);
        })?;
        self.drawn_at = Some(Instant::now());
        self.is_awaited = false;
        let Some(drawn) = drawn else { return Ok(super::view::Metrics::default()) };
        self.hits = drawn.hits;
        Ok(drawn.metrics)
    }
}

/// Something comes whose time is shown.
fn has_news(state: &State) -> bool {
    let moves = state.layers.as_ref().is_some_and(|l| l.change.id.is_some());
    state.chat.streaming.is_some() || moves || matches!(state.model, ModelState::Loading(_))
}

/// Whether the picture changes with time alone.
fn state_shows_time(state: &State) -> bool {
    has_news(state) || !state.notices.is_empty()
}

fn forward(events: Receiver<Event>, post: Post) -> io::Result<()> {
    std::thread::Builder::new().name("engine events".into()).spawn(move || {
        for event in events {
            post.send(Msg::Engine(event));
        }
    })?;
    Ok(())
}

/// The signals that ask a program to end: the loop ends as it does when the user quits.
#[cfg(unix)]
fn watch_signals(to: Sender<Wake>) -> io::Result<()> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    let mut signals = signal_hook::iterator::Signals::new([SIGTERM, SIGHUP, SIGINT])?;
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        for _ in signals.forever() {
            if to.send(Wake::Hangup).is_err() {
                return;
            }
        }
    })?;
    Ok(())
}

#[cfg(not(unix))]
fn watch_signals(_: Sender<Wake>) -> io::Result<()> {
    Ok(())
}
