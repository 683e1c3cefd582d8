//! The commands' side of the engine: sends, waits, and turns a failure into an error.

use std::io::IsTerminal;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use indicatif::{ProgressBar, ProgressStyle};

use crate::cli::CliError;
use crate::cli::args::DeviceArgs;
use crate::cli::printable::printable;
use crate::devices::DeviceId;
use crate::engine::protocol::{Command, Event, LoadOptions, ModelInfo, RequestId};
use crate::engine::run::{CommandSender, Engine};

pub struct Client {
    engine: Engine,
    next_id: u64,
}

impl Client {
    pub fn start(devices: &DeviceArgs) -> Result<Client, CliError> {
        Ok(Client { engine: Engine::start(devices.open()?)?, next_id: 0 })
    }

    pub fn new_id(&mut self) -> RequestId {
        self.next_id += 1;
        RequestId(self.next_id)
    }

    pub fn commands(&self) -> CommandSender {
        self.engine.commands()
    }

    /// Sends the command and hands every event of any command to `on_event` until the command has ended. Its
    /// failure is the error.
    pub fn call(&mut self, command: Command, mut on_event: impl FnMut(Event)) -> Result<(), CliError> {
        let id = command.id();
        self.engine.send(command);
        loop {
            let event = self.next_event()?;
            if event.id() == id {
                if let Event::Failed { message, .. } = event {
                    return Err(CliError::Failed(message));
                }
                let ended = event.is_terminal();
                on_event(event);
                if ended {
                    return Ok(());
                }
            } else {
                on_event(event);
            }
        }
    }

    pub fn next_event(&self) -> Result<Event, CliError> {
        self.engine.events.recv().map_err(|_| CliError::failed("the engine ended unexpectedly"))
    }

    /// Loads a model, with a bar on a terminal and notices on stderr.
    pub fn load(&mut self, options: LoadOptions) -> Result<ModelInfo, CliError> {
        let id = self.new_id();
        let bar = LoadBar::new();
        let mut info = None;
        self.call(Command::Load { id, options }, |event| match event {
            Event::LoadProgress { done_bytes, total_bytes, .. } => bar.set(done_bytes, total_bytes),
            Event::Preparing { device, n_done, n_total, .. } => bar.prepare(device, n_done, n_total),
            Event::Notice { text, .. } => bar.note(&text),
            Event::Loaded { info: loaded, .. } => info = Some(*loaded),
            _ => {}
        })?;
        bar.finish();
        info.ok_or_else(|| CliError::failed("the engine did not say what it loaded"))
    }
}

struct LoadBar(Option<ProgressBar>);

impl LoadBar {
    fn new() -> LoadBar {
        if !std::io::stderr().is_terminal() {
            return LoadBar(None);
        }
        let bar = ProgressBar::new(0);
        let style = ProgressStyle::with_template(
            "loading {msg}{bar:30} {binary_bytes}/{binary_total_bytes} {binary_bytes_per_sec}",
        );
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        LoadBar(Some(bar))
    }

    fn prepare(&self, device: DeviceId, n_done: usize, n_total: usize) {
        if let Some(bar) = &self.0 {
            bar.set_message(format!("{device}: kernels {n_done} of {n_total} "));
        }
    }

    fn set(&self, done_bytes: u64, total_bytes: u64) {
        if let Some(bar) = &self.0 {
            bar.set_message("");
            bar.set_length(total_bytes);
            bar.set_position(done_bytes);
        }
    }

    fn note(&self, text: &str) {
        let text = printable(text);
        match &self.0 {
            Some(bar) => bar.suspend(|| eprintln!("note: {text}")),
            None => eprintln!("note: {text}"),
        }
    }

    fn finish(&self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}

/// What Ctrl-C does: the first one stops the answer, a second one before that has worked ends the program.
#[derive(Clone)]
pub struct Interrupts {
    pressed: Arc<AtomicUsize>,
    target: Arc<Mutex<Option<CommandSender>>>,
}

/// Ids of commands that interrupts send: far from those that commands count up from 1.
const INTERRUPT_ID: RequestId = RequestId(1 << 62);
/// The shell's exit code for a program that was interrupted.
const EXIT_INTERRUPTED: i32 = 130;

impl Interrupts {
    /// Takes over Ctrl-C for the whole process.
    pub fn install() -> Result<Interrupts, CliError> {
        let interrupts = Interrupts { pressed: Arc::default(), target: Arc::default() };
        let handler = interrupts.clone();
        ctrlc::set_handler(move || {
            let first = handler.pressed.fetch_add(1, Ordering::SeqCst) == 0;
            let target = handler.target.lock().ok().and_then(|t| t.clone());
            match target {
                Some(commands) if first => commands.send(Command::Stop { id: INTERRUPT_ID }),
                _ => std::process::exit(EXIT_INTERRUPTED),
            }
        })?;
        Ok(interrupts)
    }

    /// From now on the first Ctrl-C stops what this engine does.
    pub fn watch(&self, commands: CommandSender) {
        self.pressed.store(0, Ordering::SeqCst);
        if let Ok(mut target) = self.target.lock() {
            *target = Some(commands);
        }
    }

    /// From now on Ctrl-C ends the program.
    pub fn unwatch(&self) {
        if let Ok(mut target) = self.target.lock() {
            *target = None;
        }
    }

    pub fn was_pressed(&self) -> bool {
        self.pressed.load(Ordering::SeqCst) > 0
    }
}
