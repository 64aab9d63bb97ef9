//! The nodes that have a quorum queue, those that have all of it, and the leader.
//!
//! The rules, all of them:
//!
//! 1. Every confirmed message is on every node that is *in sync*. The leader is one of these.
//! 2. A member that is away leaves the set, but never so that less than a majority of the members remains. A member that has caught up
//!    enters it again.
//! 3. When the leader is down, the first member that is in sync and not down leads, in the next epoch.
//!
//! Knows nothing of messages, links or time. `docs/decisions/replicas-in-sync.md` says why.

use std::sync::Arc;

use stdx::QueueId;
use wire::amqp091::Value;

use crate::changes::{Applied, Change};
use crate::codec::{plain_codes, record};
use crate::command::QueueType;
use crate::records::QueueRecord;
use crate::state::State;

/// How many members a quorum queue gets when nothing else is said.
const MEMBERS: usize = 3;
/// More members than this no queue gets.
pub const REPLICAS_MAX: usize = 7;

record! {
    /// The members of a quorum queue.
    pub struct Replicas {
        /// The node that decides; in sync.
        pub leader: u16,
        /// Grows whenever somebody begins to lead.
        pub epoch: u32,
        /// Grows with every change: earlier requests are passed over.
        pub version: u64,
        /// The nodes that have a copy, or are to get one.
        pub members: Vec<u16>,
        /// Members that have every confirmed message.
        pub in_sync: Vec<u16>,
    }

    /// The members of a queue, in a snapshot.
    pub struct ReplicasFact {
        /// The queue.
        pub queue: QueueId,
        /// Its members.
        pub replicas: Replicas,
    }

    /// A node that is not reachable, in a snapshot.
    pub struct NodeDownFact {
        /// Its number.
        pub node: u16,
    }

    /// Others have lost sight of a node, or see it again.
    pub struct NodeSeen {
        /// Its number.
        pub node: u16,
        /// In this life of it.
        pub life: u32,
        /// Whether it is there.
        pub is_up: bool,
    }

    /// Something changes about the members of a queue. Passed over when anything has changed since it was asked for.
    pub struct ChangeReplicas {
        /// The queue.
        pub queue: QueueId,
        /// The version that the caller knows.
        pub version: u64,
        /// The change.
        pub change: ReplicaChange,
        /// For which node.
        pub node: u16,
    }
}

/// A change about a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplicaChange {
    /// It has every message that the leader has.
    CaughtUp,
    /// It does not answer the leader. Counts as a change also when it is not in sync: a [`ReplicaChange::CaughtUp`] that is still on its way
    /// comes too late then.
    Behind,
    /// It is to lead. Only a member in sync can.
    Lead,
    /// It is to have a copy.
    Add,
    /// It has no copy any more.
    Remove,
}

plain_codes!(ReplicaChange as "change of a replica" { 1 => CaughtUp, 2 => Behind, 3 => Lead, 4 => Add, 5 => Remove, });

impl Replicas {
    /// How many members a majority has.
    #[must_use]
    pub fn majority(&self) -> usize {
        self.members.len() / 2 + 1
    }

    /// Whether a node has a copy.
    #[must_use]
    pub fn has(&self, node: u16) -> bool {
        self.members.contains(&node)
    }

    fn lead(&mut self, node: u16) {
        (self.leader, self.epoch) = (node, self.epoch + 1);
    }

    /// Takes a member out of the set, if enough remain and it does not lead.
    fn leave_sync(&mut self, node: u16) {
        if node != self.leader && self.in_sync.contains(&node) && self.in_sync.len() > self.majority() {
            self.in_sync.retain(|other| *other != node);
        }
    }

    /// Somebody else leads than a node that is down.
    fn replace_leader(&mut self, is_down: impl Fn(u16) -> bool) {
        if is_down(self.leader)
            && let Some(next) = self.in_sync.iter().copied().find(|node| !is_down(*node))
        {
            self.lead(next);
        }
    }

    /// A node is gone for good. False when no member remains.
    fn forget(&mut self, gone: u16, is_down: impl Fn(u16) -> bool) -> bool {
        self.members.retain(|node| *node != gone);
        self.in_sync.retain(|node| *node != gone);
        if self.in_sync.is_empty() {
            // The operator has given up the only node that had everything: another copy is the best there is.
            let best = self.members.iter().find(|node| !is_down(**node)).or(self.members.first());
            self.in_sync.extend(best.copied());
        }
        let Some(first) = self.in_sync.first().copied() else { return false };
        if self.leader == gone {
            self.lead(self.in_sync.iter().copied().find(|node| !is_down(*node)).unwrap_or(first));
        }
        true
    }

    /// Does what was asked for, if it can be. Whether anything changed; the version stays.
    pub fn asked_for(&mut self, change: ReplicaChange, node: u16) -> bool {
        let before = self.clone();
        let (is_member, is_in_sync) = (self.has(node), self.in_sync.contains(&node));
        match change {
            ReplicaChange::CaughtUp if is_member && !is_in_sync => self.in_sync.push(node),
            ReplicaChange::Behind if is_member => {
                self.leave_sync(node);
                return true;
            }
            ReplicaChange::Lead if is_in_sync && node != self.leader => self.lead(node),
            ReplicaChange::Add if !is_member && self.members.len() < REPLICAS_MAX => self.members.push(node),
            ReplicaChange::Remove if is_member && self.members.len() > 1 => {
                let is_last = is_in_sync && self.in_sync.len() == 1;
                if !is_last {
                    self.forget(node, |_| false);
                }
            }
            _ => {}
        }
        *self != before
    }
}

impl State {
    /// The members of a queue; `None` when it has one home and no replicas.
    #[must_use]
    pub fn replicas(&self, queue: QueueId) -> Option<&Arc<Replicas>> {
        self.nodes.as_ref()?.replicas.get(&queue)
    }

    /// Whether the others have lost sight of a node.
    #[must_use]
    pub fn is_node_down(&self, node: u16) -> bool {
        self.nodes.as_ref().is_some_and(|nodes| nodes.down.contains(&node))
    }

    /// A new queue gets its members: the node that declares it, and the next ones around the ring of nodes.
    pub(crate) fn place_replicas(&mut self, record: &QueueRecord, applied: &mut Applied) {
        let Some(nodes) = &mut self.nodes else { return };
        if record.queue_type != QueueType::Quorum || !record.durable {
            return;
        }
        let asked = match record.arguments.as_table().get(b"x-quorum-initial-group-size") {
            Some(Value::I64(size)) => usize::try_from(size).unwrap_or(MEMBERS),
            Some(Value::I32(size)) => usize::try_from(size).unwrap_or(MEMBERS),
            Some(Value::U8(size)) => usize::from(size),
            Some(Value::I8(size)) => usize::try_from(size).unwrap_or(MEMBERS),
            Some(Value::I16(size)) => usize::try_from(size).unwrap_or(MEMBERS),
            _ => MEMBERS,
        };
        let all: Vec<u16> = nodes.rows.keys().copied().filter(|node| *node != record.home).collect();
        let others = asked.clamp(1, REPLICAS_MAX) - 1;
        let first = record.id.0 as usize % all.len().max(1);
        let mut members = vec![record.home];
        // Nodes that are up come first.
        let ring = (0..all.len()).map(|nth| all[(first + nth) % all.len()]);
        let (down, up): (Vec<_>, Vec<_>) = ring.partition(|node| nodes.down.contains(node));
        members.extend(up.into_iter().chain(down).take(others));
        let in_sync = members.clone();
        let replicas = Replicas { leader: record.home, epoch: 1, version: 1, members, in_sync };
        let replicas = Arc::new(replicas);
        nodes.replicas.insert(record.id, replicas.clone());
        applied.changes.push(Change::ReplicasChanged { queue: record.id, replicas });
    }

    /// Does something to the members of all queues; those that it changes are told of.
    fn change_all_replicas(&mut self, applied: &mut Applied, change: impl Fn(&mut Replicas)) {
        let Some(nodes) = &mut self.nodes else { return };
        for (queue, replicas) in &mut nodes.replicas {
            let mut changed = Replicas::clone(replicas);
            change(&mut changed);
            if changed != **replicas {
                changed.version += 1;
                *replicas = Arc::new(changed);
                let change = Change::ReplicasChanged { queue: *queue, replicas: replicas.clone() };
                applied.changes.push(change);
            }
        }
    }

    /// A node is seen, or not any more.
    pub(crate) fn see_node(&mut self, seen: &NodeSeen, applied: &mut Applied) {
        let Some(nodes) = &mut self.nodes else { return };
        if nodes.rows.get(&seen.node).is_none_or(|row| row.life != seen.life) {
            return;
        }
        let is_news = if seen.is_up { nodes.down.remove(&seen.node) } else { nodes.down.insert(seen.node) };
        if !is_news {
            return;
        }
        let down = nodes.down.clone();
        self.change_all_replicas(applied, |replicas| {
            replicas.replace_leader(|node| down.contains(&node));
            if !seen.is_up {
                replicas.leave_sync(seen.node);
            }
        });
    }

    /// A node starts: it is there, and leads what it led in a new epoch, as it may have lost what was not durable.
    pub(crate) fn restart_replicas(&mut self, node: u16, applied: &mut Applied) {
        let Some(nodes) = &mut self.nodes else { return };
        nodes.down.remove(&node);
        let down = nodes.down.clone();
        self.change_all_replicas(applied, |replicas| match replicas.leader == node {
            true => replicas.lead(node),
            false => replicas.replace_leader(|other| down.contains(&other)),
        });
    }

    /// A node is no member any more. Gives the queues that nobody has now.
    pub(crate) fn forget_replicas(&mut self, node: u16, applied: &mut Applied) -> Vec<QueueId> {
        let Some(nodes) = &mut self.nodes else { return Vec::new() };
        nodes.down.remove(&node);
        let down = nodes.down.clone();
        self.change_all_replicas(applied, |replicas| {
            if replicas.has(node) {
                replicas.forget(node, |other| down.contains(&other));
            }
        });
        let nobody =
            |(queue, replicas): (&QueueId, &Arc<Replicas>)| replicas.members.is_empty().then_some(*queue);
        self.nodes.iter().flat_map(|nodes| &nodes.replicas).filter_map(nobody).collect()
    }

    /// A quorum queue that only its home has, as when it was declared before there was a cluster.
    fn first_copy(&self, queue: QueueId) -> Option<Replicas> {
        let of_vhost =
            |vhost: &crate::Vhost| vhost.queues().into_iter().find(|record| record.id == queue).cloned();
        let record = self.vhosts().find_map(of_vhost)?;
        let is_replicable = record.queue_type == QueueType::Quorum && record.durable;
        let home = vec![record.home];
        is_replicable.then(|| Replicas {
            leader: record.home,
            epoch: 1,
            version: 0,
            members: home.clone(),
            in_sync: home,
        })
    }

    /// Something changes about the members of one queue.
    pub(crate) fn change_replicas(&mut self, asked: &ChangeReplicas, applied: &mut Applied) {
        let Some(nodes) = &mut self.nodes else { return };
        let is_known = nodes.rows.contains_key(&asked.node) && !nodes.down.contains(&asked.node);
        let needs_node = !matches!(asked.change, ReplicaChange::Behind | ReplicaChange::Remove);
        let first = (asked.change == ReplicaChange::Add && !nodes.replicas.contains_key(&asked.queue))
            .then(|| self.first_copy(asked.queue))
            .flatten();
        let Some(nodes) = &mut self.nodes else { return };
        if let Some(first) = first {
            nodes.replicas.insert(asked.queue, Arc::new(first));
        }
        let Some(replicas) = nodes.replicas.get_mut(&asked.queue) else { return };
        if replicas.version != asked.version || (needs_node && !is_known) {
            return;
        }
        let mut changed = Replicas::clone(replicas);
        if changed.asked_for(asked.change, asked.node) {
            changed.replace_leader(|node| nodes.down.contains(&node));
            changed.version += 1;
            *replicas = Arc::new(changed);
            let change = Change::ReplicasChanged { queue: asked.queue, replicas: replicas.clone() };
            applied.changes.push(change);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn three() -> Replicas {
        Replicas { leader: 1, epoch: 1, version: 1, members: vec![1, 2, 3], in_sync: vec![1, 2, 3] }
    }

    #[test]
    fn a_member_in_sync_leads_when_the_leader_is_down() {
        let mut replicas = three();
        replicas.asked_for(ReplicaChange::Behind, 2);
        assert_eq!(replicas.in_sync, [1, 3]);
        replicas.replace_leader(|node| node == 1);
        assert_eq!((replicas.leader, replicas.epoch), (3, 2));
        replicas.asked_for(ReplicaChange::Behind, 1);
        assert_eq!(replicas.in_sync, [1, 3], "a majority stays");
        assert!(!replicas.asked_for(ReplicaChange::Lead, 2), "it does not have everything");
        assert!(replicas.asked_for(ReplicaChange::CaughtUp, 2));
        assert!(replicas.asked_for(ReplicaChange::Behind, 1));
        assert!(replicas.asked_for(ReplicaChange::Lead, 2));
        assert_eq!((replicas.leader, replicas.epoch), (2, 3));
    }

    #[test]
    fn the_only_copy_stays_and_members_come_and_go() {
        let mut replicas = Replicas { leader: 1, epoch: 4, version: 9, members: vec![1], in_sync: vec![1] };
        assert!(replicas.asked_for(ReplicaChange::Add, 2));
        assert!(!replicas.asked_for(ReplicaChange::Remove, 1), "nobody else has everything");
        assert!(replicas.asked_for(ReplicaChange::CaughtUp, 2));
        assert!(replicas.asked_for(ReplicaChange::Remove, 1));
        assert_eq!((replicas.leader, replicas.epoch, &*replicas.members), (2, 5, &[2][..]));
    }

    proptest! {
        #[test]
        fn the_leader_is_in_sync_and_the_set_keeps_a_majority(changes in proptest::collection::vec((0..6u8, 1..6u16), 0..60)) {
            let mut replicas = three();
            for (what, node) in changes {
                let was = replicas.clone();
                match what {
                    0 => drop(replicas.asked_for(ReplicaChange::CaughtUp, node)),
                    1 => drop(replicas.asked_for(ReplicaChange::Behind, node)),
                    2 => drop(replicas.asked_for(ReplicaChange::Lead, node)),
                    3 => drop(replicas.asked_for(ReplicaChange::Add, node)),
                    4 => drop(replicas.asked_for(ReplicaChange::Remove, node)),
                    _ => replicas.replace_leader(|other| other == node),
                }
                prop_assert!(replicas.in_sync.contains(&replicas.leader));
                prop_assert!(replicas.in_sync.iter().all(|node| replicas.has(*node)));
                prop_assert!(was.leader == replicas.leader || was.epoch < replicas.epoch);
                // Only its removal takes a member out of the set when no majority would remain.
                prop_assert!(what == 4 || replicas.in_sync.len() >= was.in_sync.len().min(replicas.majority()));
            }
        }
    }
}
