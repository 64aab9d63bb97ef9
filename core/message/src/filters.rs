//! Filters of links that receive from streams: which messages the client wants, as AMQP's filter expressions say it.
//!
//! A filter is compiled once, when the link is attached, and evaluated on the sections of a message where they lie. Its cost is bounded: number
//! of fields, length of the expression, steps of a pattern. Refuses to know links and streams.
//!
//! Sources: AMQP Filter Expressions 1.0 (property filters, SQL), in the part that RabbitMQ 4.3 has.

mod like;
mod properties;
mod scalar;
mod sql;

use wire::amqp10::{Described, Descriptor, Header, Map, PropertiesView, SectionCursor, SectionKind};

use crate::amqp10::map_of;

pub use properties::PropertyFilter;
pub use sql::{Sql, SqlError};

/// Which messages a client wants.
#[derive(Clone, Debug, PartialEq)]
pub enum Filter {
    /// Messages that fit all of these; at most one per section.
    Properties(Vec<PropertyFilter>),
    /// Messages for which an expression is true.
    Sql(Sql),
}

// Numbers in filters are compared as they are written, and none of them is NaN.
impl Eq for Filter {}

impl Filter {
    /// Whether a message, all its sections, passes. Sections that cannot be read are taken for absent. `now_ms` is milliseconds since 1970.
    #[must_use]
    pub fn passes(&self, entry: &[u8], now_ms: u64) -> bool {
        let message = Message::of(entry);
        match self {
            Filter::Properties(all) => all.iter().all(|filter| filter.passes(&message)),
            Filter::Sql(sql) => sql.passes(&message, now_ms),
        }
    }
}

/// The sections that filters look at.
struct Message<'a> {
    header: Header,
    annotations: Map<'a>,
    properties: PropertiesView<'a>,
    application_properties: Map<'a>,
}

impl<'a> Message<'a> {
    fn of(entry: &'a [u8]) -> Message<'a> {
        let mut message = Message {
            header: Header::default(),
            annotations: Map::EMPTY,
            properties: PropertiesView::of_value(&[]),
            application_properties: Map::EMPTY,
        };
        for section in SectionCursor::new(entry).map_while(Result::ok) {
            match section.kind {
                SectionKind::Header => message.header = Header::decode(section.value).unwrap_or_default(),
                SectionKind::MessageAnnotations => message.annotations = map_of(section.value),
                SectionKind::Properties => message.properties = PropertiesView::of_value(section.value),
                SectionKind::ApplicationProperties => message.application_properties = map_of(section.value),
                kind if kind.is_body() => break,
                _ => {}
            }
        }
        message
    }
}

/// Whether a described value has this descriptor, by its name or its code.
fn is_described_as(described: &Described<'_>, name: &str, code: u64) -> bool {
    match described.descriptor() {
        Some(Descriptor::Code(known)) => known == code,
        Some(Descriptor::Symbol(known)) => known == name.as_bytes(),
        None => false,
    }
}

#[cfg(test)]
mod tests;
