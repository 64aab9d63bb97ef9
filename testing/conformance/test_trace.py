"""B175: the firehose, copies of what is published and delivered in a vhost on the exchange amq.rabbitmq.trace."""

import pytest

import client
from client import fresh

TRACE = "amq.rabbitmq.trace"


class Traced:
    """A vhost of its own with its trace on, and a consumer of it."""

    def __init__(self, broker):
        self.broker, self.vhost = broker, fresh("traced")
        broker.ctl("add_vhost", self.vhost)
        broker.ctl("set_permissions", "-p", self.vhost, "guest", ".*", ".*", ".*")
        self.switch("trace_on")
        self.copies = self.channel()
        self.queue = self.copies.queue(exclusive=True)
        self.copies.bind(self.queue, TRACE, "#")
        self.copies.consume(self.queue, no_ack=True)

    def switch(self, command):
        self.broker.ctl(command, "-p", self.vhost)

    def channel(self):
        return self.broker.connect(vhost=self.vhost).channel()

    def copy(self):
        """The next copy: its key, its headers with their types, its body."""
        event = self.copies.deliver()
        assert event.exchange == TRACE and set(event.props) == {"headers", "typed_headers"}
        return event.routing_key, {name: value for name, value in event.props["typed_headers"]}, event.body, event


@pytest.fixture
def traced(broker):
    if not broker.ctl_prefix:
        pytest.skip("needs --ctl")
    traced = Traced(broker)
    yield traced
    broker.ctl("delete_vhost", traced.vhost, check=False)


def plain(headers):
    return {name: client.wire.plain(value) for name, value in headers.items()}


ALL = {
    "content_type": "text/plain", "content_encoding": "enc", "headers": {"h": 1}, "delivery_mode": 2, "priority": 3,
    "correlation_id": "c", "reply_to": "r", "expiration": "60000", "message_id": "m", "timestamp": 77, "type": "ty",
    "user_id": "guest", "app_id": "app",
}  # fmt: skip


def test_b175_a_publish_is_copied_with_its_headers(traced):
    ch = traced.channel()
    one, two = sorted(ch.queue(durable=True, exclusive=False) for _ in range(2))
    for queue in (one, two):
        ch.bind(queue, "amq.topic", "k.*")
    ch.publish("amq.topic", "k.1", b"body", **ALL)
    key, headers, body, event = traced.copy()
    assert (key, body) == ("publish.amq.topic", b"body")
    kinds = {name: value.kind for name, value in headers.items()}
    assert kinds == {
        "channel": "I", "connection": "S", "exchange_name": "S", "node": "S", "properties": "F", "routed_queues": "A",
        "routing_keys": "A", "user": "S", "vhost": "S",
    }  # fmt: skip
    assert list(kinds) == sorted(kinds)
    said = plain(headers)
    assert sorted(said["routed_queues"]) == [one, two] and said["routing_keys"] == ["k.1"]
    assert (said["channel"], said["exchange_name"], said["user"], said["vhost"]) == (
        1, "amq.topic", "guest", traced.vhost
    )  # fmt: skip
    port = ch.connection.io.sock.getsockname()[1]
    assert said["connection"].startswith(f"127.0.0.1:{port} -> 127.0.0.1:")


def test_b175_properties_are_a_table_with_the_last_one_first(traced):
    ch = traced.channel()
    ch.publish("amq.topic", "k.1", b"body", **ALL)
    properties = traced.copy()[1]["properties"].value
    assert [(name, value.kind) for name, value in properties] == [
        ("app_id", "S"), ("user_id", "S"), ("type", "S"), ("timestamp", "I"), ("message_id", "S"), ("expiration", "S"),
        ("reply_to", "S"), ("correlation_id", "S"), ("priority", "I"), ("delivery_mode", "I"), ("headers", "F"),
        ("content_encoding", "S"), ("content_type", "S"),
    ]  # fmt: skip
    assert {name: client.wire.plain(value) for name, value in properties} == ALL
    ch.publish("amq.topic", "k.1")
    assert traced.copy()[1]["properties"].value == []


def test_b175_what_reaches_no_queue_is_copied_too(traced):
    ch = traced.channel()
    ch.publish("amq.topic", "nowhere", b"x")
    key, headers, body, _ = traced.copy()
    assert (key, body, plain(headers)["routed_queues"]) == ("publish.amq.topic", b"x", [])


def test_b175_the_default_exchange_routes_to_keys_whether_there_are_such_queues_or_not(traced):
    ch = traced.channel()
    queue = ch.queue(exclusive=True)
    ch.publish("", "nope", b"x")
    assert plain(traced.copy()[1])["routed_queues"] == ["nope"]
    ch.publish("", "zz", b"x", headers={"CC": ["nope", queue, "nope"]})
    said = plain(traced.copy()[1])
    assert said["routed_queues"] == sorted(["zz", "nope", queue])
    assert said["routing_keys"] == ["zz", "nope", queue, "nope"]


def test_b175_deliveries_name_the_keys_that_the_message_travels_with(traced):
    ch = traced.channel()
    dead, hidden = ch.queue(exclusive=True), ch.queue(exclusive=True)
    exchange = ch.exchange("direct")
    ch.bind(dead, exchange, "new")
    plainly = ch.queue(exclusive=True, arguments={"x-dead-letter-exchange": exchange})
    renamed = ch.queue(
        exclusive=True, arguments={"x-dead-letter-exchange": exchange, "x-dead-letter-routing-key": "new"}
    )
    ch.bind(dead, exchange, plainly)
    for queue, then in ((plainly, [plainly, "seen", hidden]), (renamed, ["new"])):
        ch.publish("", queue, b"m", headers={"CC": ["seen"], "BCC": [hidden]})
        traced.copy()
        first = ch.get(queue)
        key, headers, _, _ = traced.copy()
        assert (key, plain(headers)["routing_keys"]) == (f"deliver.{queue}", [queue, "seen", hidden])
        assert "BCC" not in plain(headers)["properties"]["headers"]
        ch.reject(first.delivery_tag, requeue=False)
        client.eventually(lambda: ch.ready(dead) == 1, "a dead letter")
        ch.consume(dead, tag=queue, no_ack=True)
        ch.deliver()
        ch.call("basic.cancel", consumer_tag=queue)
        key, headers, _, _ = traced.copy()
        assert (key, plain(headers)["routing_keys"]) == (f"deliver.{dead}", then)


def test_b175_keys_of_cc_and_bcc_are_among_the_routing_keys(traced):
    ch = traced.channel()
    queue = ch.queue(exclusive=True)
    for header in ("CC", "BCC"):
        ch.publish("", queue, b"d", headers={header: ["other"]})
        key, headers, _, _ = traced.copy()
        assert (key, plain(headers)["routing_keys"]) == ("publish.", [queue, "other"])
        left = {"headers": {"CC": ["other"]} if header == "CC" else {}}
        assert plain(headers)["properties"] == left


def test_b175_deliveries_are_copied_and_tell_of_redelivery(traced):
    ch = traced.channel()
    queue = ch.queue(durable=True, exclusive=False)
    ch.publish("", queue, b"body", message_id="m")
    assert traced.copy()[0] == "publish."
    got = ch.get(queue)
    key, headers, body, _ = traced.copy()
    assert (key, body, got.body) == (f"deliver.{queue}", b"body", b"body")
    assert (headers["redelivered"].kind, headers["redelivered"].value) == ("I", 0)
    assert "routed_queues" not in headers and list(headers) == sorted(headers)
    said = plain(headers)
    assert (said["exchange_name"], said["routing_keys"], said["properties"]) == ("", [queue], {"message_id": "m"})
    ch.shut()
    other = traced.channel()
    other.consume(queue, no_ack=True)
    assert other.deliver().redelivered
    key, headers, _, _ = traced.copy()
    port = other.connection.io.sock.getsockname()[1]
    assert (key, headers["redelivered"].value, headers["channel"].value) == (f"deliver.{queue}", 1, 1)
    assert headers["connection"].value.startswith(f"127.0.0.1:{port} -> ")


def test_b175_copies_are_not_copied_and_nothing_is_after_trace_off(traced):
    ch = traced.channel()
    other = ch.queue(exclusive=True)
    ch.bind(other, TRACE, "publish.#")
    ch.publish("amq.fanout", "", b"once")
    assert traced.copy()[0] == "publish.amq.fanout"
    client.eventually(lambda: ch.ready(other) == 1, "a second copy for the second queue")
    assert ch.get(other, no_ack=True).body == b"once"
    traced.copies.nothing()
    traced.switch("trace_off")
    ch.publish("amq.fanout", "", b"unseen")
    ch.call("channel.close", reply_code=200, reply_text="", class_id=0, method_id=0)
    traced.copies.nothing()


def test_b175_keys_of_copies_select(traced):
    ch = traced.channel()
    some = traced.channel()
    queue = some.queue(exclusive=True)
    some.bind(queue, TRACE, "publish.amq.direct")
    ch.publish("amq.fanout", "", b"not this")
    ch.publish("amq.direct", "k", b"this")
    assert [traced.copy()[2], traced.copy()[2]] == [b"not this", b"this"]
    client.eventually(lambda: some.ready(queue) == 1, "a copy")
    assert some.get(queue, no_ack=True).body == b"this"
