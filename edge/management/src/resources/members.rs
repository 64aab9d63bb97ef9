//! What is shown of quorum queues beside what all queues have: their members, of which there is one, and how they count.

use std::sync::Arc;

use broker::{Queue, QueueStats, RetryOf};
use serde_json::{Map, Value, json};

use crate::resources::node::NODE_NAME;

/// What RabbitMQ shows of a member. Messages take the place of log entries: they are what the indices count.
pub(crate) fn status(queue: &Arc<Queue>) -> Value {
    let index = queue.glance().totals.published;
    json!({
        "Node Name": NODE_NAME,
        "Raft State": "leader",
        "Membership": "voter",
        "Last Log Index": index,
        "Last Written": index,
        "Last Applied": index,
        "Commit Index": index,
        "Snapshot Index": -1,
        "Term": 1,
        "Machine Version": 8,
    })
}

/// What is known without asking the queue.
pub(crate) fn add_known(json: &mut Map<String, Value>, queue: &Queue) {
    let limit = queue.delivery_limit();
    json.insert("leader".into(), NODE_NAME.into());
    json.insert("members".into(), json!([NODE_NAME]));
    json.insert("online".into(), json!([NODE_NAME]));
    json.insert("delivery_limit".into(), limit.map_or_else(|| "unlimited".into(), Value::from));
}

/// The same of a stream.
pub(crate) fn add_known_of_stream(json: &mut Map<String, Value>) {
    json.insert("leader".into(), NODE_NAME.into());
    json.insert("members".into(), json!([NODE_NAME]));
    json.insert("online".into(), json!([NODE_NAME]));
}

/// What lists and pages show of what a stream keeps. `first_offset`, `next_offset` and `segment_bytes` are Warren's own.
pub(crate) fn add_contents_of_stream(json: &mut Map<String, Value>, queue: &Queue) {
    let Some(info) = queue.stream_log().map(|log| log.info()) else { return };
    json.insert("readers".into(), json!({ NODE_NAME: info.readers }));
    json.insert("segments".into(), info.segments.into());
    json.insert("first_timestamp".into(), info.first_ms.unwrap_or(0).into());
    json.insert("first_offset".into(), info.first_offset.into());
    json.insert("next_offset".into(), info.next_offset.into());
    json.insert("segment_bytes".into(), info.disk_bytes.into());
}

/// What lists and pages show of its contents.
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
