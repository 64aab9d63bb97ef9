//! Bodies of messages that went to several queues, once each: in memory, in the message log, in segments of their own.
//!
//! Principal type: [`Bodies`]. Queues hold handles; when the last one is gone, so is the body. The log has the bytes of a body before the
//! first record of a queue that names it, and later the place in a segment: nothing is logged when it goes. After a restart the bodies that
//! queues name are kept.
//!
//! Refuses to know: messages, and which queues have a body.

mod found;
mod from_log;
mod moving;
#[cfg(test)]
mod needed_tests;
mod node;
mod record;
mod segments;
mod store;
#[cfg(test)]
mod tests;

pub(crate) use found::{BodiesFound, FoundAt, LoggedBody};
pub(crate) use from_log::body_of;
pub(crate) use moving::Moved;
pub(crate) use node::BodyNode;
pub(crate) use record::{BODY, PLACES, each_place, read_body, write_body};
pub(crate) use store::{Bodies, Fetched, STREAM};
