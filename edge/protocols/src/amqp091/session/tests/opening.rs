//! The handshake, and connections that fail in it.

use super::*;

#[test]
fn an_unknown_protocol_gets_a_header_and_the_end() {
    let world = World::new();
    let mut client = world.connect();
    client.send(b"GET / HTTP/1.1\r\n\r\n");
    client.read_output();
    assert_eq!(client.output, b"AMQP\x03\x01\x00\x00");
    assert_eq!(client.session.state(), State::Draining);
}

#[test]
fn a_header_may_arrive_byte_by_byte() {
    let world = World::new();
    let mut client = world.connect();
    for byte in PROTOCOL_HEADER {
        client.send(&[byte]);
    }
    let start = client.wait("connection.start");
    let Some(Method::ConnectionStart(start)) = start.method() else { unreachable!() };
    assert_eq!(start.mechanisms, b"ANONYMOUS AMQPLAIN PLAIN");
    assert_eq!(
        start.server_properties.get("product").and_then(|value| value.as_long_str()),
        Some(&b"RabbitMQ"[..])
    );
}

#[test]
fn half_a_handshake_ends_without_a_word() {
    let world = World::new();
    let mut client = world.connect();
    assert_eq!(client.session.next_tick_ms(), 11_000);
    client.send(&PROTOCOL_HEADER);
    client.wait("connection.start");
    client.after_ms(9_999);
    assert_eq!(client.session.state(), State::Running);
    client.after_ms(1);
    assert_eq!(client.session.state(), State::Closed);
    assert_eq!(client.names(), [""; 0]);
}

#[test]
fn a_failed_login_is_told_to_those_who_asked() {
    let world = World::new();
    let mut client = world.starting();
    client.login(&["authentication_failure_close"], "wrong");
    let text = "ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN. For details see the broker logfile.";
    assert_eq!(client.wait("connection.close").close(), (403, text.into(), (0, 0)));
    assert_eq!(client.session.state(), State::Running, "the client's answer is awaited");
    client.method(0, connection::CloseOk {});
    assert_eq!(client.session.state(), State::Draining);
}

#[test]
fn a_failed_login_of_others_just_ends_after_three_seconds() {
    let world = World::new();
    let mut client = world.starting();
    client.login(&[], "wrong");
    client.login(&[], "guest");
    client.after_ms(0);
    client.after_ms(2_999);
    assert_eq!(client.session.state(), State::Running);
    client.after_ms(1);
    assert_eq!(client.names(), [""; 0]);
    assert_eq!(client.session.state(), State::Closed);
}

#[test]
fn an_unknown_vhost_is_not_allowed() {
    let world = World::new();
    let mut client = world.tuning();
    client.method(0, connection::TuneOk { channel_max: 1, frame_max: 4096, heartbeat: 0 });
    client.method(
        0,
        connection::Open { virtual_host: ShortStr::bounded(b"nope"), ..connection::Open::default() },
    );
    let close = client.wait("connection.close").close();
    assert_eq!(close, (530, "NOT_ALLOWED - vhost nope not found".into(), (10, 40)));
}

#[test]
fn a_lying_frame_size_is_refused_before_its_payload() {
    let world = World::new();
    let mut client = world.starting();
    client.send(&[1, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF]);
    let (code, text, _) = client.wait("connection.close").close();
    assert_eq!(
        (code, text.as_str()),
        (501, "FRAME_ERROR - type 1, all octets = <<>>: {frame_too_large,4294967295,8192}")
    );
    client.method(0, connection::CloseOk {});
    assert_eq!(client.session.state(), State::Running, "what comes behind is not understood");
    client.after_ms(0);
    client.after_ms(3_000);
    assert_eq!(client.session.state(), State::Closed);
}

#[test]
fn methods_before_their_time_are_named_with_the_state() {
    let world = World::new();
    let mut client = world.tuning();
    client.method(0, connection::TuneOk { channel_max: 1, frame_max: 4096, heartbeat: 0 });
    client.method(0, connection::TuneOk { channel_max: 1, frame_max: 4096, heartbeat: 0 });
    let close = client.wait("connection.close").close();
    assert_eq!(
        close,
        (504, "CHANNEL_ERROR - unexpected method in connection state opening".into(), (10, 31))
    );
}

#[test]
fn channels_are_opened_once_and_counted() {
    let mut world = World::new();
    world.settings.channel_max = 0;
    let mut client = world.channel();
    client.method(1, channel::Open::default());
    let close = client.wait("connection.close").close();
    assert_eq!(close, (504, "CHANNEL_ERROR - second 'channel.open' seen".into(), (20, 10)));
    client.method(0, connection::CloseOk {});
    assert_eq!(client.session.state(), State::Draining);
}

#[test]
fn a_method_on_a_channel_that_is_not_open_ends_the_connection() {
    let world = World::new();
    let mut client = world.open();
    client.method(3, basic::Qos::default());
    let close = client.wait("connection.close").close();
    assert_eq!(close, (504, "CHANNEL_ERROR - expected 'channel.open'".into(), (60, 10)));
}
