"""Void values in arguments and headers: what HTTP calls them, and what comes in under that name. Runs against RabbitMQ, too."""

import time

import pika
import pytest

V = "void"
ARGUMENTS = {"v": None, "s": "undefined", "n": "null", "l": [None, "undefined", 1], "t": {"v": None}}
SHOWN = {"v": "undefined", "s": "undefined", "n": "null", "l": ["undefined", "undefined", 1], "t": {"v": "undefined"}}


@pytest.fixture(scope="module")
def channel(api, broker):
    api("PUT", f"/api/vhosts/{V}")
    api("PUT", f"/api/permissions/{V}/guest", {"configure": ".*", "write": ".*", "read": ".*"})
    connection = pika.BlockingConnection(pika.URLParameters(broker.amqp + V))
    channel = connection.channel()
    channel.queue_declare("q", durable=True, arguments=ARGUMENTS)
    channel.queue_declare("plain", durable=True)
    channel.exchange_declare("x", "headers", durable=True, arguments=ARGUMENTS)
    channel.queue_bind("q", "x", "k", arguments=ARGUMENTS)
    channel.exchange_bind("x", "amq.headers", "k", arguments=ARGUMENTS)
    yield channel
    connection.close()
    api("DELETE", f"/api/vhosts/{V}")


def shown(arguments):
    return {name: value for name, value in arguments.items() if name != "x-queue-type"}


def of(rows, **facts):
    return [shown(row["arguments"]) for row in rows if all(row[name] == value for name, value in facts.items())]


def test_f173_void_arguments_are_undefined_in_listings(api, channel):
    assert shown(api.get(f"/api/queues/{V}/q")["arguments"]) == SHOWN
    assert of(api.get(f"/api/queues/{V}"), name="q") == [SHOWN]
    assert api.get(f"/api/exchanges/{V}/x")["arguments"] == SHOWN
    assert of(api.get(f"/api/exchanges/{V}"), name="x") == [SHOWN]
    assert of(api.get(f"/api/bindings/{V}"), source="x", destination="q") == [SHOWN]
    assert of(api.get(f"/api/bindings/{V}"), source="amq.headers") == [SHOWN]


@pytest.mark.parametrize("path", ["/api/definitions", f"/api/definitions/{V}"])
def test_f171_void_arguments_are_undefined_in_definitions(api, channel, path):
    definitions = api.get(path)
    assert of(definitions["queues"], name="q") == [SHOWN]
    assert of(definitions["exchanges"], name="x") == [SHOWN]
    assert of(definitions["bindings"], source="x") == [SHOWN]


def test_f174_void_headers_are_undefined_in_messages(api, channel):
    channel.basic_publish("", "plain", b"m", pika.BasicProperties(headers=ARGUMENTS))
    until = time.monotonic() + 5
    got = []
    while not got and time.monotonic() < until:
        got = api("POST", f"/api/queues/{V}/plain/get", {"ackmode": "ack_requeue_false", "count": 1, "encoding": "auto"}).json
    assert got[0]["properties"]["headers"] == SHOWN


def is_routed(channel, queue, headers):
    """Whether a message with these headers comes to the queue."""
    channel.basic_publish("amq.headers", "", b"m", pika.BasicProperties(headers=headers))
    time.sleep(0.3)
    return channel.basic_get(queue, auto_ack=True)[0] is not None


def test_f171_the_word_undefined_comes_in_as_a_text(api, channel):
    """A void argument of a headers binding takes any value; the text takes only itself."""
    binding = {"source": "amq.headers", "vhost": V, "destination": "plain", "destination_type": "queue", "routing_key": "", "arguments": {"i": "undefined"}}
    assert api("POST", "/api/definitions", {"bindings": [binding]}).status == 204
    assert api("POST", f"/api/bindings/{V}/e/amq.headers/q/plain", {"routing_key": "b", "arguments": {"b": "undefined"}}).status == 201
    for name in "ib":
        assert not is_routed(channel, "plain", {name: 1})
        assert is_routed(channel, "plain", {name: "undefined"})


def test_f171_null_comes_in_as_void_or_not_at_all(api, channel, broker):
    """RabbitMQ refuses it."""
    answers = [
        api("POST", f"/api/bindings/{V}/e/amq.headers/q/plain", {"routing_key": "n", "arguments": {"w": None}}),
        api("PUT", f"/api/queues/{V}/null", {"durable": True, "arguments": {"w": None}}),
        api("POST", "/api/definitions", {"queues": [{"name": "null", "vhost": V, "durable": True, "auto_delete": False, "arguments": {"w": None}}]}),
    ]
    statuses = [answer.status for answer in answers]
    if broker.is_peer:
        assert statuses == [500, 400, 400] and answers[1].json == {"error": "bad_request", "reason": "null_not_allowed"}
        return
    assert statuses == [201, 201, 204]
    assert of(api.get(f"/api/queues/{V}"), name="null") == [{"w": "undefined"}]
    assert is_routed(channel, "plain", {"w": 1})
