"""Features 75 to 93, B73, B74, B78, B110, B112, B123, B131, B134, B152, B158, B159, B161: quorum queues, on one node."""

import time

import pytest

import client
from client import fresh


@pytest.fixture(autouse=True)
def _since_43(broker):
    if broker.flavor == "rabbitmq3":
        pytest.skip("quorum queues as of RabbitMQ 4.3")


def declare(ch, name=None, **arguments):
    arguments = {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}
    return ch.queue(name, durable=True, arguments={"x-queue-type": "quorum"} | arguments)


def some(ch, queue):
    """The next message, which may come a moment later."""
    found = []

    def is_there():
        event = ch.get(queue)
        found[:] = [event]
        return event is not None

    client.eventually(is_there)
    return found[0]


def counts(event):
    headers = event.props.get("headers", {})
    return headers.get("x-acquired-count"), headers.get("x-delivery-count")


def fill(ch, queue, priorities):
    for number, priority in enumerate(priorities):
        ch.publish("", queue, f"{priority}:{number}", **({} if priority is None else {"priority": priority}))
    client.eventually(lambda: ch.ready(queue) == len(priorities))


@pytest.mark.parametrize(
    "flags, what",
    [
        ({"exclusive": True, "durable": True}, "exclusive-owner"),
        ({"auto_delete": True, "durable": True}, "auto-delete"),
        ({"durable": False}, "non-durable"),
    ],
)
def test_b074_what_a_quorum_queue_cannot_be_is_refused(ch, flags, what):
    name = fresh("q")
    with ch.closes(406, f"PRECONDITION_FAILED - invalid property '{what}' for queue '{name}' in vhost '/'", "queue.declare"):
        ch.call("queue.declare", queue=name, arguments={"x-queue-type": "quorum"}, **flags)


def test_b074_a_quorum_queue_has_no_server_name(ch):
    text = "PRECONDITION_FAILED - Cannot declare a server-named queue for type rabbit_quorum_queue"
    with ch.closes(406, text, "queue.declare"):
        ch.call("queue.declare", queue="", durable=True, arguments={"x-queue-type": "quorum"})


@pytest.mark.parametrize("argument", ["x-max-priority", "x-queue-mode", "x-queue-version", "x-max-age"])
def test_b073_arguments_of_other_types_are_refused(ch, argument):
    name = fresh("q")
    text = f"PRECONDITION_FAILED - invalid arg '{argument}' for queue '{name}' in vhost '/' of queue type rabbit_quorum_queue"
    with ch.closes(406, text, "queue.declare"):
        value = "lazy" if argument == "x-queue-mode" else "1D" if argument == "x-max-age" else 2
        ch.call("queue.declare", queue=name, durable=True, arguments={"x-queue-type": "quorum", argument: value})


@pytest.mark.parametrize(
    "argument, value, reason",
    [
        ("x-quorum-initial-group-size", 0, "{value_zero,0}"),
        ("x-dead-letter-strategy", "sometimes", "invalid_dlx_strategy"),
        ("x-queue-leader-locator", "nowhere", "invalid_queue_locator_arg"),
        ("x-max-in-memory-length", -1, "{value_negative,-1}"),
        ("x-consumer-timeout", "a", '"expected integer, got longstr"'),
    ],
)
def test_f076_values_that_make_no_sense_are_refused(ch, argument, value, reason):
    name = fresh("q")
    text = f"PRECONDITION_FAILED - invalid arg '{argument}' for queue '{name}' in vhost '/': {reason}"
    with ch.closes(406, text, "queue.declare"):
        ch.call("queue.declare", queue=name, durable=True, arguments={"x-queue-type": "quorum", argument: value})


def test_f076_a_redeclaration_compares_the_arguments_of_the_type(ch):
    name = declare(ch, delivery_limit=5)
    text = (
        f"PRECONDITION_FAILED - inequivalent arg 'x-delivery-limit' for queue '{name}' in vhost '/': "
        "received none but current is the value '5' of type 'signedint'"
    )
    with ch.closes(406, text, "queue.declare"):
        ch.call("queue.declare", queue=name, durable=True, arguments={"x-queue-type": "quorum"})


def test_b159_a_group_may_be_larger_than_the_cluster(ch):
    queue = declare(ch, quorum_initial_group_size=5)
    ch.put(queue, b"m")
    assert some(ch, queue).body == b"m"


@pytest.mark.parametrize("flag", ["if_unused", "if_empty"])
def test_b078_a_conditional_delete_of_a_quorum_queue_ends_the_connection(broker, flag):
    connection = broker.connect()
    ch = connection.channel()
    name = declare(ch)
    word = flag.replace("_", "-")
    text = (
        f"NOT_IMPLEMENTED - cannot delete queue '{name}' in vhost '/'. queue.delete operations with {word} flag set are not "
        "supported by quorum queues"
    )
    with connection.closes(540, text, "queue.delete"):
        ch.send("queue.delete", queue=name, **{flag: True})


def test_b158_an_exclusive_consumer_is_like_any_other(ch):
    queue = declare(ch)
    ch.consume(queue, "one", exclusive=True)
    ch.consume(queue, "two")
    client.eventually(lambda: ch.consumers(queue) == 2)


def test_b123_get_on_a_single_active_consumer_queue_is_refused(ch):
    queue = declare(ch, single_active_consumer=True)
    text = (
        f"RESOURCE_LOCKED - cannot obtain access to locked queue '{queue}' in vhost '/'. basic.get operations are not supported "
        'by <<"quorum">> queues with single active consumer'
    )
    with ch.closes(405, text, "basic.get"):
        ch.get(queue)


def test_b112_absent_priority_is_4_and_31_is_the_highest(ch):
    queue = declare(ch)
    fill(ch, queue, [None, 0, 3, 4, 5, 31, 200])
    bodies = [some(ch, queue).body for _ in range(7)]
    assert bodies == [b"31:5", b"200:6", b"5:4", b"None:0", b"4:3", b"3:2", b"0:1"]


def test_b161_returned_messages_come_first_in_the_order_of_their_return(ch):
    queue = declare(ch)
    fill(ch, queue, [0, 9, 4, None, 1, 31])
    taken = [some(ch, queue) for _ in range(5)]
    assert [event.body for event in taken] == [b"31:5", b"9:1", b"4:2", b"None:3", b"1:4"]
    for nth in [3, 0, 4]:
        ch.nack(taken[nth].delivery_tag)
    ch.publish("", queue, b"new", priority=31)
    client.eventually(lambda: ch.ready(queue) == 5)
    assert [some(ch, queue).body for _ in range(5)] == [b"None:3", b"31:5", b"1:4", b"new", b"0:0"]


def test_b131_nack_and_reject_count_differently(broker, ch):
    queue = declare(ch)
    ch.put(queue, b"m")
    event = some(ch, queue)
    assert (counts(event), event.redelivered) == ((None, None), False)
    ch.nack(event.delivery_tag)
    event = some(ch, queue)
    assert (counts(event), event.redelivered) == ((1, None), True)
    ch.reject(event.delivery_tag)
    event = some(ch, queue)
    assert counts(event) == (2, 1)
    ch.call("basic.recover", requeue=True)
    assert counts(some(ch, queue)) == (3, 1)
    ch.shut()
    other = broker.connect().channel()
    event = some(other, queue)
    assert counts(event) == (4, 2), "a closed channel counts as a failure"


def test_f079_counts_stand_beside_the_headers_of_the_publisher(ch):
    queue = declare(ch)
    ch.put(queue, b"m", headers={"mine": 1})
    ch.consume(queue)
    ch.reject(ch.deliver(b"m").delivery_tag)
    assert ch.deliver(b"m").props["headers"] == {"mine": 1, "x-acquired-count": 1, "x-delivery-count": 1}


def failures(ch, queue, most):
    """How often a message can fail before it is gone, and the last one that was seen."""
    for count in range(most):
        deadline = time.monotonic() + 0.5
        while (event := ch.get(queue)) is None:
            if time.monotonic() > deadline:
                return count
            time.sleep(0.01)
        ch.reject(event.delivery_tag)
    return most


@pytest.mark.parametrize("limit, times", [(0, 1), (2, 3), (None, 21), (-1, 25)])
def test_b152_a_message_dies_when_it_failed_more_often_than_the_limit(ch, limit, times):
    queue = declare(ch, **({} if limit is None else {"delivery_limit": limit}))
    ch.put(queue, b"m")
    assert failures(ch, queue, 25) == times


def test_b152_a_nack_does_not_count_for_the_limit(ch):
    queue = declare(ch, delivery_limit=1)
    ch.put(queue, b"m")
    for _ in range(5):
        ch.nack(some(ch, queue).delivery_tag)
    assert some(ch, queue).body == b"m"


def test_b150_the_letter_of_a_message_that_failed_too_often(ch):
    target = ch.queue()
    queue = declare(ch, delivery_limit=1, dead_letter_exchange="", dead_letter_routing_key=target)
    ch.put(queue, b"m")
    assert failures(ch, queue, 3) == 2
    headers = some(ch, target).props["headers"]
    assert (headers["x-first-death-reason"], headers["x-first-death-queue"]) == ("delivery_limit", queue)
    assert headers["x-death"][0]["reason"] == "delivery_limit"
    assert "x-delivery-count" not in headers


@pytest.mark.parametrize("kind, waits", [("all", {"nack", "reject"}), ("failed", {"reject"}), ("returned", {"nack"})])
def test_f082_a_delayed_retry_waits(ch, kind, waits):
    for how in ["nack", "reject"]:
        queue = declare(ch, delayed_retry_type=kind, delayed_retry_min=500, delayed_retry_max=1000)
        ch.put(queue, b"m")
        tag, began = some(ch, queue).delivery_tag, time.monotonic()
        (ch.nack if how == "nack" else ch.reject)(tag)
        assert some(ch, queue).body == b"m"
        assert (time.monotonic() - began > 0.4) == (how in waits), (kind, how)


def test_b134_a_consumer_of_higher_priority_takes_over(broker, ch):
    queue = declare(ch, single_active_consumer=True)
    ch.consume(queue, "low")
    high = broker.connect().channel()
    high.consume(queue, "high", arguments={"x-priority": 5})
    time.sleep(0.5)
    ch.put(queue, b"m")
    assert high.deliver(b"m")
    ch.nothing()


def test_b142_a_limit_drops_the_head_and_reject_publish_dlx_counts_as_drop_head(ch):
    for overflow in ["drop-head", "reject-publish-dlx"]:
        queue = declare(ch, max_length=2, overflow=overflow)
        ch.put(queue, b"1", b"2")
        ch.publish("", queue, b"3")
        client.eventually(lambda: ch.ready(queue) == 2)
        assert [some(ch, queue).body for _ in range(2)] == [b"2", b"3"]
