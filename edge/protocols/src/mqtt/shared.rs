//! State that the sessions of a node share.

use std::sync::Arc;

use broker::User;

use super::memory::Memories;
use super::retained::Retainers;

/// State that the sessions of a node share.
pub struct Shared {
    /// As whom sessions act for the broker itself.
    pub(crate) internal: Arc<User>,
    /// The memories of sessions without a connection.
    pub(crate) memories: Memories,
    /// Retained messages.
    pub(crate) retainers: Retainers,
}

impl Default for Shared {
    fn default() -> Shared {
        Shared {
            internal: Arc::new(User::internal()),
            memories: Memories::default(),
            retainers: Retainers::default(),
        }
    }
}
