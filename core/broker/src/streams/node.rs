//! The files of a node's streams, and the threads that write and read them.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use commitlog::Names;
use parking_lot::Mutex;
use platform::{Clock, Disk};
use streamlog::{StreamError, StreamLogs, StreamOptions};

use super::Groups;

/// Folder of the streams in the data directory.
const FOLDER: &str = "streams";
/// Threads that write; each syncs for itself.
const WRITERS: usize = 4;
/// Threads that read what is not in the system's cache.
const READERS: usize = 2;
/// Codes of the stream protocol that are counted are below this.
const CODES: usize = 0x13;
/// Bytes of the newest chunks in memory, of all streams.
const TAIL_BYTES: usize = 32 << 20;

/// All streams of a node.
pub(crate) struct Streams {
    pub(crate) logs: StreamLogs,
    /// Streams of which the declaration is durable.
    pub(crate) names: Arc<Names>,
    /// Held while one is opened.
    pub(crate) opening: Mutex<()>,
    pub(crate) groups: Groups,
    /// Refusals of the stream protocol since the start, by code.
    pub(crate) refusals: [AtomicU64; CODES],
}

impl Streams {
    /// Looks which files there are. Without threads [`Self::step`] does their work.
    pub(crate) fn start(
        (disk, clock): (Arc<dyn Disk>, Arc<dyn Clock>),
        data_dir: &Path,
        (syncs, has_threads): (bool, bool),
        names: Arc<Names>,
    ) -> Result<Streams, StreamError> {
        let (writers, readers) = if has_threads { (WRITERS, READERS) } else { (0, 0) };
        let options = StreamOptions { syncs, writers, readers, tail_bytes: TAIL_BYTES };
        let logs = StreamLogs::start(disk, &data_dir.join(FOLDER), clock, options)?;
        Ok(Streams {
            logs,
            names,
            opening: Mutex::default(),
            groups: Groups::default(),
            refusals: Default::default(),
        })
    }

    /// Without threads: does one thing.
    pub(crate) fn step(&self) -> bool {
        self.logs.step()
    }

    /// The clean end.
    pub(crate) fn close(&self) {
        self.logs.close();
    }
}
