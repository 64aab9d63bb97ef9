//! Nodes of different releases in one cluster: what all members understand, and the refusal of what some would not.

use metadata::Entry;

use super::driver::Driver;
use super::machine::Machine;
use super::name::NodeName;
use crate::broker::Told;
use crate::refused::Refused;

impl Driver {
    /// The newest version of what nodes say to each other that all members speak, and a member that speaks no newer one. A member that has not
    /// been linked since this node started counts as the oldest one that this node can speak with.
    fn spoken_by_all(&self) -> (u16, Option<NodeName>) {
        let own = self.peers.own().versions;
        let mut least = (own.max, None);
        for (number, (name, data, ..)) in &self.nodes {
            let newest = self.versions.get(data).map_or(own.min, |versions| versions.max);
            if *number != self.own() && newest < least.0 {
                least = (newest, Some(name.clone()));
            }
        }
        least
    }

    /// Takes a proposal of this node, unless a member would not understand it.
    pub(super) fn take_proposal(&mut self, entry: Option<Entry>, told: Told) {
        let needed = entry.as_ref().map_or(0, |entry| entry.command.since());
        // Every member that can be linked speaks the oldest version that this node speaks.
        if needed > self.peers.own().versions.min
            && let (spoken, Some(older)) = self.spoken_by_all()
            && needed > spoken
            && let Machine::Broker(inner) = &self.machine
            && let Some(inner) = inner.upgrade()
        {
            let text = format!(
                "node '{older}' of the cluster is older and does not know this, or was not seen yet: start and upgrade all nodes first"
            );
            return told(&inner, Err(Refused::Storage(text.into())));
        }
        self.outgoing.add(entry, told, self.foundation.clock.now());
    }

    /// Why a node may not join: the members may have written what it does not understand.
    pub(super) fn too_old_to_join(&self, name: &NodeName) -> Option<String> {
        let theirs = self.linked.get(name)?.identity.versions.max;
        let (spoken, _) = self.spoken_by_all();
        (theirs < spoken).then(|| {
            format!(
                "node {name} is older than all members: it speaks version {theirs} of what nodes say to each other, they speak {spoken}. Upgrade it"
            )
        })
    }
}
