//! Publishes of one read that differ in their bodies only, with others among them: each message is treated as if it were alone.

use wire::amqp091::methods::{confirm, tx};

use super::*;

/// A persistent message whose body says its number, of so many bytes at least.
fn numbered(channel: u16, key: &str, number: u32, bytes: usize) -> Vec<u8> {
    let mut body = number.to_string().into_bytes();
    body.resize(bytes.max(body.len()), b' ');
    let mut out = Vec::new();
    encode_publish(&mut out, channel, b"", key.as_bytes(), false, &[0x10, 0, 2], &body, 131_072);
    out
}

fn number_of(body: &[u8]) -> u32 {
    std::str::from_utf8(body).unwrap().trim().parse().unwrap()
}

/// Fetches everything from a queue.
fn drained(client: &mut Client, queue: &str) -> Vec<Vec<u8>> {
    let mut bodies = Vec::new();
    loop {
        client.method(1, get(queue, true));
        match client.frame().name() {
            "basic.get-ok" => bodies.push(client.content()),
            _ => return bodies,
        }
    }
}

#[test]
fn messages_alike_and_others_among_them_come_in_their_order_however_they_are_cut() {
    let sizes = [0, 1, 12, 12, 300, 12, 0, 12, 5000, 12];
    let keys = ["q", "q", "q", "p", "q", "q", "q", "q"];
    for piece_bytes in [usize::MAX, 4096, 700, 61] {
        let world = World::new();
        let mut client = world.channel();
        client.declare("q");
        client.declare("p");
        let (mut bytes, mut expected) = (Vec::new(), Vec::new());
        for number in 0..200 {
            let key = keys[number as usize % keys.len()];
            bytes.extend(numbered(1, key, number, sizes[number as usize % sizes.len()]));
            if key == "q" {
                expected.push(number);
            }
            if number % 23 == 0 {
                bytes.extend(message(1, "", "q", b""));
            }
        }
        bytes.chunks(piece_bytes).for_each(|piece| client.send(piece));
        let bodies = drained(&mut client, "q");
        assert_eq!(bodies.iter().filter(|body| body.is_empty()).count(), 9);
        let numbers: Vec<u32> =
            bodies.iter().filter(|body| !body.is_empty()).map(|body| number_of(body)).collect();
        assert_eq!(numbers, expected, "pieces of {piece_bytes}");
        assert_eq!(drained(&mut client, "p").len(), 25);
    }
}

#[test]
fn messages_alike_are_delivered_whole_and_again_after_a_requeue() {
    let world = World::new();
    let mut client = world.channel();
    client.declare("q");
    let run: Vec<u8> = (0..50).flat_map(|number| numbered(1, "q", number, number as usize)).collect();
    client.send(&run);
    client.consume("q", false);
    for round in 0..2 {
        for number in 0..50 {
            let (tag, redelivered, body) = client.delivery();
            assert_eq!(
                (number_of(&body), body.len().max(2), redelivered),
                (number, (number as usize).max(2), round > 0)
            );
            if round == 0 && number == 49 {
                let nack = basic::Nack { delivery_tag: tag, multiple: true, requeue: true };
                client.method(1, nack);
            }
        }
    }
}

#[test]
fn a_message_above_the_limit_ends_its_run_and_nothing_behind_it_counts() {
    let folder = TempDir::new().unwrap();
    let options = BrokerOptions { message_size_max: 1000, ..BrokerOptions::default() };
    let broker = Broker::open(folder.path(), options).unwrap();
    let world = World { broker, settings: Settings::default(), _folder: folder };
    let mut client = world.channel();
    client.declare("q");
    let sizes = [12, 12, 1000, 12, 1001, 12, 12];
    let run: Vec<u8> = sizes.iter().flat_map(|bytes| numbered(1, "q", 7, *bytes)).collect();
    client.send(&run);
    let text = "PRECONDITION_FAILED - message size 1001 is larger than configured max size 1000";
    assert_eq!(client.wait("channel.close").close(), (406, text.into(), (60, 40)));
    client.method(1, channel::CloseOk {});
    client.open_channel(1);
    assert_eq!(client.ready("q"), 4);
}

#[test]
fn each_message_of_a_run_is_confirmed_on_its_channel() {
    let world = World::new();
    let mut client = world.channel();
    client.open_channel(2);
    client.declare("q");
    for number in [1, 2] {
        client.method(number, confirm::Select::default());
        client.wait("confirm.select-ok");
    }
    let of = |channel: u16, count: usize| numbered(channel, "q", 1, 12).repeat(count);
    client.send(&[of(1, 30), of(2, 1), of(1, 10), of(2, 20), of(1, 1)].concat());
    let mut through = [0, 0];
    while through != [41, 21] {
        let got = client.wait("basic.ack");
        let Some(Method::BasicAck(ack)) = got.method() else { unreachable!() };
        let last = &mut through[usize::from(got.channel) - 1];
        assert!(ack.delivery_tag > *last);
        *last = ack.delivery_tag;
    }
    assert_eq!(client.ready("q"), 62);
}

#[test]
fn a_transaction_that_begins_within_a_read_holds_what_follows() {
    let world = World::new();
    let mut client = world.channel();
    client.declare("q");
    let two = numbered(1, "q", 1, 12).repeat(2);
    let (mut select, mut commit) = (Vec::new(), Vec::new());
    Method::from(tx::Select {}).encode_frame(1, &mut select);
    Method::from(tx::Commit {}).encode_frame(1, &mut commit);
    client.send(&[&two[..], &select, &two, &two].concat());
    client.wait("tx.select-ok");
    assert_eq!(client.ready("q"), 2);
    client.send(&commit);
    client.wait("tx.commit-ok");
    assert_eq!(client.ready("q"), 6);
}

#[test]
fn flags_that_stand_for_nothing_are_cleared_in_each_message_of_a_run() {
    let world = World::new();
    let mut client = world.channel();
    client.declare("q");
    let mut one = Vec::new();
    encode_publish(&mut one, 1, b"", b"q", false, &[0x10, 0b10, 2], b"body", 131_072);
    client.send(&one.repeat(3));
    client.consume("q", true);
    for _ in 0..3 {
        client.wait("basic.deliver");
        let header = client.wait("header");
        assert_eq!(ContentHeader::decode(&header.payload).unwrap().properties, [0x10, 0, 2]);
        client.wait("body");
    }
}
