//! Footers: they close a file, so that nobody has to walk it.
//!
//! ```text
//!  sparse index | tracking table | first u64 | next u64 | first time i64 | highest time i64 | epoch u64 | chunks end u64
//!  | last chunk u32 | index bytes u32 | tracking bytes u32 | stream u64 | crc u32 | footer bytes u32 | magic u64
//! ```

use std::path::Path;

use platform::DiskFile;

use crate::StreamError;
use crate::file::Extent;
use crate::format::{TRACKING_BYTES_MAX, u32_at, u64_at};
use crate::index::SparseIndex;

const MAGIC: &[u8; 8] = b"WRNFOOTR";
/// Bytes of the part that has a fixed length: the end of the file.
const FIXED_BYTES: usize = 84;

/// A footer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Footer {
    pub(crate) extent: Extent,
    pub(crate) index: SparseIndex,
    /// The tracking table at the end of the file.
    pub(crate) tracking: Vec<u8>,
}

impl Footer {
    pub(crate) fn encode(&self, stream: u64) -> Vec<u8> {
        let (index, extent) = (&self.index, &self.extent);
        let mut out = Vec::with_capacity(index.encoded_bytes() + self.tracking.len() + FIXED_BYTES);
        index.encode(&mut out);
        out.extend_from_slice(&self.tracking);
        out.extend_from_slice(&extent.first.to_be_bytes());
        out.extend_from_slice(&extent.next.to_be_bytes());
        out.extend_from_slice(&extent.first_ms.to_be_bytes());
        out.extend_from_slice(&extent.highest_ms.to_be_bytes());
        out.extend_from_slice(&extent.epoch.to_be_bytes());
        out.extend_from_slice(&u64::from(extent.end).to_be_bytes());
        out.extend_from_slice(&extent.last_chunk.to_be_bytes());
        out.extend_from_slice(&u32_of(index.encoded_bytes()));
        out.extend_from_slice(&u32_of(self.tracking.len()));
        out.extend_from_slice(&stream.to_be_bytes());
        let crc = crc32fast::hash(&out);
        out.extend_from_slice(&crc.to_be_bytes());
        let len = out.len() + 12;
        out.extend_from_slice(&u32_of(len));
        out.extend_from_slice(MAGIC);
        out
    }

    /// Bytes of the footer at whose end these are; `None` when they are the end of none.
    pub(crate) fn len_from(end: &[u8; FIXED_BYTES]) -> Option<usize> {
        if &end[76..] != MAGIC {
            return None;
        }
        let len = u32_at(end, 72) as usize;
        (FIXED_BYTES..=FIXED_BYTES + TRACKING_BYTES_MAX + (64 << 10)).contains(&len).then_some(len)
    }

    /// From all its bytes; `None` when they are not what was written.
    pub(crate) fn decode(stream: u64, bytes: &[u8]) -> Option<Self> {
        let (variable, fixed) = bytes.split_last_chunk::<FIXED_BYTES>()?;
        let is_whole =
            crc32fast::hash(&bytes[..bytes.len() - 16]) == u32_at(fixed, 68) && u64_at(fixed, 60) == stream;
        if !is_whole {
            return None;
        }
        let (index_bytes, tracking_bytes) = (u32_at(fixed, 52) as usize, u32_at(fixed, 56) as usize);
        if index_bytes + tracking_bytes != variable.len() {
            return None;
        }
        let extent = Extent {
            first: u64_at(fixed, 0),
            next: u64_at(fixed, 8),
            first_ms: u64_at(fixed, 16).cast_signed(),
            highest_ms: u64_at(fixed, 24).cast_signed(),
            epoch: u64_at(fixed, 32),
            end: u32::try_from(u64_at(fixed, 40)).ok()?,
            last_chunk: u32_at(fixed, 48),
        };
        let (index, tracking) = variable.split_at(index_bytes);
        Some(Self { extent, index: SparseIndex::decode(index), tracking: tracking.to_vec() })
    }
}

fn u32_of(len: usize) -> [u8; 4] {
    u32::try_from(len).expect("footers are bounded").to_be_bytes()
}

/// The footer of a file, if it has a whole one.
pub(crate) fn read_footer(
    handle: &dyn DiskFile,
    id: u64,
    path: &Path,
    len: u64,
    head_bytes: u32,
) -> Result<Option<Footer>, StreamError> {
    if len < u64::from(head_bytes) + FIXED_BYTES as u64 {
        return Ok(None);
    }
    let mut end = [0; FIXED_BYTES];
    handle.read_exact_at(len - FIXED_BYTES as u64, &mut end).map_err(StreamError::io("read", path))?;
    let Some(bytes) = Footer::len_from(&end).filter(|bytes| *bytes as u64 <= len - u64::from(head_bytes))
    else {
        return Ok(None);
    };
    let mut read = vec![0; bytes];
    handle.read_exact_at(len - bytes as u64, &mut read).map_err(StreamError::io("read", path))?;
    let footer = Footer::decode(id, &read);
    Ok(footer.filter(|footer| u64::from(footer.extent.end) + bytes as u64 == len))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_footer_is_read_from_its_end_and_trusted_only_whole() {
        let extent = Extent {
            first: 3,
            next: 90,
            first_ms: -5,
            highest_ms: 99,
            epoch: 1,
            end: 4000,
            last_chunk: 3900,
        };
        let footer =
            Footer { extent, index: SparseIndex::default(), tracking: vec![1, 0, 0, 0, 0, 0, 0, 0, 0, 9] };
        let bytes = footer.encode(7);
        assert_eq!(Footer::len_from(bytes.last_chunk().unwrap()), Some(bytes.len()));
        assert_eq!(Footer::decode(7, &bytes), Some(footer));
        assert_eq!(Footer::decode(8, &bytes), None);
        for at in 0..bytes.len() - 12 {
            let mut broken = bytes.clone();
            broken[at] ^= 1;
            assert_eq!(Footer::decode(7, &broken), None, "{at}");
        }
    }
}
