//! Message properties as raw bytes, read when asked.
//!
//! Refuses to change them ([`super::rewrite`] does) and to know what they mean to queues.
//!
//! ```text
//!  flags u16 | content-type? content-encoding? headers? delivery-mode? priority? ... cluster-id?
//!    bit 15 = content-type ... bit 2 = cluster-id; only properties whose bit is set are there, in this order
//! ```
//!
//! Bits 1 and 0 are ignored, as RabbitMQ does: bit 0 should announce a second flags word, but basic's fourteen
//! properties never need one, and RabbitMQ takes what follows for the property list.

use super::ShortStr;
use super::table::{TABLE_DEPTH_MAX, Table, TableError};
use crate::reader::Reader;

/// The fourteen properties of class basic, in wire order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Property {
    /// MIME type of the body.
    ContentType = 0,
    /// MIME encoding of the body.
    ContentEncoding = 1,
    /// Header table.
    Headers = 2,
    /// 2 is persistent, anything else transient.
    DeliveryMode = 3,
    /// Priority.
    Priority = 4,
    /// Correlates a reply with its request.
    CorrelationId = 5,
    /// Where to reply to.
    ReplyTo = 6,
    /// Time to live in milliseconds, as text.
    Expiration = 7,
    /// The application's id of the message.
    MessageId = 8,
    /// Seconds since 1970.
    Timestamp = 9,
    /// The application's type of the message.
    Type = 10,
    /// User who published it; checked by the broker.
    UserId = 11,
    /// The publishing application.
    AppId = 12,
    /// Reserved.
    ClusterId = 13,
}

/// How a property is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    ShortStr,
    Table,
    Octet,
    Timestamp,
}

impl Property {
    /// All, in wire order.
    pub const ALL: [Property; 14] = [
        Property::ContentType,
        Property::ContentEncoding,
        Property::Headers,
        Property::DeliveryMode,
        Property::Priority,
        Property::CorrelationId,
        Property::ReplyTo,
        Property::Expiration,
        Property::MessageId,
        Property::Timestamp,
        Property::Type,
        Property::UserId,
        Property::AppId,
        Property::ClusterId,
    ];

    /// Its bit in the flags word.
    #[inline]
    #[must_use]
    pub const fn bit(self) -> u16 {
        0x8000 >> (self as u8)
    }

    #[inline]
    pub(super) const fn layout(self) -> Layout {
        match self {
            Property::Headers => Layout::Table,
            Property::DeliveryMode | Property::Priority => Layout::Octet,
            Property::Timestamp => Layout::Timestamp,
            _ => Layout::ShortStr,
        }
    }

    /// Takes this property's whole field (length included) from the reader.
    #[inline]
    pub(super) fn read_raw<'a>(self, reader: &mut Reader<'a>) -> Option<&'a [u8]> {
        let before = reader.rest();
        match self.layout() {
            Layout::ShortStr => reader.short_bytes()?,
            Layout::Table => reader.long_bytes()?,
            Layout::Octet => reader.bytes(1)?,
            Layout::Timestamp => reader.bytes(8)?,
        };
        Some(&before[..before.len() - reader.rest().len()])
    }
}

/// The reason why bytes are no properties; RabbitMQ crashes the channel over these (541).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PropertiesError {
    /// Less than two bytes, or a property runs past the end.
    #[error("properties end too early")]
    Truncated,
    /// Bytes follow the last property.
    #[error("{count} bytes follow the last property")]
    Trailing {
        /// How many.
        count: usize,
    },
    /// The header table is malformed or nested too deep.
    #[error("headers: {0}")]
    BadHeaders(TableError),
}

/// Message properties: a view of flags and list as received.
///
/// Accessors skip over the properties before the one asked for; the flags alone tell when it is not there. In
/// bytes that [`Properties::validate`] refuses, a property that cannot be read is absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Properties<'a>(&'a [u8]);

impl<'a> Properties<'a> {
    /// No properties at all: two bytes of flags.
    pub const EMPTY: Properties<'static> = Properties(&[0, 0]);

    /// A view of these bytes, unchecked.
    #[inline]
    #[must_use]
    pub const fn new(raw: &'a [u8]) -> Self {
        Self(raw)
    }

    /// Flags and list as received.
    #[inline]
    #[must_use]
    pub const fn raw(&self) -> &'a [u8] {
        self.0
    }

    /// The flags word; 0 if there is none.
    #[inline]
    #[must_use]
    pub fn flags(&self) -> u16 {
        self.0.first_chunk().map_or(0, |flags| u16::from_be_bytes(*flags))
    }

    /// Whether the property's flag is set.
    #[inline]
    #[must_use]
    pub fn has(&self, property: Property) -> bool {
        self.flags() & property.bit() != 0
    }

    /// Walks everything once, the headers too, at most [`TABLE_DEPTH_MAX`] levels deep.
    ///
    /// # Errors
    /// See [`PropertiesError`].
    pub fn validate(&self) -> Result<(), PropertiesError> {
        let mut reader = Reader::new(self.0);
        let flags = reader.u16().ok_or(PropertiesError::Truncated)?;
        if flags >> 2 != 0 {
            for property in Property::ALL.into_iter().filter(|property| flags & property.bit() != 0) {
                let field = property.read_raw(&mut reader).ok_or(PropertiesError::Truncated)?;
                if property == Property::Headers {
                    let table = Table::from_raw(&field[4..]);
                    table.validate(TABLE_DEPTH_MAX).map_err(PropertiesError::BadHeaders)?;
                }
            }
        }
        match reader.rest().len() {
            0 => Ok(()),
            count => Err(PropertiesError::Trailing { count }),
        }
    }

    /// A reader that stands at the property, if it is there.
    #[inline]
    fn seek(&self, property: Property) -> Option<Reader<'a>> {
        let flags = self.flags();
        if flags & property.bit() == 0 {
            return None;
        }
        let mut reader = Reader::new(self.0.get(2..)?);
        // Flags of the properties before this one.
        let mut before = flags & !(property.bit() | (property.bit() - 1));
        while before != 0 {
            let index = before.leading_zeros() as usize;
            Property::ALL[index].read_raw(&mut reader)?;
            before &= !Property::ALL[index].bit();
        }
        Some(reader)
    }

    #[inline]
    pub(super) fn short_str(&self, property: Property) -> Option<ShortStr<'a>> {
        self.seek(property)?.short_bytes().map(ShortStr::bounded)
    }

    /// MIME type of the body.
    #[must_use]
    pub fn content_type(&self) -> Option<ShortStr<'a>> {
        self.short_str(Property::ContentType)
    }

    /// MIME encoding of the body.
    #[must_use]
    pub fn content_encoding(&self) -> Option<ShortStr<'a>> {
        self.short_str(Property::ContentEncoding)
    }

    /// Header table, unchecked.
    #[inline]
    #[must_use]
    pub fn headers(&self) -> Option<Table<'a>> {
        self.seek(Property::Headers)?.long_bytes().map(Table::from_raw)
    }

    /// 2 is persistent, anything else transient.
    #[inline]
    #[must_use]
    pub fn delivery_mode(&self) -> Option<u8> {
        self.seek(Property::DeliveryMode)?.u8()
    }

    /// Priority.
    #[inline]
    #[must_use]
    pub fn priority(&self) -> Option<u8> {
        self.seek(Property::Priority)?.u8()
    }

    /// Correlates a reply with its request.
    #[must_use]
    pub fn correlation_id(&self) -> Option<ShortStr<'a>> {
        self.short_str(Property::CorrelationId)
    }

    /// Where to reply to.
    #[must_use]
    pub fn reply_to(&self) -> Option<ShortStr<'a>> {
        self.short_str(Property::ReplyTo)
    }

    /// Time to live in milliseconds, as text.
    #[must_use]
    pub fn expiration(&self) -> Option<ShortStr<'a>> {
        self.short_str(Property::Expiration)
    }

    /// The application's id of the message.
    #[must_use]
    pub fn message_id(&self) -> Option<ShortStr<'a>> {
        self.short_str(Property::MessageId)
    }

    /// Seconds since 1970.
    #[must_use]
    pub fn timestamp(&self) -> Option<u64> {
        self.seek(Property::Timestamp)?.u64()
    }

    /// The application's type of the message.
    #[must_use]
    pub fn type_(&self) -> Option<ShortStr<'a>> {
        self.short_str(Property::Type)
    }

    /// User who published it.
    #[must_use]
    pub fn user_id(&self) -> Option<ShortStr<'a>> {
        self.short_str(Property::UserId)
    }

    /// The publishing application.
    #[must_use]
    pub fn app_id(&self) -> Option<ShortStr<'a>> {
        self.short_str(Property::AppId)
    }

    /// Reserved.
    #[must_use]
    pub fn cluster_id(&self) -> Option<ShortStr<'a>> {
        self.short_str(Property::ClusterId)
    }
}

/// The delivery mode in raw properties; constant time if there is none, or nothing but a few fields before it.
#[inline]
#[must_use]
pub fn delivery_mode_of(raw: &[u8]) -> Option<u8> {
    Properties::new(raw).delivery_mode()
}

/// The priority in raw properties; constant time if there is none.
#[inline]
#[must_use]
pub fn priority_of(raw: &[u8]) -> Option<u8> {
    Properties::new(raw).priority()
}

/// The expiration's text in raw properties; constant time if there is none.
#[inline]
#[must_use]
pub fn expiration_of(raw: &[u8]) -> Option<&[u8]> {
    Properties::new(raw).expiration().map(ShortStr::as_bytes)
}

/// The header table in raw properties, unchecked; constant time if there is none.
#[inline]
#[must_use]
pub fn headers_of(raw: &[u8]) -> Option<Table<'_>> {
    Properties::new(raw).headers()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All fourteen, in wire order.
    const FULL: &[u8] = b"\xFF\xFC\x02ct\x02ce\0\0\0\x03\x01hV\x02\x09\x02ci\x02rt\x0260\x02mi\0\0\0\0\0\0\0\x07\x02ty\x02ui\x02ai\x02cl";

    #[test]
    fn every_property_is_found_behind_the_others() {
        let properties = Properties::new(FULL);
        assert_eq!(properties.validate(), Ok(()));
        assert_eq!(properties.content_type().unwrap(), "ct");
        assert_eq!(properties.content_encoding().unwrap(), "ce");
        assert_eq!(properties.headers().unwrap().raw(), b"\x01hV");
        assert_eq!(properties.delivery_mode(), Some(2));
        assert_eq!(properties.priority(), Some(9));
        assert_eq!(properties.correlation_id().unwrap(), "ci");
        assert_eq!(properties.reply_to().unwrap(), "rt");
        assert_eq!(properties.expiration().unwrap(), "60");
        assert_eq!(properties.message_id().unwrap(), "mi");
        assert_eq!(properties.timestamp(), Some(7));
        assert_eq!(properties.type_().unwrap(), "ty");
        assert_eq!(properties.user_id().unwrap(), "ui");
        assert_eq!(properties.app_id().unwrap(), "ai");
        assert_eq!(properties.cluster_id().unwrap(), "cl");
    }

    #[test]
    fn fast_helpers_agree_with_the_view() {
        assert_eq!(delivery_mode_of(FULL), Some(2));
        assert_eq!(priority_of(FULL), Some(9));
        assert_eq!(expiration_of(FULL), Some(&b"60"[..]));
        assert_eq!(headers_of(FULL).map(|table| table.raw()), Some(&b"\x01hV"[..]));
        assert_eq!(delivery_mode_of(b"\x10\x00\x01"), Some(1));
        assert_eq!(expiration_of(b"\x10\x00\x01"), None);
    }

    #[test]
    fn absent_and_unreadable_properties_are_none() {
        for raw in [&b""[..], b"\xFF", b"\0\0", b"\xFF\xFC", b"\xFF\xFC\x09short"] {
            let properties = Properties::new(raw);
            assert_eq!(properties.delivery_mode(), None);
            assert_eq!(properties.cluster_id(), None);
        }
    }

    #[test]
    fn validation_finds_short_long_and_broken_properties() {
        assert_eq!(Properties::EMPTY.validate(), Ok(()));
        assert_eq!(Properties::new(&FULL[..FULL.len() - 1]).validate(), Err(PropertiesError::Truncated));
        assert_eq!(Properties::new(b"\0").validate(), Err(PropertiesError::Truncated));
        assert_eq!(Properties::new(b"\0\0\0").validate(), Err(PropertiesError::Trailing { count: 1 }));
        let headers = b"\x20\x00\x00\x00\x00\x01\x09";
        assert_eq!(
            Properties::new(headers).validate(),
            Err(PropertiesError::BadHeaders(TableError::Truncated))
        );
    }

    #[test]
    fn the_two_low_flag_bits_are_ignored_as_rabbitmq_does() {
        assert_eq!(Properties::new(b"\0\x03").validate(), Ok(()));
        assert_eq!(Properties::new(b"\0\x01\0\0").validate(), Err(PropertiesError::Trailing { count: 2 }));
        assert_eq!(Properties::new(b"\x10\x03\x02").delivery_mode(), Some(2));
    }
}
