//! Faults: nodes die, disks rot, links are cut or reset. Knows no operator, and judges nothing.

use multiraft::{Apply, Group, RaftRs, Recovery, RecoveryError, ReplicaId};

use super::disk::Disk;
use super::machine::{List, command_of};
use super::world::{Event, NODES, Node, World, pairs, settings};

impl World {
    /// Something goes wrong, or an operator does something.
    pub(crate) fn trouble(&mut self) {
        let node = self.pick(NODES);
        let group = self.pick_group();
        match self.random.below(22) {
            0..4 => self.crash(node),
            4 => (0..NODES).for_each(|node| self.crash(node)),
            5..8 => self.cut_links(),
            8..10 => self.cut.clear(),
            10..14 => self.change_members(group),
            14 => self.hand_over(group),
            15 => {
                if let Some(replica) = self.replica(node, group) {
                    replica.group.forget_leader();
                    replica.group.campaign();
                    self.turn(node, group);
                }
            }
            16 => self.reset_link(node),
            17 if self.random.chance(1, 4) => self.replace_group(group),
            18 if self.random.chance(1, 2) => self.rot(node),
            _ => self.checkpoint(node),
        }
        self.remove_strangers();
    }

    pub(crate) fn crash(&mut self, node: usize) {
        let Node { disk, is_up, .. } = &mut self.nodes[node];
        if *is_up {
            disk.crash(&self.random, self.planted);
            self.stop(node);
        }
    }

    /// The node is down, and starts some time later.
    fn stop(&mut self, node: usize) {
        let Node { replicas, is_up, life, .. } = &mut self.nodes[node];
        replicas.clear();
        *is_up = false;
        *life += 1;
        let pause = if !self.is_calm && self.random.chance(1, 3) { 6000 } else { 400 };
        let pause = self.random.below(pause);
        self.at(pause, Event::Start { node });
    }

    /// A node loses power, and an entry on its disk is damaged. Its start will be refused.
    fn rot(&mut self, node: usize) {
        if self.nodes[node].is_up && self.may_lose(node) {
            self.crash(node);
            let Node { disk, ids, rotten, .. } = &mut self.nodes[node];
            *rotten = ids.keys().copied().find(|group| disk.damage(*group, &self.random));
            if rotten.is_some() {
                self.mark_lost(node);
            }
        }
    }

    /// Whether the groups of a node go on when it has lost all its replicas: enough others count, and what they are is settled.
    pub(crate) fn may_lose(&self, node: usize) -> bool {
        self.replicas_of(node).into_iter().all(|(group, id)| {
            let oracle = &self.oracles[&group];
            let members = &oracle.members.1;
            let counts = members.voters.contains(&id);
            let all_are_there = oracle.lost.iter().all(|lost| !members.contains(*lost));
            let is_changing = self.nodes.iter().any(|node| node.disk.has_change(group, oracle.members.0));
            oracle.is_settled() && all_are_there && !is_changing && (!counts || members.voters.len() > 2)
        })
    }

    /// The replicas that have records on a node.
    fn replicas_of(&self, node: usize) -> Vec<(u64, ReplicaId)> {
        let Node { ids, awaited, .. } = &self.nodes[node];
        ids.iter()
            .filter(|(group, _)| !awaited.contains_key(group))
            .map(|(group, id)| (*group, *id))
            .collect()
    }

    fn mark_lost(&mut self, node: usize) {
        for (group, id) in self.replicas_of(node) {
            self.oracles.get_mut(&group).expect("a known group").lost.insert(id);
        }
    }

    /// Damage was found on a node's disk: it begins again with an empty one, and its replicas are gone for ever.
    pub(crate) fn lose_disk(&mut self, node: usize) {
        self.mark_lost(node);
        for (group, _) in self.replicas_of(node) {
            self.nodes[node].ids.remove(&group);
        }
        (self.nodes[node].disk, self.nodes[node].rotten) = (Disk::default(), None);
        self.stop(node);
    }

    pub(crate) fn start(&mut self, node: usize) {
        for (group, id) in self.replicas_of(node) {
            let is_rotten = self.nodes[node].rotten == Some(group);
            let (replica, list) = match self.read_back(node, group, id) {
                Ok(_) if is_rotten => panic!("damage of group {group} is not noticed"),
                Ok(found) => found,
                Err(_) if is_rotten => {
                    self.note("a start is refused for damage");
                    return self.lose_disk(node);
                }
                Err(error) => panic!("the start of replica {id} of group {group} is refused: {error}"),
            };
            let oracle = self.oracles.get_mut(&group).expect("a known group");
            oracle.machine(replica.applied().0, &list);
            self.put(node, group, replica, list);
        }
        if self.nodes[node].rotten.is_some() {
            // The damaged replica has been removed meanwhile. The log itself notices.
            return self.lose_disk(node);
        }
        for (group, members) in std::mem::take(&mut self.nodes[node].awaited) {
            self.create(node, group, self.nodes[node].ids[&group], &members);
        }
        self.begin_life(node);
    }

    fn read_back(
        &self,
        node: usize,
        group: u64,
        id: ReplicaId,
    ) -> Result<(Group<RaftRs>, List), RecoveryError> {
        let mut recovery = Recovery::<RaftRs>::new(settings(group, id));
        let mut list = List::default();
        for record in self.nodes[node].disk.records(group) {
            recovery.record(record.end, record.kind, &record.payload)?;
            for step in recovery.take_apply() {
                match step {
                    Apply::Entry { body, .. } => list.apply(command_of(&body)),
                    Apply::State { state, .. } => list = List::install(&state),
                }
            }
        }
        Ok((recovery.finish()?, list))
    }

    fn cut_links(&mut self) {
        self.cut.clear();
        if self.random.chance(1, 2) {
            // Two parts.
            let split: Vec<bool> = (0..NODES).map(|_| self.random.chance(1, 2)).collect();
            for (from, to) in pairs(0..NODES) {
                if split[from] != split[to] {
                    self.cut.insert((from, to));
                }
            }
        } else {
            // Some directions.
            for (from, to) in pairs(0..NODES) {
                if self.random.chance(1, 4) {
                    self.cut.insert((from, to));
                }
            }
        }
    }

    fn reset_link(&mut self, node: usize) {
        for group in self.groups_on(node) {
            let Some(replica) = self.replica(node, group) else { return };
            for peer in replica.group.peers() {
                replica.group.unreachable(peer.replica);
            }
            self.turn(node, group);
        }
    }
}
