//! The outcome of a deletion.

/// Result of queue.delete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeletedQueue {
    /// Ready messages that went with it; 0 when there was no such queue (B78).
    pub ready: u64,
}
