//! Append-only log with group commit, per-stream segment files and snapshot files, with recovery of each.
//!
//! Does not know what a message, a queue or a confirm is: a record is a stream number, a kind and bytes; a block is bytes. It
//! refuses to guess: bytes that it cannot prove to be an unfinished write are reported as damage, with file and offset, and left
//! alone. Formats are drawn in `docs/formats/`. Principal types: [`Log`], [`Segments`] with [`SegmentIo`] before it,
//! [`write_snapshot`] and [`read_latest_snapshot`], [`DataDir`].

mod bytes;
mod data_dir;
mod failure;
mod log;
mod position;
mod segment;
mod snapshot;

pub use data_dir::{DataDir, DataDirError, DataDirLock};
pub use failure::IoFailure;
pub use log::{
    Afterlife, ClosedLog, Damage, DurableListener, Found, Held, LentBytes, Log, LogError, LogFile,
    LogOptions, LogWriter, NAMED_STREAMS_END, Names, PAYLOAD_BYTES_MAX, RECORD_HEADER_BYTES, RangeBytes,
    Record, RecordAt, Recovered, Step, SyncPolicy, UNAWAITED_DELAY_MAX, WriteTimes, inspect_log_file,
    list_kept_files, list_log_files, log_exists, read_manifest,
};
pub use position::Position;
pub use segment::{
    BLOCK_BYTES_MAX, BlockChange, BlockForm, BlockLocation, BlockReading, BlockSource, ScanEnd, SegmentError,
    SegmentFile, SegmentIo, SegmentListener, SegmentOptions, Segments, list_segments, segments_exist,
};
pub use snapshot::{
    Snapshot, SnapshotError, SnapshotFile, read_all_snapshots, read_latest_snapshot, write_snapshot,
};
