//! Actions of clients and operators: proposals, changes of members, new groups, checkpoints. Knows no faults, and judges nothing.

use bytes::Bytes;
use multiraft::{Change, Group, Members, Refused, ReplicaId, Role};

use super::machine::{List, body_of};
use super::world::{NODES, Node, World, settings};

impl World {
    pub(crate) fn pick_group(&self) -> u64 {
        let at = self.pick(self.oracles.len());
        *self.oracles.keys().nth(at).expect("a group")
    }

    /// A new group on some nodes. Nodes that are down make their replicas when they start.
    pub(crate) fn begin_group(&mut self, first: usize, voters: usize) {
        self.groups += 1;
        let group = self.groups;
        let nodes: Vec<usize> = (first..first + voters).map(|node| node % NODES).collect();
        let ids: Vec<ReplicaId> = nodes.iter().map(|node| self.new_id(*node, group)).collect();
        let members = Members::of(&ids);
        let oracle = self.oracles.entry(group).or_default();
        oracle.ever.extend(&ids);
        oracle.members = (1, members.clone());
        for (node, id) in nodes.into_iter().zip(ids) {
            self.nodes[node].had.insert(group);
            if self.nodes[node].is_up {
                self.create(node, group, id, &members);
            } else {
                self.nodes[node].awaited.insert(group, members.clone());
            }
        }
    }

    pub(crate) fn create(&mut self, node: usize, group: u64, id: ReplicaId, members: &Members) {
        let disk = &self.nodes[node].disk;
        let created = Group::create(settings(group, id), members.clone(), &Bytes::new(), disk);
        self.put(node, group, created.expect("a group begins"), List::default());
    }

    /// A group ends on all nodes at once, and another one begins.
    pub(crate) fn replace_group(&mut self, group: u64) {
        for node in &mut self.nodes {
            node.replicas.remove(&group);
            node.ids.remove(&group);
            node.awaited.remove(&group);
        }
        let oracle = self.oracles.remove(&group).expect("a known group");
        self.ended.push(oracle);
        self.note("a group ends and another one begins");
        let (first, voters) = (self.pick(NODES), [1, 3, 3, 5][self.pick(4)]);
        self.begin_group(first, voters);
    }

    pub(crate) fn propose(&mut self) {
        let group = self.pick_group();
        let leader = if self.is_calm { self.leader(group) } else { None };
        let node = leader.unwrap_or_else(|| self.pick(NODES));
        let size = if self.random.chance(1, 20) { 20_000 } else { 40 };
        let count = 1 + self.random.below(4);
        for _ in 0..count {
            let (command, body) = (self.next_command, body_of(self.next_command, self.random.below(size)));
            let Some(replica) = self.replica(node, group) else { return };
            match replica.group.propose(body) {
                Ok(place) => {
                    replica.proposed.insert(place, command);
                    self.next_command += 1;
                }
                Err(Refused::NotLeader { .. } | Refused::HandingOver(_) | Refused::Full(_)) => {}
                Err(refused) => panic!("a proposal was refused: {refused}"),
            }
        }
        self.turn(node, group);
    }

    fn leader(&mut self, group: u64) -> Option<usize> {
        let leads = |node: &usize| {
            let replica = self.nodes[*node].replicas.get(&group);
            replica.is_some_and(|replica| replica.group.status().role == Role::Leader)
        };
        let all: Vec<usize> = (0..NODES).filter(leads).collect();
        (!all.is_empty()).then(|| all[self.pick(all.len())])
    }

    pub(crate) fn hand_over(&mut self, group: u64) {
        let Some(node) = self.leader(group) else { return };
        let replica = self.nodes[node].replicas.get_mut(&group).expect("it leads");
        let voters = replica.group.members().voters.clone();
        if !voters.is_empty() {
            let to = voters[usize::try_from(self.random.below(voters.len() as u64)).expect("few")];
            replica.group.transfer(to);
            self.turn(node, group);
        }
    }

    pub(crate) fn change_members(&mut self, group: u64) {
        let Some(node) = self.leader(group) else { return };
        let other = self.pick(NODES);
        let members = self.nodes[node].replicas[&group].group.members().clone();
        let Some(id) = self.id_on(other, group) else { return };
        let peers = self.nodes[node].replicas[&group].group.peers();
        let all_lost = &self.oracles[&group].lost;
        let lost = all_lost.iter().copied().find(|lost| members.contains(*lost));
        let is_near = |id| {
            let is_there = members.learners.contains(&id) && !all_lost.contains(&id);
            is_there && peers.iter().any(|peer| peer.replica == id && peer.matched > 0)
        };
        let mut changes = Vec::new();
        if let Some(lost) = lost {
            // Nothing else changes until it is gone: too few could be left.
            changes.push(Change::Remove(lost));
        } else if members.learners.contains(&id) {
            changes.push(if is_near(id) { Change::AddVoter(id) } else { Change::Remove(id) });
        } else if members.voters.contains(&id) {
            let demote = self.random.chance(1, 3);
            changes.push(if demote { Change::AddLearner(id) } else { Change::Remove(id) });
        } else {
            changes.push(Change::AddLearner(id));
        }
        if self.random.chance(1, 2)
            && let Some(second) =
                peers.iter().map(|peer| peer.replica).find(|peer| *peer != id && is_near(*peer))
        {
            changes.push(Change::AddVoter(second));
        }
        let replica = self.nodes[node].replicas.get_mut(&group).expect("it leads");
        match replica.group.change_members(&changes) {
            Ok(_)
            | Err(Refused::ChangeInProgress | Refused::HandingOver(_) | Refused::ImpossibleChange(_)) => {}
            Err(refused) => panic!("a change of members was refused: {refused}"),
        }
        self.turn(node, group);
    }

    /// The replica on a node, a new one if there is none.
    fn id_on(&mut self, node: usize, group: u64) -> Option<ReplicaId> {
        if let Some(id) = self.nodes[node].ids.get(&group) {
            // A removed replica never comes back under its old id.
            let oracle = &self.oracles[&group];
            return (!oracle.ever.contains(id) || oracle.members.1.contains(*id)).then_some(*id);
        }
        if !self.nodes[node].is_up {
            return None;
        }
        if !self.nodes[node].had.insert(group) {
            self.note("a replica is made on a node that had another one");
        }
        let id = self.new_id(node, group);
        let empty = Group::create_empty(settings(group, id), &self.nodes[node].disk).expect("the log works");
        self.put(node, group, empty, List::default());
        Some(id)
    }

    /// Replicas that were members and are not any more go, as soon as the group says so.
    pub(crate) fn remove_strangers(&mut self) {
        for node in &mut self.nodes {
            for (group, oracle) in &mut self.oracles {
                let Some(id) = node.ids.get(group) else { continue };
                let is_settled = oracle.settled.0 > 0 && !oracle.settled.1.contains(*id);
                if is_settled && oracle.ever.contains(id) && !oracle.members.1.contains(*id) {
                    node.replicas.remove(group);
                    node.ids.remove(group);
                    node.awaited.remove(group);
                    oracle.note("a removed replica is deleted");
                }
            }
        }
    }

    pub(crate) fn checkpoint(&mut self, node: usize) {
        for group in self.groups_on(node) {
            self.turn(node, group);
            let Node { disk, replicas, .. } = &mut self.nodes[node];
            let Some(replica) = replicas.get_mut(&group) else { return };
            if self.random.chance(2, 3) {
                replica.group.checkpoint(&replica.list.capture(), disk);
            }
            if self.random.chance(1, 2) {
                let below = commitlog::Position(self.random.below(disk.end().0 + 1));
                let end = disk.end();
                replica.group.move_up(below, disk);
                if disk.end() > end {
                    self.oracles.get_mut(&group).expect("a known group").note("entries are written again");
                }
            }
            if self.random.chance(1, 4) {
                replica.group.trim_cache(0);
            }
        }
        let needs = self.nodes[node].replicas.values().map(|replica| replica.group.needs()).min();
        // All files of replicas that are no more may go; of those that are, only what they do not need.
        if let Some(needs) = needs.filter(|_| self.nodes[node].replicas.len() == self.nodes[node].ids.len()) {
            self.nodes[node].disk.drop_below(needs);
        }
        self.look_after_disk(node);
    }
}
