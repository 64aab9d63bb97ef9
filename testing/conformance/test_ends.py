"""B15, B23, B35, B41: who ends the TCP stream, and when; and what becomes of frames that crossed a close."""

import time

import pytest

import client
import wire
from client import ConnectionClosed, Silence, SocketClosed

CLOSE = {"reply_code": 200, "reply_text": "bye", "class_id": 0, "method_id": 0}


def end_s(connection, timeout):
    """Seconds until the broker ends the stream, with nothing but heartbeats before that."""
    began = time.monotonic()
    with pytest.raises(SocketClosed):
        event = connection.read_event(timeout)
        raise AssertionError(f"unexpected {event}")
    return time.monotonic() - began


def closed_by_client(broker, **options):
    """A connection whose close is answered, and whose socket is still there."""
    connection = broker.connect(**options)
    connection.channel()
    connection.send(0, "connection.close", **CLOSE)
    assert connection.read_event().name == "connection.close-ok"
    connection.closed = True
    return connection


def closed_by_broker(broker, **options):
    """A connection that the broker has closed for a second channel.open."""
    connection = broker.connect(**options)
    connection.channel(1)
    connection.send(1, "channel.open")
    assert connection.read_event().name == "connection.close"
    connection.closed = True
    return connection


# ------------------------------------------------------------------------------------------ the client closes


def test_b035_after_close_ok_the_stream_is_the_clients_to_end(broker):
    connection = closed_by_client(broker)
    for data in (b"", wire.frame(wire.METHOD, 1, wire.method("basic.qos", prefetch_count=1))):
        connection.raw(data)
        with pytest.raises(Silence):
            connection.read_event(0.7)
    connection.io.sock.shutdown(client.socket.SHUT_WR)
    assert end_s(connection, 2) < 1


@pytest.mark.parametrize("heartbeat, least, most", [(1, 0.8, 2), (2, 1.8, 3)])
def test_b035_after_close_ok_the_end_is_awaited_for_a_heartbeat_interval(broker, heartbeat, least, most):
    assert least <= end_s(closed_by_client(broker, heartbeat=heartbeat), 6) <= most


def test_b035_after_close_ok_no_socket_is_left_after_thirty_seconds(broker):
    began = time.monotonic()
    connections = [closed_by_client(broker, heartbeat=heartbeat) for heartbeat in [0, 60, 600] * 20]
    for connection in connections:
        end_s(connection, 36)
        assert 28 <= time.monotonic() - began <= 35


def test_b035_a_closed_connection_holds_neither_queues_nor_messages(broker, ch):
    queue = ch.queue(durable=True)
    ch.put(queue, b"m")
    other = broker.connect().channel()
    own = other.queue()
    assert other.get(queue).body == b"m"
    other.send("queue.declare", queue=own, passive=True)
    other.answer("queue.declare-ok")
    other.connection.send(0, "connection.close", **CLOSE)
    assert other.connection.read_event().name == "connection.close-ok"
    other.connection.closed = True
    assert client.eventually(lambda: ch.get(queue)).redelivered is True
    with ch.closes(404, f"NOT_FOUND - no queue '{own}' in vhost '/'", "queue.declare"):
        ch.ready(own)
    with pytest.raises(Silence):
        other.connection.read_event(0.2)


def test_b035_what_is_closed_does_not_run_in_listings_and_limits(broker):
    vhost = client.fresh("vhost")
    broker.ctl("add_vhost", vhost)
    try:
        broker.ctl("set_permissions", "-p", vhost, "guest", ".*", ".*", ".*")
        broker.ctl("set_vhost_limits", "-p", vhost, '{"max-connections": 1}')
        first = broker.connect(vhost=vhost)
        first.send(0, "connection.close", **CLOSE)
        assert first.read_event().name == "connection.close-ok"
        first.closed = True
        listed = broker.ctl("-q", "list_connections", "vhost", "state")
        assert f"{vhost}\trunning" not in listed
        with pytest.raises(Silence):
            first.read_event(0.2)
        # RabbitMQ counts it against limits until the stream has ended.
        if broker.flavor == "warren":
            broker.connect(vhost=vhost)
        else:
            with pytest.raises(ConnectionClosed):
                broker.connect(vhost=vhost)
            first.io.close()
            time.sleep(0.5)
            broker.connect(vhost=vhost)
    finally:
        broker.ctl("delete_vhost", vhost)


# ------------------------------------------------------------------------------------------ the broker closes


def test_b035_after_a_servers_close_close_ok_ends_the_stream(broker):
    connection = closed_by_broker(broker)
    with pytest.raises(Silence):
        connection.read_event(0.5)
    connection.send(0, "connection.close-ok")
    assert end_s(connection, 3) < 1


@pytest.mark.parametrize("crossing", [False, True], ids=["silence", "a crossing close"])
def test_b035_after_a_servers_close_the_answer_is_awaited_for_a_heartbeat_interval(broker, crossing):
    connection = closed_by_broker(broker, heartbeat=2)
    if crossing:
        connection.send(0, "connection.close", **CLOSE)
        assert connection.read_event().name == "connection.close-ok"
    assert 1.7 <= end_s(connection, 6) <= 3


def test_b035_a_refused_open_ends_with_close_ok(broker):
    connection = broker.connect(start=False)
    with pytest.raises(ConnectionClosed):
        connection.handshake_to_open("nowhere")  # answers
    assert end_s(connection, 3) < 1


# ------------------------------------------------------------------------------------------ who is not let in


def refused(broker, **options):
    connection = broker.connect(start=False)
    connection.raw(wire.PROTOCOL_HEADER)
    connection.wait("connection.start")
    connection.start_ok(response=client.plain_response("guest", "wrong"), **options)
    connection.closed = True
    return connection


def test_b015_a_refused_login_ends_with_close_ok(broker):
    connection = refused(broker)
    assert connection.read_event().reply_code == 403
    with pytest.raises(Silence):
        connection.read_event(0.5)
    connection.send(0, "connection.close-ok")
    assert end_s(connection, 3) < 1


def test_b015_a_refused_login_that_is_not_answered_ends_after_three_seconds(broker):
    connection = refused(broker)
    assert connection.read_event().reply_code == 403
    assert 2.5 <= end_s(connection, 6) <= 4


def test_b015_without_the_capability_a_refused_login_ends_after_three_silent_seconds(broker):
    assert 2.5 <= end_s(refused(broker, capabilities={}), 6) <= 4


# ------------------------------------------------------------------------------------------ what is no frame


@pytest.mark.parametrize("data", [wire.frame(wire.METHOD, 1, b"")[:-1] + b"x", b"\x03\x00\x01\x7f\xff\xff\xff"], ids=["end", "size"])
def test_b023_after_a_damaged_frame_nothing_is_understood_for_three_seconds(broker, data):
    connection = broker.connect()
    connection.channel(1)
    connection.raw(data)
    assert connection.read_event().reply_code == 501
    connection.closed = True
    connection.send(0, "connection.close-ok")
    assert 2.5 <= end_s(connection, 6) <= 4


def test_b023_a_frame_above_frame_max_is_refused_before_its_payload(conn, ch):
    text = "FRAME_ERROR - type 3, all octets = <<>>: {frame_too_large,200000,131064}"
    conn.raw(wire.frame(wire.BODY, 1, bytes(200_000)))
    event = conn.read_event()
    assert (event.reply_code, event.reply_text) == (501, text)
    conn.closed = True


# ------------------------------------------------------------------------------------------ channels

QOS = ("basic.qos", {"prefetch_count": 1})
CROSSED = {
    "a request": [QOS],
    "a passive declare": [("queue.declare", {"queue": "nowhere", "passive": True})],
    "an ack": [("basic.ack", {"delivery_tag": 7})],
    "many": [QOS, ("basic.ack", {"delivery_tag": 7}), QOS, QOS],
}


def closing_with(number, methods):
    frames = wire.frame(wire.METHOD, number, wire.method("channel.close", **CLOSE))
    return frames + b"".join(wire.frame(wire.METHOD, number, wire.method(name, **args)) for name, args in methods)


def is_dropped(broker, methods):
    """Whether a close and these methods in one breath are answered with nothing but close-ok."""
    connection = broker.connect()
    connection.channel(1)
    connection.raw(closing_with(1, methods))
    names = []
    try:
        while True:
            names.append(connection.read_event(0.25).name)
    except Silence:
        pass
    if names != ["channel.close-ok"]:
        connection.closed = True
        return False
    connection.channels.clear()
    return bool(connection.channel(1).queue())


@pytest.mark.parametrize("methods", CROSSED.values(), ids=CROSSED)
def test_b041_what_crosses_the_answer_to_the_clients_close_is_dropped(broker, methods):
    """RabbitMQ drops it as long as its reader has not heard that the channel has ended, which is mostly so, but not always."""
    tries = [is_dropped(broker, methods) for _ in range(10)]
    assert all(tries) if broker.flavor == "warren" else any(tries), tries


@pytest.mark.parametrize("name", ["basic.qos", "channel.close", "channel.close-ok"])
def test_b041_a_method_long_after_the_clients_close_is_504(conn, name):
    conn.channel(1).shut()
    time.sleep(0.25)
    with conn.closes(504, "CHANNEL_ERROR - expected 'channel.open'", name):
        conn.send(1, name)


def test_b041_methods_behind_a_servers_close_are_dropped_and_behind_its_close_ok_an_error(conn):
    conn.channel(1).send("queue.declare", queue="nowhere", passive=True)
    assert conn.read_event().name == "channel.close"
    for name, args in CROSSED["many"]:
        conn.send(1, name, **args)
    with pytest.raises(Silence):
        conn.read_event(0.3)
    conn.send(1, "channel.close-ok")
    with conn.closes(504, "CHANNEL_ERROR - expected 'channel.open'", "basic.qos"):
        conn.send(1, "basic.qos", prefetch_count=1)
