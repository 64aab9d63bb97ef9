"""B27: resource alarms. They stop every publisher of the node, so these tests run alone: `pytest -m alone -n 0`."""

import contextlib
import json
import socket
import threading

import pytest

import client
import wire

pytestmark = pytest.mark.alone

MEMORY, DISK = "low on memory", "low on disk"
QUIET_S = 0.4


class Alarms:
    """Raises alarms by moving the thresholds, and puts the thresholds back."""

    def __init__(self, broker):
        self.ctl = broker.ctl

    def memory(self):
        self.ctl("set_vm_memory_high_watermark", "0")

    def no_memory(self):
        self.ctl("set_vm_memory_high_watermark", "0.6")

    def disk(self):
        self.ctl("set_disk_free_limit", "1000000GB")

    def no_disk(self):
        self.ctl("set_disk_free_limit", "50MB")

    def clear(self):
        self.no_memory()
        self.no_disk()


@pytest.fixture
def alarms(broker):
    alarms = Alarms(broker)
    alarms.clear()
    yield alarms
    alarms.clear()


def state_of(broker, conn):
    """The state of this connection in list_connections."""
    rows = broker.ctl("-q", "list_connections", "peer_port", "state", "--formatter", "json")
    port = conn.io.sock.getsockname()[1]
    return next(row["state"] for row in json.loads(rows) if row["peer_port"] == port)


def blocked(conn, reason):
    assert conn.wait("connection.blocked").reason == reason


@contextlib.contextmanager
def quiet(conn):
    """Nothing may come on this connection within a while."""
    yield
    with pytest.raises(client.Silence):
        conn.read_event(QUIET_S)


def stuck(conn, channel):
    """Nothing is read from the connection any more."""
    with quiet(conn):
        channel.send("basic.qos", prefetch_count=1)


def test_b027_a_publisher_is_told_once_and_nothing_more_is_read(broker, alarms):
    conn = broker.connect()
    ch = conn.channel()
    queue = ch.queue()
    alarms.memory()
    ch.publish("", queue, "held")
    blocked(conn, MEMORY)
    ch.publish("", queue, "held too")
    stuck(conn, ch)
    alarms.no_memory()
    conn.wait("connection.unblocked")
    ch.answer("basic.qos-ok")
    assert ch.drain(queue) == [b"held", b"held too"]


def test_b027_held_messages_are_confirmed_after_the_alarm(broker, alarms):
    conn = broker.connect()
    ch = conn.channel()
    queue = ch.queue()
    ch.call("confirm.select")
    alarms.memory()
    ch.publish("", queue, "held")
    blocked(conn, MEMORY)
    with quiet(conn):
        pass
    alarms.no_memory()
    conn.wait("connection.unblocked")
    assert ch.confirms(1) == {1: True}


def test_b027_disk_alarm_has_its_own_reason(broker, alarms):
    conn = broker.connect()
    ch = conn.channel()
    alarms.disk()
    ch.publish("", "nowhere")
    blocked(conn, DISK)
    alarms.no_disk()
    conn.wait("connection.unblocked")


def test_b027_two_alarms_are_joined_and_both_must_clear(broker, alarms):
    conn = broker.connect()
    ch = conn.channel()
    alarms.memory()
    alarms.disk()
    ch.publish("", "nowhere")
    blocked(conn, "low on disk & memory")
    with quiet(conn):
        alarms.no_memory()
    alarms.no_disk()
    conn.wait("connection.unblocked")


def test_b027_a_second_alarm_is_not_told(broker, alarms):
    conn = broker.connect()
    ch = conn.channel()
    alarms.disk()
    ch.publish("", "nowhere")
    blocked(conn, DISK)
    with quiet(conn):
        alarms.memory()
        alarms.no_disk()
    alarms.no_memory()
    conn.wait("connection.unblocked")


def test_b027_a_connection_that_does_not_publish_is_left_alone(broker, alarms):
    conn, other = broker.connect(), broker.connect()
    queue = other.channel().queue()
    ch = conn.channel()
    queue = ch.declare(durable=True).queue
    ch.put(queue, "1", "2")
    consumer = other.channel()
    alarms.memory()
    consumer.consume(queue)
    first, second = consumer.deliver(b"1"), consumer.deliver(b"2")
    consumer.ack(second.delivery_tag, multiple=True)
    assert first.delivery_tag == 1
    assert consumer.ready(queue) == 0
    alarms.no_memory()
    with quiet(other):
        pass


def test_b027_publishes_before_the_alarm_do_not_block(broker, alarms):
    conn = broker.connect()
    ch = conn.channel()
    queue = ch.queue()
    ch.put(queue, "before")
    alarms.memory()
    with quiet(conn):
        pass
    assert ch.drain(queue) == [b"before"]
    ch.publish("", queue, "now")
    blocked(conn, MEMORY)
    alarms.no_memory()
    conn.wait("connection.unblocked")


def test_b027_a_connection_opened_during_the_alarm_is_blocked_when_it_publishes(broker, alarms):
    alarms.memory()
    conn = broker.connect()
    ch = conn.channel()
    queue = ch.queue()
    ch.publish("", queue, "x")
    blocked(conn, MEMORY)
    alarms.no_memory()
    conn.wait("connection.unblocked")
    assert client.eventually(lambda: ch.drain(queue)) == [b"x"]


def test_b027_the_header_of_a_message_blocks_not_its_method(broker, alarms):
    conn = broker.connect()
    ch = conn.channel()
    queue = ch.queue()
    alarms.memory()
    with quiet(conn):
        ch.send("basic.publish", exchange="", routing_key=queue)
    conn.raw(client.wire.content_frames(ch.number, {}, {}, b"later", conn.frame_max)[len_of_publish():])
    blocked(conn, MEMORY)
    alarms.no_memory()
    conn.wait("connection.unblocked")
    assert client.eventually(lambda: ch.drain(queue)) == [b"later"]


def len_of_publish():
    """Bytes of a basic.publish frame with empty names."""
    return len(client.wire.frame(client.wire.METHOD, 1, client.wire.method("basic.publish")))


def test_b027_a_client_without_the_capability_is_not_told_but_held(broker, alarms):
    conn = broker.connect(capabilities={})
    ch = conn.channel()
    queue = ch.queue()
    alarms.memory()
    ch.publish("", queue, "held")
    stuck(conn, ch)
    alarms.no_memory()
    ch.answer("basic.qos-ok")
    assert ch.drain(queue) == [b"held"]


def test_b027_heartbeats_go_on_and_silence_is_not_punished_while_blocked(broker, alarms):
    conn = broker.connect(heartbeat=1)
    ch = conn.channel()
    alarms.memory()
    ch.publish("", "nowhere")
    blocked(conn, MEMORY)
    seen = conn.heartbeats_seen
    with pytest.raises(client.Silence):
        conn.read_event(4)
    assert conn.heartbeats_seen > seen
    alarms.no_memory()
    conn.wait("connection.unblocked")


def test_b027_the_state_of_a_connection_shows_the_alarm(broker, alarms):
    conn = broker.connect()
    ch = conn.channel()
    alarms.memory()
    client.eventually(lambda: state_of(broker, conn) == "blocking", timeout=30)
    ch.publish("", "nowhere")
    blocked(conn, MEMORY)
    assert state_of(broker, conn) == "blocked"
    alarms.no_memory()
    conn.wait("connection.unblocked")
    assert state_of(broker, conn) == "running"


@pytest.fixture
def flood(broker):
    """A connection on which more is published, until the test is over, than the disk takes."""
    conn = broker.connect()
    ch = conn.channel()
    queue = ch.queue(durable=True, exclusive=False, arguments={"x-max-length": 100})
    frames = b"".join(
        wire.content_frames(ch.number, dict(exchange="", routing_key=queue), {"delivery_mode": 2}, bytes(1 << 17), conn.frame_max)
        for _ in range(64)
    )
    stop = threading.Event()

    def publish():
        with contextlib.suppress(OSError):
            while not stop.is_set():
                conn.raw(frames)

    thread = threading.Thread(target=publish)
    thread.start()
    yield conn
    stop.set()
    conn.io.sock.shutdown(socket.SHUT_RDWR)
    thread.join()


def test_f219_who_publishes_more_than_can_be_written_is_in_flow_and_nobody_else(broker, flood):
    other = broker.connect()
    client.eventually(lambda: state_of(broker, flood) == "flow", timeout=60)
    assert state_of(broker, other) == "running"
    assert other.channel().queue()
    if broker.flavor == "warren":
        client.eventually(lambda: "Flow control\n\nHeld back" in broker.ctl("status"), timeout=60)


def test_b027_a_blocked_connection_can_be_closed_by_the_operator(broker, alarms):
    conn = broker.connect()
    ch = conn.channel()
    alarms.memory()
    ch.publish("", "nowhere")
    blocked(conn, MEMORY)
    with conn.closes(320, "CONNECTION_FORCED - enough"):
        broker.ctl("close_all_connections", "enough")
