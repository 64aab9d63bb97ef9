//! The cell of a stream: opens what it keeps, and hears from it.

use std::sync::{Arc, Weak};

use queues::Kind;
use stdx::QueueId;
use streamlog::{CutTail, RoundTook, StreamError, StreamLog};

use super::machine::AnyMachine;
use super::{Event, Queue};
use crate::data::batch::BatchConfirms;
use crate::services::Services;
use crate::stages::{QueueKind, Stage};
use crate::streams::{Committed, Owner, Stream, StreamMachine};

/// Said of a file whose end was cut.
const CUT_TAIL: &str =
    "the last write to a stream was not whole and was cut; a kill leaves such, and confirms nothing of it";

/// The queue, for its stream.
struct QueueOfStream {
    queue: QueueId,
    services: Weak<Services>,
}

impl QueueOfStream {
    fn queue(&self) -> Option<Arc<Queue>> {
        self.services.upgrade()?.queue_by_id(self.queue)
    }
}

impl Owner for QueueOfStream {
    fn may_write(&self) -> bool {
        self.services.upgrade().is_some_and(|services| services.streams.names.has(self.queue.0))
    }

    fn serve(&self) {
        if let Some(queue) = self.queue() {
            queue.submit_later(Event::Tick);
        }
    }

    fn wrote(&self, took: RoundTook) {
        let Some(services) = self.services.upgrade() else { return };
        services.stages.record_in(QueueKind::Stream, Stage::Log, took.write_ns);
        if let Some(sync_ns) = took.sync_ns {
            services.stages.record_in(QueueKind::Stream, Stage::Fsync, sync_ns);
        }
    }

    fn has_room(&self) {
        if let Some(queue) = self.queue() {
            queue.wake_publishers();
        }
    }

    fn failed(&self, error: &StreamError) {
        let Some(queue) = self.queue() else { return };
        let (stream, vhost) = (String::from_utf8_lossy(queue.name()), queue.vhost_name());
        tracing::error!(%stream, vhost, %error, "a stream takes nothing more until the next start");
    }
}

/// The part of a stream in the confirms of a batch.
struct PartOfBatch {
    services: Weak<Services>,
    confirms: Arc<BatchConfirms>,
}

impl Committed for PartOfBatch {
    fn committed(&self, is_lost: bool) {
        let Some(services) = self.services.upgrade() else { return };
        if is_lost {
            self.confirms.reject_all();
        }
        if self.confirms.answered(0) {
            services.confirm_when_durable(&self.confirms);
        }
    }
}

impl Queue {
    /// The files of the stream: for sessions that append, read and wait without the queue's cell. `None` when the queue is no stream, another node
    /// has it, its stream cannot be opened, or it is deleted. Waits for the disk at its first use.
    ///
    /// Permissions are the caller's business. Create and delete streams with [`crate::Broker::declare_queue`] (`x-queue-type` `stream`) and
    /// [`crate::Broker::delete_queue`]; readers of a deleted one get [`StreamError::Deleted`].
    #[must_use]
    pub fn stream_log(&self) -> Option<Arc<StreamLog>> {
        if self.queue_kind() != Kind::Stream || self.is_elsewhere() || self.is_closed() {
            return None;
        }
        self.open_stream().ok().map(|stream| stream.log.clone())
    }

    /// At the start: opens all streams; those that cannot be read are out of service. Files of streams that are not there go.
    pub(crate) fn open_streams(services: &Services, queues: &[Arc<Queue>]) {
        let is_here = |queue: &&Arc<Queue>| queue.queue_kind() == Kind::Stream && !queue.is_elsewhere();
        for queue in queues.iter().filter(is_here) {
            if let Err(error) = queue.open_stream() {
                queue.put_out_of_service(&error.to_string());
            }
        }
        let known = |id: u64| queues.iter().any(|queue| queue.id.0 == id);
        let unopened = services.streams.logs.unopened();
        for stream in unopened.into_iter().filter(|id| !known(*id)) {
            if let Err(error) = services.streams.logs.delete(stream) {
                tracing::warn!(stream, %error, "files of a stream that is not there could not be removed");
            }
        }
    }

    /// The stream; opened if it is not.
    fn open_stream(&self) -> Result<&Arc<Stream>, StreamError> {
        if let Some(stream) = self.stream.get() {
            return Ok(stream);
        }
        let services = self.services();
        let _opening = services.streams.opening.lock();
        if let Some(stream) = self.stream.get() {
            return Ok(stream);
        }
        let (name, vhost) = (String::from_utf8_lossy(self.name()), self.vhost_name());
        let owner = Box::new(QueueOfStream { queue: self.id, services: Arc::downgrade(services) });
        let opened = Stream::open(&services.streams.logs, (self.id.0, self.name()), &self.config(), owner);
        let (stream, damages, cut_tail) = opened.inspect_err(|error| {
            tracing::error!(stream = %name, vhost, %error, "a stream cannot be opened");
        })?;
        for damage in damages {
            tracing::error!(stream = %name, vhost, error = %damage, "a stream is damaged; nothing of it was changed");
        }
        if let Some(CutTail { path, position, bytes, what }) = cut_tail {
            let file = path.display();
            tracing::warn!(stream = %name, vhost, %file, position, bytes, what, "{CUT_TAIL}");
        }
        Ok(self.stream.get_or_init(|| Arc::new(stream)))
    }

    /// The machine of a stream.
    pub(crate) fn stream_machine(&self) -> AnyMachine {
        AnyMachine::Stream(StreamMachine::new(self.config(), self.open_stream().ok().cloned()))
    }

    /// A publish to a stream is confirmed when it is committed there.
    pub(super) fn confirm_when_committed(&self, machine: &StreamMachine, confirms: Arc<BatchConfirms>) {
        let services = Arc::downgrade(self.services());
        machine.await_commit(Arc::new(PartOfBatch { services, confirms }));
    }

    /// Whether so much waits to be written that publishers are to wait.
    pub(crate) fn is_stream_full(&self) -> bool {
        self.stream.get().is_some_and(|stream| stream.log.is_over_bound())
    }

    /// The deletion of the queue is durable: its files go.
    pub(crate) fn remove_stream(&self) {
        if self.queue_kind() == Kind::Stream
            && let Err(error) = self.services().streams.logs.delete(self.id.0)
        {
            let stream = String::from_utf8_lossy(self.name());
            tracing::warn!(%stream, %error, "files of a deleted stream could not be removed");
        }
    }
}
