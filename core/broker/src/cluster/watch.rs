//! Nodes that are there: the leader of the metadata notes nodes that it does not see, and queues are told of links, and of whether this node is
//! seen itself.

use std::collections::{BTreeMap, BTreeSet};

use metadata::{ClusterStep, NodeSeen, State};
use multiraft::ReplicaId;
use platform::Monotonic;

use super::driver::Driver;
use super::machine::Machine;
use super::name::NodeName;
use super::node::Event;
use super::reconciling::{MOVES_MAX, Reconciling, wanted};
use super::replica::Replica;
use super::trust::LEADERLESS_NS;

/// A node whose link has ended is noted as down after so long: its queues get other leaders then.
const DOWN_AFTER_NS: u64 = 100_000_000;
/// Queues look at their members so often.
const LOOK_NS: u64 = 500_000_000;

/// Other nodes, as the thread of the metadata knows them.
#[derive(Default)]
pub(super) struct Watch {
    /// Nodes that are noted as down.
    pub(super) down: BTreeSet<u16>,
    /// Since when nodes are not linked.
    missing: BTreeMap<u16, Monotonic>,
    next_look: Monotonic,
    /// When members follow the nodes.
    pub(super) reconciling: Reconciling,
}

/// The nodes that a state has as down.
pub(super) fn down(state: &State) -> BTreeSet<u16> {
    state.nodes().map(|(number, _)| number).filter(|number| state.is_node_down(*number)).collect()
}

impl Driver {
    /// The leader of the metadata notes the nodes that are there and those that are not.
    pub(super) fn watch_nodes(&mut self) {
        let now = self.now();
        let own = self.own();
        let mut steps = Vec::new();
        let nodes: Vec<_> =
            self.nodes.iter().map(|(number, node)| (*number, node.0.clone(), node.2)).collect();
        for (node, name, life) in nodes {
            if node == own || self.is_linked(&name) {
                self.watch.missing.remove(&node);
                if self.watch.down.contains(&node) {
                    steps.push(ClusterStep::NodeSeen(NodeSeen { node, life, is_up: true }));
                }
                continue;
            }
            let since = self.watch.missing.entry(node).or_insert(now).0;
            if now.0 >= since + DOWN_AFTER_NS && !self.watch.down.contains(&node) {
                steps.push(ClusterStep::NodeSeen(NodeSeen { node, life, is_up: false }));
            }
        }
        if self.replica.as_ref().is_some_and(Replica::leads) {
            steps.iter().for_each(|step| self.propose_step(step));
        }
        self.look_at_queues(now);
    }

    fn look_at_queues(&mut self, now: Monotonic) {
        if now < self.watch.next_look {
            return;
        }
        self.watch.next_look = Monotonic(now.0 + LOOK_NS);
        let Machine::Broker(inner) = &self.machine else { return };
        let Some(inner) = inner.upgrade() else { return };
        let now_ms = inner.services.now_ms();
        self.shared.fars.replicated().iter().for_each(|queue| queue.look_at_members(now_ms));
        drop(inner);
        self.reconcile();
    }

    /// Members of queues that this node leads follow the nodes of the cluster, if it is time.
    fn reconcile(&mut self) {
        let Machine::Broker(inner) = &self.machine else { return };
        let Some(inner) = inner.upgrade() else { return };
        let (rules, Some(cluster)) = (&inner.options.reconciliation, &inner.services.cluster) else { return };
        let (view, now_ms) = (cluster.view(), inner.services.now_ms());
        let nodes = view.members.iter().map(|member| member.number).collect();
        let has_news = self.shared.fars.take_policies();
        if !rules.enabled || !self.watch.reconciling.is_due(rules, nodes, has_news, now_ms) {
            return;
        }
        let vhosts: Vec<_> = inner.vhosts.read().values().cloned().collect();
        let (wanted, do_fill) = wanted(vhosts.iter().flat_map(|vhost| vhost.queues()), &view, rules);
        for (queue, change, node) in wanted.iter().take(MOVES_MAX) {
            let name = String::from_utf8_lossy(queue.name());
            tracing::info!(queue = %name, vhost = queue.vhost_name(), node, ?change, "a member of a quorum queue follows the cluster");
            queue.change_member(*change, *node);
        }
        self.watch.reconciling.looked(rules, do_fill || !wanted.is_empty(), now_ms);
    }

    /// A link has come or gone: queues that are on both nodes are told.
    pub(super) fn tell_queues(&self, name: &NodeName, is_linked: bool) {
        let Some(node) = self.number_of(name) else { return };
        for queue in self.shared.fars.replicated() {
            if is_linked { queue.node_linked(node) } else { queue.node_left(node) }
        }
    }
}

impl Driver {
    /// At the start of a turn: queues are told when it has changed.
    pub(super) fn look_at_trust(&mut self) {
        let is_reached = self.is_with_majority() && !self.is_leaderless();
        if !is_reached {
            (self.trust.is_asked, self.trust.is_heard) = (false, false);
        } else if !self.trust.is_asked {
            self.ask_whether_it_is_there();
        }
        let is_trusted = self.trust.is_heard && !self.watch.down.contains(&self.own());
        if !self.shared.fars.trust(is_trusted) {
            return;
        }
        match is_trusted {
            true => tracing::info!(
                "quorum queues that this node leads deliver: a majority of the cluster sees it"
            ),
            false => tracing::warn!(
                "quorum queues that this node leads deliver nothing until a majority of the cluster sees it: other nodes may lead them by now"
            ),
        }
    }

    fn ask_whether_it_is_there(&mut self) {
        // Nobody is told of answers before there is a broker.
        if self.shared.life().is_none() || !matches!(self.machine, Machine::Broker(_)) {
            return;
        }
        self.trust.question += 1;
        self.trust.is_asked = true;
        let (question, shared) = (self.trust.question, self.shared.clone());
        let told = move |_: &_, answer: Result<_, _>| shared.add(Event::Heard(question, answer.is_ok()));
        self.outgoing.add(None, Box::new(told), self.foundation.clock.now());
    }

    /// Whether this node is linked with a majority of those that vote, itself included.
    fn is_with_majority(&self) -> bool {
        let Some(replica) = &self.replica else { return false };
        let voters = &replica.group.members().voters;
        let own = self.own();
        let is_there = |number: &u16, name| *number == own || self.is_linked(name);
        let there = self.nodes.iter().filter(|(number, node)| {
            voters.contains(&ReplicaId((**number).into())) && is_there(number, &node.0)
        });
        there.count() * 2 > voters.len()
    }

    fn is_leaderless(&mut self) -> bool {
        let has_leader = self.replica.as_ref().map(Replica::leader).is_some_and(|it| it != ReplicaId::NONE);
        if has_leader {
            self.trust.leaderless_since = None;
            return false;
        }
        let now = self.now();
        now.0 >= self.trust.leaderless_since.get_or_insert(now).0 + LEADERLESS_NS
    }
}
