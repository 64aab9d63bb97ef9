//! A message as clients of AMQP 1.0 get it.

use wire::amqp10::{Header, Map, SectionKind, Writer};
use wire::amqp091::{Properties, Table};

use super::amqp091::{write_annotations, write_bare_head};
use super::sections::Stored;
use crate::{Format, MessageView};

const EXCHANGE: &[u8] = b"x-exchange";
const ROUTING_KEY: &[u8] = b"x-routing-key";

/// Whether somebody had a message before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Acquired {
    /// It was handed out before.
    pub redelivered: bool,
    /// It was dead-lettered.
    pub has_died: bool,
}

impl Acquired {
    /// Of a delivery with these annotations beside the message.
    #[must_use]
    pub fn of(redelivered: bool, annotations: &[u8]) -> Acquired {
        let has_died = !annotations.is_empty() && Table::from_raw(annotations).get("deaths").is_some();
        Acquired { redelivered, has_died }
    }
}

/// Appends all of a message that stands before the bytes that are returned: header and annotations, and of a message of another protocol
/// what stands before its payload.
pub fn encode_head<'a>(message: &MessageView<'a>, acquired: Acquired, out: &mut Vec<u8>) -> &'a [u8] {
    match message.format() {
        Format::Amqp10 => {
            let stored = Stored::of_properties(message.properties);
            if let Some(head) = PlainHead::of(message, &stored, acquired) {
                head.append(message, out);
                return message.body;
            }
            write_header(stored.header, acquired, out);
            write_section(message, out, |writer| write_own(writer, stored.annotations));
        }
        Format::Amqp091 => write_amqp091(message, &Properties::new(message.properties), acquired, out),
        Format::Mqtt => write_amqp091(message, &message.plain().properties(), acquired, out),
    }
    message.body
}

/// Header and annotations of a message whose publisher has sent no annotations, and of its header the durability at most.
struct PlainHead {
    durable: bool,
    first_acquirer: bool,
    exchange_bytes: u8,
    routing_key_bytes: u8,
    /// Bytes of the map of annotations behind its size.
    map_bytes: u8,
}

impl PlainHead {
    #[inline]
    fn of(message: &MessageView<'_>, stored: &Stored<'_>, acquired: Acquired) -> Option<PlainHead> {
        let Header { durable, priority, ttl, delivery_count, .. } = stored.header;
        let is_plain = priority.is_none() && ttl.is_none() && delivery_count.unwrap_or(0) == 0;
        if !is_plain || !stored.annotations.is_empty() {
            return None;
        }
        // The count, two names with their heads, two heads of texts.
        let fixed = 1 + 2 + EXCHANGE.len() + 2 + 2 + ROUTING_KEY.len() + 2;
        let map_bytes = u8::try_from(fixed + message.exchange.len() + message.routing_key.len()).ok()?;
        let exchange_bytes = u8::try_from(message.exchange.len()).ok()?;
        let routing_key_bytes = u8::try_from(message.routing_key.len()).ok()?;
        let first_acquirer = !acquired.redelivered && !acquired.has_died;
        Some(PlainHead {
            durable: durable == Some(true),
            first_acquirer,
            exchange_bytes,
            routing_key_bytes,
            map_bytes,
        })
    }

    #[inline]
    fn append(&self, message: &MessageView<'_>, out: &mut Vec<u8>) {
        const HEADER: [u8; 11] = *b"\x00\x53\x70\xC0\x06\x05\x42\x40\x40\x42\x43";
        const ANNOTATIONS: [u8; 19] = *b"\x00\x53\x72\xC1\x00\x04\xA3\x0Ax-exchange\xA1";
        let flag = |is_set: bool| if is_set { 0x41 } else { 0x42 };
        let mut before = [0; 31];
        before[..11].copy_from_slice(&HEADER);
        before[6] = flag(self.durable);
        before[9] = flag(self.first_acquirer);
        before[11..30].copy_from_slice(&ANNOTATIONS);
        before[15] = self.map_bytes;
        before[30] = self.exchange_bytes;
        let mut between = *b"\xA3\x0Dx-routing-key\xA1\x00";
        between[16] = self.routing_key_bytes;
        out.reserve(before.len() + usize::from(self.map_bytes) + between.len());
        out.extend_from_slice(&before);
        out.extend_from_slice(message.exchange);
        out.extend_from_slice(&between);
        out.extend_from_slice(message.routing_key);
    }
}

/// Appends a whole message, as streams keep it.
pub fn sections_of(message: &MessageView<'_>, out: &mut Vec<u8>) {
    let rest = encode_head(message, Acquired::default(), out);
    out.extend_from_slice(rest);
}

fn write_amqp091(
    message: &MessageView<'_>,
    properties: &Properties<'_>,
    acquired: Acquired,
    out: &mut Vec<u8>,
) {
    let ttl =
        properties.expiration().and_then(|text| std::str::from_utf8(text.as_bytes()).ok()?.parse().ok());
    let header = Header {
        durable: Some(properties.delivery_mode() == Some(2)),
        priority: properties.priority(),
        ttl,
        ..Header::default()
    };
    let failed = properties.headers().and_then(|headers| headers.get("x-delivery-count"));
    let delivery_count = failed.and_then(|failed| u32::try_from(failed.as_i64()?).ok());
    write_header(Header { delivery_count, ..header }, acquired, out);
    write_section(message, out, |writer| write_annotations(writer, properties));
    write_bare_head(properties, message.body, out);
}

fn write_header(received: Header, acquired: Acquired, out: &mut Vec<u8>) {
    let delivery_count = received.delivery_count.unwrap_or(0);
    let first_acquirer = !acquired.redelivered && !acquired.has_died && delivery_count == 0;
    let header = Header {
        durable: Some(received.durable == Some(true)),
        first_acquirer: Some(first_acquirer),
        delivery_count: Some(delivery_count),
        ..received
    };
    header.encode(out);
}

/// Appends the message annotations: where the message was published to, and `more`.
fn write_section(message: &MessageView<'_>, out: &mut Vec<u8>, more: impl FnOnce(&mut Writer<'_>)) {
    Writer::new(out).described(SectionKind::MessageAnnotations as u64, |writer| {
        writer.map(|writer| {
            writer.symbol(EXCHANGE);
            writer.string(message.exchange);
            writer.symbol(ROUTING_KEY);
            writer.string(message.routing_key);
            more(writer);
        });
    });
}

/// The publisher's annotations. It cannot say where a message was published to.
fn write_own(writer: &mut Writer<'_>, annotations: Map<'_>) {
    for (name, value) in annotations.iter() {
        if !matches!(name.as_text(), Some(EXCHANGE | ROUTING_KEY)) {
            writer.value(&name);
            writer.value(&value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(message: &MessageView<'_>, acquired: Acquired) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        let stored = Stored::of_properties(message.properties);
        PlainHead::of(message, &stored, acquired)?.append(message, &mut out);
        Some(out)
    }

    fn general(message: &MessageView<'_>, acquired: Acquired) -> Vec<u8> {
        let mut out = Vec::new();
        write_header(Stored::of_properties(message.properties).header, acquired, &mut out);
        write_section(message, &mut out, |_| ());
        out
    }

    #[test]
    fn a_plain_head_has_the_bytes_that_the_writer_makes() {
        for durable in [None, Some(false), Some(true)] {
            let mut properties = Format::Amqp10.prefix().to_vec();
            if durable.is_some() {
                Header { durable, ..Header::default() }.encode(&mut properties);
            }
            for name in ["", "x", &"n".repeat(110)] {
                let [exchange, routing_key] = [name.as_bytes(), b"k"];
                let message = MessageView { exchange, routing_key, properties: &properties, body: b"" };
                for redelivered in [false, true] {
                    let acquired = Acquired { redelivered, has_died: false };
                    assert_eq!(plain(&message, acquired), Some(general(&message, acquired)));
                }
            }
        }
    }

    #[test]
    fn what_is_longer_or_says_more_has_no_plain_head() {
        let name = [b'n'; 120];
        let mut properties = Format::Amqp10.prefix().to_vec();
        let message = MessageView { exchange: &name, routing_key: &name, properties: &properties, body: b"" };
        assert_eq!(plain(&message, Acquired::default()), None);
        Header { priority: Some(3), ..Header::default() }.encode(&mut properties);
        let message = MessageView { exchange: b"", routing_key: b"", properties: &properties, body: b"" };
        assert_eq!(plain(&message, Acquired::default()), None);
    }
}
