//! A connection's tools for publishing. They are made with the first publish: clients that only listen have none.

use std::sync::Arc;

use broker::{PublishChannel, PublishCounters, Publisher};

use super::acks::Confirmed;
use super::deliver::Confirms;
use super::work::Work;

/// Numbers of the two ways to publish, in traces.
const WITHOUT_ACKS: u16 = 0;
const WITH_ACKS: u16 = 1;

/// The publishing side of a connection.
pub(crate) struct Publishing {
    pub(crate) publisher: Publisher,
    pub(crate) without_acks: PublishChannel,
    pub(crate) with_acks: PublishChannel,
    /// Nobody has asked for the counters.
    is_new: bool,
}

impl Publishing {
    pub(crate) fn new(work: &Work) -> Box<Publishing> {
        let mut with_acks = PublishChannel::numbered(WITH_ACKS);
        let confirms = Confirms { outbox: work.sink.outbox.clone(), which: Confirmed::Routed };
        with_acks.enable_confirms(Arc::new(confirms));
        Box::new(Publishing {
            publisher: Publisher::new(&work.broker, &work.principal),
            without_acks: PublishChannel::numbered(WITHOUT_ACKS),
            with_acks,
            is_new: true,
        })
    }

    /// Counts of published messages, for listings. The first question creates them.
    pub(crate) fn take_counters(&mut self) -> Option<Vec<Arc<PublishCounters>>> {
        let is_new = std::mem::take(&mut self.is_new);
        is_new.then(|| vec![self.without_acks.counters(), self.with_acks.counters()])
    }
}
