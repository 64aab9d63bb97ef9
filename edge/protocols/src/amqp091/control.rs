//! Connections of AMQP 0-9-1 as management sees them, and the error with which the broker closes one.

use std::sync::atomic::Ordering;

use broker::{ChannelInfo, CloseReason, ConnectionInfo, ConnectionMemory, TrafficTotals};

use super::deliver::{ChannelOutput, Deliveries};
use super::errors::{Failure, ReplyCode};
use crate::control::Shown;
use crate::held_back::HeldBack;

/// The shared part of a connection.
pub(crate) type Control = crate::control::Control<Listed>;

/// The fields that only connections of AMQP 0-9-1 have in it.
#[derive(Default)]
pub(crate) struct Listed {
    pub(crate) held_back: HeldBack,
}

impl Shown for Listed {
    type Side = Deliveries;
    type Facts = ConnectionInfo;

    fn complete(control: &Control, info: &mut ConnectionInfo) {
        info.channels = control.outbox.lock().state().channels().count();
        info.held_back_ms = control.own.held_back.since_ms();
    }

    fn channels(control: &Control) -> Vec<ChannelInfo> {
        let of = control.channel();
        let mut output = control.outbox.lock();
        let channels = output.state().channels();
        channels.map(|(number, channel)| channel_info(number, channel, of.clone())).collect()
    }

    fn memory(control: &Control) -> ConnectionMemory {
        let strings = {
            let info = control.info.lock();
            let texts = [&info.name, &info.peer_host, &info.host, &info.user];
            let texts: usize = texts.iter().map(|text| text.capacity()).sum();
            texts + info.vhost.capacity() + info.client_properties.capacity()
        };
        let mut output = control.outbox.lock();
        let outgoing = output.held_bytes();
        let channels = output.state().heap_bytes() + output.state().unfinished_bytes;
        let count = output.state().channels().count();
        ConnectionMemory {
            connection: (super::session::FIXED_BYTES + strings) as u64,
            channels: (channels + count * size_of::<super::channel::Channel>()) as u64,
            outgoing: outgoing as u64,
        }
    }

    fn traffic(control: &Control) -> TrafficTotals {
        control.outbox.lock().state().totals()
    }
}

fn channel_info(number: u16, channel: &ChannelOutput, of: ChannelInfo) -> ChannelInfo {
    let facts = &channel.facts;
    let unconfirmed =
        facts.published_latest.load(Ordering::Relaxed).saturating_sub(channel.confirms.settled_count());
    ChannelInfo {
        number,
        transactional: facts.transactional,
        confirm: facts.confirm,
        consumer_count: facts.consumer_count,
        messages_unacknowledged: channel.unacked.len(),
        messages_unconfirmed: usize::try_from(unconfirmed).unwrap_or(usize::MAX),
        messages_uncommitted: facts.messages_uncommitted,
        acks_uncommitted: facts.acks_uncommitted,
        prefetch_count: facts.prefetch,
        global_prefetch_count: facts.global_prefetch,
        traffic: channel.totals(),
        used_ms: channel.used_ms(),
        ..of
    }
}

/// The error that the client gets when the broker closes its connection (B28, B191).
pub(crate) fn forced(reason: CloseReason) -> Failure {
    let text = match reason {
        CloseReason::Shutdown => "broker forced connection closure with reason 'shutdown'".into(),
        CloseReason::Operator(reason) => reason,
        CloseReason::VhostDeleted(vhost) => format!("vhost '{vhost}' is deleted"),
        CloseReason::UserDeleted(user) => format!("user '{user}' is deleted"),
        CloseReason::TakenOver => "another connection has taken its name".into(),
    };
    Failure::new(ReplyCode::ConnectionForced, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forced_closes_have_rabbitmqs_texts() {
        for (reason, text) in [
            (CloseReason::Shutdown, "broker forced connection closure with reason 'shutdown'"),
            (CloseReason::Operator("Closed via management plugin".into()), "Closed via management plugin"),
            (CloseReason::VhostDeleted("v".into()), "vhost 'v' is deleted"),
            (CloseReason::UserDeleted("u".into()), "user 'u' is deleted"),
        ] {
            assert_eq!(forced(reason).reply_text(), format!("CONNECTION_FORCED - {text}"));
        }
    }
}
