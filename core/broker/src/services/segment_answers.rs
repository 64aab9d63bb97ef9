//! Answers of the segment threads, brought to the queues and shared bodies that asked. Refuses to know what they do with them.

use std::sync::Arc;

use queues::{BlockPlace, BlockToken};
use stdx::QueueId;

use super::LogWaiters;
use crate::alarms::Alarms;
use crate::bodies;
use crate::bodies::Bodies;
use crate::cell::{Event, Queue};
use crate::services::roster::QueuesById;

/// Answers of the segment threads, passed to the cells.
pub(crate) struct SegmentAnswers {
    pub(crate) queues: QueuesById<Queue>,
    pub(crate) bodies: Arc<Bodies>,
    pub(crate) waiting: Arc<LogWaiters>,
    pub(crate) alarms: Arc<Alarms>,
}

impl SegmentAnswers {
    fn submit(&self, stream: u64, event: Event) {
        if let Some(queue) = self.queues.get(QueueId(stream)) {
            queue.submit(event);
        }
    }
}

impl commitlog::SegmentListener for SegmentAnswers {
    fn written(
        &self,
        stream: u64,
        token: u64,
        result: Result<commitlog::BlockLocation, commitlog::SegmentError>,
    ) {
        let location = result.as_ref().ok().copied();
        let place = match result {
            Ok(at) => Some(BlockPlace { segment: at.segment, offset: u64::from(at.offset), bytes: at.len }),
            Err(error) if error.is_out_of_room() => {
                // The alarm tells of it, once.
                tracing::debug!(%error, queue = stream, "no room for a block of messages; it stays in memory");
                self.alarms.disk_full();
                None
            }
            Err(error) => {
                tracing::error!(%error, queue = stream, "a block of messages cannot be written; it stays in memory");
                None
            }
        };
        if stream == bodies::STREAM {
            self.bodies.was_written(token, location);
        } else {
            self.submit(stream, Event::BlockWritten(BlockToken(token), place));
        }
        self.waiting.wake_pressed();
    }

    fn read(&self, stream: u64, token: u64, result: Result<Vec<u8>, commitlog::SegmentError>) {
        let bytes = match result {
            Ok(bytes) => Some(bytes),
            Err(error) => {
                tracing::error!(%error, queue = stream, "a block of messages cannot be read");
                None
            }
        };
        if stream == bodies::STREAM {
            let bytes = bytes.map(|bytes| self.bodies.hold(bytes));
            for reader in self.bodies.was_read(token, bytes.as_ref()) {
                self.submit(reader.0, Event::BodyRead(token, bytes.clone()));
            }
        } else {
            self.submit(stream, Event::BlockRead(BlockToken(token), bytes));
        }
        self.waiting.wake_pressed();
    }

    fn synced(&self, token: u64, result: Result<(), Vec<(u64, commitlog::SegmentError)>>) {
        if token == bodies::STREAM {
            self.bodies.was_synced(result.is_ok());
        } else {
            self.submit(token, Event::BlocksSynced(result.is_ok()));
        }
        for (stream, error) in result.err().into_iter().flatten() {
            tracing::error!(%error, queue = stream, "segments cannot be synced; the log is kept");
            if let commitlog::SegmentError::Poisoned(failure) = &error {
                self.alarms.storage_failed(&failure.to_string());
            }
        }
    }

    fn delete_failed(&self, stream: u64, error: &commitlog::SegmentError) {
        tracing::warn!(%error, queue = stream, "a segment could not be deleted; it goes at the next start");
    }
}
