//! Parts that the queues of a vhost share, so that a million of them do not each have it: their surroundings.

use std::sync::{Arc, Weak};

use crate::announcements::trace_switch::TraceSwitch;
use crate::services::Services;
use crate::vhost::Vhost;

/// Where a queue is: one for all queues of a vhost.
pub(crate) struct Place {
    pub(crate) vhost_name: Arc<str>,
    pub(crate) vhost: Weak<Vhost>,
    pub(crate) services: Arc<Services>,
    pub(crate) trace: TraceSwitch,
}
