//! A quorum queue as a member that follows a leader, and as that leader: its input, and its reports.

use super::machine::Classic;
use crate::effects::Effects;
use crate::record::RecordKind;
use crate::store::level::Level;
use crate::traffic::{ConsumerId, MessageSeq};
use crate::{Claim, Cursor, Fill, FollowError, LiveSet};

impl Classic {
    /// Whether it follows.
    #[must_use]
    pub fn follows(&self) -> bool {
        self.service.follows
    }

    /// Whether it follows a leader, or leads in this `epoch`, which is greater than that of every leader before it (`epoch` is not looked at when it
    /// follows).
    ///
    /// While it follows it takes nothing but [`Classic::follow`] and [`Classic::keep_only`], serves nobody, and nothing leaves by rule. It
    /// still moves messages to disk and writes checkpoints. The driver has cancelled the consumers before. Messages that consumers had are ready
    /// again, where it stood, without being counted or logged. A message whose letter is on its way does not come back: its removal is logged
    /// when the letter is safe, otherwise a restart brings the message back.
    ///
    /// A queue that leads uses no number that any message had. That holds only if each leader is told so before it takes messages, after each
    /// restart, too. When somebody has messages of a queue that leads already, nothing changes.
    pub fn let_follow(&mut self, it_does: bool, epoch: u32, now_ms: u64, fx: &mut impl Effects) {
        if it_does {
            self.begin_to_follow(fx);
            return;
        }
        if !self.service.follows && (self.somebody_has_messages() || !self.service.gets.is_empty()) {
            return;
        }
        let awaits_claims = self.service.awaits_claims;
        self.begin_to_follow(fx);
        (self.service.follows, self.service.awaits_claims) = (false, awaits_claims);
        self.service.last_used_ms = now_ms;
        self.store.lead(epoch);
        self.service.may_expire = self.store.levels.iter().flat_map(Level::blocks).any(|block| block.expires);
        crate::Machine::tick(self, now_ms, fx);
    }

    fn somebody_has_messages(&self) -> bool {
        let waiting = self.store.returns.as_ref().map_or(0, |returns| returns.delayed());
        self.store.unacked > waiting
    }

    fn begin_to_follow(&mut self, fx: &mut impl Effects) {
        if self.service.follows {
            return;
        }
        self.store.settle_log(fx);
        self.service.serve_nobody(fx);
        self.store.follow();
    }

    /// Takes one record of the leader, in the order in which that logged them, and logs it here. Messages that are here or were, settlements of others
    /// that are not, and what is said of these, are passed over. Of records with shared bodies see [`crate::record::whole_record`].
    ///
    /// Returns the log position that has to be durable before the leader is told that the record is safe; 0 when nothing was logged.
    ///
    /// # Errors
    /// [`FollowError`]; then nothing has changed.
    pub fn follow(
        &mut self,
        kind: RecordKind,
        payload: &[u8],
        now_ms: u64,
        fx: &mut impl Effects,
    ) -> Result<u64, FollowError> {
        if !self.service.follows {
            return Err(FollowError::Leads);
        }
        self.service.active_ms = now_ms;
        let position = match kind {
            RecordKind::Enqueue | RecordKind::EnqueueAlike | RecordKind::EnqueueShared => {
                self.store.follow_enqueued(kind, payload, fx)?
            }
            RecordKind::Settle => self.store.follow_settled(payload, fx)?,
            RecordKind::Returned => self.store.follow_returned(payload, fx)?,
            RecordKind::State => return Err(FollowError::Local),
        };
        self.service.relieve(&mut self.store, fx);
        Ok(position)
    }

    /// Before it leads: those who have messages since before may come with [`Classic::claim`]. Until [`Classic::end_claims`] nobody is served, and
    /// nothing leaves by rule. Messages are taken meanwhile. Following ends it.
    pub fn await_claims(&mut self) {
        self.service.awaits_claims = true;
    }

    /// Whether it waits for claims.
    #[must_use]
    pub fn awaits_claims(&self) -> bool {
        self.service.awaits_claims
    }

    /// The messages that each level has handed out, as far as they have changed since this was called before: messages with lower numbers. A
    /// member that is told delivers them again with the mark for that, if it leads next.
    pub fn take_handed_out(&mut self, mut tell: impl FnMut(MessageSeq)) {
        for (at, level) in self.store.levels.iter_mut().enumerate() {
            level.take_handed_out().into_iter().for_each(|below| tell(MessageSeq::new(at as u8, below)));
        }
    }

    /// As [`Classic::take_handed_out`], all of it.
    pub fn each_handed_out(&self, mut tell: impl FnMut(MessageSeq)) {
        let levels = self.store.levels.iter().enumerate().filter(|(_, level)| level.handed_out() > 0);
        levels.for_each(|(at, level)| tell(MessageSeq::new(at as u8, level.handed_out())));
    }

    /// The leader has handed out messages with lower numbers than this one, of its level.
    ///
    /// # Errors
    /// [`FollowError::Damaged`] for a level that quorum queues do not have, [`FollowError::Leads`] for a queue that leads.
    pub fn follow_handed_out(&mut self, below: MessageSeq) -> Result<(), FollowError> {
        if !self.service.follows {
            return Err(FollowError::Leads);
        }
        self.store.follow_handed_out(below)
    }

    /// A consumer, or a client that got it alone, has a message that a leader before this one handed out, and settles it later. It is granted if
    /// the message is ready. The consumer may be gone already.
    pub fn claim(&mut self, consumer: Option<ConsumerId>, seq: MessageSeq, fx: &mut impl Effects) -> Claim {
        if self.service.follows {
            return Claim::Refused;
        }
        let claim = self.store.claim(seq, fx);
        if let (Claim::Granted, Some(consumer)) = (claim, consumer) {
            self.service.consumers.claimed(consumer);
        }
        claim
    }

    /// The node of a consumer can be reached again, and has kept so many deliveries to it, which are unacked here: they count for the consumer, which
    /// was cancelled meanwhile.
    pub fn take_back(&mut self, consumer: ConsumerId, count: u64) {
        (0..count).for_each(|_| self.service.consumers.claimed(consumer));
    }

    /// Shows the ready message at a position, from 0, in the order in which they go out. Nothing changes.
    pub fn show_ready(&mut self, position: u64, fx: &mut impl Effects) -> crate::Peeked {
        self.store.show_ready(position, fx)
    }

    /// Nobody else comes with a claim: consumers are served.
    pub fn end_claims(&mut self, now_ms: u64, fx: &mut impl Effects) {
        self.store.claimed = None;
        if std::mem::take(&mut self.service.awaits_claims) {
            crate::Machine::tick(self, now_ms, fx);
        }
    }

    /// Messages that live here. Messages whose letters are on their way are among them: until these are safe the messages may come back.
    #[must_use]
    pub fn live(&self) -> LiveSet {
        self.store.live()
    }

    /// A member that follows settles, and logs as settled, messages that its leader does not have; returns how many messages that were. One that
    /// leads does nothing.
    pub fn keep_only(&mut self, live: &LiveSet, fx: &mut impl Effects) -> u64 {
        if self.service.follows { self.store.keep_only(live, fx) } else { 0 }
    }

    /// Records for a member that has come as far as `cursor` says, about `bytes_max` bytes of them or one message, and moves the cursor behind them: the
    /// messages that live here, unacked ones, too, in whole, and last how often which of them came back. With a cursor of [`Classic::newest`] of a
    /// member that keeps only what lives here these are all that it lacks.
    ///
    /// Until [`Fill::End`] the member gets what is logged here meanwhile but for messages that enter the queue: those the cursor reaches. From then on
    /// it gets all.
    pub fn fill(&mut self, cursor: &mut Cursor, bytes_max: usize, fx: &mut impl Effects) -> Fill {
        let fill = self.store.fill(cursor, bytes_max, fx);
        self.service.relieve(&mut self.store, fx);
        fill
    }

    /// A member that was being filled is gone: no block is kept in memory for it. Others go on.
    pub fn stop_filling(&mut self, fx: &mut impl Effects) {
        self.store.stop_filling();
        self.service.relieve(&mut self.store, fx);
    }

    /// How far it has come: the messages of its leader that it lacks are behind that.
    #[must_use]
    pub fn newest(&self) -> Cursor {
        self.store.newest()
    }
}
