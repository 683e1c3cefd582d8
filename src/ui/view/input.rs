//! Where the user writes.

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::text::Line;
use ratatui::widgets::Widget;

use super::super::hits::{Hits, PanelId, Target};
use super::super::state::{ModelState, State};
use super::super::theme::Role;

/// Columns before the text.
const PROMPT: u16 = 2;
const MAX_ROWS: u16 = 10;

pub fn text_width(area: Rect) -> u16 {
    area.width.saturating_sub(PROMPT).max(1)
}

/// Lines that the input wants: its text, up to a third of the screen.
pub fn wanted_rows(state: &State, area: Rect) -> u16 {
    let inner = if area.width >= 60 { area.width - 2 } else { area.width };
    let width = inner.saturating_sub(PROMPT).max(1);
    let rows = state.chat.editor.layout(width).rows.len() as u16;
    rows.clamp(1, MAX_ROWS.min((area.height / 3).max(1)))
}

/// First row of the text that is shown in so many lines.
pub fn first_row(cursor_row: usize, n_rows: usize, height: usize) -> usize {
    let last_first = n_rows.saturating_sub(height);
    cursor_row.saturating_sub(height.saturating_sub(1)).min(last_first)
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
    let layout = state.chat.editor.layout(text_width(area));
    let (column, row) = layout.cursor;
    let height = usize::from(area.height);
    let first = first_row(row, layout.rows.len(), height);
    for (line, words) in layout.rows.iter().skip(first).take(height).enumerate() {
        let place = Rect { y: text.y + line as u16, height: 1, ..text };
        Line::styled(words.as_str(), theme.style(Role::Text)).render(place, buf);
    }
    let x = text.x + (column as u16).min(text.width.saturating_sub(1));
    let y = text.y + (row.saturating_sub(first) as u16).min(area.height - 1);
    focused.then_some(Position::new(x, y))
}
