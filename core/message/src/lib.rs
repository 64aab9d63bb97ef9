//! Messages as the broker keeps them: as received, with a mark of the protocol they came by. Reads them and converts them.
//!
//! Queues, exchanges and the log carry bytes and a few [`Facts`]; this library alone knows what the bytes of each format mean.
//! Refuses to know queues, bindings, permissions, sockets, and the time.
//!
//! The broker has one vocabulary for values: field tables, and the fourteen [`Properties`] of AMQP 0-9-1. Arguments, headers and
//! annotations are written in it. Each format can be read in it: see [`MessageView::plain`].

pub mod amqp10;
mod copies;
mod counts;
mod deaths;
mod facts;
mod filters;
mod format;
#[doc(hidden)]
pub mod fuzzing;
mod history;
pub mod mqtt;
mod streamed;
mod unique;
mod view;

pub use wire::amqp091::{
    Array, ArrayBuf, Edit, Properties, PropertiesBuf, Property, ShortStr, Table, TableBuf, Value,
    delivery_mode_of, headers_of, is_same, rewrite,
};

pub use copies::{BadCopies, CarbonCopies, carbon_copies};
pub use counts::with_counts;
pub use deaths::{Death, Died};
pub use facts::{BadExpiration, Facts};
pub use filters::{Filter, PropertyFilter, Sql, SqlError};
pub use format::Format;
pub use history::{History, Keys};
pub use streamed::{AsStored, FromStream, Streamed, ToStream, filter_value};
pub use unique::UniqueKey;
pub use view::{InAmqp091, MessageView, Plain};
