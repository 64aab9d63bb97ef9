//! The log: many appenders, one writer, one `fdatasync` for all that has gathered. Does not know what a record means.
//!
//! Reading order: `format` (bytes), `append` (the handle that callers hold), `writer` (the thread behind it), `file` (one file
//! being written), `names` (what it waits for before it writes), `reader` and `recovery` (the way back), `kept` (files that outlive
//! their part in the log), `closed` (reads of a log that nobody has open).

mod append;
mod closed;
mod error;
mod file;
mod format;
mod inspect;
mod kept;
mod listener;
mod manifest;
mod mend;
mod names;
mod options;
mod reader;
mod records;
mod recovery;
mod shared;
mod writer;

pub use append::Log;
pub use closed::ClosedLog;
pub use error::{Damage, LogError};
pub use format::{PAYLOAD_BYTES_MAX, RECORD_HEADER_BYTES};
pub use inspect::{Found, LogFile, inspect_log_file, list_log_files};
pub use kept::{Afterlife, RangeBytes, RecordAt, list_kept_files};
pub use listener::{DurableListener, WriteTimes};
pub use manifest::{Held, read_manifest};
pub use names::{NAMED_STREAMS_END, Names};
pub use options::{LogOptions, SyncPolicy};
pub use reader::Record;
pub use records::LentBytes;
pub use recovery::{Recovered, log_exists};
pub use writer::{LogWriter, Step, UNAWAITED_DELAY_MAX};
