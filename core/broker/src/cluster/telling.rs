//! The thread of the metadata group tells the other nodes how many clients there are of what has limits, and hears it from them.

use bytes::Bytes;

use super::counted::{self, Counted};
use super::driver::Driver;
use super::frames::{self, Fields};
use super::machine::Machine;
use super::name::NodeName;
use super::peers::Lane;
use crate::broker::Inner;

/// Entries of a frame.
const ENTRIES_MAX: usize = 1000;

/// Everything of this node that has a limit.
fn limited(inner: &Inner) -> Vec<Counted> {
    let vhosts: Vec<Counted> = inner.vhosts.read().values().filter_map(|vhost| vhost.counted()).collect();
    let users = inner.users.read();
    let of_users = users.values().flat_map(|user| [user.counted(), user.counted_channels()]).flatten();
    vhosts.into_iter().chain(of_users).collect()
}

impl Driver {
    /// Tells the other nodes what has changed.
    pub(super) fn tell_counted(&mut self) {
        let untold = self.untold.take();
        if !untold.is_empty() {
            self.linked.keys().for_each(|name| self.tell_counts(name, &untold));
        }
    }

    /// Tells a node all that it has to know, after a link has come up.
    pub(super) fn tell_all_counted(&self, name: &NodeName) {
        if let Machine::Broker(inner) = &self.machine
            && let Some(inner) = inner.upgrade()
        {
            self.tell_counts(name, &limited(&inner));
        }
    }

    fn tell_counts(&self, name: &NodeName, clients: &[Counted]) {
        let speaks = self.linked.get(name).is_some_and(|linked| {
            self.peers.own().versions.common(linked.identity.versions) >= Some(frames::COUNTED_SINCE)
        });
        for some in clients.chunks(ENTRIES_MAX).filter(|_| speaks) {
            self.send(name, Lane::Control, frames::COUNTED, counted::encode(some));
        }
    }

    /// Another node tells.
    pub(super) fn heard_counts(&self, from: &NodeName, payload: Bytes) -> Option<()> {
        let mut fields = Fields(payload);
        while !fields.0.is_empty() {
            let (kind, count, name) = (fields.u8()?, fields.u64()?, fields.run()?);
            let name = std::str::from_utf8(&name).ok()?.into();
            self.shared.elsewhere.heard(from, (kind, name), count);
        }
        Some(())
    }

    /// Clients of a node whose link has ended do not count.
    pub(super) fn counted_without(&self, name: &NodeName) {
        self.shared.elsewhere.forget(name);
    }
}
