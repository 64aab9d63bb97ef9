//! The node as shared bodies see it.

use std::sync::{Arc, Weak};

use commitlog::{LogError, Position, RangeBytes};

use crate::background::Job;
use crate::bodies::BodyNode;
use crate::services::Services;

impl BodyNode for Services {
    fn free_segments_soon(self: Arc<Self>) {
        let node: Arc<dyn BodyNode> = self.clone();
        let node: Weak<dyn BodyNode> = Arc::downgrade(&node);
        self.background.submit(Job::FreeBodySegments(node));
    }

    fn free_segments(&self) {
        self.free_body_segments();
    }

    fn read_log(&self, position: Position, bytes: u32) -> Result<RangeBytes, LogError> {
        self.log.read_range(position, bytes)
    }

    fn log_goal(&self) -> u64 {
        self.log.goal().0
    }
}
