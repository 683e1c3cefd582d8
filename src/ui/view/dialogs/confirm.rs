//! Small dialogs: a question, and a title to type.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::ui::action::Action;
use crate::ui::dialog::{Confirm, Drawn, Rename};
use crate::ui::hits::{Hits, Target};
use crate::ui::text::width::width;
use crate::ui::theme::Role;
use crate::ui::view::window::{Hint, Look, Window, draw_field, open_window, put, row_of, wrap_words};

const COLUMNS: u16 = 56;

pub fn draw(confirm: &Confirm, look: Look<'_>, area: Rect, buf: &mut Buffer, hits: &mut Hits) -> Drawn {
    let columns = COLUMNS.min(area.width.saturating_sub(4));
    let question = wrap_words(&confirm.question, usize::from(columns));
    let detail = wrap_words(&confirm.detail, usize::from(columns));
    let rows = question.len() + detail.len() + 2;
    let hints = [
        Hint::Keys("y", "yes"),
        Hint::Keys("n", "no"),
        Hint::Keys(look.glyphs().left_right, "choose"),
        Hint::Does(Action::Close, "no"),
    ];
    let window = Window { title: "Sure?", aside: "", hints: &hints, size: (columns, rows as u16) };
    let inner = open_window(&window, look, area, buf, hits);
    let lines = question.iter().map(|line| (line, Role::Strong)).chain(detail.iter().map(|line| (line, Role::Dim)));
    let mut y = 0;
    for (line, role) in lines {
        put(buf, inner, 0, y, line, look.style(role), look);
        y += 1;
    }
    // The answers stay where the text is too long for the box.
    let y = (y + 1).min(inner.height.saturating_sub(1));
    let mut x = 0;
    for (item, (words, is_chosen)) in [(" Yes ", confirm.yes), (" No ", !confirm.yes)].into_iter().enumerate() {
        let text = if is_chosen { format!("[{words}]") } else { format!(" {words} ") };
        let style = if is_chosen {
            look.style(Role::Strong).patch(look.style(Role::Selection))
        } else {
            look.style(Role::Text)
        };
        put(buf, inner, x, y, &text, style, look);
        let columns = width(&text) as u16;
        let place = Rect::new(inner.x.saturating_add(x), inner.y.saturating_add(y), columns, 1);
        hits.add(place.intersection(inner), Target::Item(item));
        x += columns + 2;
    }
    Drawn { page: usize::from(inner.height), ..Drawn::default() }
}

pub fn draw_rename(rename: &Rename, look: Look<'_>, area: Rect, buf: &mut Buffer, hits: &mut Hits) -> Drawn {
    let hints = [Hint::Does(Action::Choose, "rename"), Hint::Does(Action::Close, "cancel")];
    let window = Window { title: "Title of the session", aside: "", hints: &hints, size: (COLUMNS, 1) };
    let inner = open_window(&window, look, area, buf, hits);
    let cursor = draw_field(&rename.title, "the first question", look, row_of(inner, 0), buf);
    Drawn { cursor, page: usize::from(inner.height), ..Drawn::default() }
}
