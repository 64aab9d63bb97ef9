//! Columns of quorum queues that no other queues have: the nodes that have them, the leader, and how they count.

use std::sync::Arc;
use std::time::{Duration, Instant};

use broker::cluster::Place;
use broker::{Call, MemberStanding, Queue, QueueStats, RetryOf};
use serde_json::{Map, Value, json};

use crate::resources::node::NODE_NAME;

/// How long the node that leads a queue may take to tell what the queue holds.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// The nodes that have a queue, by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Nodes {
    /// The one that leads, or is the only one; empty when it has left the cluster.
    pub(crate) leader: String,
    /// All of them.
    pub(crate) members: Vec<String>,
    /// Members that run, as far as this node knows.
    pub(crate) online: Vec<String>,
    /// Members that have every confirmed message.
    pub(crate) in_sync: Vec<String>,
}

/// The nodes that have a queue. Nobody is asked.
pub(crate) fn nodes_of(queue: &Queue) -> Nodes {
    let places = queue.places();
    if places.is_empty() && !queue.is_elsewhere() {
        let own = vec![NODE_NAME.as_str().to_owned()];
        return Nodes { leader: NODE_NAME.into(), members: own.clone(), online: own.clone(), in_sync: own };
    }
    let names = |is_wanted: fn(&Place) -> bool| {
        places.iter().filter(|place| is_wanted(place)).map(|place| place.name.to_string()).collect::<Vec<_>>()
    };
    Nodes {
        leader: names(|place| place.is_leader).pop().unwrap_or_default(),
        members: names(|_| true),
        online: names(|place| place.is_up),
        in_sync: names(|place| place.is_in_sync),
    }
}

/// Whether the node that leads a queue runs, as far as this node knows.
pub(crate) fn has_leader(queue: &Queue) -> bool {
    !queue.is_elsewhere() || queue.places().iter().any(|place| place.is_leader && place.is_up)
}

/// A queue that another node leads, or nobody: a word for programs, and a sentence for people. `None` when this node leads it.
pub(crate) fn led_elsewhere(queue: &Queue) -> Option<(&'static str, String)> {
    if !queue.is_elsewhere() {
        return None;
    }
    let places = queue.places();
    let leader = places.iter().find(|place| place.is_leader);
    if let Some(leader) = leader.filter(|leader| leader.is_up) {
        let name = &leader.name;
        return Some((
            "elsewhere",
            format!("Node {name} leads the queue and knows why it delivers or not: ask that node."),
        ));
    }
    let down: Vec<_> = places.iter().filter(|place| !place.is_up).map(|place| place.name.as_str()).collect();
    let nodes = if down.len() == 1 { "node" } else { "nodes" };
    let are = if down.len() == 1 { "is" } else { "are" };
    Some(("leaderless", format!("The queue has no leader: {nodes} {} {are} down.", down.join(" and "))))
}

/// Counts of queues, asked of the nodes that lead them, all at once. `None` for a queue whose leader does not tell in time. Only on
/// a thread that may block.
pub(crate) fn stats_of(queues: &[Arc<Queue>]) -> Vec<Option<QueueStats>> {
    let end = Instant::now() + ANSWER_TIMEOUT;
    let asked: Vec<_> = queues.iter().map(|queue| has_leader(queue).then(|| queue.stats())).collect();
    let answers = queues.iter().zip(asked).map(|(queue, stats)| match stats {
        Some(stats) if queue.is_elsewhere() => within(end, stats),
        stats => stats.map(Call::wait),
    });
    answers.collect()
}

fn within(end: Instant, stats: Call<QueueStats>) -> Option<QueueStats> {
    let end = tokio::time::Instant::from_std(end);
    tokio::runtime::Handle::current().block_on(async { tokio::time::timeout_at(end, stats).await.ok() })
}

/// The columns that RabbitMQ shows of each member. Indices count the turns of the present leader that changed the queue; of a queue that one node has, the
/// messages that were published. Only on a thread that may block.
pub(crate) fn status(queue: &Arc<Queue>) -> Vec<Value> {
    let places = queue.places();
    let standings = stats_of(std::slice::from_ref(queue)).pop().flatten().unwrap_or_default().members;
    if standings.is_empty() && places.len() < 2 {
        let index = queue.glance().totals.published;
        return vec![line(&nodes_of(queue).leader, "leader", "voter", (index, index), 1)];
    }
    let term = queue.replicas().map_or(1, |replicas| replicas.epoch);
    let of = |node: u16| standings.iter().find(|standing| standing.node == node);
    let in_sync = places.iter().filter(|place| place.is_in_sync).filter_map(|place| of(place.node));
    let commit = in_sync.map(|standing| standing.has).min().unwrap_or(0);
    places.iter().map(|place| member_line(place, of(place.node), commit, term)).collect()
}

fn member_line(place: &Place, standing: Option<&MemberStanding>, commit: u64, term: u32) -> Value {
    let name = place.name.as_str();
    let state = if place.is_leader { "leader" } else { "follower" };
    let membership = if place.is_in_sync { "voter" } else { "promotable" };
    match standing {
        Some(standing) if place.is_up => {
            line(name, state, membership, (standing.has, commit.min(standing.has)), term)
        }
        _ => json!({
            "Node Name": name,
            "Raft State": if place.is_up { "unknown" } else { "nodedown" },
            "Membership": "", "Last Log Index": "", "Last Written": "", "Last Applied": "", "Commit Index": "",
            "Snapshot Index": "", "Term": "", "Machine Version": "",
        }),
    }
}

/// A member that has everything up to the first index, of which everything up to the second one is on all members in sync.
fn line(name: &str, state: &str, membership: &str, (index, commit): (u64, u64), term: u32) -> Value {
    json!({
        "Node Name": name,
        "Raft State": state,
        "Membership": membership,
        "Last Log Index": index,
        "Last Written": index,
        "Last Applied": index,
        "Commit Index": commit,
        "Snapshot Index": -1,
        "Term": term,
        "Machine Version": 8,
    })
}

/// Facts that are known without asking the queue. `in_sync` is Warren's own.
pub(crate) fn add_known(json: &mut Map<String, Value>, queue: &Queue, nodes: Nodes) {
    let limit = queue.delivery_limit();
    json.insert("delivery_limit".into(), limit.map_or_else(|| "unlimited".into(), Value::from));
    json.insert("in_sync".into(), nodes.in_sync.clone().into());
    add_nodes(json, nodes);
}

/// Of queues that have members, streams as well.
pub(crate) fn add_nodes(json: &mut Map<String, Value>, nodes: Nodes) {
    json.insert("leader".into(), nodes.leader.into());
    json.insert("members".into(), nodes.members.into());
    json.insert("online".into(), nodes.online.into());
}

/// The columns of lists and pages about the messages that a stream keeps. `first_offset`, `next_offset` and `segment_bytes` are Warren's own.
pub(crate) fn add_contents_of_stream(json: &mut Map<String, Value>, queue: &Queue) {
    let Some(info) = queue.stream_log().map(|log| log.info()) else { return };
    json.insert("readers".into(), json!({ NODE_NAME: info.readers }));
    json.insert("segments".into(), info.segments.into());
    json.insert("first_timestamp".into(), info.first_ms.unwrap_or(0).into());
    json.insert("first_offset".into(), info.first_offset.into());
    json.insert("next_offset".into(), info.next_offset.into());
    json.insert("segment_bytes".into(), info.disk_bytes.into());
}

/// The columns of lists and pages about its contents.
pub(crate) fn add_contents(json: &mut Map<String, Value>, queue: &Queue, stats: &QueueStats) {
    let by_priority: Map<String, Value> =
        stats.ready_by_priority.iter().map(|(level, ready)| (level.to_string(), (*ready).into())).collect();
    let retry = match queue.delayed_retry() {
        RetryOf::Disabled => "disabled",
        RetryOf::All => "all",
        RetryOf::Failed => "failed",
        RetryOf::Returned => "returned",
    };
    json.insert("delayed_retry".into(), retry.into());
    json.insert("messages_active_priorities".into(), by_priority.len().into());
    json.insert("messages_by_priority".into(), by_priority.into());
    json.insert("messages_delayed".into(), stats.delayed.into());
    json.insert("messages_ready_returned".into(), stats.ready_returned.into());
    json.insert("messages_dlx".into(), 0.into());
    json.insert("message_bytes_dlx".into(), 0.into());
    json.insert("open_files".into(), json!({ NODE_NAME: 0 }));
}
