//! Direct reply-to: reply addresses that lead straight to a consumer, without a queue (B153-B156).

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use message::MessageView;
use parking_lot::RwLock;
use queues::{Delivery, MessageSeq};

use crate::data::consume::ConsumerSink;

/// The pseudo-queue clients consume from.
pub const REPLY_QUEUE: &[u8] = b"amq.rabbitmq.reply-to";

/// Random bytes of an address.
pub(crate) const OPAQUE_BYTES: usize = 24;

const ADDRESS_PREFIX: &[u8] = b"amq.rabbitmq.reply-to.";

/// Whether a routing key is a generated reply address.
pub(crate) fn is_reply_address(key: &[u8]) -> bool {
    key.starts_with(ADDRESS_PREFIX)
}

/// The node that a reply address names; `None` for an address that no broker has generated.
pub(crate) fn node_of(address: &[u8]) -> Option<u16> {
    let opaque = address.strip_prefix(ADDRESS_PREFIX)?;
    let bytes = URL_SAFE_NO_PAD.decode(opaque).ok().filter(|bytes| bytes.len() == OPAQUE_BYTES)?;
    let [.., high, low] = bytes[..] else { return None };
    Some(u16::from_be_bytes([high, low]))
}

/// A requester of another node that is linked.
pub(crate) trait FarRequester: Send + Sync {
    /// Sends the reply, or drops it when the link is full.
    fn deliver(&self, message: MessageView<'_>);
}

/// A consumer of replies.
pub(crate) enum ReplyConsumer {
    /// It is gone.
    Nobody,
    /// It is a consumer of this node, with its token.
    Here(u32, Arc<dyn ConsumerSink>),
    /// Another node has it.
    Elsewhere(Box<dyn FarRequester>),
}

impl ReplyConsumer {
    /// The consumer of a session.
    pub(crate) fn new(token: u32, sink: Arc<dyn ConsumerSink>) -> Arc<ReplyConsumer> {
        Arc::new(ReplyConsumer::Here(token, sink))
    }

    /// The requester that is gone.
    pub(crate) fn nobody() -> Arc<ReplyConsumer> {
        static NOBODY: OnceLock<Arc<ReplyConsumer>> = OnceLock::new();
        NOBODY.get_or_init(|| Arc::new(ReplyConsumer::Nobody)).clone()
    }

    /// Hands a reply over; dropped when the consumer's outbox is full (at most once).
    pub(crate) fn deliver(&self, message: MessageView<'_>) {
        match self {
            ReplyConsumer::Nobody => {}
            ReplyConsumer::Here(token, sink) => {
                let reply = Delivery { seq: MessageSeq(0), redelivered: false, message, annotations: &[] };
                sink.deliver(*token, &[reply]);
            }
            ReplyConsumer::Elsewhere(requester) => requester.deliver(message),
        }
    }
}

/// Reply consumers of a vhost by address.
#[derive(Default)]
pub(crate) struct Replies(RwLock<HashMap<Box<[u8]>, Arc<ReplyConsumer>>>);

impl Replies {
    /// Gives a consumer of the node with this number an address made of these bytes, which are random.
    pub(crate) fn add(
        &self,
        mut opaque: [u8; OPAQUE_BYTES],
        node: Option<u16>,
        consumer: Arc<ReplyConsumer>,
    ) -> Box<[u8]> {
        if let (Some(node), [.., high, low]) = (node, &mut opaque) {
            [*high, *low] = node.to_be_bytes();
        }
        let opaque = URL_SAFE_NO_PAD.encode(opaque);
        let address: Box<[u8]> = [ADDRESS_PREFIX, opaque.as_bytes()].concat().into();
        self.0.write().insert(address.clone(), consumer);
        address
    }

    /// Forgets an address.
    pub(crate) fn remove(&self, address: &[u8]) {
        self.0.write().remove(address);
    }

    /// The consumer behind an address.
    pub(crate) fn get(&self, address: &[u8]) -> Option<Arc<ReplyConsumer>> {
        self.0.read().get(address).cloned()
    }
}
