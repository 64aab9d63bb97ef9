//! What listings show of a queue. Refuses to change anything.

use wire::amqp091::Properties;

use super::block::Block;
use super::level::Level;
use crate::classic::machine::Classic;
use crate::message::{InMemory, QueueGlance, QueueStats};

impl Classic {
    /// Everything listings show.
    pub fn stats(&self, now_ms: u64) -> QueueStats {
        let consumers = self.consumers.stats();
        let active = consumers.iter().find(|consumer| consumer.active && self.config.single_active);
        let exclusive = consumers.iter().find(|consumer| consumer.spec.exclusive);
        QueueStats {
            ready: self.ready,
            unacked: self.unacked,
            ready_bytes: self.ready_bytes,
            unacked_bytes: self.unacked_bytes,
            persistent: self.persistent,
            persistent_bytes: self.persistent_bytes,
            in_memory: self.in_memory(),
            memory_bytes: self.heap_bytes() as u64,
            resident_bytes: self.memory_bytes as u64,
            disk_bytes: self.disk_bytes(),
            live_disk_bytes: self.live_disk_bytes(),
            segment_bytes: self.all_segment_bytes + self.log_bytes(),
            head_timestamp_s: self.head_timestamp_s(),
            active_ms: self.active_ms,
            single_active_tag: active.map(|consumer| consumer.spec.tag.clone()),
            exclusive_tag: exclusive.map(|consumer| consumer.spec.tag.clone()),
            totals: *self.tally.now(),
            consumer_capacity: self.consumer_capacity(now_ms),
            consumers,
        }
    }

    /// What lists of many queues show.
    pub fn glance(&self, now_ms: u64) -> QueueGlance {
        QueueGlance {
            ready: self.ready,
            unacked: self.unacked,
            ready_bytes: self.ready_bytes,
            unacked_bytes: self.unacked_bytes,
            persistent: self.persistent,
            persistent_bytes: self.persistent_bytes,
            in_memory: self.in_memory(),
            memory_bytes: self.memory_bytes as u64,
            disk_bytes: self.disk_bytes(),
            live_disk_bytes: self.live_disk_bytes(),
            head_timestamp_s: self.head_timestamp_s(),
            consumers: self.consumers.count(),
            totals: *self.tally.now(),
            consumer_capacity: self.consumer_capacity(now_ms),
        }
    }

    fn consumer_capacity(&self, now_ms: u64) -> f64 {
        if self.consumers.count() == 0 { 0.0 } else { self.tally.capacity(now_ms) }
    }

    /// Counted message by message in the blocks that are in memory while others are on disk.
    fn in_memory(&self) -> InMemory {
        if self.blocks_on_disk() == 0 {
            let body_bytes = self.ready_bytes + self.unacked_bytes;
            return InMemory { ready: self.ready, unacked: self.unacked, body_bytes };
        }
        let mut sum = InMemory::default();
        for block in self.levels.iter().flat_map(Level::blocks_in_memory) {
            sum.ready += u64::from(block.live - block.unacked);
            sum.unacked += u64::from(block.unacked);
            sum.body_bytes += block.live_body_bytes();
        }
        sum
    }

    /// The `timestamp` of the message that comes next, or of the oldest one that is not settled if that is less: RabbitMQ's
    /// `head_message_timestamp`. `None` when they have none or are not in memory.
    fn head_timestamp_s(&self) -> Option<u64> {
        let next = self.top_level().and_then(|level| {
            let level = &self.levels[level];
            level.head().and_then(|number| timestamp_s(level.block(number)?, number))
        });
        let some_are_out = (self.unacked > 0).then_some(&self.levels);
        let unsettled = some_are_out.into_iter().flatten().rev().find_map(|level| {
            let block = level.blocks().find(|block| block.unacked > 0)?;
            let number = (block.first..block.end()).find(|number| level.is_unacked(*number))?;
            timestamp_s(block, number)
        });
        next.into_iter().chain(unsettled).min()
    }
}

fn timestamp_s(block: &Block, number: u64) -> Option<u64> {
    Properties::new(block.stored(number)?.message.properties).timestamp()
}
