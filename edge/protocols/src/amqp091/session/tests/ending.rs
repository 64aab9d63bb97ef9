//! Closing from either side, time, and sockets that vanish.

use super::*;

#[test]
fn a_vanished_socket_gives_everything_back() {
    let world = World::new();
    let (mut client, mut other) = (world.channel(), world.channel());
    client.declare("q");
    client.method(1, queue::Declare { exclusive: true, ..durable("own") });
    client.wait("queue.declare-ok");
    client.publish(1, "q", b"x");
    client.consume("q", false);
    client.delivery();
    client.session.released();
    client.session.released();
    assert_eq!(client.session.state(), State::Closed);
    assert_eq!(other.ready("q"), 1);
    other.method(1, queue::Declare { passive: true, ..durable("own") });
    assert_eq!(other.wait("channel.close").close().0, 404);
}

#[test]
fn dropping_a_session_releases_it_too() {
    let world = World::new();
    let mut client = world.channel();
    client.declare("q");
    client.publish(1, "q", b"x");
    client.consume("q", false);
    client.delivery();
    drop(client);
    assert_eq!(world.broker.connections().count(), 0);
    assert_eq!(world.channel().ready("q"), 1);
}

#[test]
fn the_clients_close_is_answered_and_what_follows_is_ignored() {
    let world = World::new();
    let mut client = world.channel();
    let mut bytes = Vec::new();
    connection::Close { reply_code: 200, ..connection::Close::default() }.encode_frame(0, &mut bytes);
    basic::Qos::default().encode_frame(1, &mut bytes);
    client.send(&bytes);
    assert_eq!(client.names(), ["connection.close-ok"]);
    client.send(b"garbage, and more of it");
    assert_eq!(client.names(), [""; 0]);
    assert_eq!(world.broker.connections().count(), 0, "it counts no longer");
}

#[test]
fn after_the_clients_close_its_end_is_awaited_for_a_heartbeat_interval_at_most() {
    for (heartbeat, patience_ms) in [(0, 30_000), (10, 10_000), (60, 30_000)] {
        let world = World::new();
        let mut client = world.tuning();
        client.tune_and_open_beating(131_072, heartbeat);
        client.wait("connection.open-ok");
        client.method(0, connection::Close::default());
        client.wait("connection.close-ok");
        client.after_ms(0);
        client.after_ms(patience_ms - 1);
        assert_eq!(client.session.state(), State::Running, "heartbeat {heartbeat}");
        client.after_ms(1);
        assert_eq!(client.session.state(), State::Closed, "heartbeat {heartbeat}");
    }
}

#[test]
fn what_crosses_the_answer_to_a_channels_close_is_dropped_and_what_comes_later_is_an_error() {
    let world = World::new();
    let mut client = world.channel();
    client.method(1, channel::Close::default());
    client.method(1, basic::Qos::default());
    client.publish(1, "q", b"x");
    client.method(1, channel::Close::default());
    assert_eq!(client.names(), ["channel.close-ok", "channel.close-ok"]);
    client.now.monotonic_ms += 60;
    client.method(1, basic::Qos::default());
    let close = client.wait("connection.close").close();
    assert_eq!(close, (504, "CHANNEL_ERROR - expected 'channel.open'".into(), (60, 10)));
}

#[test]
fn the_broker_may_ask_a_connection_to_close() {
    let world = World::new();
    let mut client = world.channel();
    world.broker.close_all_connections(&CloseReason::Shutdown);
    let (code, text, _) = client.wait("connection.close").close();
    assert_eq!(code, 320);
    assert_eq!(text, "CONNECTION_FORCED - broker forced connection closure with reason 'shutdown'");
    assert_eq!(world.broker.connections().count(), 0);
    client.method(0, connection::Close { reply_code: 200, ..connection::Close::default() });
    client.wait("connection.close-ok");
    client.method(0, connection::CloseOk {});
    assert_eq!(client.session.state(), State::Draining);
}

#[test]
fn a_close_that_is_not_answered_ends_after_its_time() {
    let world = World::new();
    let mut client = world.channel();
    client.method(1, channel::Open::default());
    client.wait("connection.close");
    client.after_ms(0);
    client.after_ms(9_999);
    assert_eq!(client.session.state(), State::Running);
    client.after_ms(1);
    assert_eq!(client.session.state(), State::Closed);
}

#[test]
fn heartbeats_go_out_at_half_the_interval_when_nothing_else_does() {
    let world = World::new();
    let mut client = world.channel();
    client.after_ms(4_999);
    assert_eq!(client.names(), [""; 0]);
    assert!(client.session.next_tick_ms() >= client.now.monotonic_ms);
    client.after_ms(1);
    assert_eq!(client.names(), ["heartbeat"]);
    client.after_ms(4_999);
    assert_eq!(client.names(), [""; 0]);
    client.after_ms(1);
    assert_eq!(client.names(), ["heartbeat"]);
}

#[test]
fn two_silent_intervals_end_the_connection() {
    let world = World::new();
    let mut client = world.channel();
    client.after_ms(19_000);
    client.send(&wire::amqp091::HEARTBEAT);
    client.after_ms(19_999);
    assert_eq!(client.session.state(), State::Running);
    client.after_ms(1);
    assert_eq!(client.session.state(), State::Closed);
}

/// A delivery from `q` is held for ever: when its channel is closed, and how.
fn held_for_ever(client: &mut Client) -> (u64, (u16, String, (u16, u16))) {
    client.declare("q");
    client.publish(1, "q", b"x");
    client.consume("q", false);
    client.delivery();
    let delivered_ms = client.now.monotonic_ms;
    loop {
        client.turn();
        client.read_output();
        match client.next() {
            Some(got) if got.name() == "channel.close" => {
                return (client.now.monotonic_ms - delivered_ms, got.close());
            }
            Some(_) => {}
            None => client.after_ms(client.session.next_tick_ms() - client.now.monotonic_ms),
        }
    }
}

#[test]
fn a_delivery_held_too_long_closes_its_channel() {
    let mut world = World::new();
    world.settings.consumer_timeout_ms = Some(5_000);
    let mut client = world.channel();
    let (took_ms, close) = held_for_ever(&mut client);
    let text = "PRECONDITION_FAILED - delivery acknowledgement on channel 1 timed out. Timeout value used: 5000 ms. This \
                timeout value can be configured, see consumers doc guide to learn more";
    assert!((5_000..=7_500).contains(&took_ms), "{took_ms}");
    assert_eq!(close, (406, text.into(), (0, 0)));
    client.method(1, channel::CloseOk {});
    client.open_channel(1);
    assert_eq!(client.ready("q"), 1);
}

#[test]
fn a_quorum_queue_takes_back_what_is_held_too_long_and_cancels_the_consumer() {
    let mut world = World::new();
    world.settings.consumer_timeout_ms = Some(5_000);
    let mut client = world.channel();
    let mut arguments = TableBuf::new();
    arguments.push_str("x-queue-type", "quorum");
    client.method(1, queue::Declare { arguments: arguments.as_table(), ..durable("q") });
    client.wait("queue.declare-ok");
    client.publish(1, "q", b"x");
    client.consume("q", false);
    let (tag, _, _) = client.delivery();
    let delivered_ms = client.now.monotonic_ms;
    let took_ms = loop {
        client.turn();
        client.read_output();
        match client.next() {
            Some(got) if got.name() == "basic.cancel" => break client.now.monotonic_ms - delivered_ms,
            Some(got) => assert_eq!(got.name(), "heartbeat"),
            None => client.after_ms(client.session.next_tick_ms() - client.now.monotonic_ms),
        }
    };
    assert!((5_000..=7_500).contains(&took_ms), "{took_ms}");
    assert_eq!(client.ready("q"), 1, "the message is for others");
    client.ack(tag, false);
    assert_eq!(client.ready("q"), 1, "a late ack changes nothing");
    client.consume("q", false);
    let (_, redelivered, _) = client.delivery();
    assert!(redelivered, "the channel goes on");
}

#[test]
fn a_policy_says_how_long_a_delivery_may_be_held() {
    let mut world = World::new();
    world.settings.consumer_timeout_ms = Some(50_000);
    let policy = metadata::SetPolicy {
        vhost: b"/".as_slice().into(),
        name: "p".into(),
        pattern: "^q".into(),
        apply_to: metadata::ApplyTo::Queues,
        priority: 0,
        definition: [("consumer-timeout", metadata::PolicyValue::Integer(5_000))].into_iter().collect(),
    };
    world.broker.apply(metadata::Command::SetPolicy(policy)).unwrap().wait().unwrap();
    let (took_ms, _) = held_for_ever(&mut world.channel());
    assert!((5_000..=7_500).contains(&took_ms), "{took_ms}");
}

#[test]
fn listings_show_what_a_channel_holds() {
    let world = World::new();
    let mut client = world.channel();
    client.declare("q");
    client.publish(1, "q", b"x");
    client.consume("q", false);
    client.delivery();
    let (_, control) = world.broker.connections().all().remove(0);
    let info = control.info();
    assert_eq!((info.user.as_str(), info.vhost.as_str(), info.state), ("guest", "/", "running"));
    assert_eq!((info.channels, info.heartbeat_s, info.frame_max), (1, 10, 131_072));
    assert!(info.totals.received_bytes > 0 && info.totals.sent_bytes > 0);
    let channel = control.channels().remove(0);
    assert_eq!((channel.number, channel.consumer_count, channel.messages_unacknowledged), (1, 1, 1));
}
