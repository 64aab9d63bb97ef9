//! Streams: queues that keep what was published in a log of their own, and hand it out to whoever reads, from wherever.
//!
//! A stream's queue is like any other: it is declared, routed to, consumed from, listed and deleted by the same ways. What it keeps is a
//! [`StreamLog`] of `storage/streamlog`. Sessions of protocols that know streams use it directly, without the queue's cell: they append
//! entries, read chunks as stored, and wait for commits ([`Queue::stream_log`]). Consumers of AMQP 0-9-1 are served by the machine.
//!
//! Refuses to know: frames, and what stands in files.

mod arguments;
mod machine;
mod serve;

use std::collections::VecDeque;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Wake, Waker};

use commitlog::Names;
use parking_lot::Mutex;
use queues::{Kind, QueueConfig};
use stdx::QueueId;
use streamlog::{StreamListener, StreamLogs, StreamOptions};

pub use streamlog::{
    Appended, Appender, ChunkFilter, Limits, PublisherSlot, Reader, Seek, StoredChunk, StreamError,
    StreamInfo, StreamLog,
};

pub(crate) use arguments::check as check_consumer;
pub(crate) use machine::StreamMachine;

use crate::BrokerOptions;
use crate::cell::machine::AnyMachine;
use crate::cell::{Event, Queue};
use crate::data::batch::BatchConfirms;
use crate::foundation::Foundation;
use crate::services::{Motion, Services};

/// Folder of the streams in the data directory.
const FOLDER: &str = "streams";
/// Threads that write; each syncs for itself.
const WRITERS: usize = 4;
/// Threads that read what is not in the system's cache.
const READERS: usize = 2;
/// Bytes of the newest chunks in memory, of all streams.
const TAIL_BYTES: usize = 32 << 20;

/// What the streams of a node keep.
pub(crate) struct Streams {
    logs: StreamLogs,
    names: Arc<Names>,
    /// Held while one is opened.
    opening: Mutex<()>,
}

impl Streams {
    /// Looks which files there are.
    pub(crate) fn start(
        foundation: &Foundation,
        data_dir: &Path,
        (options, motion): (&BrokerOptions, Motion),
        names: Arc<Names>,
    ) -> Result<Streams, StreamError> {
        let (writers, readers) = match motion {
            Motion::Threads => (WRITERS, READERS),
            Motion::Steps => (0, 0),
        };
        let options = StreamOptions { syncs: options.fsync, writers, readers, tail_bytes: TAIL_BYTES };
        let (disk, clock) = (foundation.disk.clone(), foundation.clock.clone());
        let logs = StreamLogs::start(disk, &data_dir.join(FOLDER), clock, options)?;
        Ok(Streams { logs, names, opening: Mutex::default() })
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

/// Opens all streams; those that cannot be read are out of service. Files of queues that are not there go.
pub(crate) fn open_all(services: &Services, queues: &[Arc<Queue>]) {
    for queue in queues.iter().filter(|queue| queue.queue_kind() == Kind::Stream) {
        if let Err(error) = queue.open_stream() {
            queue.put_out_of_service(&error.to_string());
        }
    }
    let streams = &services.streams;
    let known = |id: u64| queues.iter().any(|queue| queue.id.0 == id);
    for id in streams.logs.unopened().into_iter().filter(|id| !known(*id)) {
        if let Err(error) = streams.logs.delete(id) {
            tracing::warn!(stream = id, %error, "files of a stream that is not there could not be removed");
        }
    }
}

/// What a queue has of its stream.
pub(crate) struct Stream {
    pub(crate) log: Arc<StreamLog>,
    commits: Arc<Commits>,
}

/// Told of commits: confirms publishers.
struct Commits {
    queue: QueueId,
    services: Weak<Services>,
    /// Batches in the order of their last offsets.
    pending: Mutex<VecDeque<(u64, Arc<BatchConfirms>)>>,
    /// Consumers are to be served.
    is_called: AtomicBool,
}

impl Stream {
    /// Answers the part of this queue once everything before `next_offset` is committed.
    fn confirm_at(&self, next_offset: u64, confirms: Arc<BatchConfirms>) {
        self.commits.pending.lock().push_back((next_offset, confirms));
        self.commits.settle(self.log.committed_next());
        if self.log.check().is_err() {
            self.commits.reject();
        }
    }

    /// The queue is deleted.
    fn end(&self) {
        if let Some(services) = self.commits.services.upgrade() {
            services.streams.logs.end(&self.log);
        }
        self.commits.reject();
    }

    /// Has the queue serve its consumers.
    fn waker(&self) -> Waker {
        Waker::from(self.commits.clone())
    }

    /// The queue begins to serve: whoever calls from now on is heard.
    fn begin_serving(&self) {
        self.commits.is_called.store(false, Ordering::Release);
    }
}

impl Commits {
    /// Answers what is committed.
    fn settle(&self, next_offset: u64) {
        let Some(services) = self.services.upgrade() else { return };
        loop {
            let confirms = {
                let mut pending = self.pending.lock();
                match pending.front() {
                    Some((wanted, _)) if *wanted <= next_offset => pending.pop_front(),
                    _ => None,
                }
            };
            let Some((_, confirms)) = confirms else { return };
            if confirms.answered(0) {
                services.confirm_when_durable(&confirms);
            }
        }
    }

    /// Nothing that waits will ever be committed.
    fn reject(&self) {
        let pending = std::mem::take(&mut *self.pending.lock());
        let Some(services) = self.services.upgrade() else { return };
        for (_, confirms) in pending {
            confirms.reject_all();
            if confirms.answered(0) {
                services.confirm_when_durable(&confirms);
            }
        }
    }

    fn queue(&self) -> Option<Arc<Queue>> {
        self.services.upgrade()?.queue_by_id(self.queue)
    }
}

impl Wake for Commits {
    fn wake(self: Arc<Self>) {
        if !self.is_called.swap(true, Ordering::AcqRel)
            && let Some(queue) = self.queue()
        {
            queue.submit_later(Event::Tick);
        }
    }
}

impl StreamListener for Commits {
    fn may_write(&self) -> bool {
        self.services.upgrade().is_some_and(|services| services.streams.names.has(self.queue.0))
    }

    fn committed(&self, next_offset: u64) {
        self.settle(next_offset);
        if let Some(queue) = self.queue() {
            queue.wake_publishers();
        }
    }

    fn failed(&self, error: &StreamError) {
        let Some(queue) = self.queue() else { return };
        let (name, vhost) = (String::from_utf8_lossy(queue.name()), queue.vhost_name());
        tracing::error!(stream = %name, vhost, %error, "a stream takes nothing more until the next start");
        self.reject();
        queue.wake_publishers();
    }
}

/// What a stream goes by.
fn limits_of(config: &QueueConfig) -> Limits {
    Limits {
        max_bytes: config.max_length_bytes,
        max_age_ms: config.stream.max_age_ms,
        segment_bytes: config.segment_bytes(),
        filter_bytes: config.stream.filter_bytes.unwrap_or(Limits::default().filter_bytes),
    }
}

impl Queue {
    /// What the stream keeps: for sessions that append, read and wait without the queue's cell. `None` when the queue is no stream, or its
    /// stream cannot be opened, or it is deleted. Waits for the disk at its first use.
    ///
    /// Permissions are the caller's business. Create and delete streams with [`crate::Broker::declare_queue`] (`x-queue-type` `stream`) and
    /// [`crate::Broker::delete_queue`]; readers of a deleted one get [`StreamError::Deleted`].
    #[must_use]
    pub fn stream_log(&self) -> Option<Arc<StreamLog>> {
        if self.queue_kind() != Kind::Stream || self.is_closed() {
            return None;
        }
        self.open_stream().ok().map(|stream| stream.log.clone())
    }

    /// The stream; opened if it is not.
    pub(crate) fn open_stream(&self) -> Result<&Arc<Stream>, StreamError> {
        if let Some(stream) = self.stream.get() {
            return Ok(stream);
        }
        let services = self.services();
        let _opening = services.streams.opening.lock();
        if let Some(stream) = self.stream.get() {
            return Ok(stream);
        }
        let commits = Arc::new(Commits {
            queue: self.id,
            services: Arc::downgrade(services),
            pending: Mutex::default(),
            is_called: AtomicBool::new(false),
        });
        let (name, vhost) = (String::from_utf8_lossy(self.name()), self.vhost_name());
        let opened = services.streams.logs.open(self.id.0, limits_of(&self.config()), commits.clone());
        let (log, damages) = opened.inspect_err(|error| {
            tracing::error!(stream = %name, vhost, %error, "a stream cannot be opened");
        })?;
        for damage in damages {
            tracing::error!(stream = %name, vhost, error = %damage, "a stream is damaged; nothing of it was changed");
        }
        Ok(self.stream.get_or_init(|| Arc::new(Stream { log, commits })))
    }

    /// The machine of a stream.
    pub(crate) fn stream_machine(&self) -> AnyMachine {
        AnyMachine::Stream(StreamMachine::new(self.config(), self.open_stream().ok().cloned()))
    }

    /// Whether so much waits to be written that publishers are to wait.
    pub(crate) fn is_stream_full(&self) -> bool {
        self.stream.get().is_some_and(|stream| stream.log.is_over_bound())
    }

    /// The deletion of the queue is durable: what it keeps goes.
    pub(crate) fn remove_stream(&self) {
        if self.queue_kind() == Kind::Stream
            && let Err(error) = self.services().streams.logs.delete(self.id.0)
        {
            let name = String::from_utf8_lossy(self.name());
            tracing::warn!(stream = %name, %error, "files of a deleted stream could not be removed");
        }
    }
}
