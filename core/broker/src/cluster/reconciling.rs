//! Members of quorum queues follow the nodes of the cluster: queues with fewer members than they are to have get more, and members of nodes that
//! are not in the cluster go.

use std::sync::Arc;

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

/// The next changes of these queues, of those that this node leads.
pub(super) fn wanted(
    queues: impl Iterator<Item = Arc<Queue>>,
    view: &View,
    rules: &Reconciliation,
) -> Vec<(Arc<Queue>, ReplicaChange, u16)> {
    let is_led = |queue: &Arc<Queue>| queue.queue_kind() == Kind::Quorum && queue.home_node() == view.own;
    let change = |queue: Arc<Queue>| {
        let (change, node) = change_of(&queue, view, rules)?;
        Some((queue, change, node))
    };
    queues.filter(is_led).filter_map(change).collect()
}

fn change_of(queue: &Queue, view: &View, rules: &Reconciliation) -> Option<(ReplicaChange, u16)> {
    let (members, in_sync) = match queue.replicas() {
        Some(replicas) => (replicas.members.clone(), replicas.in_sync.len()),
        None => (vec![view.own], 1),
    };
    let target = queue.policies().natural("target-group-size").and_then(|target| u16::try_from(target).ok());
    let target = target.or(rules.target_group_size).map_or(0, usize::from);
    next_change(&members, in_sync, view, target, rules.auto_remove, queue.id.0)
}

fn next_change(
    members: &[u16],
    in_sync: usize,
    view: &View,
    target: usize,
    auto_remove: bool,
    number: u64,
) -> Option<(ReplicaChange, u16)> {
    if let Some(gone) = members.iter().find(|node| auto_remove && view.member(**node).is_none()) {
        return Some((ReplicaChange::Remove, *gone));
    }
    // One after the other: those that fill do not count for the majority.
    if members.len() >= target.min(REPLICAS_MAX) || in_sync * 2 <= members.len() {
        return None;
    }
    let free: Vec<_> =
        view.members.iter().filter(|node| node.is_up && !members.contains(&node.number)).collect();
    // Queues go to different nodes.
    let at = usize::try_from(number % free.len().max(1) as u64).unwrap_or(0);
    free.get(at).map(|node| (ReplicaChange::Add, node.number))
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
        let next = |members: &[u16], in_sync, target, number| {
            next_change(members, in_sync, &all, target, false, number)
        };
        assert_eq!(next(&[1], 1, 3, 0), Some((ReplicaChange::Add, 3)));
        assert_eq!(next(&[1], 1, 3, 1), Some((ReplicaChange::Add, 4)), "another queue goes elsewhere");
        assert_eq!(next(&[1, 3], 1, 3, 0), None, "the second one still fills");
        assert_eq!(next(&[1, 3], 2, 3, 0), Some((ReplicaChange::Add, 4)));
        assert_eq!(next(&[1, 3, 4], 3, 3, 0), None);
        assert_eq!(next(&[1, 3, 4], 3, 5, 0), None, "node 2 is down");
        assert_eq!(next(&[1], 1, 0, 0), None, "there is no target");
    }

    #[test]
    fn members_on_nodes_that_are_not_in_the_cluster_go_if_that_is_wanted() {
        let all = view(&[(1, true), (2, false)]);
        assert_eq!(next_change(&[1, 2, 9], 2, &all, 0, true, 0), Some((ReplicaChange::Remove, 9)));
        assert_eq!(next_change(&[1, 2, 9], 2, &all, 0, false, 0), None);
        assert_eq!(next_change(&[1, 2], 1, &all, 0, true, 0), None, "a node that is down stays");
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
