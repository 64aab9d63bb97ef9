//! The bytes around chunks: heads of files and seals of chunks, and the names of files. Footers stand in `footer`.

use std::path::{Path, PathBuf};

use wire::stream::CHUNK_HEADER_BYTES;

/// First bytes of every file.
const MAGIC: &[u8; 8] = b"WARRNSTR";
/// The format's version.
const VERSION: u32 = 1;
/// Bytes of a head before the tracking table.
pub(crate) const HEAD_BYTES: usize = 40;
/// Bytes of a seal.
pub(crate) const SEAL_BYTES: usize = 16;
/// Last bytes of every seal.
const SEAL_MAGIC: u32 = 0x5741_5345;
/// The largest tracking table that is believed.
pub(crate) const TRACKING_BYTES_MAX: usize = 16 << 20;

/// The header of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) stream: u64,
    pub(crate) first: u64,
    /// Bytes of the tracking table behind it.
    pub(crate) tracking_bytes: usize,
}

/// A file's head and the tracking table at that point.
pub(crate) fn write_head(stream: u64, first: u64, tracking: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEAD_BYTES + tracking.len());
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&VERSION.to_be_bytes());
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(&stream.to_be_bytes());
    bytes.extend_from_slice(&first.to_be_bytes());
    let tracking_bytes = u32::try_from(tracking.len()).expect("tracking tables are bounded");
    bytes.extend_from_slice(&tracking_bytes.to_be_bytes());
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(tracking);
    let crc = head_crc(&bytes);
    bytes[12..16].copy_from_slice(&crc.to_be_bytes());
    bytes
}

/// Over all of a head but the CRC itself.
fn head_crc(bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&bytes[..12]);
    hasher.update(&bytes[16..]);
    hasher.finalize()
}

/// The content of a head; its CRC covers the tracking table, too: see [`check_head`].
pub(crate) fn read_head(bytes: &[u8; HEAD_BYTES]) -> Option<Head> {
    if &bytes[..8] != MAGIC || u32_at(bytes, 8) != VERSION {
        return None;
    }
    let tracking_bytes = u32_at(bytes, 32) as usize;
    (tracking_bytes <= TRACKING_BYTES_MAX).then(|| Head {
        stream: u64_at(bytes, 16),
        first: u64_at(bytes, 24),
        tracking_bytes,
    })
}

/// Whether head and tracking table are what was written.
pub(crate) fn check_head(bytes: &[u8]) -> bool {
    head_crc(bytes) == u32_at(bytes, 12)
}

/// The seal of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seal {
    /// Bytes to the start of the chunk before; 0 when it is the file's first.
    pub(crate) back: u32,
    /// Everything in the file before this position had been told when the chunk was written: it was durable, or in the system's cache where
    /// nothing is synced.
    pub(crate) synced: u32,
}

/// The seal of a chunk at `position` of a file of `stream`; `tail` is what follows its data.
pub(crate) fn write_seal(
    stream: u64,
    position: u32,
    header: &[u8; CHUNK_HEADER_BYTES],
    tail: &[u8],
    seal: Seal,
) -> [u8; SEAL_BYTES] {
    let mut bytes = [0; SEAL_BYTES];
    bytes[..4].copy_from_slice(&seal_crc(stream, position, header, tail, seal).to_be_bytes());
    bytes[4..8].copy_from_slice(&seal.back.to_be_bytes());
    bytes[8..12].copy_from_slice(&seal.synced.to_be_bytes());
    bytes[12..].copy_from_slice(&SEAL_MAGIC.to_be_bytes());
    bytes
}

fn seal_crc(stream: u64, position: u32, header: &[u8; CHUNK_HEADER_BYTES], tail: &[u8], seal: Seal) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&stream.to_be_bytes());
    hasher.update(&position.to_be_bytes());
    hasher.update(header);
    hasher.update(tail);
    hasher.update(&seal.back.to_be_bytes());
    hasher.update(&seal.synced.to_be_bytes());
    hasher.finalize()
}

/// The seal, if it closes this chunk at this place.
pub(crate) fn read_seal(
    stream: u64,
    position: u32,
    header: &[u8; CHUNK_HEADER_BYTES],
    tail: &[u8],
    bytes: &[u8; SEAL_BYTES],
) -> Option<Seal> {
    let seal = Seal { back: u32_at(bytes, 4), synced: u32_at(bytes, 8) };
    let is_whole =
        u32_at(bytes, 12) == SEAL_MAGIC && u32_at(bytes, 0) == seal_crc(stream, position, header, tail, seal);
    is_whole.then_some(seal)
}

/// How far behind a chunk the one before it starts, by its seal; unchecked.
pub(crate) fn back_of(seal: &[u8; SEAL_BYTES]) -> u32 {
    u32_at(seal, 4)
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// How many folders there are.
pub(crate) const FOLDER_COUNT: usize = 256;

/// The folder of a stream: consecutive streams spread.
pub(crate) fn folder_path(dir: &Path, stream: u64) -> PathBuf {
    let hash = stream.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    folder_at(dir, usize::from(hash.to_be_bytes()[0]))
}

/// The folder with this number.
pub(crate) fn folder_at(dir: &Path, folder: usize) -> PathBuf {
    dir.join(format!("{folder:02x}"))
}

/// The path of a file.
pub(crate) fn file_path(dir: &Path, stream: u64, first: u64) -> PathBuf {
    folder_path(dir, stream).join(format!("{stream:016x}-{first:016x}.strm"))
}

/// Stream and first offset from a file's name; `None` when it is no stream file's.
pub(crate) fn parse_name(name: &str) -> Option<(u64, u64)> {
    let (stream, first) = name.strip_suffix(".strm")?.split_once('-')?;
    let number = |digits: &str| {
        let is_hex = digits.len() == 16 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_hex.then(|| u64::from_str_radix(digits, 16).ok()).flatten()
    };
    Some((number(stream)?, number(first)?))
}
