//! State that the sessions of a node share.

use super::memory::Memories;
use super::retained::Retainers;

/// State that the sessions of a node share.
#[derive(Default)]
pub struct Shared {
    /// The memories of sessions without a connection.
    pub(crate) memories: Memories,
    /// Retained messages.
    pub(crate) retainers: Retainers,
}
