"""Between RabbitMQ and Warren, both ways, moved by either of them. Skipped where no RabbitMQ runs (4.3 on 5674, 3.10 on 5673)."""

import datetime
import decimal
import html
import uuid

import pika
import pytest

from servers import RabbitMQ, until

PEERS = {"rabbitmq4": (5674, 15674), "rabbitmq3": (5673, 15673)}


@pytest.fixture(params=sorted(PEERS))
def peer(request):
    peer = RabbitMQ(*PEERS[request.param])
    if not peer.is_there():
        pytest.skip(f"{request.param} does not run")
    return peer


@pytest.fixture
def names(peer):
    """Names of queues at the peer that are deleted in the end."""
    drawn = [f"shovel-test-{uuid.uuid4().hex[:8]}" for _ in range(2)]
    yield drawn
    peer.delete(*drawn)


def everything():
    """A message with every property, and headers of every type that pika writes."""
    headers = {"text": "täxt", "int": 7, "negative": -(1 << 40), "flag": True, "void": None, "bytes": b"\x00\xff", "list": [1, "a", [None]],
               "table": {"in": {"ner": 1}}, "decimal": decimal.Decimal("1.25"), "time": datetime.datetime(2026, 1, 2, 3, 4, 5)}
    return pika.BasicProperties(
        content_type="text/plain", content_encoding="utf-8", headers=headers, delivery_mode=2, priority=4, correlation_id="c",
        reply_to="r", expiration="600000", message_id="m", timestamp=1_700_000_000, type="t", user_id="guest", app_id="a", cluster_id="k")


def publish(broker, queue, count=500):
    broker.declare(queue)
    channel = broker.channel()
    for nth in range(count):
        channel.basic_publish("", queue, b"%d" % nth, everything())
    channel.connection.close()
    until("all are there", lambda: broker.count(queue) == count)


def direct(broker, queue):
    """The properties as they come without any shovel."""
    publish(broker, queue, 1)
    (_, properties, _), = broker.read(queue)
    assert properties.headers["table"] == {"in": {"ner": 1}} and properties.cluster_id == "k"
    return properties.__dict__


def check(broker, queue, expected, count=500):
    messages = until("all came", lambda: broker.count(queue) == count) and broker.read(queue)
    assert [body for _, _, body in messages] == [b"%d" % nth for nth in range(count)]
    assert [properties.__dict__ for _, properties, _ in messages] == [expected] * count


def test_warren_moves_from_rabbitmq_and_back_with_all_properties(warren, peer, names):
    one, expected = warren(), direct(peer, names[0])
    publish(peer, names[0])
    once = {"src_delete_after": "queue-length"}
    assert one.shovel("here", src_uri=peer.url, src_queue=names[0], dest_queue="q", **once).status == 201
    until("it is done", lambda: not one.has_parameter("here"))
    assert one.shovel("back", src_queue="q", dest_uri=peer.url, dest_queue=names[1], **once).status == 201
    until("it is done", lambda: not one.has_parameter("back"))
    check(peer, names[1], expected)
    assert (peer.count(names[0]), one.count("q")) == (0, 0)


@pytest.mark.parametrize("mode", ("on-confirm", "on-publish", "no-ack"))
def test_rabbitmq_moves_to_warren_and_back_with_all_properties(warren, peer, names, mode):
    if not peer.has_shovels():
        pytest.skip("this RabbitMQ has no shovels: rabbitmq-plugins enable rabbitmq_shovel_management")
    one, expected = warren(), direct(peer, names[0])
    publish(peer, names[0])
    name = names[0]
    try:
        keys = {"ack_mode": mode, "src_delete_after": "queue-length"}
        assert peer.shovel(name, src_uri=peer.url, src_queue=name, dest_uri=one.url, dest_queue="q", **keys).status == 201
        until("it came", lambda: one.count("q") == 500)
        until("it is done", lambda: not peer.has_parameter(name))
        assert peer.shovel(name, src_uri=one.url, src_queue="q", dest_uri=peer.url, dest_queue=names[1], **keys).status == 201
        check(peer, names[1], expected)
    finally:
        peer.api("DELETE", f"/api/parameters/shovel/%2F/{name}")


def test_both_write_the_same_headers(warren, peer, names):
    if not peer.has_shovels():
        pytest.skip("this RabbitMQ has no shovels")
    one, seen = warren(), {}
    for who, broker in (("warren", one), ("rabbitmq", peer)):
        publish(peer, names[0], 1)
        keys = {"dest_add_forward_headers": True, "dest_add_timestamp_header": True}
        try:
            broker.shovel(names[0], src_uri=peer.url, src_queue=names[0], dest_uri=peer.url, dest_queue=names[1], **keys)
            until("it came", lambda: peer.count(names[1]) == 1)
        finally:
            broker.api("DELETE", f"/api/parameters/shovel/%2F/{names[0]}")
        (_, properties, _), = peer.read(names[1])
        passage = dict(properties.headers["x-shovelled"][0])
        assert passage.pop("shovelled-by")
        seen[who] = passage, type(properties.headers["x-shovelled-timestamp"]), set(properties.headers)
    assert seen["warren"] == seen["rabbitmq"]


GOOD = {"src_queue": "q1", "dest_queue": "q2"}
# Nothing of these is recorded: each has a mistake.
MISTAKES = (
    {"src_queue": None}, {"src_exchange": "x"}, {"dest_exchange": "x"}, {"src_uri": None}, {"dest_uri": None}, {"src_uri": 5},
    {"src_uri": ["amqp://", "http://x"]}, {"src_uri": "nonsense"}, {"src_uri": "amqp://%zz@h"}, {"src_uri": "amqp://h/a/b"},
    {"src_uri": "amqp:///nosuch"}, {"ack_mode": "x"}, {"ack_mode": 5}, {"ack_mode": "no-ack", "src_delete_after": 5},
    {"src_delete_after": "x"}, {"src_delete_after": -1}, {"src_delete_after": 1.5}, {"reconnect_delay": "x"},
    {"src_prefetch_count": "x"}, {"src_queue": 5}, {"dest_queue": 5}, {"src_exchange_key": 5}, {"dest_publish_properties": 5},
    {"dest_publish_properties": {"delivery_mode": "x"}}, {"dest_publish_properties": {"nope": 1}},
    {"dest_publish_properties": {"headers": {"a": [1, True, None]}}}, {"dest_publish_properties": {"content_type": 5}},
    {"dest_add_forward_headers": "x"}, {"dest_add_timestamp_header": 1}, {"nope": 1, "zap": "x"},
    {"src_queue": "q", "src_exchange": "x", "ack_mode": "z", "nope": 1}, {"src_queue": None, "src_uri": None, "dest_uri": None},
)


def test_mistakes_are_told_in_the_same_words(warren, peer):
    if not peer.has_shovels():
        pytest.skip("this RabbitMQ has no shovels")
    one, differ = warren(), []
    for keys in MISTAKES:
        ours, theirs = ((it.status, words(it.json["reason"])) for it in (b.shovel("zz", **{**GOOD, **keys}) for b in (one, peer)))
        assert theirs[0] == 400, keys
        if ours != theirs:
            differ.append((keys, ours, theirs))
    assert not differ, "\n".join(map(str, differ))


def words(reason):
    """3.10 escapes for HTML; both fold long terms into columns."""
    return " ".join(html.unescape(reason).replace(",\n", ",").split()).replace(", ", ",")
