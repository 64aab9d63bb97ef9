"""Features 96 to 101, 110, B73 to B75, B78, B80, B106, B123 to B126, B185: streams over AMQP 0-9-1."""

import time

import pytest

import client
from client import fresh
from wire import T


@pytest.fixture(autouse=True)
def _since_43(broker):
    if broker.flavor == "rabbitmq3":
        pytest.skip("streams as of RabbitMQ 4.3")


def declare(ch, name=None, **arguments):
    arguments = {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}
    return ch.queue(name, durable=True, arguments={"x-queue-type": "stream"} | arguments)


def put(ch, queue, *bodies, **props):
    """Publishes, each in a chunk of its own."""
    channel = ch.connection.channel()
    channel.call("confirm.select")
    for body in bodies:
        assert channel.confirmed("", queue, body, **props)
    channel.shut()


def read(ch, queue, count, prefetch=100, **arguments):
    """The first deliveries of a consumer that begins there."""
    channel = ch.connection.channel()
    channel.qos(prefetch)
    arguments = {f"x-stream-{key.replace('_', '-')}": value for key, value in arguments.items()}
    channel.consume(queue, arguments=arguments)
    events = []
    for _ in range(count):
        events.append(channel.deliver())
        channel.ack(events[-1].delivery_tag)
    channel.nothing(0.3)
    channel.shut()
    return events


def offset(event):
    return event.props["headers"]["x-stream-offset"]


# ------------------------------------------------------------------------------------------ declaring


@pytest.mark.parametrize(
    "flags, what",
    [
        ({"exclusive": True, "durable": True}, "exclusive-owner"),
        ({"auto_delete": True, "durable": True}, "auto-delete"),
        ({"durable": False}, "non-durable"),
    ],
)
def test_b074_what_a_stream_cannot_be_is_refused(ch, flags, what):
    name = fresh("q")
    with ch.closes(406, f"PRECONDITION_FAILED - invalid property '{what}' for queue '{name}' in vhost '/'", "queue.declare"):
        ch.call("queue.declare", queue=name, arguments={"x-queue-type": "stream"}, **flags)


def test_b074_a_stream_has_no_server_name(ch):
    text = "PRECONDITION_FAILED - Cannot declare a server-named queue for type rabbit_stream_queue"
    with ch.closes(406, text, "queue.declare"):
        ch.call("queue.declare", queue="", durable=True, arguments={"x-queue-type": "stream"})


@pytest.mark.parametrize(
    "name, value, reason",
    [
        ("x-max-age", "7d", ": invalid_max_age"),
        ("x-max-age", "-1D", ": invalid_max_age"),
        ("x-max-length-bytes", -1, ": {value_negative,-1}"),
        ("x-stream-max-segment-size-bytes", -1, ": {value_negative,-1}"),
        ("x-initial-cluster-size", 0, ": {value_zero,0}"),
        ("x-queue-leader-locator", "foo", ": invalid_queue_locator_arg"),
        ("x-single-active-consumer", True, " of queue type rabbit_stream_queue"),
        ("x-message-ttl", 5, " of queue type rabbit_stream_queue"),
        ("x-dead-letter-exchange", "x", " of queue type rabbit_stream_queue"),
        ("x-expires", 5000, " of queue type rabbit_stream_queue"),
        ("x-max-length", 5, " of queue type rabbit_stream_queue"),
        ("x-overflow", "drop-head", " of queue type rabbit_stream_queue"),
        ("x-max-priority", 5, " of queue type rabbit_stream_queue"),
    ],
)
def test_b073_what_a_stream_does_not_take_is_refused(ch, name, value, reason):
    queue = fresh("q")
    text = f"PRECONDITION_FAILED - invalid arg '{name}' for queue '{queue}' in vhost '/'{reason}"
    with ch.closes(406, text, "queue.declare"):
        ch.call("queue.declare", queue=queue, durable=True, arguments={"x-queue-type": "stream", name: value})


@pytest.mark.parametrize(
    "name, value, text",
    [
        ("x-stream-max-segment-size-bytes", 3_000_000_001, "Exceeded max value for x-stream-max-segment-size-bytes"),
        ("x-stream-filter-size-bytes", 15, "Invalid value for x-stream-filter-size-bytes"),
        ("x-stream-filter-size-bytes", 256, "Invalid value for x-stream-filter-size-bytes"),
    ],
)
def test_b075_bounds_of_sizes(ch, name, value, text):
    with ch.closes(406, f"PRECONDITION_FAILED - {text}", "queue.declare"):
        ch.call("queue.declare", queue=fresh("q"), durable=True, arguments={"x-queue-type": "stream", name: value})


def test_f097_all_arguments_are_taken_and_compared(broker, ch, ch2):
    arguments = {
        "max_age": "7D",
        "max_length_bytes": 1_000_000,
        "stream_max_segment_size_bytes": 100_000,
        "stream_filter_size_bytes": 32,
        "initial_cluster_size": 1,
        "queue_leader_locator": "client-local",
    }
    queue = declare(ch, **arguments)
    declare(ch, queue, **arguments)
    # RabbitMQ compares, and tells, milliseconds.
    received, current = broker.pick(("691200000", "604800000"), warren=("8D", "7D"))
    text = (
        f"PRECONDITION_FAILED - inequivalent arg 'x-max-age' for queue '{queue}' in vhost '/': "
        f"received '{received}' but current is '{current}'"
    )
    with ch2.closes(406, text, "queue.declare"):
        declare(ch2, queue, **arguments | {"max_age": "8D"})


# ------------------------------------------------------------------------------------------ what streams do not have


def test_b123_get_is_540(conn, ch):
    queue = declare(ch)
    text = f"NOT_IMPLEMENTED - basic.get not supported by stream queues queue '{queue}' in vhost '/'"
    with conn.closes(540, text, "basic.get"):
        ch.get(queue)


def test_b080_purge_is_540(conn, ch):
    queue = declare(ch)
    text = f"NOT_IMPLEMENTED - queue.purge not supported by stream queues queue '{queue}' in vhost '/'"
    with conn.closes(540, text, "queue.purge"):
        ch.call("queue.purge", queue=queue)


def test_b124_no_ack_is_540(conn, ch):
    queue = declare(ch)
    ch.qos(5)
    text = f"NOT_IMPLEMENTED - automatic acknowledgement not supported by stream queue '{queue}' in vhost '/'"
    with conn.closes(540, text, "basic.consume"):
        ch.consume(queue, no_ack=True)


def test_b125_no_prefetch_is_406(ch):
    queue = declare(ch)
    text = f"PRECONDITION_FAILED - consumer prefetch count is not set for stream queue '{queue}' in vhost '/'"
    with ch.closes(406, text, "basic.consume"):
        ch.consume(queue)


def test_b125_a_bad_offset_is_406(ch):
    queue = declare(ch)
    ch.qos(5)
    text = (
        f"PRECONDITION_FAILED - invalid arg 'x-stream-offset' for queue '{queue}' in vhost '/': "
        "{invalid_stream_offset_arg,{longstr,<<\"foo\">>}}"
    )
    with ch.closes(406, text, "basic.consume"):
        ch.consume(queue, arguments={"x-stream-offset": "foo"})


@pytest.mark.parametrize("name", ["x-priority", "x-consumer-timeout"])
def test_b073_arguments_of_other_consumers_are_refused(ch, name):
    queue = declare(ch)
    ch.qos(5)
    text = f"PRECONDITION_FAILED - invalid arg '{name}' for queue '{queue}' in vhost '/' of queue type rabbit_stream_queue"
    with ch.closes(406, text, "basic.consume"):
        ch.consume(queue, arguments={name: 50_000})


def test_b078_conditions_of_a_deletion_are_passed_over(ch):
    queue = declare(ch)
    put(ch, queue, "one")
    channel = ch.connection.channel()
    channel.qos(5)
    channel.consume(queue)
    assert ch.call("queue.delete", queue=queue, if_unused=True, if_empty=True).message_count == 0
    assert channel.next().name == "basic.cancel"


# ------------------------------------------------------------------------------------------ reading


def test_b126_every_form_of_an_offset(ch):
    queue = declare(ch)
    put(ch, queue, *[str(number) for number in range(10)])
    now = int(time.time())
    for where, first in [
        ({"offset": "first"}, 0),
        ({"offset": "last"}, 9),
        ({"offset": "next"}, 10),
        ({}, 10),
        ({"offset": 4}, 4),
        ({"offset": T("l", 500)}, 10),
        ({"offset": -5}, 0),
        ({"offset": "5m"}, 0),
        ({"offset": T("T", now - 3600)}, 0),
        ({"offset": T("T", now + 3600)}, 10),
    ]:
        events = read(ch, queue, 10 - first, **where)
        assert [offset(event) for event in events] == list(range(first, 10)), where
        assert [event.body for event in events] == [b"%d" % number for number in range(first, 10)], where


def test_f099_prefetch_is_credit_that_any_settlement_gives_back(ch):
    queue = declare(ch)
    put(ch, queue, *[str(number) for number in range(8)])
    ch.qos(2)
    ch.consume(queue, arguments={"x-stream-offset": "first"})
    first, second = ch.deliver(b"0"), ch.deliver(b"1")
    ch.nothing(0.2)
    ch.nack(first.delivery_tag)
    ch.deliver(b"2")
    ch.nothing(0.2)
    ch.reject(second.delivery_tag, requeue=False)
    third = ch.deliver(b"3")
    ch.ack(third.delivery_tag, multiple=True)
    ch.deliver(b"4")
    ch.deliver(b"5")
    ch.nothing(0.2)


def test_f096_readers_do_not_take_anything_from_each_other(ch):
    queue = declare(ch)
    put(ch, queue, "a", "b", "c")
    for _ in range(3):
        assert [event.body for event in read(ch, queue, 3, offset="first")] == [b"a", b"b", b"c"]


def test_f096_a_reader_at_the_end_gets_what_is_published(ch):
    queue = declare(ch)
    put(ch, queue, "before")
    ch.qos(10)
    ch.consume(queue, arguments={"x-stream-offset": "next"})
    put(ch, queue, "after")
    assert offset(ch.deliver(b"after")) == 1


def test_f100_filters_choose_chunks(ch):
    queue = declare(ch)
    for value in ["a", "b", None, "a"]:
        put(ch, queue, str(value), **({"headers": {"x-stream-filter-value": value}} if value else {}))
    for values, unfiltered, wanted in [
        ("a", False, [0, 3]),
        (["a", "b"], False, [0, 1, 3]),
        ("a", True, [0, 2, 3]),
        ("zz", False, []),
    ]:
        events = read(ch, queue, len(wanted), offset="first", filter=values, match_unfiltered=unfiltered)
        assert [offset(event) for event in events] == wanted, values


def test_b185_properties_come_back_from_sections(ch):
    queue = declare(ch)
    props = {
        "content_type": "text/plain", "delivery_mode": 2, "priority": 3, "correlation_id": "c", "reply_to": "r", "expiration": "60000",
        "message_id": "m", "timestamp": 1_700_000_000, "type": "t", "app_id": "a",
    }  # fmt: skip
    put(ch, queue, "body", headers={"text": "x", "x-own": True}, **props)
    put(ch, queue, "bare")
    full, bare = read(ch, queue, 2, offset="first")
    assert {name: full.props[name] for name in props} == props
    assert full.props["headers"] == {"text": "x", "x-own": True, "x-stream-offset": 0}
    assert (bare.props["headers"], bare.props["delivery_mode"]) == ({"x-stream-offset": 1}, 1)
    assert (full.exchange, full.routing_key, full.redelivered) == ("", queue, False)


def test_f096_a_stream_is_bound_like_any_queue(ch):
    queue, exchange = declare(ch), ch.exchange("topic")
    ch.bind(queue, exchange, "a.#")
    ch.publish(exchange, "a.b", "yes")
    ch.publish(exchange, "c", "no")
    (event,) = read(ch, queue, 1, offset="first")
    assert (event.exchange, event.routing_key, event.body) == (exchange, "a.b", b"yes")


def test_b106_large_and_many_messages_are_confirmed_and_read_back(ch):
    queue = declare(ch)
    bodies = [bytes([number % 256]) * (number * 997 % 40_000) for number in range(200)] + [b"L" * 3_000_000]
    channel = ch.connection.channel()
    channel.call("confirm.select")
    for body in bodies:
        channel.publish("", queue, body)
    assert all(channel.confirms(len(bodies)).values())
    events = read(ch, queue, len(bodies), prefetch=30, offset="first")
    assert [event.body for event in events] == bodies


def test_f098_retention_by_bytes_leaves_the_newest(ch):
    queue = declare(ch, max_length_bytes=20_000, stream_max_segment_size_bytes=5_000)
    channel = ch.connection.channel()
    channel.call("confirm.select")
    for number in range(100):
        assert channel.confirmed("", queue, b"%03d" % number + bytes(1000))

    def first():
        reader = ch.connection.channel()
        reader.qos(1)
        reader.consume(queue, arguments={"x-stream-offset": "first"})
        event = reader.deliver()
        reader.shut()
        return offset(event)

    client.eventually(lambda: first() > 50)
    reader = ch.connection.channel()
    reader.qos(100)
    reader.consume(queue, arguments={"x-stream-offset": "first"})
    offsets = []
    while not offsets or offsets[-1] < 99:
        offsets.append(offset(reader.deliver()))
    assert offsets == sorted(offsets) and offsets[0] > 50
