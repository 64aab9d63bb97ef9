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
            write_header(stored.header, acquired, out);
            write_section(message, out, |writer| write_own(writer, stored.annotations));
        }
        Format::Amqp091 => write_amqp091(message, &Properties::new(message.properties), acquired, out),
        Format::Mqtt => write_amqp091(message, &message.plain().properties(), acquired, out),
    }
    message.body
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
