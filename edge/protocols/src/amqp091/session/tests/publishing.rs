//! Publishing, confirms, transactions, and declarations on the way.

use wire::amqp091::methods::{confirm, tx};

use super::*;
use crate::Budget;

fn settled(client: &mut Client) -> (u64, bool) {
    let got = client.wait("basic.ack");
    let Some(Method::BasicAck(ack)) = got.method() else { unreachable!() };
    (ack.delivery_tag, ack.multiple)
}

#[test]
fn a_message_survives_every_way_of_cutting_it() {
    let world = World::new();
    let mut client = world.channel();
    client.declare("q");
    let bytes = message(1, "", "q", b"hello");
    for cut in 0..=bytes.len() {
        client.send(&bytes[..cut]);
        client.send(&bytes[cut..]);
        client.method(1, get("q", true));
        client.wait("basic.get-ok");
        assert_eq!(client.content(), b"hello", "cut at {cut}");
    }
}

#[test]
fn a_body_of_many_frames_comes_back_in_frames_of_the_negotiated_size() {
    let world = World::new();
    let mut client = world.channel();
    client.declare("q");
    let body: Vec<u8> = (0..400_000_u32).map(|index| index as u8).collect();
    client.publish(1, "q", &body);
    client.consume("q", true);
    assert_eq!(client.delivery().2, body);
}

#[test]
fn empty_bodies_have_no_frames() {
    let world = World::new();
    let mut client = world.channel();
    client.declare("q");
    client.publish(1, "q", b"");
    client.method(1, get("q", true));
    client.wait("basic.get-ok");
    client.wait("header");
    assert_eq!(client.names_until_answer(1), [""; 0]);
}

#[test]
fn contents_of_different_channels_may_interleave() {
    let world = World::new();
    let mut client = world.channel();
    client.open_channel(2);
    client.declare("q");
    let frames = |channel: u16, body: &[u8]| {
        let bytes = message(channel, "", "q", body);
        let Ok(Parsed::Complete { consumed, .. }) = parse_frame(&bytes, 1000) else { unreachable!() };
        (bytes[..consumed].to_vec(), bytes[consumed..].to_vec())
    };
    let (first, second) = (frames(1, b"one"), frames(2, b"two"));
    client.send(&[first.0, second.0, second.1, first.1].concat());
    assert_eq!(client.ready("q"), 2);
}

#[test]
fn a_return_comes_before_the_ack_of_its_message() {
    let world = World::new();
    let mut client = world.channel();
    client.method(1, confirm::Select::default());
    client.wait("confirm.select-ok");
    let mut bytes = Vec::new();
    for mandatory in [true, false, true] {
        encode_publish(&mut bytes, 1, b"", b"nobody", mandatory, &[0, 0], b"x", 131_072);
    }
    client.send(&bytes);
    let mut names = client.names();
    assert_eq!(names.iter().filter(|name| **name == "basic.return").count(), 2);
    while names.last().is_none_or(|name| *name != "basic.ack") {
        names.extend(client.names());
    }
    let last_return = names.iter().rposition(|name| *name == "basic.return").unwrap();
    assert!(names[last_return..].contains(&"basic.ack"));
}

#[test]
fn confirms_of_one_read_come_together() {
    let world = World::new();
    let mut client = world.channel();
    client.declare("q");
    client.method(1, confirm::Select::default());
    client.wait("confirm.select-ok");
    client.send(&message(1, "", "q", b"x").repeat(100));
    let (mut through, mut frames) = (0, 0);
    while through < 100 {
        (through, frames) = (settled(&mut client).0, frames + 1);
    }
    assert!(frames < 10, "{frames} frames for 100 confirms");
}

#[test]
fn publishing_to_nowhere_closes_the_channel_and_nothing_behind_it_counts() {
    let world = World::new();
    let mut client = world.channel();
    client.declare("q");
    let bytes =
        [message(1, "", "q", b"1"), message(1, "nowhere", "q", b"2"), message(1, "", "q", b"3")].concat();
    client.send(&bytes);
    let close = client.wait("channel.close").close();
    assert_eq!(close, (404, "NOT_FOUND - no exchange 'nowhere' in vhost '/'".into(), (60, 40)));
    client.method(1, durable("other"));
    client.method(1, channel::CloseOk {});
    client.open_channel(1);
    assert_eq!(client.ready("q"), 1);
}

#[test]
fn pipelined_declarations_are_answered_in_order_and_before_an_error_behind_them() {
    let world = World::new();
    let mut client = world.channel();
    let mut bytes = Vec::new();
    for index in 0..50 {
        let name = format!("q{index}");
        durable(&name).encode_frame(1, &mut bytes);
        let bind = queue::Bind {
            queue: ShortStr::bounded(name.as_bytes()),
            exchange: ShortStr::bounded(b"amq.fanout"),
            ..queue::Bind::default()
        };
        bind.encode_frame(1, &mut bytes);
    }
    let wrong = exchange::Declare {
        exchange: ShortStr::bounded(b"amq.direct"),
        exchange_type: ShortStr::bounded(b"fanout"),
        durable: true,
        ..exchange::Declare::default()
    };
    wrong.encode_frame(1, &mut bytes);
    durable("behind").encode_frame(1, &mut bytes);
    client.send(&bytes);
    for index in 0..50 {
        let got = client.wait("queue.declare-ok");
        let Some(Method::QueueDeclareOk(ok)) = got.method() else { unreachable!() };
        assert_eq!(ok.queue, format!("q{index}").as_bytes());
        client.wait("queue.bind-ok");
    }
    assert_eq!(client.wait("channel.close").close().0, 406);
    assert_eq!(client.names(), [""; 0]);
}

#[test]
fn undecodable_properties_end_the_connection() {
    let world = World::new();
    let mut client = world.channel();
    let mut bytes = Vec::new();
    encode_publish(&mut bytes, 1, b"", b"q", false, &[0x20, 0, 0, 0, 0, 9, 1], b"", 0);
    client.send(&bytes);
    let (code, text, method) = client.wait("connection.close").close();
    assert_eq!((code, method), (501, (60, 40)));
    assert_eq!(text, "FRAME_ERROR - cannot decode the properties of a message: properties end too early");
}

#[test]
fn a_message_above_the_limit_closes_its_channel_when_it_is_complete() {
    let folder = TempDir::new().unwrap();
    let options = BrokerOptions { message_size_max: 1000, ..BrokerOptions::default() };
    let broker = Broker::open(folder.path(), options).unwrap();
    let world = World { broker, settings: Settings::default(), _folder: folder };
    let mut client = world.channel();
    let bytes = message(1, "", "q", &[0; 1001]);
    client.send(&bytes[..bytes.len() - 1]);
    assert_eq!(client.names(), [""; 0]);
    client.send(&bytes[bytes.len() - 1..]);
    let text = "PRECONDITION_FAILED - message size 1001 is larger than configured max size 1000";
    assert_eq!(client.wait("channel.close").close(), (406, text.into(), (60, 40)));
}

#[test]
fn a_transaction_happens_at_commit_or_not_at_all() {
    let world = World::new();
    let mut client = world.channel();
    client.declare("q");
    client.method(1, tx::Select {});
    client.wait("tx.select-ok");
    client.publish(1, "q", b"dropped");
    client.method(1, tx::Rollback {});
    client.wait("tx.rollback-ok");
    client.publish(1, "q", b"kept");
    assert_eq!(client.ready("q"), 0);
    client.method(1, tx::Commit {});
    client.wait("tx.commit-ok");
    assert_eq!(client.ready("q"), 1);
    client.consume("q", false);
    let (tag, _, body) = client.delivery();
    assert_eq!(body, b"kept");
    client.ack(tag, false);
    client.method(1, tx::Rollback {});
    client.wait("tx.rollback-ok");
    client.ack(tag, false);
    client.method(1, tx::Commit {});
    client.wait("tx.commit-ok");
    client.ack(tag, false);
    assert_eq!(client.wait("channel.close").close().1, "PRECONDITION_FAILED - unknown delivery tag 1");
}

#[test]
fn transactions_of_all_channels_share_the_nodes_budget() {
    let mut world = World::new();
    world.settings.unfinished = Budget::new(4000);
    let mut client = world.channel();
    client.open_channel(2);
    for number in [1, 2] {
        client.method(number, tx::Select {});
        client.wait("tx.select-ok");
    }
    client.send(&message(1, "", "q", &[0; 900]));
    client.method(1, tx::Rollback {});
    client.wait("tx.rollback-ok");
    assert_eq!(world.settings.unfinished.held_bytes(), 0);
    client.send(&message(1, "", "q", &[0; 900]));
    client.send(&message(2, "", "q", &[0; 900]).repeat(2));
    let (code, text, method) = client.wait("channel.close").close();
    assert_eq!((code, method), (406, (60, 40)));
    assert!(text.starts_with("PRECONDITION_FAILED - incomplete messages and open transactions"), "{text}");
    client.method(1, tx::Commit {});
    client.wait("tx.commit-ok");
    assert_eq!(world.settings.unfinished.held_bytes(), 0);
}
