"""B97-B103, B110-B112: what is checked of a published message, returns, and what a consumer sees of it."""

import re

import pytest

import client
import wire


def returned(ch, exchange, key):
    event = ch.next("basic.return")
    assert (event.reply_code, event.reply_text) == (312, "NO_ROUTE")
    assert (event.exchange, event.routing_key) == (exchange, key)
    return event


# ------------------------------------------------------------------------------------------ size


def test_b098_message_of_sixteen_mib_is_accepted(ch):
    queue = ch.queue()
    body = bytes(16 * 1024 * 1024)
    ch.call("confirm.select")
    assert ch.confirmed("", queue, body)
    assert ch.get(queue, no_ack=True).body == body


def test_b098_message_above_the_maximum_is_406(broker, ch):
    if broker.flavor == "rabbitmq3":
        pytest.skip("3.10 accepts up to 128 MiB; too much to move in a test")
    queue = ch.queue()
    size = 16 * 1024 * 1024 + 1
    text = re.compile(rf"PRECONDITION_FAILED - message size (\d+) is larger than configured max size {size - 1}")
    with ch.closes(406, text, "basic.publish"):
        ch.publish("", queue, bytes(size))
    assert int(text.fullmatch(ch.error.text)[1]) == size


def test_b098_absurd_announced_size_does_not_hurt(broker, conn, ch, ch2):
    conn.raw(wire.frame(wire.METHOD, 1, wire.method("basic.publish", exchange="amq.direct")))
    conn.raw(wire.frame(wire.HEADER, 1, wire.header_payload(2**63 - 1, b"\x00\x00")))
    conn.raw(wire.frame(wire.BODY, 1, bytes(1000)))
    ch2.queue()


# ------------------------------------------------------------------------------------------ property checks


@pytest.mark.parametrize(
    "value, reason",
    [
        ("abc", "no_integer"),
        ("", "no_integer"),
        (" 5", "no_integer"),
        ("-1", "{value_negative,-1}"),
        ("1.5", '{leftover_string,".5"}'),
        ("10x", '{leftover_string,"x"}'),
        ("315360000001", "{value_too_large,315360000001}"),
    ],
)
def test_b099_bad_expiration_is_406(ch, value, reason):
    text = f"PRECONDITION_FAILED - invalid expiration '{value}': {reason}"
    with ch.closes(406, text, "basic.publish"):
        ch.publish("", ch.queue(), expiration=value)


@pytest.mark.parametrize("value", ["315360000000", "+60000", "0060000"])
def test_b099_odd_but_good_expirations_are_accepted(ch, value):
    queue = ch.queue()
    ch.put(queue, b"m", expiration=value)
    got = ch.get(queue).props["expiration"]
    assert got in (value, str(int(value)))  # 4.3 hands on the number that it read, 3.10 the text


def test_b099_expiration_is_delivered_unchanged(ch):
    queue = ch.queue()
    ch.publish("", queue, expiration="60000")
    assert client.eventually(lambda: ch.get(queue)).props["expiration"] == "60000"


def test_b100_wrong_user_id_is_406(conn, ch):
    text = f"PRECONDITION_FAILED - user_id property set to 'mallory' but authenticated user was '{conn.user}'"
    with ch.closes(406, text, "basic.publish"):
        ch.publish("", ch.queue(), user_id="mallory")


def test_b100_right_user_id_is_delivered(conn, ch):
    queue = ch.queue()
    ch.publish("", queue, user_id=conn.user)
    assert client.eventually(lambda: ch.get(queue)).props["user_id"] == conn.user


def test_b101_immediate_is_540(conn, ch):
    with conn.closes(540, "NOT_IMPLEMENTED - immediate=true", "basic.publish"):
        ch.publish("", ch.queue(), immediate=True)


def test_b097_missing_exchange_is_found_before_a_bad_expiration(ch):
    with ch.closes(404, "NOT_FOUND - no exchange 'nowhere' in vhost '/'", "basic.publish"):
        ch.publish("nowhere", "k", expiration="abc", user_id="mallory")


def test_b097_user_id_and_expiration_order(broker, ch):
    with pytest.raises(client.ChannelClosed) as closed:
        ch.publish("", "k", expiration="abc", user_id="mallory")
        ch.next()
    expected = broker.pick("invalid expiration", rabbitmq3="user_id property")
    assert expected in closed.value.text


# ------------------------------------------------------------------------------------------ mandatory


def test_b102_unroutable_mandatory_is_returned_whole(ch):
    props = dict(
        content_type="text/plain", content_encoding="utf-8", headers={"a": 1, "nested": {"b": [1, "x"]}}, delivery_mode=2,
        priority=3, correlation_id="c", reply_to="r", expiration="1000", message_id="m", timestamp=12345, type="t",
        app_id="app", cluster_id="cl",
    )  # fmt: skip
    ch.publish("amq.direct", "no.such.key", b"the body", mandatory=True, **props)
    event = returned(ch, "amq.direct", "no.such.key")
    assert event.body == b"the body"
    assert event.raw_properties == wire.properties(props)


def test_b102_return_from_the_default_exchange(ch):
    ch.publish("", key := client.fresh("q"), b"x", mandatory=True)
    returned(ch, "", key)


def test_b102_empty_body_is_returned_empty(ch):
    ch.publish("", client.fresh("q"), b"", mandatory=True)
    event = ch.next("basic.return")
    assert (event.size, event.frames) == (0, 0)


def test_b102_large_body_is_returned_in_several_frames(ch):
    ch.publish("", client.fresh("q"), body := bytes(range(256)) * 2000, mandatory=True)
    event = ch.next("basic.return")
    assert event.body == body and event.frames == 4


def test_b102_routable_mandatory_is_not_returned(ch):
    ch.publish("", ch.queue(), mandatory=True)
    ch.nothing()


def test_b102_unroutable_without_mandatory_is_dropped_silently(ch):
    ch.publish("amq.direct", client.fresh("k"))
    ch.nothing()


def test_b102_message_to_a_rejecting_full_queue_is_not_returned(ch):
    queue = ch.queue(arguments={"x-max-length": 0, "x-overflow": "reject-publish"})
    ch.call("confirm.select")
    ch.publish("", queue, mandatory=True)
    assert ch.next().name == "basic.nack"


def test_b103_return_comes_before_the_ack_of_its_message(ch):
    queue = ch.queue()
    ch.call("confirm.select")
    for number in range(1, 11):
        ch.publish("", queue if number % 2 else client.fresh("no"), str(number), mandatory=True)
    settled, returns = set(), []
    while len(settled) < 10:
        event = ch.next()
        if event.name == "basic.return":
            returns.append(int(event.body))
            assert int(event.body) not in settled
        else:
            last = event.delivery_tag
            settled |= set(range(1, last + 1)) if event.multiple else {last}
    assert returns == [2, 4, 6, 8, 10]


# ------------------------------------------------------------------------------------------ what is kept


def test_b110_delivery_mode_is_kept_or_absent(ch):
    queue = ch.queue(durable=True)
    ch.put(queue, b"absent")
    ch.put(queue, b"transient", delivery_mode=1)
    ch.put(queue, b"persistent", delivery_mode=2)
    assert [ch.get(queue).props.get("delivery_mode") for _ in range(3)] == [None, 1, 2]


def test_b110_odd_delivery_modes_are_carried_since_4(broker, ch):
    if broker.flavor == "rabbitmq3":
        with ch.closes(406, "PRECONDITION_FAILED - invalid message: {delivery_mode_unknown,7}", "basic.publish"):
            ch.publish("", ch.queue(), delivery_mode=7)
        return
    queue = ch.queue()
    ch.put(queue, b"m", delivery_mode=7)
    assert ch.get(queue).props["delivery_mode"] == 7


def test_b111_publishing_to_a_missing_queue_is_just_unroutable(ch):
    ch.call("confirm.select")
    assert ch.confirmed("", client.fresh("missing"))


def test_b112_priority_octet_is_carried_by_a_queue_without_priorities(ch):
    queue = ch.queue()
    ch.put(queue, b"low", priority=0)
    ch.put(queue, b"high", priority=255)
    events = [ch.get(queue) for _ in range(2)]
    assert [(event.body, event.props["priority"]) for event in events] == [(b"low", 0), (b"high", 255)]


def test_b137_publishes_of_a_channel_keep_their_order(ch):
    queue = ch.queue()
    ch.put(queue, *[str(n) for n in range(500)])
    assert ch.drain(queue) == [str(n).encode() for n in range(500)]


def test_b137_fanout_keeps_the_order_in_every_queue(ch):
    exchange = ch.exchange("fanout")
    queues = [ch.queue() for _ in range(3)]
    for queue in queues:
        ch.bind(queue, exchange)
    ch.call("confirm.select")
    for number in range(200):
        ch.publish(exchange, "", str(number))
    ch.confirms(200)
    for queue in queues:
        assert ch.drain(queue) == [str(n).encode() for n in range(200)]


def test_publishing_while_the_exchange_is_bound_meanwhile(ch):
    exchange, queue = ch.exchange("fanout"), ch.queue()
    ch.publish(exchange, "", b"before")
    ch.bind(queue, exchange)
    ch.publish(exchange, "", b"after")
    ch.call("queue.unbind", queue=queue, exchange=exchange)
    ch.publish(exchange, "", b"late")
    ch.call("confirm.select")
    assert ch.confirmed("", queue, b"marker")
    assert ch.drain(queue) == [b"after", b"marker"]
