//! Messages in the hands of a tenant: it fetched them from its queues and has not settled them, beside what it knows of all of
//! them. Knows nothing of why it fetches.

use broker::SettleHow;

use super::ending::Ended;
use super::ledger::Ledger;
use super::site::{Held, Site, places_of};

/// Messages in hand, and the ledger.
pub(super) struct Hands {
    /// The tenant's queues by their numbers.
    names: &'static [&'static str],
    pub(super) ledger: Ledger,
    pub(super) held: Vec<Held>,
}

impl Hands {
    pub(super) fn new(names: &'static [&'static str]) -> Hands {
        Hands { names, ledger: Ledger::default(), held: Vec::new() }
    }

    /// basic.get from a queue; nothing is said of what comes until [`Hands::keep`].
    pub(super) fn get(&self, site: &mut Site<'_>, queue: usize) -> Result<Option<Held>, String> {
        let got = site.get(self.names[queue])?;
        Ok(got.map(|(seq, id)| Held { id, queue, seq }))
    }

    /// It came, as it may.
    pub(super) fn keep(&mut self, held: Held) -> Result<(), String> {
        self.ledger.delivered(held.id, 1 << held.queue)?;
        self.held.push(held);
        Ok(())
    }

    /// Settles one that was in hand.
    pub(super) fn settle(&self, site: &mut Site<'_>, how: SettleHow, held: &Held) {
        site.settle(how, self.names[held.queue], held);
    }

    /// Acks `times` of `of` of all that is in hand, and puts the others back.
    pub(super) fn ack_some(&mut self, site: &mut Site<'_>, times: u64, of: u64) {
        for held in std::mem::take(&mut self.held) {
            let how = if site.chance(times, of) { SettleHow::Ack } else { SettleHow::Requeue };
            if how == SettleHow::Ack {
                self.ledger.settle(held.id);
            }
            self.settle(site, how, &held);
        }
    }

    /// Puts back all that is in hand.
    pub(super) fn release(&mut self, site: &mut Site<'_>) {
        let held = std::mem::take(&mut self.held);
        self.put_back(site, &held);
    }

    /// Puts back what was taken to be looked at.
    pub(super) fn put_back(&self, site: &mut Site<'_>, taken: &[Held]) {
        taken.iter().for_each(|held| self.settle(site, SettleHow::Requeue, held));
    }

    /// Everything that is in a queue.
    pub(super) fn take_all(&self, site: &mut Site<'_>, queue: usize) -> Result<Vec<Held>, String> {
        site.take_all(queue, self.names[queue])
    }

    /// This is all there is, and `queue` was emptied of its part.
    pub(super) fn compare(
        &mut self,
        site: &mut Site<'_>,
        taken: &[Held],
        queues: impl IntoIterator<Item = usize>,
    ) -> Result<(), String> {
        self.ledger.compare(&places_of(taken))?;
        for queue in queues {
            let count = taken.iter().filter(|held| held.queue == queue).count();
            site.check_counts(self.names[queue], count)?;
        }
        Ok(())
    }

    /// The life is over.
    pub(super) fn ended(&mut self, how: Ended) {
        self.held.clear();
        self.ledger.ended(how);
    }
}
