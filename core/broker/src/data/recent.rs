//! What exchanges of type `x-recent-history` remember: their latest messages, for queues that are bound later.
//!
//! In memory only: a restart forgets. Refuses to know how messages are routed.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use queues::MessageView;
use wire::amqp091::{Value, headers_of};

use super::batch::{Batch, Facts};

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

/// The memory of one exchange.
pub(crate) struct RecentMessages {
    message_count_max: usize,
    kept: Mutex<Memory>,
}

#[derive(Default)]
struct Memory {
    messages: VecDeque<Arc<Kept>>,
    bytes: usize,
}

impl RecentMessages {
    pub(crate) fn new(message_count_max: u32) -> Self {
        Self { message_count_max: message_count_max as usize, kept: Mutex::default() }
    }

    /// Keeps a copy of a message, unless it asks not to be kept.
    pub(crate) fn keep(&self, message: MessageView<'_>, facts: Facts, annotations: &[u8]) {
        let no_store = headers_of(message.properties).and_then(|it| it.get("x-recent-history-no-store"));
        if no_store == Some(Value::Bool(true)) {
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
        let mut memory = self.kept.lock();
        memory.bytes += kept.bytes();
        memory.messages.push_back(Arc::new(kept));
        while memory.messages.len() > self.message_count_max
            || (memory.bytes > BYTES_MAX && memory.messages.len() > 1)
        {
            if let Some(oldest) = memory.messages.pop_front() {
                memory.bytes -= oldest.bytes();
            }
        }
    }

    /// Copies what is kept into a batch, oldest first, and calls `each` with the message and its index.
    pub(crate) fn replay(&self, batch: &mut Batch, mut each: impl FnMut(MessageView<'_>, u32)) {
        let messages: Vec<Arc<Kept>> = self.kept.lock().messages.iter().cloned().collect();
        for message in messages {
            let index = batch.push(message.view(), message.facts, &message.annotations);
            each(message.view(), index);
        }
    }
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
        recent.replay(&mut Batch::default(), |message, _| bodies.push(message.body.to_vec()));
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
}
