//! The form of settings: names and values in groups, what is wrong in its place.

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};

use crate::ui::action::Action;
use crate::ui::dialog::list::first_shown;
use crate::ui::dialog::{Drawn, SETTINGS, Setting, Settings};
use crate::ui::hits::{Hits, Target};
use crate::ui::theme::Role;
use crate::ui::view::window::{EDGE_ROWS, Hint, Look, Window, mark_row, open_window, put, put_right, row_of, rule};

const NAME_COLUMNS: u16 = 20;
const VALUE_COLUMNS: u16 = 12;
/// Words on each setting, in the same line; `changed` and a space before them.
const MARK_COLUMNS: u16 = 9;
const WORDS_COLUMNS: u16 = 78;
const LEAST_WORDS_COLUMNS: u16 = 60;
const BESIDE: u16 = 2 + NAME_COLUMNS + VALUE_COLUMNS + 2 + MARK_COLUMNS;

/// A line of the list: the title of a group, or a setting by its place.
enum Line {
    Title(&'static str),
    Setting(usize),
}

pub fn draw(settings: &Settings, look: Look<'_>, area: Rect, buf: &mut Buffer, hits: &mut Hits) -> Drawn {
    let lines = lines();
    let wrong = settings.values().err();
    let is_wide = area.width >= BESIDE + LEAST_WORDS_COLUMNS + 6;
    // Words on the chosen one stand below the list too: beside it there may be room for a part of them.
    let below = 2;
    let columns = if is_wide { BESIDE + WORDS_COLUMNS.min(area.width - 6 - BESIDE) } else { 74 };
    let rows = (lines.len() as u16 + below).min(area.height.saturating_sub(EDGE_ROWS));
    let glyphs = look.glyphs();
    let hints = [
        Hint::Does(Action::Choose, "apply"),
        Hint::Keys(glyphs.left_right, "step"),
        Hint::Keys("0-9", "type"),
        Hint::Does(Action::DeleteItem, "default"),
        Hint::Does(Action::Close, "discard"),
    ];
    let window = Window { title: "Settings", aside: "", hints: &hints, size: (columns, rows) };
    let inner = open_window(&window, look, area, buf, hits);
    let below = if inner.height > 4 { below } else { 0 };
    let list = Rect { height: inner.height - below.min(inner.height), ..inner };
    let page = usize::from(list.height);
    let chosen = settings.chosen();
    let chosen_line = lines.iter().position(|line| matches!(line, Line::Setting(i) if *i == chosen)).unwrap_or(0);
    let first = first_shown(chosen_line, lines.len(), page);
    let values: Vec<_> = settings.rows().collect();
    let mut cursor = None;
    for (y, line) in lines.iter().skip(first).take(page).enumerate() {
        let y = y as u16;
        match line {
            Line::Title(title) => {
                put(buf, list, 0, y, title, look.style(Role::Title), look);
            }
            Line::Setting(i) => {
                let Some((setting, text, is_default)) = values.get(*i) else { continue };
                let error = wrong.as_ref().filter(|(at, _)| at == i).map(|(_, words)| words.as_str());
                let end = draw_setting(setting, text, *is_default, error, is_wide, look, list, y, buf);
                if *i == chosen {
                    put(buf, list, 0, y, glyphs.chosen, look.style(Role::Accent), look);
                    mark_row(buf, row_of(list, y), look);
                    cursor = settings.is_typing().then(|| Position::new(list.x + end, list.y + y));
                }
                hits.add(row_of(list, y), Target::Item(*i));
            }
        }
    }
    if below > 0 {
        rule(buf, inner, list.height, look);
        match (&wrong, SETTINGS.get(chosen)) {
            (Some((at, words)), Some(setting)) if *at == chosen => {
                let words = format!("{} {words}", setting.name);
                put(buf, inner, 0, list.height + 1, &words, look.style(Role::Bad), look);
            }
            (_, Some(setting)) => {
                put(buf, inner, 0, list.height + 1, setting.words, look.style(Role::Text), look);
            }
            (_, None) => {}
        }
    }
    Drawn { cursor, page, most: lines.len().saturating_sub(page) }
}

/// The column after the value.
#[expect(clippy::too_many_arguments, reason = "a line of a table, drawn in one place")]
fn draw_setting(
    setting: &Setting,
    text: &str,
    is_default: bool,
    error: Option<&str>,
    is_wide: bool,
    look: Look<'_>,
    list: Rect,
    y: u16,
    buf: &mut Buffer,
) -> u16 {
    put(
        buf,
        Rect { width: list.width.min(2 + NAME_COLUMNS), ..list },
        2,
        y,
        setting.name,
        look.style(Role::Text),
        look,
    );
    let role = match (error, is_default) {
        (Some(_), _) => Role::Bad,
        (None, true) => Role::Dim,
        (None, false) => Role::Strong,
    };
    put_right(buf, list, 2 + NAME_COLUMNS, y, VALUE_COLUMNS, text, look.style(role), look);
    let x = 2 + NAME_COLUMNS + VALUE_COLUMNS + 2;
    let room = Rect { width: list.width, ..list };
    match error {
        Some(words) => {
            put(buf, room, x, y, &format!("{} {words}", look.glyphs().bad), look.style(Role::Bad), look);
        }
        None => {
            let (mark, role) = if is_default { ("default", Role::Dim) } else { ("changed", Role::Accent) };
            put(buf, room, x, y, mark, look.style(role), look);
            if is_wide {
                put(buf, room, BESIDE, y, setting.words, look.style(Role::Dim), look);
            }
        }
    }
    // Values end at a column of their own, so the cursor stands behind them.
    (2 + NAME_COLUMNS + VALUE_COLUMNS).min(list.width.saturating_sub(1))
}

fn lines() -> Vec<Line> {
    let mut lines = vec![];
    let mut group = "";
    for (i, setting) in SETTINGS.iter().enumerate() {
        if setting.group != group {
            group = setting.group;
            lines.push(Line::Title(group));
        }
        lines.push(Line::Setting(i));
    }
    lines
}
