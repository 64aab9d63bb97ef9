//! Links come and go, and members may fall behind: the leader looks.

use std::sync::Arc;

use metadata::ReplicaChange;

use super::role::ReplicaEvent;
use super::shipping::ASK_AGAIN_MS;
use crate::cell::{Event, Queue};

/// Confirms that wait for so long are reported.
const STILL_MS: u64 = 10_000;
/// A member that is waited for leaves the set after so long.
const BEHIND_MS: u64 = 1_500;

impl Queue {
    /// A node is linked.
    pub(crate) fn node_linked(self: &Arc<Self>, node: u16) {
        let Some(replica) = self.replica.get() else { return };
        let known = replica.known();
        if known.leader == node {
            self.submit_later(Event::Replica(Box::new(ReplicaEvent::LeaderLinked)));
        } else if known.leader == replica.own && known.has(node) {
            self.submit_later(Event::Replica(Box::new(ReplicaEvent::Begin(node))));
        }
    }

    /// The link to a node has ended.
    pub(crate) fn node_left(self: &Arc<Self>, node: u16) {
        let Some(replica) = self.replica.get() else { return };
        if replica.claims.left(node) {
            // It may have been the last one.
            self.submit_later(Event::Replica(Box::new(ReplicaEvent::Fill)));
        }
        let now_ms = self.services().now_ms();
        if let Some(leading) = &mut *replica.leading.lock() {
            leading.left(node, now_ms);
        }
    }

    /// A majority of the cluster knows that this node is there, or does so no more: what it leads delivers, or waits.
    pub(in crate::cluster) fn trust_changed(self: &Arc<Self>) {
        if self.replica.get().is_some_and(|replica| replica.leads()) {
            self.submit_later(Event::Replica(Box::new(ReplicaEvent::Fill)));
        }
    }

    /// Confirms wait for long, or do so no more.
    fn report_still(&self, are_still: bool) {
        let (queue, vhost) = (String::from_utf8_lossy(self.name()), self.vhost_name());
        if !are_still {
            return tracing::info!(%queue, vhost, "the queue confirms again");
        }
        let waits_for = self.confirms_wait_for().join("; ");
        tracing::warn!(%queue, vhost, "the queue has confirmed nothing for {} s: it waits for {waits_for}", STILL_MS / 1000);
    }

    /// Now and then: members that do not answer are left behind, and what waits for a leader is looked at.
    pub(crate) fn look_at_members(self: &Arc<Self>, now_ms: u64) {
        let Some(replica) = self.replica.get() else { return };
        self.look_at_held(now_ms);
        let mut held = replica.leading.lock();
        let Some(leading) = held.as_mut() else { return };
        let (behind, caught_up) = (leading.behind(now_ms, BEHIND_MS), leading.caught_up());
        let (version, away) = (leading.known().version, leading.to_ask(now_ms, ASK_AGAIN_MS));
        let is_to_fill = !leading.to_fill().is_empty();
        let still = leading.note_still(now_ms, STILL_MS);
        drop(held);
        self.end_absences(replica, now_ms);
        still.into_iter().for_each(|are_still| self.report_still(are_still));
        if !behind.is_empty() {
            self.ask_for(ReplicaChange::Behind, &behind, version);
        } else if !caught_up.is_empty() {
            self.ask_for(ReplicaChange::CaughtUp, &caught_up, version);
        }
        if is_to_fill || away.iter().any(|node| self.far_of(*node).is_some()) {
            self.submit_later(Event::Replica(Box::new(ReplicaEvent::Changed)));
        }
    }
}
