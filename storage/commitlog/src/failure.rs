//! An input or output operation that failed, with what was tried on which path. Knows nothing of what follows from it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A failed operation: its name, its file, and the error of the operating system. Cheap to clone, as one failure is told to many.
#[derive(Clone, Debug, thiserror::Error)]
#[error("cannot {action} {}: {source}", path.display())]
pub struct IoFailure {
    /// The operation, as a verb: "write", "sync", "rename".
    pub action: &'static str,
    /// The file or directory.
    pub path: PathBuf,
    /// The reason.
    pub source: Arc<io::Error>,
}

impl IoFailure {
    /// Whether there was no room for what was to be written: once there is, the same may be tried again. Never true of a sync,
    /// whatever the reason: its unwritten bytes are unknown (see `DiskFile::sync_data`).
    #[must_use]
    pub fn is_out_of_room(&self) -> bool {
        let kind = self.source.kind();
        !self.is_failed_sync() && matches!(kind, io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
    }

    /// Whether a sync failed: bytes written since the one before may be lost, and a later sync does not tell.
    #[must_use]
    pub fn is_failed_sync(&self) -> bool {
        self.action == "sync"
    }

    /// For `map_err`: `.map_err(IoFailure::of("read", path))`.
    pub(crate) fn of<'a>(action: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> Self + 'a {
        move |source| Self { action, path: path.to_owned(), source: Arc::new(source) }
    }
}
