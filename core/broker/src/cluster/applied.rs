//! Answers that wait for all nodes: a change is answered when every node that serves clients has it in its tables, so that a client that has the
//! answer finds the object on any node. A node that proposes is told by the others how far they are.

use std::collections::BTreeSet;

use bytes::{BufMut, Bytes, BytesMut};

use super::driver::Driver;
use super::frames::{self, Fields};
use super::machine::Machine;
use super::name::NodeName;
use super::peers::Lane;

impl Driver {
    /// The broker's tables have followed the entries up to this one, which these nodes have proposed.
    pub(super) fn followed(&mut self, index: u64, proposers: &BTreeSet<u16>) {
        self.progress.own = index;
        let own = self.own();
        for node in proposers.iter().filter(|node| **node != own) {
            if let Some((name, ..)) = self.nodes.get(node).cloned() {
                self.tell_applied(&name);
            }
        }
        self.answer_what_is_everywhere();
    }

    /// Tells another node how far this one is. A frame that is lost is made good by the next description of this node.
    pub(super) fn tell_applied(&self, name: &NodeName) {
        let speaks = self.linked.get(name).is_some_and(|linked| {
            self.peers.own().versions.common(linked.identity.versions) >= Some(frames::APPLIED_SINCE)
        });
        if speaks && matches!(self.machine, Machine::Broker(_)) {
            let mut payload = BytesMut::new();
            payload.put_u64(self.progress.own);
            self.send(name, Lane::Control, frames::APPLIED, payload.freeze());
        }
    }

    /// This node serves clients from now on, or has got another state: its tables have all that was handed out.
    pub(super) fn serves(&mut self) {
        self.progress.own = self.replica.as_ref().map_or(0, |replica| replica.group.applied().0);
        self.linked.keys().for_each(|name| self.tell_applied(name));
    }

    /// Another node reports.
    pub(super) fn heard_applied(&mut self, from: &NodeName, payload: Bytes) -> Option<()> {
        let mut fields = Fields(payload);
        let index = fields.u64().and_then(|index| fields.end(index))?;
        self.progress.reached(from, index);
        self.answer_what_is_everywhere();
        Some(())
    }

    /// Another node's description says how far it is. Nodes that do not serve clients are not waited for.
    pub(super) fn described_applied(&mut self, from: &NodeName, index: u64) {
        if self.progress.others.contains_key(from) {
            self.progress.reached(from, index);
            self.answer_what_is_everywhere();
        }
    }

    /// A node whose link has ended is not waited for.
    pub(super) fn applied_without(&mut self, name: &NodeName) {
        self.progress.others.remove(name);
        self.answer_what_is_everywhere();
    }

    fn answer_what_is_everywhere(&self) {
        if let Machine::Broker(inner) = &self.machine
            && let Some(inner) = inner.upgrade()
        {
            inner.committing.reached(self.progress.everywhere());
        }
    }
}
