//! The terminal's modes: taken on, given back whatever happens.
//!
//! **Invariant**: after the program has ended (also by a panic or a signal), the terminal is as it was found.

use std::io::{self, Write, stdout};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use base64::Engine as _;
use crossterm::event::{
    DisableBracketedPaste, DisableFocusChange, DisableMouseCapture, EnableBracketedPaste, EnableFocusChange,
    EnableMouseCapture, KeyboardEnhancementFlags, PopKeyboardEnhancementFlags, PushKeyboardEnhancementFlags,
};
use crossterm::terminal::{
    Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use crossterm::{cursor, execute, queue};
use ratatui::backend::CrosstermBackend;

pub type Backend = CrosstermBackend<io::Stdout>;

/// Whether the modes are on: a panic must undo them once, and nothing else must undo them twice.
static IS_TAKEN: AtomicBool = AtomicBool::new(false);
static PANIC_HOOK: Once = Once::new();

pub struct Terminal {
    pub screen: ratatui::Terminal<Backend>,
    mouse: bool,
    /// Keys such as Shift+Enter told apart, where the terminal knows how.
    enhanced: bool,
}

impl Terminal {
    /// Takes the terminal over.
    pub fn take() -> io::Result<Terminal> {
        PANIC_HOOK.call_once(|| {
            let before = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |info| {
                // Other threads' panics are caught where they run; the screen stays.
                if std::thread::current().name() == Some("main") {
                    give_back();
                }
                before(info);
            }));
        });
        let term = std::env::var("TERM").unwrap_or_default();
        let mut terminal = Terminal {
            screen: ratatui::Terminal::new(CrosstermBackend::new(stdout()))?,
            mouse: false,
            enhanced: term != "linux" && term != "dumb",
        };
        terminal.enter()?;
        Ok(terminal)
    }

    fn enter(&mut self) -> io::Result<()> {
        enable_raw_mode()?;
        IS_TAKEN.store(true, Ordering::SeqCst);
        let mut out = stdout();
        queue!(out, EnterAlternateScreen, EnableBracketedPaste, EnableFocusChange, cursor::Hide)?;
        if self.enhanced {
            queue!(out, PushKeyboardEnhancementFlags(KeyboardEnhancementFlags::DISAMBIGUATE_ESCAPE_CODES))?;
        }
        if self.mouse {
            queue!(out, EnableMouseCapture)?;
        }
        out.flush()?;
        self.redraw()
    }

    /// Everything as it was found, for another program or the shell; [`Terminal::resume`] takes it again.
    pub fn pause(&mut self) {
        give_back();
    }

    pub fn resume(&mut self) -> io::Result<()> {
        self.enter()
    }

    pub fn set_mouse(&mut self, on: bool) -> io::Result<()> {
        self.mouse = on;
        if on { execute!(stdout(), EnableMouseCapture) } else { execute!(stdout(), DisableMouseCapture) }
    }

    /// Forgets what is on the screen, so that the next picture draws all of it.
    ///
    /// ratatui's own `clear` asks the terminal where the cursor is and waits for an answer, which some never give.
    pub fn redraw(&mut self) -> io::Result<()> {
        execute!(stdout(), Clear(ClearType::All))?;
        // The buffer that the next picture is compared with is blank after this, as the screen is now.
        self.screen.swap_buffers();
        Ok(())
    }

    /// Gives text to the terminal's own clipboard (OSC 52), where it has one.
    pub fn copy(&mut self, text: &str) -> io::Result<()> {
        let encoded = base64::engine::general_purpose::STANDARD.encode(text);
        let mut out = stdout();
        write!(out, "\x1b]52;c;{encoded}\x07")?;
        out.flush()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        give_back();
    }
}

/// Undoes all modes, once. Failures are of no use to anybody: the terminal is gone then.
pub fn give_back() {
    if !IS_TAKEN.swap(false, Ordering::SeqCst) {
        return;
    }
    let mut out = stdout();
    let term = std::env::var("TERM").unwrap_or_default();
    if term != "linux" && term != "dumb" {
        let _ = queue!(out, PopKeyboardEnhancementFlags);
    }
    let _ =
        queue!(out, DisableMouseCapture, DisableFocusChange, DisableBracketedPaste, cursor::Show, LeaveAlternateScreen);
    let _ = out.flush();
    let _ = disable_raw_mode();
}
