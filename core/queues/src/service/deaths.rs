//! Messages that die: rejected ones that wait for their block or for earlier letters, and how a message leaves with its letter.

use super::expiry::Portion;
use super::state::Service;
use message::MessageView;

use crate::effects::{DeadReason, Effects};
use crate::record::{self, SettledRun};
use crate::store::Store;
use crate::store::messages::{Removal, extends};
use crate::traffic::MessageSeq;

/// Why a message that is rejected dies.
fn rejected_for(store: &Store, seq: MessageSeq) -> DeadReason {
    match &store.returns {
        Some(returns) if returns.exceeds(seq) => DeadReason::DeliveryLimit,
        _ => DeadReason::Rejected,
    }
}

impl Service {
    /// Dead-letters deliveries whose content is at hand; the others wait for their block, and those after them behind them.
    /// Returns how many there were.
    pub(crate) fn reject(
        &mut self,
        store: &mut Store,
        first: MessageSeq,
        count: u32,
        fx: &mut impl Effects,
    ) -> u64 {
        if !self.config.dead_letters {
            return store.drop_unacked(first, count);
        }
        let mut rejected = 0;
        for offset in 0..u64::from(count) {
            let seq = MessageSeq(first.0 + offset);
            let Some(level) = store.levels.get(usize::from(seq.level())) else { break };
            if !level.is_unacked(seq.number()) {
                continue;
            }
            rejected += 1;
            let block = level.block(seq.number()).expect("unacked messages have a block");
            if self.rejects.is_empty() && block.is_resident() && !self.holds_deaths(store) {
                self.bury(store, seq, rejected_for(store, seq), fx);
            } else if !self.rejects.back_mut().is_some_and(|latest| extends(latest, seq)) {
                self.rejects.push_back((seq, 1));
            }
        }
        self.fetch_rejects(store, fx);
        rejected
    }

    /// Dead-letters a portion of what waited for its block, for the end of a checkpoint, or for earlier letters.
    pub(crate) fn retry_rejects(&mut self, store: &mut Store, now_ms: u64, fx: &mut impl Effects) {
        let mut portion = Portion::with(0);
        while let Some((first, count)) = self.rejects.front().copied() {
            let block = store.levels[usize::from(first.level())].block(first.number());
            if self.holds_deaths(store) || block.is_some_and(|block| !block.is_resident()) {
                break;
            }
            if !portion.has_room() {
                self.want_wake(now_ms, fx);
                break;
            }
            portion.take(block.map_or(0, |block| block.body_bytes(first.number())));
            if count == 1 {
                self.rejects.pop_front();
            } else {
                self.rejects[0] = (MessageSeq(first.0 + 1), count - 1);
            }
            self.bury(store, first, rejected_for(store, first), fx);
        }
        self.fetch_rejects(store, fx);
    }

    /// Asks for the block of the reject that waits longest; the others follow, so that their blocks are not in memory all at
    /// once.
    fn fetch_rejects(&mut self, store: &mut Store, fx: &mut impl Effects) {
        if let Some((first, _)) = self.rejects.front().copied() {
            store.request_block(first, fx);
        }
    }

    /// A handed-out message whose block is in memory dies. Its removal is logged when its letter is safe.
    pub(crate) fn bury(
        &mut self,
        store: &mut Store,
        seq: MessageSeq,
        reason: DeadReason,
        fx: &mut impl Effects,
    ) {
        let block = store.levels[usize::from(seq.level())].block(seq.number()).expect("it is handed out");
        let stored = block.stored(seq.number()).expect("its block is in memory");
        let is_logged = store.is_durable && block.is_persistent(seq.number());
        let body_bytes = stored.message.body.len() as u32;
        let removal = is_logged.then_some(SettledRun { first: seq, count: 1, body_bytes });
        let annotated = store.annotated(seq, stored.message.properties);
        let properties = annotated.as_deref().unwrap_or(stored.message.properties);
        let message = MessageView { properties, ..stored.message };
        fx.dead_letter(reason, removal, message, stored.annotations, block.held_body(seq.number()));
        store.dying += u64::from(is_logged);
        if let Some(returns) = store.returns.as_mut().filter(|_| is_logged) {
            let copy = store.is_filling.then(|| record::whole(&stored).into());
            returns.begins_to_die(seq, copy);
        }
        store.remove(seq, 1, Removal::LoggedWithItsLetter);
    }

    /// Whether messages must not die for now: because of the state record, or because too many letters wait to be sent.
    pub(crate) fn holds_deaths(&self, store: &Store) -> bool {
        let do_letters_wait = self.letters_wait || self.is_disk_short;
        self.config.dead_letters && (do_letters_wait || store.checkpoint.waits_for_letters())
    }

    /// Whether messages wait to die until the disk alarm clears.
    pub(crate) fn holds_deaths_for_long(&self) -> bool {
        self.config.dead_letters && self.is_disk_short
    }

    /// Whether so many letters wait to be sent that no further message is to die by rule.
    #[inline]
    pub(crate) fn let_letters_wait(&mut self, they_do: bool) {
        self.letters_wait = they_do;
    }

    /// Whether the disk alarm is on, while which nothing is dead-lettered.
    #[inline]
    pub(crate) fn let_disk_be_short(&mut self, it_is: bool) {
        self.is_disk_short = it_is;
    }
}
