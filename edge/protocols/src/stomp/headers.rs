//! Headers of STOMP to properties and arguments of AMQP 0-9-1, and back.
//!
//! Refuses to know destinations, and what the broker makes of the properties.

use std::collections::HashSet;
use std::str::FromStr;

use wire::amqp091::{Properties, PropertiesBuf, ShortStr, TableBuf, Value};
use wire::stomp::{FrameWriter, Headers};

use super::errors::Trouble;

/// Headers that MESSAGE frames get from the broker: a message cannot bring its own.
const HEADERS_OF_FRAMES: [&[u8]; 6] =
    [b"subscription", b"destination", b"message-id", b"redelivered", b"ack", b"content-length"];

/// Arguments of queues that are texts.
const TEXT_ARGUMENTS: [&str; 9] = [
    "x-dead-letter-exchange",
    "x-dead-letter-routing-key",
    "x-dead-letter-strategy",
    "x-overflow",
    "x-queue-type",
    "x-queue-leader-locator",
    "x-queue-mode",
    "x-max-age",
    "x-queue-version",
];

/// Arguments of queues that are numbers.
const NUMBER_ARGUMENTS: [&str; 10] = [
    "x-expires",
    "x-message-ttl",
    "x-max-length",
    "x-max-length-bytes",
    "x-max-priority",
    "x-delivery-limit",
    "x-quorum-initial-group-size",
    "x-initial-cluster-size",
    "x-stream-max-segment-size-bytes",
    "x-stream-filter-size-bytes",
];

/// A header that is `true` or `false`; `None` if it is not there.
///
/// # Errors
/// It is another text.
pub(crate) fn flag(headers: Headers<'_>, name: &str) -> Result<Option<bool>, Trouble> {
    match headers.get(name.as_bytes()).as_deref() {
        None => Ok(None),
        Some(b"true") => Ok(Some(true)),
        Some(b"false") => Ok(Some(false)),
        Some(_) => Err(Trouble::invalid_value(name)),
    }
}

/// A header that is a number; `None` if it is not there.
///
/// # Errors
/// It is another text, or too large.
pub(crate) fn number<N: FromStr>(headers: Headers<'_>, name: &str) -> Result<Option<N>, Trouble> {
    headers.get(name.as_bytes()).map(|value| parsed(name, &value)).transpose()
}

fn parsed<N: FromStr>(name: &str, value: &[u8]) -> Result<N, Trouble> {
    let number = std::str::from_utf8(value).ok().and_then(|text| text.trim().parse().ok());
    number.ok_or_else(|| Trouble::invalid_value(name))
}

/// Appends the properties of a SEND. `reply_to` replaces its own.
///
/// # Errors
/// A value does not fit.
pub(crate) fn encode_properties(
    headers: Headers<'_>,
    reply_to: Option<&[u8]>,
    out: &mut Vec<u8>,
) -> Result<(), Trouble> {
    let (mut properties, mut table) = (PropertiesBuf::default(), TableBuf::new());
    let mut seen = HashSet::new();
    for (name, value) in headers.iter() {
        if !seen.insert(name.clone()) {
            continue;
        }
        match &*name {
            b"destination" | b"content-length" => {}
            b"content-type" => properties.content_type = Some(value.into_owned()),
            b"content-encoding" => properties.content_encoding = Some(value.into_owned()),
            b"persistent" => properties.delivery_mode = (*value == *b"true").then_some(2),
            b"priority" => properties.priority = Some(parsed("priority", &value)?),
            b"correlation-id" => properties.correlation_id = Some(value.into_owned()),
            b"reply-to" => properties.reply_to = Some(value.into_owned()),
            b"expiration" => properties.expiration = Some(value.into_owned()),
            b"amqp-message-id" => properties.message_id = Some(value.into_owned()),
            b"timestamp" => properties.timestamp = Some(parsed("timestamp", &value)?),
            b"type" => properties.type_ = Some(value.into_owned()),
            b"user-id" => properties.user_id = Some(value.into_owned()),
            b"app-id" => properties.app_id = Some(value.into_owned()),
            _ if name.len() > wire::amqp091::SHORT_STR_BYTES_MAX => {
                return Err(Trouble::told(
                    "Invalid header",
                    "the name of a header has more than 255 bytes\n",
                ));
            }
            _ => {
                table.push_str(&*name, &*value);
            }
        }
    }
    properties.headers = (!table.is_empty()).then_some(table);
    properties.reply_to = reply_to.map(<[u8]>::to_vec).or(properties.reply_to);
    let too_long =
        |error: wire::amqp091::PropertyTooLong| Trouble::told("Invalid header", format!("{error}\n"));
    properties.encode(out).map_err(too_long)
}

/// Writes headers and properties of a message as RabbitMQ does: its headers first, nested ones left out.
pub(crate) fn write_properties<'w>(
    properties: Properties<'_>,
    mut writer: FrameWriter<'w>,
) -> FrameWriter<'w> {
    for (name, value) in properties.headers().into_iter().flat_map(|table| table.iter()) {
        if is_of_frame(name) {
            continue;
        }
        if let Value::LongStr(text) | Value::Bytes(text) = value {
            writer = writer.header(name, text);
        } else if let Some(text) = printed(&value) {
            writer = writer.header(name, text);
        }
    }
    for (name, value) in
        [("app-id", properties.app_id()), ("user-id", properties.user_id()), ("type", properties.type_())]
    {
        writer = with(writer, name, value);
    }
    if let Some(seconds) = properties.timestamp() {
        writer = writer.header("timestamp", seconds.to_string());
    }
    writer = with(writer, "amqp-message-id", properties.message_id());
    writer = with(writer, "expiration", properties.expiration());
    if let Some(reply_to) = properties.reply_to() {
        // A name of a queue becomes a destination.
        let is_destination = reply_to.as_bytes().starts_with(b"/");
        let begin: &[u8] = if is_destination { b"" } else { b"/reply-queue/" };
        writer = writer.header("reply-to", [begin, reply_to.as_bytes()].concat());
    }
    writer = with(writer, "correlation-id", properties.correlation_id());
    if let Some(priority) = properties.priority() {
        writer = writer.header("priority", priority.to_string());
    }
    if properties.delivery_mode() == Some(2) {
        writer = writer.header("persistent", "true");
    }
    writer = with(writer, "content-encoding", properties.content_encoding());
    with(writer, "content-type", properties.content_type())
}

/// Whether a header's name is one of the frame's own, once what a frame cannot say is left out of it.
fn is_of_frame(name: impl AsRef<[u8]>) -> bool {
    let said = name.as_ref().iter().copied().filter(|byte| !matches!(byte, b'\n' | b'\r' | b':' | 0));
    HEADERS_OF_FRAMES.iter().any(|own| said.clone().eq(own.iter().copied()))
}

fn with<'w>(writer: FrameWriter<'w>, name: &str, value: Option<ShortStr<'_>>) -> FrameWriter<'w> {
    match value {
        Some(value) => writer.header(name, value.as_bytes()),
        None => writer,
    }
}

/// A number or flag as text; `None` for what a header cannot say.
fn printed(value: &Value<'_>) -> Option<String> {
    if let Value::Timestamp(seconds) = value {
        return Some(seconds.to_string());
    }
    let number = value.as_i64().map(|number| number.to_string());
    let float = || value.as_f64().map(|number| number.to_string());
    number.or_else(float).or_else(|| value.as_bool().map(|flag| flag.to_string()))
}

/// The arguments of the queue that a SEND or SUBSCRIBE declares.
///
/// # Errors
/// A number is none.
pub(crate) fn queue_arguments(headers: Headers<'_>) -> Result<TableBuf, Trouble> {
    let mut arguments = TableBuf::new();
    for name in TEXT_ARGUMENTS {
        if let Some(value) = headers.get(name.as_bytes()) {
            arguments.push_str(name, &*value);
        }
    }
    for name in NUMBER_ARGUMENTS {
        if let Some(value) = number::<i64>(headers, name)? {
            arguments.push_i64(name, value);
        }
    }
    if let Some(value) = flag(headers, "x-single-active-consumer")? {
        arguments.push_bool("x-single-active-consumer", value);
    }
    Ok(arguments)
}

/// The arguments of the consumer that a SUBSCRIBE makes.
///
/// # Errors
/// A value cannot be read.
pub(crate) fn consumer_arguments(headers: Headers<'_>) -> Result<TableBuf, Trouble> {
    const OFFSET: &str = "x-stream-offset";
    let mut arguments = TableBuf::new();
    if let Some(value) = headers.get(OFFSET.as_bytes()) {
        let text = std::str::from_utf8(&value).map_err(|_| Trouble::invalid_value(OFFSET))?;
        let bad = |_| Trouble::invalid_value(OFFSET);
        match text.split_once('=') {
            Some(("offset", number)) => arguments.push_i64(OFFSET, number.parse().map_err(bad)?),
            Some(("timestamp", seconds)) => arguments.push_timestamp(OFFSET, seconds.parse().map_err(bad)?),
            _ => arguments.push_str(OFFSET, text),
        };
    }
    if let Some(value) = headers.get(b"x-stream-filter") {
        let mut values = wire::amqp091::ArrayBuf::new();
        for one in value.split(|byte| *byte == b',') {
            values.push_str(one);
        }
        arguments.push_array("x-stream-filter", values.as_array());
    }
    if let Some(value) = flag(headers, "x-stream-match-unfiltered")? {
        arguments.push_bool("x-stream-match-unfiltered", value);
    }
    if let Some(priority) = number::<i64>(headers, "x-priority")? {
        arguments.push_i64("x-priority", priority);
    }
    Ok(arguments)
}

#[cfg(test)]
mod tests {
    use wire::stomp::{Limits, Parsed, Version, parse_frame};

    use super::*;

    const LIMITS: Limits = Limits { frame_bytes_max: 10_000, head_bytes_max: 10_000 };

    fn headers(lines: &str) -> Vec<u8> {
        format!("SEND\n{lines}\n\0").into_bytes()
    }

    fn with_headers<R>(lines: &str, then: impl FnOnce(Headers<'_>) -> R) -> R {
        let bytes = headers(lines);
        match parse_frame(&bytes, Version::V12, LIMITS) {
            Ok(Parsed::Complete { frame, .. }) => then(frame.headers),
            other => panic!("no frame: {other:?}"),
        }
    }

    fn written(lines: &str) -> String {
        let mut raw = Vec::new();
        with_headers(lines, |headers| encode_properties(headers, None, &mut raw)).unwrap();
        assert_eq!(Properties::new(&raw).validate(), Ok(()));
        let mut out = Vec::new();
        write_properties(Properties::new(&raw), FrameWriter::new("MESSAGE", Version::V12, &mut out)).end();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_message_does_not_bring_headers_of_the_frame() {
        let mut table = TableBuf::new();
        for name in ["content-length", "content\r-length", "ack", "subscription", "own"] {
            table.push_str(name, "1");
        }
        let mut raw = Vec::new();
        PropertiesBuf { headers: Some(table), ..PropertiesBuf::default() }.encode(&mut raw).unwrap();
        for version in [Version::V10, Version::V11, Version::V12] {
            let mut out = Vec::new();
            write_properties(Properties::new(&raw), FrameWriter::new("MESSAGE", version, &mut out))
                .body(b"b");
            assert_eq!(out, b"MESSAGE\nown:1\ncontent-length:1\n\nb\0\n");
        }
    }

    #[test]
    fn headers_come_back_as_rabbitmq_has_them() {
        let sent = "destination:/queue/q\ncontent-type:text/plain\ncorrelation-id:c1\nreply-to:/queue/rr\nexpires:60000\n\
                    expiration:5000\npriority:3\npersistent:true\ncontent-encoding:utf8\namqp-message-id:mid\ntimestamp:1234\n\
                    type:ty\nuser-id:guest\napp-id:app\ncluster-id:cl\nx-foo:5\nfoo:b\\cr\nfoo:second\n";
        assert_eq!(
            written(sent),
            "MESSAGE\nexpires:60000\ncluster-id:cl\nx-foo:5\nfoo:b\\cr\napp-id:app\nuser-id:guest\ntype:ty\ntimestamp:1234\n\
             amqp-message-id:mid\nexpiration:5000\nreply-to:/queue/rr\ncorrelation-id:c1\npriority:3\npersistent:true\n\
             content-encoding:utf8\ncontent-type:text/plain\n\n\0\n"
        );
        assert_eq!(written("reply-to:xx\npersistent:false\n"), "MESSAGE\nreply-to:/reply-queue/xx\n\n\0\n");
    }

    #[test]
    fn values_that_cannot_be_read_are_refused() {
        let mut out = Vec::new();
        let mut encode =
            |lines: &str| with_headers(lines, |headers| encode_properties(headers, None, &mut out));
        assert!(encode("priority:x\n").is_err());
        assert!(encode("priority:256\n").is_err());
        assert!(encode(&format!("{}:a\n", "n".repeat(256))).is_err());
        assert!(encode(&format!("type:{}\n", "n".repeat(256))).is_err());
        assert!(with_headers("x-message-ttl:abc\n", queue_arguments).is_err());
        assert!(with_headers("durable:maybe\n", |headers| flag(headers, "durable")).is_err());
        assert!(with_headers("x-stream-offset:offset=x\n", consumer_arguments).is_err());
    }

    #[test]
    fn arguments_have_their_types() {
        let lines = "x-message-ttl:60000\nx-queue-type:quorum\nx-single-active-consumer:true\nx-unknown:1\n";
        let arguments = with_headers(lines, queue_arguments).unwrap();
        let table = arguments.as_table();
        assert_eq!(table.get("x-message-ttl"), Some(Value::I64(60_000)));
        assert_eq!(table.get("x-queue-type"), Some(Value::LongStr(b"quorum")));
        assert_eq!(table.get("x-single-active-consumer"), Some(Value::Bool(true)));
        assert_eq!(table.get("x-unknown"), None);
        let arguments = with_headers("x-stream-offset:offset=7\n", consumer_arguments).unwrap();
        assert_eq!(arguments.as_table().get("x-stream-offset"), Some(Value::I64(7)));
    }
}
