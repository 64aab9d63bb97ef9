//! Deliver frames and the chunks in them.
//!
//! ```text
//!  deliver  subscription id u8 | (version 2: committed chunk id u64) | chunk
//!  chunk    header, 48 bytes | data: entries | trailer, if the reader asked for all chunks
//!
//!   0 magic 0x50 u8    1 type u8          2 entries u16      4 records u32
//!   8 timestamp i64   16 epoch u64       24 chunk id u64    32 CRC-32 of the data u32
//!  36 data bytes u32  40 trailer bytes u32  44 filter bytes u8  45 reserved, 3 bytes
//! ```
//!
//! The chunk id is the offset of its first message. The filter never leaves a node.

use super::entry::Entry;
use super::frame::head;
use crate::reader::Reader;

/// Bytes of a chunk's header.
pub const CHUNK_HEADER_BYTES: usize = 48;
/// First byte of a chunk: magic 5, version 0.
pub const CHUNK_MAGIC: u8 = 0x50;

/// The content of a chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ChunkType(pub u8);

impl ChunkType {
    /// Messages.
    pub const USER: Self = Self(0);
    /// Changes of offsets and publishing ids that are tracked.
    pub const TRACKING_DELTA: Self = Self(1);
    /// All that is tracked.
    pub const TRACKING_SNAPSHOT: Self = Self(2);
}

/// The header of a chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChunkHeader {
    /// The content of the chunk.
    pub chunk_type: ChunkType,
    /// Entries, sub-batches counting one.
    pub entry_count: u16,
    /// Messages, those in sub-batches included.
    pub record_count: u32,
    /// Milliseconds since 1970.
    pub timestamp: i64,
    /// Term of the leader that wrote it.
    pub epoch: u64,
    /// Offset of the first message.
    pub chunk_id: u64,
    /// CRC-32 (IEEE) of the data.
    pub crc: u32,
    /// Bytes of the data.
    pub data_bytes: u32,
    /// Bytes of the trailer.
    pub trailer_bytes: u32,
    /// Bytes of the filter.
    pub filter_bytes: u8,
}

/// A chunk that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChunkError {
    /// It ends within header or data.
    #[error("a chunk ends too early")]
    Truncated,
    /// It begins with another byte than 0x50.
    #[error("a chunk begins with {octet:#04x}")]
    BadMagic {
        /// That byte.
        octet: u8,
    },
    /// Entries and counts of the header do not agree.
    #[error("entries of a chunk do not fit its header")]
    BadEntries,
    /// The data are not those that were written.
    #[error("a chunk's CRC is {found:#010x}, its header says {expected:#010x}")]
    BadCrc {
        /// The checksum that the header has.
        expected: u32,
        /// The checksum of the data.
        found: u32,
    },
}

impl ChunkHeader {
    /// Reads a header.
    ///
    /// # Errors
    /// [`ChunkError::BadMagic`].
    #[inline]
    pub fn decode(bytes: &[u8; CHUNK_HEADER_BYTES]) -> Result<Self, ChunkError> {
        Self::read(&mut Reader::new(bytes)).ok_or(ChunkError::BadMagic { octet: bytes[0] })
    }

    #[inline]
    fn read(reader: &mut Reader<'_>) -> Option<Self> {
        if reader.u8()? != CHUNK_MAGIC {
            return None;
        }
        Some(Self {
            chunk_type: ChunkType(reader.u8()?),
            entry_count: reader.u16()?,
            record_count: reader.u32()?,
            timestamp: reader.u64()?.cast_signed(),
            epoch: reader.u64()?,
            chunk_id: reader.u64()?,
            crc: reader.u32()?,
            data_bytes: reader.u32()?,
            trailer_bytes: reader.u32()?,
            filter_bytes: reader.u8()?,
        })
    }

    /// The header's bytes.
    #[inline]
    #[must_use]
    pub fn encode(&self) -> [u8; CHUNK_HEADER_BYTES] {
        let mut bytes = [0; CHUNK_HEADER_BYTES];
        bytes[0] = CHUNK_MAGIC;
        bytes[1] = self.chunk_type.0;
        bytes[2..4].copy_from_slice(&self.entry_count.to_be_bytes());
        bytes[4..8].copy_from_slice(&self.record_count.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.timestamp.to_be_bytes());
        bytes[16..24].copy_from_slice(&self.epoch.to_be_bytes());
        bytes[24..32].copy_from_slice(&self.chunk_id.to_be_bytes());
        bytes[32..36].copy_from_slice(&self.crc.to_be_bytes());
        bytes[36..40].copy_from_slice(&self.data_bytes.to_be_bytes());
        bytes[40..44].copy_from_slice(&self.trailer_bytes.to_be_bytes());
        bytes[44] = self.filter_bytes;
        bytes
    }
}

/// A chunk as consumers get it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk<'a> {
    /// Its header.
    pub header: ChunkHeader,
    /// Its entries.
    pub data: &'a [u8],
    /// The bytes that follow them: the trailer, or nothing.
    pub trailer: &'a [u8],
}

impl<'a> Chunk<'a> {
    /// Takes a chunk apart; looks at neither entries nor CRC.
    ///
    /// # Errors
    /// [`ChunkError::Truncated`], [`ChunkError::BadMagic`].
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ChunkError> {
        let (header, rest) = bytes.split_first_chunk().ok_or(ChunkError::Truncated)?;
        let header = ChunkHeader::decode(header)?;
        let (data, trailer) =
            rest.split_at_checked(header.data_bytes as usize).ok_or(ChunkError::Truncated)?;
        Ok(Self { header, data, trailer })
    }

    /// Compares the CRC of the data with that of the header.
    ///
    /// # Errors
    /// [`ChunkError::BadCrc`].
    pub fn check_crc(&self) -> Result<(), ChunkError> {
        let (expected, found) = (self.header.crc, crc32fast::hash(self.data));
        if expected == found { Ok(()) } else { Err(ChunkError::BadCrc { expected, found }) }
    }

    /// Walks all entries once: they must fill the data, and be as many as the header says.
    ///
    /// # Errors
    /// [`ChunkError::BadEntries`].
    pub fn check_entries(&self) -> Result<(), ChunkError> {
        let mut reader = Reader::new(self.data);
        let mut records = 0_u32;
        for _ in 0..self.header.entry_count {
            let entry = Entry::read(&mut reader).ok_or(ChunkError::BadEntries)?;
            records += u32::from(entry.record_count());
        }
        let fits = reader.is_empty() && records == self.header.record_count;
        if fits { Ok(()) } else { Err(ChunkError::BadEntries) }
    }

    /// Entries in order, each with the offset of its first message. Ends early at the first malformed one.
    #[inline]
    pub fn entries(&self) -> impl Iterator<Item = (u64, Entry<'a>)> + use<'a> {
        let mut reader = Reader::new(self.data);
        let mut next = self.header.chunk_id;
        (0..self.header.entry_count).map_while(move |_| {
            let entry = Entry::read(&mut reader)?;
            let offset = next;
            next = next.wrapping_add(entry.record_count().into());
            Some((offset, entry))
        })
    }
}

/// Appends a chunk of these entries: header with counts, length and CRC filled in, then the data.
///
/// `header` gives type, timestamp, epoch and chunk id; the rest of it is not looked at. Returns how many entries were
/// taken: at most 65,535, and none that would make the data larger than `data_bytes_max`, except the first.
pub fn write_chunk<'e>(
    header: &ChunkHeader,
    data_bytes_max: usize,
    entries: impl IntoIterator<Item = Entry<'e>>,
    out: &mut Vec<u8>,
) -> u16 {
    let start = out.len();
    out.extend_from_slice(&[0; CHUNK_HEADER_BYTES]);
    let data_start = out.len();
    let (mut entry_count, mut record_count) = (0_u16, 0_u32);
    for entry in entries {
        let bytes = out.len() - data_start + entry.encoded_bytes();
        if entry_count == u16::MAX || (entry_count > 0 && bytes > data_bytes_max) {
            break;
        }
        entry.encode(out);
        entry_count += 1;
        record_count += u32::from(entry.record_count());
    }
    let data = &out[data_start..];
    let data_bytes = u32::try_from(data.len()).expect("a chunk is below 4 GiB: its entries are bounded");
    let crc = crc32fast::hash(data);
    let header = ChunkHeader {
        entry_count,
        record_count,
        crc,
        data_bytes,
        trailer_bytes: 0,
        filter_bytes: 0,
        ..*header
    };
    out[start..data_start].copy_from_slice(&header.encode());
    entry_count
}

/// A chunk for a consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deliver<'a> {
    /// Subscription.
    pub subscription_id: u8,
    /// Id of the last chunk that consumers may see; version 2 only.
    pub committed_chunk_id: Option<u64>,
    /// The chunk, for [`Chunk::parse`].
    pub chunk: &'a [u8],
}

impl<'a> Deliver<'a> {
    /// Key of the command.
    pub const KEY: u16 = 0x0008;

    #[inline]
    pub(super) fn read(version: u16, reader: &mut Reader<'a>) -> Option<Self> {
        let subscription_id = reader.u8()?;
        let committed_chunk_id = if version == 1 { None } else { Some(reader.u64()?) };
        let chunk = reader.bytes(reader.rest().len())?;
        Some(Self { subscription_id, committed_chunk_id, chunk })
    }

    /// Appends the whole frame: of version 2 if the committed chunk id is there.
    pub fn encode(&self, out: &mut Vec<u8>) {
        write_deliver_head(self.subscription_id, self.committed_chunk_id, self.chunk.len(), out);
        out.extend_from_slice(self.chunk);
    }
}

/// Appends what stands in front of a chunk of `chunk_bytes` bytes: 9 bytes, or 17 in version 2, which has the committed
/// chunk id.
///
/// # Panics
/// If the frame would have 4 GiB or more, which no `frame_max` lets through.
#[inline]
pub fn write_deliver_head(
    subscription_id: u8,
    committed_chunk_id: Option<u64>,
    chunk_bytes: usize,
    out: &mut Vec<u8>,
) {
    match committed_chunk_id {
        None => {
            out.extend_from_slice(&head(Deliver::KEY, false, 1, 1 + chunk_bytes));
            out.push(subscription_id);
        }
        Some(chunk_id) => {
            out.extend_from_slice(&head(Deliver::KEY, false, 2, 9 + chunk_bytes));
            out.push(subscription_id);
            out.extend_from_slice(&chunk_id.to_be_bytes());
        }
    }
}
