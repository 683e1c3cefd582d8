//! The pictures in the README are those that the program makes now.

use super::super::shots::{SHOTS, shot};

/// With this set, the pictures are written and not compared; `cargo run --example screenshots` does the same.
const UPDATE: &str = "UPDATE_SCREENSHOTS";

#[test]
fn the_committed_screenshots_are_fresh() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/assets/screenshots");
    for name in SHOTS {
        let path = format!("{folder}/{name}.svg");
        let fresh = shot(name).unwrap_or_else(|| panic!("no scene is called {name}"));
        if std::env::var_os(UPDATE).is_some() {
            std::fs::create_dir_all(folder).expect("a folder for them");
            std::fs::write(&path, &fresh).expect("a picture");
        }
        let committed = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            committed.replace("\r\n", "\n") == fresh,
            "assets/screenshots/{name}.svg is not what the program draws now: cargo run --example screenshots"
        );
    }
}
