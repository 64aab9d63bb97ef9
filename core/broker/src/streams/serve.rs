//! A consumer of AMQP 0-9-1 or 1.0: a reader, the chunk it is in, and its credit.

use std::ops::Range;
use std::sync::Arc;
use std::task::{Poll, Waker};

use message::{AsStored, FromStream, MessageView, Streamed};
use queues::{ConsumerSpec, Credit, Delivery, Effects, InStream, MessageSeq, Standing};
use streamlog::{Compression, Entry, Reader, StoredChunk, StreamError};

/// Messages that are handed over at once.
const RUN_MAX: usize = 64;
/// Messages of one consumer before others have a turn.
const TURN_MAX: u64 = 1024;
/// Bytes of the bodies of a run, about.
const RUN_BYTES: usize = 256 << 10;
/// Messages that a filter passes over before others have a turn.
const FILTERED_MAX: u32 = 4096;

/// A consumer.
pub(super) struct Consumer {
    pub(super) spec: ConsumerSpec,
    reader: Reader,
    /// Messages before this offset are not wanted.
    first: u64,
    chunk: Option<Cursor>,
    pub(super) unacked: u32,
    /// Deliveries made, if it is served by credit; wraps around.
    delivered: u32,
    credit: Credit,
    pub(super) is_paused: bool,
    converter: Converter,
    run: Run,
    /// Messages in compressed batches: no client of this protocol could read them.
    unreadable: u64,
    /// Behind the last of them that is counted: a run that was not taken is read again.
    unreadable_end: u64,
}

/// A reader that makes messages of entries, for the consumer's protocol.
enum Converter {
    /// With the queue's name: the routing key of what came by the stream protocol (B185).
    Amqp091(FromStream, Arc<[u8]>),
    Amqp10(AsStored),
}

impl Converter {
    fn message<'s, 'e>(&'s mut self, entry: &'e [u8], offset: u64) -> Streamed<'s, 'e> {
        match self {
            Converter::Amqp091(converter, queue) => {
                let streamed = converter.message(entry, offset);
                Streamed { routing_key: Some(streamed.routing_key.unwrap_or(queue)), ..streamed }
            }
            Converter::Amqp10(converter) => converter.message(entry, offset),
        }
    }
}

/// A chunk, and how far it is handed out.
struct Cursor {
    chunk: StoredChunk,
    /// Where in its data the next entry begins.
    at: usize,
    /// The offset of its first message.
    offset: u64,
}

/// Messages on their way to the consumer.
#[derive(Default)]
struct Run {
    names: Vec<u8>,
    items: Vec<Item>,
}

struct Item {
    offset: u64,
    exchange: Range<usize>,
    key: Range<usize>,
    properties: Range<usize>,
    body: Body,
    /// Where the cursor stands behind it, and behind what follows it and is not wanted: the place and the offset.
    behind: (usize, u64),
}

enum Body {
    /// A part of the chunk's data.
    Here(Range<usize>),
    Own(Vec<u8>),
}

impl Run {
    /// Adds a message of a chunk's data, behind which the next one begins at `behind`; returns its bytes.
    fn add(&mut self, data: &[u8], streamed: Streamed<'_, '_>, offset: u64, behind: usize) -> usize {
        let names = &mut self.names;
        let mut add = |text: &[u8]| {
            names.extend_from_slice(text);
            names.len() - text.len()..names.len()
        };
        let exchange = add(streamed.exchange);
        let key = add(streamed.routing_key.unwrap_or_default());
        let properties = add(streamed.properties);
        let bytes = streamed.body.len() + properties.len();
        let body = match streamed.body {
            std::borrow::Cow::Borrowed(body) => {
                let start = body.as_ptr() as usize - data.as_ptr() as usize;
                Body::Here(start..start + body.len())
            }
            std::borrow::Cow::Owned(body) => Body::Own(body),
        };
        self.items.push(Item { offset, exchange, key, properties, body, behind: (behind, offset + 1) });
        bytes
    }
}

/// Outcome of serving.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Served {
    pub(super) delivered: u64,
    /// It can read no further: it is to be cancelled.
    pub(super) is_gone: bool,
}

impl Consumer {
    pub(super) fn new(spec: ConsumerSpec, reader: Reader, first: u64, queue: Arc<[u8]>) -> Consumer {
        // Only links of AMQP 1.0 are served by credit.
        let converter = match spec.by_credit {
            false => Converter::Amqp091(FromStream::default(), queue),
            true => Converter::Amqp10(AsStored::default()),
        };
        Consumer {
            spec,
            reader,
            first,
            chunk: None,
            unacked: 0,
            delivered: 0,
            credit: Credit::default(),
            is_paused: true,
            converter,
            run: Run::default(),
            unreadable: 0,
            unreadable_end: 0,
        }
    }

    /// How many deliveries it may get now.
    fn window(&self) -> usize {
        if !self.spec.by_credit {
            return self.spec.prefetch.saturating_sub(self.unacked) as usize;
        }
        let ahead = self.credit.limit.wrapping_sub(self.delivered);
        if ahead.cast_signed() > 0 { ahead as usize } else { 0 }
    }

    pub(super) fn set_credit(&mut self, credit: Credit) {
        self.credit = credit;
    }

    /// Gives up the credit that it cannot use now and wants to be rid of; the limit that it was asked with.
    pub(super) fn drained(&mut self) -> Option<u32> {
        let is_at_end = || {
            let next = self.reader.next_offset();
            self.chunk.is_none() && next.is_some_and(|next| next >= self.reader.log().committed_next())
        };
        if !self.credit.drain || self.is_paused || self.window() == 0 || !is_at_end() {
            return None;
        }
        self.delivered = self.credit.limit;
        self.credit.drain = false;
        Some(self.credit.limit)
    }

    /// Messages from where it is to the end, about.
    pub(super) fn available(&self) -> u64 {
        let next = self.chunk.as_ref().map(|cursor| cursor.offset).or_else(|| self.reader.next_offset());
        next.map_or(0, |next| self.reader.log().committed_next().saturating_sub(next.max(self.first)))
    }

    pub(super) fn place(&self) -> InStream {
        InStream { behind: self.available(), skipped: self.unreadable }
    }

    pub(super) fn standing(&self) -> Standing {
        match self.window() {
            0 => Standing::PrefetchFull,
            _ if self.is_paused => Standing::Paused,
            _ => Standing::InLine,
        }
    }

    /// Hands out what there is, as far as credit and session go.
    pub(super) fn serve(&mut self, now_ms: u64, waker: &Waker, fx: &mut impl Effects) -> Served {
        let mut served = Served::default();
        let mut filtered = 0;
        while !self.is_paused && self.window() > 0 {
            if served.delivered >= TURN_MAX || filtered >= FILTERED_MAX {
                waker.wake_by_ref();
                break;
            }
            if self.chunk.is_none() {
                match self.reader.poll_next(waker) {
                    Poll::Pending => break,
                    Poll::Ready(Ok(chunk)) => {
                        let offset = chunk.chunk_id();
                        self.chunk = Some(Cursor { chunk, at: 0, offset });
                    }
                    Poll::Ready(Err(error)) => {
                        if !matches!(error, StreamError::Deleted) {
                            let tag = String::from_utf8_lossy(&self.spec.tag);
                            tracing::error!(consumer = %tag, %error, "a consumer of a stream can read no further");
                        }
                        served.is_gone = true;
                        break;
                    }
                }
            }
            filtered += self.fill_run(now_ms);
            served.delivered += self.deliver(fx);
        }
        served
    }

    /// Takes messages from the chunk: as many as may be handed out at once. Returns how many the filter has passed over.
    fn fill_run(&mut self, now_ms: u64) -> u32 {
        let window = self.window().min(RUN_MAX);
        let Some(cursor) = &mut self.chunk else { return 0 };
        self.run.names.clear();
        self.run.items.clear();
        let data = cursor.chunk.data();
        let (mut at, mut offset, mut bytes, mut filtered) = (cursor.at, cursor.offset, 0, 0);
        let mut is_over = false;
        while self.run.items.len() < window && bytes < RUN_BYTES && filtered < FILTERED_MAX {
            let Some((entry, rest)) = Entry::split(&data[at..]) else {
                is_over = true;
                break;
            };
            let end = data.len() - rest.len();
            let mut wanted = None;
            match entry {
                Entry::Message(sections) => {
                    wanted = (offset >= self.first).then_some((sections, offset));
                    (at, offset) = (end, offset + 1);
                }
                Entry::SubBatch(batch) if batch.compression == Compression::NONE => {
                    // Its messages lie in it like entries.
                    at = end - batch.data.len();
                    continue;
                }
                Entry::SubBatch(batch) => {
                    (at, offset) = (end, offset + u64::from(batch.record_count));
                    if offset > self.unreadable_end {
                        self.unreadable += u64::from(batch.record_count);
                        self.unreadable_end = offset;
                    }
                }
            }
            if let (Some((sections, _)), Some(filter)) = (wanted, &self.spec.filter)
                && !filter.passes(sections, now_ms)
            {
                (wanted, filtered) = (None, filtered + 1);
            }
            match wanted {
                Some((sections, offset)) => {
                    let streamed = self.converter.message(sections, offset);
                    bytes += self.run.add(data, streamed, offset, at);
                }
                // An earlier delivery ends here, or that is said by what is in the run.
                None if self.run.items.is_empty() => (cursor.at, cursor.offset) = (at, offset),
                None => self.run.items.last_mut().expect("it is not empty").behind = (at, offset),
            }
        }
        if self.run.items.is_empty() && is_over {
            self.chunk = None;
        }
        filtered
    }

    /// Offers the run; returns how many messages were taken.
    fn deliver(&mut self, fx: &mut impl Effects) -> u64 {
        let (Some(cursor), Run { names, items }) = (&mut self.chunk, &self.run) else { return 0 };
        let data = cursor.chunk.data();
        let deliveries: Vec<Delivery<'_>> = items
            .iter()
            .map(|item| Delivery {
                seq: MessageSeq(item.offset),
                redelivered: false,
                message: MessageView {
                    exchange: &names[item.exchange.clone()],
                    routing_key: &names[item.key.clone()],
                    properties: &names[item.properties.clone()],
                    body: match &item.body {
                        Body::Here(range) => &data[range.clone()],
                        Body::Own(body) => body,
                    },
                },
                annotations: &[],
            })
            .collect();
        let taken = fx.deliver(self.spec.id, &deliveries);
        drop(deliveries);
        self.is_paused = taken < items.len();
        if let Some(last) = taken.checked_sub(1).and_then(|last| items.get(last)) {
            (cursor.at, cursor.offset) = last.behind;
        }
        if cursor.at >= cursor.chunk.data().len() {
            self.chunk = None;
        }
        if self.spec.ack_required {
            self.unacked += taken as u32;
        }
        self.delivered = self.delivered.wrapping_add(taken as u32);
        taken as u64
    }
}
