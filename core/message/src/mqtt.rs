//! Messages of MQTT: their properties beside topic and payload, and how they become messages of AMQP 0-9-1 and back.
//!
//! ```text
//!  flags u8 | sender u64 | received u64 | topic length u16, topic | properties of MQTT 5 as received
//! ```
//!
//! The flags say which of the pieces in the middle are there. Properties have no length in front. Topic aliases and subscription identifiers,
//! which belong to one connection each, are not among them.

use wire::amqp091::{self, PropertiesBuf, TableBuf, Value};
use wire::mqtt::{Properties, Property, Qos, STRING_BYTES_MAX};

use crate::Format;

const QOS: u8 = 0b11;
const RETAIN: u8 = 1 << 2;
const COPY: u8 = 1 << 3;
const SENDER: u8 = 1 << 4;
const RECEIVED: u8 = 1 << 5;
const TOPIC: u8 = 1 << 6;
const KEPT: u8 = 1 << 7;

/// Longest topic, in bytes: routing keys have no more.
pub const TOPIC_BYTES_MAX: usize = 255;

/// A stored message of MQTT without its routing key and its payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mqtt<'a> {
    /// As it was published.
    pub qos: Qos,
    /// It was published with the retain flag.
    pub retain: bool,
    /// It was not published just now: it is a copy of a retained message for a new subscription.
    pub is_copy: bool,
    /// It survives a restart whatever its QoS is.
    pub is_kept: bool,
    /// The publisher; kept only for publishers that must not get their own messages back.
    pub sender: Option<u64>,
    /// When it was published, milliseconds since 1970; kept only with a Message Expiry Interval.
    pub received_ms: Option<u64>,
    /// Its topic; kept only where the routing key does not tell it.
    pub topic: Option<&'a str>,
    /// Properties.
    pub properties: Properties<'a>,
}

impl<'a> Mqtt<'a> {
    /// Of stored properties; `None` if the message is of another protocol, or not what this build writes.
    #[must_use]
    pub fn of(stored: &'a [u8]) -> Option<Mqtt<'a>> {
        if Format::of(stored) != Format::Mqtt {
            return None;
        }
        let (&flags, mut rest) = Format::kept(stored).split_first()?;
        let mut number = |flag: u8| -> Option<Option<u64>> {
            if flags & flag == 0 {
                return Some(None);
            }
            let (number, after) = rest.split_first_chunk()?;
            rest = after;
            Some(Some(u64::from_be_bytes(*number)))
        };
        let (sender, received_ms) = (number(SENDER)?, number(RECEIVED)?);
        let mut topic = None;
        if flags & TOPIC != 0 {
            let (length, after) = rest.split_first_chunk()?;
            let (text, after) = after.split_at_checked(u16::from_be_bytes(*length).into())?;
            topic = Some(std::str::from_utf8(text).ok()?);
            rest = after;
        }
        Some(Mqtt {
            qos: Qos::of_bits(flags & QOS)?,
            retain: flags & RETAIN != 0,
            is_copy: flags & COPY != 0,
            is_kept: flags & KEPT != 0,
            sender,
            received_ms,
            topic,
            properties: Properties::from_raw(rest),
        })
    }

    /// Appends stored properties.
    ///
    /// # Panics
    /// If the topic has more than 65,535 bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(Format::Mqtt.prefix());
        let mut flags = self.qos as u8;
        for (is_there, flag) in [
            (self.retain, RETAIN),
            (self.is_copy, COPY),
            (self.is_kept, KEPT),
            (self.sender.is_some(), SENDER),
            (self.received_ms.is_some(), RECEIVED),
            (self.topic.is_some(), TOPIC),
        ] {
            flags |= if is_there { flag } else { 0 };
        }
        out.push(flags);
        for number in [self.sender, self.received_ms].into_iter().flatten() {
            out.extend_from_slice(&number.to_be_bytes());
        }
        if let Some(topic) = self.topic {
            let length = u16::try_from(topic.len()).expect("topics have at most 65,535 bytes");
            out.extend_from_slice(&length.to_be_bytes());
            out.extend_from_slice(topic.as_bytes());
        }
        let of_connections =
            |it: &Property<'_>| matches!(it, Property::TopicAlias(_) | Property::SubscriptionIdentifier(_));
        self.properties.iter().filter(|it| !of_connections(it)).for_each(|it| it.encode(out));
    }

    /// Whether it survives a restart in a durable queue.
    #[must_use]
    pub fn is_persistent(&self) -> bool {
        self.qos != Qos::AtMostOnce || self.is_kept
    }

    /// Its Message Expiry Interval, seconds.
    #[must_use]
    pub fn expiry_s(&self) -> Option<u32> {
        self.properties.iter().find_map(|property| match property {
            Property::MessageExpiryInterval(seconds) => Some(seconds),
            _ => None,
        })
    }

    /// The rest of the Message Expiry Interval, seconds; 0 when it is over.
    #[must_use]
    pub fn expiry_left_s(&self, now_ms: u64) -> Option<u32> {
        let seconds = self.expiry_s()?;
        let waited_s = now_ms.saturating_sub(self.received_ms.unwrap_or(now_ms)) / 1000;
        Some(seconds.saturating_sub(u32::try_from(waited_s).unwrap_or(u32::MAX)))
    }
}

/// Whether stored properties of MQTT say that the message survives a restart.
#[must_use]
pub fn is_persistent(stored: &[u8]) -> bool {
    Format::kept(stored).first().is_some_and(|flags| flags & (QOS | KEPT) != 0)
}

/// The time to live in stored properties of MQTT, milliseconds.
#[must_use]
pub fn ttl_ms(stored: &[u8]) -> Option<u64> {
    Some(u64::from(Mqtt::of(stored)?.expiry_s()?) * 1000)
}

/// Stored properties of MQTT as flags and list of AMQP 0-9-1.
#[must_use]
pub fn in_amqp091(stored: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    push_amqp091(&Mqtt::of(stored).unwrap_or_default(), &mut out);
    out
}

/// Stored properties of MQTT without Message Expiry Interval: of a message that has died.
#[must_use]
pub fn without_expiry(stored: &[u8]) -> Vec<u8> {
    let Some(mqtt) = Mqtt::of(stored) else { return stored.to_vec() };
    let left = mqtt.properties.iter().filter(|it| !matches!(it, Property::MessageExpiryInterval(_)));
    let mut raw = Vec::new();
    left.for_each(|it| it.encode(&mut raw));
    let mut out = Vec::new();
    Mqtt { received_ms: None, properties: Properties::from_raw(&raw), ..mqtt }.encode(&mut out);
    out
}

/// Whether the routing key of a topic does not tell it: `.` would come back as `/`.
#[must_use]
pub fn loses(topic: &str) -> bool {
    topic.contains('.')
}

/// Appends the routing key of a topic, or the binding key of a topic filter.
pub fn push_key(topic: &str, out: &mut Vec<u8>) {
    out.extend(topic.bytes().map(|byte| match byte {
        b'/' => b'.',
        b'+' => b'*',
        other => other,
    }));
}

/// Appends the topic of a routing key, or the topic filter of a binding key with `wildcards`. Bytes that are not UTF-8 become U+FFFD.
pub fn push_topic(key: &[u8], wildcards: bool, out: &mut String) {
    let text = String::from_utf8_lossy(key);
    out.extend(text.chars().map(|letter| match letter {
        '.' => '/',
        '*' if wildcards => '+',
        other => other,
    }));
}

/// Header with the topic that replies to a message of MQTT go to, as a routing key.
pub const REPLY_TOPIC: &[u8] = b"x-reply-to-topic";
/// Header with a correlation id that is too long for AMQP 0-9-1, or no text.
pub const CORRELATION_ID: &[u8] = b"x-correlation-id";

/// Longest short string of AMQP 0-9-1, in bytes.
const SHORT_BYTES_MAX: usize = 255;

/// Appends the properties of AMQP 0-9-1 of a message of MQTT. Payload Format Indicator is lost, and so are texts that do not fit; of User Properties
/// with one name the first stays.
pub fn push_amqp091(mqtt: &Mqtt<'_>, out: &mut Vec<u8>) {
    let short = |text: &[u8]| (text.len() <= SHORT_BYTES_MAX).then(|| text.to_vec());
    let mut properties =
        PropertiesBuf { delivery_mode: mqtt.is_persistent().then_some(2), ..PropertiesBuf::default() };
    let mut headers = TableBuf::new();
    for property in mqtt.properties.iter() {
        match property {
            Property::MessageExpiryInterval(seconds) => {
                properties.expiration = Some((u64::from(seconds) * 1000).to_string().into_bytes());
            }
            Property::ContentType(text) => properties.content_type = short(text.as_bytes()),
            Property::CorrelationData(data) => match (short(data), std::str::from_utf8(data)) {
                (Some(text), Ok(_)) => properties.correlation_id = Some(text),
                _ => {
                    headers.push_str(CORRELATION_ID, data);
                }
            },
            Property::ResponseTopic(topic) => {
                let mut key = Vec::with_capacity(topic.len());
                push_key(topic, &mut key);
                headers.push_str(REPLY_TOPIC, key);
            }
            Property::UserProperty((name, value)) => {
                let fits = name.len() <= SHORT_BYTES_MAX && headers.as_table().get(name).is_none();
                if fits {
                    headers.push_str(name, value);
                }
            }
            _ => {}
        }
    }
    properties.headers = (headers.as_table() != TableBuf::new().as_table()).then_some(headers);
    properties.encode(out).expect("short strings were measured");
}

/// A message of AMQP 0-9-1 in MQTT. Its properties are appended to `out`, which must be empty, and borrowed from it.
///
/// Content type, correlation id, expiration and headers that are texts, numbers or flags come along; the rest is lost.
pub fn of_amqp091<'a>(raw: &[u8], out: &'a mut Vec<u8>) -> Mqtt<'a> {
    let properties = amqp091::Properties::new(raw);
    let qos = if properties.delivery_mode() == Some(2) { Qos::AtLeastOnce } else { Qos::AtMostOnce };
    if let Some(expiration) = properties.expiration()
        && let Some(ms) = std::str::from_utf8(&expiration).ok().and_then(|text| text.parse::<u64>().ok())
    {
        let seconds = u32::try_from(ms.div_ceil(1000)).unwrap_or(u32::MAX);
        Property::MessageExpiryInterval(seconds).encode(out);
    }
    if let Some(content_type) = properties.content_type()
        && let Some(text) = text_of(&content_type)
    {
        Property::ContentType(text).encode(out);
    }
    let headers = properties.headers().unwrap_or(amqp091::Table::EMPTY);
    let long_id = headers.get(CORRELATION_ID);
    match (properties.correlation_id(), long_id) {
        (Some(id), _) => Property::CorrelationData(&id).encode(out),
        (None, Some(Value::LongStr(id) | Value::Bytes(id))) if id.len() <= STRING_BYTES_MAX => {
            Property::CorrelationData(id).encode(out);
        }
        _ => {}
    }
    for (name, value) in headers.iter() {
        push_header(name, value, out);
    }
    Mqtt { qos, properties: Properties::from_raw(out), ..Mqtt::default() }
}

/// Appends a header as a property, if it can be one.
fn push_header(name: &[u8], value: Value<'_>, out: &mut Vec<u8>) {
    if name == CORRELATION_ID {
        return;
    }
    if let (REPLY_TOPIC, Value::LongStr(key)) = (name, value) {
        let mut topic = String::new();
        push_topic(key, false, &mut topic);
        if wire::mqtt::is_topic_name(&topic) {
            Property::ResponseTopic(&topic).encode(out);
        }
        return;
    }
    let Some(name) = text_of(name) else { return };
    let made;
    let value = match value {
        Value::LongStr(text) => text_of(text),
        Value::Bool(flag) => Some(if flag { "true" } else { "false" }),
        other => {
            made = digits(other);
            made.as_deref()
        }
    };
    if let Some(value) = value {
        Property::UserProperty((name, value)).encode(out);
    }
}

fn digits(value: Value<'_>) -> Option<String> {
    match value {
        Value::F32(number) => Some(number.to_string()),
        Value::F64(number) => Some(number.to_string()),
        other => other.as_i64().map(|number| number.to_string()),
    }
}

/// Bytes as a string of MQTT.
fn text_of(bytes: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(bytes).ok()?;
    (text.len() <= STRING_BYTES_MAX && !text.contains('\0')).then_some(text)
}

#[cfg(test)]
mod tests;
