//! Segments: files of checksummed blocks, several per stream, for a backlog that does not fit in memory. Does not know what
//! a stream or a block means, nor which blocks are still wanted: the caller keeps the locations.
//!
//! Reading order: `format` (bytes), `store` (what can be done), `cache` (open files), `io` (threads before it).

mod cache;
mod error;
mod format;
mod inspect;
mod io;
mod names;
mod queue;
mod store;

pub use error::SegmentError;
pub use format::{BLOCK_BYTES_MAX, BlockLocation};
pub use inspect::{SegmentFile, list_segments};
pub use io::{BlockChange, BlockSource, SegmentIo, SegmentListener};
pub use queue::{BlockForm, BlockReading};
pub use store::{ScanEnd, SegmentOptions, Segments, segments_exist};
