//! Threads that do segment operations for callers who must not wait. Per stream, operations are done in the order they were
//! submitted, except that reads overtake all others; between streams there is no order. Knows nothing of queues.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

use parking_lot::Mutex;
use platform::{Caching, thread};

use super::names::folder_of;
use super::queue::{BlockForm, BlockReading, Job, JobQueue, SyncGroup};
use super::{BlockLocation, SegmentError, Segments};
use crate::bytes::offset_of;

/// Told of finished operations, on an I/O thread: must be quick. It may submit more.
pub trait SegmentListener: Send + Sync {
    /// A block was written (not yet synced), or not.
    fn written(&self, stream: u64, token: u64, result: Result<BlockLocation, SegmentError>);

    /// A block was read, or not.
    fn read(&self, stream: u64, token: u64, result: Result<Vec<u8>, SegmentError>);

    /// All streams of a [`SegmentIo::submit_sync`] were synced, or these were not.
    fn synced(&self, token: u64, result: Result<(), Vec<(u64, SegmentError)>>);

    /// A deletion failed: the files stay until the next start. Worth a log line.
    fn delete_failed(&self, stream: u64, error: &SegmentError);
}

/// A block that lies elsewhere than in a segment, to be read on an I/O thread.
pub trait BlockSource: Send {
    /// Bytes that are read for it, about.
    fn read_bytes(&self) -> u64;

    /// The block. Waits for the disk.
    ///
    /// # Errors
    /// Why it cannot be read.
    fn read(&self) -> Result<Vec<u8>, SegmentError>;
}

/// Makes of a block what is written in its place; nothing when it is not what it should be.
pub type BlockChange = Box<dyn FnOnce(Vec<u8>) -> Option<Vec<u8>> + Send>;

/// The I/O threads before [`Segments`].
pub struct SegmentIo {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

struct Shared {
    segments: Arc<Segments>,
    listener: Arc<dyn SegmentListener>,
    queues: Vec<JobQueue>,
    queued_bytes: AtomicU64,
}

impl SegmentIo {
    /// Starts `threads` I/O threads (at least one).
    ///
    /// # Errors
    /// When the operating system refuses a thread.
    pub fn start(
        segments: Arc<Segments>,
        listener: Arc<dyn SegmentListener>,
        threads: usize,
    ) -> std::io::Result<Self> {
        let io = Self::driven_with(segments, listener, threads.max(1));
        for index in 0..threads.max(1) {
            let shared = io.shared.clone();
            let thread = thread::spawn_or_abort(&format!("segment-io-{index}"), move || {
                while let Some(job) = shared.queues[index].pop() {
                    shared.perform(job);
                }
            })?;
            io.threads.lock().push(thread);
        }
        Ok(io)
    }

    /// Without threads: operations are done by [`Self::step`], so that a simulation decides when.
    pub fn driven(segments: Arc<Segments>, listener: Arc<dyn SegmentListener>) -> Self {
        Self::driven_with(segments, listener, 1)
    }

    fn driven_with(segments: Arc<Segments>, listener: Arc<dyn SegmentListener>, queues: usize) -> Self {
        let queues = (0..queues).map(|_| JobQueue::default()).collect();
        let shared = Shared { segments, listener, queues, queued_bytes: AtomicU64::new(0) };
        Self { shared: Arc::new(shared), threads: Mutex::default() }
    }

    /// Does one operation on the caller's thread; false when there was none.
    ///
    /// # Panics
    /// When there are threads.
    pub fn step(&self) -> bool {
        assert!(self.threads.lock().is_empty(), "only a driven SegmentIo is stepped");
        let job = self.shared.queues[0].try_pop();
        job.map(|job| self.shared.perform(job)).is_some()
    }

    /// Adds a block to the stream; answered by [`SegmentListener::written`].
    pub fn submit_write(&self, stream: u64, token: u64, block: impl AsRef<[u8]> + Send + 'static) {
        self.submit_write_as(stream, token, block, |block| Cow::Borrowed(block));
    }

    /// The same of a block of which `form`, called on the I/O thread, makes what is written.
    pub fn submit_write_as(
        &self,
        stream: u64,
        token: u64,
        block: impl AsRef<[u8]> + Send + 'static,
        form: BlockForm,
    ) {
        self.shared.queued_bytes.fetch_add(offset_of(block.as_ref().len()), Ordering::Relaxed);
        self.queue_of(stream).push(Job::Write { stream, token, block: Box::new(block), form });
    }

    /// Reads a block; answered by [`SegmentListener::read`].
    pub fn submit_read(&self, stream: u64, token: u64, location: BlockLocation) {
        self.submit_read_as(stream, token, location, (Some, Caching::Keep));
    }

    /// The same of a block of which `reading`, called on the I/O thread, makes what is told, with a hint to the system's cache.
    pub fn submit_read_as(
        &self,
        stream: u64,
        token: u64,
        location: BlockLocation,
        (reading, caching): (BlockReading, Caching),
    ) {
        self.shared.queued_bytes.fetch_add(u64::from(location.len), Ordering::Relaxed);
        self.queue_of(stream).push(Job::Read { stream, token, location, reading, caching });
    }

    /// Reads a block that lies elsewhere; answered by [`SegmentListener::read`].
    pub fn submit_fetch(&self, stream: u64, token: u64, source: Box<dyn BlockSource>) {
        self.shared.queued_bytes.fetch_add(source.read_bytes(), Ordering::Relaxed);
        self.queue_of(stream).push(Job::Fetch { stream, token, source });
    }

    /// Adds a block that lies elsewhere to the stream; answered by [`SegmentListener::written`]. It is in memory only while it is
    /// written.
    pub fn submit_move(&self, stream: u64, token: u64, source: Box<dyn BlockSource>) {
        self.queue_of(stream).push(Job::Move { stream, token, source });
    }

    /// Adds a block of a segment to the stream anew, with other bytes; answered by [`SegmentListener::written`]. That segment is sealed
    /// before.
    pub fn submit_rewrite(&self, stream: u64, token: u64, location: BlockLocation, change: BlockChange) {
        self.queue_of(stream).push(Job::Rewrite { stream, token, location, change });
    }

    /// Makes what was submitted before for these streams durable; answered once by [`SegmentListener::synced`].
    pub fn submit_sync(&self, streams: &[u64], token: u64) {
        let mut parts = vec![Vec::new(); self.shared.queues.len()];
        for stream in streams {
            parts[self.index_of(*stream)].push(*stream);
        }
        let is_empty = streams.is_empty();
        let parts: Vec<_> = parts
            .into_iter()
            .enumerate()
            .filter(|(index, part)| !part.is_empty() || (is_empty && *index == 0))
            .collect();
        let group = Arc::new(SyncGroup::new(token, parts.len()));
        for (index, streams) in parts {
            self.shared.queues[index].push(Job::Sync { streams, group: group.clone() });
        }
    }

    /// Closes a segment to blocks submitted from now on; never answered.
    pub fn submit_seal(&self, stream: u64, segment: u64) {
        self.queue_of(stream).push(Job::Seal { stream, segment });
    }

    /// Removes a segment; answered only on failure.
    pub fn submit_delete_segment(&self, stream: u64, segment: u64) {
        self.queue_of(stream).push(Job::DeleteSegment { stream, segment });
    }

    /// Removes all segments of a stream; answered only on failure.
    pub fn submit_delete_stream(&self, stream: u64) {
        self.queue_of(stream).push(Job::DeleteStream { stream });
    }

    /// Bytes of blocks to be written and read that were submitted and are not finished. Submitting never waits or refuses:
    /// callers look here and hold back.
    pub fn queued_bytes(&self) -> u64 {
        self.shared.queued_bytes.load(Ordering::Relaxed)
    }

    /// Finishes the submitted work and ends the threads. Work that is submitted later is dropped unanswered. Dropping does the same.
    pub fn close(&self) {
        for queue in &self.shared.queues {
            queue.close();
        }
        let threads = std::mem::take(&mut *self.threads.lock());
        for thread in threads {
            if thread.thread().id() != std::thread::current().id() {
                assert!(thread.join().is_ok(), "a panic of an I/O thread ends the process");
            }
        }
    }

    /// Streams of one folder share a thread, so that they also share its directory syncs.
    fn index_of(&self, stream: u64) -> usize {
        folder_of(stream) % self.shared.queues.len()
    }

    fn queue_of(&self, stream: u64) -> &JobQueue {
        &self.shared.queues[self.index_of(stream)]
    }
}

impl Drop for SegmentIo {
    fn drop(&mut self) {
        self.close();
    }
}

impl Shared {
    fn perform(&self, job: Job) {
        match job {
            Job::Write { stream, token, block, form } => {
                let bytes = (*block).as_ref();
                let result = self.segments.write_block(stream, &form(bytes));
                let len = offset_of(bytes.len());
                drop(block);
                self.queued_bytes.fetch_sub(len, Ordering::Relaxed);
                self.listener.written(stream, token, result);
            }
            Job::Read { stream, token, location, reading, caching } => {
                let read = self.segments.read_block_as(stream, location, caching);
                let result = read
                    .and_then(|block| reading(block).ok_or_else(|| self.segments.damaged(stream, location)));
                self.queued_bytes.fetch_sub(u64::from(location.len), Ordering::Relaxed);
                self.listener.read(stream, token, result);
            }
            Job::Fetch { stream, token, source } => {
                let result = source.read();
                self.queued_bytes.fetch_sub(source.read_bytes(), Ordering::Relaxed);
                self.listener.read(stream, token, result);
            }
            Job::Move { stream, token, source } => {
                let result = source.read().and_then(|block| self.segments.write_block(stream, &block));
                self.listener.written(stream, token, result);
            }
            Job::Rewrite { stream, token, location, change } => {
                // Its segment goes.
                let read = self.segments.read_block_as(stream, location, Caching::Pass);
                let changed = read
                    .and_then(|block| change(block).ok_or_else(|| self.segments.damaged(stream, location)));
                let result = changed.and_then(|block| self.segments.write_block(stream, &block));
                self.listener.written(stream, token, result);
            }
            Job::Sync { streams, group } => self.sync(&streams, &group),
            Job::Seal { stream, segment } => self.segments.seal(stream, segment),
            Job::DeleteSegment { stream, segment } => {
                self.tell_failure(stream, self.segments.delete_segment(stream, segment));
            }
            Job::DeleteStream { stream } => self.tell_failure(stream, self.segments.delete_stream(stream)),
        }
    }

    fn sync(&self, streams: &[u64], group: &SyncGroup) {
        let synced = streams.iter().map(|stream| (*stream, self.segments.sync(*stream)));
        let failures = synced.filter_map(|(stream, result)| Some((stream, result.err()?))).collect();
        if let Some(failures) = group.finish_part(failures) {
            let result = if failures.is_empty() { Ok(()) } else { Err(failures) };
            self.listener.synced(group.token, result);
        }
    }

    fn tell_failure(&self, stream: u64, result: Result<(), SegmentError>) {
        if let Err(error) = result {
            self.listener.delete_failed(stream, &error);
        }
    }
}
