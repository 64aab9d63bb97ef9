"""B127-B132: ack, reject, nack, recover: which tags they reach, where requeued messages go, the redelivered flag."""

import time

import pytest

import client

UNKNOWN = "PRECONDITION_FAILED - unknown delivery tag {}"


def unacked(ch, *bodies, queue=None):
    """A queue whose messages are all delivered to ``ch``, unacked."""
    queue = queue or ch.queue()
    ch.put(queue, *bodies)
    ch.consume(queue)
    return queue, [ch.deliver(body) for body in bodies]


def held(ch, *bodies):
    """The same by basic.get, with no consumer in the way of requeued messages."""
    queue = ch.queue()
    ch.put(queue, *bodies)
    return queue, [ch.get(queue) for _ in bodies]


def order(ch, queue, count):
    """(body, redelivered) of what is ready, once ``count`` messages are."""
    client.eventually(lambda: ch.ready(queue) == count)
    events = [ch.get(queue, no_ack=True) for _ in range(count)]
    return [(event.body, event.redelivered) for event in events]


# ------------------------------------------------------------------------------------------ tags


@pytest.mark.parametrize("method", ["basic.ack", "basic.reject", "basic.nack"])
def test_b127_unknown_tag_is_406(ch, method):
    with ch.closes(406, UNKNOWN.format(99), method):
        ch.send(method, delivery_tag=99)


def test_b127_double_ack_is_406(ch):
    held(ch, b"a")
    ch.ack(1)
    with ch.closes(406, UNKNOWN.format(1), "basic.ack"):
        ch.ack(1)


def test_b127_tag_0_without_multiple_is_406(ch):
    held(ch, b"a")
    with ch.closes(406, UNKNOWN.format(0), "basic.ack"):
        ch.ack(0)


def test_b127_ack_0_multiple_settles_all_and_never_fails(ch):
    ch.ack(0, multiple=True)
    queue, _ = held(ch, b"a", b"b")
    ch.ack(0, multiple=True)
    ch.ack(0, multiple=True)
    assert ch.ready(queue) == 0
    with ch.closes(406, UNKNOWN.format(1), "basic.ack"):
        ch.ack(1)


def test_b127_tag_of_another_channel_is_unknown(conn, ch):
    held(ch, b"a")
    other = conn.channel()
    with other.closes(406, UNKNOWN.format(1), "basic.ack"):
        other.ack(1)


def test_b127_multiple_above_the_highest_tag_is_406(ch):
    held(ch, b"a", b"b")
    with ch.closes(406, UNKNOWN.format(3), "basic.ack"):
        ch.ack(3, multiple=True)


def test_b127_multiple_with_an_already_settled_tag(ch):
    held(ch, b"a", b"b", b"c")
    ch.ack(2)
    ch.ack(2, multiple=True)  # 1 is still outstanding below it
    with ch.closes(406, UNKNOWN.format(2), "basic.ack"):
        ch.ack(2, multiple=True)


def test_b127_out_of_order_acks(ch):
    queue, _ = held(ch, b"a", b"b", b"c")
    for tag in (3, 1, 2):
        ch.ack(tag)
    assert ch.ready(queue) == 0


def test_b128_multiple_spans_consumers_and_queues(conn, ch):
    first, _ = unacked(ch, b"a", b"b")
    second, events = unacked(ch, b"c", b"d")
    ch.ack(events[0].delivery_tag, multiple=True)
    ch.shut()
    other = conn.channel()
    client.eventually(lambda: other.ready(second) == 1)
    assert other.ready(first) == 0
    assert other.get(second).body == b"d"


def test_b128_multiple_ack_leaves_later_ones(conn, ch):
    queue, _ = held(ch, *[str(n) for n in range(10)])
    ch.ack(7, multiple=True)
    ch.shut()
    assert [body for body, _ in order(conn.channel(), queue, 3)] == [b"7", b"8", b"9"]


# ------------------------------------------------------------------------------------------ reject and nack


def test_reject_without_requeue_discards(ch):
    queue, _ = held(ch, b"a", b"b")
    ch.reject(1, requeue=False)
    ch.nack(2, requeue=False)
    ch.nothing()
    assert ch.ready(queue) == 0


def test_nack_multiple_without_requeue_discards_all_up_to(conn, ch):
    queue, _ = held(ch, b"a", b"b", b"c")
    ch.nack(2, multiple=True, requeue=False)
    ch.shut()
    assert order(conn.channel(), queue, 1) == [(b"c", True)]


def test_nack_0_multiple_requeues_all(ch):
    queue, _ = held(ch, b"a", b"b", b"c")
    ch.nack(0, multiple=True)
    assert order(ch, queue, 3) == [(b"a", True), (b"b", True), (b"c", True)]


def test_b129_requeue_goes_to_the_original_position(ch):
    queue = ch.queue()
    ch.put(queue, *"abcdef")
    tags = [ch.get(queue).delivery_tag for _ in range(4)]
    ch.reject(tags[2])
    ch.reject(tags[0])
    ch.nack(tags[3])
    client.eventually(lambda: ch.ready(queue) == 5)
    assert order(ch, queue, 5) == [(b"a", True), (b"c", True), (b"d", True), (b"e", False), (b"f", False)]


def test_b129_requeue_in_any_order_restores_the_queue_order(ch):
    queue, events = held(ch, *"abcdefgh")
    for event in sorted(events, key=lambda e: e.delivery_tag * 5 % 9):
        ch.nack(event.delivery_tag)
    assert [body for body, _ in order(ch, queue, 8)] == [c.encode() for c in "abcdefgh"]


def test_b129_requeued_message_goes_to_a_waiting_consumer(ch, conn):
    queue = ch.queue()
    ch.put(queue, b"a")
    event = ch.get(queue)
    other = conn.channel()
    other.consume(queue)
    ch.reject(event.delivery_tag)
    assert other.deliver(b"a").redelivered is True


def test_b129_a_lone_consumer_gets_its_own_rejects_again(ch):
    queue, events = unacked(ch, b"a")
    for _ in range(5):
        ch.reject(events[-1].delivery_tag)
        events.append(ch.deliver(b"a"))
    assert [event.redelivered for event in events] == [False] + [True] * 5
    assert [event.delivery_tag for event in events] == [1, 2, 3, 4, 5, 6]


def test_b129_requeued_messages_come_before_later_ones_for_a_consumer(ch):
    queue = ch.queue()
    ch.put(queue, b"a", b"b", b"c")
    ch.qos(1)
    ch.consume(queue)
    ch.reject(ch.deliver(b"a").delivery_tag)
    event = ch.deliver(b"a")
    ch.ack(event.delivery_tag)
    ch.deliver(b"b")


# ------------------------------------------------------------------------------------------ redelivered


def test_b130_redelivered_after_connection_loss(broker, ch):
    queue = ch.queue(durable=True)
    ch.put(queue, b"a")
    other = broker.connect()
    other.channel().consume(queue)
    client.eventually(lambda: ch.ready(queue) == 0)
    other.kill()
    assert order(ch, queue, 1) == [(b"a", True)]


def test_b130_never_delivered_messages_are_not_redelivered(conn, ch):
    queue = ch.queue()
    ch.put(queue, b"a", b"b")
    other = conn.channel()
    other.qos(1)
    other.consume(queue)
    other.deliver(b"a")
    other.shut()
    assert order(ch, queue, 2) == [(b"a", True), (b"b", False)]


def test_b130_get_sets_it_too(ch):
    queue, events = held(ch, b"a")
    assert events[0].redelivered is False
    ch.reject(1)
    assert client.eventually(lambda: ch.get(queue)).redelivered is True


# ------------------------------------------------------------------------------------------ recover


def test_b132_recover_requeues_all_unacked_of_the_channel(ch):
    queue, _ = held(ch, b"a", b"b")
    ch.call("basic.recover", requeue=True)
    assert order(ch, queue, 2) == [(b"a", True), (b"b", True)]


def test_b132_recover_redelivers_to_the_consumer(ch):
    unacked(ch, b"a", b"b")
    ch.send("basic.recover", requeue=True)
    ch.answer("basic.recover-ok")
    events = [ch.deliver(), ch.deliver()]
    assert [(e.body, e.redelivered) for e in events] == [(b"a", True), (b"b", True)]


def test_b132_recover_leaves_other_channels_alone(conn, ch):
    queue = ch.queue()
    ch.put(queue, b"a")
    other = conn.channel()
    other.get(queue)
    ch.call("basic.recover", requeue=True)
    ch.nothing()
    assert ch.ready(queue) == 0


@pytest.mark.parametrize("method", ["basic.recover", "basic.recover-async"])
def test_b132_recover_without_requeue_is_540(conn, ch, method):
    with conn.closes(540, "NOT_IMPLEMENTED - requeue=false", method):
        ch.send(method, requeue=False)


def test_b132_recover_async_answers_nothing(ch):
    queue, _ = held(ch, b"a")
    ch.send("basic.recover-async", requeue=True)
    assert order(ch, queue, 1) == [(b"a", True)]
    ch.nothing()


def test_b132_tags_are_gone_after_recover(ch):
    held(ch, b"a")
    ch.call("basic.recover", requeue=True)
    with ch.closes(406, UNKNOWN.format(1), "basic.ack"):
        ch.ack(1)


def test_acks_are_taken_from_a_client_that_does_not_read(conn, ch, ch2):
    """A client that writes its acks before it reads on must not wait for a broker that waits for it to read."""
    queue, done = ch2.queue(durable=True), ch2.queue(durable=True)
    ch2.put(queue, *[bytes(100_000)] * 300)
    ch.consume(queue)
    tags = [ch.deliver().delivery_tag for _ in range(20)]
    client.eventually(lambda: ch2.ready(queue) == (time.sleep(0.2) or ch2.ready(queue)), "nothing more fits into the connection")
    assert 0 < ch2.ready(queue) < 280
    for tag in tags:
        ch.ack(tag)
    ch.publish("", done)
    client.eventually(lambda: ch2.ready(done) == 1, "the publish behind the acks has arrived")
    conn.kill()
    client.eventually(lambda: ch2.ready(queue) == 280, "all but what was acked comes back")
