//! The list of sessions: title and when, below it what was searched.

use chrono::{DateTime, Local, Utc};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::DialogData;
use crate::ui::action::Action;
use crate::ui::dialog::list::first_shown;
use crate::ui::dialog::{Drawn, Sessions};
use crate::ui::hits::{Hits, Target};
use crate::ui::msg::SessionRow;
use crate::ui::theme::Role;
use crate::ui::view::window::{
    Hint, Look, Window, count_text, draw_field, mark_row, open_window, put, put_right, row_of,
};

const WHEN_COLUMNS: u16 = 16;
const MODEL_COLUMNS: u16 = 24;
const MESSAGES_COLUMNS: u16 = 9;

pub fn draw(
    sessions: &Sessions,
    data: &DialogData<'_>,
    look: Look<'_>,
    area: Rect,
    buf: &mut Buffer,
    hits: &mut Hits,
) -> Drawn {
    let rows = data.sessions;
    let glyphs = look.glyphs();
    let hints = [
        Hint::Does(Action::Choose, "open"),
        Hint::Does(Action::RenameItem, "rename"),
        Hint::Does(Action::DeleteItem, "delete"),
        Hint::Keys(glyphs.up_down, "choose"),
        Hint::Does(Action::Close, "close"),
    ];
    let aside = match rows.len() {
        1 => "1 session".to_owned(),
        n => format!("{} sessions", count_text(n as u64)),
    };
    let size = (110.min(area.width.saturating_sub(6)), area.height.saturating_sub(6).min(40));
    let window = Window { title: "Sessions", aside: &aside, hints: &hints, size };
    let inner = open_window(&window, look, area, buf, hits);
    let x = put(buf, inner, 0, 0, &format!("{} ", glyphs.prompt), look.style(Role::Accent), look);
    let line = row_of(inner, 0);
    let line = Rect { x: line.x + x, width: line.width - x, ..line };
    let cursor = draw_field(&sessions.query, "type to search in titles and texts", look, line, buf);
    let list = Rect { y: inner.y.saturating_add(2), height: inner.height.saturating_sub(2), ..inner };
    if rows.is_empty() {
        let words = if sessions.query.is_empty() { "No session is saved yet." } else { "No session has these words." };
        put(buf, list, 2, 0, words, look.style(Role::Dim), look);
    }
    // Rows are as high as the highest, so that they stand still while choosing.
    let row_height: u16 = if rows.iter().any(|row| row.snippet.is_some()) { 2 } else { 1 };
    let page = usize::from(list.height / row_height);
    let chosen = sessions.cursor.at(rows.len()).unwrap_or(0);
    let first = first_shown(chosen, rows.len(), page);
    for (place, (i, row)) in rows.iter().enumerate().skip(first).take(page).enumerate() {
        let top = place as u16 * row_height;
        let cells = Rect { y: list.y + top, height: row_height, ..list }.intersection(list);
        let is_open = data.open_session == Some(&row.head.id);
        draw_row(row, is_open, i == chosen, data.now, look, cells, buf);
        hits.add(cells, Target::Item(i));
    }
    Drawn { cursor, page, most: rows.len().saturating_sub(page) }
}

fn draw_row(
    row: &SessionRow,
    is_open: bool,
    is_chosen: bool,
    now: DateTime<Local>,
    look: Look<'_>,
    cells: Rect,
    buf: &mut Buffer,
) {
    let glyphs = look.glyphs();
    if is_chosen {
        put(buf, cells, 0, 0, glyphs.chosen, look.style(Role::Accent), look);
    }
    if is_open {
        put(buf, cells, 1, 0, glyphs.open, look.style(Role::Good), look);
    }
    let head = &row.head;
    let (title, role) = match head.title.trim() {
        "" => ("(without a word)", Role::Dim),
        title => (title, Role::Text),
    };
    // What there is no room for is left out from the right; the title gets the rest.
    let mut right = cells.width;
    let columns: [(u16, String); 3] = [
        (WHEN_COLUMNS, when_text(head.changed, now)),
        (MESSAGES_COLUMNS, format!("{} msg", count_text(head.n_messages as u64))),
        (MODEL_COLUMNS, head.model.clone().unwrap_or_default()),
    ];
    let mut places = vec![];
    for (width, text) in columns {
        if right >= width + 2 + 24 {
            right -= width + 2;
            places.push((right + 2, width, text));
        }
    }
    put(buf, Rect { width: right, ..cells }, 3, 0, title, look.style(role), look);
    for (x, width, text) in places {
        if width == MODEL_COLUMNS {
            put(buf, Rect { width: cells.width.min(x + width), ..cells }, x, 0, &text, look.style(Role::Dim), look);
        } else {
            put_right(buf, cells, x, 0, width, &text, look.style(Role::Dim), look);
        }
    }
    if let Some(snippet) = &row.snippet {
        put(buf, cells, 5, 1, snippet.trim(), look.style(Role::Dim), look);
    }
    if is_chosen {
        mark_row(buf, cells, look);
    }
}

/// When something was, as one says it: to the minute today and yesterday, later by days, then by its date.
fn when_text(at: DateTime<Utc>, now: DateTime<Local>) -> String {
    let at = at.with_timezone(&now.timezone());
    let days = now.date_naive().signed_duration_since(at.date_naive()).num_days();
    match days {
        0 => format!("today {}", at.format("%H:%M")),
        1 => format!("yesterday {}", at.format("%H:%M")),
        2..=6 => format!("{days} days ago"),
        _ => at.format("%Y-%m-%d").to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chrono::{Duration, TimeZone};

    #[test]
    fn times_are_said_as_one_says_them() {
        let now = Local.with_ymd_and_hms(2026, 12, 1, 14, 30, 0).unwrap();
        let text = |ago: Duration| when_text((now - ago).to_utc(), now);
        assert_eq!(text(Duration::minutes(25)), "today 14:05");
        assert_eq!(text(Duration::hours(15)), "yesterday 23:30");
        assert_eq!(text(Duration::days(3)), "3 days ago");
        assert_eq!(text(Duration::days(30)), "2026-11-01");
        assert_eq!(text(-Duration::days(2)), "2026-12-03", "a clock that was set back");
    }
}
