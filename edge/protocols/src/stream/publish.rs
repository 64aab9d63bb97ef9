//! Publishers: entries go into the files of their stream as they came.

use std::collections::VecDeque;
use std::sync::Arc;

use broker::streams::PublisherSlot;
use broker::{Began, Permission, QueueKind, Stage};
use platform::profile;
use wire::stream::commands::PublishError;
use wire::stream::requests::{DeclarePublisher, DeletePublisher, QueryPublisherSequence};
use wire::stream::{
    Compression, Entry, ListBuf, Publish, PublishedEntry, PublishingError, ResponseCode, SubBatch, responses,
};

use super::counted::{Counter, PublisherCount};
use super::running::{Running, Used, put};

/// Longest name of a publisher, bytes.
pub(crate) const REFERENCE_BYTES_MAX: usize = 255;

/// A publisher of the connection.
pub(crate) struct Publisher {
    pub(crate) used: Arc<Used>,
    /// For deduplication.
    slot: Option<PublisherSlot>,
    /// Not confirmed, in the order of the offsets that they wait for.
    pub(crate) pending: VecDeque<Run>,
    pub(crate) counted: Arc<PublisherCount>,
}

/// Publishing ids, one after the other, that wait for the same commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) first: u64,
    pub(crate) count: u32,
    /// They are stored when everything before this offset is committed.
    pub(crate) until: u64,
    /// When their frame came; only the first of a frame is measured.
    pub(crate) began: Began,
}

impl Run {
    /// Its publishing ids.
    pub(crate) fn ids(self) -> impl Iterator<Item = u64> {
        (0..u64::from(self.count)).map(move |nth| self.first.wrapping_add(nth))
    }
}

impl Running {
    pub(crate) fn publisher(&self, id: u8) -> Option<&Publisher> {
        self.publishers.get(usize::from(id))?.as_deref()
    }

    pub(crate) fn declare_publisher(&mut self, correlation_id: u32, asked: &DeclarePublisher<'_>) {
        let code = self.try_declare(asked).err().unwrap_or(ResponseCode::OK);
        self.respond(correlation_id, responses::DeclarePublisher { code });
    }

    fn try_declare(&mut self, asked: &DeclarePublisher<'_>) -> Result<(), ResponseCode> {
        if self.is_alarmed() {
            return Err(ResponseCode::PRECONDITION_FAILED);
        }
        self.may(Permission::Write, asked.stream)?;
        let is_taken = self.publishers.iter().flatten().any(|other| {
            other.counted.id == asked.publisher_id
                || (!asked.reference.is_empty()
                    && *other.counted.reference == *asked.reference
                    && *other.used.name == *asked.stream)
        });
        if asked.reference.len() > REFERENCE_BYTES_MAX || is_taken {
            return Err(ResponseCode::PRECONDITION_FAILED);
        }
        let used = self.use_stream(asked.stream)?;
        let counted = Arc::new(PublisherCount {
            id: asked.publisher_id,
            stream: asked.stream.into(),
            reference: asked.reference.into(),
            published: Counter::default(),
            confirmed: Counter::default(),
            errored: Counter::default(),
        });
        self.control.own.publishers.lock().push(counted.clone());
        let reference = asked.reference.as_bytes();
        let slot = (!reference.is_empty()).then(|| PublisherSlot(reference.into()));
        let publisher = Publisher { used, slot, pending: VecDeque::new(), counted };
        put(&mut self.publishers, asked.publisher_id, publisher);
        Ok(())
    }

    /// Whether the user may do that with a queue.
    pub(crate) fn may(&self, permission: Permission, stream: &str) -> Result<(), ResponseCode> {
        let may = self.principal.check_queue(permission, stream.as_bytes());
        may.map_err(|_| ResponseCode::ACCESS_REFUSED)
    }

    pub(crate) fn delete_publisher(&mut self, correlation_id: u32, asked: DeletePublisher) {
        let code = match self.drop_publisher(asked.publisher_id) {
            true => ResponseCode::OK,
            false => ResponseCode::PUBLISHER_DOES_NOT_EXIST,
        };
        self.respond(correlation_id, responses::DeletePublisher { code });
    }

    /// Forgets a publisher and what it waits for; whether there was one.
    pub(crate) fn drop_publisher(&mut self, id: u8) -> bool {
        let Some(publisher) = self.publishers.get_mut(usize::from(id)).and_then(Option::take) else {
            return false;
        };
        self.unconfirmed -= publisher.pending.iter().map(|run| run.count as usize).sum::<usize>();
        self.control.own.publishers.lock().retain(|counted| counted.id != id);
        true
    }

    pub(crate) fn query_sequence(&mut self, correlation_id: u32, asked: &QueryPublisherSequence<'_>) {
        let found = self.may(Permission::Read, asked.stream).and_then(|()| self.find(asked.stream));
        let (code, sequence) = match found {
            Ok(log) => (ResponseCode::OK, log.publishing_id(asked.reference.as_bytes()).unwrap_or(0)),
            Err(code) => (code, 0),
        };
        self.respond(correlation_id, responses::QueryPublisherSequence { code, sequence });
    }

    /// Messages of a publisher.
    pub(crate) fn publish(&mut self, publish: &Publish<'_>) {
        let sub_batch_bytes_max = self.settings.sub_batch_bytes_max;
        let publisher = self.publishers.get_mut(usize::from(publish.publisher_id)).and_then(Option::as_mut);
        let Some(publisher) = publisher else {
            return self.refuse(
                publish.publisher_id,
                publish.entries(),
                ResponseCode::PUBLISHER_DOES_NOT_EXIST,
            );
        };
        let _profiled = profile::enter_queue(publisher.used.log.id());
        publisher.counted.published.add(publish.len().into());
        self.control.own.published.add(publish.len().into());
        let Ok(mut appender) = publisher.used.log.append() else {
            return self.refuse(publish.publisher_id, publish.entries(), ResponseCode::STREAM_NOT_AVAILABLE);
        };
        let stages = self.broker.stages();
        let began = stages.begin();
        let mut of_run = began;
        let mut entries = publish.entries();
        let (mut taken, mut run, mut bad) = (0, None::<Run>, None);
        for entry in entries.by_ref() {
            if !is_readable(&entry.entry, sub_batch_bytes_max) {
                bad = Some(entry);
                break;
            }
            let until = match &publisher.slot {
                None => appender.entry(&entry.entry, entry.filter_value),
                Some(slot) => {
                    let id = entry.publishing_id;
                    appender.entry_once(slot, id, &entry.entry, entry.filter_value).next_offset()
                }
            };
            taken += 1;
            match &mut run {
                Some(run) if run.first.wrapping_add(run.count.into()) == entry.publishing_id => {
                    run.count += 1;
                    run.until = until;
                }
                _ => {
                    publisher.pending.extend(run.replace(Run {
                        first: entry.publishing_id,
                        count: 1,
                        until,
                        began: std::mem::take(&mut of_run),
                    }));
                }
            }
        }
        appender.finish();
        stages.end_in(QueueKind::Stream, Stage::Enqueue, began);
        publisher.pending.extend(run);
        self.unconfirmed += taken;
        if bad.is_some() {
            // The rest of the frame as well, or there would be a gap in the publishing ids.
            let rest = bad.into_iter().chain(entries);
            self.refuse(publish.publisher_id, rest, ResponseCode::PRECONDITION_FAILED);
        }
        self.is_full = self.is_over_bounds(publish.publisher_id);
    }

    /// Whether no more is to be read before some of it is confirmed.
    fn is_over_bounds(&self, publisher: u8) -> bool {
        self.unconfirmed >= self.settings.initial_credits
            || self.publisher(publisher).is_some_and(|publisher| publisher.used.log.is_over_bound())
    }

    /// Entries that are not stored.
    fn refuse<'e>(
        &self,
        publisher_id: u8,
        entries: impl Iterator<Item = PublishedEntry<'e>>,
        code: ResponseCode,
    ) {
        let ids = entries.map(|entry| PublishingError { publishing_id: entry.publishing_id, code });
        let errors = ListBuf::of(ids);
        let errors = errors.as_list();
        if errors.is_empty() {
            return;
        }
        self.broker.count_stream_error(code.0);
        if let Some(publisher) = self.publisher(publisher_id) {
            publisher.counted.errored.add(errors.len().into());
        }
        self.tell(PublishError { publisher_id, errors });
    }
}

/// Whether a consumer can make something of it. Batches that are not compressed are looked into: offsets are counted by what they say they have.
fn is_readable(entry: &Entry<'_>, sub_batch_bytes_max: u32) -> bool {
    let Entry::SubBatch(batch) = entry else { return true };
    batch.check(sub_batch_bytes_max).is_ok() && (batch.compression != Compression::NONE || is_whole(batch))
}

/// Whether a batch has the messages that it says it has, and nothing else.
fn is_whole(batch: &SubBatch<'_>) -> bool {
    let (mut rest, mut left) = (batch.data, batch.record_count);
    while left > 0 {
        let Some((Entry::Message(_), behind)) = Entry::split(rest) else { return false };
        (rest, left) = (behind, left - 1);
    }
    rest.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_must_have_what_they_say() {
        let mut data = Vec::new();
        Entry::Message(b"one").encode(&mut data);
        Entry::Message(b"two").encode(&mut data);
        let batch = |record_count, data| {
            Entry::SubBatch(SubBatch { record_count, uncompressed_bytes: 14, data, ..gzip() })
        };
        let plain = |record_count, data| {
            let Entry::SubBatch(batch) = batch(record_count, data) else { unreachable!() };
            Entry::SubBatch(SubBatch { compression: Compression::NONE, ..batch })
        };
        assert!(is_readable(&batch(2, &data), 100) && is_readable(&plain(2, &data), 100));
        assert!(!is_readable(&plain(1, &data), 100) && !is_readable(&plain(3, &data), 100));
        assert!(!is_readable(&plain(2, &data[..13]), 100) && !is_readable(&batch(2, &data), 13));
        let mut nested = Vec::new();
        plain(2, &data).encode(&mut nested);
        assert!(!is_readable(&plain(2, &nested), 100));
    }

    fn gzip() -> SubBatch<'static> {
        SubBatch { compression: Compression::GZIP, record_count: 1, uncompressed_bytes: 4, data: b"" }
    }
}
