//! Queues that do not deliver though they could: noticed once, and told of on the exchange of events.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use message::{Properties, Table, Value};
use queues::ConsumerId;

use super::super::{Event, Queue};
use super::Bench;
use crate::{BindRequest, BrokerOptions, DestinationName};

/// A queue with a consumer that takes nothing, two messages, and a watch that does not wait.
fn stalled(bench: &Bench) -> Arc<Queue> {
    let queue = bench.declare("q", Table::EMPTY);
    bench.told.refuses.store(true, Ordering::Relaxed);
    bench.consume("q", 1).expect("it may");
    bench.publish("q", &["a", "b"]);
    look_again(&queue);
    queue
}

fn look_again(queue: &Arc<Queue>) {
    (0..3).for_each(|_| queue.submit(Event::Touch));
}

/// Its session takes messages again; the prefetch is 1.
fn goes_on(bench: &Bench, queue: &Arc<Queue>) {
    bench.told.refuses.store(false, Ordering::Relaxed);
    queue.resume(ConsumerId { connection: bench.principal.connection, token: 1 });
}

#[test]
fn messages_that_nobody_is_given_though_somebody_could_take_them_are_noticed_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let bench = Bench::with(folder.path(), BrokerOptions { stall_ms: 0, ..BrokerOptions::default() });
    let queue = stalled(&bench);
    let examined = queue.examine().wait();
    assert_eq!(bench.broker.delivery_stalls(), 1);
    assert!(examined.holds[0].could_be_served() && examined.view.stats.ready == 2, "{examined:?}");
    goes_on(&bench, &queue);
    assert_eq!(queue.examine().wait().view.stats.ready, 1, "its prefetch is 1");
    look_again(&queue);
    assert_eq!(bench.broker.delivery_stalls(), 1, "it waits for an ack, which is no fault");
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn shown(value: &Value<'_>) -> String {
    match value {
        Value::LongStr(bytes) => text(bytes),
        Value::I64(number) => number.to_string(),
        other => panic!("{other:?}"),
    }
}

/// The next event: its key, and its headers as `name=value`, without those that tell a time.
fn heard(bench: &Bench) -> (String, Vec<String>) {
    loop {
        let (_, call) = bench.broker.get(&bench.principal, b"ear", true).expect("it is there");
        // A thread of the broker's own publishes them.
        let Some(got) = call.wait().expect("it works") else {
            std::thread::yield_now();
            continue;
        };
        let headers = Properties::new(&got.properties).headers().expect("an event has some");
        let told = headers.iter().filter(|(name, _)| !name.ends_with(b"_ms"));
        return (
            text(&got.routing_key),
            told.map(|(name, value)| format!("{}={}", text(name), shown(&value))).collect(),
        );
    }
}

#[test]
fn a_queue_that_stands_still_and_goes_on_is_an_event_each() {
    let folder = tempfile::tempdir().expect("a folder");
    let options =
        BrokerOptions { stall_ms: 0, event_exchange_vhost: Some("/".into()), ..BrokerOptions::default() };
    let bench = Bench::with(folder.path(), options);
    bench.broker.declare_event_exchange().expect("it is wanted");
    bench.declare("ear", Table::EMPTY);
    let request = BindRequest {
        source: b"amq.rabbitmq.event",
        destination: DestinationName::Queue(b"ear"),
        routing_key: b"queue.delivery.*",
        arguments: Table::EMPTY,
    };
    bench.broker.bind(&bench.principal, request).expect("it may").wait().expect("the disk is fine");
    let queue = stalled(&bench);
    let headers = ["consumers=1", "name=q", "ready=2", "vhost=/"].map(String::from);
    assert_eq!(heard(&bench), ("queue.delivery.stalled".into(), headers.into()));
    goes_on(&bench, &queue);
    look_again(&queue);
    assert_eq!(
        heard(&bench),
        ("queue.delivery.resumed".into(), ["name=q", "vhost=/"].map(String::from).into())
    );
    assert_eq!(bench.get("ear").expect("it works"), None, "and nothing else");
}
