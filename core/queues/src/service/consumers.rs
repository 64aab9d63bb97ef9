//! The consumers of a queue, and the next to be served (B116, B120, B133, B134).

use std::cmp::Reverse;

use stdx::FewMap;

use super::lines::Lines;
use crate::traffic::{ConsumerId, ConsumerSpec, ConsumerStats, Credit};

/// A consumer and its window.
#[derive(Debug)]
pub(crate) struct Consumer {
    pub(crate) spec: ConsumerSpec,
    /// Deliveries not settled.
    pub(crate) unacked: u32,
    /// Its outbox or channel took less than offered; waits for `resume`.
    paused: bool,
    /// It stands in the line of those that may be served.
    queued: bool,
    /// Deliveries made, if it is served by credit; wraps around.
    delivered: u32,
    /// Up to which it takes them.
    credit: Credit,
}

impl Consumer {
    /// How many deliveries it may get now.
    pub(crate) fn window(&self) -> usize {
        if self.spec.by_credit {
            return self.credit_left() as usize;
        }
        match (self.spec.ack_required, self.spec.prefetch) {
            (false, _) | (true, 0) => usize::MAX,
            (true, prefetch) => prefetch.saturating_sub(self.unacked) as usize,
        }
    }

    /// Deliveries that its credit still allows.
    fn credit_left(&self) -> u32 {
        let ahead = self.credit.limit.wrapping_sub(self.delivered);
        if ahead.cast_signed() > 0 { ahead } else { 0 }
    }

    /// Waits for `resume`.
    pub(crate) fn is_paused(&self) -> bool {
        self.paused
    }
}

/// All consumers of one queue; serves equal priorities round-robin, higher ones first.
#[derive(Debug, Default)]
pub(crate) struct Consumers {
    slots: Vec<Option<Consumer>>,
    by_id: FewMap<ConsumerId, usize>,
    /// Registration order, for single active consumer.
    order: Vec<usize>,
    /// Slots that may be served.
    eligible: Lines,
    /// How many are paused.
    paused: usize,
    /// `Some` when the queue has a single active consumer: its slot.
    single_active: Option<usize>,
    is_single_active: bool,
    /// The single active one makes way for one of higher priority once it has no deliveries left (B134).
    makes_way: bool,
    /// It does so now, and gets nothing meanwhile.
    is_making_way: bool,
    /// Some consumer may have credit to give up.
    may_drain: bool,
    /// Consumers by credit that have become the single active one, or are it no more, since that was last told.
    changes: Vec<(ConsumerId, bool)>,
}

impl Consumers {
    /// For a queue, with or without `x-single-active-consumer`.
    pub(crate) fn new(is_single_active: bool) -> Consumers {
        Consumers { is_single_active, ..Consumers::default() }
    }

    /// The single active one makes way for one of higher priority.
    pub(crate) fn making_way(self, makes_way: bool) -> Consumers {
        Consumers { makes_way, ..self }
    }

    /// Looks whether another one is to be the single active one.
    fn choose_active(&mut self) {
        let Some(active) = self.single_active.filter(|_| self.makes_way) else { return };
        let best = self.order.iter().copied().min_by_key(|slot| Reverse(self.at(*slot).spec.priority));
        let priority = |slot: usize| self.at(slot).spec.priority;
        let better = best.filter(|best| priority(*best) > priority(active));
        self.is_making_way = better.is_some();
        let Some(better) = better else { return self.join_line(active) };
        self.leave_line(active);
        if self.at(active).unacked == 0 {
            (self.single_active, self.is_making_way) = (Some(better), false);
            self.note_change(active, false);
            self.note_change(better, true);
            self.join_line(better);
        }
    }

    fn note_change(&mut self, slot: usize, is_active: bool) {
        let spec = &self.at(slot).spec;
        if spec.by_credit {
            self.changes.push((spec.id, is_active));
        }
    }

    /// Takes the changes: the new single active consumer, and the former one.
    pub(crate) fn take_changes(&mut self) -> Vec<(ConsumerId, bool)> {
        std::mem::take(&mut self.changes)
    }

    /// Whether a consumer is the active one of its queue, or the queue has none; `None` of a consumer that is not there.
    pub(crate) fn activity(&self, id: ConsumerId) -> Option<bool> {
        self.by_id.get(&id).map(|slot| self.is_active(*slot))
    }

    /// Number of consumers.
    pub(crate) fn count(&self) -> u32 {
        self.by_id.len() as u32
    }

    /// Whether a consumer with this wish may join (B116).
    pub(crate) fn admits(&self, exclusive: bool) -> bool {
        match exclusive {
            // An exclusive consumer and a single active one exclude each other.
            true => self.by_id.is_empty() && !self.is_single_active,
            false => !self.order.iter().any(|slot| self.at(*slot).spec.exclusive),
        }
    }

    /// Bytes on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        let owned = |consumer: &Consumer| consumer.spec.tag.len() + consumer.spec.arguments.len();
        self.slots.capacity() * size_of::<Option<Consumer>>()
            + self.slots.iter().flatten().map(owned).sum::<usize>()
            + self.by_id.heap_bytes()
            + self.order.capacity() * size_of::<usize>()
            + self.eligible.heap_bytes()
    }

    fn at(&self, slot: usize) -> &Consumer {
        self.slots[slot].as_ref().expect("slots in use hold a consumer")
    }

    fn at_mut(&mut self, slot: usize) -> &mut Consumer {
        self.slots[slot].as_mut().expect("slots in use hold a consumer")
    }

    /// Adds a consumer, paused until its first `resume`.
    pub(crate) fn add(&mut self, spec: ConsumerSpec) {
        let (id, delivered) = (spec.id, spec.delivered_before);
        let credit = Credit { limit: delivered, drain: false };
        let consumer = Consumer { spec, unacked: 0, paused: true, queued: false, delivered, credit };
        let slot = match self.slots.iter().position(Option::is_none) {
            Some(free) => {
                self.slots[free] = Some(consumer);
                free
            }
            None => {
                // Most queues have one.
                if self.slots.is_empty() {
                    self.slots.reserve_exact(1);
                }
                self.slots.push(Some(consumer));
                self.slots.len() - 1
            }
        };
        let previous = self.by_id.insert(id, slot);
        assert!(previous.is_none(), "consumer ids are unique");
        self.order.push(slot);
        self.paused += 1;
        if self.is_single_active && self.single_active.is_none() {
            self.single_active = Some(slot);
            self.note_change(slot, true);
        }
        self.choose_active();
    }

    /// Removes a consumer. Its unacked deliveries stay the channel's.
    pub(crate) fn remove(&mut self, id: ConsumerId) -> Option<Consumer> {
        let slot = self.by_id.remove(&id)?;
        self.leave_line(slot);
        self.order.retain(|other| *other != slot);
        let gone = self.slots[slot].take();
        self.paused -= usize::from(gone.as_ref().is_some_and(Consumer::is_paused));
        if self.single_active == Some(slot) {
            // The next one is the oldest of the highest priority (B134).
            self.single_active =
                self.order.iter().copied().min_by_key(|slot| Reverse(self.at(*slot).spec.priority));
            self.is_making_way = false;
            if let Some(next) = self.single_active {
                self.note_change(next, true);
                self.join_line(next);
            }
        } else {
            self.choose_active();
        }
        gone
    }

    /// All ids, in order of registration.
    pub(crate) fn ids(&self) -> Vec<ConsumerId> {
        self.order.iter().map(|slot| self.at(*slot).spec.id).collect()
    }

    fn join_line(&mut self, slot: usize) {
        let active = self.is_active(slot) && !self.is_making_way;
        let consumer = self.at_mut(slot);
        if consumer.queued || consumer.paused || consumer.window() == 0 || !active {
            return;
        }
        consumer.queued = true;
        let priority = consumer.spec.priority;
        self.eligible.join(priority, slot);
    }

    fn leave_line(&mut self, slot: usize) {
        let consumer = self.at_mut(slot);
        if !consumer.queued {
            return;
        }
        consumer.queued = false;
        let priority = consumer.spec.priority;
        self.eligible.leave(priority, slot);
    }

    /// The consumer to serve next: its slot, and whether it is alone in its line.
    pub(crate) fn next(&self) -> Option<(usize, bool)> {
        self.eligible.first()
    }

    /// Read access to a slot that `next` returned.
    pub(crate) fn peek(&self, slot: usize) -> &Consumer {
        self.at(slot)
    }

    /// `taken` deliveries were made to the one at the head of the line; `full` when it took fewer than offered.
    pub(crate) fn served(&mut self, slot: usize, taken: u32, full: bool) {
        let consumer = self.at_mut(slot);
        if consumer.spec.ack_required {
            consumer.unacked += taken;
        }
        consumer.delivered = consumer.delivered.wrapping_add(taken);
        let pauses = full && !consumer.paused;
        consumer.paused |= full;
        let stays = !consumer.paused && consumer.window() > 0;
        let priority = consumer.spec.priority;
        consumer.queued = stays;
        self.paused += usize::from(pauses);
        let head = self.eligible.served(priority, stays);
        debug_assert_eq!(head, Some(slot));
    }

    /// The consumer can take deliveries again.
    pub(crate) fn resume(&mut self, id: ConsumerId) {
        if let Some(slot) = self.by_id.get(&id).copied() {
            let was_paused = std::mem::take(&mut self.at_mut(slot).paused);
            self.paused -= usize::from(was_paused);
            self.join_line(slot);
        }
    }

    /// The consumer says up to which delivery it takes them.
    pub(crate) fn credit(&mut self, id: ConsumerId, credit: Credit) {
        if let Some(slot) = self.by_id.get(&id).copied() {
            self.leave_line(slot);
            self.at_mut(slot).credit = credit;
            self.may_drain |= credit.drain;
            self.join_line(slot);
        }
    }

    /// Consumers give up the credit that they cannot use now and want to be rid of: all of them when `nothing_is_left` to deliver,
    /// consumers that are not the single active one in any case. Paused consumers do so when they are paused no more.
    pub(crate) fn drain(&mut self, nothing_is_left: bool, mut each: impl FnMut(ConsumerId, u32)) {
        if !self.may_drain {
            return;
        }
        self.may_drain = false;
        for at in 0..self.order.len() {
            let slot = self.order[at];
            let is_idle = nothing_is_left || !self.is_active(slot) || self.is_making_way;
            let consumer = self.at(slot);
            if !consumer.credit.drain || consumer.credit_left() == 0 {
                continue;
            }
            if consumer.paused || !is_idle {
                self.may_drain = true;
                continue;
            }
            self.leave_line(slot);
            let consumer = self.at_mut(slot);
            consumer.delivered = consumer.credit.limit;
            consumer.credit.drain = false;
            each(consumer.spec.id, consumer.credit.limit);
        }
    }

    /// Unacked deliveries of a consumer; zero for an unknown one.
    pub(crate) fn unacked(&self, id: ConsumerId) -> u32 {
        self.by_id.get(&id).map_or(0, |slot| self.at(*slot).unacked)
    }

    /// Deliveries of a consumer were settled; unknown (cancelled) consumers are fine.
    ///
    /// # Panics
    ///
    /// Panics when the consumer has fewer deliveries than were settled. That ends the service of this queue alone.
    pub(crate) fn settled(&mut self, id: ConsumerId, count: u32) {
        if let Some(slot) = self.by_id.get(&id).copied() {
            let consumer = self.at_mut(slot);
            let left = consumer.unacked.checked_sub(count);
            consumer.unacked = left.expect("a consumer settles no more than it has");
            self.join_line(slot);
            if self.is_making_way {
                self.choose_active();
            }
        }
    }

    /// A consumer has a delivery that a leader before this one made.
    pub(crate) fn claimed(&mut self, id: ConsumerId) {
        let Some(slot) = self.by_id.get(&id).copied() else { return };
        let consumer = self.at_mut(slot);
        consumer.unacked += u32::from(consumer.spec.ack_required);
        if consumer.window() == 0 {
            self.leave_line(slot);
        }
    }

    /// Whether it may be served: it is the single active one, or the queue has none.
    pub(crate) fn is_active(&self, slot: usize) -> bool {
        !self.is_single_active || self.single_active == Some(slot)
    }

    /// All consumers with their slots, in order of registration.
    pub(crate) fn all(&self) -> impl Iterator<Item = (usize, &Consumer)> {
        self.order.iter().map(|slot| (*slot, self.at(*slot)))
    }

    /// Whether some consumer stands in line, or is paused and may have become able to take more.
    pub(crate) fn may_want(&self) -> bool {
        !self.eligible.is_empty() || self.paused > 0
    }

    /// The consumers as listings show them.
    pub(crate) fn stats(&self) -> Vec<ConsumerStats> {
        let stats = |(slot, consumer): (usize, &Consumer)| ConsumerStats {
            spec: consumer.spec.clone(),
            unacked: consumer.unacked,
            active: self.is_active(slot),
            in_stream: None,
        };
        self.all().map(stats).collect()
    }
}
