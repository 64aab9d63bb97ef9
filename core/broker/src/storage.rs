//! State of the message log and the segments, for people who ask. Refuses to know queues.

use std::sync::atomic::Ordering;

use crate::Broker;

/// The storage of a node, now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StorageState {
    /// Confirms of persistent messages wait for a sync, not only for a write.
    pub fsync: bool,
    /// Bytes appended to the message log that are not durable yet.
    pub log_pending_bytes: u64,
    /// Publishers wait because the log or the segments have too much to write.
    pub holds_publishers: bool,
    /// Bytes of backlogs on their way to or from disk.
    pub segment_pending_bytes: u64,
    /// Bytes of messages in queues' segments that are not settled, ...
    pub segment_live_bytes: u64,
    /// ... and other bytes there. Bodies that queues share are in neither.
    pub segment_dead_bytes: u64,
    /// Why the log has to try its latest write again; `None` while there is room.
    pub waits_for_room: Option<String>,
    /// Why storage has failed; nothing durable is accepted any more. `None` while it works.
    pub failure: Option<String>,
}

impl Broker {
    /// The state of the message log and the segments.
    pub fn storage_state(&self) -> StorageState {
        let services = self.services();
        StorageState {
            fsync: self.options().fsync,
            log_pending_bytes: services.log.pending_bytes(),
            holds_publishers: services.is_pressed(),
            segment_pending_bytes: services.segments.queued_bytes(),
            segment_live_bytes: services.segment_totals.live_bytes(),
            segment_dead_bytes: services.segment_totals.dead_bytes(),
            waits_for_room: services.log.waits_for_room().map(|failure| failure.to_string()),
            failure: self.alarms().storage_failure(),
        }
    }

    /// How often a queue did not deliver for [`crate::BrokerOptions::stall_ms`] though messages were ready and a consumer
    /// could take them, since start.
    pub fn delivery_stalls(&self) -> u64 {
        self.services().stalls.count.load(Ordering::Relaxed)
    }
}
