//! A file that is read where something is wanted, a page at a time, of which the latest are kept: debugging information is larger
//! than what it is worth to have in memory, mapped or not. Knows nothing of what stands in the file.

use std::borrow::Cow;
use std::cell::RefCell;
use std::fmt;
use std::fs::File;
use std::os::unix::fs::FileExt as _;

use gimli::{Error, NativeEndian, Reader, ReaderOffsetId, Result};

/// Bytes of a page.
const PAGE_BYTES: u64 = 16 * 1024;

/// Pages kept: a megabyte.
const PAGES: u64 = 64;

/// The file.
pub(super) struct Pages {
    file: File,
    length: u64,
    /// Where a page is kept follows from its number.
    kept: RefCell<Vec<Option<Page>>>,
}

struct Page {
    number: u64,
    bytes: Vec<u8>,
}

impl Pages {
    pub(super) fn new(file: File) -> std::io::Result<Pages> {
        let length = file.metadata()?.len();
        let kept = RefCell::new((0..PAGES).map(|_| None).collect());
        Ok(Pages { file, length, kept })
    }

    /// A part of the file; bytes behind its end are left out.
    pub(super) fn part(&self, at: u64, length: u64) -> Part<'_> {
        let at = at.min(self.length);
        let length = length.min(self.length - at);
        Part { pages: self, at, length: usize::try_from(length).unwrap_or(usize::MAX) }
    }

    /// Calls with the bytes from a place to the end of its page; none at the end of the file.
    fn with<T>(&self, at: u64, take: impl FnOnce(&[u8]) -> T) -> Result<T> {
        let number = at / PAGE_BYTES;
        let mut kept = self.kept.borrow_mut();
        let slot = &mut kept[(number % PAGES) as usize];
        let page = match slot {
            Some(page) if page.number == number => page,
            slot => slot.insert(self.read(number).map_err(|_| Error::Io)?),
        };
        let from = (at - number * PAGE_BYTES) as usize;
        Ok(take(page.bytes.get(from..).unwrap_or_default()))
    }

    fn read(&self, number: u64) -> std::io::Result<Page> {
        let at = number * PAGE_BYTES;
        let mut bytes = vec![0; PAGE_BYTES.min(self.length.saturating_sub(at)) as usize];
        self.file.read_exact_at(&mut bytes, at)?;
        Ok(Page { number, bytes })
    }
}

/// A part of it, read from its beginning on.
#[derive(Clone)]
pub(super) struct Part<'a> {
    pages: &'a Pages,
    at: u64,
    length: usize,
}

impl fmt::Debug for Part<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} bytes at {}", self.length, self.at)
    }
}

impl Part<'_> {
    fn end(&self) -> Error {
        Error::UnexpectedEof(self.offset_id())
    }

    /// All that is left, a page at a time, until the caller has enough.
    fn scan(&self, mut piece: impl FnMut(&[u8]) -> bool) -> Result<()> {
        let (mut at, mut left) = (self.at, self.length);
        while left > 0 {
            let (taken, goes_on) = self.pages.with(at, |bytes| {
                let bytes = &bytes[..bytes.len().min(left)];
                (bytes.len(), piece(bytes))
            })?;
            if taken == 0 {
                return Err(self.end());
            }
            if !goes_on {
                break;
            }
            (at, left) = (at + taken as u64, left - taken);
        }
        Ok(())
    }
}

impl Reader for Part<'_> {
    type Endian = NativeEndian;
    type Offset = usize;

    fn endian(&self) -> NativeEndian {
        NativeEndian
    }

    fn len(&self) -> usize {
        self.length
    }

    fn empty(&mut self) {
        self.length = 0;
    }

    fn truncate(&mut self, length: usize) -> Result<()> {
        if length > self.length {
            return Err(self.end());
        }
        self.length = length;
        Ok(())
    }

    fn offset_from(&self, base: &Self) -> usize {
        (self.at - base.at) as usize
    }

    fn offset_id(&self) -> ReaderOffsetId {
        ReaderOffsetId(self.at)
    }

    fn lookup_offset_id(&self, id: ReaderOffsetId) -> Option<usize> {
        let offset = usize::try_from(id.0.checked_sub(self.at)?).ok()?;
        (offset <= self.length).then_some(offset)
    }

    fn find(&self, byte: u8) -> Result<usize> {
        let (mut passed, mut found) = (0, None);
        self.scan(|bytes| {
            found = memchr::memchr(byte, bytes).map(|at| passed + at);
            passed += bytes.len();
            found.is_none()
        })?;
        found.ok_or_else(|| self.end())
    }

    fn skip(&mut self, length: usize) -> Result<()> {
        self.split(length).map(drop)
    }

    fn split(&mut self, length: usize) -> Result<Self> {
        let mut first = self.clone();
        first.truncate(length)?;
        (self.at, self.length) = (self.at + length as u64, self.length - length);
        Ok(first)
    }

    fn to_slice(&self) -> Result<Cow<'_, [u8]>> {
        let mut all = Vec::with_capacity(self.length);
        self.scan(|bytes| {
            all.extend_from_slice(bytes);
            true
        })?;
        Ok(all.into())
    }

    fn to_string(&self) -> Result<Cow<'_, str>> {
        let bytes = self.to_slice()?.into_owned();
        String::from_utf8(bytes).map(Into::into).map_err(|_| Error::BadUtf8)
    }

    fn to_string_lossy(&self) -> Result<Cow<'_, str>> {
        Ok(String::from_utf8_lossy(&self.to_slice()?).into_owned().into())
    }

    fn read_slice(&mut self, buffer: &mut [u8]) -> Result<()> {
        let wanted = self.split(buffer.len())?;
        // Most of what is read are single bytes, and lies within a page.
        let length = buffer.len();
        let is_done = self.pages.with(wanted.at, |bytes| {
            bytes.get(..length).map(|bytes| buffer.copy_from_slice(bytes)).is_some()
        })?;
        if is_done {
            return Ok(());
        }
        let mut filled = 0;
        wanted.scan(|bytes| {
            buffer[filled..filled + bytes.len()].copy_from_slice(bytes);
            filled += bytes.len();
            true
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    /// A file of so many bytes, each the remainder of its place by 251.
    fn pages(length: u64) -> Pages {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&(0..length).map(|at| (at % 251) as u8).collect::<Vec<u8>>()).unwrap();
        Pages::new(file).unwrap()
    }

    #[test]
    fn what_lies_across_pages_is_read_as_one() {
        let pages = pages(3 * PAGE_BYTES + 5);
        let mut part = pages.part(PAGE_BYTES - 2, 2 * PAGE_BYTES);
        let mut four = [0; 4];
        part.read_slice(&mut four).unwrap();
        assert_eq!(four.map(u64::from), std::array::from_fn(|at| (PAGE_BYTES - 2 + at as u64) % 251));
        assert_eq!(part.len() as u64, 2 * PAGE_BYTES - 4);
        let rest = part.to_slice().unwrap();
        assert_eq!((rest.len(), u64::from(rest[0])), (part.len(), (PAGE_BYTES + 2) % 251));
        assert_eq!(part.find(four[3]).unwrap(), 250, "the next byte of that value");
    }

    #[test]
    fn nothing_is_read_behind_the_end_of_a_part_or_of_the_file() {
        let pages = pages(100);
        assert_eq!((pages.part(90, 50).len(), pages.part(200, 1).len()), (10, 0));
        let mut part = pages.part(10, 4);
        assert!(matches!(part.read_slice(&mut [0; 5]), Err(Error::UnexpectedEof(_))));
        assert!(matches!(part.find(200), Err(Error::UnexpectedEof(_))));
        assert!(part.truncate(5).is_err() && part.skip(5).is_err() && part.skip(4).is_ok());
        assert!(part.read_u8().is_err());
    }

    #[test]
    fn pages_that_share_a_place_take_turns() {
        let pages = pages((PAGES + 1) * PAGE_BYTES);
        for _ in 0..2 {
            assert_eq!(pages.part(7, 1).read_u8().unwrap(), 7);
            let far = PAGES * PAGE_BYTES + 7;
            assert_eq!(u64::from(pages.part(far, 1).read_u8().unwrap()), far % 251);
        }
    }
}
