//! Queues, as listings and pages show them.

use std::sync::Arc;

use broker::policies::AppliedPolicies;
use broker::{Condition, Queue, QueueGlance, QueueStats};
use serde_json::Value;

use super::members;
use super::policies::definition_object;
use super::values::text;

/// Queues asked for their contents before the first answer is awaited.
const BATCH: usize = 1024;

/// A queue and what it holds.
pub(crate) struct QueueRow {
    pub(crate) queue: Arc<Queue>,
    /// Its counts; all zero when nobody asked for them.
    pub(crate) counts: QueueGlance,
    /// The answer of the queue itself, if it was asked.
    pub(crate) stats: Option<QueueStats>,
    policies: AppliedPolicies,
}

impl QueueRow {
    fn of(queue: &Arc<Queue>, counts: QueueGlance, stats: Option<QueueStats>) -> QueueRow {
        QueueRow { queue: queue.clone(), counts, stats, policies: queue.policies() }
    }

    /// A queue whose contents nobody asks for.
    pub(crate) fn unasked(queue: &Arc<Queue>) -> QueueRow {
        QueueRow::of(queue, QueueGlance::default(), None)
    }

    /// Queues with their counts, which wait for no queue of this node. The nodes that lead the others are asked, so only on a thread
    /// that may block.
    pub(crate) fn glanced(queues: &[Arc<Queue>]) -> Vec<QueueRow> {
        let away: Vec<_> = queues.iter().filter(|queue| queue.is_elsewhere()).cloned().collect();
        let mut told = members::stats_of(&away).into_iter();
        let mut counts = |queue: &Arc<Queue>| match queue.is_elsewhere() {
            true => counts_of(&told.next().flatten().unwrap_or_default()),
            false => queue.glance(),
        };
        queues.iter().map(|queue| QueueRow::of(queue, counts(queue), None)).collect()
    }

    /// A queue with all that it tells. Only on a thread that may block.
    pub(crate) fn asked_alone(queue: &Arc<Queue>) -> QueueRow {
        let stats = members::stats_of(std::slice::from_ref(queue)).pop().flatten().unwrap_or_default();
        QueueRow::of(queue, counts_of(&stats), Some(stats))
    }

    /// Queues with all that they tell; a queue whose leader does not answer in time has nothing. Only on a thread that may block.
    pub(crate) fn asked(queues: &[Arc<Queue>]) -> Vec<QueueRow> {
        let mut rows = Vec::with_capacity(queues.len());
        for batch in queues.chunks(BATCH) {
            let told = members::stats_of(batch).into_iter().map(Option::unwrap_or_default);
            rows.extend(
                batch
                    .iter()
                    .zip(told)
                    .map(|(queue, stats)| QueueRow::of(queue, counts_of(&stats), Some(stats))),
            );
        }
        rows
    }

    pub(crate) fn name(&self) -> Value {
        text(self.queue.name())
    }

    /// RabbitMQ's word (B172).
    pub(crate) fn state(&self) -> &'static str {
        state(&self.queue)
    }

    /// The keys that its policies set, as an object.
    pub(crate) fn definition(&self) -> Value {
        definition_object(&self.policies.definition())
    }

    /// The name of its policy.
    pub(crate) fn policy(&self) -> Option<&str> {
        self.policies.policy().map(|policy| &*policy.name)
    }

    /// The name of its operator policy.
    pub(crate) fn operator_policy(&self) -> Option<&str> {
        self.policies.operator_policy().map(|policy| &*policy.name)
    }

    /// For which part of the time consumers kept up; a whole 0 when there are none.
    pub(crate) fn capacity(&self) -> Value {
        if self.counts.consumers == 0 { 0.into() } else { self.counts.consumer_capacity.into() }
    }

    /// Bytes in its segments; 0 when it was not asked.
    pub(crate) fn disk_bytes(&self) -> u64 {
        self.stats.as_ref().map_or(0, |stats| stats.segment_bytes)
    }

    /// The part of its bytes in segments that is of messages that are not settled; `None` without any.
    pub(crate) fn live_ratio(&self) -> Option<f64> {
        let all = self.disk_bytes();
        (all > 0).then(|| self.counts.live_disk_bytes.min(all) as f64 / all as f64)
    }

    /// The tag of its exclusive consumer.
    pub(crate) fn exclusive_tag(&self) -> Option<&[u8]> {
        self.stats.as_ref()?.exclusive_tag.as_deref()
    }

    /// The tag of its single active consumer.
    pub(crate) fn single_active_tag(&self) -> Option<&[u8]> {
        self.stats.as_ref()?.single_active_tag.as_deref()
    }
}

/// RabbitMQ's word for what a queue does (B172).
pub(crate) fn state(queue: &Queue) -> &'static str {
    let is_unreachable = queue.home_elsewhere().is_some_and(|(_, is_up)| !is_up);
    match queue.condition() {
        _ if is_unreachable => "down",
        Condition::Running if !members::has_leader(queue) => "down",
        Condition::Running => "running",
        Condition::Deleted => "stopped",
        Condition::Crashed => "crashed",
    }
}

fn counts_of(stats: &QueueStats) -> QueueGlance {
    QueueGlance {
        ready: stats.ready,
        unacked: stats.unacked,
        ready_bytes: stats.ready_bytes,
        unacked_bytes: stats.unacked_bytes,
        persistent: stats.persistent,
        persistent_bytes: stats.persistent_bytes,
        in_memory: stats.in_memory,
        memory_bytes: stats.memory_bytes,
        disk_bytes: stats.disk_bytes,
        live_disk_bytes: stats.live_disk_bytes,
        head_timestamp_s: stats.head_timestamp_s,
        consumers: u32::try_from(stats.consumers.len()).unwrap_or(u32::MAX),
        totals: stats.totals,
        consumer_capacity: stats.consumer_capacity,
    }
}
