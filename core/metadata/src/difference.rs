//! Changes that the runtime tables have to follow when another state takes the place of one: a node that was away for long gets the state of
//! the others instead of all that happened.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::changes::Change;
use crate::command::{Bind, Name};
use crate::policies::PolicyKind;
use crate::records::{Binding, VhostName};
use crate::state::State;
use crate::vhost::Vhost;

impl State {
    /// The changes that lead from this state to another, in an order in which they can be followed. Queues and exchanges are the same when
    /// their identifiers are.
    #[must_use]
    pub fn changes_to(&self, new: &State) -> Vec<Change> {
        let mut changes = Vec::new();
        for vhost in self.vhosts() {
            leave(vhost, new.vhost(vhost.name()), &mut changes);
        }
        for vhost in new.vhosts() {
            arrive(self.vhost(vhost.name()), vhost, &mut changes);
        }
        for (name, _) in self.users().filter(|(name, _)| new.user(name).is_none()) {
            changes.push(Change::UserDeleted(name.clone()));
        }
        for (name, _) in new.users().filter(|(name, user)| self.user(name) != Some(*user)) {
            changes.push(Change::UserChanged(name.clone()));
        }
        for (queue, replicas) in new.nodes.iter().flat_map(|nodes| &nodes.replicas) {
            if self.replicas(*queue) != Some(replicas) {
                changes.push(Change::ReplicasChanged { queue: *queue, replicas: replicas.clone() });
            }
        }
        let known: BTreeMap<_, _> = self.global_parameters().collect();
        let wanted: BTreeMap<_, _> = new.global_parameters().collect();
        for name in differences(&known, &wanted) {
            changes.push(Change::GlobalParameterChanged { name: (*name).into() });
        }
        changes
    }
}

/// The keys whose values are not the same in both.
fn differences<'m, K: Ord, V: PartialEq>(
    one: &'m BTreeMap<K, V>,
    other: &'m BTreeMap<K, V>,
) -> BTreeSet<&'m K> {
    one.keys().chain(other.keys()).filter(|key| one.get(key) != other.get(key)).collect()
}

/// The identity of a binding: its ends as they are now, key and arguments.
fn identity(binding: &Binding) -> (u64, u64, Vec<u8>) {
    let destination = match &binding.destination {
        crate::Destination::Queue(queue) => queue.id.0,
        crate::Destination::Exchange(exchange) => exchange.id.0,
    };
    let Bind { key, arguments, .. } = binding.to_bind();
    let mut rest = Vec::new();
    crate::codec::put_run(&key, &mut rest);
    rest.extend_from_slice(arguments.raw());
    (binding.source.id.0, destination, rest)
}

/// Things that leave a vhost.
fn leave(old: &Vhost, new: Option<&Vhost>, changes: &mut Vec<Change>) {
    let kept: BTreeSet<_> =
        new.iter().flat_map(|vhost| vhost.bindings_unsorted()).map(|binding| identity(binding)).collect();
    let gone = old.bindings_in_order_made().into_iter().filter(|binding| !kept.contains(&identity(binding)));
    changes.extend(gone.cloned().map(Change::BindingRemoved));
    for queue in old.queues() {
        if new.and_then(|vhost| vhost.queue(&queue.name)).is_none_or(|same| same.id != queue.id) {
            changes.push(Change::QueueDeleted(Arc::clone(queue)));
        }
    }
    for exchange in old.exchanges() {
        if new.and_then(|vhost| vhost.exchange(&exchange.name)).is_none_or(|same| same.id != exchange.id) {
            changes.push(Change::ExchangeDeleted(Arc::clone(exchange)));
        }
    }
    if new.is_none() {
        changes.push(Change::VhostDeleted(old.name().clone()));
    }
}

/// Things that a vhost gains, or that change in it.
fn arrive(old: Option<&Vhost>, new: &Vhost, changes: &mut Vec<Change>) {
    let name: VhostName = new.name().clone();
    match old {
        None => changes.push(Change::VhostAdded(name.clone())),
        Some(old) if old.metadata() != new.metadata() || old.limits() != new.limits() => {
            changes.push(Change::VhostChanged(name.clone()));
        }
        Some(_) => {}
    }
    let vhost: Name = name.as_ref().into();
    for exchange in new.exchanges() {
        if old.and_then(|vhost| vhost.exchange(&exchange.name)).is_none_or(|same| same.id != exchange.id) {
            changes.push(Change::ExchangeAdded(Arc::clone(exchange)));
        }
    }
    for queue in new.queues() {
        match old.and_then(|vhost| vhost.queue(&queue.name)).filter(|same| same.id == queue.id) {
            None => changes.push(Change::QueueAdded(Arc::clone(queue))),
            Some(same) if same.arguments != queue.arguments => {
                changes.push(Change::QueueChanged(Arc::clone(queue)));
            }
            Some(_) => {}
        }
    }
    let had: BTreeSet<_> =
        old.iter().flat_map(|vhost| vhost.bindings_unsorted()).map(|binding| identity(binding)).collect();
    let come = new.bindings_in_order_made().into_iter().filter(|binding| !had.contains(&identity(binding)));
    changes.extend(come.cloned().map(Change::BindingAdded));
    let parameters = |vhost: Option<&Vhost>| -> BTreeMap<(Box<str>, Box<str>), Box<str>> {
        let all = vhost.into_iter().flat_map(Vhost::parameters);
        all.map(|(key, value)| (key.clone(), value.into())).collect()
    };
    let (known, wanted) = (parameters(old), parameters(Some(new)));
    for (component, name) in differences(&known, &wanted) {
        let (component, name) = (component.clone(), name.clone());
        changes.push(Change::ParameterChanged { vhost: vhost.clone(), component, name });
    }
    for kind in [PolicyKind::User, PolicyKind::Operator] {
        let known: BTreeMap<_, _> = old.into_iter().flat_map(|vhost| vhost.policies(kind)).collect();
        let wanted: BTreeMap<_, _> = new.policies(kind).collect();
        for name in differences(&known, &wanted) {
            changes.push(Change::PolicyChanged { kind, vhost: vhost.clone(), name: (*name).into() });
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::command::{Command, SetQueueExpiry};
    use crate::testing::histories::commands;
    use crate::testing::{Machine, name, queue};

    /// Names of what is there after all changes, as tables would have it that follow them.
    fn follow(state: &State, changes: &[Change], new: &State) -> BTreeSet<String> {
        let mut there = names(state);
        for change in changes {
            match change {
                Change::QueueAdded(queue) => assert!(there.insert(format!("queue {}", queue.id.0))),
                Change::QueueDeleted(queue) => assert!(there.remove(&format!("queue {}", queue.id.0))),
                Change::ExchangeAdded(exchange) => {
                    assert!(there.insert(format!("exchange {}", exchange.id.0)));
                }
                Change::ExchangeDeleted(exchange) => {
                    assert!(there.remove(&format!("exchange {}", exchange.id.0)));
                }
                Change::BindingAdded(binding) => {
                    assert!(there.insert(format!("binding {:?}", identity(binding))));
                }
                Change::BindingRemoved(binding) => {
                    assert!(there.remove(&format!("binding {:?}", identity(binding))));
                }
                Change::VhostAdded(name) => assert!(there.insert(format!("vhost {name:?}"))),
                Change::VhostDeleted(name) => assert!(there.remove(&format!("vhost {name:?}"))),
                Change::UserDeleted(name) => assert!(there.remove(&format!("user {name:?}"))),
                Change::UserChanged(name) => {
                    assert!(new.user(name).is_some());
                    there.insert(format!("user {name:?}"));
                }
                _ => {}
            }
        }
        there
    }

    fn names(state: &State) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        for vhost in state.vhosts() {
            names.insert(format!("vhost {:?}", vhost.name()));
            names.extend(vhost.queues().into_iter().map(|queue| format!("queue {}", queue.id.0)));
            names.extend(vhost.exchanges().into_iter().map(|exchange| format!("exchange {}", exchange.id.0)));
            names.extend(vhost.bindings().into_iter().map(|it| format!("binding {:?}", identity(it))));
        }
        names.extend(state.users().map(|(name, _)| format!("user {name:?}")));
        names
    }

    #[test]
    fn a_queue_with_another_expiry_is_the_same_queue_changed() {
        let (mut one, mut other) = (Machine::with_vhost("/"), Machine::with_vhost("/"));
        for machine in [&mut one, &mut other] {
            machine.ok(&queue("q"));
        }
        let id = one.state.vhost(b"/").unwrap().queue(b"q").unwrap().id;
        let (vhost, name, expires_ms) = (name("/"), name("q"), Some(7));
        other.ok(&Command::SetQueueExpiry(SetQueueExpiry { vhost, name, id, expires_ms }));
        let changed = other.state.vhost(b"/").unwrap().queue(b"q").unwrap().clone();
        assert_eq!(one.state.changes_to(&other.state), [Change::QueueChanged(changed)]);
    }

    proptest! {
        #[test]
        fn the_changes_between_two_states_make_the_later_one(
            history in proptest::collection::vec(commands(), 0..60),
            at in 0usize..60,
        ) {
            let (mut one, mut other) = (Machine::new(), Machine::new());
            for (nth, command) in history.iter().enumerate() {
                let _refused = other.state.apply(command, &mut other.applied);
                if nth < at {
                    let _refused = one.state.apply(command, &mut one.applied);
                }
            }
            let changes = one.state.changes_to(&other.state);
            prop_assert_eq!(follow(&one.state, &changes, &other.state), names(&other.state));
            prop_assert!(other.state.changes_to(&other.state).is_empty());
        }
    }
}
