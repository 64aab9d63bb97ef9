//! Changes of the nodes that have quorum queues, as operators ask for them. Refuses to know how they ask, and how members agree.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use broker::cluster::Cluster;
use broker::{Broker, Kind, Queue};
use metadata::{REPLICAS_MAX, ReplicaChange, Replicas};
use regex::Regex;

use crate::resources::members;
use crate::resources::node::described::{self, Described};
use crate::resources::node::{NODE_NAME, Node, asking};

/// How long a change may take.
const CHANGE_TIMEOUT: Duration = Duration::from_secs(5);
/// A change that another one has overtaken is asked for again after so long.
const ASK_AGAIN: Duration = Duration::from_millis(500);
/// How long it is until the members are looked at again.
const LOOK_AGAIN: Duration = Duration::from_millis(5);
/// Queues that change at the same time.
const BATCH: usize = 256;

/// RabbitMQ's words for a node that is not up, and for a queue that would have no member left.
pub(crate) const NODE_NOT_RUNNING: &str = "node_not_running";
pub(crate) const LAST_NODE: &str = "last_node";
/// The refusal, in Warren's words.
pub(crate) const TOO_MANY: &str = "too_many_members";
pub(crate) const NOT_A_MEMBER: &str = "not_a_member";
pub(crate) const NOT_IN_SYNC: &str = "not_in_sync";
pub(crate) const ALREADY_LEADER: &str = "already_leader";
pub(crate) const TIMEOUT: &str = "timeout";

/// A node that a command names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    number: u16,
    is_up: bool,
}

/// The node of the cluster that a name means; `None` when it means none.
pub(crate) fn target(broker: &Broker, node: &Node, name: &str) -> Option<Target> {
    let Some(cluster) = broker.cluster() else {
        return node.names.mean(name).then_some(Target { number: 0, is_up: true });
    };
    let view = cluster.view();
    let named = view.members.iter().find(|member| member.name.as_str() == name);
    let own = || view.member(view.own).filter(|_| node.names.mean(name));
    named.or_else(own).map(|member| Target { number: member.number, is_up: member.is_up })
}

/// One change, and what came of it.
struct Asked<'a> {
    queue: &'a Queue,
    change: ReplicaChange,
    node: u16,
}

impl Asked<'_> {
    fn is_done(&self) -> bool {
        let is_so = |replicas: &Replicas| match self.change {
            ReplicaChange::Add => replicas.has(self.node),
            ReplicaChange::Remove => !replicas.has(self.node),
            _ => replicas.leader == self.node,
        };
        self.queue.replicas().is_some_and(|replicas| is_so(&replicas))
    }

    fn outcome(&self) -> Result<(), &'static str> {
        if self.is_done() { Ok(()) } else { Err(TIMEOUT) }
    }
}

/// Asks for changes until they have happened or the time is over. Only on a thread that may block.
fn await_changes(changes: &[Asked<'_>]) {
    for batch in changes.chunks(BATCH) {
        let end = Instant::now() + CHANGE_TIMEOUT;
        let mut ask_at = Instant::now();
        while let Some(now) = Some(Instant::now()).filter(|now| *now < end) {
            let mut open = batch.iter().filter(|change| !change.is_done()).peekable();
            if open.peek().is_none() {
                break;
            }
            if ask_at <= now {
                open.for_each(|it| it.queue.change_member(it.change, it.node));
                ask_at = now + ASK_AGAIN;
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }
}

/// Changes one queue.
fn change(queue: &Queue, change: ReplicaChange, node: u16) -> Result<(), &'static str> {
    let asked = Asked { queue, change, node };
    await_changes(std::slice::from_ref(&asked));
    asked.outcome()
}

/// Whether the change is to be asked for: `None` when it is so already.
type Wanted = Result<Option<ReplicaChange>, &'static str>;

/// How many nodes have a queue.
pub(crate) fn size(queue: &Queue) -> usize {
    queue.replicas().map_or(1, |replicas| replicas.members.len())
}

fn has(queue: &Queue, node: Target) -> bool {
    match queue.replicas() {
        Some(replicas) => replicas.has(node.number),
        None => node.number == 0 || queue.home_node() == node.number,
    }
}

fn may_add(queue: &Queue, node: Target) -> Wanted {
    match node {
        Target { is_up: false, .. } => Err(NODE_NOT_RUNNING),
        _ if has(queue, node) => Ok(None),
        _ if size(queue) >= REPLICAS_MAX => Err(TOO_MANY),
        _ => Ok(Some(ReplicaChange::Add)),
    }
}

fn may_remove(queue: &Queue, node: Target) -> Wanted {
    if !has(queue, node) {
        return Ok(None);
    }
    match queue.replicas() {
        Some(replicas) if replicas.members.len() > 1 => {
            let is_only_one = replicas.in_sync == [node.number];
            if is_only_one { Err(NOT_IN_SYNC) } else { Ok(Some(ReplicaChange::Remove)) }
        }
        _ => Err(LAST_NODE),
    }
}

fn does(queue: &Queue, wanted: Wanted, node: Target) -> Result<(), &'static str> {
    wanted?.map_or(Ok(()), |what| change(queue, what, node.number))
}

/// Gives a node a copy of a queue; done as well when it has one. The copy fills later.
///
/// # Errors
/// [`NODE_NOT_RUNNING`], [`TOO_MANY`], [`TIMEOUT`].
pub(crate) fn add(queue: &Queue, node: Target) -> Result<(), &'static str> {
    does(queue, may_add(queue, node), node)
}

/// Takes a node's copy of a queue away; done as well when it has none.
///
/// # Errors
/// [`LAST_NODE`], [`NOT_IN_SYNC`] when no other member has every confirmed message, [`TIMEOUT`].
pub(crate) fn remove(queue: &Queue, node: Target) -> Result<(), &'static str> {
    does(queue, may_remove(queue, node), node)
}

/// Lets another member lead.
///
/// # Errors
/// [`ALREADY_LEADER`], [`NOT_A_MEMBER`], [`NODE_NOT_RUNNING`], [`NOT_IN_SYNC`], [`TIMEOUT`].
pub(crate) fn lead(queue: &Queue, node: Target) -> Result<(), &'static str> {
    let Some(replicas) = queue.replicas() else {
        return Err(if has(queue, node) { ALREADY_LEADER } else { NOT_A_MEMBER });
    };
    if replicas.leader == node.number {
        Err(ALREADY_LEADER)
    } else if !replicas.has(node.number) {
        Err(NOT_A_MEMBER)
    } else if !node.is_up {
        Err(NODE_NOT_RUNNING)
    } else if !replicas.in_sync.contains(&node.number) {
        Err(NOT_IN_SYNC)
    } else {
        change(queue, ReplicaChange::Lead, node.number)
    }
}

/// Quorum queues by patterns of their names and vhosts.
pub(crate) fn matching(broker: &Broker, of_vhosts: &Regex, of_queues: &Regex) -> Vec<Arc<Queue>> {
    let vhosts = broker.vhosts().into_iter().filter(|vhost| of_vhosts.is_match(vhost.name()));
    let queues = vhosts.flat_map(|vhost| vhost.queues());
    queues
        .filter(|queue| queue.queue_kind() == Kind::Quorum)
        .filter(|queue| of_queues.is_match(&String::from_utf8_lossy(queue.name())))
        .collect()
}

/// A queue that was to change, and what came of it.
pub(crate) struct Changed {
    /// The queue.
    pub(crate) queue: Arc<Queue>,
    /// How many nodes have it now.
    pub(crate) size: usize,
    /// The error.
    pub(crate) outcome: Result<(), &'static str>,
}

fn change_each(queues: Vec<Arc<Queue>>, node: Target, wanted: fn(&Queue, Target) -> Wanted) -> Vec<Changed> {
    let wanted: Vec<_> = queues.into_iter().map(|queue| (wanted(&queue, node), queue)).collect();
    let ask =
        |(wanted, queue): &(Wanted, Arc<Queue>)| (*wanted).ok().flatten().map(|what| (what, queue.clone()));
    let asked: Vec<_> = wanted.iter().filter_map(ask).collect();
    let asked: Vec<_> =
        asked.iter().map(|(change, queue)| Asked { queue, change: *change, node: node.number }).collect();
    await_changes(&asked);
    let changed = wanted.into_iter().map(|(wanted, queue)| {
        let outcome = wanted.and_then(|what| {
            what.map_or(Ok(()), |change| Asked { queue: &queue, change, node: node.number }.outcome())
        });
        Changed { size: size(&queue), queue, outcome }
    });
    changed.collect()
}

/// Gives a node copies of those queues that it has none of: of all, or of those only that an even number of nodes has.
pub(crate) fn grow(queues: Vec<Arc<Queue>>, node: Target, only_even: bool) -> Vec<Changed> {
    let is_wanted = |queue: &Arc<Queue>| !has(queue, node) && (!only_even || size(queue).is_multiple_of(2));
    change_each(queues.into_iter().filter(is_wanted).collect(), node, may_add)
}

/// Takes a node's copies of these queues away.
pub(crate) fn shrink(queues: Vec<Arc<Queue>>, node: Target) -> Vec<Changed> {
    change_each(queues.into_iter().filter(|queue| has(queue, node)).collect(), node, may_remove)
}

/// Numbers of the nodes that may get leaders: they are up, and not in maintenance. Only on a thread that may block.
fn may_lead(broker: &Broker, node: &Node, cluster: &Cluster) -> BTreeSet<u16> {
    let own = described::of_this_node(broker, node);
    let nodes = described::of_all(node, &own, &asking::ask_others(node, described::QUESTION));
    let is_drained = |name: &str| nodes.iter().filter(|it| it.name == name).any(Described::is_in_maintenance);
    let view = cluster.view();
    let free = view.members.iter().filter(|it| it.is_up && !is_drained(it.name.as_str()));
    free.map(|member| member.number).collect()
}

/// Moves leaders from nodes that lead many of these queues to members that lead few. Gives how many each node that is up leads then, by name.
/// Only on a thread that may block.
pub(crate) fn rebalance<'a>(broker: &Broker, node: &Node, queues: &'a [Arc<Queue>]) -> Vec<(String, usize)> {
    let Some(cluster) = broker.cluster() else {
        return vec![(NODE_NAME.into(), queues.len())];
    };
    let view = cluster.view();
    let free = may_lead(broker, node, cluster);
    let mut counts: BTreeMap<u16, usize> = free.iter().map(|number| (*number, 0)).collect();
    let known: Vec<_> = queues.iter().filter_map(|queue| Some((&**queue, queue.replicas()?))).collect();
    for queue in queues {
        *counts.entry(queue.home_node()).or_default() += 1;
    }
    let next = |(queue, replicas): &(&'a Queue, Arc<Replicas>)| {
        let node = next_leader(replicas, &free, &mut counts)?;
        Some(Asked { queue, change: ReplicaChange::Lead, node })
    };
    let asked: Vec<_> = known.iter().filter_map(next).collect();
    await_changes(&asked);
    let leads = |number: u16| queues.iter().filter(|queue| queue.home_node() == number).count();
    view.members
        .iter()
        .filter(|member| member.is_up)
        .map(|member| (member.name.to_string(), leads(member.number)))
        .collect()
}

/// Moves the leaders of quorum queues from this node to members in sync on other nodes. A queue that has none keeps its leader. Gives how
/// many this node leads then. Only on a thread that may block.
pub(crate) fn step_down(broker: &Broker, node: &Node) -> usize {
    let Some(cluster) = broker.cluster() else { return 0 };
    let view = cluster.view();
    let queues = broker.vhosts().into_iter().flat_map(|vhost| vhost.queues());
    let led: Vec<_> =
        queues.filter(|it| it.replicas().is_some_and(|replicas| replicas.leader == view.own)).collect();
    let free = may_lead(broker, node, cluster);
    let mut counts: BTreeMap<u16, usize> =
        free.iter().filter(|number| **number != view.own).map(|number| (*number, 0)).collect();
    let mut next = |queue: &Queue| {
        let replicas = queue.replicas()?;
        let up = replicas.in_sync.iter().filter_map(|node| Some((*counts.get(node)?, *node)));
        let (_, node) = up.min()?;
        *counts.get_mut(&node)? += 1;
        Some(node)
    };
    let asked: Vec<_> = led
        .iter()
        .filter_map(|queue| Some(Asked { node: next(queue)?, queue, change: ReplicaChange::Lead }))
        .collect();
    await_changes(&asked);
    led.len() - asked.iter().filter(|it| it.is_done()).count()
}

/// The member that is to lead instead, if that evens out how many each leads. Counts it.
fn next_leader(replicas: &Replicas, free: &BTreeSet<u16>, counts: &mut BTreeMap<u16, usize>) -> Option<u16> {
    let now = *counts.get(&replicas.leader)?;
    let up = replicas.in_sync.iter().filter(|node| free.contains(node));
    let up = up.filter_map(|node| Some((*counts.get(node)?, *node)));
    let (fewest, node) = up.min()?;
    if node == replicas.leader || fewest + 1 >= now {
        return None;
    }
    *counts.get_mut(&replicas.leader)? -= 1;
    *counts.get_mut(&node)? += 1;
    Some(node)
}

/// Queues of several members that would confirm nothing any more if this node stopped: too few of the others are in sync and up.
pub(crate) fn critical(broker: &Broker) -> Vec<Arc<Queue>> {
    let Some(cluster) = broker.cluster() else { return Vec::new() };
    let own = cluster.view().own;
    let is_critical = |queue: &Arc<Queue>| {
        let places = queue.places();
        let is_ready = |place: &&broker::cluster::Place| place.is_up && place.is_in_sync;
        let is_here = places.iter().any(|place| place.node == own && place.is_in_sync);
        is_here && places.len() > 1 && places.iter().filter(is_ready).count() <= places.len() / 2 + 1
    };
    quorum_queues(broker).into_iter().filter(is_critical).collect()
}

/// Queues whose leader does not run.
pub(crate) fn leaderless(broker: &Broker, of_vhosts: &Regex, of_queues: &Regex) -> Vec<Arc<Queue>> {
    let mut queues = matching(broker, of_vhosts, of_queues);
    queues.retain(|queue| !members::has_leader(queue));
    queues
}

/// All of them.
pub(crate) fn quorum_queues(broker: &Broker) -> Vec<Arc<Queue>> {
    let queues = broker.vhosts().into_iter().flat_map(|vhost| vhost.queues());
    queues.filter(|queue| queue.queue_kind() == Kind::Quorum).collect()
}

/// A queue in RabbitMQ's words.
pub(crate) fn readable(queue: &Queue) -> String {
    format!("queue '{}' in vhost '{}'", String::from_utf8_lossy(queue.name()), queue.vhost_name())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaders_move_to_members_that_lead_less_and_no_further() {
        let replicas =
            |leader| Replicas { leader, epoch: 1, version: 1, members: vec![1, 2, 3], in_sync: vec![1, 2] };
        let all = BTreeSet::from([1, 2, 3]);
        let mut counts = BTreeMap::from([(1, 3), (2, 0), (3, 0)]);
        assert_eq!(next_leader(&replicas(1), &all, &mut counts), Some(2), "3 is not in sync");
        assert_eq!(counts, BTreeMap::from([(1, 2), (2, 1), (3, 0)]));
        assert_eq!(next_leader(&replicas(1), &all, &mut counts), None);
        let mut counts = BTreeMap::from([(1, 5), (3, 0)]);
        assert_eq!(next_leader(&replicas(1), &all, &mut counts), None, "2 is down");
        let mut counts = BTreeMap::from([(1, 5), (2, 0), (3, 0)]);
        assert_eq!(
            next_leader(&replicas(1), &BTreeSet::from([1, 3]), &mut counts),
            None,
            "2 is in maintenance"
        );
    }
}
