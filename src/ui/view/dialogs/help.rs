//! The help: keys and words, in as many columns as there is room for.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::ui::action::{Action, ActionInfo, Context};
use crate::ui::dialog::{Drawn, Help};
use crate::ui::hits::Hits;
use crate::ui::keymap::Chord;
use crate::ui::text::width::width;
use crate::ui::theme::Role;
use crate::ui::view::window::{
    EDGE_COLUMNS, EDGE_ROWS, Hint, Look, Window, draw_field, open_window, put, row_of, wrap_words,
};

/// Columns that a group wants: keys, a space, words.
const GROUP_COLUMNS: u16 = 54;
const KEY_COLUMNS: usize = 16;
const BETWEEN_COLUMNS: u16 = 3;

/// One line of a column.
enum Line {
    Title(&'static str),
    Entry { keys: String, words: String },
    Empty,
}

pub fn draw(help: &Help, look: Look<'_>, area: Rect, buf: &mut Buffer, hits: &mut Hits) -> Drawn {
    let room = area.width.saturating_sub(EDGE_COLUMNS);
    let n_columns = usize::from(((room + BETWEEN_COLUMNS) / (GROUP_COLUMNS + BETWEEN_COLUMNS)).clamp(1, 3));
    let columns = room.saturating_sub((n_columns as u16 - 1) * BETWEEN_COLUMNS) / n_columns as u16;
    let columns = columns.min(GROUP_COLUMNS + 20);
    let groups: Vec<Vec<Line>> =
        help.groups(look.keymap).iter().map(|(context, entries)| lines(*context, entries, columns)).collect();
    let columns_of_lines = balanced(groups, n_columns);
    let n_lines = columns_of_lines.iter().map(Vec::len).max().unwrap_or(0);

    let filter_rows = u16::from(help.filter.is_some()) * 2;
    let up_down = look.glyphs().up_down;
    let typed = [Hint::Keys(up_down, "scroll"), Hint::Keys("backspace", "back"), Hint::Does(Action::Close, "close")];
    let untyped = [
        Hint::Keys("type or /", "filter"),
        Hint::Keys("d", "doctor"),
        Hint::Keys(up_down, "scroll"),
        Hint::Does(Action::Close, "close"),
    ];
    let hints: &[Hint<'_>] = if help.filter.is_some() { &typed } else { &untyped };
    let width = columns * n_columns as u16 + BETWEEN_COLUMNS * (n_columns as u16 - 1);
    let rows = if help.filter.is_some() { u16::MAX } else { (n_lines as u16).max(3) };
    let size = (width, rows.min(area.height.saturating_sub(EDGE_ROWS)));
    let page = usize::from(size.1.saturating_sub(filter_rows));
    let top = help.scroll.top.min(n_lines.saturating_sub(page));
    let aside = match n_lines.saturating_sub(page) {
        0 => String::new(),
        _ => format!("{}-{} of {n_lines} lines", top + 1, (top + page).min(n_lines)),
    };
    let window = Window { title: "Keys", aside: &aside, hints, size };
    let inner = open_window(&window, look, area, buf, hits);
    let cursor = help.filter.as_ref().and_then(|filter| {
        let x = put(buf, inner, 0, 0, &format!("{} ", look.glyphs().prompt), look.style(Role::Accent), look);
        let line = row_of(inner, 0);
        draw_field(filter, "words or keys", look, Rect { x: line.x + x, width: line.width - x, ..line }, buf)
    });
    let body =
        Rect { y: inner.y.saturating_add(filter_rows), height: inner.height.saturating_sub(filter_rows), ..inner };
    if n_lines == 0 {
        put(buf, body, 0, 0, "No key does anything like that.", look.style(Role::Dim), look);
    }
    for (i, lines) in columns_of_lines.iter().enumerate() {
        let x = i as u16 * (columns + BETWEEN_COLUMNS);
        let column = Rect { x: body.x.saturating_add(x), width: columns, ..body }.intersection(body);
        for (y, line) in lines.iter().skip(top).take(page).enumerate() {
            draw_line(line, column, y as u16, look, buf);
        }
    }
    let page = usize::from(body.height);
    Drawn { cursor, page, most: n_lines.saturating_sub(page) }
}

fn draw_line(line: &Line, column: Rect, y: u16, look: Look<'_>, buf: &mut Buffer) {
    match line {
        Line::Title(title) => {
            put(buf, column, 0, y, title, look.style(Role::Title), look);
        }
        Line::Entry { keys, words } => {
            let end = put(buf, column, 0, y, keys, look.style(Role::Key), look);
            put(buf, column, (end + 1).max(KEY_COLUMNS as u16 + 1), y, words, look.style(Role::Text), look);
        }
        Line::Empty => {}
    }
}

/// A title and its entries. The first key stands for all where there is no room for more.
fn lines(context: Context, entries: &[(&'static ActionInfo, &[Chord])], columns: u16) -> Vec<Line> {
    let mut lines = vec![Line::Title(context.title())];
    for (info, chords) in entries {
        let mut keys = String::new();
        for chord in *chords {
            let more = if keys.is_empty() { chord.to_string() } else { format!("{keys} {chord}") };
            if !keys.is_empty() && width(&more) > KEY_COLUMNS {
                break;
            }
            keys = more;
        }
        let room = usize::from(columns).saturating_sub(KEY_COLUMNS.max(width(&keys)) + 1);
        for (i, words) in wrap_words(info.words, room).into_iter().enumerate() {
            lines.push(Line::Entry { keys: if i == 0 { std::mem::take(&mut keys) } else { String::new() }, words });
        }
    }
    lines.push(Line::Empty);
    lines
}

/// Groups in their order in so many columns, so that the highest column is as low as can be.
fn balanced(groups: Vec<Vec<Line>>, n_columns: usize) -> Vec<Vec<Line>> {
    let sizes: Vec<usize> = groups.iter().map(Vec::len).collect();
    let least = sizes.iter().copied().max().unwrap_or(0);
    let most: usize = sizes.iter().sum();
    let fits = |height: usize| fill(&sizes, height).last().is_none_or(|column| *column < n_columns);
    let height = (least..=most).find(|height| fits(*height)).unwrap_or(most);
    let places = fill(&sizes, height);
    let mut columns: Vec<Vec<Line>> = (0..n_columns).map(|_| vec![]).collect();
    for (group, place) in groups.into_iter().zip(places) {
        if let Some(column) = columns.get_mut(place) {
            column.extend(group);
        }
    }
    for column in &mut columns {
        if matches!(column.last(), Some(Line::Empty)) {
            column.pop();
        }
    }
    columns
}

/// The column of each group when none is higher than `height`.
fn fill(sizes: &[usize], height: usize) -> Vec<usize> {
    let (mut column, mut used) = (0, 0);
    let place = |size: &usize| {
        if used + size > height && used > 0 {
            (column, used) = (column + 1, 0);
        }
        used += size;
        column
    };
    sizes.iter().map(place).collect()
}
