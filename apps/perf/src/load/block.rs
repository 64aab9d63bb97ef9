//! Publishes of one shape (channel, exchange, routing key, properties, bodies), encoded once and sent again and again.
//!
//! A block is a run of messages; before it goes out only the send times are written (and routing keys, where they are
//! random). That is what keeps the generator's cost per message at a store of a few bytes and the kernel's copy.

use super::body::Bodies;
use super::pairs::TIMESTAMP_PLACE;
use super::random::Random;
use super::stamp::{Clock, Stamp, write_header};
use wire::amqp091::encode_publish;

/// Bytes sent in one go at most, unless a single message is larger.
const BLOCK_BYTES_MAX: usize = 64 * 1024;
/// Bytes of a random routing key: it looks like a UUID.
const RANDOM_KEY_BYTES: usize = 36;
/// Bytes before the routing key of a publish beside the exchange: frame head, method, ticket, two lengths.
const BEFORE_KEY_BYTES: usize = 7 + 4 + 2 + 1 + 1;

/// The part that is the same in every message of a block.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Shape {
    /// Channel number.
    pub(crate) channel: u16,
    /// Exchange.
    pub(crate) exchange: String,
    /// Routing key.
    pub(crate) routing_key: Key,
    /// Whether unroutable messages come back.
    pub(crate) mandatory: bool,
    /// Properties in wire form.
    pub(crate) properties: Vec<u8>,
    /// Bodies, in turn.
    pub(crate) bodies: Bodies,
    /// Negotiated `frame_max` in bytes.
    pub(crate) frame_size_max: usize,
}

/// The routing key of messages.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Key {
    /// This one.
    Fixed(String),
    /// A random one for each, of so many; 0 is no end of them.
    Random(u32),
}

/// Messages one after the other, in wire form.
#[derive(Debug)]
pub(crate) struct Block {
    clock: Clock,
    bytes: Vec<u8>,
    /// Where messages begin; the first `round` are the different ones, and those after them repeat the first.
    messages: Vec<Place>,
    round: usize,
    /// Which message is next; always the first where all are the same.
    cursor: usize,
    count_max: usize,
    keys: Option<Keys>,
}

/// Where a message lies, and its stamp.
#[derive(Clone, Copy, Debug)]
struct Place {
    begin: usize,
    end: usize,
    stamp_at: usize,
    stamp: Where,
}

#[derive(Clone, Copy, Debug)]
enum Where {
    Body(Stamp),
    Header,
}

#[derive(Debug)]
struct Keys {
    at: usize,
    random: Random,
    /// Different keys, or 0 for no end of them.
    count: u32,
}

impl Block {
    /// Encodes one message per body; where there is only one, more are added when they are asked for, so that slow
    /// publishers stay small.
    pub(crate) fn new(shape: &Shape, clock: Clock) -> Self {
        let (mut bytes, mut messages) = (Vec::new(), Vec::new());
        for body in shape.bodies.list() {
            let begin = bytes.len();
            encode(shape, &body, &mut bytes);
            let (stamp_at, stamp) = stamp_of(shape, &body, &bytes[begin..]);
            messages.push(Place { begin, end: bytes.len(), stamp_at: begin + stamp_at, stamp });
        }
        let longest = messages.iter().map(|place| place.end - place.begin).max().unwrap_or(1);
        let keys = match shape.routing_key {
            Key::Fixed(_) => None,
            Key::Random(count) => {
                let seed = u64::from(shape.channel) ^ u64::from(std::process::id()) << 16;
                Some(Keys { at: BEFORE_KEY_BYTES + shape.exchange.len(), random: Random::new(seed), count })
            }
        };
        let round = messages.len();
        Self { clock, bytes, messages, round, cursor: 0, count_max: (BLOCK_BYTES_MAX / longest).max(1), keys }
    }

    /// How many messages go out in one go at most, now.
    pub(crate) const fn count_max(&self) -> usize {
        let left = self.messages.len() - self.cursor;
        if self.round == 1 || left > self.count_max { self.count_max } else { left }
    }

    /// The bytes of the next `count` messages (at most [`Block::count_max`]); the n-th was sent, or due, at `sent_ns(n)`,
    /// and is the publisher's `first + n`-th.
    #[inline]
    pub(crate) fn stamped(&mut self, count: usize, first: u64, sent_ns: impl Fn(u64) -> u64) -> &[u8] {
        assert!(count <= self.count_max(), "a block was asked for more than it holds");
        while self.round == 1 && self.messages.len() < count {
            self.repeat();
        }
        let places = &self.messages[self.cursor..self.cursor + count];
        for (n, place) in (0..).zip(places) {
            let at = &mut self.bytes[place.stamp_at..];
            match place.stamp {
                Where::Body(Stamp::None) => {}
                Where::Body(stamp) => stamp.write(at, self.clock, sent_ns(n), first + n),
                Where::Header => write_header(at, self.clock, sent_ns(n)),
            }
        }
        if let Some(keys) = &mut self.keys {
            places.iter().for_each(|place| keys.write(&mut self.bytes[place.begin..]));
        }
        let range = places.first().map_or(0, |place| place.begin)..places.last().map_or(0, |place| place.end);
        if self.round > 1 {
            self.cursor = (self.cursor + count) % self.round;
        }
        &self.bytes[range]
    }

    /// Adds the first message once more.
    fn repeat(&mut self) {
        let (first, begin) = (self.messages[0], self.bytes.len());
        self.bytes.extend_from_within(..first.end);
        let (end, stamp_at) = (self.bytes.len(), begin + first.stamp_at);
        self.messages.push(Place { begin, end, stamp_at, stamp: first.stamp });
    }

    /// The body of the last message that went out, for telling.
    pub(crate) fn last_message(&self) -> &[u8] {
        let last = (self.cursor + self.round - 1) % self.round;
        &self.bytes[self.messages[last].begin..self.messages[last].end]
    }
}

impl Keys {
    /// Writes a key into a message.
    #[inline]
    fn write(&mut self, message: &mut [u8]) {
        const HEX: &[u8; 16] = b"0123456789abcdef";
        let key = &mut message[self.at..self.at + RANDOM_KEY_BYTES];
        let seed = if self.count == 0 { self.random.next() } else { self.random.below(self.count.into()) };
        let mut digits = Random::new(seed);
        let mut bits = 0_u64;
        for (n, place) in key.iter_mut().enumerate() {
            if n % 16 == 0 {
                bits = digits.next();
            }
            *place = if matches!(n, 8 | 13 | 18 | 23) { b'-' } else { HEX[(bits & 15) as usize] };
            bits >>= 4;
        }
    }
}

fn encode(shape: &Shape, body: &[u8], out: &mut Vec<u8>) {
    let placeholder = [b'-'; RANDOM_KEY_BYTES];
    let key = match &shape.routing_key {
        Key::Fixed(key) => key.as_bytes(),
        Key::Random(_) => &placeholder,
    };
    let (channel, exchange) = (shape.channel, shape.exchange.as_bytes());
    encode_publish(
        out,
        channel,
        exchange,
        key,
        shape.mandatory,
        &shape.properties,
        body,
        shape.frame_size_max,
    );
}

/// Where the stamp of an encoded message is, from its beginning.
fn stamp_of(shape: &Shape, body: &[u8], encoded: &[u8]) -> (usize, Where) {
    if shape.bodies.may_be_stamped() {
        let mut without = Vec::new();
        encode(shape, &[], &mut without);
        // Method and header have the same length without a body; the first body frame's head is seven bytes.
        let at = if body.is_empty() { 0 } else { without.len() + 7 };
        return (at, Where::Body(Stamp::for_body(body.len() as u64)));
    }
    let place = TIMESTAMP_PLACE.to_be_bytes();
    match encoded.windows(place.len()).position(|window| window == place) {
        Some(at) => (at, Where::Header),
        None => (0, Where::Body(Stamp::None)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::sync::Arc;
    use wire::amqp091::{ContentHeader, FRAME_BODY, FRAME_HEADER, Method, Parsed, parse_frame};

    fn shape(bodies: Bodies) -> Shape {
        let (exchange, routing_key) = ("e".to_owned(), Key::Fixed("key".to_owned()));
        let properties = vec![0x10, 0, 2];
        Shape {
            channel: 3,
            exchange,
            routing_key,
            mandatory: false,
            properties,
            bodies,
            frame_size_max: 4096,
        }
    }

    /// Routing keys, properties and bodies of these messages.
    fn messages(mut bytes: &[u8]) -> Vec<(Vec<u8>, Vec<u8>, Vec<u8>)> {
        let mut found: Vec<(Vec<u8>, Vec<u8>, Vec<u8>)> = Vec::new();
        while !bytes.is_empty() {
            let Ok(Parsed::Complete { frame, consumed }) = parse_frame(bytes, 1 << 20) else {
                panic!("{bytes:?}")
            };
            assert_eq!(frame.channel, 3);
            match frame.kind {
                FRAME_HEADER => {
                    let header = ContentHeader::decode(frame.payload).unwrap();
                    found.last_mut().unwrap().1 = header.properties.to_vec();
                }
                FRAME_BODY => found.last_mut().unwrap().2.extend_from_slice(frame.payload),
                _ => match Method::decode(frame.payload).unwrap() {
                    Method::BasicPublish(publish) => {
                        found.push((publish.routing_key.to_vec(), Vec::new(), Vec::new()));
                    }
                    method => panic!("{method:?}"),
                },
            }
            bytes = &bytes[consumed..];
        }
        found
    }

    #[test]
    fn a_block_is_as_many_stamped_publishes_as_were_asked_for() {
        let mut block = Block::new(&shape(Bodies::Filler(8)), Clock::Monotonic);
        let found = messages(block.stamped(3, 0, |n| 1000 + n));
        assert_eq!(found.len(), 3);
        for (n, (key, properties, body)) in (1000_u64..).zip(found) {
            assert_eq!((key.as_slice(), properties.as_slice()), (&b"key"[..], &[0x10, 0, 2][..]));
            assert_eq!(body, n.to_be_bytes());
        }
    }

    #[test]
    fn a_message_larger_than_a_block_goes_alone() {
        let mut block = Block::new(&shape(Bodies::Filler(1_000_000)), Clock::Monotonic);
        assert_eq!(block.count_max(), 1);
        assert!(block.stamped(1, 0, |_| 0).len() > 1_000_000);
        let mut empty = Block::new(&shape(Bodies::Filler(0)), Clock::Monotonic);
        assert_eq!(empty.stamped(2, 0, |_| 7).to_vec(), empty.stamped(2, 5, |_| 8));
    }

    #[test]
    fn given_bodies_go_out_in_turn_with_the_time_in_a_header() {
        let bodies = Bodies::Given(Arc::new(vec![b"one".to_vec(), b"three".to_vec(), vec![]]));
        let mut shape = shape(bodies);
        let options = crate::load::options::Options::parse_args([]).unwrap();
        let stamped = crate::load::pairs::Stamped::InHeader;
        shape.properties = crate::load::pairs::properties(&options.publishing, stamped).unwrap();
        let mut block = Block::new(&shape, Clock::Monotonic);
        assert_eq!(block.count_max(), 3);
        let mut found = messages(block.stamped(2, 0, |n| 5_000_000 + n));
        assert_eq!(block.count_max(), 1);
        found.extend(messages(block.stamped(1, 2, |_| 5_000_002)));
        found.extend(messages(block.stamped(1, 3, |_| 5_000_003)));
        let bodies: Vec<&[u8]> = found.iter().map(|(_, _, body)| body.as_slice()).collect();
        assert_eq!(bodies, [&b"one"[..], b"three", b"", b"one"]);
        for (n, (_, properties, _)) in (0..).zip(&found) {
            let latency = crate::load::stamp::header_latency_ns(properties, Clock::Monotonic, 6_000_000);
            assert_eq!(latency, Some(1_000_000 - n));
        }
    }

    #[test]
    fn random_keys_differ_unless_there_are_only_a_few() {
        let keys = |count| {
            let shape = Shape { routing_key: Key::Random(count), ..shape(Bodies::Filler(12)) };
            let mut block = Block::new(&shape, Clock::Monotonic);
            messages(block.stamped(50, 0, |_| 0)).into_iter().map(|(key, ..)| key).collect::<HashSet<_>>()
        };
        let endless = keys(0);
        assert_eq!(endless.len(), 50);
        assert!(endless.iter().all(|key| key.len() == 36 && key[8] == b'-'));
        assert!(keys(4).len() <= 4);
    }
}
