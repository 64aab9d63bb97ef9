"""The exchanges and queues that MassTransit 8's RabbitMQ transport declares, and its messages: publish, send, request, faults, delays.

A message type is a durable fanout exchange, `Namespace:Type`. A receive endpoint is a queue with an exchange of its name; the exchanges of
the message types are bound to that exchange. Failed messages go to NAME_error, unhandled ones to NAME_skipped.
"""

import json
import os
import uuid

import pika
import pytest

ENVELOPE = "application/vnd.masstransit+json"
TYPE, FAULT = "Shop.Contracts:OrderSubmitted", "MassTransit:Fault--Shop.Contracts:OrderSubmitted--"


@pytest.fixture
def channel():
    with pika.BlockingConnection(pika.URLParameters(os.environ["URL"])) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        yield channel


@pytest.fixture
def endpoint(channel):
    """Makes receive endpoints as the transport does (queues, exchanges, then bindings), and deletes them."""
    made = []

    def receive_endpoint(queue_arguments=None):
        name = f"order-state-{uuid.uuid4().hex[:8]}"
        made.append(name)
        channel.queue_declare(name, durable=True, arguments=queue_arguments)
        channel.exchange_declare(name, "fanout", durable=True)
        channel.exchange_declare(TYPE, "fanout", durable=True)
        channel.queue_bind(name, name, routing_key="")
        channel.exchange_bind(name, TYPE, routing_key="")
        channel.basic_qos(prefetch_count=16, global_qos=False)
        return name

    yield receive_endpoint
    for name in [it + suffix for it in made for suffix in ("", "_error", "_skipped", "_delay")]:
        channel.queue_delete(name)
        channel.exchange_delete(name)
    for exchange in (TYPE, FAULT):
        channel.exchange_delete(exchange)


def publish(channel, exchange, message, **properties):
    body = json.dumps({"messageType": [f"urn:message:{TYPE}"], "message": message}).encode()
    identity = str(uuid.uuid4())
    properties = {"message_id": identity, "content_type": ENVELOPE, "delivery_mode": 2, **properties}
    channel.basic_publish(exchange, "", body, pika.BasicProperties(**properties))
    return identity


def take(channel, queue, seconds=5):
    for method, properties, body in channel.consume(queue, inactivity_timeout=seconds):
        channel.cancel()
        assert method is not None, f"nothing came to {queue}"
        channel.basic_ack(method.delivery_tag)
        return properties, json.loads(body)["message"]


@pytest.mark.parametrize(
    "arguments",
    [None, {"x-queue-type": "quorum"}, {"x-single-active-consumer": True}, {"x-max-priority": 9}],
    ids=["classic", "quorum", "single active consumer", "priorities"],
)
def test_a_published_message_reaches_the_endpoint(channel, endpoint, arguments):
    queue = endpoint(arguments)
    identity = publish(channel, TYPE, {"order": 1}, headers={"MT-Activity-Id": "00-ab-cd-00"}, priority=4)
    properties, message = take(channel, queue)
    assert (properties.message_id, properties.content_type, message) == (identity, ENVELOPE, {"order": 1})
    assert properties.headers["MT-Activity-Id"] == "00-ab-cd-00"


def test_two_endpoints_get_a_copy_each(channel, endpoint):
    first, second = endpoint(), endpoint()
    publish(channel, TYPE, {"order": 2})
    assert take(channel, first)[1] == take(channel, second)[1] == {"order": 2}


def test_an_interface_hierarchy_is_a_chain_of_exchanges(channel, endpoint):
    queue, derived = endpoint(), "Shop.Contracts:UrgentOrderSubmitted"
    channel.exchange_declare(derived, "fanout", durable=True)
    channel.exchange_bind(TYPE, derived, routing_key="")
    publish(channel, derived, {"order": 3})
    assert take(channel, queue)[1] == {"order": 3}
    channel.exchange_delete(derived)


def test_a_topology_is_declared_again_by_every_start(channel, endpoint):
    queue = endpoint({"x-queue-type": "quorum"})
    for _ in range(2):
        channel.queue_declare(queue, durable=True, arguments={"x-queue-type": "quorum"})
        channel.exchange_declare(queue, "fanout", durable=True)
        channel.exchange_bind(queue, TYPE, routing_key="")
    publish(channel, TYPE, {"order": 4})
    assert take(channel, queue)[1] == {"order": 4}
    assert next(channel.consume(queue, inactivity_timeout=0.3))[0] is None, "one binding, one copy"
    channel.cancel()


@pytest.mark.parametrize("suffix", ["_error", "_skipped"])
def test_what_fails_and_what_nobody_handles(channel, endpoint, suffix):
    queue = endpoint()
    channel.exchange_declare(queue + suffix, "fanout", durable=True)
    channel.queue_declare(queue + suffix, durable=True)
    channel.queue_bind(queue + suffix, queue + suffix, routing_key="")
    headers = {"MT-Reason": "fault", "MT-Fault-Message": "x" * 4000, "MT-Fault-RetryCount": 3}
    publish(channel, queue + suffix, {"order": 5}, headers=headers)
    properties, message = take(channel, queue + suffix)
    assert message == {"order": 5} and properties.headers == headers


def test_a_fault_is_published_to_its_own_type(channel, endpoint):
    queue = endpoint()
    channel.exchange_declare(FAULT, "fanout", durable=True)
    channel.exchange_bind(queue, FAULT, routing_key="")
    publish(channel, FAULT, {"order": 6})
    assert take(channel, queue)[1] == {"order": 6}


def test_a_request_is_answered_on_the_bus_endpoint(channel, endpoint):
    queue, bus = endpoint(), f"host_app_bus_{uuid.uuid4().hex}"
    channel.exchange_declare(bus, "fanout", durable=False, auto_delete=True)
    channel.queue_declare(bus, durable=False, auto_delete=False, exclusive=True, arguments={"x-expires": 60000})
    channel.queue_bind(bus, bus, routing_key="")
    request = publish(channel, queue, {"ask": 7}, correlation_id=str(uuid.uuid4()), reply_to=bus, expiration="30000")
    properties, message = take(channel, queue)
    assert message == {"ask": 7}
    publish(channel, properties.reply_to, {"answer": 7}, correlation_id=request)
    properties, message = take(channel, bus)
    assert (properties.correlation_id, message) == (request, {"answer": 7})


def test_a_scheduled_message_waits_in_the_delay_exchange(channel, endpoint):
    queue = endpoint()
    delay = queue + "_delay"
    with pika.BlockingConnection(pika.URLParameters(os.environ["URL"])) as probe:
        try:
            probe.channel().exchange_declare(delay, "x-delayed-message", durable=True, arguments={"x-delayed-type": "fanout"})
        except (pika.exceptions.ChannelClosedByBroker, pika.exceptions.ConnectionClosedByBroker, pika.exceptions.StreamLostError):
            pytest.skip("the broker has no exchanges of type x-delayed-message: RabbitMQ needs a plugin")
    channel.exchange_bind(queue, delay, routing_key="")
    publish(channel, delay, {"order": 8}, headers={"x-delay": 700})
    assert next(channel.consume(queue, inactivity_timeout=0.3))[0] is None, "it is early"
    channel.cancel()
    assert take(channel, queue)[1] == {"order": 8}
