//! Entries: units that a publisher sends and a chunk stores, a message or a batch of them.
//!
//! Refuses to know what is in a message, and how batches are compressed.
//!
//! ```text
//!  message    0 (1 bit) | length (31 bits) | body
//!  sub-batch  1 (1 bit) | compression (3 bits) | reserved (4 bits) | records u16 | uncompressed bytes u32
//!             | length u32 | data: messages, compressed together
//! ```

use crate::reader::Reader;

/// Bytes in front of the data of a sub-batch.
const SUB_BATCH_HEAD_BYTES: usize = 11;
/// Set in the first byte of a sub-batch.
const SUB_BATCH_BIT: u8 = 0x80;

/// How a sub-batch is compressed: three bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Compression(u8);

impl Compression {
    /// Not at all.
    pub const NONE: Self = Self(0);
    /// gzip
    pub const GZIP: Self = Self(1);
    /// snappy
    pub const SNAPPY: Self = Self(2);
    /// lz4
    pub const LZ4: Self = Self(3);
    /// zstd
    pub const ZSTD: Self = Self(4);

    /// Of the low three bits.
    #[must_use]
    pub const fn of_bits(bits: u8) -> Self {
        Self(bits & 0x07)
    }

    /// The three bits.
    #[must_use]
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// Whether it is one of the five that are assigned.
    #[must_use]
    pub const fn is_known(self) -> bool {
        self.0 <= Self::ZSTD.0
    }
}

/// A batch of messages that are stored, and mostly compressed, together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubBatch<'a> {
    /// How the data are compressed.
    pub compression: Compression,
    /// Messages in it.
    pub record_count: u16,
    /// Length of the data before compression, in bytes, as the publisher says.
    pub uncompressed_bytes: u32,
    /// The data.
    pub data: &'a [u8],
}

/// A sub-batch that no consumer could read. RabbitMQ refuses it and the rest of its frame with code 0x11.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubBatchError {
    /// Larger than allowed once it is unpacked.
    #[error("a sub-batch of {bytes} uncompressed bytes, at most {max} are allowed")]
    TooLarge {
        /// Bytes that it says it has.
        bytes: u32,
        /// Most that are allowed.
        max: u32,
    },
    /// No messages.
    #[error("a sub-batch without messages")]
    Empty,
    /// More messages than have room: each has four bytes of length at least.
    #[error("a sub-batch of {records} messages in {bytes} uncompressed bytes")]
    TooManyRecords {
        /// Messages that it says it has.
        records: u16,
        /// Bytes that it says it has.
        bytes: u32,
    },
    /// Nobody knows the compression.
    #[error("a sub-batch of unknown compression {bits}")]
    UnknownCompression {
        /// The three bits.
        bits: u8,
    },
    /// Compressed, but without data.
    #[error("a compressed sub-batch without data")]
    NoData,
}

impl<'a> SubBatch<'a> {
    /// Checks what can be seen from outside, as RabbitMQ 4.3.5 does.
    ///
    /// # Errors
    /// See [`SubBatchError`].
    pub fn check(&self, uncompressed_bytes_max: u32) -> Result<(), SubBatchError> {
        let (bytes, records) = (self.uncompressed_bytes, self.record_count);
        if bytes > uncompressed_bytes_max {
            return Err(SubBatchError::TooLarge { bytes, max: uncompressed_bytes_max });
        }
        if records == 0 {
            return Err(SubBatchError::Empty);
        }
        if u32::from(records) * 4 > bytes {
            return Err(SubBatchError::TooManyRecords { records, bytes });
        }
        if !self.compression.is_known() {
            return Err(SubBatchError::UnknownCompression { bits: self.compression.bits() });
        }
        if self.data.is_empty() && self.compression != Compression::NONE {
            return Err(SubBatchError::NoData);
        }
        Ok(())
    }

    /// The messages of a batch that is not compressed; none of one that is. Ends early at the first malformed one.
    pub fn messages(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let is_plain = self.compression == Compression::NONE;
        let mut reader = Reader::new(if is_plain { self.data } else { &[] });
        (0..self.record_count).map_while(move |_| match Entry::read(&mut reader)? {
            Entry::Message(body) => Some(body),
            Entry::SubBatch(_) => None,
        })
    }
}

/// One entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry<'a> {
    /// A message: normally the sections of AMQP 1.0.
    Message(&'a [u8]),
    /// A batch of messages.
    SubBatch(SubBatch<'a>),
}

impl<'a> Entry<'a> {
    /// How many messages, and so offsets, it has.
    #[inline]
    #[must_use]
    pub const fn record_count(&self) -> u16 {
        match self {
            Self::Message(_) => 1,
            Self::SubBatch(batch) => batch.record_count,
        }
    }

    /// Bytes it takes, its head included.
    #[must_use]
    pub const fn encoded_bytes(&self) -> usize {
        match self {
            Self::Message(body) => 4 + body.len(),
            Self::SubBatch(batch) => SUB_BATCH_HEAD_BYTES + batch.data.len(),
        }
    }

    /// The first entry of these bytes, and what follows it; `None` when they do not begin with a whole one.
    #[inline]
    #[must_use]
    pub fn split(bytes: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let mut reader = Reader::new(bytes);
        let entry = Self::read(&mut reader)?;
        Some((entry, reader.rest()))
    }

    #[inline]
    pub(super) fn read(reader: &mut Reader<'a>) -> Option<Self> {
        let first = *reader.rest().first()?;
        if first & SUB_BATCH_BIT == 0 {
            return reader.long_bytes().map(Self::Message);
        }
        reader.u8()?;
        Some(Self::SubBatch(SubBatch {
            compression: Compression::of_bits(first >> 4),
            record_count: reader.u16()?,
            uncompressed_bytes: reader.u32()?,
            data: reader.long_bytes()?,
        }))
    }

    /// Appends it.
    ///
    /// # Panics
    /// If a message or the data of a batch have 2 GiB or more, which no `frame_max` lets through.
    #[inline]
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Message(body) => {
                out.extend_from_slice(&length(body.len()));
                out.extend_from_slice(body);
            }
            Self::SubBatch(batch) => {
                out.push(SUB_BATCH_BIT | (batch.compression.bits() << 4));
                out.extend_from_slice(&batch.record_count.to_be_bytes());
                out.extend_from_slice(&batch.uncompressed_bytes.to_be_bytes());
                out.extend_from_slice(&length(batch.data.len()));
                out.extend_from_slice(batch.data);
            }
        }
    }
}

fn length(bytes: usize) -> [u8; 4] {
    let length = i32::try_from(bytes).expect("an entry is below 2 GiB: frame_max bounds it");
    length.to_be_bytes()
}
