//! Files that only their owner reads and one program at a time writes.

use std::fs::{File, TryLockError};
use std::path::Path;

use super::{SessionError, SessionId};

/// Holds the session until the file is closed, also by a kill.
///
/// # Errors
/// `InUse` while another handle holds it, of this program or another.
pub fn lock(file: &File, id: &SessionId, path: &Path) -> Result<(), SessionError> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(SessionError::InUse { id: id.clone() }),
        // Some network file systems know no locks; better a session without one than none.
        Err(TryLockError::Error(e)) if e.kind() == std::io::ErrorKind::Unsupported => Ok(()),
        Err(TryLockError::Error(e)) => Err(SessionError::io("lock", path)(e)),
    }
}

/// A folder that only its owner can look into, with its parents.
pub fn make_folder(folder: &Path) -> Result<(), SessionError> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder).map_err(SessionError::io("create the folder", folder))
}

/// For appending to a file that only its owner can read.
pub fn append_options() -> std::fs::OpenOptions {
    let mut options = File::options();
    options.read(true).append(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}
