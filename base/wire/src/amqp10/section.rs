//! Sections of a message, found by their size words; no tree of values is built.
//!
//! Refuses to know what is in a section. Order and number of sections are checked as RabbitMQ 4.3.5 does
//! (AMQP 1.0 part 3, section 3.2).
//!
//! ```text
//!  message  header? delivery-annotations? message-annotations? properties? application-properties?
//!           (data+ | amqp-sequence+ | amqp-value) footer?
//!  section  0x00 | descriptor 0x70 to 0x78, or its name | list, map, binary or any value
//!  bare message: from properties to the last body section
//! ```

use std::ops::Range;

use super::compound::Map;
use super::message::{Header, PropertiesView};
use super::value::{Value, skip, take};
use crate::reader::Reader;

/// Most sections of a message; RabbitMQ has the same bound.
pub const SECTIONS_MAX: u32 = 10_000;

/// The kind of a section. The numbers are those of the descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum SectionKind {
    /// Header: durable, priority, ttl, first-acquirer, delivery-count.
    Header = 0x70,
    /// Annotations for the next hop.
    DeliveryAnnotations = 0x71,
    /// Annotations for every hop.
    MessageAnnotations = 0x72,
    /// Properties of the bare message.
    Properties = 0x73,
    /// Headers of the application.
    ApplicationProperties = 0x74,
    /// Body: bytes.
    Data = 0x75,
    /// Body: a list.
    Sequence = 0x76,
    /// Body: one value.
    Value = 0x77,
    /// Data that follow the bare message, such as signatures.
    Footer = 0x78,
}

impl SectionKind {
    /// All, in the order in which they may follow each other.
    pub const ALL: [Self; 9] = [
        Self::Header,
        Self::DeliveryAnnotations,
        Self::MessageAnnotations,
        Self::Properties,
        Self::ApplicationProperties,
        Self::Data,
        Self::Sequence,
        Self::Value,
        Self::Footer,
    ];

    /// Name of its descriptor.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Header => "amqp:header:list",
            Self::DeliveryAnnotations => "amqp:delivery-annotations:map",
            Self::MessageAnnotations => "amqp:message-annotations:map",
            Self::Properties => "amqp:properties:list",
            Self::ApplicationProperties => "amqp:application-properties:map",
            Self::Data => "amqp:data:binary",
            Self::Sequence => "amqp:amqp-sequence:list",
            Self::Value => "amqp:amqp-value:*",
            Self::Footer => "amqp:footer:map",
        }
    }

    fn of_code(code: u64) -> Option<Self> {
        Self::ALL.get(usize::try_from(code).ok()?.checked_sub(0x70)?).copied()
    }

    fn of_name(name: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name().as_bytes() == name)
    }

    /// Whether it is one of the three kinds of body.
    #[must_use]
    pub const fn is_body(self) -> bool {
        matches!(self, Self::Data | Self::Sequence | Self::Value)
    }

    /// Whether a section of this kind may have a value with this constructor.
    const fn takes(self, constructor: u8) -> bool {
        match self {
            Self::Header | Self::Properties | Self::Sequence => matches!(constructor, 0x45 | 0xC0 | 0xD0),
            Self::DeliveryAnnotations
            | Self::MessageAnnotations
            | Self::ApplicationProperties
            | Self::Footer => matches!(constructor, 0xC1 | 0xD1),
            Self::Data => matches!(constructor, 0xA0 | 0xB0),
            Self::Value => true,
        }
    }

    const fn slot(self) -> usize {
        match self {
            Self::Header => 0,
            Self::DeliveryAnnotations => 1,
            Self::MessageAnnotations => 2,
            Self::Properties => 3,
            Self::ApplicationProperties => 4,
            Self::Data | Self::Sequence | Self::Value => 5,
            Self::Footer => 6,
        }
    }
}

/// The reason why bytes are no message. Positions count bytes from the front of the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SectionError {
    /// No section begins here.
    #[error("no message section at byte {at}")]
    NotASection {
        /// Where.
        at: usize,
    },
    /// A section that may not stand here: a second one, or one out of order.
    #[error("unexpected section {} at byte {at}", kind.name())]
    Unexpected {
        /// Which.
        kind: SectionKind,
        /// Where.
        at: usize,
    },
    /// The value of a section runs past the end, or is of a type that the section does not have.
    #[error("section {} at byte {at} has no valid value", kind.name())]
    BadValue {
        /// Which.
        kind: SectionKind,
        /// Where.
        at: usize,
    },
    /// More than [`SECTIONS_MAX`] sections.
    #[error("more than {max} sections")]
    TooMany {
        /// Most that are allowed.
        max: u32,
    },
    /// No body section.
    #[error("no body section")]
    NoBody,
}

/// One section, borrowed from the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Section<'a> {
    /// The kind of the section.
    pub kind: SectionKind,
    /// Where it begins in the message, in bytes.
    pub at: usize,
    /// All of it, descriptor included, as received.
    pub raw: &'a [u8],
    /// Its value, constructor included, as received.
    pub value: &'a [u8],
}

impl<'a> Section<'a> {
    /// The bytes of a data section; empty if it is another kind.
    #[inline]
    #[must_use]
    pub fn data(&self) -> &'a [u8] {
        match self.value.split_first() {
            Some((0xA0, rest)) if self.kind == SectionKind::Data => rest.get(1..).unwrap_or_default(),
            Some((0xB0, rest)) if self.kind == SectionKind::Data => rest.get(4..).unwrap_or_default(),
            _ => &[],
        }
    }
}

/// Goes from section to section. Looks at descriptors and sizes only; order and number are not checked.
///
/// After an error there are no more sections.
#[derive(Clone, Copy, Debug)]
pub struct SectionCursor<'a> {
    reader: Reader<'a>,
    bytes: usize,
}

impl<'a> SectionCursor<'a> {
    /// Begins at the front of `message`, which may also be a part of one that begins with a section.
    #[inline]
    #[must_use]
    pub const fn new(message: &'a [u8]) -> Self {
        Self { reader: Reader::new(message), bytes: message.len() }
    }

    #[inline]
    fn kind(&mut self) -> Option<SectionKind> {
        if let [0x00, 0x53, code, ..] = *self.reader.rest() {
            self.reader.bytes(3);
            return SectionKind::of_code(code.into());
        }
        if self.reader.u8()? != 0 {
            return None;
        }
        match Value::read(&mut self.reader).ok()? {
            Value::Ulong(code) => SectionKind::of_code(code),
            Value::Symbol(name) => SectionKind::of_name(name),
            _ => None,
        }
    }

    #[inline]
    fn read(&mut self) -> Result<Section<'a>, SectionError> {
        let before = self.reader.rest();
        let at = self.bytes - before.len();
        let kind = self.kind().ok_or(SectionError::NotASection { at })?;
        let behind_kind = self.reader.rest();
        let takes = behind_kind.first().is_some_and(|constructor| kind.takes(*constructor));
        if !takes || skip(&mut self.reader).is_err() {
            return Err(SectionError::BadValue { kind, at });
        }
        let left = self.reader.rest().len();
        let raw = &before[..before.len() - left];
        let value = &behind_kind[..behind_kind.len() - left];
        Ok(Section { kind, at, raw, value })
    }
}

impl<'a> Iterator for SectionCursor<'a> {
    type Item = Result<Section<'a>, SectionError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.reader.is_empty() {
            return None;
        }
        let section = self.read();
        if section.is_err() {
            self.reader = Reader::new(&[]);
        }
        Some(section)
    }
}

/// Where the sections of a message lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sections<'a> {
    message: &'a [u8],
    /// Begin and end of each; equal if it is not there. All body sections are one span.
    spans: [(usize, usize); 7],
    body: SectionKind,
    body_count: u32,
}

impl<'a> Sections<'a> {
    /// Finds the sections of a whole message and checks order, number and the types of their values.
    ///
    /// # Errors
    /// See [`SectionError`].
    #[inline]
    pub fn scan(message: &'a [u8]) -> Result<Self, SectionError> {
        let mut spans = [(0, 0); 7];
        let mut body = None;
        let mut body_count = 0;
        // Slots that may still be filled: those from this one on.
        let mut from = 0;
        for (count, section) in (0..).zip(SectionCursor::new(message)) {
            let Section { kind, at, raw, .. } = section?;
            if count == SECTIONS_MAX {
                return Err(SectionError::TooMany { max: SECTIONS_MAX });
            }
            let slot = kind.slot();
            let end = at + raw.len();
            let is_next_of_body = body == Some(kind) && kind != SectionKind::Value && from == slot + 1;
            if is_next_of_body {
                spans[slot].1 = end;
                body_count += 1;
                continue;
            }
            if slot < from || (kind == SectionKind::Footer && body.is_none()) {
                return Err(SectionError::Unexpected { kind, at });
            }
            if kind.is_body() {
                body = Some(kind);
                body_count = 1;
            }
            spans[slot] = (at, end);
            from = slot + 1;
        }
        let body = body.ok_or(SectionError::NoBody)?;
        Ok(Self { message, spans, body, body_count })
    }

    /// The whole message.
    #[must_use]
    pub const fn message(&self) -> &'a [u8] {
        self.message
    }

    /// Kind of the body: data, sequence or value.
    #[inline]
    #[must_use]
    pub const fn body_kind(&self) -> SectionKind {
        self.body
    }

    /// How many body sections there are; at least 1.
    #[inline]
    #[must_use]
    pub const fn body_count(&self) -> u32 {
        self.body_count
    }

    /// Bytes of the message that the section takes, descriptor included; empty if it is not there. For the body's kind:
    /// all body sections, from the first to the last.
    #[inline]
    #[must_use]
    pub fn span(&self, kind: SectionKind) -> Range<usize> {
        if kind.is_body() && kind != self.body {
            return 0..0;
        }
        let (start, end) = self.spans[kind.slot()];
        start..end
    }

    /// The section as received, descriptor included; `None` if it is not there.
    #[inline]
    #[must_use]
    pub fn raw(&self, kind: SectionKind) -> Option<&'a [u8]> {
        let span = self.span(kind);
        if span.is_empty() { None } else { Some(&self.message[span]) }
    }

    /// Where the bare message begins: at the properties, the application properties or the body.
    #[inline]
    #[must_use]
    pub fn bare_start(&self) -> usize {
        let slots = [SectionKind::Properties.slot(), SectionKind::ApplicationProperties.slot()];
        let before_body = slots.into_iter().map(|slot| self.spans[slot]).find(|(start, end)| start < end);
        before_body.unwrap_or(self.spans[SectionKind::Data.slot()]).0
    }

    /// The bare message: properties, application properties and body as received.
    #[must_use]
    pub fn bare_message(&self) -> &'a [u8] {
        &self.message[self.bare_start()..self.spans[SectionKind::Data.slot()].1]
    }

    /// The body sections, one by one.
    #[must_use]
    pub fn body(&self) -> SectionCursor<'a> {
        SectionCursor::new(&self.message[self.span(self.body)])
    }

    /// The bytes of the body if it is one data section, as nearly all messages have it.
    #[inline]
    #[must_use]
    pub fn single_data(&self) -> Option<&'a [u8]> {
        if self.body != SectionKind::Data || self.body_count != 1 {
            return None;
        }
        self.body().next()?.ok().map(|section| section.data())
    }

    #[inline]
    fn value(&self, kind: SectionKind) -> Option<&'a [u8]> {
        SectionCursor::new(self.raw(kind)?).next()?.ok().map(|section| section.value)
    }

    /// The header; without one, that of nothing but defaults.
    ///
    /// # Errors
    /// If a field is malformed or of a wrong type.
    #[inline]
    pub fn header(&self) -> Result<Header, super::CompositeError> {
        self.value(SectionKind::Header).map_or(Ok(Header::default()), Header::decode)
    }

    /// The properties; empty if there are none.
    #[inline]
    #[must_use]
    pub fn properties(&self) -> PropertiesView<'a> {
        PropertiesView::of_value(self.value(SectionKind::Properties).unwrap_or(&[0x45]))
    }

    /// The entries of one of the sections that are maps; empty if it is not there, or is no map.
    #[must_use]
    pub fn map(&self, kind: SectionKind) -> Map<'a> {
        let value = self.value(kind).and_then(|value| Value::read(&mut Reader::new(value)).ok());
        value.and_then(|value| value.as_map()).unwrap_or(Map::EMPTY)
    }

    /// The value of an `amqp-value` body.
    #[must_use]
    pub fn amqp_value(&self) -> Option<Value<'a>> {
        Value::read(&mut Reader::new(self.value(SectionKind::Value)?)).ok()
    }

    /// Walks the values of all sections, at most [`super::DEPTH_MAX`] deep. Sections that pass can be read without further checks.
    ///
    /// # Errors
    /// [`SectionError::BadValue`].
    pub fn validate(&self) -> Result<(), SectionError> {
        // Bytes are what they are: of data sections the walk over all sections has seen everything.
        let is_data = self.body == SectionKind::Data;
        let body = self.span(self.body);
        let begin = if is_data && body.start == 0 { body.end } else { 0 };
        for section in SectionCursor::new(&self.message[begin..]) {
            let Section { kind, at, value, .. } = section?;
            let at = begin + at;
            if kind == SectionKind::Data {
                continue;
            }
            let value = Value::read(&mut Reader::new(value)).and_then(|value| value.validate());
            value.map_err(|_| SectionError::BadValue { kind, at })?;
        }
        Ok(())
    }
}

/// Cuts the section at the front of `bytes` off: the section, and what follows it.
///
/// # Errors
/// As [`SectionCursor`].
pub fn split_section(bytes: &[u8]) -> Result<(Section<'_>, &[u8]), SectionError> {
    let section = SectionCursor::new(bytes).read()?;
    Ok((section, &bytes[section.raw.len()..]))
}

/// Appends what stands in front of `bytes` bytes of a data section: 5 or 8 bytes.
///
/// # Panics
/// If they are 4 GiB or more, which no bound of a broker lets through.
#[inline]
pub fn write_data_head(bytes: usize, out: &mut Vec<u8>) {
    match u8::try_from(bytes) {
        Ok(size) => out.extend_from_slice(&[0x00, 0x53, 0x75, 0xA0, size]),
        Err(_) => {
            let [a, b, c, d] = super::writer::size(bytes);
            out.extend_from_slice(&[0x00, 0x53, 0x75, 0xB0, a, b, c, d]);
        }
    }
}

/// Takes one value off the front of `bytes`: its bytes, and what follows.
///
/// # Errors
/// See [`super::TypeError`].
pub fn split_value(bytes: &[u8]) -> Result<(&[u8], &[u8]), super::TypeError> {
    let mut reader = Reader::new(bytes);
    let value = take(&mut reader)?;
    Ok((value, reader.rest()))
}

#[cfg(test)]
mod tests;
