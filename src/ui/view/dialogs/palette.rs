//! The palette: what is typed, and the actions that it leaves.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::ui::action::Action;
use crate::ui::dialog::list::first_shown;
use crate::ui::dialog::{Drawn, Palette};
use crate::ui::hits::{Hits, Target};
use crate::ui::text::width::width;
use crate::ui::theme::Role;
use crate::ui::view::window::{Hint, Look, Window, draw_field, mark_row, open_window, put, put_right, row_of};

pub fn draw(palette: &Palette, look: Look<'_>, area: Rect, buf: &mut Buffer, hits: &mut Hits) -> Drawn {
    let rows = palette.rows(look.keymap);
    let aside = match rows.len() {
        1 => "1 action".to_owned(),
        n => format!("{n} actions"),
    };
    let glyphs = look.glyphs();
    let hints =
        [Hint::Does(Action::Choose, "run"), Hint::Keys(glyphs.up_down, "choose"), Hint::Does(Action::Close, "close")];
    // As high with few matches as with all: it does not jump while typing.
    let n_all = look.keymap.entries().filter(|(info, _)| info.in_palette).count();
    let size = (68, (n_all as u16 + 2).min(area.height.saturating_sub(6)));
    let window = Window { title: "Actions", aside: &aside, hints: &hints, size };
    let inner = open_window(&window, look, area, buf, hits);
    let x = put(buf, inner, 0, 0, &format!("{} ", glyphs.prompt), look.style(Role::Accent), look);
    let line = row_of(inner, 0);
    let line = Rect { x: line.x + x, width: line.width - x, ..line };
    let cursor = draw_field(&palette.filter, "type to search", look, line, buf);
    let list = Rect { y: inner.y.saturating_add(2), height: inner.height.saturating_sub(2), ..inner };
    if rows.is_empty() {
        put(buf, list, 2, 0, "No action is called so.", look.style(Role::Dim), look);
    }
    let chosen = palette.cursor.at(rows.len()).unwrap_or(0);
    let page = usize::from(list.height);
    let first = first_shown(chosen, rows.len(), page);
    for (y, (i, (info, chords))) in rows.iter().enumerate().skip(first).take(page).enumerate() {
        let y = y as u16;
        let keys = chords.first().map(ToString::to_string).unwrap_or_default();
        let key_columns = width(&keys) as u16;
        let is_chosen = i == chosen;
        if is_chosen {
            put(buf, list, 0, y, glyphs.chosen, look.style(Role::Accent), look);
        }
        let words = Rect { width: list.width.saturating_sub(key_columns + 2), ..list };
        put(buf, words, 2, y, info.words, look.style(Role::Text), look);
        put_right(
            buf,
            list,
            list.width.saturating_sub(key_columns),
            y,
            key_columns,
            &keys,
            look.style(Role::Key),
            look,
        );
        if is_chosen {
            mark_row(buf, row_of(list, y), look);
        }
        hits.add(row_of(list, y), Target::Item(i));
    }
    Drawn { cursor, page, most: rows.len().saturating_sub(page) }
}
