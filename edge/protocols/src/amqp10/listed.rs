//! Links as management lists them: the facts of each when it is attached, and the counters that its task moves.
//!
//! Refuses to know how lists are shown.

use std::sync::atomic::{AtomicU32, Ordering};

use broker::{FilterInfo, LinkInfo, SessionInfo};

use super::deliver::{Deliveries, SessionOutput};

/// Bytes of a name that lists show.
const NAME_BYTES_MAX: usize = 255;

/// A name as lists show it: clients may give links names as long as a frame.
pub(crate) fn shown(name: &str) -> Box<str> {
    name[..name.floor_char_boundary(NAME_BYTES_MAX)].into()
}

/// A link, shared by its task and the threads that list it.
#[derive(Debug)]
pub(crate) struct Listed {
    pub(crate) name: Box<str>,
    /// Target, or source; `None` of the anonymous terminus.
    pub(crate) address: Option<Box<str>>,
    /// Largest message, bytes; 0 is any.
    pub(crate) message_bytes_max: u64,
    pub(crate) settle_mode: &'static str,
    pub(crate) end: End,
    pub(crate) counts: Counts,
}

/// Which way messages go.
#[derive(Debug)]
pub(crate) enum End {
    /// From the client; the place of what is on its way, if any may be.
    Incoming { place: Option<usize> },
    /// To the client; the number on the delivery side, if a queue or somebody else delivers.
    Outgoing { outlet: Option<u32>, queue: Box<[u8]>, filters: Vec<FilterInfo> },
}

/// Counters of a link that no delivery side counts.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    delivery_count: AtomicU32,
    credit: AtomicU32,
}

impl Counts {
    /// Says how far the link is.
    pub(crate) fn note(&self, delivery_count: u32, credit: u32) {
        self.delivery_count.store(delivery_count, Ordering::Relaxed);
        self.credit.store(credit, Ordering::Relaxed);
    }
}

impl Listed {
    /// As [`LinkInfo`], by its handle.
    fn info(&self, handle: u32, side: &Deliveries) -> LinkInfo {
        let mut info = LinkInfo {
            handle,
            name: self.name.clone().into(),
            address: self.address.clone().map(Into::into),
            max_message_size: self.message_bytes_max,
            delivery_count: self.counts.delivery_count.load(Ordering::Relaxed),
            credit: self.counts.credit.load(Ordering::Relaxed),
            settle_mode: self.settle_mode,
            ..LinkInfo::default()
        };
        match &self.end {
            End::Incoming { place } => {
                let progress = place.and_then(|place| side.progress_at(place));
                info.unconfirmed_messages = progress.map_or(0, |progress| progress.unconfirmed as usize);
            }
            End::Outgoing { outlet, queue, filters } => {
                info.queue = String::from_utf8_lossy(queue).into_owned();
                info.filters.clone_from(filters);
                if let Some(outlet) = outlet.and_then(|outlet| side.outlet_at(outlet)) {
                    (info.delivery_count, info.credit) = (outlet.delivery_count, outlet.credit());
                    info.has_timed_out = outlet.has_timed_out;
                }
            }
        }
        info
    }

    /// Bytes on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        let filters = match &self.end {
            End::Incoming { .. } => 0,
            End::Outgoing { queue, filters, .. } => {
                let of =
                    |filter: &FilterInfo| size_of::<FilterInfo>() + filter.value.len() + filter.name.len();
                queue.len() + filters.iter().map(of).sum::<usize>()
            }
        };
        size_of::<Listed>() + self.name.len() + self.address.as_ref().map_or(0, |text| text.len()) + filters
    }
}

/// A session with its links.
pub(crate) fn session_info(channel: u16, session: &SessionOutput, side: &Deliveries) -> SessionInfo {
    let (mut incoming_links, mut outgoing_links) = (Vec::new(), Vec::new());
    for (handle, listed) in &session.listed {
        let links = match listed.end {
            End::Incoming { .. } => &mut incoming_links,
            End::Outgoing { .. } => &mut outgoing_links,
        };
        links.push(listed.info(*handle, side));
    }
    SessionInfo {
        channel_number: channel,
        handle_max: session.handle_max,
        next_incoming_id: session.next_incoming_id,
        incoming_window: session.incoming_window,
        next_outgoing_id: session.next_outgoing_id,
        remote_incoming_window: session.window,
        remote_outgoing_window: session.remote_outgoing_window,
        outgoing_unsettled_deliveries: session.unacked.len(),
        incoming_links,
        outgoing_links,
    }
}
