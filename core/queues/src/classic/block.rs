//! A block: consecutive messages of one priority level, in memory, on disk, or both.

use std::sync::Arc;

use super::bitmap::Bitmap;
use crate::record::{self, BlockPlace, Stored};

/// Bytes of messages after which a block is closed and a new one begun.
pub(crate) const BLOCK_BYTES: usize = 64 * 1024;

/// One message in a resident block.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// Where its stored form begins.
    offset: u32,
    /// Bytes of its body.
    body_bytes: u32,
}

/// Message bytes: growing while the block is the newest, shared once closed.
#[derive(Clone, Debug)]
enum Data {
    Open(Vec<u8>),
    Closed(Arc<[u8]>),
    Away,
}

/// Consecutive message numbers `first .. first + count`.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    /// Number of its first message.
    pub(crate) first: u64,
    /// Messages, settled ones included.
    pub(crate) count: u32,
    /// Messages not yet settled.
    pub(crate) live: u32,
    /// Messages delivered and not yet settled or returned.
    pub(crate) unacked: u32,
    /// Persistent messages, settled ones included.
    pub(crate) persistent: u32,
    /// Some message carries an expiry.
    pub(crate) expires: bool,
    /// Copy on disk.
    pub(crate) place: Option<BlockPlace>,
    /// The copy on disk is covered by the sync asked for last: a state record may refer to it.
    pub(crate) synced: bool,
    /// A write is under way.
    pub(crate) writing: bool,
    /// A read is under way.
    pub(crate) reading: bool,
    /// Log position of its first enqueue record whose messages are not in a segment; 0 when there is none.
    pub(crate) log_position: u64,
    /// Body bytes of unsettled messages, and of the transient ones among them, while `entries` are not in memory.
    away_body_bytes: u64,
    away_transient_bytes: u64,
    data: Data,
    entries: Vec<Entry>,
    settled: Bitmap,
    redelivered: Bitmap,
    transient: Bitmap,
}

impl Block {
    /// An empty block whose first message will have this number.
    pub(crate) fn new(first: u64) -> Block {
        Block {
            first,
            count: 0,
            live: 0,
            unacked: 0,
            persistent: 0,
            expires: false,
            place: None,
            synced: false,
            writing: false,
            reading: false,
            log_position: 0,
            away_body_bytes: 0,
            away_transient_bytes: 0,
            data: Data::Open(Vec::new()),
            entries: Vec::new(),
            settled: Bitmap::default(),
            redelivered: Bitmap::default(),
            transient: Bitmap::default(),
        }
    }

    /// A block known only from a state record: bytes on disk, some messages settled, `body_bytes` in the others.
    pub(crate) fn on_disk(
        first: u64,
        count: u32,
        place: BlockPlace,
        settled: Bitmap,
        expires: bool,
        body_bytes: u64,
    ) -> Block {
        let live = (0..count).filter(|index| !settled.contains(*index)).count() as u32;
        Block {
            count,
            live,
            persistent: live,
            expires,
            place: Some(place),
            synced: true,
            away_body_bytes: body_bytes,
            data: Data::Away,
            settled,
            ..Block::new(first)
        }
    }

    /// Number after its last message.
    pub(crate) fn end(&self) -> u64 {
        self.first + u64::from(self.count)
    }

    /// All its messages are settled and it is the newest: start over without giving the memory of a small one back.
    pub(crate) fn begin_anew(&mut self, first: u64) {
        const KEPT_BYTES_MAX: usize = 512;
        let kept = match std::mem::replace(&mut self.data, Data::Away) {
            Data::Open(mut bytes) if bytes.capacity() <= KEPT_BYTES_MAX => {
                bytes.clear();
                bytes
            }
            _ => Vec::new(),
        };
        *self = Block { data: Data::Open(kept), ..Block::new(first) };
    }

    /// Whether it takes more messages.
    pub(crate) fn is_open(&self) -> bool {
        matches!(&self.data, Data::Open(bytes) if bytes.len() < BLOCK_BYTES)
    }

    /// Whether its bytes are in memory.
    pub(crate) fn is_resident(&self) -> bool {
        !matches!(self.data, Data::Away)
    }

    /// Bytes of message data in memory.
    pub(crate) fn data_bytes(&self) -> usize {
        match &self.data {
            Data::Open(bytes) => bytes.len(),
            Data::Closed(bytes) => bytes.len(),
            Data::Away => 0,
        }
    }

    /// All bytes on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        let data = match &self.data {
            Data::Open(bytes) => bytes.capacity(),
            Data::Closed(bytes) => bytes.len(),
            Data::Away => 0,
        };
        let bits = self.settled.heap_bytes() + self.redelivered.heap_bytes() + self.transient.heap_bytes();
        data + self.entries.capacity() * size_of::<Entry>() + bits
    }

    /// Adds a message through `write`, which appends its stored form.
    pub(crate) fn push(
        &mut self,
        persistent: bool,
        expires: bool,
        body_bytes: usize,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        let Data::Open(bytes) = &mut self.data else { unreachable!("only the newest block takes messages") };
        let offset = u32::try_from(bytes.len()).expect("a block is small but for one large message");
        write(bytes);
        self.entries.push(Entry { offset, body_bytes: body_bytes as u32 });
        if persistent {
            self.persistent += 1;
        } else {
            self.transient.insert(self.count);
        }
        self.count += 1;
        self.live += 1;
        self.expires |= expires;
    }

    /// Adds a number that is not there (settled before recovery, or never logged).
    pub(crate) fn push_hole(&mut self) {
        let Data::Open(bytes) = &mut self.data else { unreachable!("only the newest block takes messages") };
        self.entries.push(Entry { offset: bytes.len() as u32, body_bytes: 0 });
        record::store_hole(bytes);
        self.settled.insert(self.count);
        self.count += 1;
    }

    /// Takes no more messages; its bytes become shareable with a writer.
    pub(crate) fn close(&mut self) {
        if let Data::Open(bytes) = &mut self.data {
            self.data = Data::Closed(Arc::from(std::mem::take(bytes)));
            self.entries.shrink_to_fit();
        }
    }

    /// The bytes of a closed resident block.
    pub(crate) fn shared_bytes(&self) -> Option<Arc<[u8]>> {
        match &self.data {
            Data::Closed(bytes) => Some(bytes.clone()),
            _ => None,
        }
    }

    /// Drops the bytes from memory; they must be on disk. The index stays while deliveries are unsettled.
    pub(crate) fn evict(&mut self) {
        assert!(self.place.is_some(), "a block leaves memory only when it is on disk");
        self.data = Data::Away;
        if self.unacked == 0 {
            let (all, persistent) = (self.live_body_bytes(), self.live_persistent_body_bytes());
            (self.away_body_bytes, self.away_transient_bytes) = (all, all - persistent);
            self.entries = Vec::new();
        }
    }

    /// Bytes came back from disk. Returns false when they do not hold the messages they should.
    pub(crate) fn fill(&mut self, bytes: Vec<u8>) -> bool {
        let mut entries = Vec::with_capacity(self.count as usize);
        let mut at = 0;
        for _ in 0..self.count {
            let Some((stored, taken)) = record::parse(&bytes[at..]) else { return false };
            entries.push(Entry { offset: at as u32, body_bytes: stored.message.body.len() as u32 });
            at += taken;
        }
        if at != bytes.len() {
            return false;
        }
        self.entries = entries;
        self.data = Data::Closed(Arc::from(bytes));
        true
    }

    fn index(&self, number: u64) -> u32 {
        debug_assert!(number >= self.first && number < self.end());
        (number - self.first) as u32
    }

    /// Stored form of a message; `None` when the block is not resident.
    pub(crate) fn stored_bytes(&self, number: u64) -> Option<&[u8]> {
        let entry = self.entries.get(self.index(number) as usize)?;
        let bytes: &[u8] = match &self.data {
            Data::Open(bytes) => bytes,
            Data::Closed(bytes) => bytes,
            Data::Away => return None,
        };
        let next = self
            .entries
            .get(self.index(number) as usize + 1)
            .map_or(bytes.len(), |next| next.offset as usize);
        Some(&bytes[entry.offset as usize..next])
    }

    /// A message; `None` when the block is not resident.
    pub(crate) fn stored(&self, number: u64) -> Option<Stored<'_>> {
        let bytes = self.stored_bytes(number)?;
        Some(record::parse(bytes).expect("a resident block was checked when it was filled").0)
    }

    /// Bytes of a message's body; 0 when the index is not in memory.
    pub(crate) fn body_bytes(&self, number: u64) -> u64 {
        self.entries.get(self.index(number) as usize).map_or(0, |entry| u64::from(entry.body_bytes))
    }

    /// Bytes of bodies of unsettled messages.
    pub(crate) fn live_body_bytes(&self) -> u64 {
        if self.entries.is_empty() {
            return self.away_body_bytes;
        }
        self.body_bytes_without(&self.settled)
    }

    /// Bytes of bodies of unsettled persistent messages: what survives a restart.
    pub(crate) fn live_persistent_body_bytes(&self) -> u64 {
        if self.entries.is_empty() {
            return self.away_body_bytes - self.away_transient_bytes;
        }
        self.body_bytes_without(&self.settled_or_transient())
    }

    fn body_bytes_without(&self, gone: &Bitmap) -> u64 {
        let here = |(index, _): &(usize, &Entry)| !gone.contains(*index as u32);
        self.entries.iter().enumerate().filter(here).map(|(_, entry)| u64::from(entry.body_bytes)).sum()
    }

    /// Recovery only: so many body bytes were settled, of messages whose sizes are not in memory.
    pub(crate) fn forget_away_bytes(&mut self, body_bytes: u64) {
        self.away_body_bytes = self.away_body_bytes.saturating_sub(body_bytes);
    }

    /// Marks a message settled; tells whether it was not yet.
    pub(crate) fn settle(&mut self, number: u64) -> bool {
        let new = self.settled.insert(self.index(number));
        if new {
            self.live -= 1;
        }
        new
    }

    /// Whether a message is settled.
    pub(crate) fn is_settled(&self, number: u64) -> bool {
        self.settled.contains(self.index(number))
    }

    /// Marks a message as delivered before.
    pub(crate) fn mark_redelivered(&mut self, number: u64) {
        let index = self.index(number);
        self.redelivered.insert(index);
    }

    /// Whether a message was delivered before.
    pub(crate) fn is_redelivered(&self, number: u64) -> bool {
        self.redelivered.contains(self.index(number))
    }

    /// Whether a message is persistent.
    pub(crate) fn is_persistent(&self, number: u64) -> bool {
        self.persistent > 0 && !self.transient.contains(self.index(number))
    }

    /// Settled bits, with transient messages counted as settled: what survives a restart.
    pub(crate) fn settled_or_transient(&self) -> Bitmap {
        self.settled.union(&self.transient)
    }
}
