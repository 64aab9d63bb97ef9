//! Memory of exchanges of type `x-recent-history`: their latest messages, for queues that are bound later.
//!
//! The form that is kept over restarts is bytes here and a file elsewhere. Refuses to know how messages are routed.
//!
//! ```text
//!  encoded, per message, oldest first   exchange | routing key | properties | body | annotations     each: length u32, bytes
//! ```

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;

use message::{Facts, MessageView, Value};

use super::batch::Batch;
use crate::seen_files::Remembered;

/// Bytes that one exchange keeps at most, the newest message aside: beyond, the oldest are forgotten.
const BYTES_MAX: usize = 16 * 1024 * 1024;

/// A message as it was routed.
struct Kept {
    exchange: Box<[u8]>,
    routing_key: Box<[u8]>,
    properties: Box<[u8]>,
    body: Box<[u8]>,
    annotations: Box<[u8]>,
    facts: Facts,
}

impl Kept {
    const fn bytes(&self) -> usize {
        size_of::<Self>()
            + self.exchange.len()
            + self.routing_key.len()
            + self.properties.len()
            + self.body.len()
            + self.annotations.len()
    }

    fn view(&self) -> MessageView<'_> {
        MessageView {
            exchange: &self.exchange,
            routing_key: &self.routing_key,
            properties: &self.properties,
            body: &self.body,
        }
    }
}

/// A kept message on its way to somebody who has come later.
pub(crate) struct Replayed<'a> {
    pub(crate) message: MessageView<'a>,
    pub(crate) facts: Facts,
    pub(crate) annotations: &'a [u8],
    /// Its place in the batch.
    pub(crate) index: u32,
}

/// The memory of one exchange.
pub(crate) struct RecentMessages {
    message_count_max: usize,
    kept: Mutex<Memory>,
}

#[derive(Default)]
struct Memory {
    messages: VecDeque<Arc<Kept>>,
    bytes: usize,
    changes: u64,
}

impl Memory {
    fn add(&mut self, kept: Kept, message_count_max: usize) {
        self.changes += 1;
        self.bytes += kept.bytes();
        self.messages.push_back(Arc::new(kept));
        while self.messages.len() > message_count_max || (self.bytes > BYTES_MAX && self.messages.len() > 1) {
            if let Some(oldest) = self.messages.pop_front() {
                self.bytes -= oldest.bytes();
            }
        }
    }
}

impl RecentMessages {
    pub(crate) fn new(message_count_max: u32) -> Self {
        Self { message_count_max: message_count_max as usize, kept: Mutex::default() }
    }

    /// Keeps a copy of a message, unless it asks not to be kept.
    pub(crate) fn keep(&self, message: MessageView<'_>, facts: Facts, annotations: &[u8]) {
        let plain = message.plain();
        let headers = plain.properties().headers();
        if headers.and_then(|it| it.get("x-recent-history-no-store")) == Some(Value::Bool(true)) {
            return;
        }
        let kept = Kept {
            exchange: message.exchange.into(),
            routing_key: message.routing_key.into(),
            properties: message.properties.into(),
            body: message.body.into(),
            annotations: annotations.into(),
            facts,
        };
        self.kept.lock().add(kept, self.message_count_max);
    }

    /// Copies what is kept into a batch, oldest first, and calls `each` with it.
    pub(crate) fn replay(&self, batch: &mut Batch, mut each: impl FnMut(Replayed<'_>)) {
        for kept in self.copy().1 {
            let (message, facts, annotations) = (kept.view(), kept.facts, &*kept.annotations);
            let index = batch.push(message, facts, annotations);
            each(Replayed { message, facts, annotations, index });
        }
    }

    /// The kept messages, oldest first, with the number of changes.
    fn copy(&self) -> (u64, Vec<Arc<Kept>>) {
        let memory = self.kept.lock();
        (memory.changes, memory.messages.iter().cloned().collect())
    }
}

impl Remembered for RecentMessages {
    fn fingerprint(&self) -> u64 {
        u64::from_be_bytes(*b"recent01")
    }

    fn changes(&self) -> u64 {
        self.kept.lock().changes
    }

    fn encode(&self) -> (u64, Vec<u8>) {
        let (changes, messages) = self.copy();
        let mut bytes = Vec::new();
        for Kept { exchange, routing_key, properties, body, annotations, .. } in
            messages.iter().map(|it| &**it)
        {
            for part in [exchange, routing_key, properties, body, annotations] {
                let len = u32::try_from(part.len()).expect("a message is shorter than 4 GiB");
                bytes.extend_from_slice(&len.to_be_bytes());
                bytes.extend_from_slice(part);
            }
        }
        (changes, bytes)
    }

    fn restore(&self, mut bytes: &[u8]) {
        let mut memory = self.kept.lock();
        while let Some(kept) = read_kept(&mut bytes) {
            memory.add(kept, self.message_count_max);
        }
    }
}

/// Takes an encoded message off the front; `None` when there is none, or half of one.
fn read_kept(bytes: &mut &[u8]) -> Option<Kept> {
    let mut part = || {
        let (len, behind) = bytes.split_first_chunk()?;
        let (part, behind) = behind.split_at_checked(u32::from_be_bytes(*len) as usize)?;
        *bytes = behind;
        Some(Box::from(part))
    };
    let (exchange, routing_key, properties): (_, _, Box<[u8]>) = (part()?, part()?, part()?);
    let (body, annotations) = (part()?, part()?);
    // They were read without error when the message was published.
    let mut kept = Kept { exchange, routing_key, properties, body, annotations, facts: Facts::default() };
    kept.facts = Facts::of(&kept.view()).unwrap_or_default();
    Some(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keep(recent: &RecentMessages, body: &[u8]) {
        let message = MessageView { exchange: b"x", routing_key: b"k", properties: &[0, 0], body };
        recent.keep(message, Facts::default(), &[]);
    }

    fn bodies(recent: &RecentMessages) -> Vec<Vec<u8>> {
        let mut bodies = Vec::new();
        recent.replay(&mut Batch::default(), |replayed| bodies.push(replayed.message.body.to_vec()));
        bodies
    }

    #[test]
    fn the_latest_are_kept_oldest_first() {
        let recent = RecentMessages::new(2);
        for body in [b"1", b"2", b"3"] {
            keep(&recent, body);
        }
        assert_eq!(bodies(&recent), [b"2", b"3"]);
    }

    #[test]
    fn large_messages_push_out_others_before_their_number_does() {
        let recent = RecentMessages::new(20);
        let large = vec![0; BYTES_MAX * 2 / 3];
        keep(&recent, b"small");
        keep(&recent, &large);
        keep(&recent, &large);
        assert_eq!(bodies(&recent).len(), 1);
        keep(&recent, &vec![0; BYTES_MAX * 2]);
        assert_eq!(bodies(&recent).len(), 1, "the newest stays whatever its size");
    }

    #[test]
    fn what_is_encoded_is_restored() {
        let recent = RecentMessages::new(3);
        for body in [&b"1"[..], b"", b"3", b"4"] {
            keep(&recent, body);
        }
        let (changes, bytes) = recent.encode();
        assert_eq!(changes, 4);
        let again = RecentMessages::new(2);
        again.restore(&bytes);
        assert_eq!(bodies(&again), [b"3", b"4"]);
        again.restore(&bytes[..bytes.len() - 1]);
        assert_eq!(bodies(&again), [&b""[..], b"3"], "half a message is none");
    }
}
