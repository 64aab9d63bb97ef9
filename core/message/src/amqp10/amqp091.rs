//! The way to AMQP 0-9-1 and back.

use std::borrow::Cow;
use std::io::Write as _;

use wire::amqp10::{
    MessageId, Properties as Properties10, SectionCursor, SectionKind, Sections, Str, Symbol, Timestamp,
    Value, Writer, write_data_head,
};
use wire::amqp091::{Properties, PropertiesBuf, ShortStr, TableBuf, Value as Value091};

use super::deaths;
use super::sections::Stored;
use super::values::{is_known, is_short, is_text, millis, push_entry, seconds, write_value};

/// `type` of a body that is no data: it keeps the encoding of AMQP 1.0.
const ENCODED: &[u8] = b"amqp-1.0";
const TYPE: &[u8] = b"x-basic-type";
const QUEUES: &[u8] = b"/queues/";
const URN: &[u8] = b"urn:uuid:";
const MESSAGE_ID: &[u8] = b"x-message-id";
const CORRELATION_ID: &[u8] = b"x-correlation-id";
const RECEIVED: &[u8] = b"x-opt-rabbitmq-received-time";

/// A stored message of AMQP 1.0 for clients of AMQP 0-9-1: flags and list, and the payload.
#[must_use]
pub fn in_amqp091<'a>(properties: &'a [u8], body: &'a [u8]) -> (Vec<u8>, Cow<'a, [u8]>) {
    let stored = Stored::of(properties, body);
    let payload = payload_of(stored.body);
    let is_encoded = payload.is_none();
    let mut out = Vec::new();
    properties_of(&stored, is_encoded).encode(&mut out).expect("texts of more than 255 bytes are left out");
    (out, payload.unwrap_or(Cow::Borrowed(stored.body)))
}

/// The bytes of the data sections of a body; `None` if it is no data.
fn payload_of(body: &[u8]) -> Option<Cow<'_, [u8]>> {
    let mut sections = SectionCursor::new(body).map_while(Result::ok);
    let first = sections.next().filter(|section| section.kind == SectionKind::Data)?;
    let mut payload = Cow::Borrowed(first.data());
    for next in sections.take_while(|section| section.kind == SectionKind::Data) {
        payload.to_mut().extend_from_slice(next.data());
    }
    Some(payload)
}

fn properties_of(stored: &Stored<'_>, is_encoded: bool) -> PropertiesBuf {
    let (header, properties, annotations) = (&stored.header, &stored.properties, stored.annotations);
    let mut headers = TableBuf::new();
    for (name, value) in annotations.iter() {
        if let Value::Symbol(name) = name {
            push_annotation(&mut headers, name, &value);
        }
    }
    let message_id = properties.message_id().and_then(|id| id_text(&id, MESSAGE_ID, &mut headers));
    let correlation_id =
        properties.correlation_id().and_then(|id| id_text(&id, CORRELATION_ID, &mut headers));
    for (name, value) in stored.application_properties.iter() {
        if let Value::Str(name) = name {
            push_entry(&mut headers, name, &value);
        }
    }
    let own_type = annotations.get(TYPE).and_then(|value| short(value.as_text()?));
    let symbol = |symbol: Option<Symbol<'_>>| symbol.and_then(|symbol| short(symbol.0));
    PropertiesBuf {
        content_type: symbol(properties.content_type()),
        content_encoding: symbol(properties.content_encoding()),
        headers: (!headers.is_empty()).then_some(headers),
        delivery_mode: (header.durable == Some(true)).then_some(2),
        priority: header.priority,
        correlation_id,
        reply_to: properties.reply_to().and_then(reply_queue),
        expiration: header.ttl.map(|ttl_ms| ttl_ms.to_string().into_bytes()),
        message_id,
        timestamp: properties.creation_time().map(|Timestamp(millis)| seconds(millis)),
        type_: if is_encoded { Some(ENCODED.to_vec()) } else { own_type },
        user_id: properties.user_id().filter(|user| std::str::from_utf8(user).is_ok()).and_then(short),
        app_id: properties.group_id().and_then(|group| short(group.0)),
        cluster_id: None,
    }
}

/// Bytes that fit into a short string.
fn short(bytes: &[u8]) -> Option<Vec<u8>> {
    is_short(bytes).then(|| bytes.to_vec())
}

fn push_annotation(headers: &mut TableBuf, name: &[u8], value: &Value<'_>) {
    match (name, value) {
        (b"x-cc", _) => push_entry(headers, b"CC", value),
        (RECEIVED, Value::Timestamp(millis)) => drop(headers.push_i64("timestamp_in_ms", *millis)),
        (deaths::DEATHS, Value::Array(array)) => deaths::push_x_death(headers, array),
        (deaths::DEATHS | b"x-routing-key" | b"x-exchange" | b"x-death", _) => {}
        _ if name.starts_with(b"x-basic-") || !name.starts_with(b"x-") => {}
        _ => push_entry(headers, name, value),
    }
}

/// An id as text; one that is no text, or too long for a property, goes to the headers.
fn id_text(id: &MessageId<'_>, header: &[u8], headers: &mut TableBuf) -> Option<Vec<u8>> {
    match *id {
        MessageId::Ulong(number) => Some(number.to_string().into_bytes()),
        MessageId::Uuid(bytes) => Some(urn_of(bytes)),
        MessageId::Str(text) if is_short(text) => Some(text.to_vec()),
        MessageId::Str(text) => {
            headers.push_str(header, text);
            None
        }
        MessageId::Binary(bytes) => {
            headers.push(header, Value091::Bytes(bytes));
            None
        }
    }
}

fn urn_of(uuid: [u8; 16]) -> Vec<u8> {
    let mut text = URN.to_vec();
    for (at, byte) in uuid.into_iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            text.push(b'-');
        }
        write!(text, "{byte:02x}").expect("a buffer takes everything");
    }
    text
}

/// The bytes behind `urn:uuid:`, if that is what a text is.
fn uuid_of(text: &[u8]) -> Option<[u8; 16]> {
    let digits: &[u8; 36] = text.strip_prefix(URN)?.try_into().ok()?;
    let mut uuid = [0; 16];
    let mut nibbles = digits.iter().enumerate().filter(|(at, _)| !matches!(at, 8 | 13 | 18 | 23));
    let has_dashes = [8, 13, 18, 23].iter().all(|at| digits[*at] == b'-');
    for byte in &mut uuid {
        let mut nibble = || char::from(*nibbles.next()?.1).to_digit(16);
        *byte = u8::try_from(nibble()? << 4 | nibble()?).ok()?;
    }
    has_dashes.then_some(uuid)
}

/// `/queues/NAME` as the name of the queue; other addresses as they are.
fn reply_queue(address: Str<'_>) -> Option<Vec<u8>> {
    match address.0.strip_prefix(QUEUES) {
        Some(name) => percent_decoded(name).filter(|name| is_short(name)),
        None => short(address.0),
    }
}

fn percent_decoded(text: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.iter();
    while let Some(&byte) = rest.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let mut digit = || char::from(*rest.next()?).to_digit(16);
        out.push(u8::try_from(digit()? << 4 | digit()?).ok()?);
    }
    Some(out)
}

fn push_percent_encoded(text: &[u8], out: &mut Vec<u8>) {
    for &byte in text {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(byte),
            _ => write!(out, "%{byte:02X}").expect("a buffer takes everything"),
        }
    }
}

/// Appends the annotations that a message of AMQP 0-9-1 gets in AMQP 1.0, but those of deaths.
pub(super) fn write_annotations(writer: &mut Writer<'_>, properties: &Properties<'_>) {
    if let Some(own_type) = properties.type_() {
        writer.symbol(TYPE);
        writer.string(&own_type);
    }
    let Some(headers) = properties.headers() else { return };
    for (name, value) in headers.iter().filter(|(_, value)| is_known(value)) {
        match (name, &value) {
            (b"CC", Value091::Array(_)) => writer.symbol(b"x-cc"),
            (b"x-death", Value091::Array(array)) => {
                deaths::write_opt_deaths(writer, *array, 0);
                continue;
            }
            _ if name.starts_with(b"x-") => writer.symbol(name),
            _ => continue,
        }
        write_value(writer, &value);
    }
}

/// Appends properties, application properties and the head of the body of a message of AMQP 0-9-1. Behind it goes the payload.
pub(super) fn write_bare_head<'p>(properties: &Properties<'p>, payload: &[u8], out: &mut Vec<u8>) {
    let reply_to = properties.reply_to().map(|queue| {
        let mut address = QUEUES.to_vec();
        push_percent_encoded(&queue, &mut address);
        address
    });
    let symbol =
        |text: Option<ShortStr<'p>>| text.filter(|text| text.is_ascii()).map(|text| Symbol(text.as_bytes()));
    let bare = Properties10 {
        message_id: properties.message_id().map(id_of),
        user_id: properties.user_id().map(|user| user.as_bytes()),
        reply_to: reply_to.as_deref().map(Str),
        correlation_id: properties.correlation_id().map(id_of),
        content_type: symbol(properties.content_type()),
        content_encoding: symbol(properties.content_encoding()),
        creation_time: properties.timestamp().map(|seconds| Timestamp(millis(seconds))),
        group_id: properties.app_id().filter(|group| is_text(group)).map(|group| Str(group.as_bytes())),
        ..Properties10::EMPTY
    };
    if bare != Properties10::EMPTY {
        bare.encode(out);
    }
    write_application_properties(properties, out);
    let is_encoded = properties.type_().is_some_and(|own_type| *own_type == *ENCODED) && is_body(payload);
    if !is_encoded {
        write_data_head(payload.len(), out);
    }
}

/// A text as an id: a UUID if it says so.
fn id_of(text: ShortStr<'_>) -> MessageId<'_> {
    match uuid_of(&text) {
        Some(uuid) => MessageId::Uuid(uuid),
        None if is_text(&text) => MessageId::Str(text.as_bytes()),
        None => MessageId::Binary(text.as_bytes()),
    }
}

/// Application properties hold no arrays and tables: these are lost.
fn write_application_properties(properties: &Properties<'_>, out: &mut Vec<u8>) {
    let Some(headers) = properties.headers() else { return };
    let is_kept = |(name, value): &(&[u8], Value091<'_>)| {
        let is_compound = matches!(value, Value091::Array(_) | Value091::Table(_));
        !name.starts_with(b"x-") && !is_compound && is_known(value)
    };
    if !headers.iter().any(|entry| is_kept(&entry)) {
        return;
    }
    Writer::new(out).described(SectionKind::ApplicationProperties as u64, |writer| {
        writer.map(|writer| {
            for (name, value) in headers.iter().filter(is_kept) {
                writer.string(name);
                write_value(writer, &value);
            }
        });
    });
}

/// Whether bytes are body sections, and at most a footer behind them.
fn is_body(bytes: &[u8]) -> bool {
    let is_whole = |sections: Sections<'_>| sections.validate().is_ok();
    let begins =
        SectionCursor::new(bytes).next().and_then(Result::ok).is_some_and(|first| first.kind.is_body());
    begins && Sections::scan(bytes).is_ok_and(is_whole)
}
