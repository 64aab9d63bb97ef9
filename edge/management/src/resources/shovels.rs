//! Shovels as management sees them: their parameters read and judged in RabbitMQ's words, their states listed, restarted, deleted.
//!
//! Refuses to know how messages are moved: that is the crate `shovel`.

mod arguments;
mod checks;
mod definition;
mod parameter;
mod shown;

pub(crate) use arguments::reason;
pub(crate) use checks::term;
pub use definition::read;
pub(crate) use parameter::{Author, check, set};
pub(crate) use shown::{Shown, count, object, parameter};

/// Component under which RabbitMQ keeps shovels.
pub(crate) const SHOVEL: &str = "shovel";
