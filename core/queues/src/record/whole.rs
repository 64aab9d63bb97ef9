//! Enqueue records without references: as a node gets them that has none of the bodies.

use super::{RecordKind, Stored, enqueued, parse, store, write_enqueued};
use crate::body::HeldBody;
use crate::traffic::{IncomingMessage, MessageSeq};

/// A record with each body in it that it names. Others than [`RecordKind::EnqueueShared`] are as they were. `None` when the record is damaged, or names
/// a body that is not among these.
#[must_use]
pub fn whole_record(kind: RecordKind, payload: &[u8], bodies: &[HeldBody]) -> Option<(RecordKind, Vec<u8>)> {
    if kind != RecordKind::EnqueueShared {
        return Some((kind, payload.to_vec()));
    }
    let body_bytes: usize = bodies.iter().map(|held| held.bytes.len()).sum();
    let mut out = Vec::with_capacity(payload.len() + body_bytes);
    for entry in enqueued(payload) {
        let (seq, bytes) = entry?;
        let (stored, _) = parse(bytes)?;
        let Some(shared) = stored.shared else {
            write_enqueued(&mut out, seq, bytes);
            continue;
        };
        let held = bodies.iter().find(|held| held.body.id() == shared.id)?;
        let message = message::MessageView { body: &held.bytes, ..stored.message };
        write_whole(&mut out, seq, &Stored { message, ..stored });
    }
    Some((RecordKind::Enqueue, out))
}

/// Appends an entry of a [`RecordKind::Enqueue`] record with the body of `message`, wherever it was.
pub(crate) fn write_whole(out: &mut Vec<u8>, seq: MessageSeq, stored: &Stored<'_>) {
    out.extend_from_slice(&seq.0.to_be_bytes());
    out.extend_from_slice(&whole(stored));
}

/// A message in stored form with the body of `message`, wherever it was.
pub(crate) fn whole(stored: &Stored<'_>) -> Vec<u8> {
    let Stored { message, annotations, persistent, expiry_ms, .. } = *stored;
    let whole = IncomingMessage {
        message,
        persistent,
        priority: 0,
        ttl_ms: None,
        annotations,
        shared: None,
        is_alike: false,
    };
    let mut out = Vec::new();
    store(&mut out, &whole, expiry_ms);
    out
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::body::SharedBody;
    use crate::record::stored;

    fn held(id: u64, body: &[u8]) -> HeldBody {
        HeldBody { body: SharedBody::named(id, body.len() as u32), bytes: Arc::new(body.to_vec().into()) }
    }

    /// A record of two messages with shared bodies, and one of its own between them.
    fn record(bodies: [&HeldBody; 2]) -> Vec<u8> {
        let mut out = Vec::new();
        for (nth, held) in bodies.into_iter().enumerate() {
            let message = message::MessageView {
                exchange: b"",
                routing_key: b"q",
                properties: &[0, 0],
                body: &held.bytes,
            };
            let incoming = IncomingMessage {
                message,
                persistent: true,
                priority: 0,
                ttl_ms: None,
                annotations: b"",
                shared: Some(held),
                is_alike: false,
            };
            let mut bytes = Vec::new();
            store(&mut bytes, &incoming, Some(7));
            write_enqueued(&mut out, MessageSeq::new(1, 2 * nth as u64), &bytes);
            if nth == 0 {
                write_enqueued(&mut out, MessageSeq::new(1, 1), &stored(b"own", true, None));
            }
        }
        out
    }

    #[test]
    fn bodies_take_the_places_of_their_names() {
        let (one, two) = (held(5, b"first"), held(9, b"a second one"));
        let payload = record([&one, &two]);
        let (kind, whole) = whole_record(RecordKind::EnqueueShared, &payload, &[two, one]).unwrap();
        assert_eq!(kind, RecordKind::Enqueue);
        let all: Vec<_> = enqueued(&whole).map(|entry| entry.unwrap()).collect();
        let expected = [
            (MessageSeq::new(1, 0), stored(b"first", true, Some(7))),
            (MessageSeq::new(1, 1), stored(b"own", true, None)),
            (MessageSeq::new(1, 2), stored(b"a second one", true, Some(7))),
        ];
        let expected: Vec<_> = expected.iter().map(|(seq, bytes)| (*seq, &bytes[..])).collect();
        assert_eq!(all, expected);
    }

    #[test]
    fn a_body_that_is_missing_and_damage_are_noticed() {
        let (one, two) = (held(5, b"first"), held(9, b"second"));
        let payload = record([&one, &two]);
        assert_eq!(whole_record(RecordKind::EnqueueShared, &payload, std::slice::from_ref(&two)), None);
        let cut = &payload[..payload.len() - 1];
        assert_eq!(whole_record(RecordKind::EnqueueShared, cut, &[one, two]), None);
        let other = whole_record(RecordKind::Settle, b"what", &[]);
        assert_eq!(other, Some((RecordKind::Settle, b"what".to_vec())));
    }
}
