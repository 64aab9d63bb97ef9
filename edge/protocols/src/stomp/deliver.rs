//! The delivery side of a connection: its subscriptions, unsettled messages, and receipts that wait. It lives under the outbox's lock, so a
//! queue cell hands over a whole run of deliveries with one lock.
//!
//! Refuses to know the broker: queues appear as tokens of consumers only.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use broker::{ConfirmRange, ConfirmSink, Delivery, DeliveryTotals, SessionHold};
use wire::amqp091::Properties;
use wire::stomp::{FrameWriter, Version};

use super::destination::of_message;
use super::headers::write_properties;
use crate::outbox::Outbox;
use crate::unacked::{Entry, Unacked};

/// How a subscription acknowledges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AckMode {
    /// Not at all: messages are gone once they are sent.
    Auto,
    /// ACK settles all messages of the subscription up to the one it names.
    Client,
    /// ACK settles one message.
    Individual,
}

/// A subscription.
pub(crate) struct Subscription {
    /// The consumer's tag: `T_` and the client's id, or `Q_` and the destination.
    pub(crate) tag: Box<[u8]>,
    /// The header `subscription` of MESSAGE frames; `None` without an id.
    pub(crate) id: Option<Box<[u8]>>,
    pub(crate) mode: AckMode,
    pub(crate) unacked: Unacked,
    /// It was refused a delivery.
    pub(crate) paused: bool,
}

/// State that changes together with the output.
pub(crate) struct Side {
    pub(crate) version: Version,
    /// The name of the session in `message-id` headers.
    pub(crate) session: Box<str>,
    pub(crate) topic_exchange: Box<[u8]>,
    /// By token of the consumer.
    pub(crate) subscriptions: HashMap<u32, Subscription>,
    latest_tag: u64,
    /// Receipts of messages that are to be confirmed, by number of the publish.
    pub(crate) receipts: BTreeMap<u64, Box<[u8]>>,
    receipt_bytes: usize,
    /// Tokens of consumers whose queue is gone.
    pub(crate) cancelled: Vec<u32>,
    pub(crate) counted: DeliveryTotals,
    pub(crate) confirmed: u64,
    /// Used again for each message.
    head: Vec<u8>,
}

impl Side {
    pub(crate) fn new() -> Side {
        Side {
            version: Version::V10,
            session: Box::default(),
            topic_exchange: Box::default(),
            subscriptions: HashMap::new(),
            latest_tag: 0,
            receipts: BTreeMap::new(),
            receipt_bytes: 0,
            cancelled: Vec::new(),
            counted: DeliveryTotals::default(),
            confirmed: 0,
            head: Vec::new(),
        }
    }

    /// Bytes on the heap, about.
    pub(crate) fn heap_bytes(&self) -> usize {
        let of = |subscription: &Subscription| {
            size_of::<Subscription>() + 2 * subscription.tag.len() + subscription.unacked.heap_bytes()
        };
        self.subscriptions.values().map(of).sum::<usize>()
            + self.receipts.values().map(|id| id.len() + size_of::<(u64, Box<[u8]>)>()).sum::<usize>()
    }

    /// A receipt waits for the confirm of this publish.
    pub(crate) fn note_receipt(&mut self, number: u64, receipt: &[u8]) {
        self.receipt_bytes += receipt.len();
        self.receipts.insert(number, receipt.into());
    }

    /// The receipt that waits for this publish, which waits no longer.
    pub(crate) fn take_receipt(&mut self, number: u64) -> Option<Box<[u8]>> {
        let receipt = self.receipts.remove(&number)?;
        self.receipt_bytes -= receipt.len();
        Some(receipt)
    }

    /// Bytes of the receipts that wait.
    pub(crate) fn receipt_bytes(&self) -> usize {
        self.receipt_bytes
    }

    /// Unsettled messages of all subscriptions.
    pub(crate) fn unacked_count(&self) -> usize {
        self.subscriptions.values().map(|subscription| subscription.unacked.len()).sum()
    }

    /// Tokens of those that were refused a delivery. They are refused nothing from now on.
    pub(crate) fn take_paused(&mut self) -> Vec<u32> {
        let taken = |(token, it): (&u32, &mut Subscription)| std::mem::take(&mut it.paused).then_some(*token);
        self.subscriptions.iter_mut().filter_map(taken).collect()
    }

    /// Writes the front of a run as MESSAGE frames; how many.
    fn deliver(&mut self, out: &mut Vec<u8>, limit: usize, token: u32, run: &[Delivery<'_>]) -> usize {
        let Some(subscription) = self.subscriptions.get_mut(&token) else { return 0 };
        let mut taken = 0;
        for delivery in run {
            if out.len() >= limit {
                subscription.paused = true;
                break;
            }
            self.latest_tag += 1;
            let head = Head {
                version: self.version,
                session: &self.session,
                topic_exchange: &self.topic_exchange,
                tag: self.latest_tag,
            };
            head.write(subscription, delivery, &mut self.head, out);
            if subscription.mode == AckMode::Auto {
                self.counted.delivered_no_ack += 1;
            } else {
                let entry = Entry { tag: self.latest_tag, seq: delivery.seq, source: token, delivered_ds: 0 };
                subscription.unacked.push(entry);
                self.counted.delivered += 1;
            }
            self.counted.redelivered += u64::from(delivery.redelivered);
            taken += 1;
        }
        taken
    }
}

/// The headers of MESSAGE frames beside those of subscription and message.
struct Head<'a> {
    version: Version,
    session: &'a str,
    topic_exchange: &'a [u8],
    tag: u64,
}

impl Head<'_> {
    fn write(&self, to: &Subscription, delivery: &Delivery<'_>, buffer: &mut Vec<u8>, out: &mut Vec<u8>) {
        let message = &delivery.message;
        let mut writer = FrameWriter::new("MESSAGE", self.version, out);
        if let Some(id) = &to.id {
            writer = writer.header("subscription", id);
        }
        buffer.clear();
        of_message(message.exchange, message.routing_key, self.topic_exchange, buffer);
        writer = writer.header("destination", &*buffer);
        buffer.clear();
        buffer.extend_from_slice(&to.tag);
        buffer.extend_from_slice(format!("@@{}@@{}", self.session, self.tag).as_bytes());
        writer = writer.header("message-id", &*buffer);
        writer = writer.header("redelivered", if delivery.redelivered { "true" } else { "false" });
        if to.mode != AckMode::Auto && self.version == Version::V12 {
            writer = writer.header("ack", &*buffer);
        }
        let carried = message.in_amqp091();
        writer = write_properties(Properties::new(&carried.properties), writer);
        if carried.body.is_empty() { writer.end() } else { writer.body(&carried.body) }
    }
}

/// Where the broker's queues hand deliveries over.
pub(crate) struct Sink {
    pub(crate) outbox: Arc<Outbox<Side>>,
    /// The session is to look at [`Side::cancelled`].
    pub(crate) has_cancelled: AtomicBool,
}

impl broker::ConsumerSink for Sink {
    fn deliver(&self, token: u32, run: &[Delivery<'_>]) -> usize {
        self.outbox.write(|output| {
            let (bytes, side, limit) = output.parts();
            let before = bytes.len();
            let taken = side.deliver(bytes, limit, token, run);
            let delivered_bytes = bytes.len() - before;
            output.note_delivered(delivered_bytes);
            taken
        })
    }

    fn cancelled(&self, token: u32) {
        self.outbox.lock().state().cancelled.push(token);
        self.has_cancelled.store(true, Ordering::Release);
        self.outbox.wake();
    }

    fn hold(&self, token: u32) -> SessionHold {
        let mut output = self.outbox.lock();
        match output.state().subscriptions.get(&token) {
            None => SessionHold::Gone,
            Some(Subscription { paused: false, .. }) => SessionHold::None,
            Some(_) => SessionHold::Output { pending_bytes: output.pending_bytes() as u64 },
        }
    }
}

/// Where confirms of a connection's messages go.
pub(crate) struct Confirms {
    pub(crate) outbox: Arc<Outbox<Side>>,
}

impl ConfirmSink for Confirms {
    fn confirmed(&self, range: ConfirmRange) {
        self.outbox.write(|output| {
            let (bytes, side, _) = output.parts();
            side.confirmed += range.last - range.first + 1;
            for number in range.first..=range.last {
                let Some(receipt) = side.take_receipt(number) else { continue };
                if range.rejected.binary_search(&number).is_ok() {
                    write_rejected(&receipt, side.version, bytes);
                } else {
                    write_receipt(&receipt, side.version, bytes);
                }
            }
        });
    }
}

/// Appends a RECEIPT frame.
pub(crate) fn write_receipt(receipt: &[u8], version: Version, out: &mut Vec<u8>) {
    FrameWriter::new("RECEIPT", version, out).header("receipt-id", receipt).end();
}

/// Tells that a queue did not take a message.
fn write_rejected(receipt: &[u8], version: Version, out: &mut Vec<u8>) {
    FrameWriter::new("ERROR", version, out)
        .header("message", "Message rejected")
        .header("receipt-id", receipt)
        .header("content-type", "text/plain")
        .body(b"A queue did not take the message.\n");
}
