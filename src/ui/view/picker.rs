//! The choice of a model as a table, with what is known of the chosen one below it.

mod details;
mod table;

use std::path::Path;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::window::{
    EDGE_COLUMNS, EDGE_ROWS, Hint, Look, Window, bar_text, bytes_text, count_text, draw_field, mark_row, open_window,
    put, row_of, rule, wrap_words,
};
use crate::ui::action::Action;
use crate::ui::dialog::Drawn;
use crate::ui::dialog::list::first_shown;
use crate::ui::hits::{Hits, Target};
use crate::ui::keymap::Keymap;
use crate::ui::msg::DemoProgress;
use crate::ui::picker::{Choice, Picker};
use crate::ui::theme::{Role, Theme};
use details::draw_details;
use table::{MARK_COLUMNS, Table};

/// What the picker shows besides its own state.
#[derive(Clone, Copy)]
pub struct PickerData<'a> {
    pub theme: &'a Theme,
    pub keymap: &'a Keymap,
    /// The model that is loaded; without one the picker is the whole screen, with one a dialog above it.
    pub loaded: Option<&'a Path>,
    /// Words on the last try, such as why a model did not load.
    pub error: Option<&'a str>,
}

/// A rule, what it is, whether it runs, where it lies.
const DETAIL_ROWS: u16 = 4;
const DEMO_NAME: &str = "SmolLM2-135M demo";
const DEMO_WORDS: &str = "98 MB, fetched with pip";

/// Draws the picker over `area`. [`Picker::drawn`] takes what it gives.
pub fn draw_picker(picker: &Picker, data: &PickerData<'_>, area: Rect, buf: &mut Buffer, hits: &mut Hits) -> Drawn {
    let look = Look { theme: data.theme, keymap: data.keymap };
    let rows = picker.rows();
    let at = picker.at(&rows);
    let glyphs = look.glyphs();
    let is_dialog = data.loaded.is_some();
    let does = match rows.get(at) {
        Some(Choice::Demo) => "fetch and load",
        Some(Choice::Model(_) | Choice::Typed(_)) | None => "load",
    };
    let leave = match (picker.filter().is_empty(), is_dialog) {
        (false, _) => "clear",
        (true, true) => "close",
        (true, false) => "quit",
    };
    let hints = [
        Hint::Does(Action::Choose, does),
        Hint::Keys(glyphs.up_down, "choose"),
        Hint::Keys("type", "filter, or a path"),
        Hint::Does(Action::Close, leave),
    ];
    let size = match is_dialog {
        true => (area.width.saturating_sub(EDGE_COLUMNS).min(150), area.height.saturating_sub(6).min(40)),
        false => (area.width.saturating_sub(EDGE_COLUMNS), area.height.saturating_sub(EDGE_ROWS)),
    };
    let title = if is_dialog { "Open another model" } else { "layercake: open a model" };
    let aside = status(picker, &rows);
    let inner = open_window(&Window { title, aside: &aside, hints: &hints, size }, look, area, buf, hits);

    let x = put(buf, inner, 0, 0, &format!("{} ", glyphs.prompt), look.style(Role::Accent), look);
    let line = row_of(inner, 0);
    let line = Rect { x: line.x + x, width: line.width - x, ..line };
    let cursor = draw_field(picker.filter(), "type to filter", look, line, buf);
    // Little room is the list's.
    let details = if inner.height >= 9 { DETAIL_ROWS } else { 0 };
    let top: u16 = if inner.height >= 6 { 3 } else { 1 };
    let list = Rect { y: inner.y.saturating_add(top), height: inner.height.saturating_sub(top + details), ..inner };
    let table = Table::new(picker, &rows, inner.width);
    if top == 3 && rows.iter().any(|row| matches!(row, Choice::Model(_))) {
        table.draw_titles(inner, 2, look, buf);
    }
    let page = usize::from(list.height);
    let first = first_shown(at, rows.len(), page);
    for (y, (i, row)) in rows.iter().enumerate().skip(first).take(page).enumerate() {
        let line = row_of(list, y as u16);
        match row {
            Choice::Model(path) => table.draw_model(picker, path, data.loaded == Some(path), look, line, buf),
            Choice::Typed(text) => {
                let x = put(buf, line, MARK_COLUMNS, 0, "Open this path: ", look.style(Role::Text), look);
                put(buf, line, x, 0, text, look.style(Role::Strong), look);
            }
            Choice::Demo => draw_demo(picker.demo(), look, line, buf),
        }
        if i == at {
            put(buf, line, 0, 0, glyphs.chosen, look.style(Role::Accent), look);
            mark_row(buf, line, look);
        }
        hits.add(line, Target::Item(i));
    }
    if !rows.iter().any(|row| matches!(row, Choice::Model(_) | Choice::Typed(_))) {
        let below = Rect {
            y: list.y.saturating_add(rows.len() as u16 + 1),
            height: list.height.saturating_sub(rows.len() as u16 + 1),
            ..list
        };
        draw_empty(picker, look, below, buf);
    }
    if details > 0 {
        let y = inner.height - details;
        rule(buf, inner, y, look);
        let lines = Rect { y: inner.y + y + 1, height: details - 1, ..inner };
        draw_details(picker, rows.get(at), data.error, look, lines, buf);
    }
    Drawn { cursor, page, most: rows.len().saturating_sub(page) }
}

/// How many there are.
fn status(picker: &Picker, rows: &[Choice]) -> String {
    let n_shown = rows.iter().filter(|row| matches!(row, Choice::Model(_))).count();
    let n = picker.n_models();
    let models = if n == 1 { "model" } else { "models" };
    match (picker.is_scanning(), picker.filter().is_empty()) {
        (true, _) if n == 0 => "looking for models".to_owned(),
        (true, _) => format!("{} {models}, looking for more", count_text(n as u64)),
        (false, true) => format!("{} {models}", count_text(n as u64)),
        (false, false) => format!("{} of {} {models}", count_text(n_shown as u64), count_text(n as u64)),
    }
}

fn draw_demo(demo: Option<&DemoProgress>, look: Look<'_>, line: Rect, buf: &mut Buffer) {
    let x = put(buf, line, MARK_COLUMNS, 0, DEMO_NAME, look.style(Role::Text), look);
    let (words, role) = match demo {
        None => (format!(" ({DEMO_WORDS})"), Role::Dim),
        Some(DemoProgress::Bytes { done_bytes, total_bytes: None }) => {
            (format!("  fetched {}", bytes_text(*done_bytes)), Role::Accent)
        }
        Some(DemoProgress::Bytes { done_bytes, total_bytes: Some(total_bytes) }) => {
            let share = *done_bytes as f64 / (*total_bytes).max(1) as f64;
            let (full, rest) = bar_text(share, 20, look);
            let x = put(buf, line, x + 2, 0, &full, look.style(Role::BarWeights), look);
            let x = put(buf, line, x, 0, &rest, look.style(Role::BarFree), look);
            let percent = (share.clamp(0.0, 1.0) * 100.0).floor();
            let words = format!(" {percent:.0}%, {} of {}", bytes_text(*done_bytes), bytes_text(*total_bytes));
            put(buf, line, x, 0, &words, look.style(Role::Accent), look);
            return;
        }
        Some(DemoProgress::Words(words)) => (format!("  {words}"), Role::Accent),
        Some(DemoProgress::Ready(_)) => ("  fetched".to_owned(), Role::Good),
        Some(DemoProgress::Failed(why)) => (format!("  {why}"), Role::Bad),
    };
    put(buf, line, x, 0, &words, look.style(role), look);
}

/// Words where no model is in the list.
fn draw_empty(picker: &Picker, look: Look<'_>, area: Rect, buf: &mut Buffer) {
    let words = match (picker.n_models(), picker.is_scanning()) {
        (0, true) => {
            "Looking in the model folder, the current folder, and where Hugging Face, LM Studio, Ollama and llama.cpp \
             keep models."
        }
        (0, false) => {
            "No GGUF file was found in the model folder, in the current folder, or where Hugging Face, LM Studio, Ollama \
             and llama.cpp keep models. The demo model is small and runs on every machine; or type the path of a file."
        }
        (_, _) => "No model is called so. A path begins with / or ~/ or ./",
    };
    let columns = usize::from(area.width.saturating_sub(2 * MARK_COLUMNS)).min(90);
    for (y, line) in wrap_words(words, columns).iter().enumerate().take(usize::from(area.height)) {
        put(buf, area, MARK_COLUMNS, y as u16, line, look.style(Role::Dim), look);
    }
}

#[cfg(test)]
mod tests;
