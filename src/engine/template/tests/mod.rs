//! Tests of the whole renderer.

mod golden;

use std::path::PathBuf;

/// The golden data: `LAYERCAKE_GOLDEN` when set, else beside the checkout.
fn golden_dir() -> PathBuf {
    match std::env::var_os("LAYERCAKE_GOLDEN") {
        Some(path) => PathBuf::from(path),
        None => std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/golden"),
    }
}
