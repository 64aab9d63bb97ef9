//! Why a stream does not do what it was asked for.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Why a stream cannot be read or written.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StreamError {
    /// The operating system refused an operation.
    #[error("cannot {operation} {}: {error}", path.display())]
    Io {
        /// The operation that failed: a verb.
        operation: &'static str,
        /// On which file or directory.
        path: PathBuf,
        /// The system's error.
        error: SharedError,
    },
    /// Stored bytes are not what was written.
    #[error("{} is damaged at byte {position}: {what}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where in it, bytes from its start.
        position: u64,
        /// The part that does not fit.
        what: &'static str,
    },
    /// The stream is deleted.
    #[error("the stream is deleted")]
    Deleted,
    /// An earlier write or sync failed: the stream takes nothing more until the next start.
    #[error("the stream is out of service: {0}")]
    Failed(Arc<str>),
}

/// An error of the operating system that may be told several times.
#[derive(Clone, Debug)]
pub struct SharedError(Arc<io::Error>);

impl SharedError {
    /// Its kind.
    #[must_use]
    pub fn kind(&self) -> io::ErrorKind {
        self.0.kind()
    }
}

impl fmt::Display for SharedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl StreamError {
    /// Makes an error of what the operating system reports of an operation on a file.
    pub(crate) fn io(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::Io { operation, path: path.to_owned(), error: SharedError(Arc::new(error)) }
    }

    /// Whether there is no room on the disk.
    #[must_use]
    pub fn is_full_disk(&self) -> bool {
        matches!(self, Self::Io { error, .. } if error.kind() == io::ErrorKind::StorageFull)
    }

    /// Whether a file is not there: retention may have removed it.
    pub(crate) fn is_missing(&self) -> bool {
        matches!(self, Self::Io { error, .. } if error.kind() == io::ErrorKind::NotFound)
    }
}
