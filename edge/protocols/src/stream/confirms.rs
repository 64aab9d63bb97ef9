//! Confirms: committed ids are told, in one frame for each publisher.

use broker::{QueueKind, Stage};
use wire::stream::commands::PublishError;
use wire::stream::{ListBuf, PublishingError, ResponseCode, write_publish_confirm};

use super::running::Running;

/// Most publishing ids in one frame: far below any size of frames that clients ask for.
const IDS_MAX: usize = 4096;

impl Running {
    /// Tells what is committed. Whatever is not wakes the connection when it is.
    pub(crate) fn confirm(&mut self) {
        if self.unconfirmed > 0 {
            for id in 0..self.publishers.len() {
                self.confirm_of(id);
            }
        }
        if self.is_full {
            let credits = self.settings.initial_credits;
            let enough = credits - self.settings.credits_required_for_unblocking.min(credits);
            self.is_full = self.unconfirmed > enough || self.is_log_full();
        }
    }

    /// Whether a stream has so much to write that its publishers wait. Its next commit wakes the connection.
    fn is_log_full(&self) -> bool {
        let mut is_full = false;
        for publisher in self.publishers.iter().flatten() {
            let log = &publisher.used.log;
            if log.is_over_bound() {
                log.wake_at_commit(&self.waker);
                is_full |= log.is_over_bound() && log.check().is_ok();
            }
        }
        is_full
    }

    fn confirm_of(&mut self, at: usize) {
        let Some(publisher) = self.publishers[at].as_mut().filter(|it| !it.pending.is_empty()) else {
            return;
        };
        let log = &publisher.used.log;
        let mut committed = log.committed_next();
        if publisher.pending.back().is_some_and(|last| last.until > committed) {
            log.wake_at_commit(&self.waker);
            committed = log.committed_next();
        }
        let has_ended = log.check().is_err();
        let done = publisher.pending.iter().take_while(|run| run.until <= committed).count();
        let mut confirmed = 0;
        if done > 0 {
            let (id, mut output) = (publisher.counted.id, self.outbox.lock());
            let mut ids = publisher.pending.iter().take(done).flat_map(|run| run.ids()).peekable();
            while ids.peek().is_some() {
                let count = |id| {
                    confirmed += 1;
                    id
                };
                // An id that was published twice is confirmed twice, in two frames: clients look it up, and stop reading a frame of which
                // they do not know an id.
                let mut last = None;
                let rising = std::iter::from_fn(|| {
                    last = Some(ids.next_if(|id| last.is_none_or(|last| *id > last))?);
                    last
                });
                write_publish_confirm(id, rising.take(IDS_MAX).map(count), output.bytes());
            }
            drop((ids, output));
            for run in publisher.pending.drain(..done) {
                self.broker.stages().end_in(QueueKind::Stream, Stage::Confirm, run.began);
            }
            publisher.counted.confirmed.add(confirmed);
            self.control.own.confirmed.add(confirmed);
        }
        self.unconfirmed -= confirmed as usize;
        if has_ended {
            self.lose(at);
        }
    }

    /// A stream takes nothing more: uncommitted entries are not stored.
    fn lose(&mut self, at: usize) {
        let Some(publisher) = self.publishers[at].as_mut() else { return };
        let lost: Vec<u64> = publisher.pending.drain(..).flat_map(|run| run.ids()).collect();
        self.unconfirmed -= lost.len();
        publisher.counted.errored.add(lost.len() as u64);
        let publisher_id = publisher.counted.id;
        let code = ResponseCode::STREAM_NOT_AVAILABLE;
        for some in lost.chunks(IDS_MAX) {
            let errors = ListBuf::of(some.iter().map(|id| PublishingError { publishing_id: *id, code }));
            self.tell(PublishError { publisher_id, errors: errors.as_list() });
        }
    }
}
