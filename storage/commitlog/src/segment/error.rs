//! Errors of segments. Knows nothing of the broker's answer to them.

use std::path::PathBuf;

use crate::{IoFailure, LogError, SnapshotError};

/// An error of segments.
#[derive(Clone, Debug, thiserror::Error)]
pub enum SegmentError {
    /// The operating system refused an operation.
    #[error(transparent)]
    Io(#[from] IoFailure),
    /// The file's header, or the block, is not as it was written, or the location does not belong to this stream.
    #[error("damaged segment file {} at byte {offset}", file.display())]
    Damaged {
        /// The file.
        file: PathBuf,
        /// Bytes from the file's start.
        offset: u64,
    },
    /// The file was written by a later version of Warren.
    #[error("segment file {} has format version {version}, which this version of Warren cannot read", file.display())]
    Version {
        /// The file.
        file: PathBuf,
        /// Its format version.
        version: u32,
    },
    /// An earlier sync of this stream's files failed: blocks written since the last good one may be lost, and nothing more
    /// is written until the segments are opened anew.
    #[error("the stream's segments have failed: {0}")]
    Poisoned(IoFailure),
    /// A block that is read from a log could not be.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The records of a log do not hold the block that they should.
    #[error("the records from position {position} of the log on do not hold the whole block")]
    NotInLog {
        /// Where the first of them begins.
        position: u64,
    },
    /// The file that numbers the lives of the directory cannot be used.
    #[error(transparent)]
    Epoch(#[from] SnapshotError),
}

impl SegmentError {
    /// Whether there was no room: the same may be tried again later.
    #[must_use]
    pub fn is_out_of_room(&self) -> bool {
        matches!(self, SegmentError::Io(failure) if failure.is_out_of_room())
    }
}
