//! The members of a queue as people see them, and what operators change about them.

use std::sync::Arc;

use metadata::{ReplicaChange, Replicas};

use crate::cell::Queue;

/// What the leader of a queue knows of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberStanding {
    /// Its number.
    pub node: u16,
    /// Turns of the leader that it has not confirmed to have on its disk. 0 of the leader itself.
    pub lag: u64,
    /// Whether it gets every record as it is logged. One that does not is away, or is sent what it lacks.
    pub is_following: bool,
}

impl Queue {
    /// The nodes that have the queue, and who leads; `None` for a queue that only one node has.
    #[must_use]
    pub fn replicas(&self) -> Option<Arc<Replicas>> {
        self.replica.get().map(|replica| replica.known())
    }

    /// What this node knows of all members as their leader; empty when another node leads.
    #[must_use]
    pub fn members(&self) -> Vec<MemberStanding> {
        let Some(replica) = self.replica.get() else { return Vec::new() };
        let held = replica.leading.lock();
        let Some(leading) = held.as_ref() else { return Vec::new() };
        let of = |node: &u16| match leading.lag(*node) {
            Some((lag, is_following)) => MemberStanding { node: *node, lag, is_following },
            None => MemberStanding { node: *node, lag: 0, is_following: true },
        };
        leading.known().members.iter().map(of).collect()
    }

    /// How many turns with changes the queue had under its present leader, which is this node; 0 elsewhere.
    #[must_use]
    pub fn leader_turn(&self) -> u64 {
        let Some(replica) = self.replica.get() else { return 0 };
        replica.leading.lock().as_ref().map_or(0, |leading| leading.turn())
    }

    /// Asks for a change of the members: [`ReplicaChange::Add`], [`ReplicaChange::Remove`] or [`ReplicaChange::Lead`]. The change is visible in
    /// [`Queue::replicas`] when it has happened. It never does when somebody else changed the members at the same time, or when it is not
    /// possible: a node that is not in sync does not lead, and the only node that is does not go.
    pub fn change_member(&self, change: ReplicaChange, node: u16) {
        let version = self.replicas().map_or(0, |replicas| replicas.version);
        self.ask_for(change, &[node], version);
    }
}
