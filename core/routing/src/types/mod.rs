//! The exchange types: one file each. Types with a table of their own are listed in `table.rs`, those that wrap another in
//! `exchange_type.rs`. They know keys, arguments and headers; they refuse to know exchanges' names and what happens to
//! matches.

pub(crate) mod consistent_hash;
pub(crate) mod deduplication;
pub(crate) mod delayed;
mod direct;
mod fanout;
mod header_bucket;
mod header_filter;
mod header_view;
mod headers;
mod jms_topic;
mod like;
pub(crate) mod misses;
mod modulus_hash;
mod pattern;
mod pool;
mod random;
pub(crate) mod recent_history;
mod selector;
mod topic;

pub(crate) use consistent_hash::ConsistentHashTable;
pub(crate) use direct::DirectTable;
pub(crate) use fanout::FanoutTable;
pub(crate) use header_view::HeaderView;
pub(crate) use headers::HeadersTable;
pub(crate) use jms_topic::JmsTopicTable;
pub(crate) use modulus_hash::ModulusHashTable;
pub(crate) use random::{AnyRandomTable, LocalRandomTable};
pub use selector::SelectorError;
pub(crate) use topic::TopicTable;
pub use topic::{TooManyHashes, topic_key_check};
