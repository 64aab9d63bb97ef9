//! Questions of shared bodies to the node that has them.

use std::sync::Arc;

use commitlog::{LogError, Position, RangeBytes};

/// Questions of bodies to the node that has them.
pub(crate) trait BodyNode: Send + Sync {
    /// Segments of bodies may hold nothing any more: they go, soon and on another thread.
    fn free_segments_soon(self: Arc<Self>);

    /// They go now.
    fn free_segments(&self);

    /// A range of the message log.
    ///
    /// # Errors
    /// It cannot be read.
    fn read_log(&self, position: Position, bytes: u32) -> Result<RangeBytes, LogError>;

    /// Where the message log ends now.
    fn log_goal(&self) -> u64;
}
