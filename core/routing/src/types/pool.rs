//! Destinations of an exchange that gives each message to one of them: in the order of their names, each as often as it is
//! bound (as in RabbitMQ 4.3, where a second binding makes a destination twice as likely).
//!
//! Refuses to know how the one is chosen.

use std::cmp::Ordering;

use crate::line::Line;
use crate::targets::Targets;
use crate::{Destination, QueueHandle};

/// A destination on its own, and as what a lookup gives out.
#[derive(Clone)]
struct Member<Q: QueueHandle> {
    destination: Destination<Q>,
    targets: Targets<Q>,
}

#[derive(Clone)]
pub(super) struct Pool<Q: QueueHandle> {
    members: Line<Member<Q>>,
}

impl<Q: QueueHandle> Default for Pool<Q> {
    fn default() -> Self {
        Self { members: Line::default() }
    }
}

/// As Erlang sorts names of resources: exchanges before queues, then by name.
fn order<Q: QueueHandle>(one: &Destination<Q>, other: &Destination<Q>) -> Ordering {
    match (one, other) {
        (Destination::Exchange(one), Destination::Exchange(other)) => one.name.cmp(&other.name),
        (Destination::Exchange(_), Destination::Queue(_)) => Ordering::Less,
        (Destination::Queue(_), Destination::Exchange(_)) => Ordering::Greater,
        (Destination::Queue(one), Destination::Queue(other)) => one.cmp_names(other),
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
        self.members.pick(place).map(|member| &member.targets)
    }

    pub(super) fn add(&mut self, destination: &Destination<Q>) {
        let seek = |member: &Member<Q>| order(&member.destination, destination);
        if self.members.find(seek).is_some() {
            self.members.change(seek, |_, weight| *weight += 1);
        } else {
            let targets = Targets::only(destination);
            self.members.insert(Member { destination: destination.clone(), targets }, 1, seek);
        }
    }

    /// Takes one binding away; says whether there was one.
    pub(super) fn remove(&mut self, destination: &Destination<Q>) -> bool {
        let seek = |member: &Member<Q>| order(&member.destination, destination);
        match self.members.find(seek) {
            None => return false,
            Some((_, 1, _)) => drop(self.members.remove(seek)),
            Some(_) => drop(self.members.change(seek, |_, weight| *weight -= 1)),
        }
        true
    }
}
