//! Errors of files and options, each with a way out.

use std::path::{Path, PathBuf};

/// A file or an option that cannot be used. The text names the file and the way out.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The file cannot be read.
    #[error("cannot read {}: {reason}", .file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// The system's reason.
        reason: String,
    },
    /// The file's content cannot be used.
    #[error("{}: {problem}", .file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// The problem, and the way out.
        problem: String,
    },
    /// An option, or a combination of options, cannot be used.
    #[error("{0}")]
    Option(String),
}

impl TlsError {
    pub(crate) fn file(file: &Path, problem: impl Into<String>) -> TlsError {
        TlsError::File { file: file.to_owned(), problem: problem.into() }
    }
}
