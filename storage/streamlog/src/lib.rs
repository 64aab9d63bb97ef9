//! Append-only streams in files of their own: chunks of entries, rounds that make them durable, readers that keep a position, retention by
//! file, and the walk that finds the end after a crash.
//!
//! Does not know messages, readers, or the protocol that brought an entry. The wire part of a stored chunk is what the stream
//! protocol delivers. Formats are drawn in `docs/formats/streams.md`. Principal types: [`StreamLogs`] for all streams of a node,
//! [`StreamLog`] for one, [`Appender`], [`Reader`].

mod appender;
mod chunk;
mod error;
mod file;
mod filter;
mod footer;
mod format;
mod index;
mod log;
mod node;
mod open;
mod place;
mod reader;
mod round;
mod seek;
mod tail;
mod tracking;
mod walk;

pub use appender::{Appended, Appender, PublisherSlot};
pub use chunk::StoredChunk;
pub use error::StreamError;
pub use filter::{ChunkFilter, FILTER_BYTES_DEFAULT};
pub use log::{CutTail, Limits, OpenedStream, RoundTook, SEGMENT_BYTES_DEFAULT, SEGMENT_BYTES_MAX};
pub use log::{StreamInfo, StreamListener, StreamLog};
pub use node::{StreamLogs, StreamOptions};
pub use reader::Reader;
pub use seek::Seek;
pub use wire::stream::{ChunkHeader, Compression, Entry, SubBatch};
