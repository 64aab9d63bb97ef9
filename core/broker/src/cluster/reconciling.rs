//! Members of quorum queues follow the nodes of the cluster: queues with fewer members than they are to have get more, and members of nodes that
//! are not in the cluster go.

use std::sync::Arc;

use message::Value;
use metadata::{REPLICAS_MAX, ReplicaChange};

use super::view::View;
use crate::cell::Queue;
use crate::options::Reconciliation;
use queues::Kind;

/// Queues whose members change at the same time.
pub(super) const MOVES_MAX: usize = 4;
/// While there are more, they are looked at again after so long.
const GO_ON_MS: u64 = 1_000;

/// When queues are looked at next.
#[derive(Default)]
pub(super) struct Reconciling {
    /// The nodes of the cluster, as they were.
    nodes: Vec<u16>,
    due_ms: Option<u64>,
}

impl Reconciling {
    /// Whether it is time.
    pub(super) fn is_due(
        &mut self,
        rules: &Reconciliation,
        nodes: Vec<u16>,
        has_news: bool,
        now_ms: u64,
    ) -> bool {
        let is_other = !self.nodes.is_empty() && self.nodes != nodes;
        self.nodes = nodes;
        let due_ms = self.due_ms.get_or_insert(now_ms.saturating_add(rules.interval_ms));
        if is_other || has_news {
            *due_ms = (*due_ms).min(now_ms.saturating_add(rules.trigger_interval_ms));
        }
        *due_ms <= now_ms
    }

    /// The queues were looked at. `has_more`: something is left to do.
    pub(super) fn looked(&mut self, rules: &Reconciliation, has_more: bool, now_ms: u64) {
        let wait_ms = if has_more { GO_ON_MS } else { rules.interval_ms };
        self.due_ms = Some(now_ms.saturating_add(wait_ms));
    }
}

/// The next change of members that a queue needs.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    Change(ReplicaChange, u16),
    /// It waits until a member on a node that runs has all messages.
    Fills,
    Nothing,
}

/// The next changes of these queues, of those that this node leads; and whether others wait for a member that fills.
pub(super) fn wanted(
    queues: impl Iterator<Item = Arc<Queue>>,
    view: &View,
    rules: &Reconciliation,
) -> (Vec<(Arc<Queue>, ReplicaChange, u16)>, bool) {
    let mut do_fill = false;
    let is_led = |queue: &Arc<Queue>| queue.queue_kind() == Kind::Quorum && queue.home_node() == view.own;
    let change = |queue: Arc<Queue>| {
        let next = next_of(&queue, view, rules);
        do_fill |= next == Next::Fills;
        let Next::Change(change, node) = next else { return None };
        Some((queue, change, node))
    };
    let wanted = queues.filter(is_led).filter_map(change).collect();
    (wanted, do_fill)
}

fn next_of(queue: &Queue, view: &View, rules: &Reconciliation) -> Next {
    let (members, in_sync) = match queue.replicas() {
        Some(replicas) => (replicas.members.clone(), replicas.in_sync.clone()),
        None => (vec![view.own], vec![view.own]),
    };
    let asked = queue.record.arguments.as_table().get(b"x-quorum-target-group-size").and_then(natural);
    let target = target_of(asked, queue.policies().natural("target-group-size"), rules);
    next_change((&members, &in_sync), view, target, rules.auto_remove, queue.id.0)
}

/// The larger one of argument and policy; without both, that of the configuration.
fn target_of(asked: Option<u64>, policy: Option<u64>, rules: &Reconciliation) -> usize {
    let target = asked.max(policy).or(rules.target_group_size.map(u64::from)).unwrap_or(0);
    usize::try_from(target).unwrap_or(usize::MAX)
}

/// A number of an argument, of any type of numbers.
fn natural(value: Value<'_>) -> Option<u64> {
    match value {
        Value::I64(number) => u64::try_from(number).ok(),
        Value::I32(number) => u64::try_from(number).ok(),
        Value::I16(number) => u64::try_from(number).ok(),
        Value::I8(number) => u64::try_from(number).ok(),
        Value::U8(number) => Some(number.into()),
        _ => None,
    }
}

fn next_change(
    (members, in_sync): (&[u16], &[u16]),
    view: &View,
    target: usize,
    auto_remove: bool,
    number: u64,
) -> Next {
    if let Some(gone) = members.iter().find(|node| auto_remove && view.member(**node).is_none()) {
        return Next::Change(ReplicaChange::Remove, *gone);
    }
    if members.len() >= target.min(REPLICAS_MAX) {
        return Next::Nothing;
    }
    let free: Vec<_> =
        view.members.iter().filter(|node| node.is_up && !members.contains(&node.number)).collect();
    // Queues go to different nodes.
    let at = usize::try_from(number % free.len().max(1) as u64).unwrap_or(0);
    let Some(free) = free.get(at) else { return Next::Nothing };
    // One after the other: those that fill do not count for the majority.
    if in_sync.len() * 2 > members.len() {
        return Next::Change(ReplicaChange::Add, free.number);
    }
    let does_fill = |node: &u16| !in_sync.contains(node) && view.member(*node).is_some_and(|it| it.is_up);
    if members.iter().any(does_fill) { Next::Fills } else { Next::Nothing }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::{NodeName, ViewedMember};

    fn view(nodes: &[(u16, bool)]) -> View {
        let member = |(number, is_up): &(u16, bool)| ViewedMember {
            number: *number,
            name: NodeName::new(&format!("n{number}@h")).expect("a name"),
            is_up: *is_up,
            is_voter: true,
        };
        View { own: 1, members: nodes.iter().map(member).collect(), ..View::default() }
    }

    #[test]
    fn a_queue_grows_onto_nodes_that_run_one_after_the_other_up_to_its_target() {
        let all = view(&[(1, true), (2, false), (3, true), (4, true)]);
        let next = |members: &[u16], in_sync: usize, target, number| {
            next_change((members, &members[..in_sync]), &all, target, false, number)
        };
        let add = |node| Next::Change(ReplicaChange::Add, node);
        assert_eq!(next(&[1], 1, 3, 0), add(3));
        assert_eq!(next(&[1], 1, 3, 1), add(4), "another queue goes elsewhere");
        assert_eq!(next(&[1, 3], 1, 3, 0), Next::Fills, "the second one still fills");
        assert_eq!(next(&[1, 2], 1, 3, 0), Next::Nothing, "the second one is down, and fills later");
        assert_eq!(next(&[1, 3], 2, 3, 0), add(4));
        assert_eq!(next(&[1, 3, 4], 3, 3, 0), Next::Nothing);
        assert_eq!(next(&[1, 3, 4], 3, 5, 0), Next::Nothing, "node 2 is down");
        assert_eq!(next(&[1], 1, 0, 0), Next::Nothing, "there is no target");
    }

    #[test]
    fn the_larger_one_of_argument_and_policy_counts_and_without_both_the_configuration() {
        let rules = Reconciliation { target_group_size: Some(5), ..Reconciliation::default() };
        assert_eq!(target_of(Some(3), None, &rules), 3);
        assert_eq!(target_of(Some(3), Some(4), &rules), 4);
        assert_eq!(target_of(None, Some(2), &rules), 2);
        assert_eq!(target_of(None, None, &rules), 5);
        assert_eq!(target_of(None, None, &Reconciliation::default()), 0);
    }

    #[test]
    fn members_on_nodes_that_are_not_in_the_cluster_go_if_that_is_wanted() {
        let all = view(&[(1, true), (2, false)]);
        let next = |members: &[u16], auto_remove| next_change((members, &[1]), &all, 0, auto_remove, 0);
        assert_eq!(next(&[1, 2, 9], true), Next::Change(ReplicaChange::Remove, 9));
        assert_eq!(next(&[1, 2, 9], false), Next::Nothing);
        assert_eq!(next(&[1, 2], true), Next::Nothing, "a node that is down stays");
    }

    #[test]
    fn queues_are_looked_at_in_intervals_and_soon_after_a_change() {
        let rules =
            Reconciliation { interval_ms: 1_000, trigger_interval_ms: 100, ..Reconciliation::default() };
        let mut next = Reconciling::default();
        assert!(!next.is_due(&rules, vec![1, 2], false, 0));
        assert!(next.is_due(&rules, vec![1, 2], false, 1_000));
        next.looked(&rules, false, 1_000);
        assert!(!next.is_due(&rules, vec![1, 2, 3], false, 1_050), "a node has joined");
        assert!(next.is_due(&rules, vec![1, 2, 3], false, 1_150));
        next.looked(&rules, false, 1_150);
        assert!(!next.is_due(&rules, vec![1, 2, 3], true, 1_200), "a policy has changed");
        assert!(next.is_due(&rules, vec![1, 2, 3], false, 1_300));
        next.looked(&rules, true, 1_300);
        assert!(next.is_due(&rules, vec![1, 2, 3], false, 2_300));
    }
}
