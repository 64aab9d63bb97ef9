//! Messages of a block that follow each other and differ in their bodies only, which is the rule: they come in, are logged and are
//! looked at as a run.

use message::MessageView;
use smallvec::SmallVec;

use super::{ALIKE, Block, Entry};
use crate::record::{self, LENGTH_BYTES, RecordKind};
use crate::store::bodies::BlockBodies;
use crate::traffic::{Delivery, MessageSeq};

/// The sizes that a run of messages added to a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct AddedAlike {
    /// How many there were.
    pub(crate) count: u32,
    /// Bytes of their bodies.
    pub(crate) body_bytes: u64,
    /// Bytes of their stored forms.
    pub(crate) stored_bytes: usize,
}

impl Block {
    /// Adds messages that differ from its latest, whose body is its own, in their bodies only: as many as it takes until it has
    /// `bytes_max` bytes; none when it is closed.
    pub(crate) fn push_alike<'a>(
        &mut self,
        mut bodies: impl Iterator<Item = &'a [u8]>,
        bytes_max: usize,
    ) -> AddedAlike {
        if !self.is_open(bytes_max) {
            return AddedAlike::default();
        }
        let room = bytes_max.saturating_sub(self.shared().map_or(0, BlockBodies::added_bytes));
        let latest = self.end() - 1;
        let (is_persistent, has_persistent) = (self.is_persistent(latest), self.persistent > 0);
        let (bytes, entries) = self.open_content();
        let (before, entries_before) = (bytes.len(), entries.len());
        let Some(template) = entries.last() else { return AddedAlike::default() };
        let head = template.offset as usize..before - template.body_bytes() as usize;
        let mut added = AddedAlike::default();
        while bytes.len() < room
            && let Some(body) = bodies.next()
        {
            let entry = Entry::new(bytes.len(), body.len());
            record::store_alike(bytes, head.clone(), body);
            entries.push(Entry { body: entry.body | ALIKE, ..entry });
            added.body_bytes += body.len() as u64;
        }
        added.count = (entries.len() - entries_before) as u32;
        added.stored_bytes = bytes.len() - before;
        self.live_bytes += added.stored_bytes as u32;
        if is_persistent {
            self.persistent += added.count;
        } else if has_persistent {
            let (first, transient) = (self.count, &mut self.marks_mut().transient);
            (first..first + added.count).for_each(|index| {
                transient.insert(index);
            });
        }
        self.count += added.count;
        self.live += added.count;
        added
    }

    /// Recovery only: adds a message, which is `stored`, through `push`; if it differs from the latest in its body only, as such.
    pub(crate) fn restore(&mut self, stored: &[u8], own_bytes: Option<usize>, push: impl FnOnce(&mut Block)) {
        let is_alike = own_bytes.is_some_and(|bytes| self.is_like_latest(&stored[..stored.len() - bytes]));
        push(self);
        if is_alike {
            self.heads.runs -= 1;
            let latest = self.open_content().1.last_mut().expect("it was just added");
            latest.body |= ALIKE;
        }
    }

    /// Whether the latest message has this before its body, but for the length.
    fn is_like_latest(&self, head: &[u8]) -> bool {
        let (Some(bytes), Some(latest)) = (self.data(), self.entries().last()) else { return false };
        let end = bytes.len().checked_sub(latest.body_bytes() as usize);
        let known = end.and_then(|end| bytes.get(latest.offset as usize + LENGTH_BYTES..end));
        known == head.get(LENGTH_BYTES..)
    }

    /// Appends deliveries of at most `count` messages from `first` on to `run`, up to one that expired before `now_ms`; returns how many.
    /// None when they are not in memory.
    pub(crate) fn peek<'a, const N: usize>(
        &'a self,
        first: MessageSeq,
        count: u64,
        now_ms: u64,
        run: &mut SmallVec<[Delivery<'a>; N]>,
    ) -> u64 {
        let mut peeked = 0;
        while peeked < count {
            let seq = MessageSeq(first.0 + peeked);
            let Some(stored) = self.stored(seq.number()) else { break };
            if stored.expiry_ms.is_some_and(|expiry| expiry < now_ms) {
                break;
            }
            let redelivered = self.is_redelivered(seq.number());
            let delivery =
                Delivery { seq, redelivered, message: stored.message, annotations: stored.annotations };
            run.push(delivery);
            peeked += 1 + self.peek_alike(delivery, count - peeked - 1, run);
        }
        peeked
    }

    /// Appends deliveries of at most `count` messages that follow `before` and differ from it in their bodies only; returns how many.
    fn peek_alike<'a, const N: usize>(
        &'a self,
        before: Delivery<'a>,
        count: u64,
        run: &mut SmallVec<[Delivery<'a>; N]>,
    ) -> u64 {
        let (Some(bytes), next) = (self.data(), self.index(before.seq.number()) as usize + 1) else {
            return 0;
        };
        let entries = self.entries().get(next..).unwrap_or_default();
        let count = entries.iter().take(count as usize).take_while(|entry| entry.is_alike()).count();
        let follow = entries.get(1..).unwrap_or_default().iter().map(|entry| entry.offset as usize);
        let ends = follow.chain([bytes.len()]);
        let alike = (before.seq.0 + 1..).zip(&entries[..count]).zip(ends).map(|((seq, entry), end)| {
            let message =
                MessageView { body: &bytes[end - entry.body_bytes() as usize..end], ..before.message };
            let seq = MessageSeq(seq);
            let redelivered = self.marks.is_some() && self.is_redelivered(seq.number());
            Delivery { seq, redelivered, message, ..before }
        });
        run.extend(alike);
        count as u64
    }

    /// Whether a message was taken in with the one before it, as one that differs in its body only.
    pub(crate) fn is_alike(&self, number: u64) -> bool {
        self.entries().get(self.index(number) as usize).is_some_and(|entry| entry.is_alike())
    }

    /// Appends what an enqueue record of this kind says of consecutive messages that are in memory, the first of which is `seq`.
    pub(crate) fn write_enqueued(&self, out: &mut Vec<u8>, kind: RecordKind, seq: MessageSeq, count: u32) {
        if kind == RecordKind::EnqueueAlike {
            return self.write_runs(out, seq, count);
        }
        let first = self.index(seq.number());
        let content = self.content.as_deref().expect("the newest blocks are in memory");
        out.reserve(content.stored_len(first..first + count) + count as usize * size_of::<MessageSeq>());
        for nth in 0..u64::from(count) {
            let stored = self.stored_bytes(seq.number() + nth).expect("the newest blocks are in memory");
            record::write_enqueued(out, MessageSeq(seq.0 + nth), stored);
        }
    }

    fn write_runs(&self, out: &mut Vec<u8>, seq: MessageSeq, count: u32) {
        let content = self.content.as_deref().expect("the newest blocks are in memory");
        let bytes = self.data().expect("the newest blocks are in memory");
        let (mut at, end) = (self.index(seq.number()), self.index(seq.number()) + count);
        let mut first = seq;
        while at < end {
            let following = &content.entries[at as usize + 1..end as usize];
            let others = following.iter().take_while(|entry| entry.is_alike()).count();
            let stored = self.stored_bytes(first.number()).expect("its bytes are there");
            let next = at + 1 + others as u32;
            // Where a shared body is named nothing is alike.
            let own_bytes = content.entries[at as usize].body_bytes() as usize;
            let head_bytes = stored.len().saturating_sub(own_bytes);
            out.reserve(record::run_bytes(content.stored_len(at..next), others, head_bytes));
            let bodies = following[..others].iter().map(|entry| {
                let begin = entry.offset as usize + head_bytes;
                &bytes[begin..begin + entry.body_bytes() as usize]
            });
            record::write_run(out, first, stored, others as u32, bodies);
            (at, first) = (next, MessageSeq(first.0 + 1 + others as u64));
        }
    }
}
