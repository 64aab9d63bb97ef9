//! A log file byte by byte. Knows nothing of reading or writing files. The same drawing is in `docs/formats/log.md`.
//!
//! All numbers are big-endian. A file is named after its first position, `%016x.log`, and is a header followed by records
//! without gaps. The newest file may end in zeros (space filled in advance).
//!
//! ```text
//! file header, 32 bytes
//!  0       8         12        16                24        28        32
//!  +-------+---------+---------+-----------------+---------+---------+
//!  | magic | version | flags   | first position  | 0       | crc     |
//!  +-------+---------+---------+-----------------+---------+---------+
//!  magic "WARRNLOG"; version 1; flags bit 0: each write was fdatasynced before the next; crc: CRC-32 of bytes 0..28
//!
//! record header, 32 bytes, then the payload
//!  0        4       8               16              24        28     29    32
//!  +--------+-------+---------------+---------------+---------+------+-----+-----------+
//!  | length | crc   | position      | stream        | back    | kind | 0   | payload.. |
//!  +--------+-------+---------------+---------------+---------+------+-----+-----------+
//!  length: bytes of payload; position: logical offset of the record's first byte; back: bytes from the first record
//!  of the same write to this one; crc: CRC-32 of bytes 0..4, then 8..32, then the payload
//! ```
//!
//! *back* tells a torn write from damage: a record whose write began after a bad place proves (flag bit 0) that the bad place
//! had been synced before, so it is damage; without such a proof it is the end that a crash tore off.

use crate::Position;
use crate::bytes::{index_of, offset_of, put_u32, put_u64, u32_at, u64_at};

use super::{Damage, SyncPolicy};

/// Bytes before the first record of a file.
pub(super) const FILE_HEADER_BYTES: usize = 32;
/// Bytes before the payload of a record.
pub const RECORD_HEADER_BYTES: usize = 32;
/// The largest payload of a record: 1 GiB, twice RabbitMQ's largest configurable message.
pub const PAYLOAD_BYTES_MAX: usize = 1 << 30;
/// The version that this code writes.
const VERSION: u32 = 1;
const MAGIC: &[u8; 8] = b"WARRNLOG";
const FLAG_FSYNC: u32 = 1;

/// The content of a file's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileHeader {
    pub(super) first: Position,
    pub(super) sync: SyncPolicy,
}

/// Why a file header cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HeaderProblem {
    Damaged(Damage),
    Version(u32),
}

impl FileHeader {
    pub(super) fn encode(self) -> [u8; FILE_HEADER_BYTES] {
        let mut bytes = [0; FILE_HEADER_BYTES];
        bytes[..8].copy_from_slice(MAGIC);
        put_u32(&mut bytes, 8, VERSION);
        put_u32(&mut bytes, 12, if self.sync == SyncPolicy::Fsync { FLAG_FSYNC } else { 0 });
        put_u64(&mut bytes, 16, self.first.0);
        let crc = crc32fast::hash(&bytes[..28]);
        put_u32(&mut bytes, 28, crc);
        bytes
    }

    pub(super) fn decode(bytes: &[u8; FILE_HEADER_BYTES]) -> Result<Self, HeaderProblem> {
        if &bytes[..8] != MAGIC {
            return Err(HeaderProblem::Damaged(Damage::Magic));
        }
        if u32_at(bytes, 28) != crc32fast::hash(&bytes[..28]) {
            return Err(HeaderProblem::Damaged(Damage::HeaderChecksum));
        }
        let version = u32_at(bytes, 8);
        if version != VERSION {
            return Err(HeaderProblem::Version(version));
        }
        let sync = if u32_at(bytes, 12) & FLAG_FSYNC == 0 { SyncPolicy::Os } else { SyncPolicy::Fsync };
        Ok(Self { first: Position(u64_at(bytes, 16)), sync })
    }
}

/// The content of a record's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RecordHeader {
    pub(super) payload_bytes: usize,
    pub(super) crc: u32,
    pub(super) start: Position,
    pub(super) stream: u64,
    /// Bytes from the first record of the same write.
    pub(super) back: u32,
    pub(super) kind: u8,
}

impl RecordHeader {
    /// Reads a header that should begin at `start`; `room_bytes` is what the file holds after it.
    pub(super) fn decode(bytes: &[u8], start: Position, room_bytes: u64) -> Result<Self, Damage> {
        let header = Self {
            payload_bytes: index_of(u64::from(u32_at(bytes, 0))),
            crc: u32_at(bytes, 4),
            start: Position(u64_at(bytes, 8)),
            stream: u64_at(bytes, 16),
            back: u32_at(bytes, 24),
            kind: bytes[28],
        };
        let is_record = header.start == start
            && header.payload_bytes <= PAYLOAD_BYTES_MAX
            && u64::from(header.back) <= start.0
            && bytes[29..32] == [0; 3];
        if !is_record {
            return Err(Damage::RecordHeader);
        }
        if offset_of(header.payload_bytes) > room_bytes {
            return Err(Damage::Truncated);
        }
        Ok(header)
    }

    /// The whole record's length.
    pub(super) const fn record_bytes(&self) -> usize {
        RECORD_HEADER_BYTES + self.payload_bytes
    }

    /// The position of the record's end.
    pub(super) const fn end(&self) -> Position {
        self.start.plus(offset_of(self.record_bytes()))
    }
}

/// The checksum of a whole record.
pub(super) fn record_crc(record: &[u8]) -> u32 {
    crc_of(record).finalize()
}

fn crc_of(record: &[u8]) -> crc32fast::Hasher {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&record[..4]);
    hasher.update(&record[8..]);
    hasher
}

/// Appends a record whose payload `write` produces; position, *back* and checksum are set by [`seal_record`]. Should `write`
/// panic, the buffer is as before.
///
/// # Panics
/// When `write` removes bytes that were there before, or writes more than [`PAYLOAD_BYTES_MAX`].
pub(super) fn begin_record(buffer: &mut Vec<u8>, stream: u64, kind: u8, write: impl FnOnce(&mut Vec<u8>)) {
    /// Takes the unfinished record back when `write` unwinds.
    struct Unfinished<'a> {
        buffer: &'a mut Vec<u8>,
        start: usize,
        done: bool,
    }
    impl Drop for Unfinished<'_> {
        fn drop(&mut self) {
            if !self.done {
                self.buffer.truncate(self.start);
            }
        }
    }

    let start = buffer.len();
    let mut header = [0; RECORD_HEADER_BYTES];
    put_u64(&mut header, 16, stream);
    header[28] = kind;
    buffer.extend_from_slice(&header);
    let payload_start = buffer.len();
    let mut record = Unfinished { buffer, start, done: false };
    write(record.buffer);
    assert!(record.buffer.len() >= payload_start, "a payload's writer only appends");
    let payload_bytes = record.buffer.len() - payload_start;
    assert!(
        payload_bytes <= PAYLOAD_BYTES_MAX,
        "payload of {payload_bytes} bytes exceeds the format's bound"
    );
    let length = u32::try_from(payload_bytes).expect("the bound fits in 32 bits");
    put_u32(record.buffer, start, length);
    record.done = true;
}

/// Completes the header of a record whose payload ends with `tail`, so many bytes behind the beginning of a write at `first`.
pub(super) fn seal_record(record: &mut [u8], tail: &[u8], first: Position, back: u64) {
    put_u64(record, 8, first.0 + back);
    put_u32(record, 24, u32::try_from(back).expect("a write is below 4 GiB"));
    let mut hasher = crc_of(record);
    hasher.update(tail);
    put_u32(record, 4, hasher.finalize());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_header_is_read_back_and_its_damage_noticed() {
        let header = FileHeader { first: Position(77), sync: SyncPolicy::Fsync };
        let bytes = header.encode();
        assert_eq!(FileHeader::decode(&bytes), Ok(header));
        for at in 0..FILE_HEADER_BYTES {
            let mut flipped = bytes;
            flipped[at] ^= 4;
            assert!(matches!(FileHeader::decode(&flipped), Err(HeaderProblem::Damaged(_))), "byte {at}");
        }
    }

    #[test]
    fn a_later_version_is_named() {
        let mut bytes = FileHeader { first: Position(0), sync: SyncPolicy::Os }.encode();
        put_u32(&mut bytes, 8, 2);
        let crc = crc32fast::hash(&bytes[..28]);
        put_u32(&mut bytes, 28, crc);
        assert_eq!(FileHeader::decode(&bytes), Err(HeaderProblem::Version(2)));
    }

    #[test]
    fn a_payload_writer_that_panics_leaves_no_trace() {
        let mut batch = vec![1, 2, 3];
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            begin_record(&mut batch, 1, 1, |out| {
                out.push(9);
                panic!("bug in an encoder");
            });
        }));
        assert!(caught.is_err());
        assert_eq!(batch, [1, 2, 3]);
    }
}
