//! Looks at segment files that are not open, damaged ones too, and copies them. Changes nothing of what it reads. Knows nothing
//! of what a block means.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use platform::{Disk, DiskFile, OpenMode};

use super::SegmentError;
use super::format::{
    BLOCK_BYTES_MAX, BLOCK_HEADER_BYTES, BlockLocation, FILE_HEADER_BYTES, block_crc, check_file_header,
    file_header, read_block_header,
};
use super::names::{FOLDER_COUNT, file_path, folder_path, parse};
use crate::IoFailure;
use crate::bytes::{index_of, offset_of};

/// Bytes copied at once.
const COPY_BYTES: u64 = 1 << 20;

/// Behind damage so many bytes are checked in vain for each one, at most: messages may look like blocks on purpose.
const SEARCH_BYTES_PER_BYTE_MAX: usize = 64;

/// A segment's file, opened to be looked at.
pub struct SegmentFile {
    file: Arc<dyn DiskFile>,
    /// The file.
    pub path: PathBuf,
    /// The stream it belongs to.
    pub stream: u64,
    /// Its number.
    pub segment: u64,
    /// Its length, bytes.
    pub bytes: u64,
}

/// Streams and numbers of the segments in `dir`, ordered by folder; none when there is no such directory.
///
/// # Errors
/// [`SegmentError::Io`].
pub fn list_segments(disk: &dyn Disk, dir: &Path) -> Result<Vec<(u64, u64)>, SegmentError> {
    let mut found = Vec::new();
    for folder in 0..FOLDER_COUNT {
        let path = folder_path(dir, folder);
        let names = match disk.list(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            listed => listed.map_err(IoFailure::of("list", &path))?,
        };
        found.extend(names.iter().filter_map(|name| parse(name)));
    }
    Ok(found)
}

impl SegmentFile {
    /// Opens a segment's file whatever its header says.
    ///
    /// # Errors
    /// [`SegmentError::Io`], `NotFound` when there is none.
    pub fn open(disk: &dyn Disk, dir: &Path, stream: u64, segment: u64) -> Result<Self, SegmentError> {
        let path = file_path(dir, stream, segment);
        let file = disk.open(&path, OpenMode::Read).map_err(IoFailure::of("open", &path))?;
        let bytes = file.len().map_err(IoFailure::of("measure", &path))?;
        Ok(Self { file, path, stream, segment, bytes })
    }

    /// Opens a file by its path; `None` when its name is not a segment's.
    ///
    /// # Errors
    /// [`SegmentError::Io`].
    pub fn open_path(disk: &dyn Disk, path: &Path) -> Result<Option<Self>, SegmentError> {
        let Some((stream, segment)) = path.file_name().and_then(|name| parse(name.to_str()?)) else {
            return Ok(None);
        };
        let file = disk.open(path, OpenMode::Read).map_err(IoFailure::of("open", path))?;
        let bytes = file.len().map_err(IoFailure::of("measure", path))?;
        Ok(Some(Self { file, path: path.to_owned(), stream, segment, bytes }))
    }

    /// Whether the file's header is as it was written.
    pub fn header_is_whole(&self) -> bool {
        let mut header = [0; FILE_HEADER_BYTES];
        self.file.read_exact_at(0, &mut header).is_ok()
            && check_file_header(&header, self.stream, self.segment).is_ok()
    }

    /// The block at a place of this file; `None` when it is not as it was written.
    pub fn block(&self, offset: u64, len: u32) -> Option<Vec<u8>> {
        let place = BlockLocation { segment: self.segment, offset: u32::try_from(offset).ok()?, len };
        let mut header = [0; BLOCK_HEADER_BYTES];
        self.file.read_exact_at(offset, &mut header).ok()?;
        let (found, crc) = read_block_header(&header);
        let end = offset + offset_of(BLOCK_HEADER_BYTES) + u64::from(len);
        if found != len || end > self.bytes || index_of(u64::from(len)) > BLOCK_BYTES_MAX {
            return None;
        }
        let mut block = vec![0; index_of(u64::from(len))];
        self.file.read_exact_at(offset + offset_of(BLOCK_HEADER_BYTES), &mut block).ok()?;
        (block_crc(self.stream, place, &block) == crc).then_some(block)
    }

    /// The blocks up to the first that is not as it was written, and where that begins; the file's length when all are good.
    pub fn blocks(&self, mut show: impl FnMut(BlockLocation, &[u8])) -> u64 {
        self.blocks_from(offset_of(FILE_HEADER_BYTES), &mut show)
    }

    /// All blocks that are as they were written, in order; bytes that belong to none of them are counted. `may_be_block` refuses most
    /// bytes that are none: behind damage every place where one may begin is looked at.
    pub fn whole_blocks(
        &self,
        may_be_block: impl Fn(&[u8]) -> bool,
        mut show: impl FnMut(BlockLocation, &[u8]),
    ) -> u64 {
        let (mut offset, mut unreadable) = (offset_of(FILE_HEADER_BYTES), 0);
        loop {
            let end = self.blocks_from(offset, &mut show);
            if end >= self.bytes {
                return unreadable;
            }
            offset = self.next_block(end, &may_be_block).unwrap_or(self.bytes);
            unreadable += offset - end;
        }
    }

    /// Where the next whole block begins behind `bad`.
    fn next_block(&self, bad: u64, may_be_block: &impl Fn(&[u8]) -> bool) -> Option<u64> {
        let mut rest = vec![0; index_of(self.bytes - bad)];
        self.file.read_exact_at(bad, &mut rest).ok()?;
        let mut checks_left = rest.len().saturating_mul(SEARCH_BYTES_PER_BYTE_MAX);
        for at in 1..rest.len().checked_sub(BLOCK_HEADER_BYTES)? {
            let (header, behind) = rest[at..].split_first_chunk().expect("it has room");
            let (len, crc) = read_block_header(header);
            let Some(block) = behind.get(..index_of(len.into())) else { continue };
            if block.is_empty() || block.len() > checks_left || !may_be_block(block) {
                continue;
            }
            checks_left -= block.len();
            let offset = bad + offset_of(at);
            let place = BlockLocation { segment: self.segment, offset: u32::try_from(offset).ok()?, len };
            if block_crc(self.stream, place, block) == crc {
                return Some(offset);
            }
        }
        None
    }

    fn blocks_from(&self, first: u64, show: &mut impl FnMut(BlockLocation, &[u8])) -> u64 {
        let mut offset = first;
        while offset < self.bytes {
            let mut header = [0; BLOCK_HEADER_BYTES];
            if self.file.read_exact_at(offset, &mut header).is_err() {
                return offset;
            }
            let len = read_block_header(&header).0;
            let (Some(block), Ok(place)) = (self.block(offset, len), u32::try_from(offset)) else {
                return offset;
            };
            show(BlockLocation { segment: self.segment, offset: place, len }, &block);
            offset += offset_of(BLOCK_HEADER_BYTES) + u64::from(len);
        }
        offset
    }

    /// Copies the file, with a whole header, into another directory of segments, durably.
    ///
    /// # Errors
    /// [`SegmentError::Io`].
    pub fn copy(&self, disk: &dyn Disk, to_dir: &Path) -> Result<(), SegmentError> {
        let path = file_path(to_dir, self.stream, self.segment);
        let folder = path.parent().expect("a segment's file lies in a folder");
        disk.create_dir_all(folder).map_err(IoFailure::of("create", folder))?;
        let copy = disk.open(&path, OpenMode::CreateNew).map_err(IoFailure::of("create", &path))?;
        copy.write_all_at(0, &[&file_header(self.stream, self.segment)])
            .map_err(IoFailure::of("write", &path))?;
        let mut offset = offset_of(FILE_HEADER_BYTES);
        let mut chunk = Vec::new();
        while offset < self.bytes {
            chunk.resize(index_of(COPY_BYTES.min(self.bytes - offset)), 0);
            self.file.read_exact_at(offset, &mut chunk).map_err(IoFailure::of("read", &self.path))?;
            copy.write_all_at(offset, &[&chunk]).map_err(IoFailure::of("write", &path))?;
            offset += offset_of(chunk.len());
        }
        copy.sync_data().map_err(IoFailure::of("sync", &path))?;
        Ok(disk.sync_dir(folder).map_err(IoFailure::of("sync", folder))?)
    }
}
