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
    /// Messages that wait, by when they are due, milliseconds since the epoch.
    delayed: BTreeSet<(u64, MessageSeq)>,
    /// All that stand in the line or wait, with their times; 0 is in the line.
    held: BTreeMap<MessageSeq, u64>,
    /// Messages that die because they failed too often, until they are gone.
    exceeding: BTreeSet<MessageSeq>,
    /// Messages that died and whose removal is not logged: their letters are on their way. As they were stored, if they died while a member was
    /// being filled.
    dying: BTreeMap<MessageSeq, Option<Box<[u8]>>>,
    /// While the queue follows, the returns that its leader told: in which order, and when the message is due, 0 for at once.
    told: BTreeMap<MessageSeq, (u64, u64)>,
    /// Place in that order of what is told next.
    told_next: u64,
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

    /// Its letter is on its way. A `copy` of it is for members that lack it.
    pub(crate) fn begins_to_die(&mut self, seq: MessageSeq, copy: Option<Box<[u8]>>) {
        self.dying.insert(seq, copy);
    }

    /// Its letter is safe.
    pub(crate) fn has_died(&mut self, seq: MessageSeq) {
        self.dying.remove(&seq);
    }

    /// Messages whose letters are on their way, in order, from one on; with copies, if there are.
    pub(crate) fn dying(&self, from: MessageSeq) -> impl Iterator<Item = (MessageSeq, Option<&[u8]>)> {
        self.dying.range(from..).map(|(seq, copy)| (*seq, copy.as_deref()))
    }

    /// The queue follows: nothing stands in the line or waits. Messages that did are remembered as if a leader had told of it.
    pub(crate) fn follow(&mut self) {
        let all: Vec<Returned> = self.all().collect();
        (self.line, self.delayed, self.held) = Default::default();
        (self.exceeding, self.annotations) = Default::default();
        self.told.clear();
        all.iter().for_each(|one| self.tell(one));
    }

    /// The leader says that a message came back.
    pub(crate) fn tell(&mut self, one: &Returned) {
        self.counts.insert(one.seq, one.counts);
        self.told.insert(one.seq, (self.told_next, one.due_ms));
        self.told_next += 1;
    }

    /// The queue leads: the returns that were told, in that order.
    pub(crate) fn take_told(&mut self) -> Vec<Returned> {
        let all = self.in_told_order();
        self.told.clear();
        all
    }

    fn in_told_order(&self) -> Vec<Returned> {
        let mut told: Vec<(u64, Returned)> = Vec::with_capacity(self.told.len());
        for (seq, (nth, due_ms)) in &self.told {
            told.push((*nth, Returned { seq: *seq, counts: self.counts(*seq), due_ms: *due_ms }));
        }
        told.sort_unstable_by_key(|(nth, _)| *nth);
        told.into_iter().map(|(_, one)| one).collect()
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
        let is_other = |seq: &MessageSeq| self.held.get(seq) != Some(&0) && !self.told.contains_key(seq);
        let others = self.counts.iter().filter(move |(seq, _)| is_other(seq));
        let known = in_line
            .chain(others.map(|(seq, counts)| (*seq, *counts)))
            .map(|(seq, counts)| Returned { seq, counts, due_ms: self.held.get(&seq).copied().unwrap_or(0) });
        self.in_told_order().into_iter().chain(known)
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

    /// Somebody has one that stands in the line or waits: it does so no more. Returns whether it stood in the line, and `None` when it did neither.
    pub(crate) fn let_go(&mut self, seq: MessageSeq) -> Option<bool> {
        let due_ms = self.held.remove(&seq)?;
        let was_in_line = due_ms == 0;
        if was_in_line {
            let at = self.line.iter().position(|one| *one == seq);
            if let Some(at) = at {
                self.line.remove(at);
            }
        } else {
            self.delayed.remove(&(due_ms, seq));
        }
        Some(was_in_line)
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
            self.told.remove(&seq);
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
            + self.told.len() * size_of::<(MessageSeq, (u64, u64))>()
            + self.dying.values().map(|copy| copy.as_ref().map_or(32, |copy| copy.len() + 32)).sum::<usize>()
            + self.annotations.values().map(|entries| entries.len() + 32).sum::<usize>()
    }
}
