//! Whether a majority of the cluster knows that this node is there. If not, others may lead its queues by now: it delivers nothing of them then.
//!
//! The node has to be linked with a majority of those that vote, and to know the leader of the metadata. Then it asks the group a question. When
//! that has its answer, the node has applied all that the others decided before.

use platform::Monotonic;

/// A node that knows no leader of the metadata for so long may be one that the leader does not see.
pub(super) const LEADERLESS_NS: u64 = 1_000_000_000;

/// See the module.
#[derive(Default)]
pub(super) struct Trust {
    /// The number of the latest question.
    pub(super) question: u64,
    /// Whether it is open, or was answered.
    pub(super) is_asked: bool,
    pub(super) is_heard: bool,
    pub(super) leaderless_since: Option<Monotonic>,
}

impl Trust {
    /// A question has its answer, or has waited for too long.
    pub(super) fn heard(&mut self, question: u64, is_heard: bool) {
        if self.question == question && self.is_asked {
            (self.is_asked, self.is_heard) = (is_heard, is_heard);
        }
    }
}
