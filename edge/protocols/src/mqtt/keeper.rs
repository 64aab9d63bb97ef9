//! Publishes that the broker itself makes for a client: to the store of retained messages, copies of them for new subscriptions, and wills
//! that wait.

use std::future::poll_fn;
use std::sync::Arc;

use broker::{Incoming, PublishChannel, Publisher, Refused};
use message::mqtt::Mqtt;
use wire::mqtt::Qos;

use super::acks::Confirmed;
use super::deliver::Confirms;
use super::retained::{Kept, QUEUE};
use super::work::Work;

/// Numbers of the two ways to publish, in traces.
const WITHOUT_ACKS: u16 = 2;
const WITH_ACKS: u16 = 3;

/// Copies that are published before queues and log are asked whether they take more.
const COPIES_AT_ONCE: usize = 1000;

/// Publishes for the broker itself. Made when it is needed first.
pub(crate) struct Keeper {
    publisher: Publisher,
    without_acks: PublishChannel,
    with_acks: PublishChannel,
}

impl Keeper {
    pub(crate) fn new(work: &Work) -> Keeper {
        let mut with_acks = PublishChannel::numbered(WITH_ACKS);
        let confirms = Confirms { outbox: work.sink.outbox.clone(), which: Confirmed::Kept };
        with_acks.enable_confirms(Arc::new(confirms));
        Keeper {
            publisher: Publisher::new(&work.broker, &work.internal),
            without_acks: PublishChannel::numbered(WITHOUT_ACKS),
            with_acks,
        }
    }

    /// Number of the latest message that is confirmed.
    pub(crate) fn latest(&self) -> u64 {
        self.with_acks.latest_publish()
    }

    /// Publishes to a queue.
    pub(crate) fn publish(
        &mut self,
        queue: &str,
        properties: &[u8],
        body: &[u8],
        is_confirmed: bool,
    ) -> Result<(), Refused> {
        let exchange = b"";
        let incoming =
            Incoming { exchange, routing_key: queue.as_bytes(), properties, body, mandatory: false };
        let channel = if is_confirmed { &mut self.with_acks } else { &mut self.without_acks };
        self.publisher.publish(channel, incoming).map(drop)
    }

    /// Publishes a message to the store of retained messages. It is confirmed unless its QoS is 0.
    pub(crate) fn keep(&mut self, mqtt: &Mqtt<'_>, topic: &str, payload: &[u8]) -> Result<(), Refused> {
        let mut properties = Vec::new();
        Mqtt { retain: true, is_kept: true, sender: None, topic: Some(topic), ..*mqtt }
            .encode(&mut properties);
        self.publish(QUEUE, &properties, payload, mqtt.qos != Qos::AtMostOnce)
    }

    /// Hands over what was published.
    pub(crate) fn flush(&mut self) {
        self.publisher.flush();
    }

    /// Publishes copies of retained messages to a queue of the session.
    pub(crate) async fn copy(&mut self, queue: &str, all: &[Arc<Kept>], now_ms: u64) {
        let mut properties = Vec::new();
        for some in all.chunks(COPIES_AT_ONCE) {
            for kept in some {
                let Some(mqtt) = Mqtt::of(&kept.properties) else { continue };
                if mqtt.received_ms.is_some() && mqtt.expiry_left_s(now_ms) == Some(0) {
                    continue;
                }
                properties.clear();
                Mqtt { is_copy: true, is_kept: false, ..mqtt }.encode(&mut properties);
                if let Err(refused) = self.publish(queue, &properties, &kept.payload, false) {
                    tracing::warn!(queue, ?refused, "retained messages could not be copied");
                    return;
                }
            }
            self.flush();
            poll_fn(|cx| self.publisher.poll_ready(cx)).await;
        }
    }
}
