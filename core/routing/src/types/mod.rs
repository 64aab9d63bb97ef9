//! The exchange types: one file each, listed in `table.rs`. They know keys, arguments and headers; they refuse to know
//! exchanges' names and what happens to matches.

mod direct;
mod fanout;
mod header_view;
mod headers;
mod pattern;
mod topic;

pub(crate) use direct::DirectTable;
pub(crate) use fanout::FanoutTable;
pub(crate) use header_view::HeaderView;
pub(crate) use headers::HeadersTable;
pub(crate) use topic::TopicTable;
pub use topic::{TooManyHashes, topic_key_check};
