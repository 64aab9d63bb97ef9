//! A block: consecutive messages of one priority level, in memory, on disk, or both.

mod alike;
mod copy;
mod large;
mod sizes;

pub(crate) use alike::AddedAlike;
pub(crate) use copy::Heads;
pub(crate) use sizes::BodyBytesOf;

use super::bitmap::Bitmap;
use super::bodies::BlockBodies;
use crate::body::{BlockBytes, BodyBytes, HeldBody, SharedBody};
use crate::logged::{LogRange, Logged, Place};
use crate::record::{self, BlockPlace, Stored};

/// Bytes of messages after which a block is closed and a new one begun.
pub(crate) const BLOCK_BYTES: usize = 64 * 1024;

/// The same in a long backlog, most of which is on disk: four times fewer blocks to remember.
pub(crate) const BACKLOG_BLOCK_BYTES: usize = 4 * BLOCK_BYTES;

/// The same of a block whose first messages a state record has, where there is hardly room to write it anew.
pub(crate) const STATED_BYTES_MAX: usize = 16 * 1024;

/// One message in a resident block.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// Where its stored form begins.
    offset: u32,
    /// Bytes of its body, and [`ALIKE`].
    body: u32,
}

/// Set in [`Entry::body`]: the message's stored form differs from the one before it in the block in body and length only, and the body
/// is in it. Bodies have at most 512 MiB.
const ALIKE: u32 = 1 << 31;

impl Entry {
    fn new(offset: usize, body_bytes: usize) -> Entry {
        let offset = u32::try_from(offset).expect("a block is small but for one large message");
        Entry { offset, body: body_bytes as u32 & !ALIKE }
    }

    #[inline]
    fn body_bytes(self) -> u64 {
        u64::from(self.body & !ALIKE)
    }

    #[inline]
    fn is_alike(self) -> bool {
        self.body & ALIKE != 0
    }
}

/// Message bytes: growing while the block is the newest, shared once closed. Closed or read bytes are not copied: one message may
/// be hundreds of megabytes.
#[derive(Clone, Debug)]
enum Data {
    Open(Vec<u8>),
    Closed(BlockBytes),
    /// On disk; so many bytes.
    Away(usize),
}

/// The bytes of a block, and where its messages are in them. Without the bytes while they are on disk only and some of the
/// messages are handed out: their sizes are still needed.
#[derive(Clone, Debug)]
struct Content {
    data: Data,
    entries: Vec<Entry>,
    logged: Logged,
    /// Bytes of the copy on disk beside bodies.
    overhead: copy::Overhead,
    /// Bytes that the copy that is being written will have.
    copying: copy::Copied,
}

/// The offset in the segment of a block that lies in the log.
const IN_LOG: u32 = u32::MAX;

/// State of single messages; most blocks of a backlog have nothing here.
#[derive(Clone, Debug, Default)]
struct Marks {
    /// Settled messages that are not among the first ones.
    settled: Bitmap,
    redelivered: Bitmap,
    /// Transient messages of a block with both kinds.
    transient: Bitmap,
    /// Bodies that other queues have, too.
    bodies: Option<Box<BlockBodies>>,
}

static NO_MARKS: Marks =
    Marks { settled: Bitmap::EMPTY, redelivered: Bitmap::EMPTY, transient: Bitmap::EMPTY, bodies: None };

/// Consecutive message numbers `first .. first + count`. Small where it counts: of a backlog of ten million messages tens of
/// thousands of blocks are on disk, and this is all that is in memory of them.
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
    /// Bytes of messages not yet settled, without shared bodies: as they are stored, or of the copy on disk once there is one. About so many
    /// when some were settled whose sizes were not known.
    pub(crate) live_bytes: u32,
    /// The heads that messages have in common.
    pub(crate) heads: Heads,
    /// So many of the first messages are settled; acks mostly come in order.
    settled_first: u32,
    /// Copy on disk: segment, offset, and bytes, of which there are none without a copy. In the log: position, [`IN_LOG`], bytes.
    segment: u64,
    segment_offset: u32,
    segment_bytes: u32,
    /// Body bytes of unsettled messages, and of the transient ones among them, while there is no content.
    away_body_bytes: u32,
    away_transient_bytes: u32,
    content: Option<Box<Content>>,
    marks: Option<Box<Marks>>,
    /// Some message carries an expiry.
    pub(crate) expires: bool,
    /// The copy on disk is covered by the sync asked for last: a state record may refer to it.
    pub(crate) synced: bool,
    /// A write is under way.
    pub(crate) writing: bool,
    /// A read is under way.
    pub(crate) reading: bool,
}

/// A block known from a state record.
pub(crate) struct PlacedOnDisk {
    pub(crate) first: u64,
    pub(crate) count: u32,
    pub(crate) place: Place,
    pub(crate) settled: Bitmap,
    pub(crate) expires: bool,
    /// Bytes of bodies of messages that are not settled.
    pub(crate) body_bytes: u64,
    /// Bytes of the copy that are of these messages, if the record tells.
    pub(crate) live_bytes: Option<u32>,
    /// The heads that they have in common, if the record tells.
    pub(crate) heads: Heads,
    /// Places in the block of messages with shared bodies, ascending.
    pub(crate) bodies: Vec<(u32, SharedBody)>,
}

impl Content {
    fn open(bytes: Vec<u8>) -> Content {
        Content {
            data: Data::Open(bytes),
            entries: Vec::new(),
            logged: Logged::default(),
            overhead: copy::Overhead::default(),
            copying: copy::Copied::default(),
        }
    }

    /// Whether it may be kept for the next messages of a queue that is empty now.
    fn is_small(&self) -> bool {
        const KEPT_BYTES_MAX: usize = 512;
        const KEPT_ENTRIES_MAX: usize = 16;
        let is_small = matches!(&self.data, Data::Open(bytes) if bytes.capacity() <= KEPT_BYTES_MAX);
        is_small && self.entries.capacity() <= KEPT_ENTRIES_MAX
    }

    fn data_len(&self) -> usize {
        match &self.data {
            Data::Open(bytes) => bytes.len(),
            Data::Closed(bytes) => bytes.len(),
            Data::Away(bytes) => *bytes,
        }
    }

    /// Stored bytes of messages with these indices.
    fn stored_len(&self, indices: std::ops::Range<u32>) -> usize {
        let begin = |index: u32| {
            self.entries.get(index as usize).map_or(self.data_len(), |entry| entry.offset as usize)
        };
        begin(indices.end) - begin(indices.start)
    }

    fn cleared(mut self: Box<Content>) -> Box<Content> {
        if let Data::Open(bytes) = &mut self.data {
            bytes.clear();
        }
        self.entries.clear();
        self.logged = Logged::default();
        (self.overhead, self.copying) = Default::default();
        self
    }
}

impl Block {
    /// An empty block whose first message will have this number.
    pub(crate) fn new(first: u64) -> Block {
        Block { content: Some(Box::new(Content::open(Vec::new()))), ..Block::without_content(first) }
    }

    fn without_content(first: u64) -> Block {
        Block {
            first,
            count: 0,
            live: 0,
            unacked: 0,
            persistent: 0,
            live_bytes: 0,
            heads: Heads::default(),
            settled_first: 0,
            segment: 0,
            segment_offset: 0,
            segment_bytes: 0,
            away_body_bytes: 0,
            away_transient_bytes: 0,
            content: None,
            marks: None,
            expires: false,
            synced: false,
            writing: false,
            reading: false,
        }
    }

    /// A block known only from a state record: bytes on disk, some messages settled. `None` when there can be no such block.
    pub(crate) fn on_disk(known: PlacedOnDisk) -> Option<Block> {
        let PlacedOnDisk { first, count, place, settled, expires, body_bytes, live_bytes, heads, bodies } =
            known;
        let live = (0..count).filter(|index| !settled.contains(*index)).count() as u32;
        let is_possible = match place {
            Place::Segment(place) => place.offset < IN_LOG.into(),
            Place::Log(range) => range.position.checked_add(range.bytes.into()).is_some(),
        };
        let settled_first = (0..count).take_while(|index| settled.contains(*index)).count() as u32;
        let is_gapped = live < count - settled_first;
        let marks = is_gapped.then(|| Box::new(Marks { settled, ..Marks::default() }));
        let share = u64::from(place.bytes()) * u64::from(live) / u64::from(count.max(1));
        let mut block = Block {
            count,
            live,
            persistent: live,
            // Before version 6 they counted as they are stored.
            live_bytes: live_bytes.unwrap_or(share as u32).min(place.bytes()),
            heads,
            settled_first,
            expires,
            synced: true,
            away_body_bytes: u32::try_from(body_bytes).ok()?,
            marks,
            ..Block::without_content(first)
        };
        if !is_possible || place.bytes() == 0 {
            return None;
        }
        block.put_at(place);
        let mut next = 0;
        for (index, body) in bodies {
            if index < next || index >= count || block.is_settled_at(index) {
                return None;
            }
            next = index + 1;
            block.bodies_mut().add(index, body, None);
        }
        Some(block)
    }

    /// Its copy on disk.
    pub(crate) fn place(&self) -> Option<Place> {
        if self.segment_bytes == 0 {
            return None;
        }
        Some(match self.segment_offset {
            IN_LOG => Place::Log(LogRange { position: self.segment, bytes: self.segment_bytes }),
            offset => Place::Segment(BlockPlace {
                segment: self.segment,
                offset: offset.into(),
                bytes: self.segment_bytes,
            }),
        })
    }

    /// Its place in the log, if that is where its copy is.
    pub(crate) fn log_range(&self) -> Option<LogRange> {
        match self.place() {
            Some(Place::Log(range)) => Some(range),
            _ => None,
        }
    }

    /// It has a copy on disk.
    pub(crate) fn put_at(&mut self, place: Place) {
        (self.segment, self.segment_offset, self.segment_bytes) = match place {
            Place::Segment(place) => {
                let offset = u32::try_from(place.offset).expect("segments are below 4 GiB");
                (place.segment, offset, place.bytes)
            }
            Place::Log(range) => (range.position, IN_LOG, range.bytes),
        };
    }

    /// Its copy on disk is there after a crash if a state record that is logged from now on is.
    pub(crate) fn is_safe(&self) -> bool {
        self.synced || self.log_range().is_some()
    }

    /// Its latest messages, so many, were logged with this record, of which so many bytes are theirs.
    pub(crate) fn note_logged(&mut self, record: &std::ops::Range<u64>, messages: u32, bytes: u32) {
        if let Some(content) = &mut self.content {
            content.logged.note(record, messages, bytes);
        }
    }

    /// Where it lies in the log, of which nothing before `oldest_log` may be there, if it can be read from there.
    pub(crate) fn place_in_log(&self, oldest_log: u64) -> Option<LogRange> {
        self.content.as_ref()?.logged.place_of(self.count, self.data_bytes(), oldest_log)
    }

    /// Whether it is in memory, and its copy in the log, where others have most of what lies between: to read it there is dear.
    pub(crate) fn is_spread(&self) -> bool {
        self.has_data() && self.log_range().is_some_and(|range| range.is_spread(self.data_bytes()))
    }

    fn marks(&self) -> &Marks {
        self.marks.as_deref().unwrap_or(&NO_MARKS)
    }

    fn marks_mut(&mut self) -> &mut Marks {
        self.marks.get_or_insert_default()
    }

    fn shared(&self) -> Option<&BlockBodies> {
        self.marks.as_ref()?.bodies.as_deref()
    }

    fn bodies_mut(&mut self) -> &mut BlockBodies {
        self.marks_mut().bodies.get_or_insert_default()
    }

    /// Shared bodies of messages that are not settled, with their places in the block.
    pub(crate) fn bodies(&self) -> impl Iterator<Item = (u32, &SharedBody)> {
        self.shared().into_iter().flat_map(BlockBodies::iter)
    }

    /// Shared bodies whose bytes are not in memory.
    pub(crate) fn absent_bodies(&self) -> Vec<SharedBody> {
        self.shared().map_or_else(Vec::new, |bodies| bodies.absent().cloned().collect())
    }

    /// A settled message's shared body, and the bytes that left memory with it.
    pub(crate) fn take_body(&mut self, number: u64) -> Option<(SharedBody, usize)> {
        let index = self.index(number);
        self.marks.as_mut()?.bodies.as_mut()?.take(index)
    }

    /// A message's shared body with its bytes, if it has one and they are in memory.
    pub(crate) fn held_body(&self, number: u64) -> Option<HeldBody> {
        self.shared()?.held(self.index(number))
    }

    /// Recovery only: handles in place of names.
    pub(crate) fn resolve_bodies(&mut self, resolve: &mut dyn FnMut(&SharedBody) -> SharedBody) {
        if let Some(bodies) = self.marks.as_mut().and_then(|marks| marks.bodies.as_mut()) {
            bodies.resolve(resolve);
        }
    }

    pub(crate) fn data(&self) -> Option<&[u8]> {
        match &self.content.as_ref()?.data {
            Data::Open(bytes) => Some(bytes),
            Data::Closed(bytes) => Some(bytes),
            Data::Away(_) => None,
        }
    }

    fn entries(&self) -> &[Entry] {
        self.content.as_ref().map_or(&[], |content| &content.entries)
    }

    /// Number after its last message.
    pub(crate) fn end(&self) -> u64 {
        self.first + u64::from(self.count)
    }

    /// All its messages are settled and it is the newest: start over without giving the memory of a small one back.
    pub(crate) fn begin_anew(&mut self, first: u64) {
        let content = self.content.take().filter(|content| content.is_small()).map(Content::cleared);
        let content = content.unwrap_or_else(|| Box::new(Content::open(Vec::new())));
        *self = Block { content: Some(content), ..Block::without_content(first) };
    }

    /// Whether it takes more messages: its bytes are fewer than these.
    pub(crate) fn is_open(&self, bytes_max: usize) -> bool {
        let Some(Content { data: Data::Open(bytes), .. }) = self.content.as_deref() else {
            return false;
        };
        let bodies_bytes = self.shared().map_or(0, BlockBodies::added_bytes);
        bytes.len() + bodies_bytes < bytes_max
    }

    /// Whether it takes messages, and has had none.
    pub(crate) fn is_fresh(&self) -> bool {
        self.count == 0 && self.is_open(usize::MAX)
    }

    /// Whether more messages follow in the block, none of whose sizes is known one by one.
    pub(crate) fn is_amid_unknown(&self, number: u64) -> bool {
        self.content.is_none() && number + 1 < self.end()
    }

    /// Whether everything of its messages is in memory.
    pub(crate) fn is_resident(&self) -> bool {
        self.data().is_some() && self.shared().is_none_or(BlockBodies::are_here)
    }

    /// Whether its own bytes are in memory; bodies that it shares may be missing.
    pub(crate) fn has_data(&self) -> bool {
        self.data().is_some()
    }

    /// Bytes of its own in memory: messages without shared bodies.
    pub(crate) fn data_bytes(&self) -> usize {
        self.data().map_or(0, <[u8]>::len)
    }

    /// Bytes of shared bodies that it has in memory.
    pub(crate) fn held_bytes(&self) -> usize {
        self.shared().map_or(0, BlockBodies::held_bytes)
    }

    /// Bytes of messages in memory, shared bodies as if they were its own.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.data_bytes() + self.held_bytes()
    }

    /// Bytes of message data, in memory or on disk.
    pub(crate) fn stored_size(&self) -> usize {
        self.whole_bytes() + self.shared().map_or(0, BlockBodies::added_bytes)
    }

    /// All bytes on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        let content = self.content.as_ref().map_or(0, |content| {
            let data = match &content.data {
                Data::Open(bytes) => bytes.capacity(),
                Data::Closed(bytes) => bytes.heap_bytes(),
                Data::Away(_) => 0,
            };
            size_of::<Content>() + data + content.entries.capacity() * size_of::<Entry>()
        });
        let bits = self.marks.as_ref().map_or(0, |marks| {
            let bits =
                marks.settled.heap_bytes() + marks.redelivered.heap_bytes() + marks.transient.heap_bytes();
            size_of::<Marks>() + bits + marks.bodies.as_ref().map_or(0, |bodies| bodies.heap_bytes())
        });
        content + bits
    }

    /// The bytes of the newest block, and where its messages are in them.
    fn open_content(&mut self) -> (&mut Vec<u8>, &mut Vec<Entry>) {
        match self.content.as_deref_mut() {
            Some(Content { data: Data::Open(bytes), entries, .. }) => (bytes, entries),
            _ => unreachable!("only the newest block takes messages"),
        }
    }

    /// Room for so many bytes and messages; of an open block. It gives back what it does not use when it is closed.
    pub(crate) fn make_room(&mut self, bytes: usize, messages: usize) {
        let (data, entries) = self.open_content();
        data.reserve_exact(bytes);
        entries.reserve_exact(messages);
    }

    /// Adds a message through `write`, which appends its stored form.
    pub(crate) fn push(
        &mut self,
        persistent: bool,
        expires: bool,
        body_bytes: usize,
        shared: Option<(SharedBody, Option<BodyBytes>)>,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        let (bytes, entries) = self.open_content();
        let offset = bytes.len();
        write(bytes);
        let stored_bytes = bytes.len() - offset;
        entries.push(Entry::new(offset, body_bytes));
        self.note_pushed(persistent, expires, body_bytes, stored_bytes, shared);
    }

    #[inline]
    fn note_pushed(
        &mut self,
        persistent: bool,
        expires: bool,
        body_bytes: usize,
        stored_bytes: usize,
        shared: Option<(SharedBody, Option<BodyBytes>)>,
    ) {
        self.live_bytes += stored_bytes as u32;
        let own_bytes = if shared.is_some() { 0 } else { body_bytes };
        self.heads.add(stored_bytes.saturating_sub(own_bytes));
        let (index, is_first_persistent) = (self.count, self.persistent == 0);
        if persistent {
            self.persistent += 1;
            if is_first_persistent && index > 0 {
                let transient = &mut self.marks_mut().transient;
                for earlier in 0..index {
                    transient.insert(earlier);
                }
            }
        } else if !is_first_persistent {
            self.marks_mut().transient.insert(index);
        }
        if let Some((body, bytes)) = shared {
            self.bodies_mut().add(index, body, bytes);
        }
        self.count += 1;
        self.live += 1;
        self.expires |= expires;
    }

    /// Adds a number that is not there (settled before recovery, or never logged).
    pub(crate) fn push_hole(&mut self) {
        let (bytes, entries) = self.open_content();
        entries.push(Entry::new(bytes.len(), 0));
        record::store_hole(bytes);
        let index = self.count;
        self.count += 1;
        self.mark_settled(index);
    }

    /// Takes no more messages; its bytes become shareable with a writer.
    pub(crate) fn close(&mut self) {
        if let Some(content) = self.content.as_deref_mut()
            && let Data::Open(bytes) = &mut content.data
        {
            bytes.shrink_to_fit();
            content.data = Data::Closed(std::mem::take(bytes).into());
            content.entries.shrink_to_fit();
        }
    }

    /// The bytes of a closed resident block.
    pub(crate) fn shared_bytes(&self) -> Option<BlockBytes> {
        match &self.content.as_ref()?.data {
            Data::Closed(bytes) => Some(bytes.clone()),
            _ => None,
        }
    }

    /// Drops the bytes from memory; its own must be on disk. The index stays while deliveries are unsettled.
    pub(crate) fn evict(&mut self) {
        assert!(self.segment_bytes > 0, "a block leaves memory only when it is on disk");
        if let Some(bodies) = self.marks.as_mut().and_then(|marks| marks.bodies.as_mut()) {
            bodies.evict();
        }
        if self.unacked == 0 {
            let (all, persistent) = (self.live_body_bytes(), self.live_persistent_body_bytes());
            let away = |bytes| u32::try_from(bytes).expect("a block on disk is below 4 GiB");
            (self.away_body_bytes, self.away_transient_bytes) = (away(all), away(all - persistent));
            self.content = None;
        } else if let Some(content) = &mut self.content {
            content.data = Data::Away(content.data_len());
        }
    }

    /// Bytes came back from disk: its own, unless they were there, and those of shared bodies. Returns false when they do not hold
    /// the messages they should.
    pub(crate) fn fill(&mut self, bytes: Option<Vec<u8>>, bodies: &[HeldBody]) -> bool {
        if bytes.is_some_and(|bytes| !self.fill_data(bytes)) {
            return false;
        }
        let has_data = self.has_data();
        let shared = self.marks.as_mut().and_then(|marks| marks.bodies.as_mut());
        has_data && shared.is_none_or(|shared| shared.fill(bodies))
    }

    fn index(&self, number: u64) -> u32 {
        debug_assert!(number >= self.first && number < self.end());
        (number - self.first) as u32
    }

    /// Stored form of a message, without a shared body; `None` when the block's own bytes are not in memory.
    #[inline]
    pub(crate) fn stored_bytes(&self, number: u64) -> Option<&[u8]> {
        let (bytes, entries) = (self.data()?, self.entries());
        let index = self.index(number) as usize;
        let start = entries.get(index)?.offset as usize;
        let end = entries.get(index + 1).map_or(bytes.len(), |next| next.offset as usize);
        Some(&bytes[start..end])
    }

    /// A message, with its body wherever that is kept; `None` when the block is not resident, or has no more than a placeholder of it.
    #[inline]
    pub(crate) fn stored(&self, number: u64) -> Option<Stored<'_>> {
        let bytes = self.stored_bytes(number)?;
        let mut stored = record::parse(bytes)?.0;
        if let Some(bodies) = self.shared() {
            if !bodies.are_here() {
                return None;
            }
            if stored.shared.is_some() {
                stored.message.body = bodies.bytes(self.index(number))?;
            }
        }
        Some(stored)
    }

    /// Marks a message settled; tells whether it was not yet.
    pub(crate) fn settle(&mut self, number: u64) -> bool {
        let index = self.index(number);
        let new = self.mark_settled(index);
        if new {
            self.forget_live_bytes(index..index + 1);
            self.live -= 1;
        }
        new
    }

    /// Settles consecutive messages at once, if they are the oldest that are not settled, none after them is, and they are all
    /// persistent or all transient: the rule, because acks mostly come in order. Returns the bytes of their bodies.
    pub(crate) fn settle_in_order(&mut self, numbers: std::ops::Range<u64>) -> Option<u64> {
        let (index, count) = (self.index(numbers.start), (numbers.end - numbers.start) as u32);
        if self.marks.is_some() || index != self.settled_first {
            return None;
        }
        self.forget_live_bytes(index..index + count);
        self.settled_first += count;
        self.live -= count;
        Some(self.body_bytes_of(numbers))
    }

    fn mark_settled(&mut self, index: u32) -> bool {
        if index != self.settled_first {
            return index > self.settled_first && self.marks_mut().settled.insert(index);
        }
        self.settled_first += 1;
        while self.settled_first < self.count && self.marks().settled.contains(self.settled_first) {
            self.settled_first += 1;
        }
        true
    }

    /// Whether a message is settled.
    pub(crate) fn is_settled(&self, number: u64) -> bool {
        self.is_settled_at(self.index(number))
    }

    fn is_settled_at(&self, index: u32) -> bool {
        index < self.settled_first || self.marks().settled.contains(index)
    }

    /// Marks a message as delivered before.
    pub(crate) fn mark_redelivered(&mut self, number: u64) {
        let index = self.index(number);
        self.marks_mut().redelivered.insert(index);
    }

    /// Whether a message was delivered before.
    pub(crate) fn is_redelivered(&self, number: u64) -> bool {
        self.marks().redelivered.contains(self.index(number))
    }

    /// Whether a message is persistent.
    pub(crate) fn is_persistent(&self, number: u64) -> bool {
        self.persistent > 0 && !self.marks().transient.contains(self.index(number))
    }

    /// Settled bits, with transient messages counted as settled: a restart of a block with persistent ones keeps the others.
    pub(crate) fn settled_or_transient(&self) -> Bitmap {
        debug_assert!(self.persistent > 0, "nothing of a block of transient messages survives");
        self.settled().union(&self.marks().transient)
    }

    /// Settled bits.
    pub(crate) fn settled(&self) -> Bitmap {
        let mut settled = self.marks().settled.clone();
        for index in 0..self.settled_first {
            settled.insert(index);
        }
        settled
    }

    /// As [`Block::live_bytes`], of the persistent messages alone; about so many.
    pub(crate) fn live_persistent_bytes(&self) -> u32 {
        let transient = &self.marks().transient;
        if *transient == Bitmap::EMPTY || self.live == 0 {
            return self.live_bytes;
        }
        let is_counted = |index: &u32| !self.is_settled_at(*index) && !transient.contains(*index);
        let survivors = (0..self.count).filter(is_counted).count() as u64;
        (u64::from(self.live_bytes) * survivors / u64::from(self.live)) as u32
    }
}

#[cfg(test)]
mod tests;
