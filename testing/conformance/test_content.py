"""B113, B114: bodies of every size and headers of every type, byte for byte."""

import random

import pytest

import client
import wire
from wire import T


def through(ch, body=b"m", raw=None, **props):
    """The message that comes out of a queue for the one that went in."""
    queue = ch.queue()
    ch.publish("", queue, body, raw=raw, **props)
    return client.eventually(lambda: ch.get(queue, no_ack=True))


def through_consumer(ch, body=b"m", raw=None, **props):
    queue = ch.queue()
    ch.consume(queue, no_ack=True)
    ch.publish("", queue, body, raw=raw, **props)
    return ch.deliver()


# ------------------------------------------------------------------------------------------ bodies


@pytest.mark.parametrize("way", [through, through_consumer])
def test_b113_empty_body_has_a_header_and_no_body_frame(ch, way):
    event = way(ch, b"")
    assert (event.size, event.frames, event.body) == (0, 0, b"")


FULL = 131072 - 8


@pytest.mark.parametrize("size", [1, FULL - 1, FULL, FULL + 1, 2 * FULL, 3 * FULL + 7])
@pytest.mark.parametrize("way", [through, through_consumer])
def test_b022_bodies_are_cut_at_frame_max(ch, way, size):
    body = bytes(n * 31 % 251 for n in range(size))
    event = way(ch, body)
    assert event.body == body
    assert event.frames == -(-size // FULL)


def test_b022_frames_are_cut_for_the_consumers_frame_max(broker, ch):
    small = broker.connect(frame_max=8192).channel()
    queue = ch.queue(durable=True)
    ch.put(queue, bytes(20000))
    event = small.get(queue)
    assert (event.body, event.frames) == (bytes(20000), 3)


def test_body_in_many_small_frames_arrives_whole(conn, ch):
    queue = ch.queue()
    conn.frame_max = 8 + 3
    ch.publish("", queue, bytes(range(256)))
    conn.frame_max = 131072
    event = client.eventually(lambda: ch.get(queue))
    assert (event.body, event.frames) == (bytes(range(256)), 1)


def test_large_bodies_of_many_channels_do_not_mix(conn, ch):
    queue = ch.queue()
    channels = [conn.channel() for _ in range(4)]
    for channel in channels:
        channel.consume(queue, no_ack=True)
    for number in range(12):
        ch.publish("", queue, bytes([number]) * 300_000)
    seen = []
    for _ in range(3):
        for channel in channels:
            seen.append(channel.deliver().body)
    assert sorted(seen) == [bytes([number]) * 300_000 for number in range(12)]


SIZES = [0, 1, 10, 1000, 1000, FULL, 250_000, (256 << 10) - 1, 256 << 10, (256 << 10) + 1, 300_000, 1 << 20, (1 << 20) + 1]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("queues", [1, 3])
def test_bodies_of_all_sizes_follow_each_other(ch, ch2, seed, queues):
    dice = random.Random(seed)
    exchange = ch.exchange("fanout")
    names = [ch.queue(durable=True) for _ in range(queues)]
    for name in names:
        ch.bind(name, exchange)
    bodies = [bytes([number]) * dice.choice(SIZES) for number in range(40)]
    mode = 2
    ch.call("confirm.select")
    for body in bodies[:20]:
        # Mostly like the one before, as clients send them.
        mode = mode if dice.random() < 0.8 else 3 - mode
        ch.publish(exchange, "", body, delivery_mode=mode)
    ch.confirms(20)
    ch2.qos(dice.choice([0, 1, 3]))
    ch2.consume(names[0], no_ack=seed == 3)
    for number, body in enumerate(bodies[20:]):
        ch.publish(exchange, "", body, delivery_mode=mode)
        # Some are there before they are consumed, others are not.
        if number % 3 == 0:
            event = ch2.deliver()
            assert event.body == bodies[number // 3]
            if seed != 3:
                ch2.ack(event.delivery_tag)
    for body in bodies[7:]:
        event = ch2.deliver()
        assert event.body == body
        if seed != 3:
            ch2.ack(event.delivery_tag)
    for name in names[1:]:
        for body in bodies:
            assert ch.get(name, no_ack=True).body == body


# ------------------------------------------------------------------------------------------ properties

ALL = dict(
    content_type="application/json", content_encoding="gzip", headers={"a": 1}, delivery_mode=2, priority=9,
    correlation_id="corr", reply_to="reply", expiration="60000", message_id="id", timestamp=1_700_000_000, type="typ",
    app_id="app", cluster_id="cluster",
)  # fmt: skip


@pytest.mark.parametrize("way", [through, through_consumer])
@pytest.mark.parametrize("only", [None, *ALL])
def test_b114_properties_come_back_byte_for_byte(ch, way, only):
    props = ALL if only is None else {only: ALL[only]}
    assert way(ch, **props).raw_properties == wire.properties(props)


def test_b114_no_properties_stay_none(ch):
    assert through(ch).raw_properties == b"\x00\x00"


def test_b114_empty_strings_and_an_empty_table_are_kept(ch):
    props = dict(content_type="", headers={}, correlation_id="", message_id="", type="", app_id="")
    assert through(ch, **props).raw_properties == wire.properties(props)


def test_b114_255_byte_strings_are_kept(ch):
    props = dict(correlation_id="c" * 255, type="é" * 127)
    assert through(ch, **props).raw_properties == wire.properties(props)


EVERY_TYPE = [
    ("bool", True), ("bool0", False), ("b", T("b", -5)), ("B", T("B", 200)), ("s", T("s", -300)), ("u", T("u", 60000)),
    ("I", T("I", -70000)), ("i", T("i", 4_000_000_000)), ("l", T("l", -(2**40))), ("f", T("f", 1.5)), ("d", T("d", -2.25)),
    ("D", T("D", (2, 12345))), ("S", "text é"), ("Sraw", T("S", b"\xff\x00\xfe")), ("x", T("x", b"\x00\x01bytes")),
    ("T", T("T", 1_700_000_000)), ("V", None), ("A", [1, "two", [3, None], {"four": 4}]), ("F", {"z": 1, "a": {"m": 2}}),
    ("emptyA", []), ("emptyF", {}), ("emptyS", ""), ("", "empty key"), ("x-custom", 1),
]  # fmt: skip


@pytest.mark.parametrize("way", [through, through_consumer])
@pytest.mark.parametrize("key, value", EVERY_TYPE, ids=[key or "empty" for key, _ in EVERY_TYPE])
def test_b114_header_of_every_type_comes_back_byte_for_byte(ch, way, key, value):
    raw = wire.properties({"headers": [(key, value)]})
    assert way(ch, raw=raw).raw_properties == raw


def kept(broker, pairs, **props):
    """How these headers come back: as they were, except that RabbitMQ 4.3 sorts the outermost fields by key."""
    pairs = broker.pick(sorted(pairs, key=lambda pair: pair[0].encode()), rabbitmq3=pairs, warren=pairs)
    return wire.properties({"headers": pairs, **props})


def test_b114_field_order_is_kept_but_sorted_by_4_3(broker, ch):
    pairs = [("z", 1), ("a", 2), ("m", 3), ("b", [1, 2]), ("y", {"q": 1, "c": 2})]
    assert through(ch, headers=pairs).raw_properties == kept(broker, pairs)


def test_b114_a_flag_that_stands_for_nothing_is_cleared_since_4(broker, ch):
    low = broker.pick(b"\x00", rabbitmq3=b"\x02")
    assert through(ch, raw=b"\x00\x02").raw_properties == b"\x00" + low
    assert through(ch, raw=b"\x80\x02\x01t").raw_properties == b"\x80" + low + b"\x01t"


def test_b114_duplicate_keys_are_tolerated(broker, ch):
    pairs = [("k", 1), ("k", 2)]
    event = through(ch, headers=pairs)
    keys = [key for key, _ in event.props["typed_headers"]]
    assert keys == broker.pick(["k"], rabbitmq3=["k", "k"], warren=["k", "k"])


def test_b114_hundreds_of_headers(broker, ch):
    pairs = [(f"key-{n}", "v" * (n % 50)) for n in range(500)]
    assert through(ch, headers=pairs).raw_properties == kept(broker, pairs)


def test_b114_header_survives_an_exchange_and_a_requeue(broker, ch):
    exchange, queue = ch.exchange("topic"), ch.queue()
    ch.bind(queue, exchange, "#")
    ch.publish(exchange, "k", raw=wire.properties({"headers": EVERY_TYPE, "priority": 1}))
    event = client.eventually(lambda: ch.get(queue))
    ch.reject(event.delivery_tag)
    assert client.eventually(lambda: ch.get(queue)).raw_properties == kept(broker, EVERY_TYPE, priority=1)


def test_b114_header_survives_in_a_durable_queue(broker, ch):
    queue = ch.queue(durable=True)
    ch.put(queue, b"persistent")
    ch.publish("", queue, b"persistent", raw=wire.properties({"headers": EVERY_TYPE, "delivery_mode": 2}))
    ch.get(queue)
    assert client.eventually(lambda: ch.get(queue)).raw_properties == kept(broker, EVERY_TYPE, delivery_mode=2)


def test_b114_deeply_nested_headers_come_back(ch):
    value = 1
    for _ in range(60):
        value = {"n": [value]}
    assert through(ch, headers={"deep": value}).raw_properties == wire.properties({"headers": {"deep": value}})


def test_b114_tables_nested_too_deep_do_not_harm_the_broker(conn, ch, ch2):
    data = b"\x00\x00\x00\x00"
    while len(data) < 100_000:
        data = wire.struct.pack(">I", len(data) + 3) + b"\x01kF" + data
    try:
        ch.publish("amq.fanout", "k", raw=b"\x20\x00" + data)
        conn.read_event(0.5)
    except (client.Closed, client.SocketClosed, client.Silence):
        pass
    ch2.queue()
