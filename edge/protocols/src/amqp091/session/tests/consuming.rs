//! Consuming, settling, prefetch, back-pressure, replies.

use super::*;
use crate::OUTPUT_BYTES_MAX;

#[test]
fn deliveries_follow_consume_ok_and_are_numbered_from_one() {
    let world = World::new();
    let mut client = world.channel();
    client.declare("q");
    client.send(&message(1, "", "q", b"x").repeat(3));
    client.consume("q", false);
    let tags: Vec<u64> = (0..3).map(|_| client.delivery().0).collect();
    assert_eq!(tags, [1, 2, 3]);
    client.ack(3, true);
    client.ack(2, false);
    let close = client.wait("channel.close").close();
    assert_eq!(close, (406, "PRECONDITION_FAILED - unknown delivery tag 2".into(), (60, 80)));
}

#[test]
fn what_is_unacked_comes_back_when_its_channel_closes() {
    let world = World::new();
    let mut client = world.channel();
    client.declare("q");
    client.send(&message(1, "", "q", b"x").repeat(2));
    client.consume("q", false);
    client.delivery();
    client.delivery();
    client.ack(1, false);
    client.method(1, channel::Close { reply_code: 200, ..channel::Close::default() });
    client.wait("channel.close-ok");
    client.open_channel(1);
    assert_eq!(client.ready("q"), 1);
    client.consume("q", false);
    assert!(client.delivery().1, "redelivered");
}

#[test]
fn get_and_deliver_share_tags_and_recover_requeues_both() {
    let world = World::new();
    let mut client = world.channel();
    client.declare("q");
    client.send(&message(1, "", "q", b"x").repeat(2));
    client.method(1, get("q", false));
    let got = client.wait("basic.get-ok");
    let Some(Method::BasicGetOk(ok)) = got.method() else { unreachable!() };
    assert_eq!((ok.delivery_tag, ok.message_count, ok.redelivered), (1, 1, false));
    client.content();
    client.consume("q", false);
    assert_eq!(client.delivery().0, 2);
    client.method(1, basic::Recover { requeue: true });
    let mut tags = Vec::new();
    let mut names = Vec::new();
    while tags.len() < 2 {
        let got = client.frame();
        match got.method() {
            Some(Method::BasicDeliver(deliver)) => {
                assert!(deliver.redelivered);
                tags.push(deliver.delivery_tag);
            }
            Some(method) => names.push(method.name()),
            None => {}
        }
    }
    assert_eq!(tags, [3, 4]);
    assert!(
        names.contains(&"basic.recover-ok") || client.names_until_answer(1).contains(&"basic.recover-ok")
    );
}

#[test]
fn prefetch_of_the_whole_channel_holds_over_its_consumers() {
    let world = World::new();
    let mut client = world.channel();
    client.declare("q");
    client.method(1, basic::Qos { prefetch_count: 2, global: true, ..basic::Qos::default() });
    client.wait("basic.qos-ok");
    client.send(&message(1, "", "q", b"x").repeat(5));
    client.consume("q", false);
    client.method(1, basic::Consume { consumer_tag: ShortStr::bounded(b"second"), ..consumer("q", false) });
    let names = client.names_until_answer(1);
    assert_eq!(names.iter().filter(|name| **name == "basic.deliver").count(), 2);
    client.ack(2, true);
    client.delivery();
    client.delivery();
    assert_eq!(client.names_until_answer(1), [""; 0]);
}

/// One that has filled a queue with 40 messages of 100,000 bytes, and a consumer of it whose outbox is full.
fn one_that_does_not_read(world: &World, no_ack: bool) -> (Client, Client) {
    let (mut client, mut reader) = (world.channel(), world.channel());
    client.declare("q");
    for _ in 0..40 {
        client.publish(1, "q", &[0; 100_000]);
    }
    assert_eq!(client.ready("q"), 40);
    reader.method(1, consumer("q", no_ack));
    let until = Instant::now() + PATIENCE;
    while reader.outbox.pending_bytes() < OUTPUT_BYTES_MAX {
        reader.turn();
        assert!(Instant::now() < until);
    }
    (client, reader)
}

#[test]
fn a_client_that_does_not_read_gets_no_more_than_the_outbox_holds() {
    let world = World::new();
    let (_, mut reader) = one_that_does_not_read(&world, true);
    assert!(reader.outbox.pending_bytes() < OUTPUT_BYTES_MAX + 200_000);
    reader.wait("basic.consume-ok");
    for _ in 0..40 {
        assert_eq!(reader.delivery().2.len(), 100_000);
    }
}

#[test]
fn acks_are_read_though_the_client_does_not_read_its_deliveries() {
    let world = World::new();
    let (mut client, mut reader) = one_that_does_not_read(&world, false);
    reader.ack(8, true);
    reader.method(1, channel::Close { reply_code: 200, ..channel::Close::default() });
    assert!(reader.input.is_empty() && reader.outbox.pending_bytes() >= OUTPUT_BYTES_MAX);
    let until = Instant::now() + PATIENCE;
    while client.ready("q") != 32 {
        assert!(Instant::now() < until, "all but the eight come back");
    }
}

#[test]
fn replies_without_a_reader_stop_the_parsing() {
    let world = World::new();
    let mut client = world.channel();
    client.declare("q");
    for _ in 0..30 {
        client.publish(1, "q", &vec![0; 100_000]);
    }
    assert_eq!(client.ready("q"), 30);
    let mut bytes = Vec::new();
    for _ in 0..30 {
        get("q", true).encode_frame(1, &mut bytes);
    }
    client.send(&bytes);
    let until = Instant::now() + PATIENCE;
    while client.outbox.pending_bytes() < OUTPUT_BYTES_MAX {
        client.turn();
        assert!(Instant::now() < until);
    }
    assert!(client.session.is_stalled() && !client.input.is_empty());
    assert!(client.outbox.pending_bytes() < OUTPUT_BYTES_MAX + 200_000);
    for _ in 0..30 {
        client.wait("basic.get-ok");
        client.content();
    }
}

#[test]
fn a_deleted_queue_cancels_its_consumers_and_frees_their_tags() {
    let world = World::new();
    let mut client = world.channel();
    client.declare("q");
    client.consume("q", true);
    client.method(1, queue::Delete { queue: ShortStr::bounded(b"q"), ..queue::Delete::default() });
    let mut names = [client.frame().name(), client.frame().name()];
    names.sort_unstable();
    assert_eq!(names, ["basic.cancel", "queue.delete-ok"]);
    client.declare("q");
    client.consume("q", true);
    client.method(1, consumer("q", true));
    let close = client.wait("connection.close").close();
    assert_eq!(close, (530, "NOT_ALLOWED - attempt to reuse consumer tag 'tag'".into(), (60, 20)));
}

#[test]
fn cancelling_leaves_what_is_unacked_to_be_acked() {
    let world = World::new();
    let mut client = world.channel();
    client.declare("q");
    client.publish(1, "q", b"x");
    client.consume("q", false);
    let (tag, ..) = client.delivery();
    client.method(1, basic::Cancel { consumer_tag: ShortStr::bounded(b"tag"), nowait: false });
    client.wait("basic.cancel-ok");
    client.publish(1, "q", b"y");
    assert_eq!(client.ready("q"), 1);
    client.ack(tag, false);
    assert_eq!(client.names_until_answer(1), [""; 0]);
}

#[test]
fn a_reply_finds_the_requester_and_nobody_else() {
    let world = World::new();
    let (mut requester, mut server) = (world.channel(), world.channel());
    server.declare("requests");
    requester.method(1, consumer("amq.rabbitmq.reply-to", true));
    requester.wait("basic.consume-ok");
    let mut bytes = Vec::new();
    let properties = [&[0x02, 0, 21][..], b"amq.rabbitmq.reply-to"].concat();
    encode_publish(&mut bytes, 1, b"", b"requests", false, &properties, b"question", 0);
    requester.send(&bytes);
    server.method(1, get("requests", true));
    let got = server.wait("basic.get-ok");
    assert!(got.method().is_some());
    let header = server.wait("header");
    let properties = ContentHeader::decode(&header.payload).unwrap().properties;
    let reply_to = wire::amqp091::Properties::new(properties).reply_to().unwrap();
    assert!(reply_to.starts_with(b"amq.rabbitmq.reply-to."));
    server.wait("body");
    let reply_to = String::from_utf8(reply_to.to_vec()).unwrap();
    server.publish(1, &reply_to, b"answer");
    assert_eq!(requester.delivery().2, b"answer");
    requester.method(1, consumer("amq.rabbitmq.reply-to", true));
    assert_eq!(requester.wait("channel.close").close().1, "PRECONDITION_FAILED - reply consumer already set");
}

#[test]
fn a_priority_that_is_no_integer_is_refused() {
    let world = World::new();
    let mut client = world.channel();
    client.declare("q");
    let mut arguments = TableBuf::new();
    arguments.push_str("x-priority", "high");
    let arguments: Table<'_> = arguments.as_table();
    client.method(1, basic::Consume { arguments, ..consumer("q", false) });
    let text = "PRECONDITION_FAILED - invalid arg 'x-priority' for queue 'q' in vhost '/': \"expected integer, got longstr\"";
    assert_eq!(client.wait("channel.close").close(), (406, text.into(), (60, 20)));
}
