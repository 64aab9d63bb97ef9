//! Metrics of connections and their channels. Refuses to know pages.

use std::io;

use broker::{Broker, ChannelInfo, ConnectionTotals};

use super::families::Asked;
use super::metric::{Metric, counter, deliveries, gauge, write_objects};
use super::page::{Page, labels};
use crate::resources::connections::pid;

/// The figures of a connection, or of all.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Connection {
    pub(crate) totals: ConnectionTotals,
    pub(crate) pending_bytes: u64,
    pub(crate) channels: u64,
}

pub(crate) const BYTES: &[Metric<Connection>] = &[
    counter("connection_incoming_bytes_total", "Bytes received from clients", |it| {
        it.totals.received_bytes as f64
    }),
    counter("connection_outgoing_bytes_total", "Bytes sent to clients", |it| it.totals.sent_bytes as f64),
];

pub(crate) const PACKETS: &[Metric<Connection>] = &[
    counter("connection_incoming_packets_total", "Reads from sockets that brought something", |it| {
        it.totals.received_count as f64
    }),
    counter("connection_outgoing_packets_total", "Writes to sockets", |it| it.totals.sent_count as f64),
    gauge("connection_pending_packets", "Bytes that wait to be sent", |it| it.pending_bytes as f64),
    gauge("connection_channels", "Channels of the connection", |it| it.channels as f64),
];

/// The messages that a channel holds now.
pub(crate) const CHANNELS: &[Metric<ChannelInfo>] = &[
    gauge("channel_consumers", "Consumers on the channel", |it| it.consumer_count as f64),
    gauge("channel_messages_unacked", "Deliveries not settled", |it| it.messages_unacknowledged as f64),
    gauge("channel_messages_unconfirmed", "Publishes not confirmed", |it| it.messages_unconfirmed as f64),
    gauge("channel_messages_uncommitted", "Publishes in the open transaction", |it| {
        it.messages_uncommitted as f64
    }),
    gauge("channel_acks_uncommitted", "Acks in the open transaction", |it| it.acks_uncommitted as f64),
    gauge("consumer_prefetch", "Prefetch of later consumers; 0 is no limit", |it| {
        f64::from(it.prefetch_count)
    }),
    gauge("channel_prefetch", "Prefetch of the whole channel; 0 is no limit", |it| {
        f64::from(it.global_prefetch_count)
    }),
];

/// The messages that a channel has published.
pub(crate) const PUBLISHES: &[Metric<ChannelInfo>] = &[
    counter("channel_messages_published_total", "Messages published", |it| it.traffic.published as f64),
    counter("channel_messages_confirmed_total", "Publishes confirmed", |it| it.traffic.confirmed as f64),
    counter(
        "channel_messages_unroutable_returned_total",
        "Mandatory messages that went nowhere and were returned",
        |it| it.traffic.returned as f64,
    ),
    counter("channel_messages_unroutable_dropped_total", "Other messages that went nowhere", |it| {
        it.traffic.dropped as f64
    }),
];

/// The messages that a channel was given.
pub(crate) const DELIVERIES: &[Metric<ChannelInfo>] = deliveries!("channel_", traffic.deliveries);

/// All connections, closed ones included where that only grows.
pub(crate) fn connection_sum(broker: &Broker) -> Connection {
    let mut sum = Connection { totals: broker.traffic(), ..Connection::default() };
    for (_, control) in broker.connections().all() {
        let info = control.info();
        sum.pending_bytes += info.send_pending_bytes;
        sum.channels += info.channels as u64;
    }
    sum
}

/// All channels of open connections, and how many they are and publish.
#[derive(Default)]
pub(crate) struct Channels {
    pub(crate) sum: ChannelInfo,
    pub(crate) count: u64,
    pub(crate) publishers: u64,
}

/// The figures of the channels of open connections now; the totals of them and closed ones.
pub(crate) fn channel_sum(broker: &Broker) -> Channels {
    let mut all = Channels::default();
    for (_, control) in broker.connections().all() {
        for channel in control.channels() {
            all.count += 1;
            all.publishers += u64::from(channel.traffic.published > 0);
            all.sum.consumer_count += channel.consumer_count;
            all.sum.messages_unacknowledged += channel.messages_unacknowledged;
            all.sum.messages_unconfirmed += channel.messages_unconfirmed;
            all.sum.messages_uncommitted += channel.messages_uncommitted;
            all.sum.acks_uncommitted += channel.acks_uncommitted;
            all.sum.prefetch_count = all.sum.prefetch_count.saturating_add(channel.prefetch_count);
            let global = &mut all.sum.global_prefetch_count;
            *global = global.saturating_add(channel.global_prefetch_count);
        }
    }
    all.sum.traffic = broker.traffic().traffic;
    all
}

/// A sample per metric and connection. RabbitMQ calls the label `channel`.
pub(crate) fn each_connection(
    asked: &Asked<'_>,
    page: &mut Page<'_>,
    metrics: &[Metric<Connection>],
) -> io::Result<()> {
    let open = asked.broker.connections().all().into_iter();
    let seen =
        open.map(|(id, control)| (id, control.info())).filter(|(_, info)| asked.wants_vhost(&info.vhost));
    let objects = seen.map(|(id, info)| {
        let connection = Connection {
            totals: info.totals,
            pending_bytes: info.send_pending_bytes,
            channels: info.channels as u64,
        };
        (labels(&[("channel", pid(id, 0).as_bytes())]), connection)
    });
    write_objects(page, metrics, objects)
}

/// A sample per metric and channel.
pub(crate) fn each_channel(
    asked: &Asked<'_>,
    page: &mut Page<'_>,
    metrics: &[Metric<ChannelInfo>],
) -> io::Result<()> {
    let open = asked.broker.connections().all().into_iter();
    let channels = open.flat_map(|(id, control)| control.channels().into_iter().map(move |it| (id, it)));
    let objects = channels
        .filter(|(_, channel)| asked.wants_vhost(&channel.vhost))
        .map(|(id, channel)| (labels(&[("channel", pid(id, channel.number).as_bytes())]), channel));
    write_objects(page, metrics, objects)
}
