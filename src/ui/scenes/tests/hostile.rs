//! Names and texts of others never reach a cell as they are.

use super::super::stage::Words;
use super::super::{SCENES, Setup, Stage};
use super::text_of;
use crate::ui::text::width::width;

/// What must never be in a cell, told apart from the rules that keep it out.
fn is_forbidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{61c}' | '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{200b}')
        || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{e0000}'..='\u{e007f}')
}

fn check(stage: &Stage, name: &str) {
    for (index, cell) in stage.buf.content.iter().enumerate() {
        let (x, y) = stage.buf.pos_of(index);
        assert!(!cell.symbol().contains(is_forbidden), "{name}: {:?} at {x},{y}", cell.symbol());
        // A cell that is wider than it says pushes the rest of its line.
        assert!(width(cell.symbol()) <= 2, "{name}: {:?} at {x},{y}", cell.symbol());
    }
}

#[test]
fn hostile_words_never_reach_a_cell() {
    for scene in SCENES {
        for size in [(80, 24), (120, 40), (200, 60), (40, 10)] {
            let setup = Setup { words: Words::Hostile, ..Setup::new("dark", size) };
            let stage = (scene.build)(setup);
            check(&stage, scene.name);
        }
    }
}

/// Their words are all the program's own.
const OWN_WORDS: [&str; 1] = ["picker-empty"];

/// The words do come to be shown: a scene without them would prove nothing.
#[test]
fn hostile_words_are_shown_harmless() {
    for scene in SCENES.iter().filter(|scene| !OWN_WORDS.contains(&scene.name)) {
        let setup = Setup { words: Words::Hostile, ..Setup::new("dark", (200, 60)) };
        let stage = (scene.build)(setup);
        assert!(text_of(&stage.buf).contains('\u{fffd}'), "{}:\n{}", scene.name, text_of(&stage.buf));
    }
}

#[test]
fn hostile_words_in_ascii_and_after_resizing() {
    for scene in SCENES {
        let setup = Setup { words: Words::Hostile, ascii: true, ..Setup::new("mono", (100, 30)) };
        let mut stage = (scene.build)(setup);
        for size in [(61, 17), (33, 9), (140, 50)] {
            stage.resize(size);
            check(&stage, scene.name);
        }
    }
}
