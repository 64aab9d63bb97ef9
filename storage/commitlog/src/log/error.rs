//! Errors of a log. Knows nothing of the broker's answer to them.

use std::path::PathBuf;

use crate::{IoFailure, Position};

/// How stored bytes differ from what was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// The file does not begin with the magic number.
    #[error("it does not begin with a log file's magic number")]
    Magic,
    /// The file header's checksum does not match.
    #[error("the file header's checksum does not match")]
    HeaderChecksum,
    /// The file is shorter than its header, or ends within a record.
    #[error("the file ends too early")]
    Truncated,
    /// The file's name and its header tell different first positions.
    #[error("the file's name does not match its header")]
    Name,
    /// A record's header cannot be one (a length or position that does not fit, or reserved bytes that are not zero).
    #[error("a record's header makes no sense")]
    RecordHeader,
    /// A record's checksum does not match.
    #[error("a record's checksum does not match")]
    RecordChecksum,
}

/// An error of a log.
#[derive(Clone, Debug, thiserror::Error)]
pub enum LogError {
    /// The operating system refused an operation.
    #[error(transparent)]
    Io(#[from] IoFailure),
    /// Stored bytes have changed. Nothing was skipped or removed: restore the file from a copy or another node.
    #[error("damaged log file {} at byte {offset}: {damage}", file.display())]
    Damaged {
        /// The file.
        file: PathBuf,
        /// Bytes from the file's start.
        offset: u64,
        /// The part that does not match.
        damage: Damage,
    },
    /// A file, or the end of one, is missing between two others.
    #[error("the log has a gap: {} begins at position {found}, but the file before it ends at {expected}", file.display())]
    Gap {
        /// The file after the gap.
        file: PathBuf,
        /// Where it should begin.
        expected: Position,
        /// Where it begins.
        found: Position,
    },
    /// Files are missing at the beginning.
    #[error("files are missing from {}: it should begin at position {expected} or before, but {}", dir.display(), begins(*found))]
    BeginningMissing {
        /// The log's directory.
        dir: PathBuf,
        /// The position that the manifest names as the beginning of the oldest file.
        expected: Position,
        /// Where the oldest file begins; `None` when there is no file.
        found: Option<Position>,
    },
    /// Files, or the end of one, are missing at the end.
    #[error("files are missing from {}, or the end of one: it holds records up to position {found}, but those up to {expected} were on the disk", dir.display())]
    EndMissing {
        /// The log's directory.
        dir: PathBuf,
        /// The position that was synced, or that a file had begun at.
        expected: Position,
        /// Where what is there ends.
        found: Position,
    },
    /// The file that says what the log must hold is damaged.
    #[error("damaged file {}, which says what the log beside it must hold", file.display())]
    Manifest {
        /// The file.
        file: PathBuf,
    },
    /// The file was written by a later version of Warren.
    #[error("log file {} has format version {version}, which this version of Warren cannot read", file.display())]
    Version {
        /// The file.
        file: PathBuf,
        /// Its format version.
        version: u32,
    },
    /// No file has the records that somebody wants to read.
    #[error("no file in {} holds the records at position {position}", dir.display())]
    NotHeld {
        /// The log's directory.
        dir: PathBuf,
        /// The position that is not there.
        position: Position,
    },
    /// An earlier write or sync failed; nothing appended since will be durable.
    #[error("the log has failed: {0}")]
    Poisoned(IoFailure),
    /// There is no room on the disk for what was appended; the log goes on as soon as there is.
    #[error("the log waits for room on the disk: {0}")]
    WaitsForRoom(IoFailure),
    /// The log was closed.
    #[error("the log is closed")]
    Closed,
}

fn begins(found: Option<Position>) -> String {
    found.map_or_else(|| "there is no log file".to_owned(), |found| format!("it begins at {found}"))
}
