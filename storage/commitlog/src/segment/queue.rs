//! Work that waits for one I/O thread. Knows nothing of files.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};
use platform::Caching;

use super::{BlockChange, BlockLocation, BlockSource, SegmentError};

/// A block that is to be written, in whatever form the caller has it.
pub(super) type Block = Box<dyn AsRef<[u8]> + Send>;

/// Makes the bytes to write of a block that somebody has.
pub type BlockForm = fn(&[u8]) -> Cow<'_, [u8]>;

/// Makes a block of bytes that were read; nothing when they are no such block.
pub type BlockReading = fn(Vec<u8>) -> Option<Vec<u8>>;

/// One operation.
pub(super) enum Job {
    Write {
        stream: u64,
        token: u64,
        block: Block,
        form: BlockForm,
    },
    Read {
        stream: u64,
        token: u64,
        location: BlockLocation,
        reading: BlockReading,
        caching: Caching,
    },
    /// As `Read`, of a block that lies elsewhere.
    Fetch {
        stream: u64,
        token: u64,
        source: Box<dyn BlockSource>,
    },
    /// As `Write`, of a block that lies elsewhere.
    Move {
        stream: u64,
        token: u64,
        source: Box<dyn BlockSource>,
    },
    /// As `Move`, of a block in a segment of the stream.
    Rewrite {
        stream: u64,
        token: u64,
        location: BlockLocation,
        change: BlockChange,
    },
    Sync {
        streams: Vec<u64>,
        group: Arc<SyncGroup>,
    },
    Seal {
        stream: u64,
        segment: u64,
    },
    DeleteSegment {
        stream: u64,
        segment: u64,
    },
    DeleteStream {
        stream: u64,
    },
}

/// One `submit_sync`, spread over the threads.
pub(super) struct SyncGroup {
    pub(super) token: u64,
    state: Mutex<SyncState>,
}

struct SyncState {
    parts_left: usize,
    failures: Vec<(u64, SegmentError)>,
}

impl SyncGroup {
    pub(super) fn new(token: u64, parts: usize) -> Self {
        Self { token, state: Mutex::new(SyncState { parts_left: parts, failures: Vec::new() }) }
    }

    /// Notes that a part is done. The last one gets the failures of all.
    pub(super) fn finish_part(&self, failures: Vec<(u64, SegmentError)>) -> Option<Vec<(u64, SegmentError)>> {
        let mut state = self.state.lock();
        state.failures.extend(failures);
        state.parts_left -= 1;
        (state.parts_left == 0).then(|| std::mem::take(&mut state.failures))
    }
}

/// A first-in-first-out queue for one thread, but reads go first: a consumer waits for each, and what they read was written
/// before they were asked for.
#[derive(Default)]
pub(super) struct JobQueue {
    state: Mutex<QueueState>,
    work: Condvar,
}

#[derive(Default)]
struct QueueState {
    reads: VecDeque<Job>,
    jobs: VecDeque<Job>,
    closed: bool,
}

impl QueueState {
    fn next(&mut self) -> Option<Job> {
        self.reads.pop_front().or_else(|| self.jobs.pop_front())
    }
}

impl JobQueue {
    /// Adds a job; after closing it is dropped.
    pub(super) fn push(&self, job: Job) {
        let mut state = self.state.lock();
        if state.closed {
            return;
        }
        match job {
            Job::Read { .. } | Job::Fetch { .. } => state.reads.push_back(job),
            _ => state.jobs.push_back(job),
        }
        drop(state);
        self.work.notify_one();
    }

    /// The next job, if there is one.
    pub(super) fn try_pop(&self) -> Option<Job> {
        self.state.lock().next()
    }

    /// The next job, waiting for it; `None` once the queue is closed and empty.
    pub(super) fn pop(&self) -> Option<Job> {
        let mut state = self.state.lock();
        loop {
            if let Some(job) = state.next() {
                return Some(job);
            }
            if state.closed {
                return None;
            }
            self.work.wait(&mut state);
        }
    }

    pub(super) fn close(&self) {
        self.state.lock().closed = true;
        self.work.notify_all();
    }
}
