//! Chunks: filled by appenders, sealed by the writer, read from memory or from a file.
//!
//! ```text
//!  wire part: header 48 | data        trailer: changes of the tracking table        filter        seal 16
//! ```

use std::sync::Arc;

use wire::stream::{CHUNK_HEADER_BYTES, ChunkHeader, ChunkType, Entry};

use crate::filter::Bloom;
use crate::format::{SEAL_BYTES, Seal, read_seal, write_seal};

/// Data of a chunk above which it takes no further entry.
pub(crate) const CHUNK_DATA_BYTES: usize = 256 << 10;
/// The largest chunk that is believed to be one: an entry is below 1 GiB.
const CHUNK_BYTES_MAX: u64 = 1 << 30;

/// A chunk that takes entries.
pub(crate) struct OpenChunk {
    /// Room for the header, then the entries.
    bytes: Vec<u8>,
    entry_count: u16,
    record_count: u32,
    pub(crate) bloom: Bloom,
}

impl OpenChunk {
    pub(crate) fn new(filter_bytes: u8) -> Self {
        Self { bytes: Vec::new(), entry_count: 0, record_count: 0, bloom: Bloom::new(filter_bytes) }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entry_count == 0
    }

    pub(crate) fn record_count(&self) -> u32 {
        self.record_count
    }

    /// Whether an entry of so many bytes is for the next chunk.
    #[inline]
    pub(crate) fn is_full_for(&self, entry_bytes: usize) -> bool {
        self.entry_count == u16::MAX
            || (self.entry_count > 0
                && self.bytes.len() + entry_bytes > CHUNK_HEADER_BYTES + CHUNK_DATA_BYTES)
    }

    /// Where the next entry's bytes go.
    #[inline]
    fn out(&mut self) -> &mut Vec<u8> {
        if self.bytes.is_empty() {
            self.bytes.extend_from_slice(&[0; CHUNK_HEADER_BYTES]);
        }
        self.entry_count += 1;
        &mut self.bytes
    }

    /// Adds a message that lies in pieces.
    #[inline]
    pub(crate) fn add_message(&mut self, parts: &[&[u8]], bytes: u32) {
        self.record_count += 1;
        let out = self.out();
        out.extend_from_slice(&bytes.to_be_bytes());
        parts.iter().for_each(|part| out.extend_from_slice(part));
    }

    /// Adds an entry as it is.
    pub(crate) fn add_entry(&mut self, entry: &Entry<'_>) {
        self.record_count += u32::from(entry.record_count());
        entry.encode(self.out());
    }

    /// Closes it: an empty one remains. `trailer` has changes of the tracking table.
    pub(crate) fn close(&mut self, chunk_id: u64, epoch: u64, timestamp: i64, trailer: &[u8]) -> ClosedChunk {
        if self.bytes.is_empty() {
            self.bytes.extend_from_slice(&[0; CHUNK_HEADER_BYTES]);
        }
        let filter = self.bloom.bytes();
        let header = ChunkHeader {
            chunk_type: if self.entry_count == 0 { ChunkType::TRACKING_DELTA } else { ChunkType::USER },
            entry_count: self.entry_count,
            record_count: self.record_count,
            timestamp,
            epoch,
            chunk_id,
            crc: 0,
            data_bytes: len_u32(self.bytes.len() - CHUNK_HEADER_BYTES),
            trailer_bytes: len_u32(trailer.len()),
            filter_bytes: u8::try_from(filter.len()).expect("filters have at most 255 bytes"),
        };
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.extend_from_slice(trailer);
        bytes.extend_from_slice(filter);
        (self.entry_count, self.record_count) = (0, 0);
        ClosedChunk { header, bytes }
    }
}

fn len_u32(len: usize) -> u32 {
    u32::try_from(len).expect("chunks are far below 4 GiB")
}

/// A chunk that takes no more entries and has no place in a file yet.
pub(crate) struct ClosedChunk {
    pub(crate) header: ChunkHeader,
    /// Room for the header, data, trailer, filter.
    bytes: Vec<u8>,
}

impl ClosedChunk {
    /// Bytes it takes in a file.
    pub(crate) fn stored_bytes(&self) -> usize {
        self.bytes.len() + SEAL_BYTES
    }

    pub(crate) fn trailer(&self) -> &[u8] {
        let start = CHUNK_HEADER_BYTES + self.header.data_bytes as usize;
        &self.bytes[start..start + self.header.trailer_bytes as usize]
    }

    /// The chunk as it is stored at this place.
    pub(crate) fn seal(mut self, stream: u64, position: u32, seal: Seal) -> StoredChunk {
        let data_end = CHUNK_HEADER_BYTES + self.header.data_bytes as usize;
        self.header.crc = crc32fast::hash(&self.bytes[CHUNK_HEADER_BYTES..data_end]);
        let header = self.header.encode();
        self.bytes[..CHUNK_HEADER_BYTES].copy_from_slice(&header);
        let seal = write_seal(stream, position, &header, &self.bytes[data_end..], seal);
        self.bytes.extend_from_slice(&seal);
        let len = self.bytes.len();
        StoredChunk { block: Arc::new(self.bytes), start: 0, len, header: self.header }
    }
}

/// A chunk as it is stored. Cheap to clone; several may share a block of memory that was read at once.
#[derive(Clone, Debug)]
pub struct StoredChunk {
    block: Arc<Vec<u8>>,
    start: usize,
    /// With trailer, filter and seal.
    len: usize,
    header: ChunkHeader,
}

impl StoredChunk {
    /// Its header.
    #[must_use]
    pub fn header(&self) -> &ChunkHeader {
        &self.header
    }

    /// Header and data, as consumers of the stream protocol get them: its header says that a trailer and a filter follow, which do not.
    #[inline]
    #[must_use]
    pub fn wire_bytes(&self) -> &[u8] {
        &self.stored()[..CHUNK_HEADER_BYTES + self.header.data_bytes as usize]
    }

    /// Its entries.
    #[inline]
    #[must_use]
    pub fn data(&self) -> &[u8] {
        &self.wire_bytes()[CHUNK_HEADER_BYTES..]
    }

    /// Offset of its first record.
    #[must_use]
    pub fn chunk_id(&self) -> u64 {
        self.header.chunk_id
    }

    /// Offset of the record after its last one.
    #[must_use]
    pub fn next_offset(&self) -> u64 {
        self.header.chunk_id + u64::from(self.header.record_count)
    }

    /// The chunk with all that belongs to it in a file.
    pub(crate) fn stored(&self) -> &[u8] {
        &self.block[self.start..self.start + self.len]
    }

    pub(crate) fn trailer(&self) -> &[u8] {
        let start = CHUNK_HEADER_BYTES + self.header.data_bytes as usize;
        &self.stored()[start..start + self.header.trailer_bytes as usize]
    }

    pub(crate) fn filter(&self) -> &[u8] {
        let stored = self.stored();
        let end = stored.len() - SEAL_BYTES;
        &stored[end - usize::from(self.header.filter_bytes)..end]
    }

    pub(crate) fn stored_bytes(&self) -> usize {
        self.len
    }

    /// The chunk that starts at `start` of a block that was read from a file, where that byte is at `position`.
    pub(crate) fn read(
        stream: u64,
        position: u32,
        block: &Arc<Vec<u8>>,
        start: usize,
    ) -> Result<(Self, Seal), ChunkFault> {
        let (header, len) = peek(&block[start..]).ok_or(ChunkFault::NoHeader)?;
        let chunk = Self { block: block.clone(), start, len, header };
        if block.len() - start < len {
            return Err(ChunkFault::Short(len));
        }
        let seal = chunk.check_seal(stream, position).ok_or(ChunkFault::BadSeal)?;
        if crc32fast::hash(chunk.data()) != header.crc {
            return Err(ChunkFault::BadData);
        }
        Ok((chunk, seal))
    }

    fn check_seal(&self, stream: u64, position: u32) -> Option<Seal> {
        let (body, seal) = self.stored().split_last_chunk::<SEAL_BYTES>()?;
        let (header, rest) = body.split_first_chunk::<CHUNK_HEADER_BYTES>()?;
        read_seal(stream, position, header, &rest[self.header.data_bytes as usize..], seal)
    }
}

/// Why bytes are no chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChunkFault {
    NoHeader,
    /// It has so many bytes, of which not all are here.
    Short(usize),
    BadSeal,
    BadData,
}

impl ChunkFault {
    pub(crate) const fn what(self) -> &'static str {
        match self {
            Self::NoHeader => "no chunk starts there",
            Self::Short(_) => "the file ends within a chunk",
            Self::BadSeal => "the seal of a chunk does not fit",
            Self::BadData => "the data of a chunk do not fit its checksum",
        }
    }
}

/// The header at the start of these bytes, and how many bytes the chunk has as it is stored.
pub(crate) fn peek(bytes: &[u8]) -> Option<(ChunkHeader, usize)> {
    let header = ChunkHeader::decode(bytes.first_chunk::<CHUNK_HEADER_BYTES>()?).ok()?;
    let len = (CHUNK_HEADER_BYTES + usize::from(header.filter_bytes) + SEAL_BYTES) as u64
        + u64::from(header.data_bytes)
        + u64::from(header.trailer_bytes);
    (len <= CHUNK_BYTES_MAX).then_some((header, len as usize))
}
