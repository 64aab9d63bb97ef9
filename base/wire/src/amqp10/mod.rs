//! AMQP 1.0: values, message sections, and what they are written with.
//!
//! A message is never unfolded into values. [`Sections`] finds its sections by their size words, and readers such as
//! [`PropertiesView`] look at one field where it lies. Principal types: [`Value`], [`Sections`], [`Writer`].
//!
//! Sources: OASIS AMQP 1.0 parts 1 and 3, and RabbitMQ 4.3 where it is more lenient: counts of lists and maps are not
//! looked at, strings need not be UTF-8, symbols need not be ASCII. Stricter than RabbitMQ: nesting beyond
//! [`DEPTH_MAX`] is refused.

mod compound;
mod define;
mod field;
mod message;
#[cfg(test)]
mod samples;
mod section;
mod value;
mod writer;

pub use compound::{Array, Described, Descriptor, Elements, Entries, Items, List, Map};
pub use define::CompositeError;
pub use field::{Str, Symbol, Timestamp};
pub use message::{Header, MessageId, Properties, PropertiesView};
pub use section::{
    SECTIONS_MAX, Section, SectionCursor, SectionError, SectionKind, Sections, split_section, split_value,
    write_data_head,
};
pub use value::{DEPTH_MAX, TypeError, Value};
pub use writer::{MixedArray, Writer};
