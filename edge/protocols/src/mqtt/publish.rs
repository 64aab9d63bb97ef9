//! PUBLISH: checks, routing key, stored properties, then the broker. Wills, which are published the same way.

use broker::{GotMessage, Incoming, PublishChannel, Publisher, Routed};
use message::mqtt::{Mqtt, TOPIC_BYTES_MAX, loses, push_key};
use wire::mqtt::{Ack, Packet, Property, Publish, Qos, Version, reason};

use super::acks::{ACKS_MAX, NewAck};
use super::deliver::write_acks;
use super::errors::End;
use super::keeper::Keeper;
use super::publishing::Publishing;
use super::running::Running;
use super::settings::Settings;
use super::will::Will;

impl Running {
    /// A message of the client, which came at `now_ms` since 1970.
    pub(crate) fn publish(&mut self, publish: &Publish<'_>, now_ms: u64) -> Result<(), End> {
        let is_repeated = publish.qos == Qos::ExactlyOnce
            && self.work.with_side(|side| {
                let marks = side.marks.get();
                marks.is_some_and(|marks| marks.received.contains(&publish.packet_id))
            });
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
            is_kept: false,
            sender: has_no_local,
            received_ms: has_expiry.then_some(now_ms),
            topic: loses(topic).then_some(topic),
            properties: publish.properties,
        };
        self.stored.clear();
        mqtt.encode(&mut self.stored);
        let kept = if publish.retain { self.keep(&mqtt, topic, publish.payload) } else { Ok(false) };
        match kept.and_then(|is_kept| Ok((is_kept, self.route(topic, publish.qos, publish.payload)?))) {
            Ok((is_kept, routed)) => self.await_ack(publish, routed, is_kept),
            Err(end) => self.refuse(publish, end)?,
        }
        Ok(())
    }

    /// Publishes a message to the store of retained messages, too, if its user may publish it at all; whether a confirm follows.
    fn keep(&mut self, mqtt: &Mqtt<'_>, topic: &str, payload: &[u8]) -> Result<bool, End> {
        self.check(topic, payload)?;
        let Some(retainer) = &self.retainer else { return Ok(false) };
        let Settings { retained_count_max, retained_bytes_max, .. } = *self.work.settings;
        let bytes = payload.len() + self.stored.len();
        if !payload.is_empty() && !retainer.has_room(bytes, retained_count_max, retained_bytes_max) {
            return Err(End::new(
                reason::QUOTA_EXCEEDED,
                "there are as many retained messages as there may be",
            ));
        }
        let work = &self.work;
        let keeper = self.keeper.get_or_insert_with(|| Box::new(Keeper::new(work)));
        self.has_kept = true;
        keeper.keep(mqtt, topic, payload)?;
        Ok(mqtt.qos != Qos::AtMostOnce)
    }

    /// Whether the user may publish what is in `stored`.
    fn check(&mut self, topic: &str, payload: &[u8]) -> Result<(), End> {
        self.key.clear();
        push_key(topic, &mut self.key);
        let incoming = Incoming {
            exchange: self.work.settings.exchange.as_bytes(),
            routing_key: &self.key,
            properties: &self.stored,
            body: payload,
            mandatory: false,
        };
        let publishing = self.publishing.get_or_insert_with(|| Publishing::new(&self.work));
        publishing.publisher.check(&mut publishing.without_acks, &incoming).map_err(End::from)
    }

    /// Publishes what is in `stored` to the exchange of topics.
    fn route(&mut self, topic: &str, qos: Qos, payload: &[u8]) -> Result<Routed, End> {
        self.key.clear();
        push_key(topic, &mut self.key);
        let incoming = Incoming {
            exchange: self.work.settings.exchange.as_bytes(),
            routing_key: &self.key,
            properties: &self.stored,
            body: payload,
            mandatory: false,
        };
        let publishing = self.publishing.get_or_insert_with(|| Publishing::new(&self.work));
        let Publishing { publisher, without_acks, with_acks, .. } = &mut **publishing;
        let channel = if qos == Qos::AtMostOnce { without_acks } else { with_acks };
        publisher.publish(channel, incoming).map_err(End::from)
    }

    /// It was handed in; PUBACK or PUBREC follow its confirm.
    fn await_ack(&mut self, publish: &Publish<'_>, routed: Routed, is_kept: bool) {
        if publish.qos == Qos::AtMostOnce {
            return;
        }
        let is_lost = routed == Routed::No && self.wishes.version == Version::V5;
        let new = NewAck {
            packet_id: publish.packet_id,
            qos: publish.qos,
            code: if is_lost { reason::NO_MATCHING_SUBSCRIBERS } else { reason::SUCCESS },
            routed: self.routed_latest(),
            awaits_routed: true,
            kept: self.kept_latest(),
            awaits_kept: is_kept,
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
            routed: self.routed_latest(),
            awaits_routed: false,
            kept: self.kept_latest(),
            awaits_kept: false,
        };
        let mut output = self.work.sink.outbox.lock();
        let (bytes, side, _) = output.parts();
        side.acks.push(new);
        write_acks(side, bytes);
        Ok(())
    }

    /// Number of the latest message that the queues confirm.
    fn routed_latest(&self) -> u64 {
        self.publishing.as_ref().map_or(0, |publishing| publishing.with_acks.latest_publish())
    }

    /// Number of the latest message that the store of retained messages confirms.
    fn kept_latest(&self) -> u64 {
        self.keeper.as_ref().map_or(0, |keeper| keeper.latest())
    }

    /// Whether the client may publish its will.
    pub(crate) fn check_will(&mut self) -> Result<(), End> {
        let Some(will) = self.will.take() else { return Ok(()) };
        if will.topic.len() > TOPIC_BYTES_MAX {
            return Err(End::new(reason::TOPIC_NAME_INVALID, "the topic of the will is too long"));
        }
        self.stored.clone_from(&will.properties);
        self.check(&will.topic, &will.payload)?;
        self.will = Some(will);
        Ok(())
    }

    /// The connection is lost: its will is published, if it has one, or waits for the client to come back.
    pub(crate) fn publish_will(&mut self) {
        let Some(will) = self.will.take() else { return };
        let delay_s = self.expiry_s.map_or(will.delay_s, |expiry_s| will.delay_s.min(expiry_s));
        let done = if delay_s > 0 { self.delay_will(&will, delay_s) } else { self.publish_now(&will) };
        if let Err(end) = done {
            tracing::info!(client_id = %self.work.client_id, "will not published: {}", end.text);
        }
        self.flush_published();
        self.flush_kept();
    }

    /// The will of a session that this connection has ended, before its time had come.
    pub(crate) fn publish_left(&mut self, will: Option<GotMessage>) {
        let Some(will) = will else { return };
        let Some(topic) = Mqtt::of(&will.properties).and_then(|mqtt| mqtt.topic) else { return };
        let (mut key, exchange) = (Vec::new(), self.work.settings.exchange.as_bytes());
        push_key(topic, &mut key);
        let mut publisher = Publisher::new(&self.work.broker, &self.work.internal);
        let (properties, body) = (&*will.properties, &*will.body);
        let incoming = Incoming { exchange, routing_key: &key, properties, body, mandatory: false };
        if let Err(refused) = publisher.publish(&mut PublishChannel::new(), incoming) {
            tracing::info!(client_id = %self.work.client_id, ?refused, "will not published");
        }
    }

    fn publish_now(&mut self, will: &Will) -> Result<(), End> {
        self.stored.clone_from(&will.properties);
        if let Some(mqtt) = Mqtt::of(&will.properties).filter(|mqtt| mqtt.retain) {
            // Nobody waits for a confirm.
            let mqtt = Mqtt { qos: Qos::AtMostOnce, ..mqtt };
            self.keep(&mqtt, &will.topic, &will.payload)?;
        }
        self.route(&will.topic, Qos::AtMostOnce, &will.payload).map(drop)
    }

    fn delay_will(&mut self, will: &Will, delay_s: u32) -> Result<(), End> {
        let name = self.work.declare_will_queue(&will.topic, delay_s)?;
        let mut properties = Vec::new();
        let mqtt = Mqtt::of(&will.properties).unwrap_or_default();
        Mqtt { topic: Some(&will.topic), is_kept: true, ..mqtt }.encode(&mut properties);
        let work = &self.work;
        let keeper = self.keeper.get_or_insert_with(|| Box::new(Keeper::new(work)));
        keeper.publish(&name, &properties, &will.payload, false)?;
        keeper.flush();
        Ok(())
    }
}
