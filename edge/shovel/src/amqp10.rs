//! The client's side of AMQP 1.0 as far as a shovel needs it: one session with one link, messages in, messages out.
//!
//! ```text
//!  open.rs     protocol headers, SASL, open, begin, attach; declares a queue over the management node
//!  session.rs  frames of an open session: transfers and their settlement, credit, windows
//! ```
//!
//! Refuses to know what is moved.

mod open;
mod session;

pub(crate) use open::{Filters, Wish};
pub(crate) use session::{Answered, Port10};
