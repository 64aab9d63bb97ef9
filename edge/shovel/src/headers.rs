//! Changes of a shovel in properties: replaced ones, `x-shovelled`, `x-shovelled-timestamp`. Everything else stays as received.

use std::borrow::Cow;

use message::Format;

use wire::amqp091::{
    ArrayBuf, Edit, Property as Name, ShortStr, Table, TableBuf, Value, headers_of, rewrite,
};

use crate::definition::{Definition, From, Property, Stamp, To};

const SHOVELLED: &str = "x-shovelled";
const SHOVELLED_AT: &str = "x-shovelled-timestamp";
const MOVED_AT: &str = "x-opt-shovelled-timestamp";

/// The changes to the properties of every message.
pub(crate) struct Stamps {
    properties: Vec<Property>,
    /// The entry of `x-shovelled`.
    entry: Option<TableBuf>,
    timestamp: Stamp,
    /// Annotations of AMQP 1.0 that say who moved a message.
    annotations: Vec<(&'static str, String)>,
}

/// The shovel that moves a message, and its two ends.
pub(crate) struct Passage<'a> {
    pub(crate) name: &'a str,
    pub(crate) vhost: &'a str,
    pub(crate) cluster: &'a str,
    pub(crate) source_uri: &'a str,
    pub(crate) destination_uri: &'a str,
}

impl Stamps {
    pub(crate) fn new(definition: &Definition, passage: &Passage<'_>) -> Self {
        let destination = &definition.destination;
        let entry = (destination.forward_headers == Stamp::Added).then(|| entry(definition, passage));
        let annotations = match destination.forward_headers {
            Stamp::Omitted => Vec::new(),
            Stamp::Added => vec![
                ("x-opt-shovelled-by", passage.cluster.to_owned()),
                ("x-opt-shovel-type", "dynamic".to_owned()),
                ("x-opt-shovel-name", passage.name.to_owned()),
            ],
        };
        let (properties, timestamp) = (destination.properties.clone(), destination.timestamp_header);
        Self { properties, entry, timestamp, annotations }
    }

    /// Properties of a message of this format as they are sent on by AMQP 1.0: with annotations that say who moved it, and when. The bare message
    /// is never changed, as in RabbitMQ.
    pub(crate) fn annotate<'a>(&self, raw: &'a [u8], format: Format, now_ms: u64) -> Cow<'a, [u8]> {
        let moved_ms = (self.timestamp == Stamp::Added).then_some(now_ms);
        if self.annotations.is_empty() && moved_ms.is_none() {
            return Cow::Borrowed(raw);
        }
        let moved_ms = moved_ms.map(|ms| i64::try_from(ms).unwrap_or(i64::MAX));
        if format == Format::Amqp10 {
            let texts = self.annotations.iter().map(|(name, text)| (*name, text.as_str()));
            return Cow::Owned(message::amqp10::annotated(raw, texts, moved_ms.map(|ms| (MOVED_AT, ms))));
        }
        let mut headers = TableBuf::from(headers_of(raw).unwrap_or_default());
        for (name, text) in &self.annotations {
            headers.remove(*name);
            headers.push_str(*name, text);
        }
        if let Some(ms) = moved_ms {
            headers.remove(MOVED_AT);
            headers.push_i64(MOVED_AT, ms);
        }
        Cow::Owned(rewrite(raw, &[Edit::Headers(headers.as_table())]))
    }

    /// Flags and list of properties as they are sent on; `now_s` is in seconds since 1970.
    pub(crate) fn apply<'a>(&self, raw: &'a [u8], now_s: u64) -> Cow<'a, [u8]> {
        let headers = self.headers(raw, now_s);
        if self.properties.is_empty() && headers.is_none() {
            return Cow::Borrowed(raw);
        }
        let mut edits: Vec<Edit<'_>> = self.properties.iter().map(edit).collect();
        edits.extend(headers.as_ref().map(|table| Edit::Headers(table.as_table())));
        Cow::Owned(rewrite(raw, &edits))
    }

    fn headers(&self, raw: &[u8], now_s: u64) -> Option<TableBuf> {
        if self.entry.is_none() && self.timestamp == Stamp::Omitted {
            return None;
        }
        let received = headers_of(raw).unwrap_or_default();
        let mut headers = TableBuf::from(received);
        if let Some(entry) = &self.entry {
            headers.remove(SHOVELLED);
            headers.push_array(SHOVELLED, prepended(entry.as_table(), received).as_array());
        }
        if self.timestamp == Stamp::Added {
            headers.remove(SHOVELLED_AT);
            headers.push_i64(SHOVELLED_AT, i64::try_from(now_s).unwrap_or(i64::MAX));
        }
        Some(headers)
    }
}

/// The newest passage stands first.
fn prepended(entry: Table<'_>, received: Table<'_>) -> ArrayBuf {
    let mut passages = ArrayBuf::new();
    passages.push_table(entry);
    if let Some(Value::Array(earlier)) = received.get(SHOVELLED) {
        earlier.iter().for_each(|one| {
            passages.push(one);
        });
    }
    passages
}

/// Keys in RabbitMQ's order.
fn entry(definition: &Definition, passage: &Passage<'_>) -> TableBuf {
    let mut table = TableBuf::new();
    match &definition.destination.to {
        To::SameExchange => {}
        To::Address(address) => {
            table.push_str("dest-address", address);
        }
        To::Queue(name) => {
            table.push_str("dest-queue", name);
        }
        To::Exchange { name, key } => {
            table.push_str("dest-exchange", name);
            key.iter().for_each(|key| {
                table.push_str("dest-exchange-key", key);
            });
        }
    }
    table.push_str("dest-uri", passage.destination_uri);
    table.push_str("shovel-name", passage.name).push_str("shovel-type", "dynamic");
    table.push_str("shovel-vhost", passage.vhost).push_str("shovelled-by", passage.cluster);
    match &definition.source.from {
        From::Queue(name) => table.push_str("src-queue", name),
        From::Address(address) => table.push_str("src-address", address),
        From::Exchange { name, key } => {
            table.push_str("src-exchange", name).push_str("src-exchange-key", key)
        }
    };
    table.push_str("src-uri", passage.source_uri);
    table
}

fn edit(property: &Property) -> Edit<'_> {
    match property {
        Property::DeliveryMode(mode) => Edit::DeliveryMode(*mode),
        Property::Priority(priority) => Edit::Priority(*priority),
        Property::Timestamp(seconds) => Edit::Timestamp(*seconds),
        Property::Text(name, text) => text_edit(*name, text),
    }
}

fn text_edit(name: Name, text: &str) -> Edit<'_> {
    Edit::ShortStr(name, ShortStr::clipped(text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definition::{AckMode, Amount, Destination, Source, Topology};
    use crate::uri::Uri;

    fn definition(properties: Vec<Property>, stamp: Stamp) -> Definition {
        let uris = vec![Uri::parse("amqp://u:secret@h").unwrap()];
        Definition {
            source: Source {
                uris: uris.clone(),
                from: From::Exchange { name: "x".into(), key: "k".into() },
                queue_arguments: Vec::new(),
                consumer_arguments: Vec::new(),
                consumer_tag: String::new(),
                prefetch_count: 1,
                amount: Amount::Unlimited,
                lifetime: None,
                topology: Topology::Declared,
            },
            destination: Destination {
                uris,
                to: To::Queue("q".into()),
                queue_arguments: Vec::new(),
                properties,
                forward_headers: stamp,
                timestamp_header: stamp,
                topology: Topology::Declared,
            },
            ack_mode: AckMode::OnConfirm,
            reconnect_delay: None,
        }
    }

    fn stamps(properties: Vec<Property>, stamp: Stamp) -> Stamps {
        let definition = definition(properties, stamp);
        let uri = definition.source.uris[0].shown();
        let passage = Passage { name: "s", vhost: "/", cluster: "c", source_uri: uri, destination_uri: uri };
        Stamps::new(&definition, &passage)
    }

    /// Properties with a header and an application's id.
    fn received() -> Vec<u8> {
        let mut headers = TableBuf::new();
        headers.push_i32("a", 1);
        let name = Edit::ShortStr(Name::AppId, ShortStr::bounded(b"mine"));
        rewrite(b"\0\0", &[Edit::Headers(headers.as_table()), name])
    }

    #[test]
    fn properties_that_nobody_changes_are_the_received_bytes() {
        let raw = received();
        assert!(
            matches!(stamps(Vec::new(), Stamp::Omitted).apply(&raw, 5), Cow::Borrowed(same) if same == raw)
        );
    }

    #[test]
    fn replaced_properties_leave_the_others() {
        let replaced = vec![Property::DeliveryMode(1), Property::Text(Name::AppId, "moved".into())];
        let raw = stamps(replaced, Stamp::Omitted).apply(&received(), 5).into_owned();
        let properties = wire::amqp091::Properties::new(&raw);
        assert_eq!(properties.app_id().unwrap().as_bytes(), b"moved");
        assert_eq!(
            (properties.delivery_mode(), properties.headers().unwrap().get("a")),
            (Some(1), Some(Value::I32(1)))
        );
    }

    #[test]
    fn the_newest_passage_stands_first_and_shows_no_password() {
        let stamps = stamps(Vec::new(), Stamp::Added);
        let once = stamps.apply(&received(), 5).into_owned();
        let twice = stamps.apply(&once, 6).into_owned();
        let headers = headers_of(&twice).unwrap();
        assert_eq!(headers.get(SHOVELLED_AT), Some(Value::I64(6)));
        assert_eq!(headers.get("a"), Some(Value::I32(1)));
        let Some(Value::Array(passages)) = headers.get(SHOVELLED) else { panic!("no passages") };
        let uris: Vec<_> = passages.iter().filter_map(|one| one.as_table()?.get("src-uri")).collect();
        assert_eq!(uris, [Value::LongStr(b"amqp://h"), Value::LongStr(b"amqp://h")]);
    }
}
