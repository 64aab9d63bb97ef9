//! The members of a queue as people see them, and what operators change about them.

use std::sync::Arc;

use metadata::{ReplicaChange, Replicas};
use queues::MemberStanding;

use crate::cell::Queue;
use crate::cluster::NodeName;

/// A node that has a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its number in the cluster.
    pub node: u16,
    /// Its name.
    pub name: NodeName,
    /// Whether this node is linked with it, or is it.
    pub is_up: bool,
    /// Whether it has every message that was confirmed.
    pub is_in_sync: bool,
    /// Whether it leads the others, or is the only one.
    pub is_leader: bool,
}

impl Queue {
    /// The nodes that have the queue, and the leader; `None` for a queue that only one node has.
    #[must_use]
    pub fn replicas(&self) -> Option<Arc<Replicas>> {
        self.replica.get().map(|replica| replica.known())
    }

    /// The nodes that have the queue, by name; empty without a cluster. Nobody is asked.
    #[must_use]
    pub fn places(&self) -> Vec<Place> {
        let Some(cluster) = &self.services().cluster else { return Vec::new() };
        let (view, leader, replicas) = (cluster.view(), self.home_node(), self.replicas());
        let members = replicas.as_ref().map_or(std::slice::from_ref(&leader), |it| &it.members);
        let is_in_sync = |node: u16| replicas.as_ref().is_none_or(|it| it.in_sync.contains(&node));
        let place = |node: &u16| {
            let member = view.member(*node)?;
            Some(Place {
                node: *node,
                name: member.name.clone(),
                is_up: member.is_up,
                is_in_sync: is_in_sync(*node),
                is_leader: *node == leader,
            })
        };
        members.iter().filter_map(place).collect()
    }

    /// The members as their leader, this node, knows them; empty when another node leads.
    #[must_use]
    pub fn members(&self) -> Vec<MemberStanding> {
        let Some(replica) = self.replica.get() else { return Vec::new() };
        let held = replica.leading.lock();
        let Some(leading) = held.as_ref() else { return Vec::new() };
        let turn = leading.turn();
        let of = |node: &u16| {
            let (lag, is_following) = leading.lag(*node).unwrap_or((0, true));
            MemberStanding { node: *node, lag, has: turn.saturating_sub(lag), is_following }
        };
        leading.known().members.iter().map(of).collect()
    }

    /// Why the queue delivers nothing though this node leads it, in words; `None` when it may deliver.
    #[must_use]
    pub fn delivery_waits_for(&self) -> Option<String> {
        let replica = self.replica.get().filter(|replica| replica.leads())?;
        let view = self.services().cluster.as_ref()?.view();
        if self.is_cut_off(replica) {
            let all = view.members.iter().filter(|member| member.is_voter);
            let (linked, all) = (all.clone().filter(|member| member.is_up).count(), all.count());
            return Some(format!(
                "the leader is linked with {linked} of {all} nodes of the cluster, itself included, and waits until a majority sees it: another \
                 node may lead the queue by now"
            ));
        }
        let names =
            replica.claims.awaited().into_iter().filter_map(|node| Some(view.member(node)?.name.clone()));
        let names: Vec<_> = names.map(|name| name.to_string()).collect();
        let waits = !names.is_empty();
        waits.then(|| format!("a new leader waits until {} has told what its clients hold", names.join(", ")))
    }

    /// Members in sync that have not confirmed everything, in words, while this node leads: confirms wait for them.
    #[must_use]
    pub fn confirms_wait_for(&self) -> Vec<String> {
        let (places, replicas) = (self.places(), self.replicas());
        let is_needed = replicas.is_some_and(|it| it.in_sync.len() <= it.majority());
        let late = self.members().into_iter().filter(|standing| standing.lag > 0);
        let line = |standing: MemberStanding| {
            let place = places.iter().find(|place| place.node == standing.node && place.is_in_sync)?;
            let needed = if is_needed { ", and without which there is no majority" } else { "" };
            Some(format!("node {}, which {}{needed}", place.name, standing_in_words(place, &standing)))
        };
        late.filter_map(line).collect()
    }

    /// Members that are not in sync, in words, while this node leads: confirms do not wait for them.
    #[must_use]
    pub fn members_behind(&self) -> Vec<String> {
        let places = self.places();
        let line = |standing: MemberStanding| {
            let place = places.iter().find(|place| place.node == standing.node && !place.is_in_sync)?;
            Some(format!("node {}, which {}", place.name, standing_in_words(place, &standing)))
        };
        self.members().into_iter().filter_map(line).collect()
    }

    /// Asks for a change of the members: [`ReplicaChange::Add`], [`ReplicaChange::Remove`] or [`ReplicaChange::Lead`]. The change is visible in
    /// [`Queue::replicas`] when it has happened. It never does when somebody else changed the members at the same time, or when it is not
    /// possible: a node that is not in sync does not lead, and the only node that is does not go.
    pub fn change_member(&self, change: ReplicaChange, node: u16) {
        let version = self.replicas().map_or(0, |replicas| replicas.version);
        self.ask_for(change, &[node], version);
    }
}

fn standing_in_words(place: &Place, standing: &MemberStanding) -> String {
    match standing {
        _ if !place.is_up => "is down".into(),
        MemberStanding { is_following: false, .. } => "is still sent what it lacks".into(),
        MemberStanding { lag, .. } => format!("has not confirmed {lag} turns"),
    }
}
