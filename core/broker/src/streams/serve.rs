//! A consumer of AMQP 0-9-1: a reader, the chunk it is in, and its credit.

use std::ops::Range;
use std::task::{Poll, Waker};

use message::{FromStream, MessageView};
use queues::{ConsumerSpec, Delivery, Effects, MessageSeq, Standing};
use streamlog::{Compression, Entry, Reader, StoredChunk, StreamError};

/// Messages that are handed over at once.
const RUN_MAX: usize = 64;
/// Messages of one consumer before others have a turn.
const TURN_MAX: u64 = 1024;
/// Bytes of the bodies of a run, about.
const RUN_BYTES: usize = 256 << 10;

/// A consumer.
pub(super) struct Consumer {
    pub(super) spec: ConsumerSpec,
    reader: Reader,
    /// Messages before this offset are not wanted.
    first: u64,
    chunk: Option<Cursor>,
    pub(super) unacked: u32,
    pub(super) is_paused: bool,
    from_stream: FromStream,
    run: Run,
    /// Messages in compressed batches: no client of this protocol could read them.
    unreadable: u64,
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
    /// Where the cursor stands behind it.
    behind: usize,
}

enum Body {
    /// A part of the chunk's data.
    Here(Range<usize>),
    Own(Vec<u8>),
}

/// Outcome of serving.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Served {
    pub(super) delivered: u64,
    /// It can read no further: it is to be cancelled.
    pub(super) is_gone: bool,
}

impl Consumer {
    pub(super) fn new(spec: ConsumerSpec, reader: Reader, first: u64) -> Consumer {
        Consumer {
            spec,
            reader,
            first,
            chunk: None,
            unacked: 0,
            is_paused: true,
            from_stream: FromStream::default(),
            run: Run::default(),
            unreadable: 0,
        }
    }

    fn credit(&self) -> usize {
        self.spec.prefetch.saturating_sub(self.unacked) as usize
    }

    pub(super) fn standing(&self) -> Standing {
        match self.credit() {
            0 => Standing::PrefetchFull,
            _ if self.is_paused => Standing::Paused,
            _ => Standing::InLine,
        }
    }

    /// Hands out what there is, as far as credit and session go.
    pub(super) fn serve(&mut self, waker: &Waker, fx: &mut impl Effects) -> Served {
        let mut served = Served::default();
        while !self.is_paused && self.credit() > 0 {
            if served.delivered >= TURN_MAX {
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
            self.fill_run();
            served.delivered += self.deliver(fx);
        }
        served
    }

    /// Takes messages from the chunk: as many as may be handed out at once.
    fn fill_run(&mut self) {
        let credit = self.credit().min(RUN_MAX);
        let Some(cursor) = &mut self.chunk else { return };
        let Run { names, items } = &mut self.run;
        names.clear();
        items.clear();
        let data = cursor.chunk.data();
        let (mut at, mut offset, mut bytes) = (cursor.at, cursor.offset, 0);
        while items.len() < credit && bytes < RUN_BYTES {
            let Some((entry, rest)) = Entry::split(&data[at..]) else { break };
            let end = data.len() - rest.len();
            let sections = match entry {
                Entry::Message(sections) => sections,
                Entry::SubBatch(batch) if batch.compression == Compression::NONE => {
                    // Its messages lie in it like entries.
                    at = end - batch.data.len();
                    continue;
                }
                Entry::SubBatch(batch) => {
                    self.unreadable += u64::from(batch.record_count);
                    offset += u64::from(batch.record_count);
                    at = end;
                    if items.is_empty() {
                        (cursor.at, cursor.offset) = (at, offset);
                    }
                    continue;
                }
            };
            let this = offset;
            (at, offset) = (end, offset + 1);
            if this < self.first {
                if items.is_empty() {
                    (cursor.at, cursor.offset) = (at, offset);
                }
                continue;
            }
            let streamed = self.from_stream.message(sections, this);
            let mut add = |text: &[u8]| {
                names.extend_from_slice(text);
                names.len() - text.len()..names.len()
            };
            let exchange = add(streamed.exchange);
            let key = add(streamed.routing_key.unwrap_or_default());
            let properties = add(streamed.properties);
            bytes += streamed.body.len() + properties.len();
            let body = match streamed.body {
                std::borrow::Cow::Borrowed(body) => {
                    let start = body.as_ptr() as usize - data.as_ptr() as usize;
                    Body::Here(start..start + body.len())
                }
                std::borrow::Cow::Owned(body) => Body::Own(body),
            };
            items.push(Item { offset: this, exchange, key, properties, body, behind: at });
        }
        if items.is_empty() {
            self.chunk = None;
        }
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
            (cursor.at, cursor.offset) = (last.behind, last.offset + 1);
        }
        if cursor.at >= cursor.chunk.data().len() {
            self.chunk = None;
        }
        self.unacked += taken as u32;
        taken as u64
    }
}
