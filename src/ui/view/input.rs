//! Where the user writes.

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::text::Line;
use ratatui::widgets::Widget;

use super::super::hits::{Hits, PanelId, Target};
use super::super::state::{ModelState, State};
use super::super::theme::Role;
use super::layout::inner_width;

/// Columns before the text.
const PROMPT: u16 = 2;
const MAX_ROWS: u16 = 10;

pub fn text_width(area: Rect) -> u16 {
    area.width.saturating_sub(PROMPT).max(1)
}

/// Lines that the input wants: its text, up to a third of the screen.
pub fn wanted_rows(state: &State, area: Rect) -> u16 {
    let width = text_width(Rect { width: inner_width(area), ..area });
    let rows = u16::try_from(state.chat.editor.n_rows(width)).unwrap_or(u16::MAX);
    rows.clamp(1, MAX_ROWS.min((area.height / 3).max(1)))
}

pub fn draw_input(state: &State, area: Rect, buf: &mut Buffer, hits: &mut Hits) -> Option<Position> {
    if area.is_empty() {
        return None;
    }
    let theme = &state.look.theme;
    hits.add(area, Target::Panel(PanelId::Input));
    let focused = state.focus == PanelId::Input && state.dialogs.is_empty();
    let role = if focused { Role::Accent } else { Role::Dim };
    buf.set_string(area.x, area.y, ">", theme.style(role));
    let text = Rect { x: area.x + PROMPT.min(area.width), width: area.width.saturating_sub(PROMPT), ..area };
    hits.add(text, Target::Input);
    if state.chat.editor.is_empty() {
        let words = match (&state.model, focused) {
            (ModelState::Loading(_), _) => "the model is loading; write meanwhile",
            (ModelState::Loaded(_), true) => "write a message",
            (ModelState::Loaded(_), false) => "",
            (ModelState::None | ModelState::Failed { .. }, _) => "open a model first (ctrl+o)",
        };
        Line::styled(words, theme.style(Role::Dim)).render(text, buf);
    }
    let window = state.chat.editor.window(text_width(area), usize::from(area.height));
    for (place, words) in text.rows().zip(&window.rows) {
        Line::styled(words.as_str(), theme.style(Role::Text)).render(place, buf);
    }
    let (column, row) = window.cursor;
    let x = text.x + (column as u16).min(text.width.saturating_sub(1));
    let y = text.y + (row as u16).min(area.height - 1);
    focused.then_some(Position::new(x, y))
}
