//! RabbitMQ's stream protocol: frames, all commands, entries and chunks.
//!
//! Numbers are big endian. Both directions of every command encode and decode, so the same code serves the broker,
//! clients and fuzzers. Principal types: [`Message`], [`Publish`], [`Chunk`].
//!
//! Source: RabbitMQ's description of the protocol (`deps/rabbitmq_stream/docs/PROTOCOL.adoc`), and its server and its
//! Java client where that is silent. Stricter than RabbitMQ: strings must be UTF-8, and counts of arrays are those of
//! their items.

mod bodies;
mod code;
pub mod commands;
mod deliver;
mod entry;
mod field;
mod frame;
mod message;
mod publish;
pub mod requests;
pub mod responses;
#[cfg(test)]
mod samples;

pub use code::ResponseCode;
pub use deliver::{
    CHUNK_HEADER_BYTES, CHUNK_MAGIC, Chunk, ChunkError, ChunkHeader, ChunkType, Deliver, write_chunk,
    write_deliver_head,
};
pub use entry::{Compression, Entry, SubBatch, SubBatchError};
pub use field::{
    Broker, CommandVersions, Field, List, ListBuf, NO_LEADER, OffsetSpec, PublishingError, StreamMetadata,
    Trailing, TrailingBytes,
};
pub use frame::{Frame, FrameError, Parsed, SIZE_BYTES, parse_frame};
pub use message::{Command, Message, MessageError, Request, Response};
pub use publish::{Publish, PublishWriter, PublishedEntry, write_publish_confirm};
