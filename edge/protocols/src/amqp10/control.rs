//! Connections of AMQP 1.0 as management sees them.

use broker::{ChannelInfo, ConnectionInfo, ConnectionMemory, SessionInfo, TrafficTotals};

use super::deliver::Deliveries;
use super::listed::session_info;
use crate::control::Shown;
use crate::held_back::HeldBack;

/// The shared part of a connection.
pub(crate) type Control = crate::control::Control<Listed>;

/// The fields that only connections of AMQP 1.0 have in it.
#[derive(Default)]
pub(crate) struct Listed {
    pub(crate) held_back: HeldBack,
}

impl Shown for Listed {
    type Side = Deliveries;
    type Facts = ConnectionInfo;

    fn complete(control: &Control, info: &mut ConnectionInfo) {
        info.channels = control.outbox.lock().state().sessions().count();
        info.held_back_ms = control.own.held_back.since_ms();
    }

    fn channels(control: &Control) -> Vec<ChannelInfo> {
        let of = control.channel();
        let mut output = control.outbox.lock();
        let side = output.state();
        side.sessions()
            .map(|(number, session)| ChannelInfo {
                number,
                confirm: true,
                consumer_count: session.consumer_count,
                messages_unacknowledged: session.unacked.len(),
                messages_unconfirmed: side.unconfirmed(number),
                traffic: side.totals_of(number, session),
                ..of.clone()
            })
            .collect()
    }

    fn sessions(control: &Control) -> Option<Vec<SessionInfo>> {
        let mut output = control.outbox.lock();
        let side: &Deliveries = output.state();
        Some(side.sessions().map(|(channel, session)| session_info(channel, session, side)).collect())
    }

    fn memory(control: &Control) -> ConnectionMemory {
        let mut output = control.outbox.lock();
        let outgoing = output.held_bytes();
        let side = output.state();
        ConnectionMemory {
            connection: super::session::FIXED_BYTES as u64,
            channels: (side.heap_bytes() + side.unfinished_bytes) as u64,
            outgoing: outgoing as u64,
        }
    }

    fn traffic(control: &Control) -> TrafficTotals {
        control.outbox.lock().state().totals()
    }
}
