//! Foundation of a broker: the sources of time, memory figures, randomness and disk, and the sizes of files. A person decides options;
//! these depend on whether the broker is real or simulated. Knows nothing of what is built on it.

use std::sync::Arc;

use commitlog::{LogOptions, SegmentOptions};
use platform::{Clock, Disk, Memory, Random, RealClock, RealMemory, RealRandom};

/// Bytes of metadata log after which a snapshot is written.
const SNAPSHOT_EVERY_BYTES: u64 = 32 << 20;

/// When changes of metadata that were proposed are committed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Commits {
    /// Where they are proposed, at once: the node is alone.
    #[default]
    AtOnce,
    /// By [`crate::Engine::Commits`], some at a time.
    Driven,
}

/// Where a broker gets time, randomness and room from.
#[derive(Clone)]
pub struct Foundation {
    /// Keeps the data directory.
    pub disk: Arc<dyn Disk>,
    /// For expiry and pacing.
    pub clock: Arc<dyn Clock>,
    /// For generated names and salts.
    pub random: Arc<dyn Random>,
    /// The memory that this process occupies, and the memory that there is.
    pub memory: Arc<dyn Memory>,
    /// Sizes of files.
    pub sizes: FileSizes,
    /// When changes of metadata are committed. Only a broker that is driven can have them later.
    pub commits: Commits,
}

/// How large files grow before the next one is begun. Anything works; these decide how often files come and go.
#[derive(Clone, Copy, Debug)]
pub struct FileSizes {
    /// Of the message log and of the metadata log, bytes. Default: that of [`LogOptions`].
    pub log_file_bytes_max: u64,
    /// Of a queue's segments, bytes. Default: that of [`SegmentOptions`].
    pub segment_bytes_max: u32,
    /// So many bytes of a queue's segments, beside as many as are needed, may be free before it compacts them: a queue that is drained
    /// slowly has a segment of which little is needed, all the time. Default: that of a segment.
    pub segment_free_bytes_max: u64,
    /// So many bytes of all queues' segments together, or as many as are needed, may be free before queues compact theirs that have less free
    /// than the bound for each. Default 256 MiB.
    pub node_free_bytes_max: u64,
    /// Bytes on their way to the message log, and as many on theirs to segments: beyond that publishers are not read. Less where the memory
    /// threshold is below 1 GiB. Default 64 MiB.
    pub waiting_bytes_max: u64,
    /// Bytes of metadata log after which a snapshot replaces it. Default 32 MiB.
    pub snapshot_every_bytes: u64,
    /// Space that logs fill with zeros before they write to it, in steps of so many bytes. Default: that of [`LogOptions`].
    pub log_prefill_bytes: u64,
    /// Of bodies that several queues hold together.
    pub bodies: SharedBodySizes,
    /// The reserve on a disk that is short of room has at most so many bytes (see `docs/data-folder.md`, "A full disk"). Default 64 MiB.
    pub reserve_bytes_max: u64,
}

/// Which bodies are stored once for several queues, and how many of them are kept in memory for whom.
#[derive(Clone, Copy, Debug)]
pub struct SharedBodySizes {
    /// Shorter bodies are copied for each queue: that costs less than a count, a place and a second read. Default 16 KiB.
    pub bytes_min: usize,
    /// Bytes of bodies that were read from disk and are kept for other queues. Default 16 MiB.
    pub recent_bytes_max: usize,
    /// Bytes of bodies that are in memory only; beyond that the oldest are written. Default 64 MiB.
    pub unwritten_bytes_max: usize,
}

impl Default for SharedBodySizes {
    fn default() -> Self {
        SharedBodySizes { bytes_min: 16 << 10, recent_bytes_max: 16 << 20, unwritten_bytes_max: 64 << 20 }
    }
}

impl Default for FileSizes {
    fn default() -> Self {
        FileSizes {
            log_file_bytes_max: LogOptions::default().file_bytes_max,
            segment_bytes_max: SegmentOptions::default().segment_bytes_max,
            segment_free_bytes_max: SegmentOptions::default().segment_bytes_max.into(),
            node_free_bytes_max: 256 << 20,
            waiting_bytes_max: LogOptions::default().pending_bytes_max,
            snapshot_every_bytes: SNAPSHOT_EVERY_BYTES,
            log_prefill_bytes: LogOptions::default().prefill_bytes,
            bodies: SharedBodySizes::default(),
            reserve_bytes_max: 64 << 20,
        }
    }
}

impl FileSizes {
    pub(crate) fn log_options(&self) -> LogOptions {
        LogOptions {
            file_bytes_max: self.log_file_bytes_max,
            pending_bytes_max: self.waiting_bytes_max,
            prefill_bytes: self.log_prefill_bytes,
            ..LogOptions::default()
        }
    }

    pub(crate) fn segment_options(&self) -> SegmentOptions {
        SegmentOptions { segment_bytes_max: self.segment_bytes_max, ..SegmentOptions::default() }
    }
}

impl Foundation {
    /// The operating system's, with this disk.
    pub fn real(disk: Arc<dyn Disk>) -> Foundation {
        Foundation {
            disk,
            clock: Arc::new(RealClock::new()),
            random: Arc::new(RealRandom),
            memory: Arc::new(RealMemory::new()),
            sizes: FileSizes::default(),
            commits: Commits::AtOnce,
        }
    }
}
