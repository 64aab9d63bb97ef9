//! Bodies of many frames on their way in, large deliveries on their way out: the memory of the node that connections share.

use wire::amqp091::HEARTBEAT;
use wire::amqp091::methods::tx;

use super::*;
use crate::Budget;

/// Bytes of the large bodies that arrive.
const BODY_BYTES: usize = 800_000;

/// Of those that are delivered: more than 1 MiB.
const DELIVERY_BYTES: usize = 2 << 20;

/// A publish to `q` that announces so much and brings the first `sent` bytes of it.
fn begun(number: u16, announced: usize, sent: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    let publish = basic::Publish { routing_key: ShortStr::bounded(b"q"), ..basic::Publish::default() };
    publish.encode_frame(number, &mut bytes);
    ContentHeader { class_id: 60, weight: 0, body_size: announced as u64, properties: &[0, 0] }
        .encode_frame(number, &mut bytes);
    for part in vec![0; sent].chunks(131_064) {
        write_frame(FRAME_BODY, number, part, &mut bytes);
    }
    bytes
}

/// The last byte of a body.
fn last_byte() -> Vec<u8> {
    let mut bytes = Vec::new();
    write_frame(FRAME_BODY, 1, &[0], &mut bytes);
    bytes
}

#[test]
fn connections_in_the_middle_of_large_bodies_take_turns_and_all_finish() {
    let mut world = World::new();
    world.settings.unfinished = Budget::new(1_000_000);
    let budget = world.settings.unfinished.clone();
    let mut clients: Vec<Client> = (0..4).map(|_| world.channel()).collect();
    clients[0].declare("q");
    for client in &mut clients {
        client.send(&begun(1, BODY_BYTES, BODY_BYTES - 1));
    }
    assert_eq!(budget.waiting(), 3);
    assert!(clients[1].session.is_stalled() && !clients[1].input.is_empty());
    for client in &mut clients {
        assert!(budget.held_bytes() <= 1_000_000 + BODY_BYTES, "{} bytes", budget.held_bytes());
        client.turn();
        assert!(client.input.is_empty(), "its turn has come");
        client.send(&last_byte());
    }
    assert_eq!(clients[0].ready("q"), 4);
    assert_eq!((budget.held_bytes(), budget.waiting()), (0, 0));
}

#[test]
fn bodies_of_a_few_frames_do_not_wait_for_large_ones() {
    let mut world = World::new();
    world.settings.unfinished = Budget::new(0);
    let (mut hoarder, mut other) = (world.channel(), world.channel());
    other.declare("q");
    hoarder.send(&begun(1, BODY_BYTES, BODY_BYTES - 1));
    other.publish(1, "q", &[0; 250_000]);
    assert_eq!(other.ready("q"), 1);
    other.send(&begun(1, BODY_BYTES, BODY_BYTES - 1));
    assert!(other.session.is_stalled());
    drop(hoarder);
    other.turn();
    other.send(&last_byte());
    assert_eq!(other.ready("q"), 2);
}

#[test]
fn a_connection_that_may_finish_a_body_beyond_its_share_has_room_for_all_that_goes_with_it() {
    let mut world = World::new();
    world.settings.unfinished = Budget::new(0);
    let mut client = world.channel();
    client.declare("q");
    client.open_channel(2);
    client.send(&begun(2, 250_100, 250_000));
    client.send(&begun(1, BODY_BYTES, BODY_BYTES - 1));
    client.send(&last_byte());
    assert_eq!(client.ready("q"), 1);
    let held_bytes = world.settings.unfinished.held_bytes();
    assert!((250_000..262_144).contains(&held_bytes), "{held_bytes} bytes");
}

#[test]
fn a_connection_that_begins_more_than_it_can_finish_is_closed() {
    let mut world = World::new();
    world.settings.unfinished = Budget::new(500_000);
    let mut client = world.open();
    (1..=3).for_each(|number| client.open_channel(number));
    (1..=3).for_each(|number| client.send(&begun(number, 400_000, 300_000)));
    let (code, text, _) = client.wait("connection.close").close();
    assert_eq!(code, 506);
    let expected = "RESOURCE_ERROR - incomplete messages and open transactions of this connection hold 533116 bytes, more than \
                    is left of 500000 for all connections";
    assert_eq!(text, expected);
    assert_eq!(world.settings.unfinished.held_bytes(), 0);
}

#[test]
fn what_is_shown_of_unfinished_things_goes_with_them() {
    let world = World::new();
    let mut client = world.channel();
    client.declare("q");
    let shown = |client: &Client| client.session.outbox.lock().state().unfinished_bytes;
    client.method(1, tx::Select {});
    client.wait("tx.select-ok");
    for (ends_with, answer) in
        [(Method::from(tx::Commit {}), "tx.commit-ok"), (tx::Rollback {}.into(), "tx.rollback-ok")]
    {
        client.send(&begun(1, BODY_BYTES, BODY_BYTES));
        assert!(shown(&client) >= BODY_BYTES, "{}", shown(&client));
        client.method(1, ends_with);
        client.wait(answer);
        assert_eq!(shown(&client), 0, "{answer}");
    }
    client.send(&begun(1, BODY_BYTES, BODY_BYTES));
    client.open_channel(2);
    client.send(&begun(2, BODY_BYTES, BODY_BYTES / 2));
    let both = BODY_BYTES + BODY_BYTES / 2;
    assert!((both..both + 10_000).contains(&shown(&client)), "no more than has come: {}", shown(&client));
    client.method(1, channel::Close::default());
    client.wait("channel.close-ok");
    assert!((BODY_BYTES / 2..BODY_BYTES).contains(&shown(&client)), "{}", shown(&client));
}

#[test]
fn bodies_that_are_completed_or_given_up_count_no_more() {
    let mut world = World::new();
    world.settings.unfinished = Budget::new(1 << 20);
    let mut client = world.open();
    for number in 1..=3 {
        client.open_channel(number);
        client.send(&begun(number, 10_000, 9_999));
    }
    assert_eq!(world.settings.unfinished.held_bytes(), 30_000);
    client.send(&last_byte());
    assert_eq!(world.settings.unfinished.held_bytes(), 20_000);
    drop(client);
    assert_eq!(world.settings.unfinished.held_bytes(), 0);
}

/// Waits for what other threads do.
fn until(mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < end, "it has not come");
        std::thread::yield_now();
    }
}

/// So many large messages in `q`, and room for none of them.
fn large_messages(world: &mut World, count: usize) {
    world.settings.large_deliveries = Budget::new(0);
    let mut client = world.channel();
    client.declare("q");
    (0..count).for_each(|_| client.publish(1, "q", &vec![7; DELIVERY_BYTES]));
    assert_eq!(client.ready("q"), count as u32);
}

#[test]
fn large_deliveries_without_room_wait_until_others_are_written() {
    let mut world = World::new();
    large_messages(&mut world, 3);
    let budget = world.settings.large_deliveries.clone();
    let mut clients: Vec<Client> = (0..3).map(|_| world.channel()).collect();
    for (client, waiting) in clients.iter_mut().zip(0..) {
        client.method(1, basic::Qos { prefetch_count: 1, ..basic::Qos::default() });
        client.wait("basic.qos-ok");
        client.method(1, consumer("q", false));
        until(|| {
            client.turn();
            (budget.held_bytes(), budget.waiting()) == (DELIVERY_BYTES, waiting)
        });
    }
    for client in &mut clients {
        assert!(budget.held_bytes() <= DELIVERY_BYTES);
        client.wait("basic.consume-ok");
        assert_eq!(client.delivery().2.len(), DELIVERY_BYTES);
    }
    assert_eq!((budget.held_bytes(), budget.waiting()), (0, 0));
}

#[test]
fn bodies_of_all_sizes_arrive_as_they_were_sent_and_in_order() {
    const BUFFER: usize = 256 << 10;
    let world = World::new();
    let mut client = world.channel();
    let queues = ["q", "two", "three"];
    queues.iter().for_each(|queue| client.declare(queue));
    client.method(
        1,
        exchange::Declare {
            exchange: ShortStr::bounded(b"all"),
            exchange_type: ShortStr::bounded(b"fanout"),
            ..exchange::Declare::default()
        },
    );
    client.wait("exchange.declare-ok");
    for queue in &queues[1..] {
        client.method(
            1,
            queue::Bind {
                queue: ShortStr::bounded(queue.as_bytes()),
                exchange: ShortStr::bounded(b"all"),
                ..queue::Bind::default()
            },
        );
        client.wait("queue.bind-ok");
    }
    let around = |bytes: usize| [bytes - 1, bytes, bytes + 1, 10];
    let sizes = [131_064, BUFFER, 1 << 20, DELIVERY_BYTES].into_iter().flat_map(around);
    let bodies: Vec<Vec<u8>> =
        sizes.map(|size| (0..size).map(|at| (at * 7 + at / 253) as u8).collect()).collect();
    for (body, to) in bodies.iter().flat_map(|body| [(body, ("", "q")), (body, ("all", ""))]) {
        client.send(&message(1, to.0, to.1, body));
    }
    for (no_ack, queue) in [(true, "q"), (false, "two"), (true, "three")] {
        let mut reader = world.channel();
        reader.consume(queue, no_ack);
        for body in &bodies {
            let (tag, _, found) = reader.delivery();
            assert!(found == *body, "{} and not {} bytes in {queue}", found.len(), body.len());
            if !no_ack {
                reader.ack(tag, false);
            }
        }
    }
    // And past the queue, to a consumer that waits for them.
    let mut reader = world.channel();
    reader.consume("q", true);
    for body in &bodies {
        client.publish(1, "q", body);
        assert!(reader.delivery().2 == *body);
    }
}

#[test]
fn small_bodies_follow_large_ones_that_are_like_them() {
    let world = World::new();
    let (mut client, mut reader) = (world.channel(), world.channel());
    client.declare("q");
    let sizes = [300 << 10, 10, (256 << 10) - 1, 256 << 10, 0, (256 << 10) + 1, 1 << 20, 1 << 20, 1];
    let bodies: Vec<Vec<u8>> = (0..).zip(sizes).map(|(nth, size)| vec![nth; size]).collect();
    let mut all = Vec::new();
    for body in &bodies {
        encode_publish(&mut all, 1, b"", b"q", false, &[0x10, 0, 2], body, 131_072);
    }
    client.send(&all);
    assert_eq!(client.ready("q"), bodies.len() as u32);
    reader.consume("q", false);
    for body in &bodies {
        assert!(reader.delivery().2 == *body, "{} bytes", body.len());
    }
}

#[test]
fn a_client_that_announces_much_and_sends_little_holds_what_it_sent() {
    let mut world = World::new();
    world.settings.unfinished = Budget::new(64 << 20);
    let budget = world.settings.unfinished.clone();
    let mut client = world.channel();
    client.declare("q");
    client.send(&begun(1, 15 << 20, 3 << 20));
    let held = budget.held_bytes();
    assert!((3 << 20..=6 << 20).contains(&held), "{held} bytes");
    drop(client);
    assert_eq!(budget.held_bytes(), 0);
}

#[test]
fn who_does_not_read_what_others_wait_for_is_closed() {
    let mut world = World::new();
    large_messages(&mut world, 2);
    let (mut silent, mut other) = (world.channel(), world.channel());
    let budget = world.settings.large_deliveries.clone();
    silent.method(1, consumer("q", false));
    until(|| {
        silent.turn();
        budget.held_bytes() == DELIVERY_BYTES
    });
    other.consume("q", false);
    until(|| {
        other.turn();
        budget.waiting() == 1
    });
    for ms in [5_000, 50_000] {
        silent.now.monotonic_ms += ms;
        silent.send(&HEARTBEAT);
        silent.after_ms(0);
    }
    assert_eq!(other.delivery().2.len(), DELIVERY_BYTES);
    silent.wait("basic.consume-ok");
    assert_eq!(silent.delivery().2.len(), DELIVERY_BYTES);
    let (code, text, _) = silent.wait("connection.close").close();
    assert_eq!(code, 506);
    assert!(text.contains("large messages that this connection does not read"), "{text}");
    assert_eq!(other.delivery().2.len(), DELIVERY_BYTES, "it comes again, to somebody else");
}

#[test]
fn who_does_not_finish_what_others_wait_for_is_closed() {
    let mut world = World::new();
    world.settings.unfinished = Budget::new(0);
    let (mut slow, mut other) = (world.channel(), world.channel());
    other.declare("q");
    slow.send(&begun(1, BODY_BYTES, BODY_BYTES - 1));
    other.send(&begun(1, BODY_BYTES, BODY_BYTES - 1));
    for ms in [5_000, 50_000] {
        slow.now.monotonic_ms += ms;
        slow.send(&HEARTBEAT);
        slow.after_ms(0);
    }
    slow.wait("heartbeat");
    let (code, text, _) = slow.wait("connection.close").close();
    assert_eq!(code, 506);
    assert!(text.contains("an incomplete message of this connection"), "{text}");
    other.turn();
    other.send(&last_byte());
    assert_eq!(other.ready("q"), 1);
}

#[test]
fn what_was_fetched_counts_until_it_is_written() {
    let mut world = World::new();
    large_messages(&mut world, 1);
    let mut client = world.channel();
    client.method(1, get("q", true));
    until(|| {
        client.turn();
        world.settings.large_deliveries.held_bytes() == DELIVERY_BYTES
    });
    client.wait("basic.get-ok");
    assert_eq!(world.settings.large_deliveries.held_bytes(), 0);
}
