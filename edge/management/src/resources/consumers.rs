//! Consumers, as listings and pages show them.

use std::sync::Arc;

use broker::{ConsumerSpec, Queue, QueueStats};

use super::members;

/// Queues asked for their contents before the first answer is awaited.
const BATCH: usize = 1024;

/// A consumer of a queue.
pub(crate) struct ConsumerRow {
    pub(crate) queue: Arc<Queue>,
    pub(crate) spec: ConsumerSpec,
    /// It may be served: no single active consumer stands before it.
    pub(crate) is_active: bool,
    /// Its queue has a single active consumer.
    is_single: bool,
}

impl ConsumerRow {
    /// Consumers of a queue that has told what it holds.
    pub(crate) fn of_queue(queue: &Arc<Queue>, stats: QueueStats) -> impl Iterator<Item = ConsumerRow> {
        let (queue, is_single) = (queue.clone(), stats.single_active_tag.is_some());
        let row = move |consumer: broker::ConsumerStats| ConsumerRow {
            queue: queue.clone(),
            spec: consumer.spec,
            is_active: consumer.active,
            is_single,
        };
        stats.consumers.into_iter().map(row)
    }

    /// Consumers of queues, in the order of the queues. Only on a thread that may block.
    pub(crate) fn of_queues(queues: &[Arc<Queue>]) -> impl Iterator<Item = ConsumerRow> {
        queues.chunks(BATCH).flat_map(|batch| {
            let told = members::stats_of(batch).into_iter().map(Option::unwrap_or_default);
            batch.iter().zip(told).flat_map(|(queue, stats)| ConsumerRow::of_queue(queue, stats))
        })
    }

    /// `up`, or with a single active consumer which of the two it is (B134).
    pub(crate) fn activity(&self) -> &'static str {
        match (self.is_single, self.is_active) {
            (false, true) => "up",
            (true, true) => "single_active",
            (_, false) => "waiting",
        }
    }
}
