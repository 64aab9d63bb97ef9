//! How much is written of dead letters, before it is known where they go.

use crate::message::MessageView;
use crate::record::Stored;
use crate::store::block::Block;

/// What a letter has in the log beside its message, bytes, about: where and why it died.
const LETTER_BYTES: u64 = 512;

/// The same of one that differs from the letter before it in its body only.
const ALIKE_LETTER_BYTES: u64 = 16;

/// What a queue writes of a dead letter, bytes, about: to be compared with what was written of earlier ones.
#[must_use]
pub fn letter_bytes(message: MessageView<'_>, annotations: &[u8], is_alike: bool) -> u64 {
    let MessageView { exchange, routing_key, properties, body } = message;
    let head_bytes = exchange.len() + routing_key.len() + properties.len() + annotations.len();
    let others = if is_alike { ALIKE_LETTER_BYTES } else { head_bytes as u64 + LETTER_BYTES };
    body.len() as u64 + others
}

/// Whether a message differs in its body only from the one before it in its block, as its letter then does, too.
///
/// That block knows this of messages that came together ([`Block::is_alike`]), which tells nothing of those that came one by one.
pub(crate) fn is_alike(block: &Block, number: u64, stored: &Stored<'_>) -> bool {
    let before = if number > block.first { block.stored(number - 1) } else { None };
    before.is_some_and(|before| {
        let message = MessageView { body: stored.message.body, ..before.message };
        before.persistent && before.annotations == stored.annotations && message == stored.message
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::IncomingMessage;
    use crate::record;

    fn store(out: &mut Vec<u8>, routing_key: &[u8], persistent: bool) {
        let message = MessageView { exchange: b"", routing_key, properties: &[0, 0], body: b"body" };
        let (priority, ttl_ms, annotations, shared, is_alike) = (0, None, &[][..], None, false);
        let incoming =
            IncomingMessage { message, persistent, priority, ttl_ms, annotations, shared, is_alike };
        record::store(out, &incoming, None);
    }

    #[test]
    fn of_messages_that_are_alike_only_the_first_counts_with_its_head() {
        let mut block = Block::new(7);
        for (key, persistent) in [(b"a", true), (b"a", true), (b"b", true), (b"b", false), (b"b", true)] {
            block.push(persistent, false, 4, None, |out| store(out, key, persistent));
        }
        let alike = |number| is_alike(&block, number, &block.stored(number).expect("it is there"));
        assert_eq!([7, 8, 9, 11].map(alike), [false, true, false, false]);
        assert!(!block.is_alike(8), "they came one by one");
        let view = MessageView { exchange: b"ex", routing_key: b"key", properties: b"props", body: b"body" };
        assert_eq!([false, true].map(|alike| letter_bytes(view, b"died", alike)), [512 + 18, 16 + 4]);
    }
}
