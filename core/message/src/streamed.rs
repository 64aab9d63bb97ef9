//! Messages in streams: sections of AMQP 1.0 from publishers of any protocol, and the way to consumers of AMQP 0-9-1 and of AMQP 1.0.
//!
//! Messages of a publisher are mostly alike but for their bodies: the part before the body is converted once, each way.

use std::borrow::Cow;

use wire::amqp10::{SectionCursor, SectionKind, Value as Value10};
use wire::amqp091::{Edit, Properties, TableBuf, Value, rewrite};

use crate::amqp10::{Acquired, Stored, encode_head, in_amqp091};
use crate::{Format, MessageView};

mod as_stored;

pub use as_stored::AsStored;

/// The header that says where in its stream a message is.
const OFFSET: &[u8] = b"x-stream-offset";
/// The header, or annotation, that filters go by.
const FILTER_VALUE: &str = "x-stream-filter-value";

/// Makes entries of messages.
#[derive(Debug, Default)]
pub struct ToStream {
    head: Vec<u8>,
    filter: Option<Vec<u8>>,
    /// The body that the head's last bytes were made for, bytes.
    body_bytes: Option<usize>,
}

impl ToStream {
    /// The parts of the entry of this message, and its filter value. `is_alike`: it differs from the one before in its body only.
    pub fn entry<'s>(
        &'s mut self,
        message: &MessageView<'s>,
        is_alike: bool,
    ) -> ([&'s [u8]; 2], Option<&'s [u8]>) {
        let is_plain = message.format() != Format::Amqp10;
        if !(is_alike && is_plain && self.body_bytes == Some(message.body.len())) {
            self.head.clear();
            encode_head(message, Acquired::default(), &mut self.head);
            self.body_bytes = Some(message.body.len());
            if !is_alike {
                self.filter = filter_value(message);
            }
        }
        ([&self.head, message.body], self.filter.as_deref())
    }
}

/// The value that filters of streams go by: a text.
#[must_use]
pub fn filter_value(message: &MessageView<'_>) -> Option<Vec<u8>> {
    if message.format() == Format::Amqp10 {
        return match Stored::of(message.properties, &[]).annotations.get(FILTER_VALUE)? {
            Value10::Str(text) => Some(text.to_vec()),
            _ => None,
        };
    }
    let plain = message.plain();
    match plain.properties().headers()?.get(FILTER_VALUE)? {
        Value::LongStr(text) => Some(text.to_vec()),
        _ => None,
    }
}

/// A message of a stream for a consumer.
#[derive(Debug)]
pub struct Streamed<'s, 'e> {
    /// Exchange it was published to; `""` if it did not come by one.
    pub exchange: &'s [u8],
    /// Routing key; `None` if it did not come by an exchange.
    pub routing_key: Option<&'s [u8]>,
    /// Properties as the broker keeps them in the consumer's protocol, with `x-stream-offset` among headers or annotations.
    pub properties: &'s [u8],
    /// Payload, or the bare message.
    pub body: Cow<'e, [u8]>,
}

/// Makes messages of entries.
#[derive(Debug, Default)]
pub struct FromStream {
    /// The sections before the body of the entry before.
    head: Vec<u8>,
    exchange: Vec<u8>,
    routing_key: Option<Vec<u8>>,
    properties: Vec<u8>,
    /// Where the offset stands in them.
    offset_at: usize,
}

impl FromStream {
    /// The message in an entry: at most 2^63 - 1 is told of offsets. Sections that cannot be read are taken for absent.
    pub fn message<'s, 'e>(&'s mut self, entry: &'e [u8], offset: u64) -> Streamed<'s, 'e> {
        let body = match entry.strip_prefix(&*self.head).filter(|_| !self.head.is_empty()) {
            Some(rest) => whole_payload(rest),
            None => None,
        };
        let body = body.map_or_else(|| self.convert(entry), Cow::Borrowed);
        let told = i64::try_from(offset).unwrap_or(i64::MAX);
        self.properties[self.offset_at..self.offset_at + 8].copy_from_slice(&told.to_be_bytes());
        Streamed {
            exchange: &self.exchange,
            routing_key: self.routing_key.as_deref(),
            properties: &self.properties,
            body,
        }
    }

    fn convert<'e>(&mut self, entry: &'e [u8]) -> Cow<'e, [u8]> {
        let mut stored = Format::Amqp10.prefix().to_vec();
        let (mut bare_at, mut body_at) = (0, 0);
        for section in SectionCursor::new(entry).map_while(Result::ok) {
            match section.kind {
                SectionKind::Header | SectionKind::MessageAnnotations => {
                    stored.extend_from_slice(section.raw);
                }
                SectionKind::DeliveryAnnotations => {}
                kind if kind.is_body() => {
                    body_at = section.at;
                    break;
                }
                _ => continue,
            }
            bare_at = section.at + section.raw.len();
        }
        let bare = &entry[bare_at..];
        let (properties, body) = in_amqp091(&stored, bare);
        let body = match body {
            Cow::Owned(body) => Cow::Owned(body),
            Cow::Borrowed(body) => {
                let at = (body.as_ptr() as usize).wrapping_sub(entry.as_ptr() as usize);
                Cow::Borrowed(entry.get(at..at.wrapping_add(body.len())).unwrap_or_default())
            }
        };
        (self.exchange, self.routing_key) = way_of(&stored);
        let mut headers = TableBuf::new();
        if let Some(before) = Properties::new(&properties).headers() {
            for (name, value) in before.iter().filter(|(name, _)| *name != OFFSET) {
                headers.push_raw(name, value);
            }
        }
        headers.push_i64(OFFSET, 0);
        let edits = [Edit::Headers(headers.as_table()), Edit::DeliveryMode(1)];
        let is_transient = Stored::of(&stored, bare).header.durable == Some(false);
        self.properties = rewrite(&properties, &edits[..if is_transient { 2 } else { 1 }]);
        let table = Properties::new(&self.properties).headers().expect("headers were just set");
        let raw = table.raw();
        let end = raw.as_ptr() as usize + raw.len() - self.properties.as_ptr() as usize;
        self.offset_at = end - 8;
        // A body of several sections, or one that is no data, says nothing about the next one.
        let is_simple = body_at > 0 && whole_payload(&entry[body_at..]).is_some();
        self.head.clear();
        if is_simple {
            self.head.extend_from_slice(&entry[..body_at]);
        }
        body
    }
}

/// Exchange and routing key that a message was published with, of its stored properties.
fn way_of(stored: &[u8]) -> (Vec<u8>, Option<Vec<u8>>) {
    let annotations = Stored::of(stored, &[]).annotations;
    let text = |name: &[u8]| annotations.get(name).and_then(|value| value.as_text()).map(<[u8]>::to_vec);
    (text(b"x-exchange").unwrap_or_default(), text(b"x-routing-key"))
}

/// The payload of a data section that is all there is.
fn whole_payload(section: &[u8]) -> Option<&[u8]> {
    match section {
        [0x00, 0x53, 0x75, 0xa0, bytes, payload @ ..] if payload.len() == usize::from(*bytes) => {
            Some(payload)
        }
        [0x00, 0x53, 0x75, 0xb0, rest @ ..] => {
            let (bytes, payload) = rest.split_first_chunk::<4>()?;
            (payload.len() == u32::from_be_bytes(*bytes) as usize).then_some(payload)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn properties_with(name: &str, value: &str) -> Vec<u8> {
        let mut headers = TableBuf::new();
        headers.push_str(name, value);
        let raw = Properties::EMPTY.raw();
        rewrite(raw, &[Edit::Headers(headers.as_table()), Edit::DeliveryMode(2)])
    }

    #[test]
    fn what_goes_in_comes_out_with_its_offset_whether_it_is_like_the_one_before_or_not() {
        let long = vec![7; 300];
        let (one, other) = (properties_with("a", "b"), properties_with("c", "d"));
        let (mut to, mut from) = (ToStream::default(), FromStream::default());
        let cases: [(&[u8], &[u8], bool); 6] = [
            (&one, b"body", false),
            (&one, b"next", true),
            (&one, &long, true),
            (&one, b"", true),
            (&other, b"x", false),
            (&one, b"y", false),
        ];
        for (offset, (properties, body, is_alike)) in (1_u64 << 40..).zip(cases) {
            let view = MessageView { exchange: b"ex", routing_key: b"key", properties, body };
            let ([head, rest], filter) = to.entry(&view, is_alike);
            assert_eq!(filter, None);
            let entry = [head, rest].concat();
            let streamed = from.message(&entry, offset);
            assert_eq!((streamed.exchange, streamed.routing_key), (&b"ex"[..], Some(&b"key"[..])));
            assert_eq!(&*streamed.body, body);
            let read = Properties::new(streamed.properties);
            let headers = read.headers().unwrap();
            assert_eq!(headers.get("x-stream-offset").and_then(|value| value.as_i64()), Some(offset as i64));
            assert_eq!(headers.iter().count(), 2);
            assert_eq!(headers.get("a").is_some(), properties == one);
            assert_eq!(read.delivery_mode(), Some(2));
        }
    }

    #[test]
    fn the_filter_value_is_a_text_in_the_headers() {
        let properties = properties_with(FILTER_VALUE, "emea");
        let view = MessageView { exchange: b"", routing_key: b"q", properties: &properties, body: b"" };
        assert_eq!(ToStream::default().entry(&view, false).1, Some(&b"emea"[..]));
    }

    #[test]
    fn an_entry_that_is_no_message_has_a_body_and_no_key() {
        let mut from = FromStream::default();
        for entry in [&b""[..], b"garbage", &[0, 0x53, 0x75, 0xa0, 9, 1]] {
            let streamed = from.message(entry, 3);
            assert_eq!(streamed.routing_key, None);
            assert!(Properties::new(streamed.properties).headers().is_some());
        }
    }
}
