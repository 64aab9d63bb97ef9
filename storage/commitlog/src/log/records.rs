//! Records that gather for one write: in a buffer, but for bytes that others lend. Knows nothing of files, nor of who waits.

use std::sync::Arc;

use super::format::{RECORD_HEADER_BYTES, begin_record, seal_record};
use crate::bytes::{index_of, offset_of, put_u32, u32_at};
use crate::{PAYLOAD_BYTES_MAX, Position};

/// Bytes of a payload that are written from where they are, so that there is no copy of them.
pub trait LentBytes: Send + Sync {
    /// The same whenever it is asked.
    fn bytes(&self) -> &[u8];

    /// Bytes of memory that nobody but this keeps.
    fn own_bytes(&self) -> usize;
}

/// Lent bytes with their place.
struct Lent {
    /// So many bytes of the buffer go before them: they end the record that ends there in the buffer.
    at: usize,
    bytes: Arc<dyn LentBytes>,
}

/// Whole records, one behind the other.
#[derive(Default)]
pub(super) struct Records {
    buffer: Vec<u8>,
    /// Ascending by their places; mostly none.
    lent: Vec<Lent>,
    /// Of all of them.
    lent_bytes: usize,
}

impl Records {
    /// With room for so many bytes.
    pub(super) fn with_capacity(bytes: usize) -> Self {
        Self { buffer: Vec::with_capacity(bytes), ..Self::default() }
    }

    /// Bytes of all records.
    pub(super) fn len(&self) -> usize {
        self.buffer.len() + self.lent_bytes
    }

    pub(super) fn is_empty(&self) -> bool {
        self.buffer.is_empty()
    }

    /// Whether some of the bytes are lent.
    pub(super) fn is_lent(&self) -> bool {
        !self.lent.is_empty()
    }

    /// Bytes in the buffer, and how many it has room for.
    pub(super) fn buffer(&self) -> (usize, usize) {
        (self.buffer.len(), self.buffer.capacity())
    }

    /// Bytes of memory that only these records keep, buffers aside.
    pub(super) fn own_lent_bytes(&self) -> usize {
        self.lent.iter().map(|lent| lent.bytes.own_bytes()).sum()
    }

    /// Adds a record, as [`begin_record`].
    pub(super) fn push(&mut self, stream: u64, kind: u8, write: impl FnOnce(&mut Vec<u8>)) {
        begin_record(&mut self.buffer, stream, kind, write);
    }

    /// The same of a payload that ends with lent bytes.
    ///
    /// # Panics
    /// As [`begin_record`].
    pub(super) fn push_lent(
        &mut self,
        stream: u64,
        kind: u8,
        write: impl FnOnce(&mut Vec<u8>),
        bytes: Arc<dyn LentBytes>,
    ) {
        let lent_bytes = bytes.bytes().len();
        let start = self.buffer.len();
        begin_record(&mut self.buffer, stream, kind, write);
        let payload_bytes = self.buffer.len() - start - RECORD_HEADER_BYTES + lent_bytes;
        assert!(
            payload_bytes <= PAYLOAD_BYTES_MAX,
            "payload of {payload_bytes} bytes exceeds the format's bound"
        );
        put_u32(&mut self.buffer, start, u32::try_from(payload_bytes).expect("the bound fits in 32 bits"));
        self.lent.push(Lent { at: self.buffer.len(), bytes });
        self.lent_bytes += lent_bytes;
    }

    /// Forgets all, and keeps the buffer.
    pub(super) fn clear(&mut self) {
        self.buffer.clear();
        self.give_back();
    }

    /// Lets go of lent bytes: they are written, or never will be. The records are not whole after that.
    pub(super) fn give_back(&mut self) {
        self.lent = Vec::new();
        self.lent_bytes = 0;
    }

    /// The lent bytes, for a count of them while they are written.
    pub(super) fn lenders(&self) -> Vec<Arc<dyn LentBytes>> {
        self.lent.iter().map(|lent| lent.bytes.clone()).collect()
    }

    /// Completes the headers of all records, of one write that begins at `first`.
    pub(super) fn seal(&mut self, first: Position) {
        let (mut at, mut lent_before) = (0, 0);
        let mut lent = self.lent.iter().peekable();
        while at < self.buffer.len() {
            let end = at + RECORD_HEADER_BYTES + index_of(u64::from(u32_at(&self.buffer, at)));
            // Lent bytes of a later record lie behind its header, too.
            let tail = lent.next_if(|lent| lent.at <= end).map_or(&[][..], |lent| lent.bytes.bytes());
            let end = end - tail.len();
            seal_record(&mut self.buffer[at..end], tail, first, offset_of(at + lent_before));
            (at, lent_before) = (end, lent_before + tail.len());
        }
        assert_eq!(at, self.buffer.len(), "records fill their write exactly");
    }

    /// All bytes in their order.
    pub(super) fn parts(&self) -> Vec<&[u8]> {
        let mut parts = Vec::with_capacity(2 * self.lent.len() + 1);
        let mut at = 0;
        for lent in &self.lent {
            parts.extend([&self.buffer[at..lent.at], lent.bytes.bytes()]);
            at = lent.at;
        }
        parts.push(&self.buffer[at..]);
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::super::format::{RecordHeader, record_crc};
    use super::*;
    use crate::log::Damage;

    struct Bytes(Vec<u8>);

    impl LentBytes for Bytes {
        fn bytes(&self) -> &[u8] {
            &self.0
        }
        fn own_bytes(&self) -> usize {
            self.0.len()
        }
    }

    #[test]
    fn records_of_one_write_know_their_place_in_it() {
        let mut records = Records::default();
        records.push(5, 9, |out| out.extend_from_slice(b"abc"));
        records.push(6, 8, |_| ());
        records.seal(Position(100));
        let batch = records.parts().concat();
        let first = RecordHeader::decode(&batch, Position(100), 1000).unwrap();
        assert_eq!((first.stream, first.kind, first.back, first.payload_bytes), (5, 9, 0, 3));
        assert_eq!(first.end(), Position(135));
        let second = RecordHeader::decode(&batch[35..], Position(135), 0).unwrap();
        assert_eq!((second.stream, second.kind, second.back, second.payload_bytes), (6, 8, 35, 0));
        assert_eq!(record_crc(&batch[..35]), first.crc);
        assert_eq!(RecordHeader::decode(&batch, Position(101), 1000), Err(Damage::RecordHeader));
        assert_eq!(RecordHeader::decode(&batch, Position(100), 2), Err(Damage::Truncated));
    }

    #[test]
    fn lent_bytes_are_written_as_if_they_had_been_copied() {
        // Payloads by what is copied of them, and what is lent.
        let shapes: [(usize, Option<usize>); 8] = [
            (3, Some(0)),
            (0, Some(5)),
            (7, None),
            (0, None),
            (2, Some(100)),
            (0, Some(1)),
            (40, None),
            (1, Some(64)),
        ];
        let (mut copied, mut lent) = (Records::default(), Records::default());
        let mut own_bytes = 0;
        for (stream, (head, tail)) in (1..).zip(shapes) {
            let head = vec![stream as u8; head];
            let tail = tail.map(|bytes| vec![100 + stream as u8; bytes]);
            let write = |out: &mut Vec<u8>| out.extend_from_slice(&head);
            copied.push(stream, 3, |out| {
                write(out);
                out.extend(tail.iter().flatten());
            });
            own_bytes += tail.as_ref().map_or(0, Vec::len);
            match tail {
                Some(tail) => lent.push_lent(stream, 3, write, Arc::new(Bytes(tail))),
                None => lent.push(stream, 3, write),
            }
        }
        copied.seal(Position(77));
        lent.seal(Position(77));
        assert_eq!(lent.len(), copied.len());
        assert_eq!(lent.own_lent_bytes(), own_bytes);
        assert!(lent.parts().concat() == copied.parts().concat());
        lent.clear();
        assert_eq!((lent.len(), lent.is_empty(), lent.own_lent_bytes()), (0, true, 0));
    }
}
