//! Header and properties of a message: whole, or one field at a time.
//!
//! Refuses to know what they do (AMQP 1.0 part 3, sections 3.2.1 and 3.2.4).

use super::compound::List;
use super::define::{Composite, CompositeError, composites};
use super::field::{Scalar, Str, Symbol, Timestamp};
use super::value::Value;
use super::writer::Writer;
use crate::reader::Reader;

composites! {
    /// The header that intermediaries look at and change.
    #[derive(Default)]
    Header 0x70 "amqp:header:list" {
        /// Survives a restart; absent means false.
        durable: Option<bool>,
        /// Priority; absent means 4.
        priority: Option<u8>,
        /// Time to live in milliseconds.
        ttl: Option<u32>,
        /// Whether nobody else has acquired the message before; absent means false.
        first_acquirer: Option<bool>,
        /// Failed deliveries before; absent means 0.
        delivery_count: Option<u32>,
    }

    /// Standard properties of the bare message. To read one of many, use [`PropertiesView`].
    #[derive(Default)]
    Properties<'a> 0x73 "amqp:properties:list" {
        /// The application's id of the message.
        message_id: Option<MessageId<'a>>,
        /// User who published it.
        user_id: Option<&'a [u8]>,
        /// Address of the node it is for.
        to: Option<Str<'a>>,
        /// Subject.
        subject: Option<Str<'a>>,
        /// Address to reply to.
        reply_to: Option<Str<'a>>,
        /// Correlates a reply with its request.
        correlation_id: Option<MessageId<'a>>,
        /// MIME type of the body.
        content_type: Option<Symbol<'a>>,
        /// MIME encoding of the body.
        content_encoding: Option<Symbol<'a>>,
        /// When it expires.
        absolute_expiry_time: Option<Timestamp>,
        /// When it was made.
        creation_time: Option<Timestamp>,
        /// Group it belongs to.
        group_id: Option<Str<'a>>,
        /// Place in the group.
        group_sequence: Option<u32>,
        /// Group that replies belong to.
        reply_to_group_id: Option<Str<'a>>,
    }
}

impl Header {
    /// Reads the value of a header section: a list with its constructor.
    ///
    /// # Errors
    /// See [`CompositeError`].
    #[inline]
    pub fn decode(value: &[u8]) -> Result<Self, CompositeError> {
        Self::read_fields(list_of(value)?)
    }

    /// Appends the whole section.
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.write(&mut Writer::new(out));
    }
}

impl<'a> Properties<'a> {
    /// None at all.
    pub const EMPTY: Self = Self {
        message_id: None,
        user_id: None,
        to: None,
        subject: None,
        reply_to: None,
        correlation_id: None,
        content_type: None,
        content_encoding: None,
        absolute_expiry_time: None,
        creation_time: None,
        group_id: None,
        group_sequence: None,
        reply_to_group_id: None,
    };

    /// Reads the value of a properties section: a list with its constructor.
    ///
    /// # Errors
    /// See [`CompositeError`].
    pub fn decode(value: &'a [u8]) -> Result<Self, CompositeError> {
        Self::read_fields(list_of(value)?)
    }

    /// Appends the whole section.
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.write(&mut Writer::new(out));
    }
}

fn list_of(value: &[u8]) -> Result<List<'_>, CompositeError> {
    Value::read(&mut Reader::new(value))?.as_list().ok_or(CompositeError::Unknown)
}

/// A message id or correlation id: one of four types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageId<'a> {
    /// A number.
    Ulong(u64),
    /// A UUID.
    Uuid([u8; 16]),
    /// Bytes.
    Binary(&'a [u8]),
    /// A string as received: not necessarily UTF-8.
    Str(&'a [u8]),
}

impl<'a> Scalar<'a> for MessageId<'a> {
    fn read(value: Value<'a>) -> Option<Self> {
        match value {
            Value::Ulong(number) => Some(Self::Ulong(number)),
            Value::Uuid(bytes) => Some(Self::Uuid(bytes)),
            Value::Binary(bytes) => Some(Self::Binary(bytes)),
            Value::Str(bytes) => Some(Self::Str(bytes)),
            _ => None,
        }
    }

    fn write(&self, writer: &mut Writer<'_>) {
        match *self {
            Self::Ulong(number) => writer.ulong(number),
            Self::Uuid(bytes) => writer.uuid(bytes),
            Self::Binary(bytes) => writer.binary(bytes),
            Self::Str(bytes) => writer.string(bytes),
        }
    }

    #[cfg(test)]
    fn sample(samples: &mut super::samples::Samples<'a>) -> Self {
        match samples.number() % 4 {
            0 => Self::Ulong(samples.number()),
            1 => Self::Uuid([7; 16]),
            2 => Self::Binary(samples.text().as_bytes()),
            _ => Self::Str(samples.text().as_bytes()),
        }
    }
}

/// Properties where they lie: each accessor passes over the fields before the one asked for by their sizes.
///
/// A field that is malformed or of a wrong type is absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PropertiesView<'a>(List<'a>);

impl<'a> PropertiesView<'a> {
    /// The value of a properties section: a list with its constructor. Anything else is a list without fields.
    #[inline]
    #[must_use]
    pub fn of_value(value: &'a [u8]) -> Self {
        Self(list_of(value).unwrap_or(List::EMPTY))
    }

    /// Whether there are no fields.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.raw().is_empty()
    }

    #[inline]
    fn field<T: Scalar<'a>>(&self, index: usize) -> Option<T> {
        T::read(self.0.get(index)?)
    }

    /// The application's id of the message.
    #[must_use]
    pub fn message_id(&self) -> Option<MessageId<'a>> {
        self.field(0)
    }

    /// User who published it.
    #[must_use]
    pub fn user_id(&self) -> Option<&'a [u8]> {
        self.field(1)
    }

    /// Address of the node it is for.
    #[must_use]
    pub fn to(&self) -> Option<Str<'a>> {
        self.field(2)
    }

    /// Subject.
    #[must_use]
    pub fn subject(&self) -> Option<Str<'a>> {
        self.field(3)
    }

    /// Address to reply to.
    #[must_use]
    pub fn reply_to(&self) -> Option<Str<'a>> {
        self.field(4)
    }

    /// Correlates a reply with its request.
    #[must_use]
    pub fn correlation_id(&self) -> Option<MessageId<'a>> {
        self.field(5)
    }

    /// MIME type of the body.
    #[must_use]
    pub fn content_type(&self) -> Option<Symbol<'a>> {
        self.field(6)
    }

    /// MIME encoding of the body.
    #[must_use]
    pub fn content_encoding(&self) -> Option<Symbol<'a>> {
        self.field(7)
    }

    /// When it expires.
    #[must_use]
    pub fn absolute_expiry_time(&self) -> Option<Timestamp> {
        self.field(8)
    }

    /// When it was made.
    #[must_use]
    pub fn creation_time(&self) -> Option<Timestamp> {
        self.field(9)
    }

    /// Group it belongs to.
    #[must_use]
    pub fn group_id(&self) -> Option<Str<'a>> {
        self.field(10)
    }

    /// Place in the group.
    #[must_use]
    pub fn group_sequence(&self) -> Option<u32> {
        self.field(11)
    }

    /// Group that replies belong to.
    #[must_use]
    pub fn reply_to_group_id(&self) -> Option<Str<'a>> {
        self.field(12)
    }
}
