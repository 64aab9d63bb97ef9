//! Publish frames of both versions.
//!
//! ```text
//!  publisher id u8 | count u32 | count times: publishing id u64 | (version 2: filter value, a string) | entry
//! ```
//!
//! Version 2 has no sub-batches: RabbitMQ does not read them there either.

use super::entry::Entry;
use super::field::Field;
use super::frame::{head, set_size};
use crate::reader::Reader;

/// Where the count of entries stands in a frame: behind size, key, version and publisher id.
const COUNT_AT: usize = 9;

/// Messages of a publisher; all lengths have been checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Publish<'a> {
    version: u16,
    /// Publisher.
    pub publisher_id: u8,
    count: u32,
    raw: &'a [u8],
}

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublishedEntry<'a> {
    /// The publisher's number of it.
    pub publishing_id: u64,
    /// The value that consumers may filter by; `None` in version 1, or where it is null.
    pub filter_value: Option<&'a [u8]>,
    /// The entry.
    pub entry: Entry<'a>,
    /// The entry's bytes, head included, as a chunk stores them.
    pub raw: &'a [u8],
}

impl<'a> Publish<'a> {
    /// Key of the command.
    pub const KEY: u16 = 0x0002;

    /// Reads and walks all entries. The count must be that of the entries, which RabbitMQ does not check.
    #[inline]
    pub(super) fn read(version: u16, reader: &mut Reader<'a>) -> Option<Self> {
        let publisher_id = reader.u8()?;
        let count = reader.u32()?;
        let before = reader.rest();
        // An entry has 12 bytes at least: a count that lies ends at the end of the frame.
        for _ in 0..count {
            read_entry(version, reader)?;
        }
        let raw = &before[..before.len() - reader.rest().len()];
        Some(Self { version, publisher_id, count, raw })
    }

    /// Version of the command: 1 or 2.
    #[must_use]
    pub const fn version(&self) -> u16 {
        self.version
    }

    /// How many entries there are.
    #[inline]
    #[must_use]
    pub const fn len(&self) -> u32 {
        self.count
    }

    /// Whether there are no entries.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Entries in order.
    #[inline]
    pub fn entries(&self) -> impl Iterator<Item = PublishedEntry<'a>> + use<'a> {
        let (version, mut reader) = (self.version, Reader::new(self.raw));
        (0..self.count).map_while(move |_| read_entry(version, &mut reader))
    }

    /// Appends the whole frame.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&head(Self::KEY, false, self.version, 5 + self.raw.len()));
        out.push(self.publisher_id);
        self.count.write(out);
        out.extend_from_slice(self.raw);
    }
}

#[inline]
fn read_entry<'a>(version: u16, reader: &mut Reader<'a>) -> Option<PublishedEntry<'a>> {
    let publishing_id = reader.u64()?;
    let filter_value = if version == 1 {
        None
    } else {
        match reader.u16()? {
            u16::MAX => None,
            length => Some(reader.bytes(length.into())?),
        }
    };
    let before = reader.rest();
    let entry = Entry::read(reader)?;
    if version != 1 && matches!(entry, Entry::SubBatch(_)) {
        return None;
    }
    let raw = &before[..before.len() - reader.rest().len()];
    Some(PublishedEntry { publishing_id, filter_value, entry, raw })
}

/// Writes one publish frame, entry by entry.
#[derive(Debug)]
pub struct PublishWriter<'o> {
    out: &'o mut Vec<u8>,
    start: usize,
    version: u16,
    count: u32,
}

impl<'o> PublishWriter<'o> {
    /// Begins a frame of version 1, which has no filter values.
    pub fn new(publisher_id: u8, out: &'o mut Vec<u8>) -> Self {
        Self::begin(1, publisher_id, out)
    }

    /// Begins a frame of version 2, which has filter values, but no sub-batches.
    pub fn with_filter_values(publisher_id: u8, out: &'o mut Vec<u8>) -> Self {
        Self::begin(2, publisher_id, out)
    }

    fn begin(version: u16, publisher_id: u8, out: &'o mut Vec<u8>) -> Self {
        let start = out.len();
        out.extend_from_slice(&head(Publish::KEY, false, version, 0));
        out.extend_from_slice(&[publisher_id, 0, 0, 0, 0]);
        Self { out, start, version, count: 0 }
    }

    /// Appends an entry without a filter value.
    ///
    /// # Panics
    /// If it is a sub-batch and the frame is of version 2.
    #[inline]
    pub fn push(&mut self, publishing_id: u64, entry: &Entry<'_>) {
        self.push_filtered(publishing_id, None, entry);
    }

    /// Appends an entry with a filter value of at most 65,534 bytes.
    ///
    /// # Panics
    /// If the frame's version has no filter values, or the value is longer, or the frame is of version 2 and the
    /// entry a sub-batch: bugs in the caller.
    #[inline]
    pub fn push_filtered(&mut self, publishing_id: u64, filter_value: Option<&[u8]>, entry: &Entry<'_>) {
        self.out.extend_from_slice(&publishing_id.to_be_bytes());
        if self.version == 1 {
            assert!(filter_value.is_none(), "version 1 has no filter values");
        } else {
            assert!(matches!(entry, Entry::Message(_)), "version 2 has no sub-batches");
            let length = filter_value.map_or(u16::MAX, |value| {
                let length = u16::try_from(value.len()).ok().filter(|length| *length != u16::MAX);
                length.expect("a filter value has at most 65,534 bytes")
            });
            self.out.extend_from_slice(&length.to_be_bytes());
            self.out.extend_from_slice(filter_value.unwrap_or_default());
        }
        entry.encode(self.out);
        self.count += 1;
    }

    /// Bytes of the frame so far.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.out.len() - self.start
    }

    /// Ends the frame.
    pub fn finish(self) {
        let count_at = self.start + COUNT_AT;
        self.out[count_at..count_at + 4].copy_from_slice(&self.count.to_be_bytes());
        set_size(self.out, self.start);
    }
}

/// Appends a confirm of these publishing ids.
#[inline]
pub fn write_publish_confirm(
    publisher_id: u8,
    publishing_ids: impl IntoIterator<Item = u64>,
    out: &mut Vec<u8>,
) {
    let start = out.len();
    out.extend_from_slice(&head(super::commands::PublishConfirm::KEY, false, 1, 0));
    out.extend_from_slice(&[publisher_id, 0, 0, 0, 0]);
    let mut count = 0_u32;
    for publishing_id in publishing_ids {
        out.extend_from_slice(&publishing_id.to_be_bytes());
        count += 1;
    }
    out[start + COUNT_AT..start + COUNT_AT + 4].copy_from_slice(&count.to_be_bytes());
    set_size(out, start);
}
