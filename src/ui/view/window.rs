//! What every dialog and full-screen form has: a box with a title, keys in its lower edge, lines of text within.

mod words;

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::style::Style;
use ratatui::symbols::border;
use ratatui::widgets::{Block, Clear, Widget};
use unicode_segmentation::UnicodeSegmentation;

use crate::ui::action::Action;
use crate::ui::dialog::field::Field;
use crate::ui::hits::{Hits, Target};
use crate::ui::keymap::Keymap;
use crate::ui::text::printable;
use crate::ui::text::width::{grapheme_width, truncate_with, width};
use crate::ui::theme::{Role, Theme};
pub use words::{bytes_text, count_text, wrap_words};

/// Signs that have an ASCII form.
#[derive(Clone, Copy)]
pub struct Glyphs {
    pub chosen: &'static str,
    pub prompt: &'static str,
    pub dot: &'static str,
    pub cut: &'static str,
    pub up_down: &'static str,
    pub left_right: &'static str,
    pub rule: &'static str,
    pub bar_full: &'static str,
    pub bar_rest: &'static str,
    pub open: &'static str,
    pub good: &'static str,
    pub part: &'static str,
    pub bad: &'static str,
    pub warn: &'static str,
    pub unknown: &'static str,
    pub border: border::Set<'static>,
}

const UNICODE: Glyphs = Glyphs {
    chosen: "▸",
    prompt: "›",
    dot: "·",
    cut: "…",
    up_down: "↑↓",
    left_right: "←→",
    rule: "─",
    bar_full: "█",
    bar_rest: "░",
    open: "●",
    good: "✓",
    part: "◐",
    bad: "✗",
    warn: "!",
    unknown: "…",
    border: border::PLAIN,
};

const ASCII: Glyphs = Glyphs {
    chosen: ">",
    prompt: ">",
    dot: "-",
    cut: "..",
    up_down: "up/down",
    left_right: "left/right",
    rule: "-",
    bar_full: "#",
    bar_rest: ".",
    open: "*",
    good: "+",
    part: "/",
    bad: "x",
    warn: "!",
    unknown: "?",
    border: border::Set {
        top_left: "+",
        top_right: "+",
        bottom_left: "+",
        bottom_right: "+",
        vertical_left: "|",
        vertical_right: "|",
        horizontal_top: "-",
        horizontal_bottom: "-",
    },
};

pub fn glyphs(theme: &Theme) -> &'static Glyphs {
    if theme.ascii { &ASCII } else { &UNICODE }
}

/// A key and what it does, in the lower edge.
#[derive(Clone, Copy)]
pub enum Hint<'a> {
    /// By the action's first key; a click on it does the same.
    Does(Action, &'a str),
    /// Keys that are no single action.
    Keys(&'a str, &'a str),
}

pub struct Window<'a> {
    pub title: &'a str,
    /// At the right of the upper edge.
    pub aside: &'a str,
    /// The last one is kept longest where there is little room.
    pub hints: &'a [Hint<'a>],
    /// Columns and rows within, where there is room.
    pub size: (u16, u16),
}

/// What everything that draws needs.
#[derive(Clone, Copy)]
pub struct Look<'a> {
    pub theme: &'a Theme,
    pub keymap: &'a Keymap,
}

impl Look<'_> {
    pub fn style(&self, role: Role) -> Style {
        self.theme.style(role)
    }

    pub fn glyphs(&self) -> &'static Glyphs {
        glyphs(self.theme)
    }
}

/// Columns that the edges and the space beside them take.
pub const EDGE_COLUMNS: u16 = 4;
pub const EDGE_ROWS: u16 = 2;

/// Draws the box in the middle of `area`, empty, and gives what is within.
pub fn open_window(window: &Window<'_>, look: Look<'_>, area: Rect, buf: &mut Buffer, hits: &mut Hits) -> Rect {
    let area = area.intersection(buf.area);
    let columns = window.size.0.saturating_add(EDGE_COLUMNS).min(area.width);
    let rows = window.size.1.saturating_add(EDGE_ROWS).min(area.height);
    let outer = Rect::new(area.x + (area.width - columns) / 2, area.y + (area.height - rows) / 2, columns, rows);
    hits.add(area, Target::Outside);
    hits.add(outer, Target::Dialog);
    clear(outer, buf);
    if outer.width < 6 || outer.height < 3 {
        // No room for a box: the title has to do.
        put(buf, outer, 0, 0, window.title, look.style(Role::Title), look);
        return Rect::new(outer.x, outer.y, 0, 0);
    }
    Block::bordered().border_set(look.glyphs().border).border_style(look.style(Role::BorderFocus)).render(outer, buf);
    let edge = Rect::new(outer.x + 1, outer.y, outer.width - 2, 1);
    let title_columns = width(window.title).min(usize::from(edge.width.saturating_sub(2)));
    spaced(buf, edge, 0, window.title, look.style(Role::Title), look);
    let aside_columns = width(window.aside) + 2;
    if !window.aside.is_empty() && title_columns + 3 + aside_columns <= usize::from(edge.width) {
        spaced(buf, edge, edge.width - aside_columns as u16, window.aside, look.style(Role::Dim), look);
    }
    let edge = Rect { y: outer.bottom() - 1, ..edge };
    draw_hints(window.hints, look, edge, buf, hits);
    Rect::new(outer.x + 2, outer.y + 1, outer.width - EDGE_COLUMNS, outer.height - EDGE_ROWS)
}

/// With a space on either side, so that it interrupts the edge.
fn spaced(buf: &mut Buffer, edge: Rect, at: u16, text: &str, style: Style, look: Look<'_>) {
    if edge.width.saturating_sub(at) > 2 {
        let room = Rect::new(edge.x + at, edge.y, edge.width - at, 1);
        put(buf, room, 0, 0, " ", style, look);
        let inside = Rect { x: room.x + 1, width: room.width - 2, ..room };
        let end = put(buf, inside, 0, 0, text, style, look);
        put(buf, Rect { width: inside.width + 1, ..inside }, end, 0, " ", style, look);
    }
}

/// Keys and what they do from the left, as far as there is room; the last one always.
pub fn draw_hints(hints: &[Hint<'_>], look: Look<'_>, line: Rect, buf: &mut Buffer, hits: &mut Hits) {
    let texts: Vec<(String, &str, Option<Action>)> = hints
        .iter()
        .filter_map(|hint| match *hint {
            Hint::Does(action, words) => {
                let key = look.keymap.shown(action);
                (!key.is_empty()).then_some((key, words, Some(action)))
            }
            Hint::Keys(keys, words) => Some((keys.to_owned(), words, None)),
        })
        .collect();
    let columns = |(key, words, _): &(String, &str, Option<Action>)| width(key) + width(words) + 1;
    let Some(last) = texts.last() else { return };
    let between = 3;
    // One space at either end.
    let room = usize::from(line.width).saturating_sub(2);
    let mut used = columns(last);
    let mut shown = vec![];
    for text in &texts[..texts.len() - 1] {
        if used + between + columns(text) > room {
            break;
        }
        used += between + columns(text);
        shown.push(text);
    }
    shown.push(last);
    if line.width < 4 {
        return;
    }
    let mut x = 0;
    for (i, (key, words, action)) in shown.into_iter().enumerate() {
        let before = if i == 0 { " ".to_owned() } else { format!(" {} ", look.glyphs().dot) };
        x = put(buf, line, x, 0, &before, look.style(Role::Dim), look);
        let start = x;
        x = put(buf, line, x, 0, key, look.style(Role::Key), look);
        x = put(buf, line, x, 0, " ", look.style(Role::Dim), look);
        x = put(buf, line, x, 0, words, look.style(Role::Dim), look);
        if let Some(action) = action {
            hits.add(Rect::new(line.x + start, line.y, x - start, 1), Target::Button(*action));
        }
    }
    put(buf, line, x, 0, " ", look.style(Role::Dim), look);
}

/// Empties cells; half of a wide character at the edge goes too.
fn clear(area: Rect, buf: &mut Buffer) {
    for y in area.top()..area.bottom() {
        if let Some(x) = area.x.checked_sub(1)
            && let Some(cell) = buf.cell_mut((x, y))
            && width(cell.symbol()) > 1
        {
            cell.set_symbol(" ");
        }
    }
    Clear.render(area, buf);
}

/// Writes one line into `area` from column `x` of row `y`, made fit for a terminal and cut with a mark where it is too
/// long; the column after it.
pub fn put(buf: &mut Buffer, area: Rect, x: u16, y: u16, text: &str, style: Style, look: Look<'_>) -> u16 {
    let area = area.intersection(buf.area);
    if x >= area.width || y >= area.height {
        return x.min(area.width);
    }
    let room = usize::from(area.width - x);
    let text = printable(text);
    let text = truncate_with(&text, room, look.glyphs().cut);
    let (end, _) = buf.set_stringn(area.x + x, area.y + y, &text, room, style);
    end - area.x
}

/// As [`put`], so that it ends at the right edge of `columns`.
#[expect(clippy::too_many_arguments, reason = "a place is four numbers")]
pub fn put_right(buf: &mut Buffer, area: Rect, x: u16, y: u16, columns: u16, text: &str, style: Style, look: Look<'_>) {
    let text = printable(text);
    let indent = columns.saturating_sub(width(&text).min(usize::from(columns)) as u16);
    let cell = Rect { width: area.width.min(x.saturating_add(columns)), ..area };
    put(buf, cell, x + indent, y, &text, style, look);
}

/// A line across.
pub fn rule(buf: &mut Buffer, area: Rect, y: u16, look: Look<'_>) {
    let line = look.glyphs().rule.repeat(usize::from(area.width));
    put(buf, area, 0, y, &line, look.style(Role::Border), look);
}

/// The row with the cursor: its colour over all of it, whatever stands there.
pub fn mark_row(buf: &mut Buffer, row: Rect, look: Look<'_>) {
    let row = row.intersection(buf.area);
    buf.set_style(row, look.style(Role::Selection));
}

/// Line `y` of `area` as a rectangle, where there is one.
pub fn row_of(area: Rect, y: u16) -> Rect {
    Rect::new(area.x, area.y.saturating_add(y), area.width, 1).intersection(area)
}

/// A line that is typed in, scrolled so that its cursor is seen; where the cursor is. `empty` stands there while
/// nothing is typed.
pub fn draw_field(field: &Field, empty: &str, look: Look<'_>, line: Rect, buf: &mut Buffer) -> Option<Position> {
    let line = line.intersection(buf.area);
    if line.is_empty() {
        return None;
    }
    if field.is_empty() {
        put(buf, line, 0, 0, empty, look.style(Role::Dim), look);
        return Some(line.as_position());
    }
    let (before, after) = field.around_cursor();
    let (before, after) = (printable(before), printable(after));
    // One column is kept for the cursor at the end.
    let room = usize::from(line.width) - 1;
    let mut columns = width(&before);
    let mut start = 0;
    for (at, grapheme) in before.grapheme_indices(true) {
        if columns <= room {
            break;
        }
        columns -= grapheme_width(grapheme);
        start = at + grapheme.len();
    }
    let shown = before.get(start..).unwrap_or_default();
    let style = look.style(Role::Text);
    let x = put(buf, line, 0, 0, shown, style, look);
    put(buf, line, x, 0, &after, style, look);
    Some(Position::new(line.x + x.min(line.width - 1), line.y))
}

/// A bar of `columns` that is full to the share `0..=1`.
pub fn bar_text(share: f64, columns: usize, look: Look<'_>) -> (String, String) {
    let share = if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 };
    let full = (share * columns as f64).round() as usize;
    (look.glyphs().bar_full.repeat(full), look.glyphs().bar_rest.repeat(columns - full))
}
