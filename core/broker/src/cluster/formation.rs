//! How a node becomes a member of a cluster and stays one: one node forms it, the others join, the leader makes the group's members those that
//! the metadata name.

use bytes::Bytes;
use metadata::{AddNode, BeginLife, ClusterStep, FIRST_NODE};
use multiraft::{Change, Peer, ReplicaId};

use super::driver::{Driver, Linked};
use super::frames::{self, ClusterId, Standing, Welcome};
use super::machine::Machine;
use super::member;
use super::name::NodeName;
use super::node::{Ask, Purpose};
use super::peers::Lane;
use super::replica::{self, Replica};

/// As many nodes vote; further ones follow.
const VOTERS_MAX: usize = 7;
/// A learner that lacks no more entries than these becomes a voter.
const CAUGHT_UP: u64 = 1_000;

impl Driver {
    pub(super) fn standing(&self) -> Standing {
        let member = self.member.as_ref().map(|member| (member.cluster, member.number));
        let is_waiting = member.is_none() && self.refusal.is_none() && self.seeds > 0;
        Standing { member, is_waiting }
    }

    pub(super) fn tell_standing(&self) {
        let standing = self.standing().encode();
        for name in self.linked.keys() {
            self.send(name, Lane::Control, frames::STANDING, standing.clone());
        }
    }

    pub(super) fn heard_standing(&mut self, from: &NodeName, standing: Standing) {
        // Of a node that is not linked nobody knows which data it has.
        let Some(linked) = self.linked.get_mut(from) else { return };
        linked.standing = standing;
        let (Some(own), Some((cluster, number))) = (&self.member, standing.member) else { return };
        if own.cluster != cluster {
            tracing::warn!(node = %from, "the node is a member of another cluster; it takes no part in this one");
            return;
        }
        let is_member = self.is_member(from, number);
        if !is_member && self.replica.as_ref().is_some_and(Replica::knows_all) {
            let text = format!(
                "node {from} is no member of the cluster: it was forgotten, or its data are not those of the member"
            );
            self.send(from, Lane::Control, frames::REFUSED, text.into());
        }
    }

    pub(super) fn is_member(&self, name: &NodeName, number: u16) -> bool {
        let data = self.linked.get(name).map(|linked| linked.identity.data_id);
        self.nodes.get(&number).is_some_and(|node| node.0 == *name && Some(node.1) == data)
    }

    /// Forms a cluster when it is this node's turn, or asks those that have one.
    pub(super) fn find_a_cluster(&mut self) {
        if self.member.is_some() || self.refusal.is_some() || self.seeds == 0 {
            return;
        }
        // A node that names no others joins nobody unasked, also when others still know its address.
        if self.seeds == 1 {
            return self.form();
        }
        let members: Vec<_> = self
            .linked
            .iter()
            .filter(|(_, it)| it.standing.member.is_some())
            .map(|(name, _)| name.clone())
            .collect();
        for name in &members {
            self.send(name, Lane::Control, frames::JOIN, Bytes::new());
        }
        let own = &self.peers.own().name;
        let are_all_here = self.linked.len() + 1 >= self.seeds;
        let is_first = self.linked.keys().all(|name| own < name);
        let wait = |linked: &Linked| linked.standing.is_waiting;
        if members.is_empty() && are_all_here && is_first && self.linked.values().all(wait) {
            self.form();
        }
    }

    pub(super) fn form(&mut self) {
        let own = self.peers.own().clone();
        let mut id = [0; 16];
        self.foundation.random.fill(&mut id);
        let members = vec![(FIRST_NODE, own.name.clone(), own.data_id)];
        let welcome = Welcome { cluster: ClusterId(id), number: FIRST_NODE, members };
        let formed = replica::form(self, &welcome).and_then(|formed| {
            member::write(&*self.foundation.disk, &self.data_dir, &welcome)?;
            Ok(formed)
        });
        match formed {
            Ok((replica, state)) => {
                tracing::info!(node = %own.name, "this node has formed a cluster");
                self.machine = Machine::Starting(state);
                self.become_member(welcome, replica);
                self.tell_standing();
            }
            Err(error) => self.fail(format!("the cluster cannot be formed: {error}")),
        }
    }

    /// The leader gives a newcomer its number.
    pub(super) fn asked_to_join(&mut self, from: &NodeName) {
        let Some(data_id) = self.linked.get(from).map(|linked| linked.identity.data_id) else { return };
        if !self.replica.as_ref().is_some_and(Replica::leads) {
            return;
        }
        match self.number_of(from) {
            None => {
                if let Some(text) = self.too_old_to_join(from) {
                    self.send(from, Lane::Control, frames::REFUSED, text.into());
                    return;
                }
                let add = AddNode { name: from.as_str().into(), data_id: data_id.0 };
                self.propose_step(&ClusterStep::AddNode(add));
            }
            Some(number) if self.nodes[&number].1 == data_id => {
                let member = self.member.as_ref().expect("who leads is a member");
                let members =
                    self.nodes.iter().map(|(number, node)| (*number, node.0.clone(), node.1)).collect();
                let welcome = Welcome { cluster: member.cluster, number, members };
                self.send(from, Lane::Control, frames::WELCOME, welcome.encode());
            }
            Some(_) => {
                let text = format!(
                    "node {from} is a member of the cluster with other data: if its disk was lost, run `forget_cluster_node {from}` on another node first"
                );
                self.send(from, Lane::Control, frames::REFUSED, text.into());
            }
        }
    }

    pub(super) fn welcomed(&mut self, welcome: Welcome) {
        if self.member.is_some() {
            return;
        }
        let begun = replica::begin_empty(self, &welcome).and_then(|replica| {
            member::write(&*self.foundation.disk, &self.data_dir, &welcome)?;
            Ok(replica)
        });
        match begun {
            Ok(replica) => {
                tracing::info!(number = welcome.number, "this node joins a cluster");
                self.become_member(welcome, replica);
                self.tell_standing();
            }
            Err(error) => self.fail(error.to_string()),
        }
    }

    pub(super) fn refused(&mut self, from: &NodeName, text: &str) {
        tracing::error!(node = %from, "the cluster refuses this node: {text}");
        self.fail(text.to_owned());
    }

    pub(super) fn fail(&mut self, text: String) {
        self.shared.fail(&text);
        self.refusal = Some(text);
        if self.member.is_some() {
            self.replica = None;
        }
    }

    pub(super) fn ask(&mut self, ask: Ask) -> Result<(), String> {
        match ask {
            Ask::Forget(name) => {
                let number = self.number_of(&name).ok_or_else(|| {
                    "{:not_a_cluster_node, ~c\"The node selected is not in the cluster.\"}".to_owned()
                })?;
                if self.is_linked(&name) {
                    return Err(format!(
                        "RabbitMQ on node {name} must be stopped with 'rabbitmqctl -n {name} stop_app' before it can be removed"
                    ));
                }
                if number == self.own() {
                    return Err("a node cannot forget itself".into());
                }
                self.propose_or_forward(&ClusterStep::ForgetNode(metadata::ForgetNode { node: number }));
                Ok(())
            }
        }
    }

    /// Asks for a life until it has one. A node that serves also votes, unless enough others do: three nodes that are ready can lose one.
    pub(super) fn begin_life(&mut self) {
        let (Some(member), None) = (&self.member, self.shared.life()) else { return };
        let is_needless = |replica: &Replica| replica.group.members().voters.len() >= VOTERS_MAX;
        if !self.replica.as_ref().is_some_and(|replica| replica.is_voter() || is_needless(replica)) {
            return;
        }
        let data_id = self.peers.own().data_id.0;
        if self.purpose == Purpose::Leave {
            return;
        }
        let begin = BeginLife { node: member.number, data_id, nonce: self.nonce };
        self.propose_or_forward(&ClusterStep::BeginLife(begin));
    }

    /// The leader makes the group's members those that the state names: one change at a time, the rest with the next ticks.
    pub(super) fn keep_members(&mut self) {
        let own = self.own();
        let Some(replica) = self.replica.as_mut().filter(|replica| replica.leads()) else { return };
        let members = replica.group.members().clone();
        let of = |number: u16| ReplicaId(number.into());
        let known = |id: &ReplicaId| self.nodes.keys().any(|number| of(*number) == *id);
        let peers = replica.group.peers();
        let commit = replica.group.status().commit;
        let caught_up = |id: &&ReplicaId| {
            let is_ready = |peer: &Peer| peer.is_active && !peer.wants_state && peer.matched > 0;
            peers
                .iter()
                .any(|peer| peer.replica == **id && is_ready(peer) && peer.matched + CAUGHT_UP >= commit)
        };
        let gone = members.voters.iter().chain(&members.learners).find(|id| !known(id) && **id != of(own));
        self.leaving.retain(|number| self.nodes.contains_key(number));
        let stays = |number: &&u16| !self.leaving.contains(*number);
        let new = self.nodes.keys().filter(stays).map(|number| of(*number)).find(|id| !members.contains(*id));
        let ready = members.learners.iter().find(caught_up).filter(|_| members.voters.len() < VOTERS_MAX);
        let change = match (gone, new, ready) {
            (Some(gone), ..) => Change::Remove(*gone),
            (_, _, Some(ready)) => Change::AddVoter(*ready),
            (_, Some(new), _) => Change::AddLearner(new),
            _ => return,
        };
        if let Err(refused) = replica.group.change_members(&[change]) {
            tracing::debug!(%refused, "a change of the cluster's members has to wait");
        }
    }
}
