//! The table of models: which columns there is room for, and what stands in them.

use std::path::Path;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use crate::engine::inventory::{ModelFacts, Verdict};
use crate::models::library::LibraryEntry;
use crate::ui::picker::{Choice, Picker};
use crate::ui::text::width::width;
use crate::ui::theme::Role;
use crate::ui::view::window::{Glyphs, Look, bytes_text, put, put_right};

/// A column after the name. In the order of the table; those of a higher rank go where there is no room.
struct Column {
    title: &'static str,
    columns: u16,
    rank: u8,
    is_right: bool,
    text: fn(&LibraryEntry, Option<&ModelFacts>) -> String,
}

const COLUMNS: [Column; 6] = [
    Column { title: "size", columns: 9, rank: 0, is_right: true, text: |entry, _| bytes_text(entry.file_bytes) },
    Column {
        title: "quant",
        columns: 8,
        rank: 1,
        is_right: false,
        text: |_, f| f.map_or_else(String::new, |f| f.quant.clone()),
    },
    Column {
        title: "params",
        columns: 6,
        rank: 2,
        is_right: true,
        text: |_, f| f.map_or_else(String::new, params_text),
    },
    Column {
        title: "ctx",
        columns: 5,
        rank: 4,
        is_right: true,
        text: |_, f| f.and_then(|f| f.n_ctx_train).map_or_else(String::new, ctx_text),
    },
    Column {
        title: "arch",
        columns: 10,
        rank: 3,
        is_right: false,
        text: |_, f| f.map_or_else(String::new, |f| f.arch.clone()),
    },
    Column { title: "from", columns: 14, rank: 5, is_right: false, text: |entry, _| entry.origin.label().to_owned() },
];

/// Before the name: the cursor, and whether it is the loaded one.
pub const MARK_COLUMNS: u16 = 3;
const LEAST_NAME_COLUMNS: u16 = 23;
const VERDICT_COLUMNS: u16 = 27;
const BETWEEN: u16 = 2;
/// What is shorter names a quantisation and no model.
const FILE_NAME_COLUMNS: usize = 14;

/// Which columns there is room for, and how wide the name may be.
pub struct Table {
    shown: Vec<&'static Column>,
    name: u16,
    verdict: u16,
}

impl Table {
    pub fn new(picker: &Picker, rows: &[Choice], room: u16) -> Table {
        let mut left = room.saturating_sub(MARK_COLUMNS + LEAST_NAME_COLUMNS + BETWEEN + VERDICT_COLUMNS);
        let mut by_rank: Vec<&Column> = COLUMNS.iter().collect();
        by_rank.sort_by_key(|column| column.rank);
        let mut most_rank = None;
        for column in by_rank {
            if left < column.columns + BETWEEN {
                break;
            }
            left -= column.columns + BETWEEN;
            most_rank = Some(column.rank);
        }
        let shown: Vec<_> = COLUMNS.iter().filter(|column| Some(column.rank) <= most_rank).collect();
        // The name gets what it needs of the rest, then the verdict.
        let longest = rows
            .iter()
            .filter_map(|row| match row {
                Choice::Model(path) => picker
                    .entry(path)
                    .map(|entry| width(entry.name.strip_suffix(".gguf").unwrap_or(&entry.name)) as u16),
                Choice::Typed(_) | Choice::Demo => None,
            })
            .max()
            .unwrap_or(0);
        let more = longest.saturating_sub(LEAST_NAME_COLUMNS).min(left);
        Table { shown, name: LEAST_NAME_COLUMNS + more, verdict: VERDICT_COLUMNS + (left - more) }
    }

    pub fn draw_titles(&self, area: Rect, y: u16, look: Look<'_>, buf: &mut Buffer) {
        let style = look.style(Role::Dim);
        put(buf, area, MARK_COLUMNS, y, "name", style, look);
        let mut x = MARK_COLUMNS + self.name + BETWEEN;
        for column in &self.shown {
            cell(buf, area, x, y, column, column.title, style, look);
            x += column.columns + BETWEEN;
        }
        put(buf, area, x, y, "on this machine", style, look);
    }

    pub fn draw_model(
        &self,
        picker: &Picker,
        path: &Path,
        is_loaded: bool,
        look: Look<'_>,
        line: Rect,
        buf: &mut Buffer,
    ) {
        let Some(entry) = picker.entry(path) else { return };
        let known = picker.known(path);
        let facts = known.and_then(|known| known.facts.as_ref());
        let can_run = known.is_none_or(|known| known.verdict.is_loadable());
        if is_loaded {
            put(buf, line, 1, 0, look.glyphs().open, look.style(Role::Good), look);
        }
        let role = if can_run { Role::Text } else { Role::Dim };
        let name = Rect { width: line.width.min(MARK_COLUMNS + self.name), ..line };
        let short = shortened(&entry.name, usize::from(self.name), look.glyphs().cut);
        put(buf, name, MARK_COLUMNS, 0, &short, look.style(role), look);
        let mut x = MARK_COLUMNS + self.name + BETWEEN;
        for column in &self.shown {
            cell(buf, line, x, 0, column, &(column.text)(entry, facts), look.style(Role::Dim), look);
            x += column.columns + BETWEEN;
        }
        let (sign, words, role) = verdict_text(known.map(|known| &known.verdict), look.glyphs());
        let room = Rect { width: line.width.min(x + self.verdict), ..line };
        let x = put(buf, room, x, 0, sign, look.style(role), look);
        let role = if role == Role::Good { Role::Text } else { role };
        put(buf, room, x + 1, 0, &words, look.style(role), look);
    }
}

#[expect(clippy::too_many_arguments, reason = "a cell of a table")]
fn cell(buf: &mut Buffer, line: Rect, x: u16, y: u16, column: &Column, text: &str, style: Style, look: Look<'_>) {
    if column.is_right {
        put_right(buf, line, x, y, column.columns, text, style, look);
    } else {
        put(buf, Rect { width: line.width.min(x + column.columns), ..line }, x, y, text, style, look);
    }
}

/// A sign that needs no colour, and words.
fn verdict_text(verdict: Option<&Verdict>, glyphs: &Glyphs) -> (&'static str, String, Role) {
    match verdict {
        None => (glyphs.unknown, "looking into it".to_owned(), Role::Dim),
        Some(Verdict::Fits { on }) => (glyphs.good, format!("fits on {on}"), Role::Good),
        Some(Verdict::FitsSplit { over }) => (glyphs.part, format!("fits, split over {}", over.len()), Role::Accent),
        Some(Verdict::TooLarge { short_bytes }) => {
            (glyphs.bad, format!("too large: {} short", bytes_text(*short_bytes)), Role::Warn)
        }
        Some(Verdict::Unsupported { why }) => (glyphs.bad, format!("cannot run: {why}"), Role::Bad),
        Some(Verdict::Unreadable { why }) => (glyphs.warn, format!("unreadable: {why}"), Role::Bad),
    }
}

/// A name without the ending that all have, and without folders or owner where it is too long with them: its end says
/// more.
fn shortened(name: &str, columns: usize, cut: &str) -> String {
    let name = name.strip_suffix(".gguf").unwrap_or(name);
    // `owner/repository: file`, where the file's name tells the model too
    if let Some((_, file)) = name.split_once(": ")
        && width(name) > columns
        && width(file) >= FILE_NAME_COLUMNS
    {
        return shortened(file, columns, cut);
    }
    match name.rsplit_once('/') {
        Some((_, end)) if width(name) > columns && !end.is_empty() => format!("{cut}/{end}"),
        Some(_) | None => name.to_owned(),
    }
}

/// `134.5M`, `8.0B`.
pub fn params_text(facts: &ModelFacts) -> String {
    let n = facts.n_params as f64;
    match facts.n_params {
        0..1_000 => facts.n_params.to_string(),
        1_000..1_000_000 => format!("{:.0}K", n / 1e3),
        1_000_000..1_000_000_000 => format!("{:.0}M", n / 1e6),
        _ => format!("{:.1}B", n / 1e9),
    }
}

/// `8K`, `128K`, or the number where it is no multiple.
fn ctx_text(n_ctx: u32) -> String {
    match n_ctx {
        n if n >= 1 << 20 => format!("{}M", n >> 20),
        n if n >= 1024 => format!("{}K", n >> 10),
        n => n.to_string(),
    }
}
