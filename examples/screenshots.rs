//! Writes the screenshots of the README: `cargo run --example screenshots`.

use layercake::ui::scenes::shots::{SHOTS, shot};

fn main() -> std::io::Result<()> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/assets/screenshots");
    std::fs::create_dir_all(folder)?;
    for name in SHOTS {
        let Some(picture) = shot(name) else { continue };
        std::fs::write(format!("{folder}/{name}.svg"), picture)?;
        println!("assets/screenshots/{name}.svg");
    }
    Ok(())
}
