"""Feature 124: x-message-deduplication, exchange and queue argument, from the README ("Exchange level deduplication", "Queue level
deduplication") and the source of the plugin rabbitmq-message-deduplication.

Plain RabbitMQ has neither: the tests of the exchange are skipped there, those of the queue run against Warren only, because
RabbitMQ takes the argument and does nothing.
"""

import pytest

import client
from wire import T

HEADER = "x-deduplication-header"


def remembering(ch, **arguments):
    """A fresh deduplicating exchange with a queue, or a skipped test where there is no such type."""
    arguments = {name.replace("_", "-"): value for name, value in arguments.items()}
    try:
        exchange = ch.exchange("x-message-deduplication", arguments=arguments)
    except client.Closed as closed:
        if "exchange type" in closed.text:
            pytest.skip(closed.text)
        raise
    queue = ch.queue()
    ch.bind(queue, exchange, "any")
    ch.call("confirm.select")
    return exchange, queue


def marked(value, **headers):
    return {"headers": {HEADER: value} | {name.replace("_", "-"): it for name, it in headers.items()}}


def test_f124_the_exchange_needs_a_size_and_checks_its_arguments(broker, ch):
    remembering(ch, x_cache_size=10, x_cache_ttl=1000, x_cache_persistence="memory")
    size = "PRECONDITION_FAILED - Missing or invalid argument, 'x-cache-size' must be an integer greater than 0"
    ttl = "PRECONDITION_FAILED - Invalid argument, 'x-cache-ttl' must be an integer greater than 0"
    persistence = "PRECONDITION_FAILED - Invalid argument, 'x-cache-persistence' must be either 'disk' or 'memory'"
    refused = [
        ({}, size),
        ({"x-cache-size": 0}, size),
        ({"x-cache-size": "many"}, size),
        ({"x-cache-size": 1, "x-cache-ttl": -1}, ttl),
        ({"x-cache-size": 1, "x-cache-persistence": "tape"}, persistence),
    ]
    for arguments, text in refused:
        channel = broker.connect().channel()
        with channel.closes(406, text, "exchange.declare"):
            channel.call("exchange.declare", exchange=client.fresh("x"), type="x-message-deduplication", arguments=arguments)


def test_f124_a_value_is_routed_once_and_duplicates_are_confirmed(ch):
    exchange, queue = remembering(ch, x_cache_size=10)
    for body, mark in [("1", "a"), ("2", "a"), ("3", "b"), ("4", "a")]:
        assert ch.confirmed(exchange, "whatever", body, **marked(mark))
    assert ch.drain(queue) == [b"1", b"3"]
    assert ch.confirmed(exchange, "", "5", **marked("a"))
    assert ch.drain(queue) == [], "also when the first has gone"


def test_f124_messages_without_the_header_always_pass(ch):
    exchange, queue = remembering(ch, x_cache_size=10)
    for props in ({}, {}, {"headers": {"other": 1}}, {"headers": {"other": 1}}):
        assert ch.confirmed(exchange, "", "m", **props)
    assert len(ch.drain(queue)) == 4


def test_f124_numbers_are_the_same_in_any_width_and_not_as_text(ch):
    exchange, queue = remembering(ch, x_cache_size=10)
    for kind in "bBsuIil":
        ch.confirmed(exchange, "", kind, **marked(T(kind, 5)))
    ch.confirmed(exchange, "", "text", **marked("5"))
    ch.confirmed(exchange, "", "float", **marked(5.0))
    assert ch.drain(queue) == [b"b", b"text", b"float"]


def test_f124_values_are_forgotten_after_their_time(ch):
    exchange, queue = remembering(ch, x_cache_size=10, x_cache_ttl=150)
    ch.confirmed(exchange, "", "1", **marked("a"))
    ch.confirmed(exchange, "", "own 1", **marked("b", x_cache_ttl=60_000))
    ch.nothing(0.2)
    ch.confirmed(exchange, "", "2", **marked("a"))
    ch.confirmed(exchange, "", "own 2", **marked("b"))
    assert ch.drain(queue) == [b"1", b"own 1", b"2"]


def test_f124_a_full_memory_forgets_for_new_values(ch):
    exchange, queue = remembering(ch, x_cache_size="2")
    for mark in ("a", "b", "c", "c"):
        ch.confirmed(exchange, "", mark, **marked(mark))
    assert ch.drain(queue) == [b"a", b"b", b"c"]


def test_f124_a_duplicate_matches_nothing(ch):
    """So the alternate exchange gets it and mandatory returns it, as with the plugin."""
    exchange, queue = remembering(ch, x_cache_size=10)
    ch.confirmed(exchange, "", "1", mandatory=True, **marked("a"))
    ch.publish(exchange, "", "2", mandatory=True, **marked("a"))
    assert ch.next("basic.return").body == b"2"
    ch.next("basic.ack")
    assert ch.drain(queue) == [b"1"]


def test_f124_an_exchange_behind_another_drops_duplicates_too(ch):
    exchange, queue = remembering(ch, x_cache_size=10)
    front, other = ch.exchange("topic"), ch.queue()
    ch.call("exchange.bind", source=front, destination=exchange, routing_key="#")
    ch.bind(other, front, "#")
    for body in ("1", "2"):
        ch.confirmed(front, "k", body, **marked("a"))
    assert (ch.drain(queue), ch.drain(other)) == ([b"1"], [b"1", b"2"])


def test_f124_explaining_a_route_remembers_nothing(broker, ch):
    if broker.flavor != "warren":
        pytest.skip("Warren's own")
    exchange, queue = remembering(ch, x_cache_size=10)
    broker.ctl("-q", "explain_route", exchange, "k", f"{HEADER}=a")
    ch.confirmed(exchange, "", "1", **marked("a"))
    assert ch.drain(queue) == [b"1"]


# ------------------------------------------------------------------------------------------ queues


@pytest.fixture
def unique(broker, ch):
    """A queue that drops what repeats a message in it."""
    if broker.flavor != "warren":
        pytest.skip("without the plugin the argument does nothing")
    ch.call("confirm.select")
    return ch.queue(arguments={"x-message-deduplication": True})


def offer(ch, queue, body, mark):
    assert ch.confirmed("", queue, body, **marked(mark)), "duplicates are confirmed"


def test_f124_a_queue_holds_each_value_once_until_it_is_acked(ch, unique):
    for body, mark in [("1", "a"), ("2", "a"), ("3", "b")]:
        offer(ch, unique, body, mark)
    assert ch.ready(unique) == 2
    event = ch.get(unique)
    offer(ch, unique, "unacked", "a")
    ch.reject(event.delivery_tag, requeue=True)
    offer(ch, unique, "back", "a")
    event = ch.get(unique)
    assert event.body == b"1"
    ch.ack(event.delivery_tag)
    offer(ch, unique, "4", "a")
    assert ch.drain(unique) == [b"3", b"4"]


def test_f124_a_queue_forgets_what_leaves_it_in_other_ways(ch, unique):
    offer(ch, unique, "1", "a")
    ch.call("queue.purge", queue=unique)
    offer(ch, unique, "2", "a")
    assert ch.drain(unique) == [b"2"]
    ch.confirmed("", unique, "expires", expiration="30", **marked("b"))
    client.eventually(lambda: ch.ready(unique) == 0, "expired")
    offer(ch, unique, "3", "b")
    ch.reject(ch.get(unique).delivery_tag, requeue=False)
    offer(ch, unique, "4", "b")
    assert ch.drain(unique) == [b"4"]


def test_f124_a_queue_lets_messages_without_the_header_in(ch, unique):
    for body in ("1", "2"):
        ch.confirmed("", unique, body)
    assert ch.drain(unique) == [b"1", b"2"]


def test_f124_an_argument_that_is_not_true_changes_nothing(broker, ch):
    ch.call("confirm.select")
    for value in (False, "true", 1):
        queue = ch.queue(arguments={"x-message-deduplication": value})
        for body in ("1", "2"):
            ch.confirmed("", queue, body, **marked("a"))
        assert len(ch.drain(queue)) == 2
