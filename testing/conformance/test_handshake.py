"""B1-B35: protocol headers, start, login, tuning, open, heartbeats, and how a connection ends."""

import contextlib
import re
import time

import pytest

import client
import wire
from client import ConnectionClosed, Silence, SocketClosed

SASL = b"AMQP\x03\x01\x00\x00"
REFUSED = (
    "ACCESS_REFUSED - Login was refused using authentication mechanism {}. For details see the broker logfile."
)


def answer_to(broker, header):
    """All bytes that the broker sends for a protocol header until it closes."""
    connection = broker.connect(start=False)
    connection.raw(header)
    return connection.io.rest()


# ------------------------------------------------------------------------------------------ protocol header


def test_b001_0_9_1_header_is_answered_with_start(broker):
    connection = broker.connect(start=False)
    connection.raw(wire.PROTOCOL_HEADER)
    assert connection.wait("connection.start").version_minor == 9


def test_b001_0_9_header_is_accepted_too(broker):
    connection = broker.connect(start=False)
    connection.raw(b"AMQP\x01\x01\x00\x09")
    start = connection.wait("connection.start")
    assert (start.version_major, start.version_minor) == (0, 9)


def test_b001_header_may_arrive_byte_by_byte(broker):
    connection = broker.connect(start=False)
    for at in range(8):
        connection.raw(wire.PROTOCOL_HEADER[at : at + 1])
    connection.wait("connection.start")


@pytest.mark.parametrize("tail", [b"\x00\x00\x09\x00", b"\x00\x00\x09\x02", b"\x00\x00\x0a\x00"])
def test_b002_unsupported_0_9_and_later_is_answered_with_0_9_1(broker, tail):
    assert answer_to(broker, b"AMQP" + tail) == wire.PROTOCOL_HEADER


@pytest.mark.parametrize(
    "tail", [b"\x00\x00\x08\x00", b"\x01\x01\x00\x0a", b"\x00\x01\x09\x01"], ids=["0-8", "1.1.0.10", "0-1-9-1"]
)
def test_b002_other_versions_are_answered_with_the_preferred_header(broker, tail):
    assert answer_to(broker, b"AMQP" + tail) == broker.pick(SASL, rabbitmq3=wire.PROTOCOL_HEADER)


@pytest.mark.parametrize("tail", [b"\x00\x01\x00\x00", b"\x02\x01\x00\x00"], ids=["plain 1.0", "TLS 1.0"])
def test_b003_amqp_1_0_without_sasl_is_answered_with_the_sasl_header(broker, tail):
    assert answer_to(broker, b"AMQP" + tail) == broker.pick(SASL, rabbitmq3=wire.PROTOCOL_HEADER)


@pytest.mark.parametrize("data", [b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01", b"XXXXXXXX"])
def test_b004_other_protocols_get_a_protocol_header_and_the_end(broker, data):
    assert answer_to(broker, data) == broker.pick(SASL, rabbitmq3=wire.PROTOCOL_HEADER)


def test_b005_a_silent_client_is_dropped_after_ten_seconds(broker):
    connection = broker.connect(start=False)
    began = time.monotonic()
    assert connection.io.rest(timeout=14) == b""
    assert 9 <= time.monotonic() - began <= 12


# ------------------------------------------------------------------------------------------ connection.start


def test_b006_start_names_version_locale_and_mechanisms(conn):
    assert (conn.start.version_major, conn.start.version_minor) == (0, 9)
    assert conn.start.locales == b"en_US"
    mechanisms = set(conn.start.mechanisms.decode().split(" "))
    assert {"PLAIN", "AMQPLAIN"} <= mechanisms


def test_b006_anonymous_is_offered_since_4_0(broker, conn):
    offered = "ANONYMOUS" in conn.start.mechanisms.decode().split(" ")
    assert offered == broker.pick(True, rabbitmq3=False)


def test_b007_server_properties_have_rabbitmqs_keys_in_order(conn):
    keys = [key for key, _ in conn.start.server_properties]
    assert keys == ["capabilities", "cluster_name", "copyright", "information", "platform", "product", "version"]
    assert all(value.kind == "S" for key, value in conn.start.server_properties if key != "capabilities")


def test_b008_capabilities_are_all_true(conn):
    capabilities = dict(conn.start.server_properties)["capabilities"]
    assert capabilities.kind == "F"
    assert capabilities.value == [
        (name, wire.T("t", True))
        for name in (
            "publisher_confirms",
            "exchange_exchange_bindings",
            "basic.nack",
            "consumer_cancel_notify",
            "connection.blocked",
            "consumer_priorities",
            "authentication_failure_close",
            "per_consumer_qos",
            "direct_reply_to",
        )
    ]


def test_b009_product_and_version_are_what_clients_sniff(conn):
    properties = wire.plain(conn.start.server_properties)
    assert properties["product"] == "RabbitMQ"
    assert re.fullmatch(r"\d+\.\d+\.\d+.*", properties["version"])


@pytest.mark.parametrize("value", [True, "yes", 1], ids=repr)
def test_b010_cancel_notify_counts_only_as_a_true_boolean(broker, value):
    channel = broker.connect(capabilities={"consumer_cancel_notify": value}).channel()
    queue = channel.queue()
    channel.consume(queue)
    channel.call("queue.delete", queue=queue)
    if value is True:
        assert channel.next("basic.cancel").nowait is True
    else:
        channel.nothing()


def test_b010_capabilities_of_another_type_are_ignored(broker):
    channel = broker.connect(properties={"capabilities": "all of them"}).channel()
    queue = channel.queue()
    channel.consume(queue)
    channel.call("queue.delete", queue=queue)
    channel.nothing()


def test_b010_client_properties_of_every_type_are_accepted(broker):
    odd = {"a": [1, "x", None], "n": None, "f": 1.5, "T": wire.T("T", 1), "nested": {"deep": {"deeper": 1}}}
    broker.connect(properties=odd).channel()


def test_b011_connection_name_is_shown_by_the_control_command(broker):
    name = client.fresh("name")
    broker.connect(properties={"connection_name": name})
    client.eventually(lambda: name in broker.ctl("-q", "list_connections", "client_properties"), "listed")


# ------------------------------------------------------------------------------------------ login


def begin(broker, **options):
    """A connection that has read connection.start."""
    connection = broker.connect(start=False, **options)
    connection.raw(wire.PROTOCOL_HEADER)
    connection.start = connection.wait("connection.start")
    return connection


@contextlib.contextmanager
def refused_before_open(broker, connection, code, text, method):
    """RabbitMQ only drops a connection that fails before connection.open (after 3 s, the text goes to its log); Warren may
    also say why, but then in exactly these words."""
    try:
        yield
        connection.wait()
    except SocketClosed:
        return
    except ConnectionClosed as closed:
        assert broker.flavor == "warren"
        client.same(closed, code, text, method)


@pytest.mark.parametrize("mechanism", ["NOPE", "", "plain", "EXTERNAL"], ids=repr)
def test_b012_mechanism_that_is_not_offered_is_refused(broker, mechanism):
    connection = begin(broker)
    text = re.compile(rf"COMMAND_INVALID - (unknown|invalid) authentication mechanism '{mechanism}'")
    with refused_before_open(broker, connection, 503, text, "connection.start-ok"):
        connection.start_ok(mechanism=mechanism)


@pytest.mark.parametrize(
    "response",
    [b"", b"guest\x00guest", b"\x00guest", b"\x00guest\x00guest\x00more", b"x\x00guest\x00guest"],
    ids=repr,
)
def test_b013_malformed_plain_response_is_refused(broker, response):
    connection = begin(broker)
    text = re.compile(r"SYNTAX_ERROR - .*", re.S)
    with refused_before_open(broker, connection, 502, text, "connection.start-ok"):
        connection.start_ok(response=response)


def test_b014_amqplain_response_is_a_table_without_its_length(broker):
    connection = begin(broker)
    body = wire.table_body({"LOGIN": connection.user, "PASSWORD": connection.password})
    connection.start_ok(mechanism="AMQPLAIN", response=body)
    connection.wait("connection.tune")


def test_b014_amqplain_with_a_wrong_password_is_refused(broker):
    connection = begin(broker)
    body = wire.table_body({"LOGIN": connection.user, "PASSWORD": "wrong"})
    with connection.closes(403, REFUSED.format("AMQPLAIN")):
        connection.start_ok(mechanism="AMQPLAIN", response=body)


def test_b014_amqplain_without_login_is_refused(broker):
    connection = begin(broker)
    text = re.compile(r"SYNTAX_ERROR - .*", re.S)
    with refused_before_open(broker, connection, 502, text, "connection.start-ok"):
        connection.start_ok(mechanism="AMQPLAIN", response=wire.table_body({"PASSWORD": "x"}))


def test_b006_anonymous_logs_in_as_the_anonymous_user(broker):
    if broker.flavor == "rabbitmq3":
        connection = begin(broker)
        with connection.drops():
            connection.start_ok(mechanism="ANONYMOUS", response=b"")
    else:
        broker.connect(mechanism="ANONYMOUS", response=b"").channel().queue()


def test_b015_failed_login_is_403_with_the_capability(broker):
    connection = begin(broker)
    with connection.closes(403, REFUSED.format("PLAIN")):
        connection.start_ok(response=client.plain_response(connection.user, "wrong"))


def test_b015_unknown_user_gets_the_same_text_as_a_wrong_password(broker):
    connection = begin(broker)
    with connection.closes(403, REFUSED.format("PLAIN")):
        connection.start_ok(response=client.plain_response("nobody-" + client.fresh("u"), "x"))


def test_b015_failed_login_without_the_capability_only_drops(broker):
    connection = begin(broker)
    with connection.drops():
        connection.start_ok(capabilities={}, response=client.plain_response(connection.user, "wrong"))


def test_b017_default_vhost_and_user_have_full_permissions(ch):
    queue = ch.queue(durable=True)
    ch.bind(queue, "amq.direct", "k")
    assert ch.get(queue) is None


# ------------------------------------------------------------------------------------------ tuning


def tuned(broker):
    connection = begin(broker)
    connection.start_ok()
    connection.tune = connection.wait("connection.tune")
    return connection


def test_b018_tune_proposes_2047_131072_60(conn):
    assert conn.tune.args == {"channel_max": 2047, "frame_max": 131072, "heartbeat": 60}


@pytest.mark.parametrize("size", [1, 4095])
def test_b019_frame_max_below_the_minimum_is_refused(broker, size):
    connection = tuned(broker)
    minimum = broker.pick(8192, rabbitmq3=4096, warren=4096)
    text = f"NOT_ALLOWED - negotiated frame_max = {size} is lower than the minimum allowed value ({minimum})"
    with refused_before_open(broker, connection, 530, text, "connection.tune-ok"):
        connection.tune_ok(frame_max=size)


@pytest.mark.parametrize("size", [4096, 8191])
def test_b019_frame_max_4096_is_refused_since_4_1_but_not_by_warren(broker, size):
    connection = tuned(broker)
    if broker.flavor == "rabbitmq4":
        with connection.drops():
            connection.tune_ok(frame_max=size)
    else:
        connection.tune_ok(frame_max=size)
        connection.open()
        assert_frames_fit(connection, size)


def assert_frames_fit(connection, size):
    channel = connection.channel()
    queue = channel.queue()
    channel.publish("", queue, bytes(3 * size))
    event = client.eventually(lambda: channel.get(queue, no_ack=True))
    assert event.body == bytes(3 * size)
    assert event.frames == -(-3 * size // (size - 8))


def test_b019_frame_max_8192_is_accepted_and_kept(broker):
    connection = tuned(broker)
    connection.tune_ok(frame_max=8192)
    connection.open()
    assert_frames_fit(connection, 8192)


@pytest.mark.parametrize(
    "option, value, shown",
    [
        ("channel_max", 2048, "2048"),
        ("channel_max", 0, "0 (no limit)"),
        ("frame_max", 131073, "131073"),
        ("frame_max", 0, "0 (no limit)"),
    ],
)
def test_b020_tune_ok_above_the_servers_values_is_refused(broker, option, value, shown):
    connection = tuned(broker)
    limit = {"channel_max": 2047, "frame_max": 131072}[option]
    text = f"NOT_ALLOWED - negotiated {option} = {shown} is higher than the maximum allowed value ({limit})"
    with refused_before_open(broker, connection, 530, text, "connection.tune-ok"):
        connection.tune_ok(**{option: value})


def test_b021_the_clients_heartbeat_wins_and_is_sent_at_half_of_it(broker):
    connection = broker.connect(heartbeat=2)
    began = time.monotonic()
    until = began + 6
    while connection.heartbeats_seen < 3 and time.monotonic() < until:
        connection.raw(wire.frame(wire.HEARTBEAT, 0, b""))
        with pytest.raises(Silence):
            connection.read_event(0.4)
    assert 1.4 <= time.monotonic() - began <= 5


def test_b021_two_silent_intervals_drop_the_connection(broker):
    connection = broker.connect(heartbeat=1)
    began = time.monotonic()
    with connection.drops():
        pass
    assert 1 <= time.monotonic() - began <= 4
    assert connection.heartbeats_seen >= 1


def test_b021_heartbeat_0_switches_heartbeats_off(broker):
    connection = broker.connect(heartbeat=0)
    with pytest.raises(Silence):
        connection.read_event(2.5)
    assert connection.heartbeats_seen == 0


def test_b021_any_traffic_counts_as_a_heartbeat(broker):
    connection = broker.connect(heartbeat=1)
    channel = connection.channel()
    until = time.monotonic() + 3.2
    while time.monotonic() < until:
        channel.qos(1)
        with pytest.raises(Silence):
            connection.read_event(0.4)


@pytest.mark.parametrize("size", [9000, 200_000, 2**32 - 1])
def test_b022_frame_above_8192_before_login_is_refused(broker, size):
    connection = begin(broker)
    connection.raw(wire.struct.pack(">BHI", wire.METHOD, 0, size) + b"x" * 64)
    with pytest.raises((ConnectionClosed, SocketClosed)):
        connection.wait(timeout=5)


@pytest.mark.parametrize("extra", [0, 8])
def test_b022_frame_of_frame_max_is_accepted_with_the_tolerated_eight_bytes(broker, extra):
    connection = broker.connect(frame_max=8192)
    channel = connection.channel()
    queue = channel.queue()
    connection.frame_max = 8192 + extra
    channel.publish("", queue, bytes(8184 + extra))
    connection.frame_max = 8192
    assert client.eventually(lambda: channel.get(queue, no_ack=True)).body == bytes(8184 + extra)


def test_b022_frame_above_frame_max_is_501(broker):
    connection = broker.connect(frame_max=8192)
    channel = connection.channel()
    args = dict(routing_key=channel.queue())
    connection.raw(wire.frame(wire.METHOD, 1, wire.method("basic.publish", **args)))
    connection.raw(wire.frame(wire.HEADER, 1, wire.header_payload(20000, wire.properties({}))))
    text = re.compile(r"FRAME_ERROR - type 3, (all|first 16) octets = <<.*>>: \{frame_too_large,\d+,\d+\}", re.S)
    with connection.closes(501, text):
        connection.raw(wire.frame(wire.BODY, 1, bytes(12000)))


# ------------------------------------------------------------------------------------------ frame errors


def test_b023_wrong_end_octet_is_501(conn):
    data = wire.frame(wire.METHOD, 1, wire.method("channel.open"))
    with pytest.raises(ConnectionClosed) as closed:
        conn.raw(data[:-1] + b"\x00")
        conn.wait()
    text = "FRAME_ERROR - type 1, all octets = <<0,20,0,10,0>>: {invalid_frame_end_marker,0}"
    client.same(closed.value, 501, text, "0.0")


def test_b023_wrong_end_octet_of_a_long_frame_shows_sixteen_octets(conn):
    data = wire.frame(wire.METHOD, 1, wire.method("queue.declare", queue="q" * 100))
    with pytest.raises(ConnectionClosed) as closed:
        conn.raw(data[:-1] + b"\x00")
        conn.wait()
    start = "FRAME_ERROR - type 1, first 16 octets = <<0,50,0,10,0,0,100,113,113,"
    assert closed.value.code == 501 and closed.value.text.startswith(start)
    assert closed.value.text.endswith(">>: {invalid_frame_end_marker,0}")


BAD_FRAMES = [
    ("heartbeat on a channel", wire.HEARTBEAT, 1, b"", 505, "UNEXPECTED_FRAME - type 8, all octets = <<>>"),
    ("heartbeat with bytes", wire.HEARTBEAT, 0, b"x", 501, 'FRAME_ERROR - type 8, all octets = <<"x">>: unknown_frame'),
    ("type 0", 0, 1, b"x", 501, 'FRAME_ERROR - type 0, all octets = <<"x">>: unknown_frame'),
    ("type 4", 4, 1, b"x", 501, 'FRAME_ERROR - type 4, all octets = <<"x">>: unknown_frame'),
    ("type 9", 9, 0, b"x", 501, 'FRAME_ERROR - type 9, all octets = <<"x">>: unknown_frame'),
    ("type 255", 255, 1, b"\x00\x01", 501, "FRAME_ERROR - type 255, all octets = <<0,1>>: unknown_frame"),
    ("half a method id", 1, 0, b"\x00\x0a", 501, "FRAME_ERROR - type 1, all octets = <<0,10>>: unknown_frame"),
    ("body on channel 0", wire.BODY, 0, b"\x00\x0a", 505, "UNEXPECTED_FRAME - type 3, all octets = <<0,10>>"),
    ("short header", wire.HEADER, 1, b"\x00\x3c\x00", 501, "FRAME_ERROR - type 2, all octets = <<0,60,0>>: unknown_frame"),
]


@pytest.mark.parametrize("kind, channel, payload, code, text", [c[1:] for c in BAD_FRAMES], ids=[c[0] for c in BAD_FRAMES])
def test_b023_bad_frame_is_an_error_with_its_octets(conn, ch, kind, channel, payload, code, text):
    with conn.closes(code, text):
        conn.raw(wire.frame(kind, channel, payload))


# ------------------------------------------------------------------------------------------ open, order of methods


def test_b024_open_ok_is_empty_and_capabilities_and_insist_are_ignored(broker):
    connection = tuned(broker)
    connection.tune_ok()
    connection.send(0, "connection.open", virtual_host="/", capabilities="anything", insist=True)
    assert connection.wait("connection.open-ok").known_hosts == ""


def test_b025_missing_vhost_is_530(broker):
    connection = tuned(broker)
    connection.tune_ok()
    with connection.closes(530, "NOT_ALLOWED - vhost nowhere not found", "connection.open"):
        connection.open("nowhere")


def test_b020_open_before_tune_ok_is_an_error(broker):
    connection = tuned(broker)
    with pytest.raises((ConnectionClosed, SocketClosed)):
        connection.open()


def test_b012_tune_ok_before_start_ok_is_an_error(broker):
    connection = begin(broker)
    with pytest.raises((ConnectionClosed, SocketClosed)):
        connection.send(0, "connection.tune-ok", channel_max=1, frame_max=8192)
        connection.wait()


def test_b024_channel_method_before_open_is_an_error(broker):
    connection = tuned(broker)
    with pytest.raises((ConnectionClosed, SocketClosed)):
        connection.send(1, "channel.open")
        connection.wait()


def test_b024_second_open_is_an_error(conn):
    with conn.closes(504, "CHANNEL_ERROR - unexpected method in connection state running", "connection.open"):
        conn.send(0, "connection.open", virtual_host="/")


@pytest.mark.parametrize("name", ["connection.start-ok", "connection.close-ok", "connection.start", "queue.declare"])
def test_b024_method_out_of_place_on_channel_0_is_504(conn, name):
    with conn.closes(504, "CHANNEL_ERROR - unexpected method in connection state running", name):
        conn.send(0, name)


@pytest.mark.parametrize("ids", [(10, 99), (153, 1)], ids=str)
def test_b042_unknown_method_on_channel_0_ends_the_connection(broker, conn, ids):
    with pytest.raises((ConnectionClosed, SocketClosed)) as closed:
        conn.raw(wire.frame(wire.METHOD, 0, wire.struct.pack(">HH", *ids)))
        conn.wait()
    if broker.flavor == "warren" and closed.type is ConnectionClosed:
        assert closed.value.code in (501, 503)
    else:
        assert closed.type is SocketClosed


# ------------------------------------------------------------------------------------------ update-secret


def test_b029_update_secret_is_answered_ok_in_running_state(conn, ch):
    conn.send(0, "connection.update-secret", new_secret="guest", reason="rotation")
    conn.wait("connection.update-secret-ok")
    ch.queue()


def test_b029_update_secret_before_open_is_an_error(broker):
    connection = tuned(broker)
    connection.tune_ok()
    text = "CHANNEL_ERROR - unexpected method in connection state opening"
    with connection.closes(504, text, "connection.update-secret"):
        connection.send(0, "connection.update-secret", new_secret="guest", reason="rotation")


# ------------------------------------------------------------------------------------------ ends


def test_b031_long_reply_texts_are_cut_to_255_bytes(ch):
    name = "q" * 255
    with ch.closes(404, re.compile(r"NOT_FOUND - no queue 'q+\.\.\.", re.S), "queue.declare"):
        ch.call("queue.declare", queue=name, passive=True)
    assert len(ch.error.text.encode()) == 255


def test_b031_cutting_does_not_break_a_character(broker, conn, ch):
    name = "é" * 127
    if broker.flavor == "rabbitmq4":
        with conn.closes(541, "INTERNAL_ERROR"):  # 4.3.6 stumbles over its own cut
            ch.send("queue.declare", queue=name, passive=True)
        return
    with ch.closes(404, re.compile("NOT_FOUND - no queue 'é+\\.\\.\\."), "queue.declare"):
        ch.send("queue.declare", queue=name, passive=True)
    assert 250 <= len(ch.error.text.encode()) <= 255


def test_b032_close_names_the_offending_method(ch):
    with ch.closes(404, "NOT_FOUND - no exchange 'nowhere' in vhost '/'", "exchange.declare"):
        ch.call("exchange.declare", exchange="nowhere", passive=True)


def test_b033_soft_errors_leave_other_channels_alone(conn, ch):
    other = conn.channel()
    with other.closes(404, "NOT_FOUND - no queue 'nowhere' in vhost '/'", "basic.consume"):
        other.consume("nowhere")
    ch.queue()


def test_b035_clients_close_is_answered_with_close_ok(conn, ch):
    conn.send(0, "connection.close", reply_code=200, reply_text="bye")
    conn.wait("connection.close-ok")
    conn.closed = True


def test_b035_crossing_close_after_a_servers_close_is_answered(conn, ch):
    ch.send("channel.open")
    while True:
        event = conn.read_event()
        if event.name == "connection.close":
            break
    conn.send(0, "connection.close", reply_code=200, reply_text="crossing")
    assert conn.read_event().name == "connection.close-ok"
    conn.closed = True


def test_b035_methods_behind_a_clients_close_are_ignored(conn, ch):
    queue = ch.queue()
    conn.send(0, "connection.close", reply_code=200, reply_text="bye")
    ch.send("queue.declare", queue=queue, passive=True)
    assert conn.read_event().name == "connection.close-ok"
    conn.closed = True


def test_b189_a_killed_socket_returns_its_messages_and_exclusive_queues(broker, ch):
    queue = ch.queue(durable=True)
    ch.put(queue, b"m")
    other = broker.connect().channel()
    own = other.queue()
    assert other.get(queue).body == b"m"
    other.connection.kill()
    event = client.eventually(lambda: ch.get(queue))
    assert event.redelivered is True
    client.eventually(lambda: gone(broker, own))


def gone(broker, queue):
    try:
        broker.connect().channel().ready(queue)
    except client.ChannelClosed as closed:
        return closed.code == 404
    return False
