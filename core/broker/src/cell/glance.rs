//! Columns that lists of many queues show.

use std::sync::Arc;

use queues::{Machine, QueueGlance};

use crate::cell::Queue;
use crate::cell::condition::Condition;

impl Queue {
    /// Columns of lists of many queues, read without an answer to wait for: under a microsecond, unless somebody runs the
    /// queue now; then after the batch it is at. Zeros if the queue is deleted or out of service.
    #[must_use]
    pub fn glance(self: &Arc<Self>) -> QueueGlance {
        if self.condition() != Condition::Running {
            return QueueGlance::default();
        }
        let mut glance = self.read_used(|machine, now_ms| machine.glance(now_ms)).unwrap_or_default();
        // Without what is known of messages on disk, for which all of them would have to be looked at.
        glance.memory_bytes += self.fixed_bytes() as u64;
        glance
    }
}
