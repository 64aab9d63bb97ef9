//! Publishes of one shape (channel, exchange, routing key, properties, size), encoded once and sent again and again.
//!
//! A block is a run of equal messages; before it goes out only the send times in the bodies are written. That is what
//! keeps the generator's cost per message at a store of eight bytes and the kernel's copy.

use super::stamp::Stamp;
use wire::amqp091::encode_publish;

/// Bytes sent in one go at most, unless a single message is larger.
const BLOCK_BYTES_MAX: usize = 64 * 1024;

/// What is the same in every message of a block.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Shape {
    /// Channel number.
    pub(crate) channel: u16,
    /// Exchange.
    pub(crate) exchange: String,
    /// Routing key.
    pub(crate) routing_key: String,
    /// Whether unroutable messages come back.
    pub(crate) mandatory: bool,
    /// Whether delivery mode is 2.
    pub(crate) persistent: bool,
    /// Bytes of the body.
    pub(crate) body_bytes: usize,
    /// Negotiated `frame_max` in bytes.
    pub(crate) frame_size_max: usize,
}

/// Equal messages one after the other, in wire form.
#[derive(Debug)]
pub(crate) struct Block {
    bytes: Vec<u8>,
    message_bytes: usize,
    count_max: usize,
    stamp: Stamp,
    stamp_at: usize,
}

impl Block {
    /// Encodes one message; more are added when they are asked for, so that slow publishers stay small.
    pub(crate) fn new(shape: &Shape) -> Self {
        let properties: &[u8] = if shape.persistent { &[0x10, 0, 2] } else { &[0, 0] };
        let (exchange, key) = (shape.exchange.as_bytes(), shape.routing_key.as_bytes());
        let encode = |body: &[u8]| {
            let mut out = Vec::new();
            let (channel, mandatory) = (shape.channel, shape.mandatory);
            encode_publish(
                &mut out,
                channel,
                exchange,
                key,
                mandatory,
                properties,
                body,
                shape.frame_size_max,
            );
            out
        };
        let body: Vec<u8> = (0..=u8::MAX).cycle().take(shape.body_bytes).collect();
        let bytes = encode(&body);
        let message_bytes = bytes.len();
        // Method and header have the same length without a body; the first body frame's head is seven bytes.
        let stamp_at = encode(&[]).len() + 7;
        let count_max = (BLOCK_BYTES_MAX / message_bytes).max(1);
        Self { bytes, message_bytes, count_max, stamp: Stamp::for_body(body.len() as u64), stamp_at }
    }

    /// How many messages go out in one go at most.
    pub(crate) const fn count_max(&self) -> usize {
        self.count_max
    }

    /// The bytes of `count` messages (at most [`Block::count_max`]); the n-th was sent, or due, at `sent_ns(n)`.
    #[inline]
    pub(crate) fn stamped(&mut self, count: usize, sent_ns: impl Fn(u64) -> u64) -> &[u8] {
        assert!(count <= self.count_max, "a block was asked for more than it holds");
        while self.bytes.len() < count * self.message_bytes {
            self.bytes.extend_from_within(..self.message_bytes);
        }
        let bytes = &mut self.bytes[..count * self.message_bytes];
        if self.stamp != Stamp::None {
            for (n, message) in (0..).zip(bytes.chunks_exact_mut(self.message_bytes)) {
                self.stamp.write(&mut message[self.stamp_at..], sent_ns(n));
            }
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::amqp091::{ContentHeader, FRAME_BODY, FRAME_HEADER, Method, Parsed, parse_frame};

    fn shape(body_bytes: usize) -> Shape {
        let (exchange, routing_key) = ("e".to_owned(), "key".to_owned());
        Shape {
            channel: 3,
            exchange,
            routing_key,
            mandatory: false,
            persistent: true,
            body_bytes,
            frame_size_max: 4096,
        }
    }

    #[test]
    fn a_block_is_as_many_stamped_publishes_as_were_asked_for() {
        let mut block = Block::new(&shape(12));
        let mut bytes = block.stamped(3, |n| 1000 + n);
        for n in 0..3 {
            let mut kinds = Vec::new();
            while kinds.len() < 3 {
                let Ok(Parsed::Complete { frame, consumed }) = parse_frame(bytes, 4096) else {
                    panic!("{bytes:?}")
                };
                assert_eq!(frame.channel, 3);
                match frame.kind {
                    FRAME_HEADER => {
                        let header = ContentHeader::decode(frame.payload).unwrap();
                        assert_eq!((header.body_size, header.properties), (12, &[0x10, 0, 2][..]));
                    }
                    FRAME_BODY => assert_eq!(frame.payload[..8], (1000 + n as u64).to_be_bytes()),
                    _ => assert_eq!(Method::decode(frame.payload).unwrap().name(), "basic.publish"),
                }
                kinds.push(frame.kind);
                bytes = &bytes[consumed..];
            }
        }
        assert!(bytes.is_empty());
    }

    #[test]
    fn a_message_larger_than_a_block_goes_alone() {
        let mut block = Block::new(&shape(1_000_000));
        assert_eq!(block.count_max(), 1);
        assert!(block.stamped(1, |_| 0).len() > 1_000_000);
        assert_eq!(Block::new(&shape(0)).stamped(2, |_| 7), Block::new(&shape(0)).stamped(2, |_| 8));
    }
}
