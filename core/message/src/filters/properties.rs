//! Property filters: fields of one section and what they have to be (AMQP Filter Expressions 1.0, section 4).

use wire::amqp10::{Described, Map, PropertiesView, Value};

use super::scalar::Scalar;
use super::{Message, is_described_as};

/// Most fields of one filter.
const FIELDS_MAX: usize = 16;

/// The conditions on the fields of one section.
#[derive(Clone, Debug, PartialEq)]
pub struct PropertyFilter {
    section: Section,
    fields: Vec<(Box<[u8]>, Wanted)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Section {
    Properties,
    ApplicationProperties,
}

/// The condition on a field.
#[derive(Clone, Debug, PartialEq)]
enum Wanted {
    Anything,
    Bool(bool),
    Int(i128),
    Float(f64),
    Bytes(Box<[u8]>),
    /// `&p:`
    Prefix(Box<[u8]>),
    /// `&s:`
    Suffix(Box<[u8]>),
}

impl PropertyFilter {
    /// Of a described value. `None`: it is no such filter, or one that RabbitMQ does not take.
    #[must_use]
    pub fn parse(described: &Described<'_>) -> Option<PropertyFilter> {
        let section = if is_described_as(described, "amqp:properties-filter", 0x173) {
            Section::Properties
        } else if is_described_as(described, "amqp:application-properties-filter", 0x174) {
            Section::ApplicationProperties
        } else {
            return None;
        };
        let map = described.value()?.as_map()?;
        let fields = match section {
            Section::Properties => fields_of(map, property),
            Section::ApplicationProperties => fields_of(map, application_property),
        }?;
        (!fields.is_empty()).then_some(PropertyFilter { section, fields })
    }

    /// Whether both look at the same section.
    #[must_use]
    pub fn is_of_section_of(&self, other: &PropertyFilter) -> bool {
        self.section == other.section
    }

    pub(super) fn passes(&self, message: &Message<'_>) -> bool {
        self.fields.iter().all(|(name, wanted)| match self.section {
            Section::Properties => wanted.is(field(&message.properties, name)),
            Section::ApplicationProperties => {
                let value = message.application_properties.get(name);
                value.is_some_and(|value| match value {
                    Value::Null => *wanted == Wanted::Anything,
                    value => Scalar::of(&value).is_some_and(|value| wanted.is(value)),
                })
            }
        })
    }
}

/// All entries of a filter, or nothing if one of them is wrong or there are too many.
fn fields_of(
    map: Map<'_>,
    read: fn(&Value<'_>, &Value<'_>) -> Option<(Box<[u8]>, Wanted)>,
) -> Option<Vec<(Box<[u8]>, Wanted)>> {
    let mut fields = Vec::new();
    for entry in map.entries() {
        let (name, value) = entry.ok()?;
        if fields.len() == FIELDS_MAX {
            return None;
        }
        fields.push(read(&name, &value)?);
    }
    Some(fields)
}

/// An entry of a filter of properties: names are symbols, and each has its type.
fn property(name: &Value<'_>, value: &Value<'_>) -> Option<(Box<[u8]>, Wanted)> {
    let Value::Symbol(name) = *name else { return None };
    let wanted = match (name, value) {
        (b"message-id" | b"correlation-id", Value::Ulong(_) | Value::Uuid(_) | Value::Binary(_))
        | (b"user-id", Value::Binary(_))
        | (b"content-type" | b"content-encoding", Value::Symbol(_))
        | (b"absolute-expiry-time" | b"creation-time", Value::Timestamp(_))
        | (b"group-sequence", Value::Uint(_)) => Wanted::plain(value)?,
        (
            b"message-id" | b"correlation-id" | b"to" | b"subject" | b"reply-to" | b"group-id"
            | b"reply-to-group-id",
            Value::Str(text),
        ) => Wanted::text(text)?,
        _ => return None,
    };
    Some((name.into(), wanted))
}

fn application_property(name: &Value<'_>, value: &Value<'_>) -> Option<(Box<[u8]>, Wanted)> {
    let Value::Str(name) = *name else { return None };
    let wanted = match value {
        Value::Null => Wanted::Anything,
        Value::Str(text) => Wanted::text(text)?,
        value => Wanted::plain(value)?,
    };
    Some((name.into(), wanted))
}

/// A property by its name.
pub(super) fn field<'a>(properties: &PropertiesView<'a>, name: &[u8]) -> Scalar<'a> {
    let known = match name {
        b"message-id" => properties.message_id().map(Scalar::of_id),
        b"user-id" => properties.user_id().map(Scalar::Bytes),
        b"to" => properties.to().map(|text| Scalar::Bytes(text.0)),
        b"subject" => properties.subject().map(|text| Scalar::Bytes(text.0)),
        b"reply-to" => properties.reply_to().map(|text| Scalar::Bytes(text.0)),
        b"correlation-id" => properties.correlation_id().map(Scalar::of_id),
        b"content-type" => properties.content_type().map(|text| Scalar::Bytes(text.0)),
        b"content-encoding" => properties.content_encoding().map(|text| Scalar::Bytes(text.0)),
        b"absolute-expiry-time" => properties.absolute_expiry_time().map(|time| Scalar::Int(time.0.into())),
        b"creation-time" => properties.creation_time().map(|time| Scalar::Int(time.0.into())),
        b"group-id" => properties.group_id().map(|text| Scalar::Bytes(text.0)),
        b"group-sequence" => properties.group_sequence().map(|number| Scalar::Int(number.into())),
        b"reply-to-group-id" => properties.reply_to_group_id().map(|text| Scalar::Bytes(text.0)),
        _ => None,
    };
    known.unwrap_or(Scalar::Unknown)
}

impl Wanted {
    /// A text, with its modifier (section 4.1.1).
    fn text(text: &[u8]) -> Option<Wanted> {
        Some(match text {
            [b'&', b's', b':', rest @ ..] => Wanted::Suffix(rest.into()),
            [b'&', b'p', b':', rest @ ..] => Wanted::Prefix(rest.into()),
            [b'&', b'&', ..] => Wanted::Bytes(text[1..].into()),
            [b'&', ..] => return None,
            text => Wanted::Bytes(text.into()),
        })
    }

    fn plain(value: &Value<'_>) -> Option<Wanted> {
        Some(match Scalar::of(value)? {
            Scalar::Unknown => return None,
            Scalar::Bool(flag) => Wanted::Bool(flag),
            Scalar::Int(number) => Wanted::Int(number),
            Scalar::Float(number) => Wanted::Float(number),
            Scalar::Bytes(bytes) => Wanted::Bytes(bytes.into()),
            Scalar::Uuid(bytes) => Wanted::Bytes(bytes.into()),
        })
    }

    fn is(&self, value: Scalar<'_>) -> bool {
        match self {
            Wanted::Anything => true,
            Wanted::Bool(flag) => value.equals(&Scalar::Bool(*flag)),
            Wanted::Int(number) => value.equals(&Scalar::Int(*number)),
            Wanted::Float(number) => value.equals(&Scalar::Float(*number)),
            Wanted::Bytes(bytes) => value.bytes() == Some(bytes),
            Wanted::Prefix(prefix) => value.bytes().is_some_and(|bytes| bytes.starts_with(prefix)),
            Wanted::Suffix(suffix) => value.bytes().is_some_and(|bytes| bytes.ends_with(suffix)),
        }
    }
}
