//! A segment file byte by byte. Knows nothing of reading or writing files. The same drawing is in `docs/formats/segment.md`.
//!
//! All numbers are big-endian. A file is a header followed by blocks without gaps; bytes after the last block that was synced
//! before a crash are undefined.
//!
//! ```text
//! file header, 32 bytes
//!  0       8         12      16          24           32
//!  +-------+---------+-------+-----------+------------+
//!  | magic | version | crc   | stream    | segment    |
//!  +-------+---------+-------+-----------+------------+
//!  magic "WARRNSEG"; version 1; crc: CRC-32 of bytes 0..12, then 16..32
//!
//! block, 8 bytes, then the caller's bytes
//!  0        4       8
//!  +--------+-------+---------+
//!  | length | crc   | bytes.. |
//!  +--------+-------+---------+
//!  length: of the bytes; crc: CRC-32 of stream (8), segment (8), the block's offset in the file (4), length (4), bytes
//! ```
//!
//! The checksum covers where a block belongs without storing it: a block read from the wrong file or place is damage.

use crate::bytes::{put_u32, put_u64, u32_at, u64_at};

/// Bytes before the first block of a file.
pub(super) const FILE_HEADER_BYTES: usize = 32;
/// Bytes before a block's own.
pub(super) const BLOCK_HEADER_BYTES: usize = 8;
/// The largest block: 1 GiB, twice RabbitMQ's largest configurable message.
pub const BLOCK_BYTES_MAX: usize = 1 << 30;
const VERSION: u32 = 1;
const MAGIC: &[u8; 8] = b"WARRNSEG";

/// Where a block of a stream lies. 16 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockLocation {
    /// The segment: numbers are unique for ever within one directory, and grow.
    pub segment: u64,
    /// Bytes from the file's start to the block's header.
    pub offset: u32,
    /// Bytes of the block, without its header.
    pub len: u32,
}

/// Why a file header cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HeaderProblem {
    Damaged,
    Version(u32),
}

fn header_crc(bytes: &[u8; FILE_HEADER_BYTES]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&bytes[..12]);
    hasher.update(&bytes[16..]);
    hasher.finalize()
}

/// The header of a segment's file.
pub(super) fn file_header(stream: u64, segment: u64) -> [u8; FILE_HEADER_BYTES] {
    let mut bytes = [0; FILE_HEADER_BYTES];
    bytes[..8].copy_from_slice(MAGIC);
    put_u32(&mut bytes, 8, VERSION);
    put_u64(&mut bytes, 16, stream);
    put_u64(&mut bytes, 24, segment);
    let crc = header_crc(&bytes);
    put_u32(&mut bytes, 12, crc);
    bytes
}

/// Checks that a file belongs to this segment.
pub(super) fn check_file_header(
    bytes: &[u8; FILE_HEADER_BYTES],
    stream: u64,
    segment: u64,
) -> Result<(), HeaderProblem> {
    if &bytes[..8] != MAGIC || u32_at(bytes, 12) != header_crc(bytes) {
        return Err(HeaderProblem::Damaged);
    }
    let version = u32_at(bytes, 8);
    if version != VERSION {
        return Err(HeaderProblem::Version(version));
    }
    if u64_at(bytes, 16) != stream || u64_at(bytes, 24) != segment {
        return Err(HeaderProblem::Damaged);
    }
    Ok(())
}

/// The checksum of a block at its place.
pub(super) fn block_crc(stream: u64, location: BlockLocation, block: &[u8]) -> u32 {
    let mut place = [0; 24];
    put_u64(&mut place, 0, stream);
    put_u64(&mut place, 8, location.segment);
    put_u32(&mut place, 16, location.offset);
    put_u32(&mut place, 20, location.len);
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&place);
    hasher.update(block);
    hasher.finalize()
}

/// The header of a block at its place.
pub(super) fn block_header(stream: u64, location: BlockLocation, block: &[u8]) -> [u8; BLOCK_HEADER_BYTES] {
    let mut bytes = [0; BLOCK_HEADER_BYTES];
    put_u32(&mut bytes, 0, location.len);
    put_u32(&mut bytes, 4, block_crc(stream, location, block));
    bytes
}

/// A block's length and checksum, from its header.
pub(super) fn read_block_header(bytes: &[u8; BLOCK_HEADER_BYTES]) -> (u32, u32) {
    (u32_at(bytes, 0), u32_at(bytes, 4))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_header_belongs_to_one_segment_of_one_stream() {
        let bytes = file_header(5, 9);
        assert_eq!(check_file_header(&bytes, 5, 9), Ok(()));
        assert_eq!(check_file_header(&bytes, 5, 8), Err(HeaderProblem::Damaged));
        assert_eq!(check_file_header(&bytes, 4, 9), Err(HeaderProblem::Damaged));
        for at in 0..FILE_HEADER_BYTES {
            let mut flipped = bytes;
            flipped[at] ^= 1;
            assert_eq!(check_file_header(&flipped, 5, 9), Err(HeaderProblem::Damaged), "byte {at}");
        }
    }

    #[test]
    fn a_blocks_checksum_depends_on_its_place() {
        let place = BlockLocation { segment: 1, offset: 32, len: 3 };
        let crc = block_crc(1, place, b"abc");
        assert_ne!(crc, block_crc(2, place, b"abc"));
        assert_ne!(crc, block_crc(1, BlockLocation { segment: 2, ..place }, b"abc"));
        assert_ne!(crc, block_crc(1, BlockLocation { offset: 33, ..place }, b"abc"));
        assert_ne!(crc, block_crc(1, place, b"abd"));
        assert_eq!(read_block_header(&block_header(1, place, b"abc")), (3, crc));
    }
}
