//! How a member leaves: it takes part without a broker until the leader has taken it out of the group and then out of the metadata. And how
//! a member goes on without the others, which are gone for good.

use bytes::Bytes;
use metadata::{Applied, ClusterStep, ForgetNode, State};
use multiraft::{Change, ReplicaId, entry_body};

use super::driver::Driver;
use super::frames::{ClusterId, Welcome};
use super::name::NodeName;
use super::node::Purpose;
use super::peers::Lane;
use super::replica::Replica;
use super::{frames, member, replica};
use crate::open_errors::StartError;

impl Driver {
    /// Asks to be let go. A leader hands that over first.
    pub(super) fn ask_to_leave(&mut self, is_time: bool) {
        if self.purpose != Purpose::Leave || self.replica.is_none() {
            return;
        }
        let own = self.own();
        if self.nodes.keys().all(|number| *number == own) {
            return self.shared.leave();
        }
        if self.replica.as_ref().is_some_and(Replica::leads) {
            let others =
                self.nodes.iter().filter(|(number, node)| **number != own && self.is_linked(&node.0));
            let next = others.map(|(number, _)| ReplicaId((*number).into())).next();
            if let (true, Some(next), Some(replica)) = (is_time, next, &mut self.replica) {
                replica.group.transfer(next);
            }
            return;
        }
        for name in self.linked.keys() {
            self.send(name, Lane::Control, frames::LEAVE, Bytes::new());
        }
    }

    /// The leader takes a member out of the group, then out of the metadata, then tells it.
    pub(super) fn asked_for_leave(&mut self, from: &NodeName) {
        let standing = self.linked.get(from).and_then(|linked| linked.standing.member);
        let Some((cluster, number)) = standing else { return };
        let is_ours = self.member.as_ref().is_some_and(|member| member.cluster == cluster);
        let is_member = self.is_member(from, number);
        let Some(replica) = self.replica.as_mut().filter(|replica| replica.knows_all()) else { return };
        if !is_ours {
            return;
        }
        if replica.group.members().contains(ReplicaId(number.into())) {
            if is_member {
                self.leaving.insert(number);
            }
            if let Err(refused) = replica.group.change_members(&[Change::Remove(ReplicaId(number.into()))]) {
                tracing::debug!(%refused, "a member that leaves has to wait");
            }
        } else if is_member {
            self.propose_step(&ClusterStep::ForgetNode(ForgetNode { node: number }));
        } else {
            tracing::info!(node = %from, "the node has left the cluster");
            self.leaving.remove(&number);
            self.left.insert(from.clone());
            self.send(from, Lane::Control, frames::LEFT, Bytes::new());
        }
    }

    /// The node's replica becomes the only one, of a cluster with another identity: the others are never to take part again.
    ///
    /// # Errors
    /// The disk refuses.
    pub(super) fn go_on_alone(
        &self,
        member: &Welcome,
        old: Replica,
        mut state: State,
    ) -> Result<(Welcome, Replica, State), StartError> {
        apply_rest(&old, &mut state)?;
        old.log.close().map_err(StartError::storage)?;
        drop(old);
        let mut id = [0; 16];
        self.foundation.random.fill(&mut id);
        let alone = Welcome { cluster: ClusterId(id), ..member.clone() };
        let replica = replica::alone(self, &alone, &state)?;
        member::write(&*self.foundation.disk, &self.data_dir, &alone)?;
        tracing::warn!("this node goes on without the other members, as `force_boot` has asked for");
        Ok((alone, replica, state))
    }
}

/// Entries of the log beyond the commit index may have been answered: nobody else can tell any more.
fn apply_rest(replica: &Replica, state: &mut State) -> Result<(), StartError> {
    let mut ignored = Applied::default();
    for index in replica.group.applied().0 + 1..=replica.group.heads().last_index() {
        let (Some(head), Some(place)) = (replica.group.heads().get(index), replica.group.place(index)) else {
            break;
        };
        let range = replica.log.read_range(place.first, place.bytes).map_err(StartError::storage)?;
        let Some(record) = range.records.first().map(|record| record.payload.clone()) else { break };
        let body = entry_body(&Bytes::from(range.bytes).slice(record), head).map_err(StartError::metadata)?;
        if head.kind != multiraft::EntryKind::Parts {
            continue;
        }
        for step in ClusterStep::decode_all(&body).map_err(StartError::metadata)? {
            state.step(&step, &mut ignored);
            ignored.clear();
        }
    }
    Ok(())
}
