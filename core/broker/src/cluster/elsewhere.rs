//! Queues whose messages another node has, as they look on this one: a row in the tables, and an empty cell for what only looks.

use std::sync::Arc;

use super::far::{Far, origin};
use super::name::NodeName;
use crate::Principal;
use crate::cell::{Event, Queue};
use crate::refused::Refused;

impl Queue {
    /// An event for a queue that lives on another node.
    pub(crate) fn submit_elsewhere(self: &Arc<Self>, mut event: Event) {
        if let (Event::Publish(handover), Some(replica)) = (&mut event, self.replica.get()) {
            // As long as it is not answered it has this name, under any leader.
            handover.id.get_or_insert_with(|| replica.next_id());
        }
        match event {
            Event::Publish(_)
            | Event::Get(..)
            | Event::Purge(..)
            | Event::Counts(_)
            | Event::Stats(_)
            | Event::Delete { .. }
            | Event::Consume(..)
            | Event::Cancel(..)
            | Event::Settle(..)
            | Event::Resume(_)
            | Event::Credit(..)
            | Event::Touch => match self.home() {
                Some(far) => far.submit(self, event),
                None if self.is_replicated() => self.hold_for_leader(event),
                None => origin::refuse(self, event),
            },
            // Its home decides when it goes.
            // A queue of another node gets the settlement without its annotations.
            Event::Annotate(..) => {}
            Event::Tick if !self.is_replicated() => {}
            other => self.submit_here(std::iter::once(other)),
        }
    }

    /// The node that has its messages, or leads those that have.
    pub fn home_node(&self) -> u16 {
        self.replica.get().map_or(self.record.home, |replica| replica.leader())
    }

    /// The node that has its messages, and whether it can be asked; `None` for this node.
    #[must_use]
    pub fn home_elsewhere(&self) -> Option<(NodeName, bool)> {
        let cluster = self.services().cluster.as_ref().filter(|_| self.is_elsewhere())?;
        let view = cluster.view();
        let name = view.member(self.home_node())?.name.clone();
        let is_up = cluster.fars().get(&name).is_some();
        Some((name, is_up))
    }

    /// The link to its home.
    fn home(&self) -> Option<Arc<Far>> {
        let cluster = self.services().cluster.as_ref()?;
        let view = cluster.view();
        cluster.fars().get(&view.member(self.home_node())?.name)
    }

    /// Whether somebody leads it whom this node can reach.
    pub(crate) fn can_reach_leader(&self) -> bool {
        !self.is_elsewhere() || self.home().is_some()
    }

    /// An event for the present leader of the queue.
    #[inline]
    pub(crate) fn submit_to_leader(self: &Arc<Self>, event: Event) {
        if self.is_elsewhere() {
            return self.submit_elsewhere(event);
        }
        if let Event::Publish(handover) = &event {
            self.count_incoming(handover);
        }
        self.submit_here_one(event);
    }

    /// Why it cannot be used now.
    pub(crate) fn home_down(&self) -> Refused {
        let name = self.services().cluster.as_ref().and_then(|cluster| {
            let view = cluster.view();
            view.member(self.home_node()).map(|member| member.name.as_str().into())
        });
        Refused::HomeDown { resource: self.resource(), node: name.unwrap_or_else(|| "unknown".into()) }
    }
}

impl Principal {
    /// A queue whose home can be asked.
    pub(crate) fn check_home(&self, queue: &Queue) -> Result<(), Refused> {
        if queue.is_elsewhere() && queue.home().is_none() && !queue.is_replicated() {
            Err(queue.home_down())
        } else {
            Ok(())
        }
    }
}
