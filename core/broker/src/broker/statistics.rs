//! Figures for management: counts of the node, and where the time goes.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use queues::{QueueGlance, QueueTotals};

use crate::Broker;
use crate::stages::Stages;
use crate::stats::{ByProtocol, ChurnTotals, ConnectionTotals, DeadLetterTotals, Sizes};
use crate::vhost::Vhost;

impl Broker {
    /// Everything all connections have done since the start, closed ones included. Costs a lock per open connection.
    #[must_use]
    pub fn traffic(&self) -> ConnectionTotals {
        let mut sum = ConnectionTotals::default();
        self.traffic_by_protocol().values().for_each(|totals| sum += totals);
        sum
    }

    /// As [`Broker::traffic`], by protocol; those that nobody has used are left out.
    #[must_use]
    pub fn traffic_by_protocol(&self) -> ByProtocol {
        self.connections().totals_by_protocol(&self.services().counters.connections_gone)
    }

    /// As [`Broker::traffic`], of one vhost, since it was made or the node started.
    #[must_use]
    pub fn vhost_traffic(&self, vhost: &Arc<Vhost>) -> ConnectionTotals {
        self.connections().totals(&vhost.connections_gone, |of| Arc::ptr_eq(of, vhost))
    }

    /// Damaged places in files of streams, and streams of which an unfinished last write was cut, as found since the start.
    #[must_use]
    pub fn stream_faults(&self) -> (u64, u64) {
        self.services().streams.logs.damages_and_cut_tails()
    }

    /// A client of the stream protocol was told a code; those that are no error are not counted.
    pub fn count_stream_error(&self, code: u16) {
        if code > 1
            && let Some(count) = self.services().streams.refusals.get(usize::from(code))
        {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// How often clients of the stream protocol were told a code since the start.
    #[must_use]
    pub fn stream_errors(&self, code: u16) -> u64 {
        let count = self.services().streams.refusals.get(usize::from(code));
        count.map_or(0, |count| count.load(Ordering::Relaxed))
    }

    /// Counts of objects that came and went since the start.
    #[must_use]
    pub fn churn(&self) -> ChurnTotals {
        let counters = &self.services().counters;
        ChurnTotals {
            connections_created: counters.connections_created.now(),
            connections_closed: counters.connections_closed.now(),
            channels_created: counters.channels_created.now(),
            channels_closed: counters.channels_closed.now(),
            queues_declared: counters.queues_declared.now(),
            queues_created: counters.queues_created.now(),
            queues_deleted: counters.queues_deleted.now(),
        }
    }

    /// Dead letters sent since the start. Other deaths stand in [`QueueTotals`] only.
    #[must_use]
    pub fn dead_lettered(&self) -> DeadLetterTotals {
        let counters = &self.services().counters;
        DeadLetterTotals {
            expired: counters.expired_sent.load(Ordering::Relaxed),
            rejected: counters.rejected_sent.load(Ordering::Relaxed),
            dropped: counters.dropped_sent.load(Ordering::Relaxed),
            failed: counters.failed_sent.load(Ordering::Relaxed),
        }
    }

    /// Sizes of all messages that publishers brought since the start.
    #[must_use]
    pub fn message_sizes(&self) -> Sizes {
        self.services().counters.message_sizes.now()
    }

    /// Counts of queues that exist no more. A sum over the queues of the node adds them.
    #[must_use]
    pub fn deleted_queue_totals(&self) -> QueueTotals {
        *self.services().counters.queues_gone.lock()
    }

    /// Sums over all queues of the node, and what deleted ones have counted. Costs two locks per queue.
    #[must_use]
    pub fn queue_sums(&self) -> QueueGlance {
        let mut sums = QueueGlance { totals: self.deleted_queue_totals(), ..QueueGlance::default() };
        for vhost in self.vhosts() {
            vhost.queues().iter().for_each(|queue| sums.add(&queue.glance()));
        }
        sums
    }
}

impl Broker {
    /// Where the time of messages goes.
    pub fn stages(&self) -> &Arc<Stages> {
        &self.services().stages
    }
}
