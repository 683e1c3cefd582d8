//! A model that is being loaded: how much of it each device has, how fast, for how long.

use std::time::Duration;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::window::{Hint, Look, Window, bar_text, bytes_text, open_window, put, put_right, row_of};
use crate::engine::protocol::{DeviceId, DeviceProgress};
use crate::ui::action::Action;
use crate::ui::hits::Hits;
use crate::ui::keymap::Keymap;
use crate::ui::state::Loading;
use crate::ui::theme::{Role, Theme};

#[derive(Clone, Copy)]
pub struct LoadingData<'a> {
    pub theme: &'a Theme,
    pub keymap: &'a Keymap,
    /// As the model is called in the picker; `None`: by its file.
    pub name: Option<&'a str>,
    /// In the order of their cards, so that each has its own shape and colour.
    pub devices: &'a [DeviceId],
    pub now: Duration,
}

const COLUMNS: u16 = 76;
/// Shape, space, id.
const ID_COLUMNS: u16 = 8;
const FIGURES_COLUMNS: u16 = 36;

/// Draws it in the middle of `area`.
pub fn draw_loading(loading: &Loading, data: &LoadingData<'_>, area: Rect, buf: &mut Buffer, hits: &mut Hits) {
    let look = Look { theme: data.theme, keymap: data.keymap };
    let elapsed = data.now.saturating_sub(loading.since);
    let hints = [Hint::Does(Action::Close, "cancel")];
    let n_devices = loading.devices.len() as u16;
    let size = (COLUMNS.min(area.width.saturating_sub(6)), (n_devices + 4).min(area.height.saturating_sub(2)));
    let aside = format!("{:.1} s", elapsed.as_secs_f64());
    let inner = open_window(&Window { title: "Loading", aside: &aside, hints: &hints, size }, look, area, buf, hits);
    let file = loading.options.path.file_name().unwrap_or_default().to_string_lossy();
    put(buf, inner, 0, 0, data.name.unwrap_or(&file), look.style(Role::Strong), look);
    if let Some(preparing) = &loading.preparing {
        put(buf, inner, 0, 1, preparing, look.style(Role::Dim), look);
    }
    let rows = loading.devices.iter().enumerate();
    for (i, &DeviceProgress { id, done_bytes, total_bytes }) in rows {
        let line = row_of(inner, 2 + i as u16);
        let mark = data.theme.device(data.devices.iter().position(|device| *device == id).unwrap_or(i));
        put(buf, line, 0, 0, &format!("{} {id}", mark.shape), mark.style, look);
        draw_bar(done_bytes, total_bytes, elapsed, mark.style, look, line, buf);
    }
    let line = row_of(inner, 3 + n_devices);
    put(buf, line, 0, 0, "in all", look.style(Role::Dim), look);
    draw_bar(loading.done_bytes, loading.total_bytes, elapsed, look.style(Role::Accent), look, line, buf);
}

fn draw_bar(
    done_bytes: u64,
    total_bytes: u64,
    elapsed: Duration,
    style: ratatui::style::Style,
    look: Look<'_>,
    line: Rect,
    buf: &mut Buffer,
) {
    let columns = line.width.saturating_sub(ID_COLUMNS + FIGURES_COLUMNS);
    let share = if total_bytes == 0 { 0.0 } else { done_bytes as f64 / total_bytes as f64 };
    let (full, rest) = bar_text(share, usize::from(columns), look);
    let x = put(buf, line, ID_COLUMNS, 0, &full, style, look);
    put(buf, line, x, 0, &rest, look.style(Role::BarFree), look);
    let seconds = elapsed.as_secs_f64();
    // In the first moments a rate says nothing.
    let rate =
        if seconds < 0.2 { String::new() } else { format!("{}/s", bytes_text((done_bytes as f64 / seconds) as u64)) };
    let figures = format!("{} / {}", bytes_text(done_bytes), bytes_text(total_bytes));
    let x = ID_COLUMNS + columns + 1;
    put_right(buf, line, x, 0, 21, &figures, look.style(Role::Text), look);
    put_right(buf, line, x + 22, 0, FIGURES_COLUMNS - 23, &rate, look.style(Role::Dim), look);
}

#[cfg(test)]
mod tests;
