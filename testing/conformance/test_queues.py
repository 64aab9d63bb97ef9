"""B59-B81: declaring, redeclaring, validating, purging, deleting classic queues, and how they end by themselves."""

import re
import time

import pytest

import client
import wire
from client import fresh


def locked(queue):
    return (
        f"RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '{queue}' in vhost '/'. It could be originally "
        "declared on another connection or the exclusive property value does not match that of the original declaration."
    )[:255]


def exists(ch, queue):
    """Whether a queue is there, by passive declare on a channel of its own."""
    channel = ch.connection.channel()
    try:
        channel.ready(queue)
    except client.ChannelClosed as closed:
        if closed.code == 405:
            return True
        assert closed.code == 404
        return False
    channel.shut()
    return True


# ------------------------------------------------------------------------------------------ names


def test_b059_empty_name_gets_a_server_name(ch):
    name = ch.queue("")
    assert re.fullmatch(r"amq\.gen-[A-Za-z0-9_-]{22}", name)


def test_b059_server_names_differ(ch):
    assert len({ch.queue("") for _ in range(20)}) == 20


def test_b049_redeclaring_a_server_named_queue_by_name_is_refused_too(ch):
    name = ch.queue("")
    text = f"ACCESS_REFUSED - queue name '{name}' contains reserved prefix 'amq.*'"
    with ch.closes(403, text, "queue.declare"):
        ch.queue(name)


@pytest.mark.parametrize(
    "use",
    [
        lambda ch: ch.call("queue.bind", queue="", exchange="amq.direct", routing_key="k"),
        lambda ch: ch.call("queue.unbind", queue="", exchange="amq.direct", routing_key="k"),
        lambda ch: ch.call("queue.purge", queue=""),
        lambda ch: ch.consume(""),
        lambda ch: ch.get(""),
        lambda ch: ch.call("queue.delete", queue=""),
    ],
    ids=["bind", "unbind", "purge", "consume", "get", "delete"],
)
def test_b060_empty_queue_name_is_the_last_declared_one(ch, use):
    ch.queue("")
    use(ch)


@pytest.mark.parametrize(
    "name, args",
    [
        ("queue.bind", {"exchange": "amq.direct", "routing_key": "k"}),
        ("queue.unbind", {"exchange": "amq.direct", "routing_key": "k"}),
        ("queue.purge", {}),
        ("basic.consume", {}),
        ("basic.get", {}),
        ("queue.delete", {}),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_b060_empty_queue_name_without_a_declared_one_is_404(ch, name, args):
    with ch.closes(404, "NOT_FOUND - no previously declared queue", name):
        ch.send(name, queue="", **args)


def test_b060_last_declared_is_per_channel_and_the_latest(conn, ch):
    ch.queue()
    last = ch.queue()
    ch.put(last, b"m")
    assert ch.get("").body == b"m"
    with conn.channel().closes(404, "NOT_FOUND - no previously declared queue", "basic.get") as _:
        conn.channels[max(conn.channels)].send("basic.get", queue="")


def test_b060_empty_queue_and_key_in_bind_make_the_key_the_queue_name(ch):
    name = ch.queue("")
    ch.call("queue.bind", queue="", exchange="amq.direct", routing_key="")
    ch.publish("amq.direct", name, b"by name")
    assert client.eventually(lambda: ch.get("")).body == b"by name"


def test_b060_passive_declare_sets_the_last_declared_queue(conn, ch):
    name = ch.queue()
    other = conn.channel()
    other.ready(name)
    assert other.get("") is None


def test_b049_reserved_prefix_is_refused_on_declare_but_not_on_passive(conn, ch):
    name = ch.queue("")
    ch.ready(name)
    text = "ACCESS_REFUSED - queue name 'amq.conf' contains reserved prefix 'amq.*'"
    with ch.closes(403, text, "queue.declare"):
        ch.queue("amq.conf")
    ch = conn.channel()
    with ch.closes(404, "NOT_FOUND - no queue 'amq.conf' in vhost '/'", "queue.declare"):
        ch.ready("amq.conf")


def test_b050_line_ends_are_stripped_from_queue_names(ch):
    name = fresh("q")
    assert ch.queue(name[:6] + "\r\n" + name[6:] + "\n") == name
    assert exists(ch, name)


def test_b081_255_byte_names_work_throughout(ch):
    name = ch.queue(fresh("q").ljust(255, "n"))
    ch.put(name, b"m")
    assert ch.get(name).routing_key == name


# ------------------------------------------------------------------------------------------ redeclare


def test_b061_equal_redeclare_succeeds_and_shows_counts(ch):
    name = ch.queue(durable=True, arguments={"x-max-length": 10})
    ch.put(name, b"a", b"b")
    ch.consume(name, no_ack=False)
    ok = ch.declare(name, durable=True, arguments={"x-max-length": 10})
    assert (ok.queue, ok.consumer_count) == (name, 1)


def inequivalent(arg, queue, received, current):
    return (
        f"PRECONDITION_FAILED - inequivalent arg '{arg}' for queue '{queue}' in vhost '/': "
        f"received {received} but current is {current}"
    )


def test_b062_durable_mismatch(ch):
    name = ch.queue(durable=True)
    with ch.closes(406, inequivalent("durable", name, "'false'", "'true'"), "queue.declare"):
        ch.send("queue.declare", queue=name)


def test_b062_auto_delete_mismatch(ch):
    name = ch.queue(durable=True)
    with ch.closes(406, inequivalent("auto_delete", name, "'true'", "'false'"), "queue.declare"):
        ch.send("queue.declare", queue=name, durable=True, auto_delete=True)


def test_b061_durable_is_compared_before_auto_delete_before_arguments(conn, ch):
    name = ch.queue(durable=True)
    with pytest.raises(client.ChannelClosed) as closed:
        ch.call("queue.declare", queue=name, auto_delete=True, arguments={"x-expires": 1})
    assert "inequivalent arg 'durable'" in closed.value.text
    ch = conn.channel()
    with pytest.raises(client.ChannelClosed) as closed:
        ch.call("queue.declare", queue=name, durable=True, auto_delete=True, arguments={"x-expires": 1000})
    assert "inequivalent arg 'auto_delete'" in closed.value.text


@pytest.mark.parametrize(
    "arg, value, shown",
    [
        ("x-message-ttl", 1000, "the value '1000' of type 'signedint'"),
        ("x-expires", 100000, "the value '100000' of type 'signedint'"),
        ("x-max-length", 5, "the value '5' of type 'signedint'"),
        ("x-max-length-bytes", 5, "the value '5' of type 'signedint'"),
        ("x-overflow", "drop-head", "the value 'drop-head' of type 'longstr'"),
        ("x-dead-letter-exchange", "amq.fanout", "the value 'amq.fanout' of type 'longstr'"),
        ("x-max-priority", 5, "the value '5' of type 'signedint'"),
        ("x-single-active-consumer", True, "the value 'true' of type 'bool'"),
    ],
)
def test_b062_argument_mismatch_with_none(ch, arg, value, shown):
    name = ch.queue(durable=True)
    with ch.closes(406, inequivalent(arg, name, shown, "none"), "queue.declare"):
        ch.send("queue.declare", queue=name, durable=True, arguments={arg: value})


def test_b062_missing_argument_mismatch(ch):
    name = ch.queue(durable=True, arguments={"x-max-length": 7})
    text = inequivalent("x-max-length", name, "none", "the value '7' of type 'signedint'")
    with ch.closes(406, text, "queue.declare"):
        ch.send("queue.declare", queue=name, durable=True)


def test_b062_different_values(ch):
    name = ch.queue(durable=True, arguments={"x-max-length": 7})
    text = inequivalent("x-max-length", name, "'8'", "'7'")
    with ch.closes(406, text, "queue.declare"):
        ch.send("queue.declare", queue=name, durable=True, arguments={"x-max-length": 8})


def test_b062_dead_letter_routing_key_mismatch(ch):
    dlx = {"x-dead-letter-exchange": "amq.fanout"}
    name = ch.queue(durable=True, arguments=dlx)
    text = inequivalent("x-dead-letter-routing-key", name, "the value 'k' of type 'longstr'", "none")
    with ch.closes(406, text, "queue.declare"):
        ch.send("queue.declare", queue=name, durable=True, arguments=dlx | {"x-dead-letter-routing-key": "k"})


@pytest.mark.parametrize("kind", ["b", "B", "s", "u", "I", "i", "l"])
def test_b063_integers_of_any_width_are_equal(ch, kind):
    from wire import T

    name = ch.queue(durable=True, arguments={"x-max-length": 7})
    ch.call("queue.declare", queue=name, durable=True, arguments={"x-max-length": T(kind, 7)})


def test_b061_arguments_of_no_queue_type_are_not_compared(ch):
    name = ch.queue(durable=True, arguments={"x-mine": 1})
    ch.call("queue.declare", queue=name, durable=True, arguments={"x-yours": "2"})


def test_b064_absent_type_equals_classic(ch):
    name = ch.queue(durable=True)
    ch.call("queue.declare", queue=name, durable=True, arguments={"x-queue-type": "classic"})
    other = ch.queue(durable=True, arguments={"x-queue-type": "classic"})
    ch.call("queue.declare", queue=other, durable=True)


def test_b064_another_type_for_an_existing_queue_is_406(broker, ch):
    name = ch.queue(durable=True)
    received = broker.pick("'quorum'", rabbitmq3="the value 'quorum' of type 'longstr'")
    current = broker.pick("'classic'", rabbitmq3="none")
    with ch.closes(406, inequivalent("x-queue-type", name, received, current), "queue.declare"):
        ch.call("queue.declare", queue=name, durable=True, arguments={"x-queue-type": "quorum"})


def test_b064_empty_type_counts_as_absent_since_4(broker, ch):
    if broker.flavor == "rabbitmq3":
        with pytest.raises(client.ChannelClosed):
            ch.declare(durable=True, arguments={"x-queue-type": ""})
    else:
        ch.declare(durable=True, arguments={"x-queue-type": ""})


def test_b067_exclusive_queues_may_be_redeclared_with_either_durability(ch):
    name = ch.queue(durable=True, exclusive=True)
    ch.call("queue.declare", queue=name, durable=False, exclusive=True)
    ch.call("queue.declare", queue=name, durable=True, exclusive=True)


# ------------------------------------------------------------------------------------------ exclusive


@pytest.mark.parametrize(
    "name, args",
    [
        ("queue.declare", {"exclusive": True}),
        ("queue.declare", {"durable": True}),
        ("queue.declare", {"passive": True}),
        ("queue.bind", {"exchange": "amq.direct", "routing_key": "k"}),
        ("queue.unbind", {"exchange": "amq.direct", "routing_key": "k"}),
        ("basic.consume", {}),
        ("basic.get", {}),
        ("queue.purge", {}),
        ("queue.delete", {}),
    ],
    ids=["redeclare", "declare shared", "passive", "bind", "unbind", "consume", "get", "purge", "delete"],
)
def test_b065_exclusive_queue_is_locked_for_other_connections(ch, ch2, name, args):
    queue = ch.queue()
    ch.bind(queue, "amq.direct", "k")
    with ch2.closes(405, locked(queue), name):
        ch2.send(name, queue=queue, **args)


def test_b065_unbinding_what_is_not_bound_does_not_look_at_the_lock(ch, ch2):
    queue = ch.queue()
    ch2.call("queue.unbind", queue=queue, exchange="amq.direct", routing_key="never bound")
    ch2.call("queue.unbind", queue=queue, exchange=fresh("missing"), routing_key="k")


def test_b065_other_channels_of_the_connection_may_use_it(conn, ch):
    queue = ch.queue()
    other = conn.channel()
    ch.put(queue, b"m")
    assert other.get(queue).body == b"m"


def test_b065_anyone_may_publish_to_it(ch, ch2):
    queue = ch.queue()
    ch2.put(queue, b"from elsewhere")
    assert ch.get(queue).body == b"from elsewhere"


def test_b066_redeclaring_a_shared_queue_as_exclusive_is_405(ch):
    queue = ch.queue(durable=True)
    with ch.closes(405, locked(queue), "queue.declare"):
        ch.send("queue.declare", queue=queue, durable=True, exclusive=True)


def test_b066_redeclaring_an_exclusive_queue_as_shared(broker, ch):
    queue = ch.queue()
    with pytest.raises(client.Closed) as closed:
        ch.call("queue.declare", queue=queue, durable=True)
    client.same(closed.value, 405, locked(queue), "queue.declare")


@pytest.mark.parametrize(
    "arg, value, shown",
    [
        ("x-max-priority", "3", "3"),
        ("x-max-priority", 300, "300"),
        ("x-message-ttl", -5, "-5"),
        ("x-overflow", "nonsense", "nonsense"),
        ("x-dead-letter-exchange", 5, "5"),
        ("x-single-active-consumer", 5, "5"),
    ],
)
def test_b061_a_queue_that_exists_is_compared_before_arguments_are_checked(ch, arg, value, shown):
    arguments = {
        "x-max-priority": 3,
        "x-message-ttl": 100_000,
        "x-overflow": "drop-head",
        "x-dead-letter-exchange": "",
        "x-single-active-consumer": True,
    }
    queue = ch.queue(arguments=arguments)
    current = "true" if arguments[arg] is True else arguments[arg]
    text = (
        f"PRECONDITION_FAILED - inequivalent arg '{arg}' for queue '{queue}' in vhost '/': "
        f"received '{shown}' but current is '{current}'"
    )
    with ch.closes(406, text, "queue.declare"):
        ch.declare(queue, arguments=arguments | {arg: value})


def test_b061_arguments_of_another_queue_type_do_not_matter_to_a_queue_that_exists(ch):
    queue = ch.queue()
    ch.declare(queue, arguments={"x-quorum-initial-group-size": 3})


def test_b061_exclusivity_is_checked_before_everything_else(ch, ch2):
    queue = ch.queue()
    with ch2.closes(405, locked(queue), "queue.declare"):
        ch2.send("queue.declare", queue=queue, durable=True, auto_delete=True, arguments={"x-max-length": 5})


def test_b067_exclusive_queues_die_with_the_connection_not_the_channel(broker, ch):
    connection = broker.connect()
    first = connection.channel()
    queue = first.queue()
    first.shut()
    assert connection.channel().ready(queue) == 0
    connection.close()
    client.eventually(lambda: not exists(ch, queue))


def test_b067_its_name_is_free_again_after_the_close(broker):
    name = fresh("q")
    for _ in range(5):
        connection = broker.connect()
        client.eventually(lambda c=connection: declared(c, name), "declared again")
        connection.close()


def declared(connection, name):
    try:
        return connection.channel().queue(name)
    except client.ChannelClosed as closed:
        assert closed.code == 405
        return None


def test_b067_messages_of_an_exclusive_queue_are_not_dead_lettered_at_its_end(broker, ch):
    sink = ch.queue()
    connection = broker.connect()
    channel = connection.channel()
    queue = channel.queue(arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": sink})
    channel.put(queue, b"m")
    connection.close()
    client.eventually(lambda: not exists(ch, queue))
    assert ch.ready(sink) == 0


# ------------------------------------------------------------------------------------------ auto-delete, transient, expiry


def test_b068_auto_delete_queue_goes_with_its_last_cancelled_consumer(ch):
    queue = ch.queue(durable=True, auto_delete=True)
    first, second = ch.consume(queue), ch.consume(queue)
    ch.call("basic.cancel", consumer_tag=first)
    assert exists(ch, queue)
    ch.call("basic.cancel", consumer_tag=second)
    client.eventually(lambda: not exists(ch, queue))


def test_b068_auto_delete_queue_goes_when_its_consumers_channel_closes(conn, ch):
    queue = ch.queue(durable=True, auto_delete=True)
    other = conn.channel()
    other.consume(queue)
    other.shut()
    client.eventually(lambda: not exists(ch, queue))


def test_b068_auto_delete_queue_goes_when_its_consumers_connection_dies(broker, ch):
    queue = ch.queue(durable=True, auto_delete=True)
    connection = broker.connect()
    connection.channel().consume(queue)
    connection.kill()
    client.eventually(lambda: not exists(ch, queue))


def test_b068_never_consumed_auto_delete_queue_stays(broker, ch):
    connection = broker.connect()
    queue = connection.channel().queue(durable=True, auto_delete=True)
    connection.close()
    assert exists(ch, queue)


def test_b068_get_is_no_consumer(ch, conn):
    queue = ch.queue(durable=True, auto_delete=True)
    ch.put(queue, b"m")
    other = conn.channel()
    assert other.get(queue).body == b"m"
    other.shut()
    assert exists(ch, queue)


def test_b069_transient_shared_queue_is_accepted(conn, ch, ch2):
    queue = transient(conn, ch)
    ch.put(queue, b"m")
    assert ch2.get(queue).body == b"m"


def transient(connection, channel):
    """A queue that is neither durable nor exclusive: 4.3.6 permits it (with a warning in its log), as do all before 4.3."""
    queue = fresh("q")
    connection.track.append(("queue", connection, queue))
    channel.call("queue.declare", queue=queue)
    return queue


def test_b069_transient_shared_queue_outlives_its_connection(broker, ch):
    connection = broker.connect()
    queue = transient(connection, connection.channel())
    connection.close()
    assert exists(ch, queue)


def test_f022_unused_queue_expires(ch):
    queue = ch.queue(durable=True, arguments={"x-expires": 300})
    began = time.monotonic()
    other = ch.connection.channel()
    while True:  # looking at it passively must not renew it for ever: look rarely
        time.sleep(0.45)
        if not exists(other, queue):
            break
        assert time.monotonic() - began < 5


def test_f022_consumer_keeps_an_expiring_queue(ch):
    queue = ch.queue(durable=True, arguments={"x-expires": 200})
    tag = ch.consume(queue)
    ch.nothing(0.7)
    ch.put(queue, b"still here")
    ch.deliver(b"still here")
    ch.call("basic.cancel", consumer_tag=tag)
    time.sleep(0.5)
    client.eventually(lambda: not exists(ch, queue))


def test_f022_get_and_redeclare_renew_an_expiring_queue(ch):
    arguments = {"x-expires": 600}
    queue = ch.queue(durable=True, arguments=arguments)
    until = time.monotonic() + 1.5
    while time.monotonic() < until:
        assert ch.get(queue) is None
        time.sleep(0.15)
    until = time.monotonic() + 1.5
    while time.monotonic() < until:
        ch.call("queue.declare", queue=queue, durable=True, arguments=arguments)
        time.sleep(0.15)


def test_b141_messages_of_an_expiring_queue_are_not_dead_lettered(ch):
    sink = ch.queue()
    arguments = {"x-expires": 100, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": sink}
    queue = ch.queue(durable=True, arguments=arguments)
    ch.put(queue, b"m")
    time.sleep(0.4)
    client.eventually(lambda: not exists(ch, queue))
    assert ch.ready(sink) == 0


# ------------------------------------------------------------------------------------------ declare-ok, passive


def test_b070_declare_ok_counts_ready_messages_and_consumers(ch):
    queue = ch.queue()
    ch.put(queue, b"a", b"b", b"c")
    ok = ch.declare(queue)
    assert (ok.message_count, ok.consumer_count) == (3, 0)
    ch.get(queue)
    assert ch.declare(queue).message_count == 2
    ch.qos(1)
    ch.consume(queue)
    ch.deliver()
    ok = ch.declare(queue)
    assert (ok.message_count, ok.consumer_count) == (1, 1)


def test_b070_nowait_declare_answers_nothing(ch):
    name = fresh("q")
    ch.send("queue.declare", queue=name, exclusive=True, nowait=True)
    ok = ch.call("queue.declare", queue=name, passive=True)
    assert ok.queue == name
    ch.nothing()


@pytest.mark.parametrize("method", ["queue.bind", "queue.purge", "queue.delete"])
def test_b070_other_nowait_methods_answer_nothing(ch, method):
    queue = ch.queue()
    args = {"exchange": "amq.direct", "routing_key": "k"} if method == "queue.bind" else {}
    ch.send(method, queue=queue, nowait=True, **args)
    ch.qos(1)
    ch.nothing()


def test_b071_passive_declare_of_a_missing_queue_is_404(ch):
    with ch.closes(404, "NOT_FOUND - no queue 'nowhere' in vhost '/'", "queue.declare"):
        ch.ready("nowhere")


def test_b071_passive_declare_ignores_flags_and_arguments(ch):
    queue = ch.queue(durable=True)
    ch.call("queue.declare", queue=queue, passive=True, auto_delete=True, arguments={"x-max-length": -1})


# ------------------------------------------------------------------------------------------ argument errors

BAD_ARGUMENTS = [
    ("x-message-ttl", -1, "{value_negative,-1}"),
    ("x-message-ttl", "10", '"expected integer, got longstr"'),
    ("x-message-ttl", 1.5, '"expected integer, got double"'),
    ("x-message-ttl", 315_360_000_001, "{value_too_large,315360000001}"),
    ("x-expires", 0, "{value_zero,0}"),
    ("x-expires", -1, "{value_negative,-1}"),
    ("x-expires", "10", '"expected integer, got longstr"'),
    ("x-expires", 315_360_000_001, "{value_too_large,315360000001}"),
    ("x-max-length", -1, "{value_negative,-1}"),
    ("x-max-length", "10", '"expected integer, got longstr"'),
    ("x-max-length-bytes", -1, "{value_negative,-1}"),
    ("x-max-priority", -1, "{value_negative,-1}"),
    ("x-max-priority", 256, "{max_value_exceeded,256}"),
    ("x-max-priority", "5", '"expected integer, got longstr"'),
    ("x-dead-letter-routing-key", "k", "routing_key_but_no_dlx_defined"),
    ("x-overflow", "nonsense", "invalid_overflow"),
    ("x-overflow", 5, "{unacceptable_type,signedint}"),
    ("x-single-active-consumer", "yes", "{unacceptable_type,longstr}"),
    ("x-single-active-consumer", 1, "{unacceptable_type,signedint}"),
    ("x-message-ttl", True, '"expected integer, got bool"'),
    ("x-message-ttl", None, '"expected integer, got void"'),
    ("x-message-ttl", 2**63 - 1, "{value_too_large,9223372036854775807}"),
    ("x-queue-type", 5, "{unacceptable_type,signedint}"),
    ("x-queue-type", "nonsense", "\"unsupported queue type 'nonsense'\""),
    ("x-queue-version", 3, "\"unsupported queue version '3'\""),
    ("x-queue-version", "2", '"expected integer, got longstr"'),
]


@pytest.mark.parametrize("arg, value, reason", BAD_ARGUMENTS, ids=[f"{a}={v}" for a, v, _ in BAD_ARGUMENTS])
def test_b072_invalid_argument_is_406_with_its_reason(ch, arg, value, reason):
    queue = fresh("q")
    text = f"PRECONDITION_FAILED - invalid arg '{arg}' for queue '{queue}' in vhost '/': {reason}"
    with ch.closes(406, text, "queue.declare"):
        ch.declare(queue, durable=True, arguments={arg: value})


def test_b072_dead_letter_routing_key_of_a_wrong_type_is_406(ch):
    queue = fresh("q")
    text = (
        f"PRECONDITION_FAILED - invalid arg 'x-dead-letter-routing-key' for queue '{queue}' in vhost '/': "
        "{unacceptable_type,signedint}"
    )
    with ch.closes(406, text, "queue.declare"):
        ch.declare(queue, arguments={"x-dead-letter-exchange": "amq.fanout", "x-dead-letter-routing-key": 5})


def test_b076_dead_letter_exchange_of_a_wrong_type_is_406(ch):
    queue = fresh("q")
    text = f"PRECONDITION_FAILED - invalid type 'signedint' for arg 'x-dead-letter-exchange' in queue '{queue}' in vhost '/'"
    with ch.closes(406, text, "queue.declare"):
        ch.declare(queue, arguments={"x-dead-letter-exchange": 5})


def test_b072_leader_locator_is_checked_where_it_is_known(broker, ch):
    queue = fresh("q")
    if broker.flavor == "rabbitmq3":
        why = "in vhost '/' of queue type rabbit_classic_queue"
    else:
        why = "in vhost '/': invalid_queue_locator_arg"
    text = f"PRECONDITION_FAILED - invalid arg 'x-queue-leader-locator' for queue '{queue}' {why}"
    with ch.closes(406, text, "queue.declare"):
        ch.declare(queue, durable=True, arguments={"x-queue-leader-locator": "nonsense"})


def test_b072_leader_locator_balanced_is_accepted_since_3_13(broker, ch):
    if broker.flavor == "rabbitmq3":
        with pytest.raises(client.ChannelClosed):
            ch.declare(durable=True, arguments={"x-queue-leader-locator": "balanced"})
    else:
        ch.declare(durable=True, arguments={"x-queue-leader-locator": "balanced"})


@pytest.mark.parametrize(
    "arg, value",
    [
        ("x-message-ttl", 0),
        ("x-message-ttl", 315_360_000_000),
        ("x-expires", 315_360_000_000),
        ("x-max-length", 0),
        ("x-max-length-bytes", 0),
        ("x-max-priority", 255),
        ("x-overflow", "drop-head"),
        ("x-overflow", "reject-publish"),
        ("x-overflow", "reject-publish-dlx"),
        ("x-dead-letter-exchange", ""),
        ("x-queue-version", 2),
        ("x-single-active-consumer", False),
        ("x-consumer-timeout-of-nobody", -1),
    ],
)
def test_b072_boundary_values_are_accepted(ch, arg, value):
    ch.queue(durable=True, arguments={arg: value})


def test_b072_max_priority_0_is_accepted(broker, ch):
    ch.queue(durable=True, arguments={"x-max-priority": 0})


@pytest.mark.parametrize(
    "arg, value",
    [
        ("x-delivery-limit", 5),
        ("x-quorum-initial-group-size", 1),
        ("x-max-in-memory-length", 5),
        ("x-max-age", "1h"),
        ("x-stream-max-segment-size-bytes", 1000),
        ("x-initial-cluster-size", 1),
        ("x-dead-letter-strategy", "at-most-once"),
    ],
)
def test_b073_argument_of_another_queue_type_is_406(broker, ch, arg, value):
    queue = fresh("q")
    text = (
        f"PRECONDITION_FAILED - invalid arg '{arg}' for queue '{queue}' in vhost '/' of queue type rabbit_classic_queue"
    )
    with ch.closes(406, text, "queue.declare"):
        ch.declare(queue, durable=True, arguments={arg: value})


def test_b076_dead_letter_exchange_need_not_exist(ch):
    ch.queue(durable=True, arguments={"x-dead-letter-exchange": fresh("missing"), "x-dead-letter-routing-key": "k"})


def test_f067_queue_mode_is_accepted_and_compared(ch):
    queue = ch.queue(durable=True, arguments={"x-queue-mode": "lazy"})
    text = inequivalent("x-queue-mode", queue, "none", "the value 'lazy' of type 'longstr'")
    with ch.closes(406, text, "queue.declare"):
        ch.send("queue.declare", queue=queue, durable=True)


def test_f067_queue_mode_is_no_longer_checked_since_4(broker, ch):
    queue = fresh("q")
    if broker.flavor == "rabbitmq3":
        with pytest.raises(client.ChannelClosed) as closed:
            ch.declare(queue, durable=True, arguments={"x-queue-mode": "nonsense"})
        assert closed.value.text.endswith("\"unsupported queue mode 'nonsense'\"")
    else:
        ch.declare(queue, durable=True, arguments={"x-queue-mode": "nonsense"})


def test_f067_queue_version_1_is_refused_since_4_3(broker, ch):
    queue = fresh("q")
    if broker.flavor == "rabbitmq3":
        ch.declare(queue, durable=True, arguments={"x-queue-version": 1})
        return
    text = (
        f"PRECONDITION_FAILED - invalid arg 'x-queue-version' for queue '{queue}' in vhost '/': "
        "\"unsupported queue version '1'\""
    )
    with ch.closes(406, text, "queue.declare"):
        ch.declare(queue, durable=True, arguments={"x-queue-version": 1})


def test_f072_master_locator_is_541_in_4_3_but_not_in_warren(broker, conn, ch):
    if broker.flavor != "rabbitmq4":
        ch.declare(durable=True, arguments={"x-queue-master-locator": "min-masters"})
        return
    text = re.compile(r"INTERNAL_ERROR - Feature `queue_master_locator` is deprecated\.\nBy default, .*\.\.\.", re.S)
    with conn.closes(541, text, "queue.declare"):
        ch.declare(durable=True, arguments={"x-queue-master-locator": "min-masters"})


# ------------------------------------------------------------------------------------------ delete, purge


def test_b078_deleting_a_missing_queue_answers_0(ch):
    assert ch.call("queue.delete", queue=fresh("q")).message_count == 0


def test_b078_delete_counts_ready_messages(ch):
    queue = ch.queue()
    ch.put(queue, b"a", b"b", b"c")
    ch.get(queue)
    assert ch.call("queue.delete", queue=queue).message_count == 2


def test_b078_delete_if_unused_with_a_consumer_is_406(ch):
    queue = ch.queue()
    ch.consume(queue)
    with ch.closes(406, f"PRECONDITION_FAILED - queue '{queue}' in vhost '/' in use", "queue.delete"):
        ch.call("queue.delete", queue=queue, if_unused=True)


def test_b078_delete_if_empty_with_messages_is_406(ch):
    queue = ch.queue()
    ch.put(queue, b"m")
    with ch.closes(406, f"PRECONDITION_FAILED - queue '{queue}' in vhost '/' not empty", "queue.delete"):
        ch.call("queue.delete", queue=queue, if_empty=True)


def test_b078_if_empty_is_checked_before_if_unused(ch):
    queue = ch.queue()
    ch.qos(1)
    ch.consume(queue)
    ch.put(queue, b"a", b"b")
    with ch.closes(406, f"PRECONDITION_FAILED - queue '{queue}' in vhost '/' not empty", "queue.delete"):
        ch.call("queue.delete", queue=queue, if_unused=True, if_empty=True)


def test_b078_delete_if_unused_and_if_empty_of_such_a_queue_works(ch):
    queue = ch.queue()
    ch.call("queue.delete", queue=queue, if_unused=True, if_empty=True)
    assert not exists(ch, queue)


def test_b078_delete_if_empty_with_only_unacked_messages(ch):
    queue = ch.queue()
    ch.put(queue, b"m")
    ch.get(queue)
    ch.call("queue.delete", queue=queue, if_empty=True)


def test_b078_deleting_a_queue_removes_its_bindings(ch):
    queue, exchange = ch.queue(durable=True), ch.exchange("direct", durable=True)
    ch.bind(queue, exchange, "k")
    ch.call("queue.delete", queue=queue)
    ch.call("exchange.delete", exchange=exchange, if_unused=True)


def test_b078_acks_after_the_delete_are_still_accepted(ch):
    queue = ch.queue()
    ch.put(queue, b"a")
    tag = ch.get(queue).delivery_tag
    ch.call("queue.delete", queue=queue)
    ch.ack(tag)
    ch.queue()


def test_b080_purge_counts_ready_and_leaves_unacked(conn, ch):
    queue = ch.queue()
    ch.put(queue, b"a", b"b", b"c")
    other = conn.channel()
    assert other.get(queue).body == b"a"
    assert ch.call("queue.purge", queue=queue).message_count == 2
    assert ch.ready(queue) == 0
    other.shut()
    client.eventually(lambda: ch.ready(queue) == 1)
    assert ch.get(queue).body == b"a"


def test_b080_purging_an_empty_queue_answers_0(ch):
    assert ch.call("queue.purge", queue=ch.queue()).message_count == 0


def test_b080_purging_a_missing_queue_is_404(ch):
    with ch.closes(404, "NOT_FOUND - no queue 'nowhere' in vhost '/'", "queue.purge"):
        ch.call("queue.purge", queue="nowhere")


def test_b080_purged_messages_are_not_dead_lettered(ch):
    sink = ch.queue()
    queue = ch.queue(arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": sink})
    ch.put(queue, b"m")
    ch.call("queue.purge", queue=queue)
    ch.nothing()
    assert ch.ready(sink) == 0


def test_b068_an_auto_delete_queue_is_gone_when_its_last_consumers_close_is_answered(broker, ch):
    """amqp091-go's reconnect example declares it again at once."""
    for answered in ("basic.cancel", "channel.close", "connection.close") * 8:
        name, connection = fresh("q"), broker.connect()
        consumer = connection.channel()
        consumer.call("queue.declare", queue=name, durable=True, auto_delete=True)
        tag = consumer.consume(name)
        if answered == "basic.cancel":
            consumer.call("basic.cancel", consumer_tag=tag)
        elif answered == "channel.close":
            consumer.shut()
        else:
            connection.close()
        assert not exists(ch, name), answered


def test_b067_exclusive_queues_are_gone_when_the_connections_close_is_answered(broker, ch):
    for _ in range(8):
        connection = broker.connect()
        name = connection.channel().queue()
        connection.close()
        assert not exists(ch, name)


def test_deletions_that_arrive_together_are_answered_one_after_the_other(conn, ch):
    """Of durable queues, so that the disk answers them: whole batches are read while the first waits for it."""
    names = [client.fresh("together") for _ in range(1000)]
    try:
        for method in ("queue.declare", "queue.purge", "queue.delete"):
            more = {"durable": True} if method == "queue.declare" else {}
            sent = (wire.frame(1, ch.number, wire.method(method, queue=name, **more)) for name in names)
            conn.raw(b"".join(sent))
            for _ in names:
                ch.next(f"{method}-ok")
    finally:
        for name in names:
            ch.send("queue.delete", queue=name, nowait=True)
