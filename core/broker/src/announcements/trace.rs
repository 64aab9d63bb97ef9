//! The trace of messages, RabbitMQ's firehose (B175): published and delivered messages of a vhost, copied to the exchange
//! `amq.rabbitmq.trace` while an operator wants it.
//!
//! In memory only: a restart switches it off, as with RabbitMQ. Messages that come from the trace exchange are never
//! traced. Refuses to know how copies get to their queues.

use std::sync::{Arc, Weak};

use message::{
    ArrayBuf, History, MessageView, Properties, PropertiesBuf, ShortStr, Table, TableBuf, Value,
    carbon_copies,
};
use queues::{ConsumerId, Delivery};

use super::outlet::Announcement;
use crate::cell::Queue;

/// The exchange of every vhost that traces go to.
pub(crate) const TRACE_EXCHANGE: &[u8] = b"amq.rabbitmq.trace";

/// The publisher or receiver of a message.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) vhost: &'a Arc<str>,
    pub(crate) node: &'a str,
    pub(crate) connection: &'a str,
    pub(crate) channel: u16,
    pub(crate) user: &'a str,
}

/// The copy of a published message with what it is routed to; `None` for one that is a trace itself.
pub(crate) fn published(
    place: Place<'_>,
    message: MessageView<'_>,
    keys: &[&[u8]],
    routed_queues: &[&[u8]],
) -> Option<Announcement> {
    let routed = array_of(routed_queues);
    let special = ("routed_queues", Value::Array(routed.as_array()));
    announcement(place, message, (b"publish.", message.exchange), keys, special)
}

/// The copy of a message delivered from a queue, named by the keys that it travels with; `None` for one that is a trace itself.
pub(crate) fn delivered(
    place: Place<'_>,
    queue: &Queue,
    message: MessageView<'_>,
    annotations: &[u8],
    redelivered: bool,
) -> Option<Announcement> {
    let copies = carbon_copies(&message.plain().properties());
    let keys = History::new(annotations).keys(message.routing_key, &copies);
    let special = ("redelivered", Value::I32(redelivered.into()));
    announcement(place, message, (b"deliver.", queue.name()), &keys, special)
}

fn array_of(names: &[&[u8]]) -> ArrayBuf {
    let mut array = ArrayBuf::new();
    for name in names {
        array.push_str(name);
    }
    array
}

/// Headers stand in the order of their names, as RabbitMQ sends them.
fn announcement(
    place: Place<'_>,
    message: MessageView<'_>,
    key: (&[u8], &[u8]),
    keys: &[&[u8]],
    special: (&str, Value<'_>),
) -> Option<Announcement> {
    if message.exchange == TRACE_EXCHANGE {
        return None;
    }
    let properties = table_of(&message.plain().properties());
    let routing_keys = array_of(keys);
    let mut headers = TableBuf::new();
    headers
        .push_i32("channel", place.channel.into())
        .push_str("connection", place.connection)
        .push_str("exchange_name", message.exchange)
        .push_str("node", place.node)
        .push_table("properties", properties.as_table())
        .push_raw(special.0, special.1)
        .push_array("routing_keys", routing_keys.as_array())
        .push_str("user", place.user)
        .push_str("vhost", &**place.vhost);
    let mut raw = Vec::new();
    let all = PropertiesBuf { headers: Some(headers), ..PropertiesBuf::default() };
    all.encode(&mut raw).expect("there is no string among them");
    Some(Announcement {
        vhost: place.vhost.clone(),
        exchange: TRACE_EXCHANGE,
        key: [key.0, key.1].concat(),
        properties: raw,
        body: message.body.into(),
    })
}

/// A message's properties as a table, the last one first, as RabbitMQ writes them.
fn table_of(properties: &Properties<'_>) -> TableBuf {
    let mut table = TableBuf::new();
    let text = |table: &mut TableBuf, name: &str, value: Option<ShortStr<'_>>| {
        if let Some(value) = value {
            table.push_str(name, value.as_bytes());
        }
    };
    text(&mut table, "cluster_id", properties.cluster_id());
    text(&mut table, "app_id", properties.app_id());
    text(&mut table, "user_id", properties.user_id());
    text(&mut table, "type", properties.type_());
    if let Some(seconds) = properties.timestamp() {
        // RabbitMQ writes 32 bits whatever is lost by that.
        match i32::try_from(seconds) {
            Ok(seconds) => table.push_i32("timestamp", seconds),
            Err(_) => table.push_i64("timestamp", i64::try_from(seconds).unwrap_or(i64::MAX)),
        };
    }
    text(&mut table, "message_id", properties.message_id());
    text(&mut table, "expiration", properties.expiration());
    text(&mut table, "reply_to", properties.reply_to());
    text(&mut table, "correlation_id", properties.correlation_id());
    if let Some(priority) = properties.priority() {
        table.push_i32("priority", priority.into());
    }
    if let Some(mode) = properties.delivery_mode() {
        table.push_i32("delivery_mode", mode.into());
    }
    if let Some(headers) = properties.headers() {
        table.push_table("headers", Table::from_raw(headers.raw()));
    }
    text(&mut table, "content_encoding", properties.content_encoding());
    text(&mut table, "content_type", properties.content_type());
    table
}

impl Queue {
    /// A consumer has taken these messages: copies of them go to the trace.
    #[cold]
    pub(crate) fn trace_delivered(&self, consumer: ConsumerId, channel: u16, run: &[Delivery<'_>]) {
        let Some(control) = self.services().control.get().and_then(Weak::upgrade) else { return };
        let Some((connection, user)) = control.name_and_user(consumer.connection) else { return };
        let node = &self.services().announcer.node;
        let place =
            Place { vhost: &self.place.vhost_name, node, connection: &connection, channel, user: &user };
        for delivery in run {
            delivered(place, self, delivery.message, delivery.annotations, delivery.redelivered)
                .into_iter()
                .for_each(|copy| self.services().announcer.outlet.say(copy));
        }
    }
}
