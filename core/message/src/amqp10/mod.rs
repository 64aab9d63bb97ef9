//! Messages that came by AMQP 1.0: how they are stored, what queues must know of them, and the way to AMQP 0-9-1 and back.
//!
//! ```text
//!  stored properties   [1, 0x02] | header section? | message annotations section?      as received
//!  stored body         properties? | application properties? | body+ | footer?         as received
//! ```
//!
//! Delivery annotations are for one hop: they are not stored. Nothing is unfolded into values but on the way to another protocol.
//! The conversions are those of RabbitMQ's message containers.

mod amqp091;
mod deaths;
mod deliver;
mod modified;
mod sections;
mod values;

pub use amqp091::in_amqp091;
pub use deaths::died;
pub use deliver::{Acquired, encode_head, sections_of};
pub use modified::{delivery_time_ms, merged, with_annotations};
pub use sections::{Stored, annotated, copies, has_annotations, header, store, stored_body, with_counts};
pub(crate) use sections::{claimed_user, with_last_long};
pub(crate) use values::map_of;
pub use values::{push_entry, write_entry};

#[cfg(test)]
mod tests;
