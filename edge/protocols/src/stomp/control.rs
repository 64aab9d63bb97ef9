//! Connections of STOMP as management sees them.

use broker::{ChannelInfo, ConnectionInfo, ConnectionMemory, TrafficTotals};

use super::deliver::Side;
use crate::control::{Published, Shown};

/// Socket, timer and task of a connection, which live in `edge/net`, and its session, about.
const FIXED_BYTES: usize = 4096;

/// The number of the one channel that listings show.
pub(crate) const CHANNEL: u16 = 1;

/// The shared part of a connection.
pub(crate) type Control = crate::control::Control<Listed>;

/// The fields that only connections of STOMP have in it.
#[derive(Default)]
pub(crate) struct Listed {
    pub(crate) published: Published,
}

impl Shown for Listed {
    type Side = Side;
    type Facts = ConnectionInfo;

    fn channels(control: &Control) -> Vec<ChannelInfo> {
        if control.info.lock().channels == 0 {
            return Vec::new();
        }
        let (of, traffic) = (control.channel(), Self::traffic(control));
        let mut output = control.outbox.lock();
        let side = output.state();
        vec![ChannelInfo {
            number: CHANNEL,
            confirm: side.confirmed > 0 || !side.receipts.is_empty(),
            consumer_count: side.subscriptions.len(),
            messages_unacknowledged: side.unacked_count(),
            messages_unconfirmed: side.receipts.len(),
            traffic,
            ..of
        }]
    }

    fn memory(control: &Control) -> ConnectionMemory {
        let mut output = control.outbox.lock();
        let outgoing = output.held_bytes() as u64;
        let channels = output.state().heap_bytes() as u64;
        ConnectionMemory { connection: FIXED_BYTES as u64, channels, outgoing }
    }

    fn traffic(control: &Control) -> TrafficTotals {
        let published = control.own.published.traffic();
        let mut output = control.outbox.lock();
        let side = output.state();
        TrafficTotals { confirmed: side.confirmed, deliveries: side.counted, ..published }
    }
}
