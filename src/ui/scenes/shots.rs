//! The pictures of the README.

use super::{SCENES, Setup};
use crate::ui::svg::svg;

/// Names of scenes.
pub const SHOTS: [&str; 3] = ["drag", "details", "picker"];

/// A scene as SVG in the dark theme; `None`: there is no such scene.
pub fn shot(name: &str) -> Option<String> {
    let scene = SCENES.iter().find(|scene| scene.name == name)?;
    // The picker has few lines to show.
    let height = if name == "picker" { 26 } else { 36 };
    let stage = (scene.build)(Setup::new("dark", (120, height)));
    Some(svg(&stage.buf, "layercake"))
}
