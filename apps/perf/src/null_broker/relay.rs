//! Consumers and the bytes that wait to be written to each connection.
//!
//! Refuses to know sockets and, beyond deliveries, the protocol. No queue: a message goes out at once or, without
//! consumers, nowhere. Bounded because the server reads no publisher while a connection is behind.

use super::options::Deliver;
use std::cell::Cell;
use std::rc::Rc;
use wire::amqp091::encode_deliver;

/// Bytes waiting for one connection after which it is written to before anything else is read.
const OUTBOX_BYTES_MAX: usize = 512 * 1024;

/// A message on its way, borrowed from where it arrived.
#[derive(Clone, Copy, Debug)]
pub(super) struct Message<'a> {
    pub(super) exchange: &'a [u8],
    pub(super) routing_key: &'a [u8],
    /// Property flags and list as received.
    pub(super) properties: &'a [u8],
    pub(super) body: &'a [u8],
}

#[derive(Debug)]
struct Consumer {
    connection: usize,
    channel: u16,
    tag: Vec<u8>,
    /// Number of the last delivery on its channel, shared with the channel's other consumers.
    delivered: Rc<Cell<u64>>,
    frame_size_max: usize,
}

/// All consumers and outboxes.
#[derive(Debug)]
pub(super) struct Relay {
    deliver: Deliver,
    consumers: Vec<Consumer>,
    next: usize,
    outboxes: Vec<Vec<u8>>,
    /// Connections whose outbox may have bytes.
    written: Vec<usize>,
    overfull: bool,
}

impl Relay {
    pub(super) fn new(deliver: Deliver) -> Self {
        let (consumers, outboxes) = (Vec::new(), Vec::new());
        Self { deliver, consumers, next: 0, outboxes, written: Vec::new(), overfull: false }
    }

    /// Makes room for a connection of this number.
    pub(super) fn join(&mut self, connection: usize) {
        if self.outboxes.len() <= connection {
            self.outboxes.resize_with(connection + 1, Vec::new);
        }
        self.outboxes[connection].clear();
    }

    /// Forgets a connection and its consumers.
    pub(super) fn leave(&mut self, connection: usize) {
        self.consumers.retain(|consumer| consumer.connection != connection);
        self.outboxes[connection] = Vec::new();
    }

    /// Starts a consumer.
    pub(super) fn consume(&mut self, connection: usize, channel: u16, tag: &[u8], frame_size_max: usize) {
        let same = |consumer: &&Consumer| (consumer.connection, consumer.channel) == (connection, channel);
        let delivered = self.consumers.iter().find(same).map(|consumer| Rc::clone(&consumer.delivered));
        let (tag, delivered) = (tag.to_vec(), delivered.unwrap_or_default());
        self.consumers.push(Consumer { connection, channel, tag, delivered, frame_size_max });
    }

    /// Ends one consumer of a channel, or with `None` all of them.
    pub(super) fn cancel(&mut self, connection: usize, channel: u16, tag: Option<&[u8]>) {
        self.consumers.retain(|consumer| {
            (consumer.connection, consumer.channel) != (connection, channel)
                || tag.is_some_and(|tag| tag != consumer.tag)
        });
    }

    /// Frames a message for its consumer.
    #[inline]
    pub(super) fn publish(&mut self, message: &Message<'_>) {
        match self.deliver {
            Deliver::RoundRobin => {
                if self.next >= self.consumers.len() {
                    self.next = 0;
                }
                if let Some(consumer) = self.consumers.get(self.next) {
                    self.overfull |= deliver(consumer, message, &mut self.outboxes, &mut self.written);
                }
                self.next += 1;
            }
            Deliver::All => {
                for consumer in &self.consumers {
                    self.overfull |= deliver(consumer, message, &mut self.outboxes, &mut self.written);
                }
            }
        }
    }

    /// The outbox of a connection, to append to.
    pub(super) fn outbox(&mut self, connection: usize) -> &mut Vec<u8> {
        if self.outboxes[connection].is_empty() {
            self.written.push(connection);
        }
        &mut self.outboxes[connection]
    }

    /// Whether an outbox must be written before anything else is read.
    pub(super) const fn is_overfull(&self) -> bool {
        self.overfull
    }

    /// Hands out every outbox that has bytes, and empties it. Their room is kept for the next time.
    pub(super) fn drain(&mut self, mut each: impl FnMut(usize, &[u8])) {
        self.overfull = false;
        for connection in self.written.drain(..) {
            let outbox = &mut self.outboxes[connection];
            each(connection, outbox);
            outbox.clear();
        }
    }
}

/// Appends the delivery; says whether the outbox has had enough.
#[inline]
fn deliver(
    consumer: &Consumer,
    message: &Message<'_>,
    outboxes: &mut [Vec<u8>],
    written: &mut Vec<usize>,
) -> bool {
    let outbox = &mut outboxes[consumer.connection];
    if outbox.is_empty() {
        written.push(consumer.connection);
    }
    let delivery_tag = consumer.delivered.get() + 1;
    consumer.delivered.set(delivery_tag);
    let &Message { exchange, routing_key, properties, body } = message;
    let (channel, frame_size_max) = (consumer.channel, consumer.frame_size_max);
    encode_deliver(
        outbox,
        channel,
        &consumer.tag,
        delivery_tag,
        false,
        exchange,
        routing_key,
        properties,
        body,
        frame_size_max,
    );
    outbox.len() >= OUTBOX_BYTES_MAX
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::amqp091::{FRAME_METHOD, Method, Parsed, parse_frame};

    fn deliveries(relay: &mut Relay) -> Vec<(usize, u16, Vec<u8>, u64)> {
        let mut seen = Vec::new();
        relay.drain(|connection, mut bytes| {
            while let Ok(Parsed::Complete { frame, consumed }) = parse_frame(bytes, 4096) {
                if frame.kind == FRAME_METHOD
                    && let Ok(Method::BasicDeliver(deliver)) = Method::decode(frame.payload)
                {
                    seen.push((
                        connection,
                        frame.channel,
                        deliver.consumer_tag.to_vec(),
                        deliver.delivery_tag,
                    ));
                }
                bytes = &bytes[consumed..];
            }
        });
        seen
    }

    const MESSAGE: Message<'_> =
        Message { exchange: b"e", routing_key: b"k", properties: &[0, 0], body: b"x" };

    fn relay(deliver: Deliver) -> Relay {
        let mut relay = Relay::new(deliver);
        relay.join(4);
        relay.join(1);
        relay.consume(4, 1, b"a", 4096);
        relay.consume(4, 1, b"b", 4096);
        relay.consume(1, 2, b"c", 4096);
        relay
    }

    #[test]
    fn round_robin_gives_each_message_to_one_and_counts_per_channel() {
        let mut relay = relay(Deliver::RoundRobin);
        (0..4).for_each(|_| relay.publish(&MESSAGE));
        let expected = [(4, 1, b"a", 1), (4, 1, b"b", 2), (4, 1, b"a", 3), (1, 2, b"c", 1)];
        assert_eq!(deliveries(&mut relay), expected.map(|(c, h, t, d)| (c, h, t.to_vec(), d)));
        assert!(deliveries(&mut relay).is_empty());
    }

    #[test]
    fn all_gives_each_message_to_everybody_who_is_still_there() {
        let mut relay = relay(Deliver::All);
        relay.cancel(4, 1, Some(b"a"));
        relay.publish(&MESSAGE);
        assert_eq!(deliveries(&mut relay).len(), 2);
        relay.cancel(4, 1, None);
        relay.leave(1);
        relay.publish(&MESSAGE);
        assert!(deliveries(&mut relay).is_empty());
    }
}
