"""B123, B134, feature 25: single active consumer."""

import pytest


@pytest.fixture
def queue(ch):
    return ch.queue(durable=True, arguments={"x-single-active-consumer": True})


def test_b134_only_the_first_consumer_is_served(ch, queue):
    for tag in "abc":
        ch.consume(queue, tag, no_ack=True)
    for _ in range(10):
        ch.publish("", queue)
    assert {ch.deliver().consumer_tag for _ in range(10)} == {"a"}


def test_b134_the_next_takes_over_after_a_cancel(ch, queue):
    for tag in "abc":
        ch.consume(queue, tag, no_ack=True)
    for tag in "abc":
        ch.publish("", queue)
        assert ch.deliver().consumer_tag == tag
        ch.call("basic.cancel", consumer_tag=tag)


def test_b134_the_next_takes_over_after_a_lost_connection(broker, ch, queue):
    other = broker.connect()
    channel = other.channel()
    channel.consume(queue, "first")
    ch.consume(queue, "second")
    channel.put(queue, b"m")
    channel.deliver(b"m")
    other.kill()
    event = ch.deliver(b"m")
    assert (event.consumer_tag, event.redelivered) == ("second", True)


def test_b134_a_full_active_consumer_is_waited_for(ch, queue):
    ch.qos(1)
    ch.consume(queue, "active")
    ch.consume(queue, "waiting")
    ch.put(queue, b"a", b"b")
    first = ch.deliver(b"a")
    ch.nothing()
    ch.ack(first.delivery_tag)
    assert ch.deliver(b"b").consumer_tag == "active"


def test_b134_cancelled_active_keeps_its_unacked(ch, queue):
    ch.consume(queue, "first")
    ch.put(queue, b"a")
    first = ch.deliver(b"a")
    ch.consume(queue, "second")
    ch.call("basic.cancel", consumer_tag="first")
    ch.put(queue, b"b")
    assert ch.deliver(b"b").consumer_tag == "second"
    ch.ack(first.delivery_tag)


def test_b134_classic_does_not_switch_by_priority(ch, queue):
    ch.consume(queue, "low", no_ack=True)
    ch.consume(queue, "high", no_ack=True, arguments={"x-priority": 10})
    ch.publish("", queue)
    assert ch.deliver().consumer_tag == "low"


def test_b123_get_is_allowed_on_a_classic_queue(ch, queue):
    ch.put(queue, b"a")
    assert ch.get(queue, no_ack=True).body == b"a"
    ch.qos(1)
    ch.consume(queue)
    ch.put(queue, b"b", b"c")
    ch.deliver(b"b")
    assert ch.get(queue).body == b"c"


def test_f025_exclusive_consumer_on_such_a_queue_is_403(ch, queue):
    text = f"ACCESS_REFUSED - queue '{queue}' in vhost '/' in exclusive use"
    with ch.closes(403, text, "basic.consume"):
        ch.consume(queue, exclusive=True)


def test_b134_all_consumers_are_counted(ch, queue):
    ch.consume(queue)
    ch.consume(queue)
    assert ch.consumers(queue) == 2


def test_b134_order_holds_across_a_switch(broker, ch, queue):
    ch.put(queue, *[str(n) for n in range(20)])
    ch.qos(5)
    ch.consume(queue, "first")
    ch.consume(queue, "second")
    for _ in range(3):
        ch.ack(ch.deliver().delivery_tag)
    ch.call("basic.cancel", consumer_tag="first")
    events = []
    while len(events) < broker.pick(17, rabbitmq3=5):  # 3.10 leaves the rest lying until something else happens
        events.append(ch.next("basic.deliver"))
        ch.ack(events[-1].delivery_tag)
    assert [int(event.body) for event in events] == list(range(3, 3 + len(events)))
