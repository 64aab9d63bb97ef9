//! STOMP 1.0, 1.1 and 1.2 in one codec; the version is an argument.
//!
//! Both directions use it: server, clients and fuzzers. Principal types: [`Frame`], [`Headers`], [`FrameWriter`], [`FrameEnds`].
//!
//! Source: the specifications of STOMP. As RabbitMQ's parser, it reads any command, takes CR LF as the end of a line in every version,
//! and keeps names and values as bytes. Stricter than RabbitMQ's: version 1.0 has no escapes, and version 1.1 none for CR.

mod ends;
mod frame;
mod header;
mod version;
mod writer;

pub use ends::FrameEnds;
pub use frame::{Frame, FrameError, Limits, Parsed, parse_frame};
pub use header::{HEADERS_MAX, Headers};
pub use version::Version;
pub use writer::FrameWriter;
