//! PUBLISH: checks, routing key, stored properties, then the broker. Wills, which are published the same way.

use broker::{Incoming, Refused, Routed};
use message::mqtt::{Mqtt, TOPIC_BYTES_MAX, loses, push_key};
use wire::mqtt::{Ack, Packet, Property, Publish, Qos, Version, reason};

use super::acks::{ACKS_MAX, NewAck};
use super::deliver::write_acks;
use super::errors::End;
use super::running::Running;
use super::will::Will;

impl Running {
    /// A message of the client, which came at `now_ms` since 1970.
    pub(crate) fn publish(&mut self, publish: &Publish<'_>, now_ms: u64) -> Result<(), End> {
        let is_repeated = publish.qos == Qos::ExactlyOnce
            && self.work.with_side(|side| side.marks.received.contains(&publish.packet_id));
        if is_repeated {
            let ack = Ack { packet_id: publish.packet_id, ..Ack::default() };
            self.write(&Packet::PubRec(ack));
            return Ok(());
        }
        let alias = self.alias_of(publish)?;
        let taken = alias.and_then(|at| self.aliases[at].take());
        let topic = taken.as_deref().unwrap_or(publish.topic);
        let published = self.publish_to(topic, publish, now_ms);
        if let Some(at) = alias {
            self.aliases[at] = taken;
        }
        published
    }

    /// The place of the topic that a publish gives by an alias only. A topic that comes with an alias is remembered.
    fn alias_of(&mut self, publish: &Publish<'_>) -> Result<Option<usize>, End> {
        let alias = publish.properties.iter().find_map(|property| match property {
            Property::TopicAlias(alias) => Some(alias),
            _ => None,
        });
        let Some(alias) = alias else {
            return match publish.topic {
                "" => Err(End::protocol("a publish without topic and topic alias")),
                _ => Ok(None),
            };
        };
        let max = self.work.settings.topic_alias_max;
        if alias > max {
            let text = format!("topic alias {alias}, at most {max} are allowed");
            return Err(End::new(reason::TOPIC_ALIAS_INVALID, text));
        }
        let at = usize::from(alias) - 1;
        if publish.topic.is_empty() {
            return match self.aliases.get(at) {
                Some(Some(_)) => Ok(Some(at)),
                _ => Err(End::protocol(format!("topic alias {alias} stands for nothing"))),
            };
        }
        if self.aliases.len() <= at {
            self.aliases.resize(at + 1, None);
        }
        self.aliases[at] = Some(publish.topic.into());
        Ok(None)
    }

    fn publish_to(&mut self, topic: &str, publish: &Publish<'_>, now_ms: u64) -> Result<(), End> {
        if publish.qos != Qos::AtMostOnce && self.work.with_side(|side| side.acks.len()) >= ACKS_MAX {
            return Err(End::new(reason::RECEIVE_MAXIMUM_EXCEEDED, "too many unacknowledged publishes"));
        }
        if topic.len() > TOPIC_BYTES_MAX {
            let text = format!("topic of more than {TOPIC_BYTES_MAX} bytes");
            return self.refuse(publish, End::new(reason::TOPIC_NAME_INVALID, text));
        }
        let has_no_local = self.work.with_side(|side| side.filters.has_no_local().then_some(side.me));
        let has_expiry = publish.properties.iter().any(|it| matches!(it, Property::MessageExpiryInterval(_)));
        let mqtt = Mqtt {
            qos: publish.qos,
            retain: publish.retain,
            is_copy: false,
            sender: has_no_local,
            received_ms: has_expiry.then_some(now_ms),
            topic: loses(topic).then_some(topic),
            properties: publish.properties,
        };
        self.stored.clear();
        mqtt.encode(&mut self.stored);
        let routed = self.route(topic, publish.qos, publish.payload);
        match routed {
            Ok(routed) => self.await_ack(publish, routed),
            Err(refused) => self.refuse(publish, End::from(refused))?,
        }
        Ok(())
    }

    /// Publishes what is in `stored` to the exchange of topics.
    fn route(&mut self, topic: &str, qos: Qos, payload: &[u8]) -> Result<Routed, Refused> {
        self.key.clear();
        push_key(topic, &mut self.key);
        let incoming = Incoming {
            exchange: self.work.settings.exchange.as_bytes(),
            routing_key: &self.key,
            properties: &self.stored,
            body: payload,
            mandatory: false,
        };
        let channel = if qos == Qos::AtMostOnce { &mut self.without_acks } else { &mut self.with_acks };
        self.publisher.publish(channel, incoming)
    }

    /// It was handed in; PUBACK or PUBREC follow its confirm.
    fn await_ack(&mut self, publish: &Publish<'_>, routed: Routed) {
        if publish.qos == Qos::AtMostOnce {
            return;
        }
        let is_lost = routed == Routed::No && self.wishes.version == Version::V5;
        let new = NewAck {
            packet_id: publish.packet_id,
            qos: publish.qos,
            code: if is_lost { reason::NO_MATCHING_SUBSCRIBERS } else { reason::SUCCESS },
            routed: self.with_acks.latest_publish(),
            awaits_routed: true,
            kept: 0,
            awaits_kept: false,
        };
        self.work.with_side(|side| side.acks.push(new));
    }

    /// A publish that the broker does not take: version 5 may be told so, if the connection need not end.
    fn refuse(&mut self, publish: &Publish<'_>, end: End) -> Result<(), End> {
        let ends = match end.code {
            reason::NOT_AUTHORIZED => self.work.settings.disconnect_on_unauthorized,
            _ => false,
        };
        if ends || self.wishes.version != Version::V5 {
            return Err(end);
        }
        tracing::info!(client_id = %self.work.client_id, "publish refused: {}", end.text);
        if publish.qos == Qos::AtMostOnce {
            return Ok(());
        }
        let new = NewAck {
            packet_id: publish.packet_id,
            qos: publish.qos,
            code: end.code,
            routed: self.with_acks.latest_publish(),
            awaits_routed: false,
            kept: 0,
            awaits_kept: false,
        };
        let mut output = self.work.sink.outbox.lock();
        let (bytes, side, _) = output.parts();
        side.acks.push(new);
        write_acks(side, bytes);
        Ok(())
    }

    /// Whether the client may publish its will.
    pub(crate) fn check_will(&mut self) -> Result<(), End> {
        let Some(will) = &self.will else { return Ok(()) };
        if will.topic.len() > TOPIC_BYTES_MAX {
            return Err(End::new(reason::TOPIC_NAME_INVALID, "the topic of the will is too long"));
        }
        self.key.clear();
        push_key(&will.topic, &mut self.key);
        let incoming = Incoming {
            exchange: self.work.settings.exchange.as_bytes(),
            routing_key: &self.key,
            properties: &will.properties,
            body: &will.payload,
            mandatory: false,
        };
        self.publisher.check(&mut self.without_acks, &incoming).map_err(End::from)
    }

    /// The connection is lost: its will is published, if it has one.
    pub(crate) fn publish_will(&mut self) {
        let Some(Will { topic, properties, payload, .. }) = self.will.take() else { return };
        self.stored = properties;
        if let Err(refused) = self.route(&topic, Qos::AtMostOnce, &payload) {
            tracing::info!(client_id = %self.work.client_id, "will not published: {}", End::from(refused).text);
        }
        self.publisher.flush();
    }
}
