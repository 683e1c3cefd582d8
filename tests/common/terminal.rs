//! The real program in a pseudo-terminal: bytes in, the screen that a terminal would show out.
#![allow(dead_code)]

use std::io::{Read, Write};
use std::num::NonZero;
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};

/// Far above what a slow machine takes: waiting ends as soon as the words are there.
const PATIENCE: Duration = Duration::from_secs(120);

pub struct Terminal {
    master: Box<dyn MasterPty + Send>,
    child: Box<dyn Child + Send + Sync>,
    writer: Box<dyn Write + Send>,
    bytes: Receiver<Vec<u8>>,
    screen: vt100::Parser,
    /// Everything that came, as it came.
    pub raw: Vec<u8>,
    ended: bool,
}

/// A place on the screen, from 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    pub column: u16,
    pub row: u16,
}

impl Terminal {
    /// Starts `layercake` with these arguments. State and configuration lie in `home`, and nothing of the user's own.
    pub fn start(home: &Path, args: &[&str], columns: u16, rows: u16) -> Terminal {
        let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_layercake"));
        command.args(args);
        command.cwd(home);
        for (name, folder) in [("LAYERCAKE_STATE", "state"), ("XDG_CACHE_HOME", "cache"), ("HOME", "home")] {
            command.env(name, home.join(folder));
        }
        command.env("LAYERCAKE_CONFIG", home.join("config.toml"));
        if let Ok(models) = layercake::models::folder() {
            command.env("LAYERCAKE_MODELS", models);
        }
        command.env("TERM", "xterm-256color");
        command.env("LANG", "C.UTF-8");
        for name in ["NO_COLOR", "COLORTERM", "LC_ALL", "VISUAL", "EDITOR", "DISPLAY", "WAYLAND_DISPLAY"] {
            command.env_remove(name);
        }
        Terminal::spawn(command, columns, rows)
    }

    pub fn spawn(command: CommandBuilder, columns: u16, rows: u16) -> Terminal {
        let size = PtySize { rows, cols: columns, pixel_width: 0, pixel_height: 0 };
        let pair = native_pty_system().openpty(size).unwrap();
        let child = pair.slave.spawn_command(command).unwrap();
        drop(pair.slave);
        let mut reader = pair.master.try_clone_reader().unwrap();
        let (sender, bytes) = channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 1 << 16];
            while let Ok(n) = reader.read(&mut buffer)
                && n > 0
                && sender.send(buffer[..n].to_vec()).is_ok()
            {}
        });
        let writer = pair.master.take_writer().unwrap();
        let screen = vt100::Parser::new(cells(rows), cells(columns), 0);
        Terminal { master: pair.master, child, writer, bytes, screen, raw: vec![], ended: false }
    }

    /// Types bytes as a terminal would send them.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.writer.write_all(bytes.as_ref()).unwrap();
        self.writer.flush().unwrap();
    }

    /// Takes in what came within this time; ends early when nothing comes for long enough to be the end of a picture.
    fn take(&mut self, patience: Duration) -> bool {
        match self.bytes.recv_timeout(patience) {
            Ok(bytes) => {
                self.raw.extend_from_slice(&bytes);
                self.screen.process(&bytes);
                true
            }
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) => false,
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => {
                self.ended = true;
                false
            }
        }
    }

    pub fn text(&self) -> String {
        self.screen.screen().contents()
    }

    pub fn rows(&self) -> Vec<String> {
        let (_, columns) = self.screen.screen().size();
        self.screen.screen().rows(0, columns.get()).collect()
    }

    /// Whether the program has switched to the alternate screen.
    pub fn is_on_alternate_screen(&self) -> bool {
        self.screen.screen().alternate_screen()
    }

    pub fn screen(&self) -> &vt100::Screen {
        self.screen.screen()
    }

    /// Waits until the screen is as wanted.
    pub fn wait_until(&mut self, what: &str, wanted: impl Fn(&Terminal) -> bool) {
        let started = Instant::now();
        while !wanted(self) {
            assert!(started.elapsed() < PATIENCE && !self.ended, "waited for {what}; the screen:\n{}", self.text());
            self.take(Duration::from_millis(100));
        }
    }

    /// Waits until these words are on the screen.
    pub fn wait_for(&mut self, words: &str) {
        self.wait_until(&format!("{words:?}"), |t| t.text().contains(words));
    }

    /// Takes in everything until nothing has come for this long.
    pub fn settle(&mut self, quiet: Duration) {
        while self.take(quiet) {}
    }

    /// Where a text first stands.
    pub fn find(&self, words: &str) -> Option<Place> {
        self.rows().iter().enumerate().find_map(|(row, line)| {
            let at = line.find(words)?;
            Some(Place { column: columns(&line[..at]), row: row as u16 })
        })
    }

    /// Where in a row (found by the words that it holds) a character first stands after those words.
    pub fn find_in_row(&self, row_words: &str, wanted: char) -> Option<Place> {
        self.rows().iter().enumerate().find_map(|(row, line)| {
            let start = line.find(row_words)? + row_words.len();
            let at = start + line[start..].find(wanted)?;
            Some(Place { column: columns(&line[..at]), row: row as u16 })
        })
    }

    pub fn press(&mut self, at: Place) {
        self.send(format!("\x1b[<0;{};{}M", at.column + 1, at.row + 1));
    }

    pub fn drag(&mut self, to: Place) {
        self.send(format!("\x1b[<32;{};{}M", to.column + 1, to.row + 1));
    }

    pub fn release(&mut self, at: Place) {
        self.send(format!("\x1b[<0;{};{}m", at.column + 1, at.row + 1));
    }

    pub fn click(&mut self, at: Place) {
        self.press(at);
        self.release(at);
    }

    pub fn resize(&mut self, columns: u16, rows: u16) {
        self.master.resize(PtySize { rows, cols: columns, pixel_width: 0, pixel_height: 0 }).unwrap();
        self.screen.screen_mut().set_size(cells(rows), cells(columns));
    }

    pub fn pid(&self) -> u32 {
        self.child.process_id().unwrap()
    }

    pub fn signal(&self, name: &str) {
        let status = std::process::Command::new("kill").args([name, &self.pid().to_string()]).status().unwrap();
        assert!(status.success());
    }

    /// Waits for the program's end; its exit code.
    pub fn wait_end(&mut self) -> u32 {
        let started = Instant::now();
        loop {
            self.take(Duration::from_millis(20));
            if let Some(status) = self.child.try_wait().unwrap() {
                while self.take(Duration::from_millis(200)) {}
                return status.exit_code();
            }
            assert!(started.elapsed() < PATIENCE, "waited for the end; the screen:\n{}", self.text());
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn cells(n: u16) -> NonZero<u16> {
    NonZero::new(n).expect("a screen with cells")
}

/// Cells that a text takes: all of what the tests look before is one cell wide or two.
fn columns(text: &str) -> u16 {
    unicode_width::UnicodeWidthStr::width(text) as u16
}
