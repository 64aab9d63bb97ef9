//! Properties being built or edited.
//!
//! [`rewrite`] changes single properties and copies all other bytes as received, so that what a client sent
//! survives expiry, dead-lettering and header injection byte for byte.

use super::ShortStr;
use super::field::write_long;
use super::properties::{Properties, Property};
use super::table::Table;
use super::table_buf::TableBuf;
use crate::reader::Reader;

/// Owned properties; `None` is absent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PropertiesBuf {
    /// MIME type of the body; at most 255 bytes, as all strings here.
    pub content_type: Option<Vec<u8>>,
    /// MIME encoding of the body.
    pub content_encoding: Option<Vec<u8>>,
    /// Header table.
    pub headers: Option<TableBuf>,
    /// 2 is persistent, anything else transient.
    pub delivery_mode: Option<u8>,
    /// Priority.
    pub priority: Option<u8>,
    /// Correlates a reply with its request.
    pub correlation_id: Option<Vec<u8>>,
    /// Where to reply to.
    pub reply_to: Option<Vec<u8>>,
    /// Time to live in milliseconds, as text.
    pub expiration: Option<Vec<u8>>,
    /// The application's id of the message.
    pub message_id: Option<Vec<u8>>,
    /// Seconds since 1970.
    pub timestamp: Option<u64>,
    /// The application's type of the message.
    pub type_: Option<Vec<u8>>,
    /// User who publishes it.
    pub user_id: Option<Vec<u8>>,
    /// The publishing application.
    pub app_id: Option<Vec<u8>>,
    /// Reserved.
    pub cluster_id: Option<Vec<u8>>,
}

/// A string property of more than 255 bytes cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("property {property:?} has {bytes} bytes, at most 255 are allowed")]
pub struct PropertyTooLong {
    /// Which one.
    pub property: Property,
    /// Its bytes.
    pub bytes: usize,
}

impl PropertiesBuf {
    /// Appends flags and list.
    ///
    /// # Errors
    /// [`PropertyTooLong`]; nothing is appended then.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), PropertyTooLong> {
        let edits = self.edits()?;
        out.extend_from_slice(&rewrite(Properties::EMPTY.raw(), &edits));
        Ok(())
    }

    /// The properties as edits of empty ones.
    fn edits(&self) -> Result<Vec<Edit<'_>>, PropertyTooLong> {
        let mut edits = Vec::new();
        for (property, text) in self.strings() {
            if let Some(text) = text {
                let bytes = text.len();
                let text = ShortStr::new(text).ok_or(PropertyTooLong { property, bytes })?;
                edits.push(Edit::ShortStr(property, text));
            }
        }
        edits.extend(self.headers.as_ref().map(|headers| Edit::Headers(headers.as_table())));
        edits.extend(self.delivery_mode.map(Edit::DeliveryMode));
        edits.extend(self.priority.map(Edit::Priority));
        edits.extend(self.timestamp.map(Edit::Timestamp));
        Ok(edits)
    }

    fn strings(&self) -> [(Property, Option<&[u8]>); 10] {
        [
            (Property::ContentType, self.content_type.as_deref()),
            (Property::ContentEncoding, self.content_encoding.as_deref()),
            (Property::CorrelationId, self.correlation_id.as_deref()),
            (Property::ReplyTo, self.reply_to.as_deref()),
            (Property::Expiration, self.expiration.as_deref()),
            (Property::MessageId, self.message_id.as_deref()),
            (Property::Type, self.type_.as_deref()),
            (Property::UserId, self.user_id.as_deref()),
            (Property::AppId, self.app_id.as_deref()),
            (Property::ClusterId, self.cluster_id.as_deref()),
        ]
    }
}

impl From<Properties<'_>> for PropertiesBuf {
    fn from(view: Properties<'_>) -> Self {
        let owned = |property| view.short_str(property).map(|text| text.to_vec());
        Self {
            content_type: owned(Property::ContentType),
            content_encoding: owned(Property::ContentEncoding),
            headers: view.headers().map(TableBuf::from),
            delivery_mode: view.delivery_mode(),
            priority: view.priority(),
            correlation_id: owned(Property::CorrelationId),
            reply_to: owned(Property::ReplyTo),
            expiration: owned(Property::Expiration),
            message_id: owned(Property::MessageId),
            timestamp: view.timestamp(),
            type_: owned(Property::Type),
            user_id: owned(Property::UserId),
            app_id: owned(Property::AppId),
            cluster_id: owned(Property::ClusterId),
        }
    }
}

/// One change to properties. Of several to one property the last counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edit<'a> {
    /// Takes a property away.
    Remove(Property),
    /// Sets the header table.
    Headers(Table<'a>),
    /// Sets the delivery mode.
    DeliveryMode(u8),
    /// Sets the priority.
    Priority(u8),
    /// Sets the timestamp, in seconds since 1970.
    Timestamp(u64),
    /// Sets the expiration: milliseconds, as text.
    Expiration(ShortStr<'a>),
    /// Sets the reply address.
    ReplyTo(ShortStr<'a>),
    /// Sets a string property; a property that is no string is left as it is.
    ShortStr(Property, ShortStr<'a>),
}

impl Edit<'_> {
    const fn property(&self) -> Property {
        match *self {
            Edit::Headers(_) => Property::Headers,
            Edit::DeliveryMode(_) => Property::DeliveryMode,
            Edit::Priority(_) => Property::Priority,
            Edit::Timestamp(_) => Property::Timestamp,
            Edit::Expiration(_) => Property::Expiration,
            Edit::ReplyTo(_) => Property::ReplyTo,
            Edit::Remove(property) | Edit::ShortStr(property, _) => property,
        }
    }

    /// Whether the edit changes anything: a string for a property that is none does not.
    fn is_sound(&self) -> bool {
        match self {
            Edit::ShortStr(property, _) => property.layout() == super::properties::Layout::ShortStr,
            _ => true,
        }
    }

    /// Appends the new field; says whether there is one.
    fn write(&self, out: &mut Vec<u8>) -> bool {
        match *self {
            Edit::Remove(_) => return false,
            Edit::Headers(table) => write_long(table.raw(), out),
            Edit::DeliveryMode(octet) | Edit::Priority(octet) => out.push(octet),
            Edit::Timestamp(seconds) => out.extend_from_slice(&seconds.to_be_bytes()),
            Edit::Expiration(text) | Edit::ReplyTo(text) | Edit::ShortStr(_, text) => text.write(out),
        }
        true
    }
}

/// Flags and list with these changes, every other byte as received (the two low flag bits included).
///
/// Of bytes that [`Properties::validate`] refuses, the properties before the first broken one stay and the rest is
/// dropped; the result is always valid except for headers that were or are broken inside.
#[must_use]
pub fn rewrite(raw: &[u8], edits: &[Edit<'_>]) -> Vec<u8> {
    let received = Properties::new(raw).flags();
    let mut reader = Reader::new(raw.get(2..).unwrap_or_default());
    let mut broken = false;
    let mut flags = received & 0b11;
    let mut out = Vec::with_capacity(raw.len() + 64);
    out.extend_from_slice(&[0, 0]);
    for property in Property::ALL {
        let mut field = None;
        if !broken && received & property.bit() != 0 {
            field = property.read_raw(&mut reader);
            broken = field.is_none();
        }
        let edit = edits.iter().rev().find(|edit| edit.property() == property && edit.is_sound());
        let present = match (edit, field) {
            (Some(edit), _) => edit.write(&mut out),
            (None, Some(field)) => {
                out.extend_from_slice(field);
                true
            }
            (None, None) => false,
        };
        if present {
            flags |= property.bit();
        }
    }
    out[..2].copy_from_slice(&flags.to_be_bytes());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_built_is_read_back() {
        let mut headers = TableBuf::new();
        headers.push_i64("n", 1);
        let built = PropertiesBuf {
            content_type: Some(b"text/plain".to_vec()),
            headers: Some(headers),
            delivery_mode: Some(2),
            timestamp: Some(1),
            cluster_id: Some(b"c".to_vec()),
            ..PropertiesBuf::default()
        };
        let mut raw = Vec::new();
        built.encode(&mut raw).unwrap();
        assert_eq!(Properties::new(&raw).validate(), Ok(()));
        assert_eq!(PropertiesBuf::from(Properties::new(&raw)), built);
    }

    #[test]
    fn a_string_that_is_too_long_is_an_error_and_appends_nothing() {
        let built = PropertiesBuf { app_id: Some(vec![0; 256]), ..PropertiesBuf::default() };
        let mut out = Vec::new();
        assert_eq!(built.encode(&mut out), Err(PropertyTooLong { property: Property::AppId, bytes: 256 }));
        assert!(out.is_empty());
    }

    #[test]
    fn an_edit_leaves_every_other_byte_as_received() {
        // headers with a bool of 7 (true) and an 'L': both would change if they were decoded and encoded again
        let raw = b"\xB1\x03\x01t\x00\x00\x00\x0F\x01at\x07\x01bL\0\0\0\0\0\0\0\x01\x02\x0260";
        let headers = Table::from_raw(b"\x01xV");
        assert_eq!(rewrite(raw, &[]), raw);
        assert_eq!(
            rewrite(raw, &[Edit::Remove(Property::Expiration), Edit::Timestamp(5)]),
            b"\xB0\x43\x01t\x00\x00\x00\x0F\x01at\x07\x01bL\0\0\0\0\0\0\0\x01\x02\0\0\0\0\0\0\0\x05"
        );
        assert_eq!(
            rewrite(raw, &[Edit::Headers(headers), Edit::Expiration(ShortStr::bounded(b"7"))]),
            b"\xB1\x03\x01t\x00\x00\x00\x03\x01xV\x02\x017"
        );
    }

    #[test]
    fn the_last_edit_of_a_property_counts_and_unsound_ones_do_not() {
        let text = ShortStr::bounded(b"x");
        assert_eq!(rewrite(b"\0\0", &[Edit::Priority(1), Edit::Priority(2)]), b"\x08\x00\x02");
        assert_eq!(rewrite(b"\0\0", &[Edit::ShortStr(Property::Headers, text)]), b"\0\0");
        assert_eq!(rewrite(b"\0\0", &[Edit::ReplyTo(text), Edit::Remove(Property::ReplyTo)]), b"\0\0");
    }

    #[test]
    fn of_broken_properties_the_readable_ones_stay() {
        assert_eq!(rewrite(b"", &[Edit::DeliveryMode(2)]), b"\x10\x00\x02");
        assert_eq!(rewrite(b"\x90\x00\x09short", &[]), b"\0\0");
        assert_eq!(rewrite(b"\x18\x00\x02", &[]), b"\x10\x00\x02");
    }
}
