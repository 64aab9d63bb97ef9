//! A block's copy on disk: how much of it lives, and what would be left of it if it were written anew. Knows nothing of when that is
//! worth the work.

use std::ops::Range;

use super::{ALIKE, BACKLOG_BLOCK_BYTES, Block, Content, Data, Entry};
use crate::logged::{Logged, Place, Remains};
use crate::record::{self, HOLES_BYTES, InBlock, LENGTH_BYTES, RUN_BYTES};

/// Messages of a block that are in its copy, and bytes of the bodies that are their own.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Copied {
    messages: u32,
    body_bytes: u64,
}

/// Bytes of a copy that are no bodies: each of its messages has the same part of them. Most of what it says of messages that are alike stands
/// there once.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Overhead {
    bytes: u32,
    messages: u32,
}

impl Overhead {
    fn new(copied: Copied, copy_bytes: u64) -> Overhead {
        let bytes = copy_bytes.saturating_sub(copied.body_bytes);
        Overhead { bytes: u32::try_from(bytes).unwrap_or(u32::MAX), messages: copied.messages }
    }

    fn of(self, messages: u32) -> u64 {
        u64::from(self.bytes) * u64::from(messages) / u64::from(self.messages.max(1))
    }
}

/// The known heads that messages of a block have in common: runs of messages that are alike, and the most that one of them
/// takes beside its messages, in units of [`HEAD_UNIT`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Heads {
    /// So many at most.
    pub(crate) runs: u16,
    /// 0 when it is not known.
    pub(crate) longest: u16,
}

const HEAD_UNIT: usize = 4;

impl Heads {
    /// Another run, whose messages have so many bytes in common.
    pub(crate) fn add(&mut self, head_bytes: usize) {
        let units = (head_bytes + RUN_BYTES + HOLES_BYTES).div_ceil(HEAD_UNIT);
        self.runs = self.runs.saturating_add(1);
        self.longest = self.longest.max(u16::try_from(units).unwrap_or(u16::MAX));
    }

    fn longest_bytes(self) -> u64 {
        u64::from(self.longest) * HEAD_UNIT as u64
    }

    /// Bytes that so many messages have at most beside their bodies, packed.
    fn packed_bytes(self, messages: u32) -> u64 {
        let runs = u64::from(messages.min(self.runs.into()));
        runs * self.longest_bytes() + u64::from(messages) * LENGTH_BYTES as u64
    }
}

impl Block {
    /// Bytes of bodies that are their messages' own, of some of these messages; 0 when the index is not in memory.
    fn own_body_bytes(&self, indices: Range<u32>, is_counted: impl Fn(u32) -> bool) -> u64 {
        let Some(content) = &self.content else { return 0 };
        let has_shared = self.shared().is_some();
        let entries = content.entries.get(indices.start as usize..indices.end as usize);
        let counted = indices.zip(entries.unwrap_or_default()).filter(|(index, _)| is_counted(*index));
        let own = |(index, entry): (u32, &Entry)| match entry.body_bytes() {
            // A body that lies elsewhere, perhaps long since settled.
            bytes if has_shared && bytes > content.stored_len(index..index + 1) as u64 => 0,
            bytes => bytes,
        };
        counted.map(own).sum()
    }

    fn own_live_body_bytes(&self) -> u64 {
        if self.live == self.count {
            return self.own_body_bytes(0..self.count, |_| true);
        }
        self.own_body_bytes(0..self.count, |index| !self.is_settled_at(index))
    }

    /// It is to be copied, without what is settled or with it. Answered by [`Self::copied_to`].
    pub(crate) fn begin_copy(&mut self, is_hollow: bool) {
        let copied = match is_hollow {
            true => Copied { messages: self.live, body_bytes: self.own_live_body_bytes() },
            false => {
                Copied { messages: self.count, body_bytes: self.own_body_bytes(0..self.count, |_| true) }
            }
        };
        if let Some(content) = &mut self.content {
            content.copying = copied;
        }
    }

    /// It has a copy here now.
    pub(crate) fn copied_to(&mut self, place: Place) {
        self.put_at(place);
        let body_bytes = self.own_live_body_bytes();
        let Some(content) = &mut self.content else {
            // Nothing that was settled was copied.
            self.live_bytes = if self.live > 0 { place.bytes() } else { 0 };
            return;
        };
        let mut copied = std::mem::take(&mut content.copying);
        if copied.messages == 0 {
            // It was asked for before its index was read.
            copied = Copied { messages: self.live, body_bytes };
        }
        let copy_bytes = match place {
            Place::Segment(place) => place.bytes,
            Place::Log(range) => content.logged.own_bytes().min(range.bytes),
        };
        content.overhead = Overhead::new(copied, u64::from(copy_bytes).min(content.data_len() as u64));
        self.count_live_bytes(body_bytes);
    }

    /// Recovery only: a copy of the one in the log, with all that is in it, is here now.
    pub(crate) fn copied_as_it_was(&mut self, place: Place) {
        let part = u64::from(self.live_bytes) * u64::from(place.bytes());
        let bytes = part / u64::from(self.segment_bytes.max(1));
        self.live_bytes = u32::try_from(bytes).unwrap_or(u32::MAX).min(place.bytes());
        self.put_at(place);
    }

    /// Bytes of its copy that live, when so many are of bodies.
    fn count_live_bytes(&mut self, body_bytes: u64) {
        let overhead = self.content.as_ref().map_or(Overhead::default(), |content| content.overhead);
        let bytes = if self.live > 0 { body_bytes + overhead.of(self.live) } else { 0 };
        self.live_bytes = u32::try_from(bytes).unwrap_or(u32::MAX).min(self.segment_bytes);
    }

    /// Messages with these indices are being settled: their bytes do not count any more. When their sizes are not known, they have
    /// their share of what lives.
    pub(crate) fn forget_live_bytes(&mut self, indices: Range<u32>) {
        let (count, live) = (indices.end - indices.start, self.live);
        let bytes = match &self.content {
            _ if count >= live => self.live_bytes,
            Some(content) if self.segment_bytes == 0 => content.stored_len(indices) as u32,
            Some(content) => {
                // In this way one by one comes to the same as all at once.
                let overhead = content.overhead.of(live) - content.overhead.of(live - count);
                let bytes = self.own_body_bytes(indices, |_| true) + overhead;
                u32::try_from(bytes).unwrap_or(u32::MAX)
            }
            None => (u64::from(self.live_bytes) * u64::from(count) / u64::from(live)) as u32,
        };
        self.live_bytes = self.live_bytes.saturating_sub(bytes);
    }

    /// Bytes of its messages as they are stored, those included that are settled. Of one on disk about: its copy may have less.
    pub(crate) fn whole_bytes(&self) -> usize {
        let Some(content) = &self.content else {
            let copy_bytes = self.own_copy_bytes() as usize;
            if self.shared().is_some() {
                return copy_bytes;
            }
            let whole = u64::from(self.away_body_bytes) + u64::from(self.live) * self.heads.longest_bytes();
            return copy_bytes.max(whole.min(BACKLOG_BLOCK_BYTES as u64) as usize);
        };
        content.data_len()
    }

    /// Bytes of its copy, about: without what others have between its records, where that is more than its own.
    pub(crate) fn own_copy_bytes(&self) -> u64 {
        let copy_bytes = u64::from(self.segment_bytes);
        if self.log_range().is_none() {
            return copy_bytes;
        }
        let own_bytes = match &self.content {
            Some(content) => content.data_len() as u64,
            None if self.heads.longest == 0 || self.live == 0 => return copy_bytes,
            None => {
                let live_bytes =
                    u64::from(self.away_body_bytes) + u64::from(self.live) * self.heads.longest_bytes();
                live_bytes * u64::from(self.count) / u64::from(self.live)
            }
        };
        copy_bytes.min(own_bytes)
    }

    /// Bytes of its own in the log, about, if others have most of what lies from its first message there to its last: what is settled is
    /// among them, and of records that it shares with other blocks its part. Never less than what of it lives.
    pub(crate) fn spread_bytes(&self) -> Option<u64> {
        let range = self.log_range()?;
        if !range.is_spread(self.own_copy_bytes() as usize) {
            return None;
        }
        let (live, live_bytes) = (u64::from(self.live), u64::from(self.live_bytes));
        let own_bytes = match &self.content {
            _ if self.live == self.count => live_bytes,
            Some(content) => self.own_body_bytes(0..self.count, |_| true) + content.overhead.of(self.count),
            // Settled messages were like the others, as far as anybody knows, and no block is much longer.
            None => (live_bytes * u64::from(self.count) / live.max(1)).min(BACKLOG_BLOCK_BYTES as u64),
        };
        Some(own_bytes.clamp(live_bytes, range.bytes.into()))
    }

    /// Bytes that it has at most when it is written anew: without what is settled, what messages that are alike have in common once.
    pub(crate) fn kept_bytes(&self) -> u64 {
        if self.live == 0 {
            return 0;
        }
        let (live, live_bytes) = (self.live, u64::from(self.live_bytes));
        let holes = u64::from(live.min(self.count - live));
        let is_known = self.heads.longest > 0 && (self.content.is_some() || self.shared().is_none());
        let bytes = if is_known {
            let body_bytes = match &self.content {
                Some(content) if self.segment_bytes > 0 => {
                    live_bytes.saturating_sub(content.overhead.of(live))
                }
                Some(_) => self.own_live_body_bytes(),
                // Of a block of which somebody forgot them.
                None if self.away_body_bytes == 0 => live_bytes,
                None => self.away_body_bytes.into(),
            };
            let holes_bytes = holes * LENGTH_BYTES as u64 + HOLES_BYTES as u64;
            body_bytes + self.heads.packed_bytes(live) + holes_bytes
        } else {
            live_bytes + (holes + 1) * HOLES_BYTES as u64
        };
        let bytes_max = if self.segment_bytes > 0 { self.segment_bytes.into() } else { self.punched_bytes() };
        bytes.min(bytes_max)
    }

    /// Bytes of a block without a copy when it is without what is settled and not packed, at most.
    fn punched_bytes(&self) -> u64 {
        u64::from(self.live_bytes) + (u64::from(self.live) + 1) * HOLES_BYTES as u64
    }

    /// Offline only: this is all that is left of its copy. False when it is not of this block.
    pub(crate) fn lose(&mut self, remains: Remains) -> bool {
        for index in remains.missing.into_iter().flatten() {
            let number = self.first + u64::from(index);
            self.settle(number);
            self.take_body(number);
        }
        let is_own = self.fill_data(remains.bytes);
        if is_own {
            self.evict();
        }
        is_own
    }

    /// Whether less than half of it would be written to a segment if it were without what is settled; of a block without a copy.
    pub(crate) fn is_hollow(&self) -> bool {
        self.punched_bytes() * 2 < self.data_bytes() as u64
    }

    /// Bytes that would be written of a block without a copy, at most: it is packed when that saves an eighth.
    pub(crate) fn written_bytes(&self) -> u64 {
        let packed = match self.is_hollow() {
            true => self.kept_bytes(),
            false => self.own_body_bytes(0..self.count, |_| true) + self.heads.packed_bytes(self.count),
        };
        (packed + packed.div_ceil(7)).min(self.data_bytes() as u64)
    }

    /// The block's bytes as they are in memory came back from disk. False when they do not hold the messages they should.
    pub(crate) fn fill_data(&mut self, bytes: Vec<u8>) -> bool {
        let mut entries: Vec<Entry> = Vec::with_capacity(self.count as usize);
        let (mut at, mut copied, mut heads) = (0, Copied::default(), Heads::default());
        let (mut live_body_bytes, mut whole_bytes) = (0, 0);
        // The latest message, without its body if that is its own; and whether it is right before.
        let (mut latest, mut follows) = (0..0, false);
        while let index = entries.len() as u32
            && index < self.count
        {
            let Some((found, taken)) = record::parse_in_block(&bytes[at..]) else { return false };
            match found {
                InBlock::Message(stored) => {
                    let own_bytes = stored.message.body.len();
                    let is_live = !self.is_settled_at(index);
                    if is_live {
                        let known = self.shared().and_then(|bodies| bodies.id(index));
                        if stored.shared.map(|shared| shared.id) != known {
                            return false;
                        }
                        live_body_bytes += own_bytes as u64;
                    }
                    let head = at + LENGTH_BYTES..at + taken - own_bytes;
                    let is_alike = stored.shared.is_none() && bytes[latest.clone()] == bytes[head.clone()];
                    if !is_alike {
                        heads.add(taken - own_bytes);
                    }
                    let mut entry = Entry::new(at, stored.body_bytes());
                    entry.body |= if is_alike && follows { ALIKE } else { 0 };
                    entries.push(entry);
                    copied.messages += 1;
                    copied.body_bytes += own_bytes as u64;
                    whole_bytes += taken as u64;
                    (latest, follows) = (if stored.shared.is_none() { head } else { 0..0 }, true);
                }
                InBlock::Holes(count) => {
                    let is_inside = count <= self.count - index;
                    if !is_inside || !(index..index + count).all(|index| self.is_settled_at(index)) {
                        return false;
                    }
                    (0..count).for_each(|_| entries.push(Entry::new(at, 0)));
                    follows = false;
                }
                // The reader has unpacked it.
                InBlock::Run(_) => return false,
            }
            at += taken;
        }
        if at != bytes.len() {
            return false;
        }
        let overhead = match self.place() {
            Some(Place::Segment(place)) => Overhead::new(copied, place.bytes.into()),
            // Records of others between its own were not read: the known figure stays.
            Some(Place::Log(_)) if self.live > 0 => Overhead {
                bytes: u32::try_from(u64::from(self.live_bytes).saturating_sub(live_body_bytes))
                    .unwrap_or(u32::MAX),
                messages: self.live,
            },
            _ => Overhead::new(copied, whole_bytes),
        };
        let mut content = Content::open(Vec::new());
        (content.data, content.entries) = (Data::Closed(bytes.into()), entries);
        content.overhead = overhead;
        (content.logged, self.heads) = (Logged::default(), heads);
        self.content = Some(Box::new(content));
        self.count_live_bytes(live_body_bytes);
        true
    }
}
