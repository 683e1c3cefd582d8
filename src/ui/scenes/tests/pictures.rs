//! Snapshots: the text of a picture, then a map of its styles by letter, then what each letter is in each theme.

use std::fmt::Write;

use ratatui::buffer::Buffer;
use ratatui::style::{Color, Modifier, Style};

use super::super::{SCENES, Scene, Setup};
use super::{shows, text_of};
use crate::ui::theme::ColourDepth;

const SIZES: [(u16, u16); 3] = [(80, 24), (120, 40), (200, 60)];
const THEMES: [&str; 3] = ["dark", "okabe-ito", "mono"];
/// Enough for all styles of one picture; `.` is the plain one.
const LETTERS: &str = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789αβγδεζηθικλμνξοπρστυφχψω";

fn style_words(style: Style) -> String {
    let mut words = vec![];
    let colour = |c: Color| match c {
        Color::Rgb(r, g, b) => format!("#{r:02x}{g:02x}{b:02x}"),
        other => other.to_string(),
    };
    if let Some(fg) = style.fg.filter(|c| *c != Color::Reset) {
        words.push(colour(fg));
    }
    if let Some(bg) = style.bg.filter(|c| *c != Color::Reset) {
        words.push(format!("on {}", colour(bg)));
    }
    if style.add_modifier != Modifier::empty() {
        let names = style.add_modifier.iter_names().map(|(name, _)| name.to_lowercase());
        words.extend(names);
    }
    if words.is_empty() { "plain".to_owned() } else { words.join(" ") }
}

fn styles_of(buf: &Buffer) -> Vec<String> {
    buf.content.iter().map(|cell| style_words(cell.style())).collect()
}

/// The map of styles and its legend. Cells share a letter where they look alike in every theme.
fn style_map(pictures: &[(&str, Vec<String>)], width: u16) -> String {
    let mut classes: Vec<Vec<&str>> = vec![];
    let mut map = String::new();
    let n = pictures.first().map_or(0, |(_, styles)| styles.len());
    let mut line = String::new();
    for cell in 0..n {
        let class: Vec<&str> = pictures.iter().map(|(_, styles)| styles[cell].as_str()).collect();
        if class.iter().all(|style| *style == "plain") {
            line.push('.');
        } else {
            let index = classes.iter().position(|c| *c == class).unwrap_or_else(|| {
                classes.push(class);
                classes.len() - 1
            });
            line.push(LETTERS.chars().nth(index).expect("a letter for each style"));
        }
        if (cell + 1) % usize::from(width) == 0 {
            map.push_str(line.trim_end_matches('.'));
            map.push('\n');
            line.clear();
        }
    }
    for (letter, class) in LETTERS.chars().zip(&classes) {
        let styles = pictures.iter().zip(class).map(|((theme, _), style)| format!("{theme}: {style}"));
        let _ = writeln!(map, "{letter}  {}", styles.collect::<Vec<_>>().join(" | "));
    }
    map
}

fn check(scene: &Scene, size: (u16, u16)) {
    let stages = THEMES.map(|theme| (scene.build)(Setup::new(theme, size)));
    let text = text_of(&stages[0].buf);
    for stage in &stages[1..] {
        assert_eq!(text_of(&stage.buf), text, "{} says something else in {}", scene.name, stage.setup.theme);
    }
    let pictures: Vec<_> = stages.iter().map(|stage| (stage.setup.theme, styles_of(&stage.buf))).collect();
    let cursor = stages[0].cursor.map_or("no cursor".to_owned(), |at| format!("cursor {},{}", at.x, at.y));
    let name = format!("{}_{}x{}", scene.name, size.0, size.1);
    insta::assert_snapshot!(name, format!("{text}{cursor}\n\n{}", style_map(&pictures, size.0)));
}

#[test]
fn every_scene_at_80x24() {
    SCENES.iter().for_each(|scene| check(scene, SIZES[0]));
}

#[test]
fn every_scene_at_120x40() {
    SCENES.iter().for_each(|scene| check(scene, SIZES[1]));
}

#[test]
fn every_scene_at_200x60() {
    SCENES.iter().for_each(|scene| check(scene, SIZES[2]));
}

/// Without colour and in ASCII: the program's own marks are letters, and nothing is told by colour.
#[test]
fn every_scene_in_ascii_without_colour() {
    for scene in SCENES {
        let setup = Setup { ascii: true, depth: ColourDepth::None, ..Setup::new("dark", (100, 30)) };
        let stage = (scene.build)(setup);
        for (index, cell) in stage.buf.content.iter().enumerate() {
            let (x, y) = stage.buf.pos_of(index);
            let is_drawn =
                |c: char| matches!(c, '\u{2500}'..='\u{25ff}' | '\u{2800}'..='\u{28ff}' | '…' | '·' | '→' | '↑' | '↓');
            assert!(
                !cell.symbol().contains(is_drawn),
                "{}: '{}' at {x},{y}\n{}",
                scene.name,
                cell.symbol(),
                text_of(&stage.buf)
            );
            let style = cell.style();
            let has_colour = |c: Option<Color>| c.is_some_and(|c| c != Color::Reset);
            assert!(!has_colour(style.fg) && !has_colour(style.bg), "{}: colour at {x},{y}", scene.name);
        }
        let styles = vec![("none", styles_of(&stage.buf))];
        insta::assert_snapshot!(
            format!("{}_ascii", scene.name),
            format!("{}\n{}", text_of(&stage.buf), style_map(&styles, 100))
        );
    }
}

/// The scenes are what their names say: a key or a drag that missed would leave another picture.
#[test]
fn scenes_are_what_they_are_called() {
    let expected = [
        ("scrolled", "Moving layers"),
        ("answered", "token_ms"),
        ("staging", "staging"),
        ("drag", "fits"),
        ("drag-short", "short"),
        ("switched", "38 → 44"),
        ("details", "0000:01:00.0"),
        ("picker", "fits"),
        ("loading", "loading"),
        ("confirm", "Delete"),
        ("experts", "ffn"),
    ];
    for (name, words) in expected {
        let scene = SCENES.iter().find(|scene| scene.name == name).expect("a scene");
        let stage = (scene.build)(Setup::new("dark", (120, 40)));
        assert!(shows(&stage, words), "{name} does not say '{words}':\n{}", text_of(&stage.buf));
    }
}
