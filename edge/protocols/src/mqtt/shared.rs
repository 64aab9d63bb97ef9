//! State that the sessions of a node share.

use super::memory::Memories;
use super::retained::Retainers;

/// State that the sessions of a node share.
#[derive(Default)]
pub struct Shared {
    /// What sessions without a connection are remembered by.
    pub(crate) memories: Memories,
    /// Retained messages.
    pub(crate) retainers: Retainers,
}
