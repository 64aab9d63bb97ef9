//! Messages that came back: how often, and in which order they go out again. Refuses to know where messages lie.
//!
//! As far as the levels of the store are concerned, a message that stands in the line or waits for its time is handed out.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::record::{Counts, Returned};
use crate::traffic::MessageSeq;

/// Messages of a queue that came back.
#[derive(Debug, Default)]
pub(crate) struct Returns {
    /// Ready, those that came back first in front.
    line: VecDeque<MessageSeq>,
    /// Those that wait, by when they are due, milliseconds since the epoch.
    delayed: BTreeSet<(u64, MessageSeq)>,
    /// All that stand in the line or wait, with their times; 0 is in the line.
    held: BTreeMap<MessageSeq, u64>,
    /// Those that die because they failed too often, until they are gone.
    exceeding: BTreeSet<MessageSeq>,
    /// How often each message that ever came back did so.
    counts: BTreeMap<MessageSeq, Counts>,
    /// Annotations that consumers gave to messages that they gave back, see [`message::amqp10::merged`]. In memory only.
    annotations: BTreeMap<MessageSeq, Box<[u8]>>,
}

/// Longest annotations of one message, bytes. Beyond that further ones are passed over.
const ANNOTATIONS_BYTES_MAX: usize = 64 << 10;

impl Returns {
    /// A message came back so often before the restart.
    pub(crate) fn set_counts(&mut self, seq: MessageSeq, counts: Counts) {
        self.counts.insert(seq, counts);
    }

    /// One has failed too often, and dies of that.
    pub(crate) fn exceed(&mut self, seq: MessageSeq) {
        self.exceeding.insert(seq);
    }

    /// Whether it dies because it failed too often.
    pub(crate) fn exceeds(&self, seq: MessageSeq) -> bool {
        self.exceeding.contains(&seq)
    }

    /// How often a message came back.
    pub(crate) fn counts(&self, seq: MessageSeq) -> Counts {
        self.counts.get(&seq).copied().unwrap_or_default()
    }

    /// All of them: those in the line in its order, then the others.
    pub(crate) fn all(&self) -> impl Iterator<Item = Returned> {
        let in_line = self.line.iter().map(|seq| (*seq, self.counts(*seq)));
        let others = self.counts.iter().filter(|(seq, _)| self.held.get(*seq) != Some(&0));
        in_line.chain(others.map(|(seq, counts)| (*seq, *counts))).map(|(seq, counts)| Returned {
            seq,
            counts,
            due_ms: self.held.get(&seq).copied().unwrap_or(0),
        })
    }

    /// Whether no message that is there ever came back.
    pub(crate) fn is_empty(&self) -> bool {
        self.counts.is_empty() && self.annotations.is_empty()
    }

    /// A consumer annotates a message that it has.
    pub(crate) fn annotate(&mut self, seq: MessageSeq, entries: &[u8]) {
        let merged = message::amqp10::merged(self.annotations(seq), entries);
        if merged.len() <= ANNOTATIONS_BYTES_MAX {
            self.annotations.insert(seq, merged.into());
        }
    }

    /// The annotations of a message.
    pub(crate) fn annotations(&self, seq: MessageSeq) -> &[u8] {
        self.annotations.get(&seq).map_or(&[], |entries| entries)
    }

    /// One came back; returns how often it has.
    pub(crate) fn count(&mut self, seq: MessageSeq, has_failed: bool) -> Counts {
        let counts = self.counts.entry(seq).or_default();
        counts.acquired = counts.acquired.saturating_add(1);
        counts.failed = counts.failed.saturating_add(u32::from(has_failed));
        *counts
    }

    /// It stands at the end of the line.
    pub(crate) fn stand(&mut self, seq: MessageSeq) {
        self.held.insert(seq, 0);
        self.line.push_back(seq);
    }

    /// It waits until then.
    pub(crate) fn delay(&mut self, seq: MessageSeq, due_ms: u64) {
        self.held.insert(seq, due_ms);
        self.delayed.insert((due_ms, seq));
    }

    /// Whether it stands in the line or waits: then nobody has it.
    pub(crate) fn holds(&self, seq: MessageSeq) -> bool {
        !self.held.is_empty() && self.held.contains_key(&seq)
    }

    /// Whether there are some that nobody has.
    pub(crate) fn has_held(&self) -> bool {
        !self.held.is_empty()
    }

    /// The first in the line.
    pub(crate) fn first(&self) -> Option<MessageSeq> {
        self.line.front().copied()
    }

    /// Messages in the line.
    pub(crate) fn ready(&self) -> u64 {
        self.line.len() as u64
    }

    /// The line.
    pub(crate) fn line(&self) -> impl Iterator<Item = MessageSeq> {
        self.line.iter().copied()
    }

    /// Messages that wait.
    pub(crate) fn delayed(&self) -> u64 {
        self.delayed.len() as u64
    }

    /// The first leaves the line.
    pub(crate) fn pop(&mut self) -> Option<MessageSeq> {
        let first = self.line.pop_front()?;
        self.held.remove(&first);
        Some(first)
    }

    /// When the first of those that wait is due.
    pub(crate) fn next_due_ms(&self) -> Option<u64> {
        self.delayed.first().map(|(due_ms, _)| *due_ms)
    }

    /// One that waits until then at most goes on.
    pub(crate) fn pop_due(&mut self, now_ms: u64) -> Option<MessageSeq> {
        let (due_ms, seq) = *self.delayed.first()?;
        if due_ms > now_ms {
            return None;
        }
        self.delayed.pop_first();
        self.held.remove(&seq);
        Some(seq)
    }

    /// Messages are settled.
    pub(crate) fn forget(&mut self, first: MessageSeq, count: u32) {
        let end = MessageSeq(first.0 + u64::from(count));
        while let Some((seq, _)) = self.counts.range(first..end).next() {
            let seq = *seq;
            self.counts.remove(&seq);
            self.exceeding.remove(&seq);
        }
        while let Some((seq, _)) = self.annotations.range(first..end).next() {
            let seq = *seq;
            self.annotations.remove(&seq);
        }
    }

    /// Bytes on the heap, about.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.line.capacity() * size_of::<MessageSeq>()
            + self.delayed.len() * size_of::<(u64, MessageSeq)>()
            + self.held.len() * size_of::<(MessageSeq, u64)>()
            + self.counts.len() * size_of::<(MessageSeq, Counts)>()
            + self.annotations.values().map(|entries| entries.len() + 32).sum::<usize>()
    }
}
