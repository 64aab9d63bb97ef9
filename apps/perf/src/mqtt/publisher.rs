//! A publisher: as many messages as its window, its rate and the socket allow.

use std::sync::atomic::Ordering;

use wire::mqtt::{Packet, Properties, Publish, Qos};

use super::client::Client;
use super::options::MqttOptions;
use crate::io::monotonic_ns;
use crate::threads::Counts;

/// State of a publisher.
pub(super) struct Publisher {
    topic: String,
    payload: Vec<u8>,
    qos: Qos,
    retain: bool,
    batch: u64,
    rate: u64,
    /// Messages that may be without their last answer.
    pub(super) window: u64,
    pub(super) in_flight: u64,
    packet_id: u16,
    sent: u64,
    began_ns: u64,
}

impl Publisher {
    pub(super) fn new(options: &MqttOptions, nth: usize) -> Self {
        Self {
            topic: options.topic(nth).to_owned(),
            payload: vec![b'x'; options.size],
            qos: options.qos(),
            retain: options.retain,
            batch: options.batch_size.into(),
            rate: options.rate,
            window: options.confirm.into(),
            in_flight: 0,
            packet_id: 0,
            sent: 0,
            began_ns: 0,
        }
    }

    /// Messages that may be sent now.
    pub(super) fn may_send(&mut self, now_ns: u64) -> u64 {
        if self.began_ns == 0 {
            self.began_ns = now_ns;
        }
        let due = match self.rate {
            0 => self.batch,
            rate => {
                let elapsed_ns = u128::from(now_ns - self.began_ns);
                let due = elapsed_ns * u128::from(rate) / 1_000_000_000;
                u64::try_from(due).unwrap_or(u64::MAX).saturating_sub(self.sent)
            }
        };
        let room = if self.qos == Qos::AtMostOnce { u64::MAX } else { self.window - self.in_flight };
        due.min(self.batch).min(room)
    }

    /// Puts a batch into the client's output, if the one before has left; whether it did.
    pub(super) fn publish(&mut self, client: &mut Client, counts: &Counts) -> bool {
        let now_ns = monotonic_ns();
        let count = if client.is_flushed() { self.may_send(now_ns) } else { 0 };
        if let Some(time) = self.payload.first_chunk_mut::<8>() {
            *time = now_ns.to_be_bytes();
        }
        for _ in 0..count {
            self.packet_id = self.packet_id.checked_add(1).unwrap_or(1);
            let publish = Publish {
                dup: false,
                qos: self.qos,
                retain: self.retain,
                topic: &self.topic,
                packet_id: self.packet_id,
                properties: Properties::EMPTY,
                payload: &self.payload,
            };
            publish.encode(client.version, &mut client.output);
        }
        self.sent += count;
        self.in_flight += if self.qos == Qos::AtMostOnce { 0 } else { count };
        counts.published.fetch_add(count, Ordering::Relaxed);
        if self.qos == Qos::AtMostOnce {
            counts.confirmed.fetch_add(count, Ordering::Relaxed);
        }
        count > 0
    }

    /// An answer has come. The reply to it goes into `output`.
    pub(super) fn answered(
        &mut self,
        packet: &Packet<'_>,
        client: &mut dyn FnMut(&Packet<'_>),
        counts: &Counts,
    ) {
        let (is_last, is_refused) = match packet {
            Packet::PubAck(ack) | Packet::PubComp(ack) => (true, ack.reason_code >= 0x80),
            Packet::PubRec(ack) if ack.reason_code >= 0x80 => (true, true),
            Packet::PubRec(ack) => {
                client(&Packet::PubRel(wire::mqtt::Ack { packet_id: ack.packet_id, ..Default::default() }));
                (false, false)
            }
            _ => return,
        };
        if is_last {
            self.in_flight = self.in_flight.saturating_sub(1);
            let counter = if is_refused { &counts.refused } else { &counts.confirmed };
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }
}
