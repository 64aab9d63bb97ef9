//! One stream: appenders fill it, readers read it and wait for more.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::Waker;

use parking_lot::Mutex;

use crate::StreamError;
use crate::appender::Filling;
use crate::file::StreamFile;
use crate::node::Node;
use crate::round::Writing;
use crate::tail::Tail;

/// Bytes of a file unless the stream says otherwise.
pub const SEGMENT_BYTES_DEFAULT: u64 = 500_000_000;
/// Most bytes of a file that a stream may ask for.
pub const SEGMENT_BYTES_MAX: u64 = 3_000_000_000;
/// Bytes that wait for the writer above which publishers are to wait.
const UNWRITTEN_BYTES_MAX: usize = 8 << 20;

/// The settings of a stream; policies change them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Old files go while all are larger together. The newest stays.
    pub max_bytes: Option<u64>,
    /// Files go whose newest record is older, milliseconds.
    pub max_age_ms: Option<u64>,
    /// Bytes of a file.
    pub segment_bytes: u64,
    /// Bytes of a chunk's filter: 16 to 255.
    pub filter_bytes: u8,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_bytes: None,
            max_age_ms: None,
            segment_bytes: SEGMENT_BYTES_DEFAULT,
            filter_bytes: crate::FILTER_BYTES_DEFAULT,
        }
    }
}

/// Told what becomes of a stream, mostly on a writer's thread: must be quick.
pub trait StreamListener: Send + Sync {
    /// Whether the owner of the stream has recorded it durably. Asked before the first write since it was opened, again and again until
    /// that is so.
    fn may_write(&self) -> bool;

    /// Everything before this offset is as durable as the node promises, and readers see it.
    fn committed(&self, next_offset: u64);

    /// A round took so long.
    fn wrote(&self, took: RoundTook);

    /// Nothing more is written: uncommitted entries stay so.
    fn failed(&self, error: &StreamError);
}

/// How long a round took, nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoundTook {
    /// Its write.
    pub write_ns: u64,
    /// Its sync, if there was one.
    pub sync_ns: Option<u64>,
}

/// A stream that was opened, and its faults.
pub struct OpenedStream {
    /// The stream.
    pub log: Arc<StreamLog>,
    /// Places that are damaged: nothing of them was changed.
    pub damages: Vec<StreamError>,
    /// The end of the newest file that was cut.
    pub cut_tail: Option<CutTail>,
}

/// The end of a file that was cut at the start. Nobody was told of it, unless the disk damaged it within two seconds of its write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CutTail {
    /// The file.
    pub path: PathBuf,
    /// Where it ends now, bytes from its start.
    pub position: u64,
    /// Bytes that were cut.
    pub bytes: u64,
    /// Why they are no chunk.
    pub what: &'static str,
}

/// The figures that listings show of a stream. Of committed entries only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamInfo {
    /// Offset of the first record that is still there.
    pub first_offset: u64,
    /// Offset that comes next.
    pub next_offset: u64,
    /// Offset of the last chunk; the next offset when there is none.
    pub last_chunk_id: u64,
    /// Time of the first chunk, milliseconds since 1970.
    pub first_ms: Option<i64>,
    /// The latest time of a chunk.
    pub last_ms: Option<i64>,
    /// Bytes in files.
    pub disk_bytes: u64,
    /// Files.
    pub segments: u32,
    /// Bytes of the newest chunks in memory, and of what waits to be written.
    pub memory_bytes: u64,
    /// Readers that are open.
    pub readers: u32,
}

/// A stream that is open.
pub struct StreamLog {
    pub(crate) id: u64,
    pub(crate) node: Arc<Node>,
    pub(crate) listener: Arc<dyn StreamListener>,
    pub(crate) limits: Mutex<Limits>,
    pub(crate) filling: Mutex<Filling>,
    pub(crate) readable: Mutex<Readable>,
    pub(crate) writing: Mutex<Writing>,
    /// Readers see what is before it.
    pub(crate) committed: AtomicU64,
    pub(crate) waiting: Mutex<Vec<Waker>>,
    /// Woken when it ends.
    pub(crate) attached: Mutex<Vec<Waker>>,
    /// It is in the writers' queue.
    pub(crate) is_queued: AtomicBool,
    /// It waits for a mark: a tick looks at it.
    pub(crate) is_to_mark: AtomicBool,
    /// Until then only writers write to it: the disk was slow. Milliseconds since 1970.
    pub(crate) writers_until_ms: AtomicU64,
    /// Bytes that were appended and are not committed.
    pub(crate) unwritten_bytes: AtomicUsize,
    pub(crate) ended: Mutex<Option<StreamError>>,
    pub(crate) has_ended: AtomicBool,
    pub(crate) readers: AtomicUsize,
}

/// The part of a stream that readers look at.
#[derive(Debug)]
pub(crate) struct Readable {
    /// Oldest first; never empty.
    pub(crate) files: VecDeque<Arc<StreamFile>>,
    pub(crate) tail: Tail,
    pub(crate) last_chunk_id: Option<u64>,
}

impl StreamLog {
    /// Its number.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The offset that comes after everything that readers may see.
    #[must_use]
    pub fn committed_next(&self) -> u64 {
        self.committed.load(Ordering::Acquire)
    }

    /// Offset of the first record that is still there.
    #[must_use]
    pub fn first_offset(&self) -> u64 {
        self.readable.lock().files[0].first
    }

    /// Registers a waker for the next commit, or the end of the stream. The caller looks again afterwards.
    pub fn wake_at_commit(&self, waker: &Waker) {
        let mut waiting = self.waiting.lock();
        if !waiting.iter().any(|known| known.will_wake(waker)) {
            waiting.push(waker.clone());
        }
    }

    pub(crate) fn wake_all(&self) {
        let woken = std::mem::take(&mut *self.waiting.lock());
        woken.into_iter().for_each(Waker::wake);
    }

    /// Registers a waker for the end of the stream, until [`Self::detach`].
    pub fn attach(&self, waker: &Waker) {
        self.attached.lock().push(waker.clone());
    }

    /// Forgets one registration of a waker.
    pub fn detach(&self, waker: &Waker) {
        let mut attached = self.attached.lock();
        if let Some(at) = attached.iter().position(|known| known.will_wake(waker)) {
            attached.swap_remove(at);
        }
    }

    /// Id of the last chunk that readers may see; the next offset when there is none.
    #[must_use]
    pub fn last_chunk_id(&self) -> u64 {
        self.readable.lock().last_chunk_id.unwrap_or_else(|| self.committed_next())
    }

    /// Whether publishers should wait before they append more.
    #[must_use]
    pub fn is_over_bound(&self) -> bool {
        self.unwritten_bytes.load(Ordering::Relaxed) > UNWRITTEN_BYTES_MAX
    }

    /// Bytes that wait to be written.
    #[must_use]
    pub fn unwritten_bytes(&self) -> usize {
        self.unwritten_bytes.load(Ordering::Relaxed)
    }

    /// Whether entries wait for the writer.
    pub(crate) fn has_work(&self) -> bool {
        let filling = self.filling.lock();
        !filling.open.is_empty() || !filling.closed.is_empty()
    }

    /// Why it takes and gives nothing any more, if so.
    ///
    /// # Errors
    /// The reason.
    pub fn check(&self) -> Result<(), StreamError> {
        if !self.has_ended.load(Ordering::Acquire) {
            return Ok(());
        }
        self.ended.lock().clone().map_or(Ok(()), Err)
    }

    /// Readers and appenders learn that the stream is deleted; its files stay until [`crate::StreamLogs::delete`].
    pub fn end(&self) {
        self.end_because(StreamError::Deleted);
    }

    /// Readers and appenders learn this from now on.
    pub(crate) fn end_because(&self, why: StreamError) {
        self.ended.lock().get_or_insert(why);
        self.has_ended.store(true, Ordering::Release);
        self.wake_all();
        self.attached.lock().iter().for_each(Waker::wake_by_ref);
    }

    /// Goes by other limits from now on; retention looks at them soon.
    pub fn set_limits(self: &Arc<Self>, limits: Limits) {
        *self.limits.lock() = limits;
        self.node.retain_soon(self);
    }

    /// The offset that a consumer stored under a name; also one that is not durable yet.
    #[must_use]
    pub fn stored_offset(&self, name: &[u8]) -> Option<u64> {
        self.filling.lock().tracking.offset(name)
    }

    /// All stored offsets.
    #[must_use]
    pub fn stored_offsets(&self) -> Vec<(Box<[u8]>, u64)> {
        self.filling.lock().tracking.offsets().map(|(name, offset)| (name.into(), offset)).collect()
    }

    /// Stores an offset under a name of at most 255 bytes. It is written with the next chunk, after a second at the latest.
    pub fn store_offset(self: &Arc<Self>, name: &[u8], offset: u64) {
        debug_assert!(name.len() <= 255, "the protocol bounds references");
        let mut filling = self.filling.lock();
        filling.tracking.set_offset(name, offset);
        filling.changes.set_offset(name, offset);
        drop(filling);
        self.node.has_changes(self);
    }

    /// The last publishing id of a named publisher.
    #[must_use]
    pub fn publishing_id(&self, name: &[u8]) -> Option<u64> {
        self.filling.lock().tracking.sequence(name)
    }

    /// The last publishing ids of all named publishers.
    #[must_use]
    pub fn publishing_ids(&self) -> Vec<(Box<[u8]>, u64)> {
        self.filling.lock().tracking.sequences().map(|(name, id)| (name.into(), id)).collect()
    }

    /// The figures that listings show.
    #[must_use]
    pub fn info(&self) -> StreamInfo {
        let next_offset = self.committed_next();
        let readable = self.readable.lock();
        let of = |file: &Arc<StreamFile>| Some(file.extent()).filter(|extent| extent.last_chunk != 0);
        StreamInfo {
            first_offset: readable.files[0].first,
            next_offset,
            last_chunk_id: readable.last_chunk_id.unwrap_or(next_offset),
            first_ms: readable.files.iter().find_map(of).map(|extent| extent.first_ms),
            last_ms: readable.files.iter().rev().find_map(of).map(|extent| extent.highest_ms),
            disk_bytes: readable.files.iter().map(|file| file.bytes()).sum(),
            segments: u32::try_from(readable.files.len()).unwrap_or(u32::MAX),
            memory_bytes: (readable.tail.bytes() + self.unwritten_bytes()) as u64,
            readers: u32::try_from(self.readers.load(Ordering::Relaxed)).unwrap_or(u32::MAX),
        }
    }

    /// Bytes of memory without chunks and what waits.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        let files = self.readable.lock().files.len() * size_of::<StreamFile>();
        size_of::<Self>() + files + self.filling.lock().tracking.heap_bytes()
    }
}
