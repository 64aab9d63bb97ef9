//! Figures that listings show of a queue. Refuses to change anything.

use super::block::Block;
use super::level::Level;
use super::messages::Store;
use crate::traffic::InMemory;

impl Store {
    /// Counted message by message in the blocks that are in memory while others are on disk.
    pub(crate) fn in_memory(&self) -> InMemory {
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
    pub(crate) fn head_timestamp_s(&self) -> Option<u64> {
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
    block.stored(number)?.message.timestamp_s()
}
