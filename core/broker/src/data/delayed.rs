//! Delayed messages (`x-delayed-message`): how long one waits, and how it goes on when its time has come.
//!
//! A delayed exchange has a store, a queue that nobody finds by name. A message that is to wait goes there as it would go to any
//! queue: its confirm waits for the disk, and `mandatory` finds it routed (README of the plugin, "Limitations": the flag is not
//! supported). A due message leaves the store the way dead letters leave a queue, and its removal is logged when it is safe in the queues
//! it went to: a crash in between delivers it again rather than not at all.

use std::sync::Arc;

use message::{
    Edit, Facts, Format, History, MessageView, Properties, TableBuf, carbon_copies, headers_of, rewrite,
};
use routing::delay_ms;

use super::batch::BatchConfirms;
use super::dead_letter::Outgoing;
use crate::cell::{Queue, QueueRef};
use crate::data::letter::DeadLetter;
use crate::vhost::Vhost;

/// Routes what is due from the exchange where it waited. Of an exchange that is gone, so is all that waited.
pub(super) fn hand_over(store: &Queue, due: &[DeadLetter], confirms: Option<&Arc<BatchConfirms>>) {
    let Some(vhost) = store.place.vhost.upgrade() else { return };
    let Some(exchange) = vhost.exchange(store.name()).filter(|found| found.id == store.id.0) else {
        return;
    };
    let (mut outgoing, mut scratch) = (Outgoing::new(store, confirms), Vhost::scratch());
    let mut queues: Vec<QueueRef> = Vec::new();
    for message in due {
        let came = message.view();
        // Only AMQP 0-9-1 shows how long the message waited; it is routed as if each format did.
        let raw = if came.format() == Format::Amqp091 {
            negated(came.properties)
        } else {
            came.properties.to_vec()
        };
        let view = MessageView { properties: &raw, ..came };
        let routed = negated(view.plain().properties().raw());
        let properties = Properties::new(&routed);
        let history = History::new(message.annotations());
        let copies = carbon_copies(&properties);
        let keys = history.keys(message.routing_key(), &copies);
        queues.clear();
        vhost.route(&exchange, &keys, properties, &mut scratch, &mut queues);
        // Its expiration was checked when it was published.
        let facts = Facts::of(&view).unwrap_or_default();
        vhost.remember(scratch.on_duty(), view, facts, message.annotations());
        outgoing.add(message, (view, facts, message.annotations()), &queues);
    }
    outgoing.send();
}

/// Properties with the delay made negative: consumers see how long the message waited, and no exchange delays it again.
fn negated(raw: &[u8]) -> Vec<u8> {
    let Some(headers) = headers_of(raw) else { return raw.to_vec() };
    let Some(delay_ms) = delay_ms(headers) else { return raw.to_vec() };
    let mut changed = TableBuf::new();
    for entry in headers.entries().flatten() {
        if *entry.name == *b"x-delay" {
            changed.push_i64("x-delay", -delay_ms.cast_signed());
        } else {
            changed.push_entry(&entry);
        }
    }
    rewrite(raw, &[Edit::Headers(changed.as_table())])
}

#[cfg(test)]
mod tests {
    use message::{PropertiesBuf, Value};

    use super::*;

    #[test]
    fn a_delay_is_negated_and_the_other_headers_stay_where_they_are() {
        let mut headers = TableBuf::new();
        headers.push_str("a", "1").push_str("x-delay", "1500").push_bool("b", true);
        let properties = PropertiesBuf { headers: Some(headers), ..PropertiesBuf::default() };
        let mut raw = Vec::new();
        properties.encode(&mut raw).unwrap();
        let changed = negated(&raw);
        let headers = headers_of(&changed).unwrap();
        let names: Vec<_> = headers.entries().flatten().map(|entry| entry.name.to_vec()).collect();
        assert_eq!(names, [&b"a"[..], b"x-delay", b"b"]);
        assert_eq!(headers.get("x-delay"), Some(Value::I64(-1500)));
        assert_eq!(delay_ms(headers), None);
        assert_eq!(negated(&changed), changed);
    }
}
