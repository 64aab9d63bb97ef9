//! Whether messages of a vhost are traced.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether messages of a vhost are traced; shared by the vhost, its queues and its publishers.
#[derive(Clone, Debug, Default)]
pub(crate) struct TraceSwitch(Arc<AtomicBool>);

impl TraceSwitch {
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn set(&self, tracing: Tracing) {
        self.0.store(tracing == Tracing::On, Ordering::Relaxed);
    }
}

/// Whether messages of a vhost are copied to its trace exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tracing {
    /// They are.
    On,
    /// They are not.
    Off,
}
