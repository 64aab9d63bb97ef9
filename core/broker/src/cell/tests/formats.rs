//! A message that came by another protocol than AMQP 0-9-1 passes as it came: publish, log, restart, dead letter, delivery.

use message::Format;
use queues::GotMessage;

use super::*;

/// Stored properties of a persistent message: the first byte behind the mark says so, the others mean nothing to queues.
fn properties() -> Vec<u8> {
    [Format::Mqtt.prefix(), &[0xff, 0x81, 0, 0x10, 2, 0x55]].concat()
}

fn publish(bench: &Bench, queue: &[u8], body: &[u8]) {
    let mut publisher = Publisher::new(&bench.broker, &bench.principal);
    let (routing_key, properties) = (queue, &*properties());
    let message = Incoming { mandatory: false, exchange: b"", routing_key, properties, body };
    assert_eq!(publisher.publish(&mut PublishChannel::new(), message), Ok(crate::Routed::Yes));
    publisher.flush();
}

fn get(bench: &Bench, queue: &[u8]) -> GotMessage {
    let (_, call) = bench.broker.get(&bench.principal, queue, true).expect("the queue is there");
    call.wait().expect("the queue is in service").expect("a message")
}

#[test]
fn a_message_of_another_protocol_passes_a_classic_queue_as_it_came() {
    passes_log_restart_dead_letter_and_delivery("classic");
}

#[test]
fn a_message_of_another_protocol_passes_a_quorum_queue_as_it_came() {
    passes_log_restart_dead_letter_and_delivery("quorum");
}

fn passes_log_restart_dead_letter_and_delivery(kind: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    let bench = Bench::open(folder.path());
    let mut arguments = TableBuf::new();
    arguments.push_str("x-queue-type", kind).push_str("x-dead-letter-exchange", "");
    arguments.push_str("x-dead-letter-routing-key", "dead");
    bench.declare("source", arguments.as_table());
    bench.declare("dead", TableBuf::new().push_str("x-queue-type", kind).as_table());
    publish(&bench, b"source", b"one");
    publish(&bench, b"source", b"two");
    bench.sync();
    drop(bench);

    let bench = Bench::open(folder.path());
    let source = bench.broker.vhost("/").and_then(|vhost| vhost.queue(b"source")).expect("it is durable");
    for body in [&b"one"[..], b"two"] {
        let got = get(&bench, b"source");
        assert_eq!((&*got.properties, &*got.body), (&*properties(), body));
        source.settle(SettleHow::Reject, &[SettleRun { consumer: None, first: got.seq, count: 1 }]);
    }
    bench.sync();
    drop(bench);

    let bench = Bench::open(folder.path());
    let got = get(&bench, b"dead");
    assert_eq!(
        (&*got.properties, &*got.body, &*got.routing_key),
        (&*properties(), &b"one"[..], &b"dead"[..])
    );
    bench.consume("dead", 7).expect("it consumes");
    bench.sync();
    let delivered = bench.told.delivered.lock();
    assert_eq!(delivered.iter().map(|(_, body)| &**body).collect::<Vec<_>>(), [b"two"]);
}
