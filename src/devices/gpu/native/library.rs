//! Driver libraries: loaded by name when the program runs, or a line that says why not.

use std::fs::File;
use std::io::ErrorKind;
use std::path::Path;

use libloading::Library;

use crate::devices::DeviceKind;

/// Why there is nothing of a driver, or not one of its devices: a line for people.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{message}")]
pub struct Unavailable {
    pub kind: DeviceKind,
    pub message: String,
    /// Libraries that were looked for and not loaded.
    pub tried: Vec<String>,
}

/// What is wrong with a device file that a driver needs, if anything: to explain that the driver did not start.
pub fn device_file_problem(path: &Path, absent: &str, refused: &str) -> Option<String> {
    let opened = File::options().read(true).write(true).open(path).map(drop);
    let why = match opened.map_err(|error| error.kind()) {
        Ok(()) => return None,
        Err(ErrorKind::NotFound) => format!("is missing: {absent}"),
        Err(ErrorKind::PermissionDenied) => format!("may not be opened: {refused}"),
        Err(kind) => format!("cannot be opened: {kind}"),
    };
    Some(format!("{} {why}", path.display()))
}

/// A library that stays loaded: a driver's threads may run until the process ends.
///
/// # Safety
/// Loading runs the library's initialisers.
pub unsafe fn load_forever(place: &Path) -> Result<&'static Library, libloading::Error> {
    // SAFETY: the caller vouches for the library.
    let library = unsafe { Library::new(place.as_os_str()) }?;
    Ok(Box::leak(Box::new(library)))
}

/// The text that a library wrote into `bytes`.
pub fn text_until_nul(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes.split(|byte| *byte == 0).next().unwrap_or_default()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_file_that_is_not_there_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kfd");
        let problem = || device_file_problem(&path, "load the module", "join the group");
        assert_eq!(problem().unwrap(), format!("{} is missing: load the module", path.display()));
        std::fs::write(&path, "").unwrap();
        assert_eq!(problem(), None);
    }

    #[test]
    fn texts_end_at_a_nul() {
        assert_eq!(text_until_nul(b"gfx90a\0rest"), "gfx90a");
        assert_eq!(text_until_nul(b"no end"), "no end");
    }
}
