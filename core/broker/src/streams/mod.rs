//! Streams: queues that keep published messages in a log of their own, and hand them out to any reader, from any offset.
//!
//! A stream's queue is like any other: it is declared, routed to, consumed from, listed and deleted by the same ways. It keeps a
//! [`StreamLog`] of `storage/streamlog`. Sessions of protocols that know streams use it directly, without the queue's cell: they append
//! entries, read chunks as stored, and wait for commits ([`crate::Queue::stream_log`]). Consumers of AMQP 0-9-1 are served by the machine.
//!
//! Refuses to know: frames, and what stands in files.

mod arguments;
mod groups;
mod machine;
mod node;
mod serve;
mod stream;

pub use groups::{
    GroupInfo, GroupJoin, GroupMember, GroupMemberInfo, GroupNews, GroupSeat, GroupStanding, Groups,
    PartitionMismatch,
};
pub use streamlog::{
    Appended, Appender, ChunkFilter, Entry, Limits, PublisherSlot, Reader, Seek, StoredChunk, StreamError,
    StreamInfo, StreamLog,
};

pub(crate) use arguments::{ConsumerRefusal, check as check_consumer};
pub(crate) use machine::StreamMachine;
pub(crate) use node::Streams;
pub(crate) use stream::{Committed, Owner, Stream, limits_of};
