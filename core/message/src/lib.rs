//! Messages as the broker keeps them: as received, with a mark of the protocol they came by. Reads them and converts them.
//!
//! Queues, exchanges and the log carry bytes and a few [`Facts`]; this library alone knows what the bytes of each format mean.
//! Refuses to know queues, bindings, permissions, sockets, and the time.

pub mod amqp10;
mod format;
#[doc(hidden)]
pub mod fuzzing;
mod view;

pub use format::Format;
pub use view::MessageView;
