//! The lock on a data directory.

use std::path::Path;

use commitlog::{DataDir, DataDirError, DataDirLock};
use platform::Disk;

use crate::open_errors::StartError;

pub(crate) fn lock_folder(disk: &dyn Disk, data_dir: &Path) -> Result<DataDirLock, StartError> {
    DataDir::lock(disk, data_dir, std::process::id()).map_err(|error| match error {
        DataDirError::AlreadyRunning { .. } => StartError::InUse(error.to_string()),
        DataDirError::Io(_) => StartError::storage(error),
    })
}
