//! Characters of lines, blocks and dots as paths.

use std::fmt::Write;

/// Thickness of lines.
const LINE: f32 = 1.2;
const HEAVY: f32 = 2.4;

/// Lines from the middle of the cell: left, right, up, down.
const LINES: &[(char, [bool; 4])] = &[
    ('─', [true, true, false, false]),
    ('│', [false, false, true, true]),
    ('┌', [false, true, false, true]),
    ('┐', [true, false, false, true]),
    ('└', [false, true, true, false]),
    ('┘', [true, false, true, false]),
    ('├', [false, true, true, true]),
    ('┤', [true, false, true, true]),
    ('┬', [true, true, false, true]),
    ('┴', [true, true, true, false]),
    ('┼', [true, true, true, true]),
    ('╭', [false, true, false, true]),
    ('╮', [true, false, false, true]),
    ('╰', [false, true, true, false]),
    ('╯', [true, false, true, false]),
    ('╴', [true, false, false, false]),
    ('╶', [false, true, false, false]),
    ('╵', [false, false, true, false]),
    ('╷', [false, false, false, true]),
];

const HEAVY_LINES: &[(char, [bool; 4])] = &[('━', [true, true, false, false]), ('┃', [false, false, true, true])];

/// Blocks in eighths of the cell: left, top, right, bottom.
const BLOCKS: &[(char, [u8; 4])] = &[
    ('█', [0, 0, 8, 8]),
    ('▀', [0, 0, 8, 4]),
    ('▁', [0, 7, 8, 8]),
    ('▂', [0, 6, 8, 8]),
    ('▃', [0, 5, 8, 8]),
    ('▄', [0, 4, 8, 8]),
    ('▅', [0, 3, 8, 8]),
    ('▆', [0, 2, 8, 8]),
    ('▇', [0, 1, 8, 8]),
    ('▉', [0, 0, 7, 8]),
    ('▊', [0, 0, 6, 8]),
    ('▋', [0, 0, 5, 8]),
    ('▌', [0, 0, 4, 8]),
    ('▍', [0, 0, 3, 8]),
    ('▎', [0, 0, 2, 8]),
    ('▏', [0, 0, 1, 8]),
    ('▐', [4, 0, 8, 8]),
    ('▔', [0, 0, 8, 1]),
    ('▕', [7, 0, 8, 8]),
];

/// Of braille: bit, column, row.
const DOTS: [(u32, u8, u8); 8] =
    [(0x01, 0, 0), (0x02, 0, 1), (0x04, 0, 2), (0x40, 0, 3), (0x08, 1, 0), (0x10, 1, 1), (0x20, 1, 2), (0x80, 1, 3)];

/// What is drawn for a character.
#[derive(PartialEq)]
pub struct Shape {
    pub path: String,
    /// Below 1 for the shades.
    pub opacity: f32,
}

/// The shape of a character at a place in a cell of this size. `None`: it is written as text.
pub fn shape(symbol: &str, (x, y): (f32, f32), (width, height): (f32, f32)) -> Option<Shape> {
    let mut chars = symbol.chars();
    let (Some(c), None) = (chars.next(), chars.next()) else { return None };
    let mut path = String::new();
    let mut rect = |left: f32, top: f32, right: f32, bottom: f32| {
        let _ = write!(path, "M{left:.1} {top:.1}H{right:.1}V{bottom:.1}H{left:.1}z");
    };
    let lines = LINES.iter().map(|line| (line, LINE)).chain(HEAVY_LINES.iter().map(|line| (line, HEAVY)));
    if let Some(((_, [left, right, up, down]), thick)) = lines.into_iter().find(|((glyph, _), _)| *glyph == c) {
        let (cx, cy, half) = (x + width / 2.0, y + height / 2.0, thick / 2.0);
        if *left || *right {
            let from = if *left { x } else { cx - half };
            let to = if *right { x + width } else { cx + half };
            rect(from, cy - half, to, cy + half);
        }
        if *up || *down {
            let from = if *up { y } else { cy - half };
            let to = if *down { y + height } else { cy + half };
            rect(cx - half, from, cx + half, to);
        }
        return Some(Shape { path, opacity: 1.0 });
    }
    if let Some((_, eighths)) = BLOCKS.iter().find(|(glyph, _)| *glyph == c) {
        let [left, top, right, bottom] = eighths.map(|n| f32::from(n) / 8.0);
        rect(x + left * width, y + top * height, x + right * width, y + bottom * height);
        return Some(Shape { path, opacity: 1.0 });
    }
    if let Some(step) = ['░', '▒', '▓'].iter().position(|glyph| *glyph == c) {
        rect(x, y, x + width, y + height);
        return Some(Shape { path, opacity: [0.25, 0.5, 0.75][step] });
    }
    let bits = (c as u32).checked_sub(0x2800).filter(|bits| *bits < 0x100)?;
    for (bit, column, row) in DOTS {
        if bits & bit != 0 {
            let (cx, cy) = (x + width * (0.25 + 0.5 * f32::from(column)), y + height * (0.125 + 0.25 * f32::from(row)));
            rect(cx - 1.1, cy - 1.1, cx + 1.1, cy + 1.1);
        }
    }
    Some(Shape { path, opacity: 1.0 })
}
