//! The messages of a queue that follows a leader, and what it takes to be in step with it.

use super::level::{Freed, Level, SettledMessages};
use super::messages::{Store, less, push_settled};
use crate::body::LARGE_BODY_BYTES;
use crate::effects::Effects;
use crate::members::{Cursor, FollowError, LiveSet};
use crate::quorum::PRIORITY_MAX;
use crate::record::{self, Counts, RecordKind, Returned, Stored};
use crate::traffic::MessageSeq;

/// A leader begins at a multiple of this.
const SKIP: u64 = 1 << 20;

/// Each epoch has so many numbers to itself: a leader does not know which ones leaders before it used.
const EPOCH_BITS: u32 = 32;

/// Epochs from here on have no numbers of their own.
const EPOCHS: u32 = 1 << 22;

/// Longest record that is taken from a leader, bytes: one message of 512 MiB, or less, and what belongs to it.
const RECORD_BYTES_MAX: usize = 1 << 30;

impl Store {
    /// From now on the queue follows: everything is ready, and stands where its number says.
    pub(crate) fn follow(&mut self) {
        self.levels.iter_mut().for_each(Level::follow);
        self.first_number = 0;
        self.stop_filling();
        self.claimed = None;
        self.ready += std::mem::take(&mut self.unacked);
        self.ready_bytes += std::mem::take(&mut self.unacked_bytes);
        self.returns.iter_mut().for_each(|returns| returns.follow());
    }

    /// From now on the queue leads, in this epoch: messages that come now have numbers that no message ever had.
    pub(crate) fn lead(&mut self, epoch: u32) {
        let newest = self.levels.iter().map(Level::next_number).max().unwrap_or(0).max(self.first_number);
        let above = (newest / SKIP + 1) * SKIP;
        let from = above.max(u64::from(epoch.min(EPOCHS)) << EPOCH_BITS);
        self.levels.iter_mut().for_each(|level| level.lead(from));
        self.first_number = from;
        let told = self.returns.as_mut().map(|returns| returns.take_told());
        self.put_returned(&told.unwrap_or_default());
    }

    /// Takes the messages of a leader's record that are not here, and logs them. Returns where they end in the log; 0 when there are none.
    pub(crate) fn follow_enqueued(
        &mut self,
        kind: RecordKind,
        payload: &[u8],
        fx: &mut impl Effects,
    ) -> Result<u64, FollowError> {
        let mut is_whole = true;
        let is_fine = payload.len() <= RECORD_BYTES_MAX
            && record::are_fine(kind, payload, |first, count, stored| {
                is_whole &= stored.shared.is_none();
                let has_number = first.number() + u64::from(count) <= MessageSeq::NUMBER_MAX;
                is_whole && has_number && stored.persistent && first.level() <= PRIORITY_MAX
            });
        if !is_fine {
            return Err(if is_whole { FollowError::Damaged } else { FollowError::NotWhole });
        }
        record::each_enqueued(kind, payload, |seq, stored| {
            let next = self.levels.get(usize::from(seq.level())).map_or(0, Level::next_number);
            if seq.number() >= next
                && let Some((parsed, _)) = record::parse(stored)
            {
                self.take_in(seq, stored, &parsed);
            }
        });
        Ok(self.log_enqueued(fx))
    }

    fn take_in(&mut self, seq: MessageSeq, stored: &[u8], parsed: &Stored<'_>) {
        let (at, body_bytes) = (usize::from(seq.level()), parsed.message.body.len());
        let block_bytes = self.backlog_block_bytes();
        // A level that is made here begins where the leader's does.
        self.level_mut(at);
        let level = &mut self.levels[at];
        let before = level.newest().map_or((0, 0), |block| (block.first, block.memory_bytes()));
        level.take_in(seq.number(), stored, parsed, block_bytes);
        if body_bytes >= LARGE_BODY_BYTES {
            level.close_newest();
        }
        let newest = level.newest().expect("the message is in it");
        let (is_first_of_block, after) = (newest.count == 1, newest.memory_bytes());
        self.memory_bytes += if newest.first == before.0 { after - before.1 } else { after };
        self.ready += 1;
        self.ready_bytes += body_bytes as u64;
        self.persistent += 1;
        self.persistent_bytes += body_bytes as u64;
        self.note_key(seq, &parsed.message);
        if self.is_durable {
            self.log_next(seq, is_first_of_block);
        }
    }

    /// Settles what is there of these messages, as the leader has. Returns where that ends in the log; 0 when none is there.
    pub(crate) fn follow_settled(
        &mut self,
        payload: &[u8],
        fx: &mut impl Effects,
    ) -> Result<u64, FollowError> {
        if record::settled(payload).any(|run| run.is_none()) {
            return Err(FollowError::Damaged);
        }
        for run in record::settled(payload).flatten() {
            self.settle_followed(run.first, run.count.into(), Some(run.body_bytes.into()));
        }
        Ok(self.settle_log(fx))
    }

    /// The leader has handed out the messages below this one.
    pub(crate) fn follow_handed_out(&mut self, below: MessageSeq) -> Result<(), FollowError> {
        if below.level() > PRIORITY_MAX {
            return Err(FollowError::Damaged);
        }
        self.level_mut(below.level().into()).note_handed_out(below.number());
        Ok(())
    }

    /// Settles what is there of `count` messages from `first` on; returns how many there were.
    fn settle_followed(&mut self, first: MessageSeq, count: u64, told_bytes: Option<u64>) -> u64 {
        let Some(level) = self.levels.get_mut(usize::from(first.level())) else { return 0 };
        let mut freed = Freed::default();
        let (mut settled, mut bytes) = (0, 0);
        let (unlogged, present, returns) = (&mut self.unlogged, &mut self.present, &mut self.returns);
        let is_durable = self.is_durable;
        level.settle_followed(first.number(), count, told_bytes, &mut freed, |messages: SettledMessages| {
            let seq = MessageSeq::new(first.level(), messages.first);
            settled += u64::from(messages.count);
            bytes += messages.body_bytes;
            if let Some(present) = present {
                (0..u64::from(messages.count)).for_each(|nth| present.remove(MessageSeq(seq.0 + nth)));
            }
            if let Some(returns) = returns.as_mut().filter(|returns| !returns.is_empty()) {
                returns.forget(seq, messages.count);
            }
            if is_durable {
                push_settled(unlogged, seq, &messages);
            }
        });
        less(&mut self.ready, settled, "ready messages");
        less(&mut self.ready_bytes, bytes, "bytes of ready messages");
        less(&mut self.persistent, settled, "persistent messages");
        less(&mut self.persistent_bytes, bytes, "bytes of persistent messages");
        self.release(&freed);
        self.released.append(&mut freed.bodies);
        settled
    }

    /// Notes what the leader says of messages that came back, as far as they are here. Returns where that ends in the log; 0 when none is.
    pub(crate) fn follow_returned(
        &mut self,
        payload: &[u8],
        fx: &mut impl Effects,
    ) -> Result<u64, FollowError> {
        if record::returned(payload).any(|one| one.is_none()) {
            return Err(FollowError::Damaged);
        }
        let mut here = Vec::new();
        for one in record::returned(payload).flatten() {
            let level = self.levels.get(usize::from(one.seq.level()));
            if level.is_some_and(|level| level.has(one.seq.number())) {
                self.note_returned(&one);
                here.push(one);
            }
        }
        Ok(self.log_returned(&here, fx))
    }

    fn note_returned(&mut self, one: &Returned) {
        let Some(returns) = &mut self.returns else { return };
        match one.counts.acquired {
            0 => returns.forget(one.seq, 1),
            _ => returns.tell(one),
        }
    }

    /// Which messages live. Looks at each block, and at each message of those that have gaps.
    pub(crate) fn live(&self) -> LiveSet {
        let mut live = LiveSet::default();
        for (at, level) in (0..).zip(&self.levels) {
            level.each_live(|first, end| live.push(at, first, end));
        }
        let dying = self.returns.iter().flat_map(|returns| returns.dying(MessageSeq(0)));
        dying.for_each(|(seq, _)| live.insert(seq));
        live
    }

    /// Settles what does not live any more; returns how many that were.
    pub(crate) fn keep_only(&mut self, live: &LiveSet, fx: &mut impl Effects) -> u64 {
        let mut gone: Vec<(MessageSeq, u64)> = Vec::new();
        for (at, level) in (0..).zip(&self.levels) {
            level.each_live(|first, end| {
                live.gaps(at, first, end, |first, end| match gone.last_mut() {
                    Some((latest, count)) if latest.0 + *count == MessageSeq::new(at, first).0 => {
                        *count += end - first;
                    }
                    _ => gone.push((MessageSeq::new(at, first), end - first)),
                });
            });
        }
        let settled = gone.into_iter().map(|(first, count)| self.settle_followed(first, count, None)).sum();
        self.settle_log(fx);
        // The leader tells anew how often messages came back. A leader before it may have counted more.
        let told = self.returns.as_mut().map_or_else(Vec::new, |returns| returns.take_told());
        let forgotten: Vec<Returned> =
            told.into_iter().map(|one| Returned { counts: Counts::default(), due_ms: 0, ..one }).collect();
        forgotten.iter().for_each(|one| self.note_returned(one));
        self.log_returned(&forgotten, fx);
        settled
    }

    /// How far it has come.
    pub(crate) fn newest(&self) -> Cursor {
        Cursor::new(self.levels.iter().map(Level::next_number).collect())
    }
}
