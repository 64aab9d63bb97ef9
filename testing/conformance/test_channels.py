"""B37-B45: opening, closing and reusing channels, methods and contents in the wrong order or shape, delivery tags."""

import contextlib
import re

import pytest

import client
import wire
from client import ConnectionClosed, SocketClosed


def publish_method(**args):
    return wire.frame(wire.METHOD, 1, wire.method("basic.publish", **args))


def header(size, class_id=60, raw=b"\x00\x00"):
    return wire.frame(wire.HEADER, 1, wire.header_payload(size, raw, class_id))


# ------------------------------------------------------------------------------------------ opening


def test_b037_channel_open_twice_is_504(conn, ch):
    with conn.closes(504, "CHANNEL_ERROR - second 'channel.open' seen", "channel.open"):
        ch.send("channel.open")


def test_b037_method_on_a_closed_channel_is_504(conn):
    with conn.closes(504, "CHANNEL_ERROR - expected 'channel.open'", "queue.declare"):
        conn.send(5, "queue.declare", queue="x")


def test_b037_a_channel_closed_twice_in_one_breath_is_answered_twice(conn):
    channel = conn.channel()
    close = {"reply_code": 200, "reply_text": "", "class_id": 0, "method_id": 0}
    frame = wire.frame(wire.METHOD, channel.number, wire.method("channel.close", **close))
    conn.raw(frame + frame)
    for _ in range(2):
        channel.answer("channel.close-ok")
    channel.call("channel.open")


def test_b037_content_on_a_closed_channel_is_an_error(conn):
    with pytest.raises(ConnectionClosed) as closed:
        conn.raw(wire.frame(wire.BODY, 3, b"x"))
        conn.wait()
    assert closed.value.code in (504, 505)


def test_b037_channel_open_on_channel_0_is_an_error(conn):
    with pytest.raises(ConnectionClosed) as closed:
        conn.send(0, "channel.open")
        conn.wait()
    assert closed.value.code in (503, 504)


def test_b038_one_channel_more_than_channel_max_is_530(broker):
    connection = broker.connect(channel_max=4)
    for _ in range(4):
        connection.channel()
    text = "NOT_ALLOWED - number of channels opened (4) has reached the negotiated channel_max (4)"
    with connection.closes(530, text):
        connection.channel()


def test_b038_a_closed_channel_makes_room(broker):
    connection = broker.connect(channel_max=2)
    connection.channel()
    for _ in range(10):
        connection.channel().shut()


def test_b038_it_is_the_count_that_is_limited_not_the_number(broker):
    connection = broker.connect(channel_max=4)
    if broker.flavor == "warren":
        with contextlib.suppress(ConnectionClosed):  # a number above channel_max is a client's fault: both answers are fine
            connection.channel(900)
    else:
        connection.channel(900)


def test_b038_as_many_channels_as_negotiated_can_be_open(broker):
    connection = broker.connect(channel_max=8)
    channels = [connection.channel() for _ in range(8)]
    assert all(channel.queue() for channel in channels)


def test_b038_all_2047_channels_can_be_open(conn):
    for number in range(1, 2048):
        conn.send(number, "channel.open")
    opened = {conn.wait("channel.open-ok").channel for _ in range(2047)}
    assert opened == set(range(1, 2048))


def test_b039_open_ok_has_an_empty_channel_id(conn):
    conn.send(7, "channel.open")
    assert conn.wait("channel.open-ok").channel_id == b""


def test_b040_client_flow_false_is_540(conn, ch):
    with conn.closes(540, "NOT_IMPLEMENTED - active=false", "channel.flow"):
        ch.send("channel.flow", active=False)


def test_b040_client_flow_true_is_answered(ch):
    assert ch.call("channel.flow", active=True).active is True


# ------------------------------------------------------------------------------------------ closing and reuse


def test_b041_frames_behind_a_channel_close_are_discarded_until_close_ok(conn):
    channel = conn.channel(1)
    channel.close_ok = False
    name = client.fresh("q")
    with channel.closes(404, "NOT_FOUND - no queue 'nowhere' in vhost '/'", "basic.get"):
        channel.get("nowhere")
    channel.send("queue.declare", queue=name, exclusive=True)
    channel.publish("", "x", b"body")
    conn.send(1, "channel.close-ok")
    again = conn.channel(1)
    with again.closes(404, f"NOT_FOUND - no queue '{name}' in vhost '/'", "queue.declare"):
        again.ready(name)


def test_b041_number_is_reusable_right_after_close_ok(conn):
    for _ in range(20):
        channel = conn.channel(3)
        with channel.closes(404, "NOT_FOUND - no queue 'nowhere' in vhost '/'", "queue.declare"):
            channel.ready("nowhere")
    assert conn.channel(3).queue()


def test_b041_number_is_reusable_after_the_clients_close(conn):
    for _ in range(20):
        channel = conn.channel(3)
        channel.queue()
        channel.shut()


def test_b041_crossing_channel_closes_are_both_answered(conn):
    channel = conn.channel(1)
    channel.close_ok = False
    channel.send("basic.get", queue="nowhere")
    channel.send("channel.close", reply_code=200, reply_text="bye")
    seen = {conn.read_event().name, conn.read_event().name}
    assert seen == {"channel.close", "channel.close-ok"}
    conn.send(1, "channel.close-ok")
    conn.channels.clear()
    assert conn.channel(2).queue()


def test_b041_channel_close_with_a_channel_error_code_is_only_answered(conn, ch):
    ch.call("channel.close", reply_code=404, reply_text="whatever", class_id=50, method_id=10)
    conn.channels.clear()
    assert conn.channel(1).queue()


# ------------------------------------------------------------------------------------------ methods in a wrong shape


@pytest.mark.parametrize("ids", [(99, 1), (50, 99), (60, 130)], ids=str)
def test_b042_unknown_method_ends_the_connection(broker, conn, ch, ids):
    with pytest.raises((ConnectionClosed, SocketClosed)) as closed:
        conn.raw(wire.frame(wire.METHOD, 1, wire.struct.pack(">HH", *ids)))
        conn.wait()
    if broker.flavor == "warren" and closed.type is ConnectionClosed:
        assert closed.value.code in (501, 503)
    else:
        assert closed.type is SocketClosed  # RabbitMQ's reader stumbles and says nothing


@pytest.mark.parametrize("name", ["channel.flow-ok", "queue.declare-ok", "basic.consume-ok", "tx.select-ok"])
def test_b042_server_side_method_from_a_client_is_503(broker, conn, ch, name):
    with conn.closes(503, "COMMAND_INVALID - unimplemented method", name):
        ch.send(name)


@pytest.mark.parametrize(
    "payload, text",
    [
        (wire.method("queue.declare", queue="hello")[:8], "FRAME_ERROR - cannot decode <<0,0,5,104>>"),
        (
            wire.method("queue.declare", queue="hello", exclusive=True) + b"xx",
            "FRAME_ERROR - cannot decode <<0,0,5,104,101,108,108,111,4,0,0,0,0,120,120>>",
        ),
        (
            wire.method("queue.declare", queue="hello")[:-4] + b"\x7f\x00\x00\x05\x01kI??",
            "FRAME_ERROR - cannot decode <<0,0,5,104,101,108,108,111,0,127,0,0,5,1,107,73,63,63>>",
        ),
    ],
    ids=["cut", "trailing bytes", "lying table size"],
)
def test_b042_undecodable_fields_are_501(conn, ch, payload, text):
    with conn.closes(501, text, "queue.declare"):
        conn.raw(wire.frame(wire.METHOD, 1, payload))


def test_b042_names_that_are_not_utf8_are_501(conn, ch):
    with conn.closes(501, "FRAME_ERROR - Malformed UTF-8 in shortstr"):
        ch.send("queue.declare", queue=b"\xff\xfe", passive=True)


def test_b042_unknown_field_type_in_a_table_ends_the_connection(broker, conn, ch):
    payload = wire.method("queue.declare", queue="hello")[:-4] + b"\x00\x00\x00\x05\x01kz??"
    with pytest.raises((ConnectionClosed, SocketClosed)) as closed:
        conn.raw(wire.frame(wire.METHOD, 1, payload))
        conn.wait()
    if broker.flavor == "warren" and closed.type is ConnectionClosed:
        assert closed.value.code in (501, 502)
    else:
        assert closed.type is SocketClosed


def test_b042_deeply_nested_table_does_not_harm_the_broker(broker, conn, ch, ch2):
    data = b"\x00\x00\x00\x00"
    while len(data) < 100_000:
        data = wire.struct.pack(">I", len(data) + 3) + b"\x01kF" + data
    try:
        conn.raw(wire.frame(wire.METHOD, 1, wire.method("queue.declare", queue="nest", exclusive=True)[:-4] + data))
        conn.read_event(4)
    except (client.Closed, SocketClosed, client.Silence):
        pass
    ch2.queue()


# ------------------------------------------------------------------------------------------ contents in a wrong order

EXPECTED_HEADER = "UNEXPECTED_FRAME - expected content header for class 60, got {} instead"
WRONG_ORDER = [
    ("header first", [header(1)], "UNEXPECTED_FRAME - expected method frame, got non method frame instead", "0.0"),
    (
        "body first",
        [wire.frame(wire.BODY, 1, b"x")],
        "UNEXPECTED_FRAME - expected method frame, got non method frame instead",
        "0.0",
    ),
    (
        "method for a header",
        [publish_method(), wire.frame(wire.METHOD, 1, wire.method("basic.qos"))],
        EXPECTED_HEADER.format("non content header frame"),
        "basic.publish",
    ),
    (
        "body for a header",
        [publish_method(), wire.frame(wire.BODY, 1, b"x")],
        EXPECTED_HEADER.format("non content header frame"),
        "basic.publish",
    ),
    (
        "header of another class",
        [publish_method(), header(1, class_id=50)],
        EXPECTED_HEADER.format("one for class 50"),
        "basic.publish",
    ),
    (
        "header with a weight",
        [publish_method(), wire.frame(wire.HEADER, 1, wire.struct.pack(">HHQ", 60, 7, 0) + b"\x00\x00")],
        EXPECTED_HEADER.format("non content header frame"),
        "basic.publish",
    ),
    (
        "header for a body",
        [publish_method(), header(1), header(1)],
        "UNEXPECTED_FRAME - expected content body, got non content body frame instead",
        "basic.publish",
    ),
    (
        "method for a body",
        [publish_method(), header(1), wire.frame(wire.METHOD, 1, wire.method("basic.qos"))],
        "UNEXPECTED_FRAME - expected content body, got non content body frame instead",
        "basic.publish",
    ),
]


@pytest.mark.parametrize("frames, text, method", [case[1:] for case in WRONG_ORDER], ids=[c[0] for c in WRONG_ORDER])
def test_b023_content_out_of_order_is_505(conn, ch, frames, text, method):
    with conn.closes(505, text, method):
        conn.raw(b"".join(frames))


def test_b023_more_body_than_announced_is_501_since_4(broker, conn, ch):
    frames = publish_method(exchange="amq.direct") + header(1) + wire.frame(wire.BODY, 1, b"xx")
    if broker.flavor == "rabbitmq3":
        with conn.closes(
            505, "UNEXPECTED_FRAME - expected content body, got non content body frame instead", "basic.publish"
        ):
            conn.raw(frames)
            ch.send("basic.qos")
        return
    with conn.closes(501, "FRAME_ERROR - content body frame exceeds remaining content size", "basic.publish"):
        conn.raw(frames)


@pytest.mark.parametrize(
    "raw", [b"\x80\x00", b"\x00\x00xx", b"\x20\x00\x00\x00\x00\x05\x01kzxx"], ids=["cut", "trailing", "bad table"]
)
def test_b034_undecodable_properties_close_the_connection(broker, conn, ch, raw):
    with pytest.raises(ConnectionClosed) as closed:
        conn.raw(publish_method(exchange="amq.direct") + header(0, raw=raw))
        conn.wait()
    if broker.flavor == "warren":
        assert closed.value.code in (501, 502, 541)
    else:
        client.same(closed.value, 541, "INTERNAL_ERROR", "0.0")


def test_b023_large_contents_of_many_channels_may_interleave(conn, ch):
    queue = ch.queue()
    numbers = [conn.channel().number for _ in range(6)]
    part, parts = b"q" * 120_000, 100
    for number in numbers:
        conn.raw(wire.frame(wire.METHOD, number, wire.method("basic.publish", routing_key=queue)))
        conn.raw(wire.frame(wire.HEADER, number, wire.header_payload(len(part) * parts, b"\x00\x00")))
    for _ in range(parts):
        for number in numbers:
            conn.raw(wire.frame(wire.BODY, number, part))
    for _ in numbers:
        assert len(client.eventually(lambda: ch.get(queue, no_ack=True)).body) == len(part) * parts


def test_b023_contents_of_different_channels_may_interleave(conn, ch):
    other = conn.channel()
    queue = ch.queue()
    conn.raw(wire.frame(wire.METHOD, 1, wire.method("basic.publish", routing_key=queue)))
    conn.raw(wire.frame(wire.METHOD, 2, wire.method("basic.publish", routing_key=queue)))
    conn.raw(wire.frame(wire.HEADER, 2, wire.header_payload(2, b"\x00\x00")))
    conn.raw(wire.frame(wire.HEADER, 1, wire.header_payload(2, b"\x00\x00")))
    conn.raw(wire.frame(wire.BODY, 1, b"a") + wire.frame(wire.BODY, 2, b"c"))
    conn.raw(wire.frame(wire.BODY, 2, b"d") + wire.frame(wire.BODY, 1, b"b"))
    client.eventually(lambda: other.ready(queue) == 2)
    assert sorted(ch.drain(queue)) == [b"ab", b"cd"]


def test_b023_a_frame_may_arrive_byte_by_byte(conn, ch):
    queue = ch.queue()
    for octet in wire.content_frames(1, dict(routing_key=queue), {"app_id": "slow"}, b"body", 131072):
        conn.raw(bytes([octet]))
    assert client.eventually(lambda: ch.get(queue, no_ack=True)).body == b"body"


def test_b023_empty_body_frames_are_tolerated(conn, ch):
    queue = ch.queue()
    conn.raw(publish_method(routing_key=queue) + header(2))
    for part in (b"", b"a", b"", b"b"):
        conn.raw(wire.frame(wire.BODY, 1, part))
    assert client.eventually(lambda: ch.get(queue, no_ack=True)).body == b"ab"


def test_b041_half_a_content_is_forgotten_with_its_channel(conn):
    channel = conn.channel(1)
    queue = conn.channel(2).queue()
    conn.raw(publish_method(routing_key=queue) + header(10))
    with pytest.raises(ConnectionClosed) as closed:
        channel.call("channel.close", reply_code=200, reply_text="bye")
    assert closed.value.code == 505


# ------------------------------------------------------------------------------------------ access, tags, requeue


def test_b043_access_request_is_answered_with_ticket_1(ch):
    assert ch.call("access.request", realm="/data", active=True, write=True, read=True).ticket == 1


def test_b043_tickets_are_ignored(ch):
    ch.call("queue.declare", ticket=4711, queue=client.fresh("q"), exclusive=True)


def test_b044_delivery_tags_count_from_1_across_get_and_deliver(conn, ch):
    first, second = ch.queue(), ch.queue()
    ch.put(first, b"a", b"b")
    ch.put(second, b"c", b"d")
    assert ch.get(first).delivery_tag == 1
    ch.consume(second)
    assert [ch.deliver().delivery_tag for _ in range(2)] == [2, 3]
    assert ch.get(first, no_ack=True).delivery_tag == 4


def test_b044_no_ack_deliveries_count_too(ch):
    queue = ch.queue()
    ch.put(queue, *[b"m"] * 5)
    ch.consume(queue, no_ack=True)
    assert [ch.deliver().delivery_tag for _ in range(5)] == [1, 2, 3, 4, 5]


def test_b044_tags_are_per_channel(conn, ch):
    queue = ch.queue()
    ch.put(queue, b"a", b"b")
    assert ch.get(queue).delivery_tag == 1
    assert conn.channel().get(queue).delivery_tag == 1


def test_b044_publish_numbers_start_at_confirm_select(ch):
    queue = ch.queue()
    ch.publish("", queue, b"before")
    ch.call("confirm.select")
    ch.publish("", queue, b"after")
    assert ch.next("basic.ack").delivery_tag == 1


def test_b045_closing_a_channel_requeues_its_unacked_as_redelivered(conn, ch):
    queue = ch.queue()
    ch.put(queue, b"a", b"b", b"c")
    other = conn.channel()
    other.consume(queue)
    assert [other.deliver().body for _ in range(3)] == [b"a", b"b", b"c"]
    other.ack(2)
    other.shut()
    client.eventually(lambda: ch.ready(queue) == 2)
    got = [ch.get(queue, no_ack=True) for _ in range(2)]
    assert [(event.body, event.redelivered) for event in got] == [(b"a", True), (b"c", True)]


def test_b045_a_channel_error_requeues_too(conn, ch):
    queue = ch.queue()
    ch.put(queue, b"a")
    other = conn.channel()
    assert other.get(queue).redelivered is False
    with other.closes(404, re.compile("NOT_FOUND - no queue 'nowhere' in vhost '/'"), "queue.declare"):
        other.ready("nowhere")
    assert client.eventually(lambda: ch.get(queue)).redelivered is True
