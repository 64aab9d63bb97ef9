//! Destinations of an exchange that gives each message to one of them: in the order of their names, each as often as it is
//! bound (as in RabbitMQ 4.3, where a second binding makes a destination twice as likely).
//!
//! Refuses to know how the one is chosen.

use std::cmp::Ordering;

use crate::line::Line;
use crate::targets::Targets;
use crate::{Destination, ExchangeNode, QueueHandle};

#[derive(Clone)]
pub(super) struct Pool<Q: QueueHandle> {
    /// Of one destination each, as a lookup gives it out.
    members: Line<Targets<Q>>,
}

impl<Q: QueueHandle> Default for Pool<Q> {
    fn default() -> Self {
        Self { members: Line::default() }
    }
}

/// As Erlang sorts names of resources: exchanges before queues, then by name.
fn order<Q: QueueHandle>(member: &Targets<Q>, other: &Destination<Q>) -> Ordering {
    let queue = member.queues().as_slice().and_then(<[Q]>::first);
    let exchange = || member.exchanges().and_then(|exchanges| exchanges.iter().next());
    match (queue, other) {
        (Some(queue), Destination::Queue(other)) => queue.cmp_names(other),
        (Some(_), Destination::Exchange(_)) => Ordering::Greater,
        (None, Destination::Queue(_)) => Ordering::Less,
        (None, Destination::Exchange(other)) => {
            exchange().map(|exchange| exchange.name()).cmp(&Some(other.name()))
        }
    }
}

impl<Q: QueueHandle> Pool<Q> {
    pub(super) const fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Number of bindings.
    pub(super) fn len(&self) -> u64 {
        self.members.sum()
    }

    /// Where the binding at that place leads, if the place is below [`Pool::len`].
    #[inline]
    pub(super) fn pick(&self, place: u64) -> Option<&Targets<Q>> {
        self.members.pick(place)
    }

    pub(super) fn add(&mut self, destination: &Destination<Q>) {
        let seek = |member: &Targets<Q>| order(member, destination);
        if self.members.find(seek).is_some() {
            self.members.change(seek, |_, weight| *weight += 1);
        } else {
            self.members.insert(Targets::only(destination), 1, seek);
        }
    }

    /// Takes one binding away; says whether there was one.
    pub(super) fn remove(&mut self, destination: &Destination<Q>) -> bool {
        let seek = |member: &Targets<Q>| order(member, destination);
        match self.members.find(seek) {
            None => return false,
            Some((_, 1, _)) => drop(self.members.remove(seek)),
            Some(_) => drop(self.members.change(seek, |_, weight| *weight -= 1)),
        }
        true
    }
}
