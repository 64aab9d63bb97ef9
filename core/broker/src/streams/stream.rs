//! A queue's stream, and the readers that wait for commits.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};

use parking_lot::Mutex;
use queues::QueueConfig;
use streamlog::{
    CutTail, Limits, OpenedStream, RoundTook, StreamError, StreamListener, StreamLog, StreamLogs,
};

/// The queue of a stream, as its log sees it. Called on the log's threads: nothing of it may wait.
pub(crate) trait Owner: Send + Sync {
    /// Whether its declaration is durable.
    fn may_write(&self) -> bool;

    /// Its consumers are to be served soon.
    fn serve(&self);

    /// A round of its log took so long.
    fn wrote(&self, took: RoundTook);

    /// Publishers may find room again.
    fn has_room(&self);

    /// Nothing more is written.
    fn failed(&self, error: &StreamError);
}

/// A waiter for a commit. Told once.
pub(crate) trait Committed: Send + Sync {
    /// The commit that it waits for is done, or never will be.
    fn committed(&self, is_lost: bool);
}

/// A queue's stream.
pub(crate) struct Stream {
    pub(crate) log: Arc<StreamLog>,
    /// Name of the queue.
    pub(super) name: Arc<[u8]>,
    commits: Arc<Commits>,
}

/// Told of commits.
struct Commits {
    owner: Box<dyn Owner>,
    /// In the order of the offsets that they wait for.
    pending: Mutex<VecDeque<(u64, Arc<dyn Committed>)>>,
    /// Consumers are to be served.
    is_called: AtomicBool,
}

impl Stream {
    /// Opens it, or begins it. Tells what is damaged, and what was cut.
    pub(crate) fn open(
        logs: &StreamLogs,
        (id, name): (u64, &[u8]),
        config: &QueueConfig,
        owner: Box<dyn Owner>,
    ) -> Result<(Stream, Vec<StreamError>, Option<CutTail>), StreamError> {
        let (pending, is_called) = (Mutex::default(), AtomicBool::new(false));
        let commits = Arc::new(Commits { owner, pending, is_called });
        let OpenedStream { log, damages, cut_tail } = logs.open(id, limits_of(config), commits.clone())?;
        Ok((Stream { log, name: name.into(), commits }, damages, cut_tail))
    }

    /// Tells when everything before `next_offset` is committed.
    pub(super) fn await_commit(&self, next_offset: u64, waiting: Arc<dyn Committed>) {
        self.commits.pending.lock().push_back((next_offset, waiting));
        self.commits.settle(self.log.committed_next());
        if self.log.check().is_err() {
            self.commits.lose();
        }
    }

    /// The queue is deleted.
    pub(super) fn end(&self) {
        self.log.end();
        self.commits.lose();
    }

    /// Has the queue serve its consumers.
    pub(super) fn waker(&self) -> Waker {
        Waker::from(self.commits.clone())
    }

    /// The queue begins to serve: callers from now on are heard.
    pub(super) fn begin_serving(&self) {
        self.commits.is_called.store(false, Ordering::Release);
    }
}

impl Commits {
    /// Tells the waiters for entries that are committed now.
    fn settle(&self, next_offset: u64) {
        loop {
            let committed = {
                let mut pending = self.pending.lock();
                match pending.front() {
                    Some((wanted, _)) if *wanted <= next_offset => pending.pop_front(),
                    _ => None,
                }
            };
            let Some((_, waiting)) = committed else { return };
            waiting.committed(false);
        }
    }

    /// Nothing that is waited for will ever be committed.
    fn lose(&self) {
        let pending = std::mem::take(&mut *self.pending.lock());
        pending.into_iter().for_each(|(_, waiting)| waiting.committed(true));
    }
}

impl Wake for Commits {
    fn wake(self: Arc<Self>) {
        if !self.is_called.swap(true, Ordering::AcqRel) {
            self.owner.serve();
        }
    }
}

impl StreamListener for Commits {
    fn may_write(&self) -> bool {
        self.owner.may_write()
    }

    fn committed(&self, next_offset: u64) {
        self.settle(next_offset);
        self.owner.has_room();
    }

    fn wrote(&self, took: RoundTook) {
        self.owner.wrote(took);
    }

    fn failed(&self, error: &StreamError) {
        self.owner.failed(error);
        self.lose();
        self.owner.has_room();
    }
}

/// The settings of a stream.
pub(crate) fn limits_of(config: &QueueConfig) -> Limits {
    Limits {
        max_bytes: config.max_length_bytes,
        max_age_ms: config.stream.max_age_ms,
        segment_bytes: config.segment_bytes(),
        filter_bytes: config.stream.filter_bytes.unwrap_or(Limits::default().filter_bytes),
    }
}
