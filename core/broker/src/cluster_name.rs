//! The name of the cluster that clients are shown. Refuses to know how it is written in metadata.

use std::sync::{Arc, OnceLock};

use parking_lot::RwLock;

/// The name that is shown, and who reads it.
pub(crate) struct ClusterName {
    pub(crate) shown: RwLock<Arc<str>>,
    /// Makes a name of the value of the global parameter `cluster_name`.
    pub(crate) reader: OnceLock<fn(&str) -> String>,
}

impl ClusterName {
    pub(crate) fn new(name: &str) -> Self {
        Self { shown: RwLock::new(name.into()), reader: OnceLock::new() }
    }
}
