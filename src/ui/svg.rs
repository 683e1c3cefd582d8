//! A picture of the screen as SVG, for the README.
//!
//! Lines, blocks and dots are drawn as shapes, so that they meet in every font; everything else is text in runs of one
//! style, set to the width of its columns.

mod glyphs;

use std::fmt::Write;

use ratatui::buffer::{Buffer, Cell};
use ratatui::style::{Color, Modifier};

use super::text::width::width as columns_of;
use glyphs::{Shape, shape};

/// Size of a cell and of the text in it, in pixels.
const CELL_WIDTH: f32 = 8.4;
const CELL_HEIGHT: f32 = 18.0;
const FONT_SIZE: f32 = 14.0;
const BASELINE: f32 = 13.6;
/// Around the picture.
const MARGIN: f32 = 14.0;
/// Of the window's bar.
const BAR: f32 = 30.0;

/// Opacity of dim text.
const DIM: f32 = 0.6;

const BACKGROUND: &str = "#16181d";
const BAR_BACKGROUND: &str = "#23262d";
const FOREGROUND: &str = "#d4d7dd";
const TITLE: &str = "#8b909a";
const FONTS: &str =
    "'DejaVu Sans Mono','Cascadia Mono','JetBrains Mono',Menlo,Consolas,'Noto Sans Mono CJK JP',monospace";

/// The picture in a window of this title, for a dark background.
pub fn svg(buf: &Buffer, title: &str) -> String {
    let width = f32::from(buf.area.width) * CELL_WIDTH + 2.0 * MARGIN;
    let height = f32::from(buf.area.height) * CELL_HEIGHT + 2.0 * MARGIN + BAR;
    let mut out = String::new();
    let _ = writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
         viewBox=\"0 0 {width:.1} {height:.1}\" role=\"img\">"
    );
    let _ = writeln!(out, "<title>{}</title>", escaped(title));
    let _ = writeln!(out, "<style>text{{font-family:{FONTS};font-size:{FONT_SIZE}px;white-space:pre}}</style>");
    let _ = writeln!(out, "<rect width=\"{width:.1}\" height=\"{height:.1}\" rx=\"9\" fill=\"{BACKGROUND}\"/>");
    let _ = writeln!(
        out,
        "<path d=\"M0 {BAR}V9a9 9 0 0 1 9-9H{right:.1}a9 9 0 0 1 9 9V{BAR}z\" fill=\"{BAR_BACKGROUND}\"/>",
        right = width - 9.0
    );
    for (i, colour) in ["#ff5f57", "#febc2e", "#28c840"].iter().enumerate() {
        let _ = writeln!(out, "<circle cx=\"{}\" cy=\"{}\" r=\"5.5\" fill=\"{colour}\"/>", 18 + 19 * i, BAR / 2.0);
    }
    let _ = writeln!(
        out,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"{TITLE}\">{}</text>",
        width / 2.0,
        BAR / 2.0 + 5.0,
        escaped(title)
    );
    let _ = writeln!(out, "<g transform=\"translate({MARGIN} {:.1})\">", MARGIN + BAR);
    for y in 0..buf.area.height {
        row(buf, y, &mut out);
    }
    out.push_str("</g>\n</svg>\n");
    out
}

fn row(buf: &Buffer, y: u16, out: &mut String) {
    let cells = cells_of(buf, y);
    let top = f32::from(y) * CELL_HEIGHT;
    // Backgrounds first: what is drawn may reach over its cell.
    for run in cells.chunk_by(|a, b| a.look.background == b.look.background) {
        if let Some(colour) = &run[0].look.background {
            let (x, width) = extent(run);
            let _ = writeln!(
                out,
                "<rect x=\"{x:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{CELL_HEIGHT}\" fill=\"{colour}\"/>"
            );
        }
    }
    let opacity = |cell: &Placed<'_>| cell.shape.as_ref().map(|shape| shape.opacity);
    for run in cells.chunk_by(|a, b| a.look == b.look && opacity(a) == opacity(b)) {
        let look = &run[0].look;
        if let Some(opacity) = opacity(&run[0]) {
            let path: String = run.iter().filter_map(|cell| cell.shape.as_ref()).map(|s| s.path.as_str()).collect();
            let opacity = if look.dim { opacity * DIM } else { opacity };
            let opacity = if opacity < 1.0 { format!(" fill-opacity=\"{opacity:.2}\"") } else { String::new() };
            if !path.is_empty() {
                let _ = writeln!(out, "<path d=\"{path}\" fill=\"{}\"{opacity}/>", look.foreground);
            }
            continue;
        }
        // Blanks at the ends are not worth a word, unless they are underlined.
        let is_lined = look.underlined || look.crossed;
        let blank = |cell: &&Placed<'_>| cell.symbol == " " && !is_lined;
        let before = run.iter().take_while(blank).count();
        let after = run.iter().rev().take_while(blank).count();
        let Some(run) = run.get(before..run.len() - after.min(run.len() - before)).filter(|run| !run.is_empty()) else {
            continue;
        };
        words(run, top, out);
    }
}

/// A run of text in one style. A wide character or one outside of ASCII stands alone, as fonts disagree on its width.
fn words(run: &[Placed<'_>], top: f32, out: &mut String) {
    let is_plain =
        |cell: &Placed<'_>| cell.symbol.is_ascii() || cell.symbol.chars().all(|c| ('\u{a1}'..'\u{250}').contains(&c));
    for part in run.chunk_by(|a, b| is_plain(a) && is_plain(b)) {
        let look = &part[0].look;
        let (x, width) = extent(part);
        let text: String = part.iter().map(|cell| cell.symbol).collect();
        let mut style = String::new();
        if look.bold {
            style += " font-weight=\"bold\"";
        }
        if look.italic {
            style += " font-style=\"italic\"";
        }
        match (look.underlined, look.crossed) {
            (true, false) => style += " text-decoration=\"underline\"",
            (false, true) => style += " text-decoration=\"line-through\"",
            (true, true) => style += " text-decoration=\"underline line-through\"",
            (false, false) => {}
        }
        if look.dim {
            let _ = write!(style, " opacity=\"{DIM:.2}\"");
        }
        if text.trim().is_empty() && style.is_empty() {
            continue;
        }
        let _ = writeln!(
            out,
            "<text x=\"{x:.1}\" y=\"{:.1}\" textLength=\"{width:.1}\" lengthAdjust=\"spacingAndGlyphs\" \
             xml:space=\"preserve\" fill=\"{}\"{style}>{}</text>",
            top + BASELINE,
            look.foreground,
            escaped(&text)
        );
    }
}

/// A character with its place.
struct Placed<'a> {
    column: u16,
    n_columns: u16,
    symbol: &'a str,
    look: Look,
    /// Where it is drawn and not written.
    shape: Option<Shape>,
}

#[derive(PartialEq, Clone)]
struct Look {
    foreground: String,
    /// `None`: that of the window.
    background: Option<String>,
    bold: bool,
    dim: bool,
    italic: bool,
    underlined: bool,
    crossed: bool,
}

fn cells_of(buf: &Buffer, y: u16) -> Vec<Placed<'_>> {
    let mut cells = vec![];
    let mut column = 0;
    while column < buf.area.width {
        let Some(cell) = buf.cell((buf.area.x + column, buf.area.y + y)) else { break };
        let n_columns = (columns_of(cell.symbol()) as u16).max(1);
        let (left, top) = (f32::from(column) * CELL_WIDTH, f32::from(y) * CELL_HEIGHT);
        let shape = shape(cell.symbol(), (left, top), (CELL_WIDTH, CELL_HEIGHT));
        cells.push(Placed { column, n_columns, symbol: cell.symbol(), look: look_of(cell), shape });
        column += n_columns;
    }
    cells
}

fn extent(run: &[Placed<'_>]) -> (f32, f32) {
    let n: u16 = run.iter().map(|cell| cell.n_columns).sum();
    (f32::from(run[0].column) * CELL_WIDTH, f32::from(n) * CELL_WIDTH)
}

fn look_of(cell: &Cell) -> Look {
    let foreground = colour(cell.fg).unwrap_or_else(|| FOREGROUND.to_owned());
    let background = colour(cell.bg);
    let has = |modifier| cell.modifier.contains(modifier);
    let (foreground, background) = if has(Modifier::REVERSED) {
        (background.unwrap_or_else(|| BACKGROUND.to_owned()), Some(foreground))
    } else {
        (foreground, background)
    };
    Look {
        foreground,
        background,
        bold: has(Modifier::BOLD),
        dim: has(Modifier::DIM),
        italic: has(Modifier::ITALIC),
        underlined: has(Modifier::UNDERLINED),
        crossed: has(Modifier::CROSSED_OUT),
    }
}

/// The sixteen named colours, as many dark terminals have them.
const NAMED: [&str; 16] = [
    "#1c1f26", "#e06c75", "#98c379", "#e5c07b", "#61afef", "#c678dd", "#56b6c2", "#abb2bf", "#5c6370", "#ff7b86",
    "#b5e890", "#ffd68a", "#7cc4ff", "#dd8cf5", "#6fd3e0", "#ffffff",
];

/// `None`: the terminal's own.
fn colour(colour: Color) -> Option<String> {
    let named = |index: usize| NAMED.get(index).map(|name| (*name).to_owned());
    match colour {
        Color::Reset => None,
        Color::Rgb(r, g, b) => Some(format!("#{r:02x}{g:02x}{b:02x}")),
        Color::Black => named(0),
        Color::Red => named(1),
        Color::Green => named(2),
        Color::Yellow => named(3),
        Color::Blue => named(4),
        Color::Magenta => named(5),
        Color::Cyan => named(6),
        Color::Gray => named(7),
        Color::DarkGray => named(8),
        Color::LightRed => named(9),
        Color::LightGreen => named(10),
        Color::LightYellow => named(11),
        Color::LightBlue => named(12),
        Color::LightMagenta => named(13),
        Color::LightCyan => named(14),
        Color::White => named(15),
        Color::Indexed(n @ 0..=15) => named(usize::from(n)),
        Color::Indexed(n @ 16..=231) => {
            let level = |n: u8| if n == 0 { 0 } else { 55 + 40 * n };
            let n = n - 16;
            Some(format!("#{:02x}{:02x}{:02x}", level(n / 36), level(n / 6 % 6), level(n % 6)))
        }
        Color::Indexed(n) => {
            let grey = 8 + 10 * (n - 232);
            Some(format!("#{grey:02x}{grey:02x}{grey:02x}"))
        }
    }
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            // XML has no place for them.
            c if c.is_control() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use ratatui::layout::Rect;
    use ratatui::style::Style;

    use super::*;

    #[test]
    fn text_shapes_and_backgrounds() {
        let mut buf = Buffer::empty(Rect::new(0, 0, 12, 2));
        buf.set_string(0, 0, "a<b ─█", Style::new().fg(Color::Rgb(1, 2, 3)).add_modifier(Modifier::BOLD));
        buf.set_string(0, 1, "日本", Style::new().bg(Color::Indexed(196)));
        buf.set_string(6, 1, "x", Style::new().add_modifier(Modifier::REVERSED));
        let picture = svg(&buf, "a & b");
        let body: Vec<_> = picture.lines().skip_while(|line| !line.starts_with("<g ")).collect();
        insta::assert_snapshot!("text_shapes_and_backgrounds", body.join("\n"));
        assert!(picture.contains("<title>a &amp; b</title>"));
    }

    #[test]
    fn colours_of_the_cube_and_the_greys() {
        let of = |n| colour(Color::Indexed(n)).unwrap();
        assert_eq!(
            [of(16), of(21), of(231), of(232), of(255)],
            ["#000000", "#0000ff", "#ffffff", "#080808", "#eeeeee"]
        );
        assert_eq!(colour(Color::Reset), None);
    }
}
