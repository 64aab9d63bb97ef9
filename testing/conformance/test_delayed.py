"""Feature 123: x-delayed-message, from the README and the source of RabbitMQ's plugin rabbitmq_delayed_message_exchange.

Plain RabbitMQ has no such type, and the tests are skipped there. The facts come from the plugin: README "Usage", "Routing",
"Performance Impact" (range of delays) and "Limitations" (mandatory), and its modules for the texts and for what becomes of the
header. Where Warren does otherwise, the test says so.
"""

import time

import pytest

import client
from wire import T

TEXT = "PRECONDITION_FAILED - Invalid argument, 'x-delayed-type' must be an existing exchange type"


def delays(ch, inner="direct", **args):
    """A fresh delayed exchange, or a skipped test where there is no such type."""
    arguments = {"x-delayed-type": inner} | args.pop("arguments", {})
    try:
        return ch.exchange("x-delayed-message", arguments=arguments, **args)
    except client.Closed as closed:
        if "exchange type" in closed.text:
            pytest.skip(closed.text)
        raise


def bound(ch, inner="direct", key="k", **args):
    exchange, queue = delays(ch, inner, **args), ch.queue()
    ch.bind(queue, exchange, key)
    ch.call("confirm.select")
    return exchange, queue


def later(ms, kind=None):
    return {"headers": {"x-delay": T(kind, ms) if kind else ms}}


def test_f123_the_type_needs_an_existing_inner_type(broker, ch):
    delays(ch)
    refused = [({}, TEXT), ({"x-delayed-type": 5}, TEXT)]
    refused.append(
        ({"x-delayed-type": "x-delayed-message"}, "PRECONDITION_FAILED - Invalid argument, 'x-delayed-message' can't be used for 'x-delayed-type'")
    )
    for arguments, text in refused:
        channel = broker.connect().channel()
        with channel.closes(406, text, "exchange.declare"):
            channel.call("exchange.declare", exchange=client.fresh("x"), type="x-delayed-message", arguments=arguments)
    with pytest.raises(client.Closed) as refusal:
        broker.connect().channel().exchange("x-delayed-message", arguments={"x-delayed-type": "x-foo"})
    assert "unknown exchange type 'x-foo'" in refusal.value.text


def test_f123_a_message_comes_after_its_delay_and_not_before(ch):
    exchange, queue = bound(ch)
    ch.consume(queue, no_ack=True)
    began = time.monotonic()
    assert ch.confirmed(exchange, "k", "late", **later(300))
    ch.nothing(0.2)
    ch.deliver(b"late")
    # The broker counts whole milliseconds of the wall clock.
    assert 0.298 <= time.monotonic() - began < 1.5


def test_f123_the_soonest_comes_first(ch):
    exchange, queue = bound(ch)
    for delay_ms in (400, 100, 250):
        ch.confirmed(exchange, "k", str(delay_ms), **later(delay_ms))
    ch.consume(queue, no_ack=True)
    assert [ch.deliver().body for _ in range(3)] == [b"100", b"250", b"400"]


@pytest.mark.parametrize("headers", [{}, {"x-delay": 0}, {"x-delay": -500}, {"x-delay": T("l", 2**32)}, {"x-delay": True}, {"other": 5000}])
def test_f123_without_a_delay_in_range_a_message_goes_at_once_and_unchanged(ch, headers):
    exchange, queue = bound(ch)
    assert ch.confirmed(exchange, "k", "now", headers=headers)
    event = ch.get(queue, no_ack=True)
    assert event.body == b"now"
    assert list(event.props["headers"]) == list(headers)


@pytest.mark.parametrize("kind", ["b", "B", "s", "u", "I", "i", "l", "f", "d", "S"])
def test_f123_the_delay_has_any_width_and_arrives_negated(ch, kind):
    exchange, queue = bound(ch)
    delay = {"f": 60.5, "d": 60.9, "S": "60"}.get(kind, 60)
    ch.confirmed(exchange, "k", "m", headers={"a": "1", "x-delay": T(kind, delay), "z": 2})
    assert ch.get(queue) is None
    ch.consume(queue, no_ack=True)
    headers = ch.deliver(b"m").props["headers"]
    assert list(headers) == ["a", "x-delay", "z"]
    assert headers["x-delay"] == -60


def test_f123_the_inner_type_routes_with_the_bindings_of_that_time(ch):
    exchange, queue = bound(ch, "topic", "never")
    ch.consume(queue, no_ack=True)
    ch.confirmed(exchange, "a.b", "m", **later(250))
    ch.bind(queue, exchange, "a.*")
    event = ch.deliver(b"m")
    assert (event.exchange, event.routing_key) == (exchange, "a.b")


def test_f123_headers_and_copies_route_after_the_delay(ch):
    exchange, queue = delays(ch, "headers"), ch.queue()
    ch.bind(queue, exchange, "", {"x-match": "all", "color": "blue"})
    ch.consume(queue, no_ack=True)
    ch.publish(exchange, "", "red", headers={"x-delay": 50, "color": "red"})
    ch.publish(exchange, "", "blue", headers={"x-delay": 100, "color": "blue"})
    ch.deliver(b"blue")
    direct, copied = delays(ch), ch.queue()
    for key in ("cc", "bcc"):
        ch.bind(copied, direct, key)
    ch.consume(copied, no_ack=True)
    ch.publish(direct, "k", "copies", headers={"x-delay": 50, "CC": ["cc"]})
    ch.publish(direct, "k", "hidden", headers={"x-delay": 150, "BCC": ["bcc"]})
    ch.deliver(b"copies")
    assert "BCC" not in ch.deliver(b"hidden").props["headers"]


def test_f123_mandatory_asks_nothing_of_a_delayed_message(ch):
    """The plugin does not support the flag and returns every delayed message; here it is taken and never returned."""
    exchange = delays(ch)
    ch.call("confirm.select")
    assert ch.confirmed(exchange, "nowhere", "m", mandatory=True, **later(50))
    ch.nothing(0.2)
    ch.publish(exchange, "nowhere", "m", mandatory=True)
    assert ch.next("basic.return").reply_text == "NO_ROUTE"


def test_f123_the_time_to_live_begins_after_the_delay(ch):
    exchange, queue = bound(ch)
    ch.consume(queue, no_ack=True)
    ch.confirmed(exchange, "k", "m", expiration="150", **later(300))
    assert ch.deliver(b"m").props["expiration"] == "150"


def test_f123_an_exchange_behind_another_delays_too(ch):
    exchange, queue = bound(ch)
    front = ch.exchange("fanout")
    ch.call("exchange.bind", source=front, destination=exchange, routing_key="")
    other = ch.queue()
    ch.bind(other, front)
    ch.confirmed(front, "k", "m", **later(150))
    assert ch.get(other, no_ack=True).body == b"m"
    assert ch.get(queue) is None
    ch.consume(queue, no_ack=True)
    assert ch.deliver(b"m").exchange == front


def test_f123_dead_letters_are_delayed_once(ch):
    """A retry queue: rejected, delayed, back. The negated header does not delay again."""
    exchange = delays(ch, "fanout")
    work = ch.queue(arguments={"x-dead-letter-exchange": exchange})
    ch.bind(work, exchange)
    ch.put(work, "job", **later(120))
    tag = ch.get(work).delivery_tag
    ch.reject(tag, requeue=False)
    assert ch.get(work) is None
    ch.consume(work)
    event = ch.deliver(b"job")
    assert event.props["headers"]["x-delay"] == -120
    ch.reject(event.delivery_tag, requeue=False)
    assert ch.deliver(b"job").props["headers"]["x-death"]


def test_f123_what_finds_no_queue_later_takes_the_alternate_exchange_then(ch):
    spare = ch.exchange("fanout")
    exchange, queue = delays(ch, arguments={"alternate-exchange": spare}), ch.queue()
    ch.bind(queue, spare)
    ch.call("confirm.select")
    ch.confirmed(exchange, "nowhere", "m", **later(100))
    assert ch.get(queue) is None
    ch.consume(queue, no_ack=True)
    ch.deliver(b"m")


def test_f123_a_deleted_exchange_takes_along_what_waits(ch):
    exchange, queue = bound(ch)
    ch.confirmed(exchange, "k", "m", **later(100))
    ch.call("exchange.delete", exchange=exchange)
    ch.exchange("x-delayed-message", name=exchange, arguments={"x-delayed-type": "direct"})
    ch.bind(queue, exchange, "k")
    ch.confirmed(exchange, "k", "of the second", **later(200))
    ch.consume(queue, no_ack=True)
    ch.deliver(b"of the second")


def test_f123_many_wait_and_all_come_in_order(ch):
    exchange, queue = bound(ch)
    delays_ms = [100 + (n * 7919) % 400 for n in range(2000)]
    for delay_ms in delays_ms:
        ch.publish(exchange, "k", str(delay_ms), **later(delay_ms), delivery_mode=2)
    ch.confirms(len(delays_ms))
    ch.consume(queue, no_ack=True)
    got = [int(ch.deliver().body) for _ in delays_ms]
    assert sorted(got) == sorted(delays_ms)


# ------------------------------------------------------------------------------------------ operators


def own(broker):
    if broker.flavor != "warren":
        pytest.skip("Warren's own")


def test_f123_delayed_messages_are_counted_as_the_plugin_does(broker, ch):
    own(broker)
    exchange, _ = bound(ch)
    for _ in range(3):
        ch.confirmed(exchange, "k", "m", **later(60_000))
    listed = broker.ctl("-q", "list_exchanges", "name", "messages_delayed")
    assert f"{exchange}\t3" in listed.splitlines()
    assert "amq.direct\t" in listed.splitlines()


def test_f123_delayed_messages_are_listed_and_dropped(broker, ch):
    own(broker)
    exchange, queue = bound(ch)
    for delay_ms in (60_000, 300, 90_000):
        ch.confirmed(exchange, "k", "12345", **later(delay_ms))
    listing = ["-q", "list_delayed_messages", "--no-table-headers", exchange]
    lines = [line.split("\t") for line in broker.ctl(*listing, "id", "routing_key", "body_bytes", "remaining_ms").splitlines()]
    assert len(lines) == 3 and all(line[1:3] == ["k", "5"] for line in lines)
    assert int(lines[0][3]) <= 300 and 50_000 < int(lines[1][3]) <= 60_000
    broker.ctl("cancel_delayed_message", exchange, lines[0][0])
    ch.consume(queue, no_ack=True)
    ch.nothing(0.4)
    assert len(broker.ctl(*listing, "--limit", "1", "id").splitlines()) == 1
    assert len(broker.ctl(*listing, "id").splitlines()) == 2
