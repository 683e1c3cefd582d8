//! Pictures of the dialogs: each is drawn in the middle, above what is there.

mod confirm;
mod doctor;
mod help;
mod palette;
mod sessions;
mod settings;
mod system;

use chrono::{DateTime, Local};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::window::Look;
use crate::devices::telemetry::Finding;
use crate::sessions::SessionId;
use crate::ui::dialog::{Dialog, Drawn};
use crate::ui::hits::Hits;
use crate::ui::keymap::Keymap;
use crate::ui::msg::SessionRow;
use crate::ui::theme::Theme;

/// What dialogs show besides their own state.
#[derive(Clone, Copy)]
pub struct DialogData<'a> {
    pub theme: &'a Theme,
    pub keymap: &'a Keymap,
    pub findings: &'a [Finding],
    pub sessions: &'a [SessionRow],
    /// The session that is open.
    pub open_session: Option<&'a SessionId>,
    /// For "today" and "3 days ago".
    pub now: DateTime<Local>,
}

/// Draws a dialog over `area`, the whole screen. [`Dialog::drawn`] takes what it gives. Device details are drawn by
/// the devices panel: nothing is drawn here.
pub fn draw_dialog(dialog: &Dialog, data: &DialogData<'_>, area: Rect, buf: &mut Buffer, hits: &mut Hits) -> Drawn {
    let look = Look { theme: data.theme, keymap: data.keymap };
    match dialog {
        Dialog::Help(help) => help::draw(help, look, area, buf, hits),
        Dialog::Doctor(doctor) => doctor::draw(doctor, data.findings, look, area, buf, hits),
        Dialog::Palette(palette) => palette::draw(palette, look, area, buf, hits),
        Dialog::Settings(settings) => settings::draw(settings, look, area, buf, hits),
        Dialog::System(system) => system::draw(system, look, area, buf, hits),
        Dialog::Sessions(sessions) => sessions::draw(sessions, data, look, area, buf, hits),
        Dialog::Rename(rename) => confirm::draw_rename(rename, look, area, buf, hits),
        Dialog::Confirm(confirm) => confirm::draw(confirm, look, area, buf, hits),
        Dialog::Details(_) => Drawn::default(),
    }
}

#[cfg(test)]
pub(super) mod tests;
