//! Consumers: chunks go out as they are stored, as far as credit and socket go.
//!
//! A chunk costs one credit. As in RabbitMQ nothing is sent before there is more than half of the first credit, and then all of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::task::Poll;

use broker::streams::{ChunkFilter, GroupSeat, Reader, Seek, StoredChunk, StreamError};
use broker::{Began, Permission, QueueKind, Stage};
use platform::profile;
use wire::stream::commands::{Credit, CreditError, StoreOffset};
use wire::stream::requests::{QueryOffset, Subscribe, Unsubscribe};
use wire::stream::{
    CHUNK_HEADER_BYTES, Chunk, ChunkHeader, List, Message, OffsetSpec, ResponseCode, responses, write_chunk,
    write_deliver_head,
};

use super::counted::{ConsumerCount, Counter};
use super::publish::REFERENCE_BYTES_MAX;
use super::running::{Running, Used, put};
use crate::outbox::OutputBytes;

/// Bytes of a frame before the chunk: key, version, subscription, committed chunk id. The size word does not count.
const DELIVER_HEAD_BYTES: usize = 2 + 2 + 1 + 8;
/// Filters of a subscription that are looked at.
const FILTERS_MAX: usize = 256;

/// Bytes that wait for the socket above which no further chunk is sent: a client that does not read costs little more.
const CHUNK_OUTPUT_BYTES: usize = 512 << 10;

/// A consumer of the connection.
pub(crate) struct Consumer {
    pub(crate) used: Arc<Used>,
    /// `None` while another member of its group is active.
    pub(crate) reader: Option<Reader>,
    /// Where it begins, unless the client says otherwise when it becomes active.
    pub(crate) seek: Seek,
    pub(crate) filter: Option<Arc<ChunkFilter>>,
    credit: u32,
    /// Credit must be above this before anything is sent.
    limit: u32,
    /// It spends its credit.
    is_sending: bool,
    /// Its place in its group.
    pub(crate) seat: Option<Box<GroupSeat>>,
    pub(crate) is_active: bool,
    pub(crate) counted: Arc<ConsumerCount>,
}

impl Consumer {
    fn set_credit(&mut self, credit: u32) {
        self.credit = credit;
        self.counted.credit.store(credit, Ordering::Relaxed);
    }

    /// Whether it may be sent a chunk.
    fn may_send(&mut self) -> bool {
        self.is_sending = self.is_sending || self.credit > self.limit;
        self.is_sending && self.credit > 0 && self.reader.is_some()
    }

    pub(crate) fn begin_at(&mut self, seek: Seek) {
        let mut reader = self.used.log.reader(seek, self.filter.clone());
        reader.rest();
        self.reader = Some(reader);
    }
}

/// Where a client wants to begin.
pub(crate) fn seek_of(offset: OffsetSpec) -> Option<Seek> {
    Some(match offset {
        OffsetSpec::None => return None,
        OffsetSpec::First => Seek::First,
        OffsetSpec::Last => Seek::Last,
        OffsetSpec::Next => Seek::Next,
        OffsetSpec::Offset(offset) => Seek::Offset(offset),
        OffsetSpec::Timestamp(ms) => Seek::Timestamp(ms),
    })
}

/// `filter.0`, `filter.1`, ... and `match-unfiltered`.
pub(crate) fn filter_of(properties: &List<'_, (&str, &str)>) -> Option<Arc<ChunkFilter>> {
    let values = properties.iter().filter(|(name, _)| name.starts_with("filter."));
    let values: Vec<Box<[u8]>> = values.take(FILTERS_MAX).map(|(_, value)| value.as_bytes().into()).collect();
    let match_unfiltered = properties.get("match-unfiltered") == Some("true");
    (!values.is_empty()).then(|| Arc::new(ChunkFilter { values, match_unfiltered }))
}

impl Running {
    pub(crate) fn consumer(&self, id: u8) -> Option<&Consumer> {
        self.consumers.get(usize::from(id))?.as_deref()
    }

    pub(crate) fn subscribe(&mut self, correlation_id: u32, asked: &Subscribe<'_>) {
        let code = self.try_subscribe(asked).err().unwrap_or(ResponseCode::OK);
        self.respond(correlation_id, responses::Subscribe { code });
    }

    fn try_subscribe(&mut self, asked: &Subscribe<'_>) -> Result<(), ResponseCode> {
        let (id, properties) = (asked.subscription_id, &asked.properties.0);
        self.may(Permission::Read, asked.stream)?;
        let name = properties.get("name");
        if name.is_some_and(|name| name.len() > REFERENCE_BYTES_MAX) {
            return Err(ResponseCode::PRECONDITION_FAILED);
        }
        let used = self.use_stream(asked.stream)?;
        if self.consumer(id).is_some() {
            return Err(ResponseCode::SUBSCRIPTION_ID_ALREADY_EXISTS);
        }
        let is_single_active = properties.get("single-active-consumer") == Some("true");
        if is_single_active && name.is_none() {
            return Err(ResponseCode::PRECONDITION_FAILED);
        }
        let seek = seek_of(asked.offset).unwrap_or(Seek::Next);
        let counted = Arc::new(ConsumerCount {
            id,
            used: used.clone(),
            properties: properties.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
            is_single_active,
            is_active: AtomicBool::new(!is_single_active),
            credit: AtomicU32::new(asked.credit.into()),
            consumed: Counter::default(),
            next: AtomicU64::new(0),
        });
        let seat = match name.filter(|_| is_single_active) {
            Some(name) => Some(Box::new(self.join(&used, id, name, properties.get("super-stream"))?)),
            None => None,
        };
        let mut consumer = Consumer {
            used,
            reader: None,
            seek,
            filter: filter_of(properties),
            credit: asked.credit.into(),
            limit: u32::from(asked.credit) / 2,
            is_sending: false,
            seat,
            is_active: !is_single_active,
            counted: counted.clone(),
        };
        if !is_single_active {
            consumer.begin_at(seek);
        }
        self.control.own.consumers.lock().push(counted);
        put(&mut self.consumers, id, consumer);
        Ok(())
    }

    pub(crate) fn unsubscribe(&mut self, correlation_id: u32, asked: Unsubscribe) {
        let code = match self.drop_consumer(asked.subscription_id) {
            true => ResponseCode::OK,
            false => ResponseCode::SUBSCRIPTION_ID_DOES_NOT_EXIST,
        };
        self.respond(correlation_id, responses::Unsubscribe { code });
    }

    /// Forgets a consumer, which leaves its group; whether there was one.
    pub(crate) fn drop_consumer(&mut self, id: u8) -> bool {
        let Some(consumer) = self.consumers.get_mut(usize::from(id)).and_then(Option::take) else {
            return false;
        };
        if let Some(seat) = &consumer.seat {
            self.leave(seat, id);
        }
        self.control.own.consumers.lock().retain(|counted| counted.id != id);
        true
    }

    pub(crate) fn credit(&mut self, asked: Credit) {
        let subscription_id = asked.subscription_id;
        let consumer = self.consumers.get_mut(usize::from(subscription_id)).and_then(Option::as_mut);
        let code = match consumer {
            None => ResponseCode::SUBSCRIPTION_ID_DOES_NOT_EXIST,
            Some(consumer) => {
                consumer.set_credit(consumer.credit.saturating_add(asked.credit.into()));
                if consumer.reader.is_some() {
                    return;
                }
                ResponseCode::PRECONDITION_FAILED
            }
        };
        self.broker.count_stream_error(code.0);
        Message::CreditError(CreditError { code, subscription_id }).encode(self.outbox.lock().bytes());
    }

    pub(crate) fn store_offset(&mut self, asked: &StoreOffset<'_>) {
        if asked.reference.len() > REFERENCE_BYTES_MAX {
            return tracing::warn!(
                "a name of {} bytes is too long to store an offset",
                asked.reference.len()
            );
        }
        let subscribed = self.consumers.iter().flatten().find(|it| *it.used.name == *asked.stream);
        let log = match subscribed {
            Some(consumer) => Ok(consumer.used.log.clone()),
            None => self.may(Permission::Read, asked.stream).and_then(|()| self.find(asked.stream)),
        };
        match log {
            Ok(log) => log.store_offset(asked.reference.as_bytes(), asked.offset),
            Err(code) => tracing::warn!(stream = asked.stream, "an offset is not stored: {}", code.text()),
        }
    }

    pub(crate) fn query_offset(&mut self, correlation_id: u32, asked: &QueryOffset<'_>) {
        let found = self.may(Permission::Read, asked.stream).and_then(|()| self.find(asked.stream));
        let stored = found
            .and_then(|log| log.stored_offset(asked.reference.as_bytes()).ok_or(ResponseCode::NO_OFFSET));
        let (code, offset) = stored.map_or_else(|code| (code, 0), |offset| (ResponseCode::OK, offset));
        self.respond(correlation_id, responses::QueryOffset { code, offset });
    }

    /// Sends the chunks that are there, as far as credit and socket go; later ones wake the connection.
    pub(crate) fn deliver(&mut self) {
        let count = self.consumers.len();
        for nth in 0..count {
            let at = (self.turn + nth) % count;
            // The first chunk of a turn is measured.
            let mut is_first = true;
            while let Some(consumer) = self.consumers[at].as_mut()
                && consumer.may_send()
            {
                if self.outbox.pending_bytes() >= CHUNK_OUTPUT_BYTES {
                    // The socket's writer asks again when there is room.
                    self.turn = at;
                    return;
                }
                if !self.deliver_next(at, std::mem::take(&mut is_first)) {
                    break;
                }
            }
        }
    }

    /// Sends the next chunk of a consumer; whether there was one.
    fn deliver_next(&mut self, at: usize, is_measured: bool) -> bool {
        let Some(consumer) = self.consumers[at].as_mut() else { return false };
        let Some(reader) = consumer.reader.as_mut() else { return false };
        let _profiled = profile::enter_queue(reader.log().id());
        match reader.poll_next(&self.waker) {
            Poll::Ready(Ok(chunk)) => {
                let began = if is_measured { self.broker.stages().begin() } else { Began::default() };
                self.send(at, &chunk);
                self.broker.stages().end_in(QueueKind::Stream, Stage::Dispatch, began);
                true
            }
            Poll::Pending => {
                if let Some(next) = reader.next_offset() {
                    consumer.counted.next.fetch_max(next, Ordering::Relaxed);
                    // At the end the rule of half the credit holds anew.
                    consumer.is_sending = consumer.is_sending && next < consumer.used.log.committed_next();
                }
                false
            }
            // The end of the stream is told for all that use it.
            Poll::Ready(Err(StreamError::Deleted)) => {
                consumer.reader = None;
                false
            }
            Poll::Ready(Err(error)) => {
                let (stream, id) = (consumer.used.name.clone(), consumer.counted.id);
                tracing::error!(%stream, %error, "a consumer of a stream can read no further");
                self.drop_consumer(id);
                self.tell_end(&stream);
                false
            }
        }
    }

    /// Writes a chunk; one that does not fit a frame is cut into several.
    fn send(&mut self, at: usize, chunk: &StoredChunk) {
        let Some(consumer) = self.consumers[at].as_mut() else { return };
        let committed = self.delivers_committed.then(|| consumer.used.log.last_chunk_id());
        let (id, bytes_max) = (consumer.counted.id, self.frame_max as usize);
        let wire = chunk.wire_bytes();
        let mut output = self.outbox.lock();
        let before = output.pending_bytes();
        let out = output.bytes();
        let frames = if DELIVER_HEAD_BYTES + wire.len() <= bytes_max {
            write_deliver_head(id, committed, wire.len(), out);
            out.extend_from_slice(wire);
            1
        } else {
            cut(wire, bytes_max, |piece| {
                write_deliver_head(id, committed, piece.len(), out);
                out.extend_from_slice(piece);
            })
        };
        let written = output.pending_bytes() - before;
        output.note_delivered(written);
        drop(output);
        let records = u64::from(chunk.header().record_count);
        consumer.set_credit(consumer.credit.saturating_sub(frames));
        consumer.is_sending = consumer.credit > 0;
        consumer.counted.consumed.add(records);
        consumer.counted.next.store(chunk.next_offset(), Ordering::Relaxed);
        self.control.own.delivered.add(records);
    }
}

/// Cuts a chunk at entries into several that fit frames of so many bytes; returns how many. A single entry that does not fit goes all the same,
/// as in RabbitMQ.
fn cut(wire: &[u8], bytes_max: usize, mut each: impl FnMut(&[u8])) -> u32 {
    let data_bytes_max = bytes_max.saturating_sub(DELIVER_HEAD_BYTES + CHUNK_HEADER_BYTES);
    let Ok(whole) = Chunk::parse(wire) else {
        each(wire);
        return 1;
    };
    let entries: Vec<_> = whole.entries().collect();
    let (mut left, mut frames, mut piece) = (&entries[..], 0, Vec::new());
    while let Some((chunk_id, _)) = left.first() {
        let header = ChunkHeader { chunk_id: *chunk_id, ..whole.header };
        piece.clear();
        let taken = write_chunk(&header, data_bytes_max, left.iter().map(|(_, entry)| *entry), &mut piece);
        each(&piece);
        frames += 1;
        left = &left[usize::from(taken)..];
    }
    frames
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::stream::Entry;

    #[test]
    fn cut_chunks_have_the_same_entries_under_the_same_offsets() {
        let bodies: Vec<Vec<u8>> = (0..50_u8).map(|nth| vec![nth; usize::from(nth)]).collect();
        let mut wire = Vec::new();
        let header = ChunkHeader { chunk_id: 100, timestamp: 7, ..ChunkHeader::default() };
        write_chunk(&header, usize::MAX, bodies.iter().map(|body| Entry::Message(body)), &mut wire);
        let mut found = Vec::new();
        let frames = cut(&wire, 300, |piece| {
            assert!(DELIVER_HEAD_BYTES + piece.len() <= 300);
            let chunk = Chunk::parse(piece).unwrap();
            chunk.check_crc().unwrap();
            chunk.check_entries().unwrap();
            assert_eq!(chunk.header.timestamp, 7);
            found.extend(chunk.entries().map(|(offset, entry)| match entry {
                Entry::Message(body) => (offset, body.to_vec()),
                Entry::SubBatch(_) => unreachable!(),
            }));
        });
        assert!(frames > 5);
        assert_eq!(found, (100..).zip(bodies).collect::<Vec<_>>());
        assert!(cut(&wire, 80, |_| ()) >= 40);
    }
}
