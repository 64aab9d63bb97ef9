//! The way to consumers of AMQP 1.0: the bare message as it is, and where it lies among the annotations.

use std::borrow::Cow;

use wire::amqp10::{SectionCursor, SectionKind};

use super::{OFFSET, Streamed, way_of};
use crate::Format;
use crate::amqp10::with_last_long;

/// Makes messages of AMQP 1.0 of entries. Messages of one publisher mostly have the same header and annotations, which are converted once.
#[derive(Debug, Default)]
pub struct AsStored {
    /// Header and annotations of the entry before, as they stand in it.
    head: Vec<u8>,
    exchange: Vec<u8>,
    routing_key: Option<Vec<u8>>,
    properties: Vec<u8>,
    /// Something was converted.
    is_known: bool,
}

impl AsStored {
    /// The message in an entry, with the annotation `x-stream-offset`: at most 2^63 - 1 is told of offsets.
    pub fn message<'s, 'e>(&'s mut self, entry: &'e [u8], offset: u64) -> Streamed<'s, 'e> {
        let bare_at = bare_start(entry);
        let (head, bare) = entry.split_at(bare_at);
        if !self.is_known || head != self.head {
            self.convert(head);
        }
        let told = i64::try_from(offset).unwrap_or(i64::MAX);
        let at = self.properties.len() - 8;
        self.properties[at..].copy_from_slice(&told.to_be_bytes());
        Streamed {
            exchange: &self.exchange,
            routing_key: self.routing_key.as_deref(),
            properties: &self.properties,
            body: Cow::Borrowed(bare),
        }
    }

    fn convert(&mut self, head: &[u8]) {
        self.is_known = true;
        self.head.clear();
        self.head.extend_from_slice(head);
        let mut stored = Format::Amqp10.prefix().to_vec();
        for section in SectionCursor::new(head).map_while(Result::ok) {
            if section.kind != SectionKind::DeliveryAnnotations {
                stored.extend_from_slice(section.raw);
            }
        }
        (self.exchange, self.routing_key) = way_of(&stored);
        self.properties = with_last_long(&stored, OFFSET);
    }
}

/// Where the bare message begins.
fn bare_start(entry: &[u8]) -> usize {
    let mut at = 0;
    for section in SectionCursor::new(entry).map_while(Result::ok) {
        match section.kind {
            SectionKind::Header | SectionKind::DeliveryAnnotations | SectionKind::MessageAnnotations => {
                at = section.at + section.raw.len();
            }
            _ => break,
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::amqp10::Stored;
    use crate::{Edit, MessageView, Properties, TableBuf, ToStream, rewrite};

    #[test]
    fn the_bare_message_comes_out_as_it_is_with_its_offset_behind_the_other_annotations() {
        let mut headers = TableBuf::new();
        headers.push_str("x-mine", "yes").push_str("plain", "also");
        let properties = rewrite(Properties::EMPTY.raw(), &[Edit::Headers(headers.as_table())]);
        let (mut to, mut from) = (ToStream::default(), AsStored::default());
        for (offset, body) in [(0, &b"one"[..]), (1, b"two"), (1 << 40, b"three")] {
            let view = MessageView { exchange: b"ex", routing_key: b"key", properties: &properties, body };
            let ([head, rest], _) = to.entry(&view, offset > 0);
            let entry = [head, rest].concat();
            let streamed = from.message(&entry, offset);
            assert_eq!((streamed.exchange, streamed.routing_key), (&b"ex"[..], Some(&b"key"[..])));
            assert!(entry.ends_with(&streamed.body));
            let stored = Stored::of(streamed.properties, &streamed.body);
            let annotation = |name: &str| stored.annotations.get(name);
            assert_eq!(annotation("x-stream-offset").and_then(|value| value.as_i64()), Some(offset as i64));
            assert_eq!(annotation("x-mine").and_then(|value| value.as_text()), Some(&b"yes"[..]));
            assert!(stored.application_properties.get("plain").is_some());
            assert!(stored.body.ends_with(body));
        }
    }

    #[test]
    fn an_entry_without_sections_has_an_offset_all_the_same() {
        let mut from = AsStored::default();
        for (offset, entry) in [(4, &b""[..]), (5, b"garbage"), (6, b"")] {
            let streamed = from.message(entry, offset);
            let stored = Stored::of(streamed.properties, &streamed.body);
            let told = stored.annotations.get("x-stream-offset").and_then(|value| value.as_i64());
            assert_eq!((told, streamed.routing_key), (Some(offset as i64), None));
            assert_eq!(&*streamed.body, entry);
        }
    }
}
