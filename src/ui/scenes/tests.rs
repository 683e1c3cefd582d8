//! Every scene as a picture, at many sizes, and with hostile words.

mod hostile;
mod pictures;
mod sizes;
mod svg;

use ratatui::buffer::Buffer;

use super::Stage;
use crate::ui::text::width::width;

/// What a terminal of the buffer's size would show.
fn text_of(buf: &Buffer) -> String {
    let mut text = String::new();
    for y in buf.area.top()..buf.area.bottom() {
        let mut line = String::new();
        let mut x = buf.area.left();
        while x < buf.area.right() {
            let symbol = buf[(x, y)].symbol();
            line.push_str(symbol);
            x += width(symbol).max(1) as u16;
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

fn shows(stage: &Stage, words: &str) -> bool {
    text_of(&stage.buf).contains(words)
}
