//! After a change of the leader: each node tells the new one which deliveries its clients have not settled. The leader hands those out to
//! nobody else, and serves consumers when all nodes that it is linked with have told. It waits in the same way while it is cut off.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::BufMut;
use queues::{Claim, Classic, MessageSeq};

use super::held::Holder;
use super::role::{Claiming, Open, Replica, ReplicaEvent};
use crate::cell::{Event, Queue};
use crate::cluster::far::{Far, replicas as frames};
use crate::effects::CellEffects;

/// A node that has not told after so long is not waited for.
const WAIT_MS: u64 = 5_000;

impl Queue {
    /// This node is about to lead: all nodes that it is linked with are waited for, unless there is nothing that anybody could have.
    pub(super) fn await_claims(
        self: &Arc<Self>,
        replica: &Replica,
        classic: &mut Classic,
        epoch: u32,
        now_ms: u64,
    ) {
        let mut open = replica.claims.open.lock();
        let waiting = std::mem::take(&mut open.waiting);
        *open = Open { epoch, until_ms: now_ms + WAIT_MS, waiting, ..Open::default() };
        let is_empty = queues::Machine::counts(classic).ready == 0;
        replica.claims.are_open.store(!is_empty || !open.waiting.is_empty(), Ordering::Release);
        if is_empty {
            return;
        }
        if let Some(cluster) = &self.services().cluster {
            let view = cluster.view();
            let others = view.members.iter().filter(|node| cluster.fars().get(&node.name).is_some());
            open.nodes = others.map(|node| node.number).chain([replica.own]).collect();
        }
        self.services().wake_at(self, open.until_ms);
        classic.await_claims();
    }

    /// Somebody has messages since before this node led.
    pub(super) fn note_claim(&self, replica: &Replica, claiming: Claiming) {
        replica.claims.open.lock().waiting.push_back(claiming);
        replica.claims.are_open.store(true, Ordering::Release);
    }

    /// Grants what can be granted now. Gives back what waits for the disk.
    fn take_claim(
        self: &Arc<Self>,
        replica: &Replica,
        classic: &mut Classic,
        mut claiming: Claiming,
        fx: &mut CellEffects<'_>,
    ) -> Option<Claiming> {
        if !self.leads_in(claiming.epoch) {
            return None;
        }
        if classic.follows() {
            // It takes its part before the next event.
            return Some(claiming);
        }
        let (mut refused, mut waiting) = (Vec::new(), Vec::new());
        for numbers in std::mem::take(&mut claiming.numbers) {
            for number in numbers {
                // One waits at a time: the messages that are read for it stay in memory until then.
                let is_next = waiting.is_empty();
                let claim = is_next.then(|| classic.claim(claiming.holder, MessageSeq(number), fx));
                match claim.unwrap_or(Claim::Waits) {
                    Claim::Granted => {}
                    Claim::Refused => add(&mut refused, number),
                    Claim::Waits => add(&mut waiting, number),
                }
            }
        }
        match &claiming.far {
            None => {
                refused.iter().for_each(|gone| replica.clients.held.lose(claiming.holder, gone.clone()));
            }
            Some(far) => {
                far.forget_claimed(self.id, claiming.holder, &refused);
                self.tell_lost(far, &claiming, &refused);
            }
        }
        claiming.numbers = waiting;
        (!claiming.numbers.is_empty()).then_some(claiming)
    }

    fn tell_lost(&self, far: &Arc<Far>, claiming: &Claiming, refused: &[Range<u64>]) {
        if refused.is_empty() {
            return;
        }
        far.send_replica(self.id, 0, frames::LOST, |out| {
            out.put_u32(claiming.epoch);
            frames::put_holding(out, claiming.holder, refused);
        });
    }

    /// Whether another node may lead the queue by now, and this one does not know.
    pub(super) fn is_cut_off(&self, replica: &Replica) -> bool {
        let Some(cluster) = &self.services().cluster else { return false };
        !cluster.fars().is_trusted() && replica.known().members.len() > 1
    }

    /// After each event: the disk may have read what was claimed, and the last node may have told.
    pub(super) fn go_on_claiming(
        self: &Arc<Self>,
        classic: &mut Classic,
        now_ms: u64,
        fx: &mut CellEffects<'_>,
    ) {
        let Some(replica) = self.replica.get() else { return };
        let is_cut_off = !classic.follows() && self.is_cut_off(replica);
        if is_cut_off {
            classic.await_claims();
            replica.claims.are_open.store(true, Ordering::Release);
        }
        if !replica.claims.are_open.load(Ordering::Acquire) {
            return;
        }
        loop {
            let Some(claiming) = replica.claims.open.lock().waiting.pop_front() else { break };
            if let Some(waits) = self.take_claim(replica, classic, claiming, fx) {
                replica.claims.open.lock().waiting.push_front(waits);
                break;
            }
        }
        let mut open = replica.claims.open.lock();
        if open.waiting.is_empty() {
            open.settlements.drain(..).for_each(|event| self.note(event));
        }
        if open.until_ms <= now_ms {
            open.nodes.clear();
        }
        if open.nodes.is_empty() && open.waiting.is_empty() && !is_cut_off {
            replica.claims.are_open.store(false, Ordering::Release);
            drop(open);
            classic.end_claims(now_ms, fx);
        }
    }

    /// Whether an event settles what may be claimed: it waits until the claims before it are granted.
    pub(crate) fn settles_after_claims(&self, event: &mut Event) -> bool {
        let Some(replica) = self.replica.get() else { return false };
        if !matches!(event, Event::Settle(..)) || !replica.claims.are_open.load(Ordering::Acquire) {
            return false;
        }
        let mut open = replica.claims.open.lock();
        if open.waiting.is_empty() {
            return false;
        }
        open.settlements.push(std::mem::replace(event, Event::Handled));
        true
    }

    /// Whether this node leads in that epoch, as far as it knows.
    pub(in crate::cluster) fn leads_in(&self, epoch: u32) -> bool {
        self.replica.get().is_some_and(|replica| {
            let known = replica.known();
            known.leader == replica.own && known.epoch == epoch
        })
    }

    /// Tells the leader what clients of this node have. A second time is for another node only, which may have started meanwhile.
    pub(super) fn claim_held(self: &Arc<Self>, replica: &Replica) {
        let known = replica.known();
        let epoch = known.epoch;
        if known.leader == replica.own && replica.clients.claimed.load(Ordering::Acquire) == epoch {
            return;
        }
        for (holder, numbers) in replica.clients.held.all() {
            self.claim(replica, holder, numbers);
        }
        if known.leader == replica.own {
            let told = ReplicaEvent::Claimed { node: replica.own, epoch };
            return self.submit_here_one(Event::Replica(Box::new(told)));
        }
        let Some(far) = self.far_of(known.leader) else { return };
        far.send_replica(self.id, self.applied(), frames::CLAIMED, |out| out.put_u32(epoch));
    }

    /// Tells the leader what a client of this node has.
    pub(super) fn claim(self: &Arc<Self>, replica: &Replica, holder: Holder, numbers: Vec<Range<u64>>) {
        let known = replica.known();
        let epoch = known.epoch;
        if known.leader == replica.own {
            let claiming = Claiming { epoch, holder, numbers, far: None };
            return self.submit_here_one(Event::Replica(Box::new(ReplicaEvent::Claim(claiming))));
        }
        let Some(far) = self.far_of(known.leader) else { return };
        far.send_replica(self.id, self.applied(), frames::CLAIM, |out| {
            out.put_u32(epoch);
            frames::put_holding(out, holder, &numbers);
        });
    }

    /// The metadata that the leader must have before it looks at a claim.
    fn applied(&self) -> u64 {
        self.services().cluster.as_ref().map_or(0, |cluster| cluster.fars().needed())
    }
}

/// Adds a number behind all others.
fn add(all: &mut Vec<Range<u64>>, number: u64) {
    match all.last_mut() {
        Some(latest) if latest.end == number => latest.end += 1,
        _ => all.push(number..number + 1),
    }
}
