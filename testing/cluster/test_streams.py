"""Streams in a cluster of real nodes: one copy, used from every node over AMQP 0-9-1; clients of the stream protocol are told where it is."""

import pathlib
import sys

import pytest

from nodes import Cluster, eventually, free_port, ok, start
from test_queues import PERSISTENT, connected, finds, refusal

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "streamproto"))

from frames import CREATE_SUPER_STREAM, DELETE_SUPER_STREAM, PARTITIONS, Client, array, mapping, message, text  # noqa: E402

OK, NOT_THERE, NOT_AVAILABLE = 1, 2, 6
ARGUMENTS = {"x-queue-type": "stream"}


@pytest.fixture
def doors(binary, tmp_path):
    """Two nodes with a listener of the stream protocol each."""
    with Cluster(binary, tmp_path, 2) as cluster:
        for node in cluster.nodes:
            node.stream = free_port()
            node.stop()
            node.config.write_text(node.config.read_text() + f"stream.listeners.tcp.default = 127.0.0.1:{node.stream}\n"
                                   f"stream.advertised_host = host-of-{node.name.split('@')[0]}\n")
        start(cluster.nodes)
        cluster.wait(cluster.nodes)
        yield cluster


def metadata(client, *names):
    """The address of each stream's leader, or the code instead of it."""
    return {name: door or code for name, (code, door, _) in client.topology(*names).items()}


def publish(channel, queue, *bodies):
    channel.confirm_delivery()
    for body in bodies:
        channel.basic_publish("", queue, body, PERSISTENT, mandatory=True)


def consumed(channel, queue, count, offset="first"):
    """Bodies and offsets of so many messages."""
    channel.basic_qos(prefetch_count=10)
    found = []
    for method, properties, body in channel.consume(queue, arguments={"x-stream-offset": offset}, inactivity_timeout=20):
        assert method is not None, f"{len(found)} of {count} messages"
        found.append((body, properties.headers["x-stream-offset"]))
        channel.basic_ack(method.delivery_tag)
        if len(found) == count:
            channel.cancel()
            return found


def test_a_stream_is_declared_published_to_and_read_on_different_nodes(three):
    a, b, c = three.nodes
    with connected(a) as home, connected(b) as writer, connected(c) as reader:
        home.channel().queue_declare("log", durable=True, arguments=ARGUMENTS)
        bodies = [b"%d" % nth for nth in range(50)]
        eventually(lambda: finds(b, "log", 0), "the second node knows the stream")
        publish(writer.channel(), "log", *bodies)
        expected = [(body, nth) for nth, body in enumerate(bodies)]
        eventually(lambda: finds(c, "log", 50), "the third node counts the messages")
        assert consumed(reader.channel(), "log", 50) == expected
        assert consumed(reader.channel(), "log", 10, offset=40) == expected[40:]
        assert consumed(home.channel(), "log", 50) == expected


def test_a_stream_of_a_node_that_is_down_is_refused_and_there_again_later(three):
    a, b, _ = three.nodes
    with connected(a) as home:
        channel = home.channel()
        channel.queue_declare("log", durable=True, arguments=ARGUMENTS)
        publish(channel, "log", b"kept")
    a.kill()
    eventually(lambda: a.name not in b.running, "the others see that it is down")
    code, why = refusal(b, "queue_declare", "log", passive=True)
    assert code == 404 and "is down or inaccessible" in why
    a.start()
    eventually(lambda: finds(b, "log", 1), "the stream is there again")
    with connected(b) as other:
        assert consumed(other.channel(), "log", 1) == [(b"kept", 0)]


def test_clients_of_the_stream_protocol_are_sent_to_the_node_that_has_the_stream(doors):
    a, b = doors.nodes
    on_a, on_b = Client(a.stream), Client(b.stream)
    assert on_a.create("of-a") == OK and on_b.create("of-b") == OK
    eventually(lambda: finds(b, "of-a", 0) and finds(a, "of-b", 0), "both know both")
    told = {"of-a": ("host-of-n1", a.stream), "of-b": ("host-of-n2", b.stream), "nowhere": NOT_THERE}
    assert metadata(on_a, "of-a", "of-b", "nowhere") == told
    assert metadata(on_b, "of-a", "of-b", "nowhere") == told
    a.kill()
    eventually(lambda: a.name not in b.running, "the other sees that it is down")
    assert metadata(on_b, "of-a", "of-b") == {"of-a": NOT_AVAILABLE, "of-b": ("host-of-n2", b.stream)}


def test_only_the_node_that_has_a_stream_serves_it(doors):
    a, b = doors.nodes
    on_a, on_b = Client(a.stream), Client(b.stream)
    assert on_a.create("log") == OK
    eventually(lambda: finds(b, "log", 0), "the other knows the stream")
    assert (on_b.declare("log"), on_b.subscribe("log")) == (NOT_AVAILABLE, NOT_AVAILABLE)
    assert on_a.declare("log") == OK
    on_a.publish([message(b"one")])
    on_a.confirmed(1)
    assert on_a.subscribe("log") == OK and on_a.bodies(1) == [b"one"]
    # Nothing of it is on the other node, not after a restart either.
    b.stop()
    b.start()
    eventually(lambda: finds(b, "log", 1), "the other counts its messages")
    assert not [file for file in (b.data / "streams").rglob("*") if file.is_file()]
    assert Client(b.stream).delete("log") == OK
    eventually(lambda: Client(a.stream).delete("log") == NOT_THERE, "it is gone")


def test_a_super_stream_is_seen_and_deleted_from_the_other_node(doors):
    a, b = doors.nodes
    on_a, on_b = Client(a.stream), Client(b.stream)
    parts = [f"orders-{nth}" for nth in range(3)]
    create = text("orders") + array(*map(text, parts)) + array(*map(text, "012")) + mapping()
    assert on_a.code(CREATE_SUPER_STREAM, create) == OK
    eventually(lambda: finds(b, parts[2], 0), "the other knows the last partition")
    code, reader = on_b.request(PARTITIONS, text("orders"))
    assert (code, reader.texts()) == (OK, parts)
    assert metadata(on_b, *parts) == {part: ("host-of-n1", a.stream) for part in parts}
    assert on_b.code(DELETE_SUPER_STREAM, text("orders")) == OK
    eventually(lambda: ok(a, "list_queues", "name", "--silent").strip() == "", "all partitions are gone")
    files = lambda: [file for file in (a.data / "streams").rglob("*") if file.is_file()]  # noqa: E731
    eventually(lambda: not files(), "their files are gone")
