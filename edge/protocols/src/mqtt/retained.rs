//! Retained messages: the last one of each topic that was published with the retain flag.
//!
//! They lie in a durable queue per vhost, whose only consumer is this: it never acknowledges a message before another one has taken its place.
//! So they survive what queues survive, and come again after a restart. An index of the topics is in memory, with the messages.
//!
//! Refuses to know sessions and packets.

use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};

use broker::{
    Broker, Call, ConsumeRequest, ConsumerId, ConsumerSink, ConsumerSpec, Consuming, Delivery, MessageSeq,
    Principal, Queue, QueueCounts, QueueDeclare, Refused, SettleHow, SettleRun, User,
};
use message::mqtt::Mqtt;
use parking_lot::Mutex;
use wire::amqp091::TableBuf;

use super::kept_topics::{Level, Walk};

/// The queue of retained messages in each vhost.
pub(crate) const QUEUE: &str = "mqtt-retained";

/// A retained message.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Kept {
    seq: MessageSeq,
    /// As it is stored.
    pub(crate) properties: Box<[u8]>,
    pub(crate) payload: Box<[u8]>,
}

#[cfg(test)]
impl Kept {
    pub(crate) fn seq(&self) -> u64 {
        self.seq.0
    }
}

/// A retained message without contents.
#[cfg(test)]
pub(crate) fn kept(seq: u64) -> Arc<Kept> {
    Arc::new(Kept { seq: MessageSeq(seq), properties: Box::default(), payload: Box::default() })
}

/// Comparisons of levels after which others get their turn, when retained messages are looked for: about a millisecond.
const COMPARISONS_AT_ONCE: usize = 5_000;

/// All retained messages of a vhost.
#[derive(Default)]
struct Topics {
    root: Level,
    count: usize,
    bytes: usize,
    /// Messages whose place another one has taken: to be settled, in this order.
    replaced: Vec<MessageSeq>,
    /// How many were in the queue when this began; asked until it is answered.
    asked: Option<Call<Result<QueueCounts, Refused>>>,
    attached: Option<Consuming>,
    expected: u64,
    arrived: u64,
    waiting: Vec<Waker>,
}

impl Topics {
    /// A message from the queue.
    fn add(&mut self, delivery: &Delivery<'_>) {
        self.arrived += 1;
        let message = &delivery.message;
        let Some(topic) = Mqtt::of(message.properties).and_then(|mqtt| mqtt.topic) else {
            return self.replaced.push(delivery.seq);
        };
        let kept = (!message.body.is_empty()).then(|| {
            Arc::new(Kept {
                seq: delivery.seq,
                properties: message.properties.into(),
                payload: message.body.into(),
            })
        });
        let is_marker = kept.is_none();
        self.count += usize::from(!is_marker);
        self.bytes += kept.as_deref().map_or(0, size_of_kept);
        if let Some(old) = self.root.put(Some(topic), kept) {
            self.count -= 1;
            self.bytes -= size_of_kept(&old);
            self.replaced.push(old.seq);
        }
        if is_marker {
            // After the one that it takes away: should only one of them be settled, it is that one.
            self.replaced.push(delivery.seq);
        }
    }

    fn poll_loaded(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Some(attached) = &mut self.attached {
            let Poll::Ready(attached) = Pin::new(attached).poll(cx) else { return Poll::Pending };
            self.attached = None;
            if let Err(refused) = attached {
                tracing::error!(
                    ?refused,
                    "retained messages of MQTT cannot be read: somebody consumes from '{QUEUE}'"
                );
                return Poll::Ready(());
            }
        }
        if let Some(asked) = &mut self.asked {
            let Poll::Ready(counts) = Pin::new(asked).poll(cx) else { return Poll::Pending };
            self.asked = None;
            self.expected = counts.map_or(0, |counts| counts.ready);
        }
        if self.arrived >= self.expected {
            return Poll::Ready(());
        }
        self.waiting.push(cx.waker().clone());
        Poll::Pending
    }
}

fn size_of_kept(kept: &Kept) -> usize {
    size_of::<Kept>() + kept.properties.len() + kept.payload.len()
}

/// The store's side of its queue.
#[derive(Default)]
struct Shelf {
    topics: Mutex<Topics>,
    is_gone: AtomicBool,
}

impl ConsumerSink for Shelf {
    fn deliver(&self, _token: u32, run: &[Delivery<'_>]) -> usize {
        let mut topics = self.topics.lock();
        run.iter().for_each(|delivery| topics.add(delivery));
        let waiting = std::mem::take(&mut topics.waiting);
        drop(topics);
        waiting.into_iter().for_each(Waker::wake);
        run.len()
    }

    fn cancelled(&self, _token: u32) {
        self.is_gone.store(true, Ordering::Release);
    }
}

/// Retained messages of one vhost.
pub(crate) struct Retainer {
    queue: Arc<Queue>,
    consumer: ConsumerId,
    shelf: Arc<Shelf>,
}

impl Retainer {
    /// Begins to read what is there; makes the queue if it is not.
    fn start(broker: &Broker, principal: &Principal) -> Result<Retainer, Refused> {
        let connection = broker.next_connection_id();
        let principal = Principal { user: Arc::new(User::internal()), connection, ..principal.clone() };
        let name = QUEUE.as_bytes();
        let mut arguments = TableBuf::new();
        arguments.push_str("x-queue-type", "classic");
        if principal.vhost.queue(name).is_none() {
            let arguments = arguments.as_table();
            let declare =
                QueueDeclare { name, durable: true, exclusive: false, auto_delete: false, arguments };
            broker.declare_queue(&principal, declare)?;
        }
        let shelf = Arc::new(Shelf::default());
        let consumer = ConsumerId { connection, token: 1 };
        let queue = principal.vhost.queue(name).ok_or(Refused::Unavailable)?;
        shelf.topics.lock().asked = Some(queue.counts());
        let spec = ConsumerSpec {
            id: consumer,
            tag: QUEUE.as_bytes().into(),
            channel: 0,
            ack_required: true,
            prefetch: 0,
            priority: 0,
            exclusive: true,
            by_credit: false,
            delivered_before: 0,
            filter: None,
            arguments: Box::default(),
        };
        let (queue, call) =
            broker.consume(&principal, ConsumeRequest { queue: name, spec }, shelf.clone())?;
        shelf.topics.lock().attached = Some(call);
        queue.resume(consumer);
        Ok(Retainer { queue, consumer, shelf })
    }

    /// Waits until all that was there has been read.
    pub(crate) async fn loaded(&self) {
        poll_fn(|cx| self.shelf.topics.lock().poll_loaded(cx)).await;
    }

    /// Whether there is room for one more of so many bytes.
    pub(crate) fn has_room(&self, bytes: usize, count_max: usize, bytes_max: usize) -> bool {
        let topics = self.shelf.topics.lock();
        topics.count < count_max && topics.bytes + bytes <= bytes_max
    }

    /// The next messages of a walk.
    pub(crate) fn step(&self, walk: &mut Walk<'_>) -> Vec<Arc<Kept>> {
        let mut found = Vec::new();
        walk.step(&self.shelf.topics.lock().root, COMPARISONS_AT_ONCE, &mut found);
        found
    }

    /// Settles messages whose place others have taken.
    pub(crate) fn tend(&self) {
        let replaced = std::mem::take(&mut self.shelf.topics.lock().replaced);
        let run = |seq: MessageSeq| SettleRun { consumer: Some(self.consumer), first: seq, count: 1 };
        self.queue.settle(SettleHow::Ack, &replaced.into_iter().map(run).collect::<Vec<_>>());
    }
}

/// Retained messages of all vhosts.
#[derive(Default)]
pub(crate) struct Retainers(Mutex<HashMap<Box<str>, Arc<Retainer>>>);

impl Retainers {
    /// Retained messages of a vhost; with `makes` also if there are none yet.
    ///
    /// # Errors
    /// The reason why the queue is refused.
    pub(crate) fn of(
        &self,
        broker: &Broker,
        principal: &Principal,
        makes: bool,
    ) -> Result<Option<Arc<Retainer>>, Refused> {
        let vhost = &principal.vhost;
        let mut all = self.0.lock();
        let known = all.get(vhost.name()).filter(|it| !it.shelf.is_gone.load(Ordering::Acquire));
        if let Some(known) = known {
            return Ok(Some(known.clone()));
        }
        all.remove(vhost.name());
        if !makes && vhost.queue(QUEUE.as_bytes()).is_none() {
            return Ok(None);
        }
        let started = Arc::new(Retainer::start(broker, principal)?);
        all.insert(vhost.name().into(), started.clone());
        Ok(Some(started))
    }
}

#[cfg(test)]
mod tests {
    use message::MessageView;

    use super::*;

    fn stored(topic: &str) -> Vec<u8> {
        let mut out = Vec::new();
        Mqtt { topic: Some(topic), retain: true, ..Mqtt::default() }.encode(&mut out);
        out
    }

    fn add(topics: &mut Topics, seq: u64, topic: &str, body: &[u8]) {
        let properties = stored(topic);
        let message = MessageView { exchange: b"", routing_key: b"", properties: &properties, body };
        topics.add(&Delivery { seq: MessageSeq(seq), redelivered: false, message, annotations: &[] });
    }

    #[test]
    fn a_newer_message_takes_the_place_of_the_one_before() {
        let mut topics = Topics::default();
        add(&mut topics, 1, "a", b"x");
        add(&mut topics, 2, "a/b", b"x");
        add(&mut topics, 7, "a/b", b"newer");
        assert_eq!(topics.replaced, [MessageSeq(2)]);
        assert_eq!(topics.count, 2);
    }

    #[test]
    fn an_empty_message_takes_the_kept_one_away() {
        let mut topics = Topics::default();
        add(&mut topics, 1, "a/b/c", b"x");
        add(&mut topics, 2, "a/b/c", b"");
        add(&mut topics, 3, "never/there", b"");
        assert_eq!(topics.replaced, [1, 2, 3].map(MessageSeq));
        assert_eq!((topics.count, topics.bytes), (0, 0));
        assert!(topics.root.is_empty());
    }
}
