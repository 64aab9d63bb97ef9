//! Figures that listings show of a queue. Refuses to change anything.

use super::state::Service;
use crate::store::Store;
use crate::traffic::{QueueGlance, QueueStats};

impl Service {
    /// Everything listings show.
    pub(crate) fn stats(&self, store: &Store, heap_bytes: usize, now_ms: u64) -> QueueStats {
        let consumers = self.consumers.stats();
        let active = consumers.iter().find(|consumer| consumer.active && self.config.single_active);
        let exclusive = consumers.iter().find(|consumer| consumer.spec.exclusive);
        QueueStats {
            ready: store.ready,
            unacked: store.unacked,
            ready_bytes: store.ready_bytes,
            unacked_bytes: store.unacked_bytes,
            persistent: store.persistent,
            persistent_bytes: store.persistent_bytes,
            in_memory: store.in_memory(),
            memory_bytes: heap_bytes as u64,
            resident_bytes: store.memory_bytes as u64,
            disk_bytes: store.disk_bytes(),
            live_disk_bytes: store.live_disk_bytes(),
            segment_bytes: store.all_segment_bytes + store.log_bytes(),
            head_timestamp_s: store.head_timestamp_s(),
            active_ms: self.active_ms,
            single_active_tag: active.map(|consumer| consumer.spec.tag.clone()),
            exclusive_tag: exclusive.map(|consumer| consumer.spec.tag.clone()),
            totals: self.totals(store),
            consumer_capacity: self.consumer_capacity(now_ms),
            consumers,
            ready_by_priority: store.ready_by_level(),
            ready_returned: store.returns.as_ref().map_or(0, |returns| returns.ready()),
            delayed: store.returns.as_ref().map_or(0, |returns| returns.delayed()),
            members: Vec::new(),
        }
    }

    /// The figures that lists of many queues show.
    pub(crate) fn glance(&self, store: &Store, now_ms: u64) -> QueueGlance {
        QueueGlance {
            ready: store.ready,
            unacked: store.unacked,
            ready_bytes: store.ready_bytes,
            unacked_bytes: store.unacked_bytes,
            persistent: store.persistent,
            persistent_bytes: store.persistent_bytes,
            in_memory: store.in_memory(),
            memory_bytes: store.memory_bytes as u64,
            disk_bytes: store.disk_bytes(),
            live_disk_bytes: store.live_disk_bytes(),
            head_timestamp_s: store.head_timestamp_s(),
            consumers: self.consumers.count(),
            totals: self.totals(store),
            consumer_capacity: self.consumer_capacity(now_ms),
        }
    }

    fn consumer_capacity(&self, now_ms: u64) -> f64 {
        if self.consumers.count() == 0 { 0.0 } else { self.tally.capacity(now_ms) }
    }
}
