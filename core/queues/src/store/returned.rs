//! Messages that came back, in a queue that counts that: they stand in a line of their own, before all others, or wait for their time.

use smallvec::{SmallVec, smallvec};

use super::messages::{Store, less};
use crate::effects::Effects;
use crate::members::Claim;
use crate::quorum::Returns;
use crate::record::{self, RecordKind, Returned};
use crate::traffic::{MessageSeq, SettleRun};

impl Store {
    /// The first message of those that came back and are ready.
    #[inline]
    pub(crate) fn next_returned(&self) -> Option<MessageSeq> {
        self.returns.as_ref().and_then(|returns| returns.first())
    }

    /// The message that is handed out next.
    #[inline]
    pub(crate) fn head(&self) -> Option<MessageSeq> {
        self.next_returned().or_else(|| {
            let level = self.top_level()?;
            Some(MessageSeq::new(level as u8, self.levels[level].head()?))
        })
    }

    /// Hands out the message that is next; the caller saw it.
    pub(crate) fn take_head(&mut self, head: MessageSeq) {
        if self.next_returned() == Some(head) {
            self.take_returned();
        } else {
            self.take_one(usize::from(head.level()));
        }
    }

    fn body_bytes(&self, seq: MessageSeq) -> u64 {
        let block = self.levels.get(usize::from(seq.level())).and_then(|level| level.block(seq.number()));
        block.map_or(0, |block| block.body_bytes(seq.number()))
    }

    /// Hands out the first of those that came back.
    pub(crate) fn take_returned(&mut self) -> Option<MessageSeq> {
        let seq = self.returns.as_mut()?.pop()?;
        let bytes = self.body_bytes(seq);
        less(&mut self.ready, 1, "ready messages");
        less(&mut self.ready_bytes, bytes, "bytes of ready messages");
        self.unacked += 1;
        self.unacked_bytes += bytes;
        Some(seq)
    }

    /// Hands out a message, wherever it stands: somebody has had it since before this node led. Of one that waits for the disk, the block stays
    /// in memory until the next claim: a caller that claims several goes on with the same one.
    pub(crate) fn claim(&mut self, seq: MessageSeq, fx: &mut impl Effects) -> Claim {
        let (at, number) = (usize::from(seq.level()), seq.number());
        let Some(block) = self.levels.get(at).and_then(|level| level.block(number)) else {
            return Claim::Refused;
        };
        if block.is_settled(number) {
            return Claim::Refused;
        }
        if !block.knows_sizes() {
            self.claimed = Some(seq);
            self.request_block(seq, fx);
            return Claim::Waits;
        }
        self.claimed = None;
        let bytes = self.body_bytes(seq);
        let is_ready = match self.returns.as_mut().and_then(|returns| returns.let_go(seq)) {
            Some(was_in_line) => was_in_line,
            None if self.levels[at].take_out(number) => true,
            None => return Claim::Refused,
        };
        if is_ready {
            less(&mut self.ready, 1, "ready messages");
            less(&mut self.ready_bytes, bytes, "bytes of ready messages");
            self.unacked += 1;
            self.unacked_bytes += bytes;
        }
        Claim::Granted
    }

    /// One that is handed out is ready again.
    fn stand(&mut self, seq: MessageSeq) {
        let bytes = self.body_bytes(seq);
        let Some(returns) = &mut self.returns else { return };
        returns.stand(seq);
        less(&mut self.unacked, 1, "unacked messages");
        less(&mut self.unacked_bytes, bytes, "bytes of unacked messages");
        self.ready += 1;
        self.ready_bytes += bytes;
    }

    /// A message that somebody has comes back, and goes out again then: at once, or when it is due.
    pub(crate) fn give_back(&mut self, seq: MessageSeq, due_ms: Option<u64>) {
        let block = self.levels[usize::from(seq.level())].block_mut(seq.number());
        block.into_iter().for_each(|block| block.mark_redelivered(seq.number()));
        match (due_ms, &mut self.returns) {
            (Some(due_ms), Some(returns)) => returns.delay(seq, due_ms),
            _ => self.stand(seq),
        }
    }

    /// Messages that are due become ready; returns when the next one is due.
    pub(crate) fn return_due(&mut self, now_ms: u64) -> Option<u64> {
        while let Some(seq) = self.returns.as_mut().and_then(|returns| returns.pop_due(now_ms)) {
            self.stand(seq);
        }
        self.returns.as_ref().and_then(|returns| returns.next_due_ms())
    }

    /// Whether somebody has a message.
    pub(crate) fn is_out(&self, seq: MessageSeq) -> bool {
        let level = self.levels.get(usize::from(seq.level()));
        level.is_some_and(|level| level.is_unacked(seq.number()))
            && !self.returns.as_ref().is_some_and(|returns| returns.holds(seq))
    }

    /// Of a run, what somebody has, in runs. A second settlement does not settle messages that stand in the line.
    #[inline]
    pub(crate) fn out_of(&self, run: &SettleRun) -> SmallVec<[(MessageSeq, u32); 1]> {
        if !self.returns.as_ref().is_some_and(|returns| returns.has_held()) {
            return smallvec![(run.first, run.count)];
        }
        let all = (0..u64::from(run.count)).map(|nth| MessageSeq(run.first.0 + nth));
        all.filter(|seq| self.is_out(*seq)).map(|seq| (seq, 1)).collect()
    }

    /// Properties that tell how often a message came back; `None` for one that never did.
    pub(crate) fn counted(&self, seq: MessageSeq, properties: &[u8]) -> Option<Vec<u8>> {
        let returns = self.returns.as_ref().filter(|returns| !returns.is_empty())?;
        let counts = returns.counts(seq);
        if counts.acquired == 0 {
            return None;
        }
        let counted = message::with_counts(properties, counts.acquired, counts.failed);
        Some(self.annotated(seq, &counted).unwrap_or(counted))
    }

    /// Properties with what consumers have annotated a message with; `None` where they have not.
    pub(crate) fn annotated(&self, seq: MessageSeq, properties: &[u8]) -> Option<Vec<u8>> {
        let entries = self.returns.as_ref()?.annotations(seq);
        (!entries.is_empty()).then(|| message::amqp10::with_annotations(properties, entries))
    }

    /// A consumer annotates what it has of a run, in a queue that counts returns.
    pub(crate) fn annotate(&mut self, run: &SettleRun, entries: &[u8]) {
        for (first, count) in self.out_of(run) {
            let all = (0..u64::from(count)).map(|nth| MessageSeq(first.0 + nth));
            let out = all.filter(|seq| self.is_out(*seq)).collect::<SmallVec<[MessageSeq; 4]>>();
            for seq in out {
                self.returns.iter_mut().for_each(|returns| returns.annotate(seq, entries));
            }
        }
    }

    /// Logs how often these came back. Returns where the record ends in the log; 0 when there is none.
    pub(crate) fn log_returned(&mut self, returned: &[Returned], fx: &mut impl Effects) -> u64 {
        if !self.is_durable || returned.is_empty() {
            return 0;
        }
        let record = fx.append(RecordKind::Returned, &mut |out| {
            returned.iter().for_each(|one| record::write_returned(out, one));
        });
        if self.oldest_log == 0 {
            self.oldest_log = record.end;
        }
        record.end
    }

    /// The same of all, behind a state record, which does not tell.
    pub(crate) fn log_all_returned(&mut self, fx: &mut impl Effects) {
        let Some(returns) = self.returns.as_ref().filter(|returns| !returns.is_empty()) else { return };
        let all: Vec<Returned> = returns.all().collect();
        self.log_returned(&all, fx);
    }

    /// After a recovery: returned messages stand in the line again, or wait.
    pub(crate) fn put_returned(&mut self, returned: &[Returned]) {
        if self.returns.is_none() {
            return;
        }
        // The last record of a message holds.
        let mut known = std::collections::BTreeMap::new();
        for (nth, one) in returned.iter().enumerate() {
            known.insert(one.seq, nth);
        }
        // Sizes of messages on disk are not at hand one by one: those stay where they are, and so do all behind them in the line, which
        // would pass them.
        let mut line_is_here = true;
        for (_, one) in returned.iter().enumerate().filter(|(nth, one)| known[&one.seq] == *nth) {
            let (seq, level) = (one.seq, usize::from(one.seq.level()));
            let is_there = self.levels.get(level).is_some_and(|level| level.has(seq.number()));
            if !is_there || one.counts.acquired == 0 {
                continue;
            }
            let is_here = self.block(seq).is_some_and(|block| block.is_resident());
            line_is_here &= is_here;
            self.returns.get_or_insert_with(Box::<Returns>::default).set_counts(seq, one.counts);
            let is_put = is_here && (line_is_here || one.due_ms > 0);
            if is_put && self.levels[level].take_out(seq.number()) {
                let bytes = self.body_bytes(seq);
                less(&mut self.ready, 1, "ready messages");
                less(&mut self.ready_bytes, bytes, "bytes of ready messages");
                self.unacked += 1;
                self.unacked_bytes += bytes;
                self.give_back(seq, (one.due_ms > 0).then_some(one.due_ms));
            }
        }
    }
}
