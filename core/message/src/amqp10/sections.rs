//! The stored sections of a message, and the facts in them.

use wire::amqp10::{Header, Map, PropertiesView, SectionCursor, SectionKind, Sections, Value, Writer};

use super::values::map_of;
use crate::Format;

/// The annotation with further routing keys, a list of strings.
const CARBON_COPIES: &[u8] = b"x-cc";
const ACQUIRED: &[u8] = b"x-acquired-count";
const FAILED: &[u8] = b"x-delivery-count";

/// Appends what is stored as the properties of a message.
pub fn store(message: &Sections<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(Format::Amqp10.prefix());
    for kind in [SectionKind::Header, SectionKind::MessageAnnotations] {
        out.extend_from_slice(message.raw(kind).unwrap_or_default());
    }
}

/// The stored body of a message: the bare message and the footer.
#[must_use]
pub fn stored_body<'a>(message: &Sections<'a>) -> &'a [u8] {
    &message.message()[message.bare_start()..]
}

/// Whether stored properties have message annotations.
#[inline]
#[must_use]
pub fn has_annotations(properties: &[u8]) -> bool {
    let mut sections = SectionCursor::new(Format::kept(properties)).map_while(Result::ok);
    sections.any(|section| section.kind == SectionKind::MessageAnnotations)
}

/// The user that a stored body says has published it: its properties come first, if it has any.
#[inline]
pub(crate) fn claimed_user(body: &[u8]) -> Option<&[u8]> {
    let first = SectionCursor::new(body).next()?.ok()?;
    let has_properties = first.kind == SectionKind::Properties;
    has_properties.then(|| PropertiesView::of_value(first.value).user_id()).flatten()
}

/// Header of a message, from its stored properties; one of nothing but defaults if it has none.
#[must_use]
pub fn header(properties: &[u8]) -> Header {
    Stored::of_properties(properties).header
}

/// Routing keys in the annotation `x-cc`, from stored properties. Elements that are no strings are passed over.
pub fn copies<'a>(properties: &'a [u8]) -> impl Iterator<Item = &'a [u8]> + use<'a> {
    let value = Stored::of_properties(properties).annotations.get(CARBON_COPIES);
    let list = value.and_then(|value| value.as_list()).unwrap_or_default();
    list.iter().filter_map(|key| key.as_text())
}

/// A stored message, section by section.
#[derive(Clone, Copy, Debug)]
pub struct Stored<'a> {
    /// Header; of nothing but defaults if there is none.
    pub header: Header,
    /// Message annotations.
    pub annotations: Map<'a>,
    /// Properties.
    pub properties: PropertiesView<'a>,
    /// Application properties.
    pub application_properties: Map<'a>,
    /// Body sections and footer; empty of a message that has no body.
    pub body: &'a [u8],
}

impl<'a> Stored<'a> {
    /// Of a stored message. Sections that cannot be read are taken for absent.
    #[must_use]
    pub fn of(properties: &'a [u8], body: &'a [u8]) -> Stored<'a> {
        let mut stored = Stored::of_properties(properties);
        for section in SectionCursor::new(body).map_while(Result::ok) {
            match section.kind {
                SectionKind::Properties => stored.properties = PropertiesView::of_value(section.value),
                SectionKind::ApplicationProperties => {
                    stored.application_properties = map_of(section.value);
                }
                kind if kind.is_body() => {
                    stored.body = &body[section.at..];
                    break;
                }
                _ => {}
            }
        }
        stored
    }

    /// Of what is stored as properties.
    pub(super) fn of_properties(properties: &'a [u8]) -> Stored<'a> {
        let mut stored = Stored {
            header: Header::default(),
            annotations: Map::EMPTY,
            properties: PropertiesView::of_value(&[]),
            application_properties: Map::EMPTY,
            body: &[],
        };
        for section in SectionCursor::new(Format::kept(properties)).map_while(Result::ok) {
            match section.kind {
                SectionKind::Header => stored.header = Header::decode(section.value).unwrap_or_default(),
                SectionKind::MessageAnnotations => stored.annotations = map_of(section.value),
                _ => {}
            }
        }
        stored
    }
}

/// Stored properties that tell how often a quorum queue has handed the message out and had it back as failed.
#[must_use]
pub fn with_counts(properties: &[u8], acquired: u32, failed: u32) -> Vec<u8> {
    let stored = Stored::of_properties(properties);
    let header = Header { delivery_count: Some(failed), ..stored.header };
    rewritten(&header, stored.annotations, &[ACQUIRED, FAILED], |writer| {
        writer.symbol(ACQUIRED);
        writer.value(&Value::Long(acquired.into()));
        if failed > 0 {
            writer.symbol(FAILED);
            writer.value(&Value::Long(failed.into()));
        }
    })
}

/// Stored properties with these annotations, texts and perhaps a number, instead of those of the same names.
#[must_use]
pub fn annotated<'a>(
    properties: &[u8],
    texts: impl Iterator<Item = (&'a str, &'a str)> + Clone,
    number: Option<(&'a str, i64)>,
) -> Vec<u8> {
    let stored = Stored::of_properties(properties);
    let names = texts.clone().map(|(name, _)| name).chain(number.map(|(name, _)| name));
    let names: Vec<&[u8]> = names.map(str::as_bytes).collect();
    rewritten(&stored.header, stored.annotations, &names, |writer| {
        for (name, text) in texts {
            writer.symbol(name.as_bytes());
            writer.string(text.as_bytes());
        }
        if let Some((name, number)) = number {
            writer.symbol(name.as_bytes());
            writer.value(&Value::Long(number));
        }
    })
}

/// Stored properties with an annotation of this name behind all others: a number in their last eight bytes, for readers that know it.
pub(crate) fn with_last_long(properties: &[u8], name: &[u8]) -> Vec<u8> {
    let stored = Stored::of_properties(properties);
    rewritten(&stored.header, stored.annotations, &[name], |writer| {
        writer.symbol(name);
        // No number that takes fewer bytes.
        writer.value(&Value::Long(i64::MAX));
    })
}

/// Stored properties of this header and these annotations without those of some `names`, and what `more` appends instead.
pub(super) fn rewritten(
    header: &Header,
    annotations: Map<'_>,
    names: &[&[u8]],
    more: impl FnOnce(&mut Writer<'_>),
) -> Vec<u8> {
    let mut out = Format::Amqp10.prefix().to_vec();
    header.encode(&mut out);
    Writer::new(&mut out).described(SectionKind::MessageAnnotations as u64, |writer| {
        writer.map(|writer| {
            for (name, value) in annotations.iter() {
                if !name.as_text().is_some_and(|name| names.contains(&name)) {
                    writer.value(&name);
                    writer.value(&value);
                }
            }
            more(writer);
        });
    });
    out
}
