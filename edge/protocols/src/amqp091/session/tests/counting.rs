//! Counts of connections, queues, exchanges and the node.

use broker::{ConnectionTotals, DeliveryTotals, LoginProtocol, Passage, TrafficTotals};
use wire::amqp091::methods::confirm;

use super::*;

#[test]
fn every_way_of_a_message_is_counted_once() {
    let world = World::new();
    let mut client = world.channel();
    client.method(1, confirm::Select { nowait: false });
    client.wait("confirm.select-ok");
    client.declare("q");
    let messages = [message(1, "", "q", b"x").repeat(4), message(1, "", "nowhere", b"x")].concat();
    client.send(&messages);
    client.wait("basic.ack");
    for no_ack in [false, true] {
        client.method(1, get("q", no_ack));
        client.wait("basic.get-ok");
        client.content();
    }
    client.consume("q", false);
    client.delivery();
    client.delivery();
    client.method(1, basic::Recover { requeue: true });
    client.wait("basic.recover-ok");
    (0..3).for_each(|_| drop(client.delivery()));
    client.ack(0, true);
    client.method(1, get("q", false));
    client.wait("basic.get-empty");

    let expected = TrafficTotals {
        published: 5,
        published_for_confirm: 5,
        confirmed: 5,
        dropped: 1,
        deliveries: DeliveryTotals {
            delivered: 5,
            got: 1,
            got_no_ack: 1,
            got_empty: 1,
            acked: 3,
            redelivered: 3,
            ..DeliveryTotals::NONE
        },
        ..TrafficTotals::default()
    };
    let traffic = world.broker.traffic();
    assert_eq!(traffic.traffic, expected);
    assert!(traffic.received_count > 0 && traffic.received_bytes > traffic.received_count);
    let vhost = world.broker.vhost("/").unwrap();
    assert_eq!(world.broker.vhost_traffic(&vhost), traffic);
    let passed = vhost.exchange(b"").unwrap().passed.now();
    assert_eq!(passed, Passage { arrived: 5, left: 4, returned: 0, dropped: 1 });
    let sizes = world.broker.message_sizes();
    assert_eq!((sizes.counts[0], sizes.bytes), (5, 5));
    let queue = vhost.queue(b"q").unwrap().glance();
    assert_eq!((queue.totals.published, queue.totals.deliveries), (4, expected.deliveries));
    assert_eq!((queue.ready, queue.unacked, queue.consumers), (0, 0, 1));
    assert_eq!(world.broker.queue_sums().totals, queue.totals);
}

#[test]
fn what_is_closed_and_deleted_stays_counted() {
    let world = World::new();
    let mut client = world.channel();
    client.declare("q");
    client.send(&message(1, "", "q", b"x").repeat(3));
    client.ready("q");
    client.method(1, channel::Close { reply_code: 200, ..channel::Close::default() });
    client.wait("channel.close-ok");
    assert_eq!(world.broker.traffic().traffic.published, 3);
    client.open_channel(1);
    client.method(1, queue::Delete { queue: ShortStr::bounded(b"q"), ..queue::Delete::default() });
    client.wait("queue.delete-ok");
    let before = world.broker.traffic();
    drop(client);
    let after = world.broker.traffic();
    assert_eq!(ConnectionTotals { traffic: after.traffic, ..before }, before);
    assert_eq!(world.broker.queue_sums().totals.published, 3);
    let churn = world.broker.churn();
    assert_eq!((churn.connections_created, churn.connections_closed), (1, 1));
    assert_eq!((churn.channels_created, churn.channels_closed), (2, 2));
    assert_eq!((churn.queues_created, churn.queues_deleted), (1, 1));
    let logins = world.broker.logins(LoginProtocol::Amqp091);
    assert!(churn.queues_declared >= 1 && logins.succeeded == 1 && logins.refused == 0);
}

#[test]
fn a_channel_is_used_when_a_frame_comes_in_on_it_and_when_a_delivery_goes_out() {
    let world = World::new();
    let mut client = world.channel();
    client.declare("q");
    let used = |world: &World| {
        let (_, control) = world.broker.connections().all().remove(0);
        control.channels().iter().map(|channel| channel.used_ms).collect::<Vec<_>>()
    };
    let mut other = world.channel();
    client.now.unix_ms = 1_000;
    client.open_channel(2);
    client.consume("q", true);
    assert_eq!(used(&world), [1_000, 1_000]);
    client.now.unix_ms = 2_000;
    client.send(&message(2, "", "nowhere", b"x"));
    assert_eq!(used(&world), [1_000, 2_000]);
    client.now.unix_ms = 3_000;
    other.send(&message(1, "", "q", b"x"));
    client.delivery();
    assert_eq!(used(&world), [3_000, 2_000]);
}
